"""A part of `experiments/verdict_fakes.py` on 2,000 rows: fakes with one thing wrong are not close, and the cause is named."""

import sys
from pathlib import Path

import numpy as np
import pytest

from dpgm.evaluation.evaluate import evaluate

ROOT = Path(__file__).parents[2]
SEED = 0  # one on which rules were chosen: the fakes must stay visible, but prove nothing about others
KINDS = (
    ("durations permuted", 0),  # clinic
    ("missing at random", 0),
    ("lists unrelated to the columns", 0),
    ("three-way relation lost", 0),  # survey
    ("relation weakened to half", 0),
    ("weekdays lost", 0),  # shop
    ("products do not hold", 0),
    ("one column decides another no longer", 1),  # loans
    ("missing together no longer", 0),
)


@pytest.fixture(scope="module")
def fakes():
    """The experiment's module, whose neighbours are imported by their names."""
    folder = str(ROOT / "experiments")
    sys.path.insert(0, folder)
    try:
        import verdict_fakes
    finally:
        sys.path.remove(folder)
    return verdict_fakes


@pytest.mark.parametrize(("kind", "at"), KINDS)
def test_a_fake_is_not_close_and_the_cause_is_named(fakes, kind, at):
    table, make, alternatives = fakes.KINDS[kind][at]
    real, held_out = (fakes.TABLES[table](2000, 2 * SEED + half) for half in (0, 1))
    fake = make(held_out, np.random.default_rng([SEED, list(fakes.KINDS).index(kind), at]))
    judged = evaluate(real, fake, baselines={}).verdict
    assert judged.grade != "close"
    assert fakes.named(judged.bad, alternatives), judged.bad


@pytest.mark.parametrize("table", ["clinic", "survey", "shop", "loans"])
def test_fresh_rows_are_close(fakes, table):
    judged = evaluate(*(fakes.TABLES[table](2000, seed) for seed in (2, 3)), baselines={}).verdict
    assert (judged.grade, judged.bad) == ("close", ())
