"""Combinations that no real row has, where each alone is too rare to be told from chance."""

import numpy as np
import pandas
import pytest

from dpgm.evaluation.evaluate import evaluate
from dpgm.evaluation.traits import ordered
from dpgm.evaluation.unseen_pairs import compare_unseen


def addresses(count=2000, seed=0, codes=60):
    """Postcodes, each of one of six towns, and a house number that has nothing to do with either."""
    rng = np.random.default_rng(seed)
    code = rng.integers(codes, size=count)
    towns = np.array(["Aachen", "Bonn", "Dresden", "Halle", "Hof", "Kiel"])
    house = rng.integers(1, 40, count)
    return pandas.DataFrame(
        {"postcode": [f"{at:05d}" for at in code], "town": towns[code * 6 // codes], "house": house}
    )


def judge(fake, real=None):
    return evaluate(addresses() if real is None else real, fake, baselines={}).verdict


def test_one_column_that_no_longer_decides_another_is_named():
    fake = addresses(seed=1)
    wrong = np.random.default_rng(2).random(len(fake)) < 0.06
    fake.loc[wrong, "town"] = np.random.default_rng(3).permutation(fake.town)[wrong]
    judged = judge(fake)
    (found,) = [one for one in judged.findings if one.kind == "unseen"]
    assert judged.grade != "close"
    assert found.subject == ("postcode", "town")
    assert found.numbers["real"] == 0
    assert 0.03 < found.numbers["synthetic"] < 0.07
    assert "combinations of postcode and town" in judged.headline


def test_a_column_of_hundreds_of_categories_that_no_longer_decides_another_is_named():
    real, fake = addresses(10_000, 0, 500), addresses(10_000, 1, 500)
    wrong = np.random.default_rng(2).random(len(fake)) < 0.06
    fake.loc[wrong, "town"] = np.random.default_rng(3).permutation(fake.town)[wrong]
    assert any("postcode and town" in text for text in judge(fake, real).bad)
    assert judge(addresses(10_000, 4, 500), real).grade == "close"


def test_rows_that_repeat_a_few_real_rows_are_found_and_nothing_is_said_twice():
    rng = np.random.default_rng(0)
    real = rng.integers(40, size=(3000, 2)).astype(float)
    fake = real[rng.choice(600, 3000)]
    traits = [ordered(name, [real[:, at], fake[:, at]]) for at, name in enumerate(("day", "price"))]
    (found,) = compare_unseen(traits, (), set(), 0.1, 0.01)
    assert found.synthetic < found.real - 0.1
    assert compare_unseen(traits, (), {frozenset(["day", "price"])}, 0.1, 0.01) == ()
    assert compare_unseen(traits, (), {frozenset(["price"])}, 0.1, 0.01) == ()


@pytest.mark.parametrize("seed", range(1, 6))
def test_new_samples_are_close(seed):
    judged = judge(addresses(seed=seed))
    assert (judged.grade, judged.bad) == ("close", ())


def test_rows_in_groups_of_their_own_are_no_new_combinations():
    """Households follow each other: they are looked up together or not at all."""

    def households(seed):
        rng = np.random.default_rng(seed)
        home, work = rng.integers(0, 40, (2, 1000))
        return pandas.DataFrame({"home": np.repeat(home, 3), "work": np.repeat(work, 3)}).astype(str)

    found = [one for seed in range(1, 6) for one in judge(households(seed), households(0)).findings]
    assert not any(one.kind == "unseen" for one in found)
