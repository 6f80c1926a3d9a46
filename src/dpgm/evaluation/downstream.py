"""Downstream accuracy: classifiers trained on synthetic and on real records, both tested on real records.

Tables and labelled sets use scikit-learn models (an extra: `pip install 'dpgm[learn]'`); images a small
convolutional network in torch that trains in seconds on one core.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpgm.data.domain import Domain, Image
from dpgm.data.records import Records, grey_values
from dpgm.errors import UsageError
from dpgm.evaluation.inputs import check_comparable
from dpgm.evaluation.marginals import categorical_label, field_codes

TEST_SHARE, MOST_TEST = 0.25, 5_000  # records set aside for testing, where the user gives none
MOST_TRAINING_ROWS = 20_000  # rows for training a scikit-learn model; more change accuracies little
MOST_IMAGES = 60_000  # images for training the network
CNN_VISITS = 30_000  # training examples shown to the network, repetitions included: about ten seconds on one core
MOST_EPOCHS = 20  # where there are few training records
# Models have their libraries' default settings, but for sizes that train within seconds: fair, not tuned.
TREES, DEPTH, LEAF = 60, 16, 2  # random forest
ITERATIONS = 300  # logistic regression; it does not converge within fewer
CHANNELS, HIDDEN = (16, 32), 96  # network for images
TRAINING_BATCH = 128
FIRST_RATE, LARGEST_RATE = 1e-3, 3e-3  # learning rates of Adam's one-cycle schedule
TEST_BATCH = 500  # test images at a time, to limit memory


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of one kind of model on real test records, trained on synthetic and on real records."""

    model: str
    synthetic: float
    real: float
    majority: float  # accuracy of always predicting the most frequent label
    test_records: int


def downstream(
    real: Records, synthetic: Records, test: Records | None = None, seed: int = 0
) -> tuple[Accuracy, ...]:
    """Accuracies of classifiers of the domain's label on `test`: real records that no fit has seen.

    If `test` is None, a quarter of the real records, at most 5,000, is set aside for testing.
    """
    check_comparable(real, synthetic)
    label = label_field(real.domain)
    if len(real.domain.fields) == 1:
        raise UsageError("there is nothing besides the label to predict it from.")
    train, held_out = (real, test) if test is not None else _split(real, seed)
    check_comparable(real, held_out)
    held_out = _labelled(held_out, label)
    for name, records in (("real", train), ("synthetic", synthetic)):
        if len(np.unique(field_codes(records, label))) < 2:
            raise UsageError(f"the label takes only one value in the {name} data, so nothing can be learnt.")
    most_frequent = int(np.bincount(field_codes(train, label)).argmax())
    majority = float((field_codes(held_out, label) == most_frequent).mean())
    if real.domain.image is not None:
        scores = [image_accuracy(records, held_out, seed=seed) for records in (synthetic, train)]
        return (Accuracy("convolutional network", scores[0], scores[1], majority, len(held_out)),)
    results = []
    for name, model in _models(seed):
        scores = [_score(model, _thin(records, seed), held_out, label) for records in (synthetic, train)]
        results.append(Accuracy(name, scores[0], scores[1], majority, len(held_out)))
    return tuple(results)


def _split(records: Records, seed: int) -> tuple[Records, Records]:
    """Random training and test records."""
    order = np.random.default_rng(seed).permutation(len(records))
    cut = len(records) - min(MOST_TEST, max(1, int(len(records) * TEST_SHARE)))
    return records.take(order[:cut]), records.take(order[cut:])


def _models(seed: int) -> tuple[tuple[str, Any], ...]:
    try:
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.naive_bayes import BernoulliNB
    except ImportError as error:
        raise UsageError("scikit-learn is not installed: pip install 'dpgm[learn]'.") from error
    forest = RandomForestClassifier(TREES, max_depth=DEPTH, min_samples_leaf=LEAF, random_state=seed)
    return (
        ("logistic regression", LogisticRegression(max_iter=ITERATIONS, random_state=seed)),
        ("random forest", forest),
        ("naive Bayes", BernoulliNB()),
    )


