"""Groups of rows: what is off in a small group, what occurs in synthetic rows only, and interactions of three columns."""

import numpy as np
import pandas
import pytest

from dpgm.evaluation.evaluate import evaluate


def patients(count=6000, seed=0):
    """Wards with ages of their own, a U-shaped cost, a skip rule, and an outcome that depends on two columns at once."""
    rng = np.random.default_rng(seed)
    ward = rng.choice(["heart", "bone", "eye", "child"], count, p=[0.4, 0.35, 0.235, 0.015])
    age = np.where(ward == "child", rng.integers(0, 15, count), rng.integers(18, 95, count))
    frame = pandas.DataFrame({"ward": ward, "age": age})
    frame["cost"] = (100 + (age - 50) ** 2 * rng.gamma(4, 0.25, count)).round()
    frame["smokes"] = rng.choice(["yes", "no"], count)
    frame["cigarettes"] = np.where(frame.smokes == "yes", rng.poisson(12, count) + 1.0, np.nan)
    frame["sex"] = rng.choice(["f", "m"], count)
    frame["well"] = np.where(
        (frame.sex == "f") ^ (frame.smokes == "yes"), rng.random(count) < 0.8, rng.random(count) < 0.2
    )
    return frame


def judge(fake):
    return evaluate(patients(), fake, baselines={}).verdict


def permuted(values, seed=0):
    return np.random.default_rng(seed).permutation(np.asarray(values))


def fake_children(frame):
    rows = frame.ward == "child"
    return frame.assign(age=np.where(rows, permuted(frame.age), frame.age))


def fake_interaction(frame):
    return frame.assign(well=permuted(frame.well))


FAKES = {
    "ages of one ward": (fake_children, ("ward = child", "age")),
    "no U-shape": (lambda f: f.assign(cost=permuted(f.cost)), ("age", "cost")),
    "answers after a no": (lambda f: f.assign(cigarettes=permuted(f.cigarettes)), ("smokes", "cigarettes")),
    "interaction of two columns": (fake_interaction, ("sex", "smokes", "well")),
}


@pytest.mark.parametrize("name", list(FAKES))
def test_fakes_in_groups_are_named(name):
    make, words = FAKES[name]
    judged = judge(make(patients(seed=1)))
    assert judged.grade != "close"
    assert any(all(word in text for word in words) for text in judged.bad), judged.bad


def test_combinations_of_no_real_row_are_counted():
    fake = patients(seed=1)
    fake.loc[(fake.smokes == "no") & (fake.index % 20 == 0), "cigarettes"] = 5.0
    found = [one for one in judge(fake).findings if one.kind == "impossible"]
    assert found
    assert 100 < found[0].numbers["synthetic_rows"] * found[0].numbers["synthetic"] < 200


@pytest.mark.parametrize("seed", range(1, 6))
def test_new_samples_are_close(seed):
    judged = judge(patients(seed=seed))
    assert (judged.grade, judged.bad) == ("close", ())
