"""Downstream learning: train on synthetic records, test on real ones, beside training on real ones.

Tables and labelled sets use scikit-learn models (an extra: `pip install 'dpgm[learn]'`); images a small
convolutional network in torch that trains in seconds on one core.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Image
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.evaluation.comparable import check_comparable
from dpgm.evaluation.image_classifier import image_accuracy as image_accuracy
from dpgm.evaluation.image_classifier import label_field
from dpgm.evaluation.marginals import field_codes

MOST_ROWS = 20_000  # rows used for training a model; more changes accuracies little


@dataclass(frozen=True)
class Accuracy:
    """Accuracy on real test records of one kind of model trained on synthetic and on real records."""

    model: str
    synthetic: float
    real: float
    majority: float  # always answering the most frequent label
    test_records: int


def split(records: Records, share: float = 0.25, most: int = 5_000, seed: int = 0) -> tuple[Records, Records]:
    """Train and test records, at random; at most `most` of them for the test."""
    order = np.random.default_rng(seed).permutation(len(records))
    cut = len(records) - min(most, max(1, int(len(records) * share)))
    return records.take(order[:cut]), records.take(order[cut:])


def downstream(
    real: Records, synthetic: Records, test: Records | None = None, seed: int = 0
) -> tuple[Accuracy, ...]:
    """Accuracies of classifiers of the domain's label, tested on real records.

    Args:
        real: real records; a quarter of them, at most 5,000, is set aside for testing if `test` is None.
        synthetic: records over the same domain.
        test: real records that no fit has seen.
        seed: of the split and the models.

    Raises:
        UsageError: the domain names no label, the label takes one value only, or scikit-learn is missing.
    """
    check_comparable(real, synthetic)
    label = label_field(real.domain)
    train, held_out = (real, test) if test is not None else split(real, seed=seed)
    check_comparable(real, held_out)
    target = field_codes(held_out, label)
    known = target < real.domain.fields[label].width
    held_out, target = held_out.take(np.flatnonzero(known)), target[known]
    for name, records in (("real", train), ("synthetic", synthetic)):
        if len(np.unique(field_codes(records, label))) < 2:
            raise UsageError(f"the label takes only one value in the {name} data, so nothing can be learnt.")
    classes = np.bincount(field_codes(train, label))
    majority = float((target == int(classes.argmax())).mean())
    if any(isinstance(field, Image) for field in real.domain.fields):
        scores = [image_accuracy(records, held_out, seed=seed) for records in (synthetic, train)]
        return (Accuracy("convolutional network", scores[0], scores[1], majority, len(held_out)),)
    models = _models(seed)
    train, synthetic = _thin(train, seed), _thin(synthetic, seed)
    results = []
    for name, (ours, theirs) in ((name, (_fresh(model), _fresh(model))) for name, model in models):
        scores = [
            _score(model, records, held_out, target, label)
            for model, records in ((ours, synthetic), (theirs, train))
        ]
        results.append(Accuracy(name, scores[0], scores[1], majority, len(held_out)))
    return tuple(results)


def _models(seed: int) -> tuple[tuple[str, Any], ...]:
    try:
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.naive_bayes import BernoulliNB
    except ImportError as error:
        raise UsageError("scikit-learn is not installed: pip install 'dpgm[learn]'.") from error
    forest = RandomForestClassifier(60, max_depth=16, min_samples_leaf=2, random_state=seed)
    return (
        ("logistic regression", LogisticRegression(max_iter=300, random_state=seed)),
        ("random forest", forest),
        ("naive Bayes", BernoulliNB()),
    )


def _fresh(model: Any) -> Any:
    from sklearn.base import clone

    return clone(model)


def _thin(records: Records, seed: int) -> Records:
    if len(records) <= MOST_ROWS:
        return records
    return records.take(np.sort(np.random.default_rng(seed).permutation(len(records))[:MOST_ROWS]))


def _score(model: Any, train: Records, test: Records, target: NDArray[np.int64], label: int) -> float:
    answers = field_codes(train, label)
    known = answers < train.domain.fields[label].width
    features = _features(train, label)[known]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a solver that stops early is still a fair comparison of both sides
        model.fit(features, answers[known])
        predicted = model.predict(_features(test, label))
    return float((predicted == target).mean())


def _features(records: Records, label: int) -> Any:
    from scipy import sparse

    block = records.domain.blocks[label]
    matrix = sparse.csr_array(
        (
            np.ones(len(records.indices), dtype=np.float32),
            records.indices.astype(np.int32),
            records.indptr.astype(np.int32),  # the forest takes 32-bit indices only
        ),
        shape=(len(records), records.width),
    )
    keep = np.r_[0 : block.start, block.stop : records.width]
    return matrix[:, keep]
