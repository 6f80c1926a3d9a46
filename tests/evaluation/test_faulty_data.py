"""Faulty synthetic data: for every fault there must be a rule of the verdict that notices it and a sentence that says it."""

import numpy as np
import pandas
import pytest

from dpgm.data.domain import Categorical, Domain, Image
from dpgm.data.read.frames import as_records
from dpgm.data.records import Records
from dpgm.evaluation.evaluate import evaluate
from dpgm.evaluation.verdict import verdict


def patients(count=4000, seed=0):
    """A hospital-like table: skewed money, a peak at 0, gaps, dates, a rare ward, correlated numbers."""
    rng = np.random.default_rng(seed)
    frail = rng.normal(size=count)
    age = np.clip(55 + 15 * frail + rng.normal(size=count) * 8, 0, 100).round()
    stay = np.where(rng.random(count) < 0.35, 0, 1 + rng.poisson(np.exp(0.8 + 0.3 * frail)))
    cost = (np.exp(6 + 0.8 * rng.normal(size=count)) * (1 + stay / 4)).round(2)
    ward = rng.choice(["heart", "bone", "child", "eye", "burns"], count, p=[0.35, 0.3, 0.2, 0.12, 0.03])
    frame = pandas.DataFrame({"age": age, "stay": stay, "cost": cost, "ward": ward})
    frame["weight"] = np.where(rng.random(count) < 0.12, np.nan, (70 + 12 * rng.normal(size=count)).round(1))
    frame["admitted"] = pandas.Timestamp("2020-01-01") + pandas.to_timedelta(rng.integers(0, 730, count), unit="D")
    frame["smokes"] = rng.random(count) < 0.2 + 0.5 * (ward == "heart")
    return frame


def shuffled(frame, name, seed=0):
    return frame.assign(**{name: np.random.default_rng(seed).permutation(frame[name].to_numpy())})


def fresh():
    return patients(seed=1)


def repeated(frame, distinct):
    return frame.iloc[np.random.default_rng(0).integers(0, distinct, len(frame))].reset_index(drop=True)


TABLE_FAULTS = {
    "numbers shifted": (lambda f: f.assign(age=f.age + 5), "age"),
    "another unit": (lambda f: f.assign(cost=f.cost * 100), "cost"),
    "dates shifted": (lambda f: f.assign(admitted=f.admitted + pandas.Timedelta(days=60)), "admitted"),
    "mode lost": (lambda f: f.assign(stay=np.where(f.stay == 0, 1, f.stay)), "stay"),
    "mode spread within a bin": (lambda f: f.assign(stay=f.stay + np.random.default_rng(0).random(len(f))), "stay"),
    "mode invented": (lambda f: f.assign(cost=np.where(f.index % 8 == 0, 500.0, f.cost)), "cost"),
    "tails cut off": (lambda f: f.assign(cost=f.cost.clip(upper=f.cost.quantile(0.9))), "cost"),
    "missing values filled": (lambda f: f.assign(weight=f.weight.fillna(70)), "weight"),
    "too many gaps": (lambda f: f.assign(weight=f.weight.where(f.index % 4 > 0)), "weight"),
    "a column without values": (lambda f: f.assign(weight=np.nan), "weight"),
    "constant column": (lambda f: f.assign(age=f.age.median()), "age"),
    "rounded to tens": (lambda f: f.assign(age=(f.age / 10).round() * 10), "age"),
    "rare category dropped": (lambda f: f.assign(ward=f.ward.replace("burns", "eye")), "burns"),
    "labels swapped": (lambda f: f.assign(ward=f.ward.replace({"heart": "child", "child": "heart"})), "ward"),
    "wrong share": (lambda f: f.assign(smokes=f.smokes | (f.index % 6 == 0)), "smokes"),
    "tie of numbers lost": (lambda f: shuffled(f, "stay"), "stay"),
    "tie of numbers turned": (lambda f: f.assign(stay=shuffled(f, "stay").stay, cost=f.cost.sort_values(ascending=False).to_numpy()), "cost"),
    "tie of categories lost": (lambda f: shuffled(f, "smokes"), "smokes"),
    "all rows equal": (lambda f: pandas.concat([f.iloc[:1]] * len(f), ignore_index=True), "column"),
    "few rows repeated": (lambda f: repeated(f, 300), "Records are repeated"),
    "one row in twenty copied": (lambda f: pandas.concat([patients().iloc[:200], f.iloc[200:]], ignore_index=True), "equal a real record"),
}  # fmt: skip


@pytest.mark.parametrize("fault", list(TABLE_FAULTS))
def test_faults_of_tables_are_noticed(fault):
    make, word = TABLE_FAULTS[fault]
    judged = verdict(evaluate(patients(), make(fresh()), baselines={}))
    assert judged.grade != "close"
    assert any(word in text for text in judged.bad), judged.bad


def test_a_fresh_table_of_the_same_kind_is_close():
    judged = verdict(evaluate(patients(), fresh(), baselines={}))
    assert (judged.grade, judged.bad) == ("close", ())


WIDTH = 60


