"""What the sentences of the verdict count, compare and name."""

import json

import numpy as np
import pandas
import pytest

from dpgm.data.domain import Domain, Image
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.evaluation.evaluate import evaluate
from dpgm.evaluation.findings import NAMED
from dpgm.evaluation.verdict import verdict


def baskets(count=3000, seed=0, share=0.5, width=10):
    rng = np.random.default_rng(seed)
    return Records.from_dense(
        rng.random((count, width)) < share, Domain.of_items([f"item {at}" for at in range(width)])
    )


def sentence(texts, words):
    return next(text for text in texts if words in text)


def test_values_of_columns_are_no_items_of_a_record():
    rng = np.random.default_rng(0)
    bought = [
        rng.choice(["milk", "bread", "jam"], size, replace=False).tolist() for size in rng.integers(0, 4, 800)
    ]
    frame = pandas.DataFrame(
        {"age": rng.integers(18, 80, 800), "town": rng.choice(["a", "b"], 800), "bought": bought}
    )
    made = evaluate(frame, frame.sample(frac=1, random_state=0))
    assert made.data.kind == "mixed"
    assert made.items.lengths.real_mean == pytest.approx(np.mean([len(items) for items in bought]))
    assert made.items.lengths.real[0] == pytest.approx(np.mean([not items for items in bought]))


def test_records_that_are_a_sixth_shorter_are_not_called_good():
    """One record in twelve has lost most of its items, which is less than a tenth of the records."""

    def records(seed, long_share):
        rng = np.random.default_rng(seed)
        lengths = np.where(rng.random(3000) < long_share, 16, 4)
        held = rng.random((3000, 20)).argsort(axis=1) < lengths[:, None]
        return Records.from_dense(held, Domain.of_items([f"item {at}" for at in range(20)]))

    real = records(0, 0.08)
    judged = verdict(evaluate(real, records(1, 0.0), baselines={}))
    assert "Records hold 4.00 items on average" in sentence(judged.bad, "Records hold")
    assert judged.grade != "close"
    assert "items on average" in sentence(
        verdict(evaluate(real, records(2, 0.08), baselines={})).good, "Records hold"
    )


@pytest.mark.parametrize("open_items", [True, False])
def test_a_baseline_that_was_given_the_items_is_said_to_be(open_items):
    real = pandas.DataFrame(baskets().to_dense(np.uint8), columns=[f"item {at}" for at in range(10)])
    independent = real.apply(lambda column: np.random.default_rng(len(column.name)).permutation(column))
    worse = independent.where(np.random.default_rng(0).random(independent.shape) < 0.9, 0)
    sides = (
        (real, worse) if open_items else (baskets(), Records.from_dense(worse.to_numpy() == 1, baskets().domain))
    )
    judged = verdict(evaluate(*sides, epsilon=10.0))
    text = sentence(judged.bad + judged.good, "drawn independently")
    assert "simple method is better" in text
    assert ("all items known beforehand" in text) == open_items
    assert ("finds its items privately pays for that" in text) == open_items


def test_a_release_of_other_data_is_suspected(tmp_path):
    for name in ("real", "synthetic"):
        pandas.DataFrame({"age": range(20, 60), "town": ["a", "b"] * 20}).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    field = {"name": "price", "kind": "numeric", "low": "discover", "high": "discover"}
    (tmp_path / "other.json").write_text(json.dumps({"fields": [field]}))
    files = [f"{tmp_path}/real.csv", f"{tmp_path}/synthetic.csv"]
    with pytest.raises(UsageError, match=r"none of the columns that the domain names \(price\); is it the release"):
        evaluate(*files, domain=str(tmp_path / "other.json"))


def test_the_headline_names_the_one_pair_that_is_off():
    rng = np.random.default_rng(0)

    def people(turned):
        hidden = rng.normal(size=3000)
        weight = hidden + rng.normal(size=3000)
        frame = {"height": hidden, "weight": -weight if turned else weight}
        return pandas.DataFrame(frame | {f"c{at}": rng.normal(size=3000) for at in range(6)})

    judged = verdict(evaluate(people(False), people(True), baselines={}))
    assert judged.headline.endswith("; worst: the relation of height and weight.")


@pytest.mark.parametrize(
    ("off", "said"), [(2 * NAMED + 1, "1 more column is off;"), (2 * NAMED + 2, "2 more columns are off;")]
)
def test_one_more_column_is_one_column(off, said):
    real = pandas.DataFrame({f"c{at}": np.arange(400.0) % 10 for at in range(off)})
    judged = verdict(evaluate(real, real + 1000))
    assert any(text.startswith(said) for text in judged.bad)


def unlabelled(seed):
    rng = np.random.default_rng(seed)
    return Records.from_dense(rng.random((300, 64)) < 0.2, Domain((Image("image", 8, 8),)))


def test_images_without_labels_are_described_without_labels():
    made = evaluate(unlabelled(0), unlabelled(1), baselines={})
    texts = [text for _, text in verdict(made).marked]
    assert any(text.startswith("Images vary") for text in texts)
    assert any(text.startswith("The mean image differs") for text in texts)
    assert "label" not in " ".join(texts)