def _thin(records: Records, seed: int) -> Records:
    if len(records) <= MOST_TRAINING_ROWS:
        return records
    return records.take(np.sort(np.random.default_rng(seed).permutation(len(records))[:MOST_TRAINING_ROWS]))


def _labelled(records: Records, label: int) -> Records:
    """The records that have a label."""
    return records.take(np.flatnonzero(field_codes(records, label) < records.domain.fields[label].width))


def _score(model: Any, train: Records, test: Records, label: int) -> float:
    train = _labelled(train, label)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a solver that stops early still treats both data sets alike
        model.fit(_features(train, label), field_codes(train, label))
        predicted = model.predict(_features(test, label))
    return float((predicted == field_codes(test, label)).mean())


def _features(records: Records, label: int) -> Any:
    block = records.domain.blocks[label]
    matrix = records.to_scipy().astype(np.float32)[:, np.r_[0 : block.start, block.stop : records.width]]
    matrix.indptr, matrix.indices = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
    return matrix  # the forest takes 32-bit indices only


def label_field(domain: Domain) -> int:
    """Index of the categorical field that the domain names as its label."""
    if domain.label is None:
        raise UsageError("the domain names no label field.")
    at = categorical_label(domain)
    if at is None:
        raise UsageError(f"the label {domain.label!r} is not a categorical field.")
    return at


def image_accuracy(train: Records, test: Records, *, visits: int = CNN_VISITS, seed: int = 0) -> float:
    """Accuracy on `test` of a small convolutional network trained on the images and labels of `train`.

    Two convolutions with pooling, one hidden layer, Adam with a one-cycle learning rate. The network is trained on
    `visits` examples, repeating the records up to 20 times.
    """
    import torch
    from torch import nn

    label = label_field(train.domain)
    picture = train.domain.image
    if picture is None:
        raise UsageError("the records hold no images.")
    images, answers = _image_tensors(train.rows(0, min(MOST_IMAGES, len(train))), picture, label)
    generator = torch.Generator().manual_seed(seed)
    pooled_pixels = (picture.height // 4) * (picture.columns // 4)
    if pooled_pixels == 0:
        raise UsageError("images below 4 x 4 pixels are too small for the convolutional network.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # initial weights; public, and the caller's state is restored
        network = nn.Sequential(
            nn.Conv2d(1, CHANNELS[0], 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(*CHANNELS, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(CHANNELS[1] * pooled_pixels, HIDDEN), nn.ReLU(),
            nn.Linear(HIDDEN, train.domain.fields[label].width),
        )  # fmt: skip
    steps = max(1, min(visits, MOST_EPOCHS * len(answers)) // TRAINING_BATCH)
    optimizer = torch.optim.Adam(network.parameters(), lr=FIRST_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=LARGEST_RATE, total_steps=steps + 1)
    order = torch.randperm(len(answers), generator=generator)
    at = 0
    for _ in range(steps):
        if at + TRAINING_BATCH > len(order) and at > 0:
            order, at = torch.randperm(len(answers), generator=generator), 0
        batch = order[at : at + TRAINING_BATCH]
        at += TRAINING_BATCH
        loss = nn.functional.cross_entropy(network(images[batch].float()), answers[batch])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    images, answers = _image_tensors(test, picture, label)
    with torch.no_grad():
        right = [
            (network(images[at : at + TEST_BATCH].float()).argmax(1) == answers[at : at + TEST_BATCH]).sum()
            for at in range(0, len(answers), TEST_BATCH)
        ]
    return float(sum(right)) / max(1, len(answers))


def _image_tensors(records: Records, picture: Image, label: int) -> tuple[Any, Any]:
    import torch

    records = _labelled(records, label)
    images = torch.from_numpy(grey_values(records, picture)).unsqueeze(1)
    return images, torch.from_numpy(field_codes(records, label))