def baskets(count=6000, seed=0):
    """Items of a long-tailed shop; two kinds of customers, and a pair that always goes together."""
    rng = np.random.default_rng(seed)
    chances = 0.5 / (1 + np.arange(WIDTH)) ** 0.9
    kinds = rng.random((count, 1)) < 0.4
    held = rng.random((count, WIDTH)) < np.where(kinds, chances, np.roll(chances, 7) * 0.8)
    held[:, 11] = held[:, 3]
    return held


def of(held):
    return Records.from_dense(held, Domain.of_items([f"item {at}" for at in range(WIDTH)]))


def thinned(held, share, seed=0):
    return held & (np.random.default_rng(seed).random(held.shape) < share)


def independent(held, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(column) for column in held.T], axis=1)


def cut(held, longest):
    return held & (np.cumsum(held, axis=1) <= longest)


def copied(held, rows):
    """Real records that occur once, put in place of others."""
    real = baskets()
    _, first, counts = np.unique(real, axis=0, return_index=True, return_counts=True)
    held[:rows] = real[first[counts == 1][:rows]]
    return held


def without(held, items):
    held[:, items] = False
    return held


SET_FAULTS = {
    "records too short": (lambda h: thinned(h, 0.6), "items on average"),
    "records too long": (lambda h: h | baskets(seed=5) & (np.random.default_rng(0).random((len(h), 1)) < 0.5), "items on average"),
    "long records cut": (lambda h: cut(h, 3), "items on average"),
    "a popular item dropped": (lambda h: without(h, [1]), "item 1"),
    "rare items dropped": (lambda h: without(h, np.arange(45, WIDTH)), "nearly missing"),
    "items independent": (independent, "two items together"),
    "all records equal": (lambda h: np.repeat(h[np.argmax(h.sum(axis=1))][None], len(h), axis=0), "single item"),
    "all records empty": (lambda h: h & False, "single item"),
    "few records repeated": (lambda h: h[np.random.default_rng(0).integers(0, 150, len(h))], "Records are repeated"),
    "records copied": (lambda h: copied(h, 600), "equal a real record"),
    "items relabelled": (lambda h: h[:, ::-1], "single item"),
}  # fmt: skip


@pytest.mark.parametrize("fault", list(SET_FAULTS))
def test_faults_of_sets_are_noticed(fault):
    make, word = SET_FAULTS[fault]
    judged = verdict(evaluate(of(baskets()), of(make(baskets(seed=1))), baselines={}))
    assert judged.grade != "close"
    assert any(word in text for text in judged.bad), judged.bad


def test_fresh_baskets_of_the_same_kind_are_close():
    judged = verdict(evaluate(of(baskets()), of(baskets(seed=1)), baselines={}))
    assert judged.grade == "close", judged.bad


DIGITS = Domain((Image("image", 8, 8), Categorical("label", (0, 1, 2))), label="label")


def digits(count=600, seed=0):
    """Bars in three places, with noise."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, count)
    images = rng.random((count, 8, 8)) < 0.12
    for row, one in enumerate(label):
        images[row, 2 * one : 2 * one + 3] |= rng.random((3, 8)) < 0.75
    return images, label


def pictures(images, label):
    return Records.from_dense(np.concatenate([images.reshape(len(images), -1), np.eye(3)[label]], axis=1), DIGITS)


def prototypes(images, label):
    return np.stack([images[label == one][0] for one in range(3)])[label], label


IMAGE_FAULTS = {
    "one image per label": (prototypes, "vary"),
    "labels permuted": (lambda i, y: (i, (y + 1) % 3), "trained on synthetic"),
    "a label missing": (lambda i, y: (i[y > 0], y[y > 0]), "shares of the labels"),
    "noise": (lambda i, y: (np.random.default_rng(0).random(i.shape) < 0.3, y), "trained on synthetic"),
    "inverted": (lambda i, y: (~i, y), "per pixel"),
    "moved": (lambda i, y: (np.roll(i, 2, axis=1), y), "per pixel"),
    "too little ink": (lambda i, y: (i & (np.random.default_rng(0).random(i.shape) < 0.6), y), "per pixel"),
    "copies": (lambda i, y: digits(), "equal a real record"),
}


QUICK = ("one image per label", "copies")


@pytest.mark.parametrize(
    "fault", [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in IMAGE_FAULTS]
)
def test_faults_of_images_are_noticed(fault):
    make, word = IMAGE_FAULTS[fault]
    judged = verdict(evaluate(pictures(*digits()), pictures(*make(*digits(seed=1))), baselines={}))
    assert judged.grade != "close"
    assert any(word in text for text in judged.bad), judged.bad


def test_fresh_images_of_the_same_kind_are_close():
    judged = verdict(evaluate(pictures(*digits()), pictures(*digits(seed=1)), baselines={}))
    assert judged.grade == "close", judged.bad


@pytest.mark.parametrize("seed", range(3))
def test_short_sets_of_a_few_people_are_no_copies(seed):
    rng = np.random.default_rng(seed)
    shares = 0.1  # of each item, so that many sets of one item occur once
    real, fresh = (as_records((rng.random((200, 30)) < shares).astype(np.uint8)) for _ in range(2))
    shorter = as_records((fresh.to_dense(np.uint8) * (rng.random((200, 30)) < 0.4)).astype(np.uint8))
    for synthetic in (fresh, shorter):
        assert verdict(evaluate(real, synthetic)).grade != "copies"
    assert verdict(evaluate(real, real)).grade == "copies"
