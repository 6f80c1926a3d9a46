"""Rows taken from a weighted pool: as many as asked for, none too often, with counts near their expectations."""

import numpy as np
import pytest

from dpgm.trees import rounding
from dpgm.trees.rounding import choose_rows as choose_rows_by
from dpgm.trees.rules import TreeSamplingRules

SIZES = (5, 4, 6)
POOL = 6000


def choose_rows(*arguments):
    return choose_rows_by(*arguments, TreeSamplingRules())


def pool(seed=0):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, POOL) for size in SIZES], axis=1)
    return codes, 0.3 * codes[:, 0] - 0.4 * (codes[:, 1] == codes[:, 2]) + 0.2 * rng.normal(size=POOL)


def pair_error(codes, weights, rows):
    count, worst = len(rows), 0.0
    for i, j in ((0, 1), (0, 2), (1, 2)):
        cell = codes[:, i] * SIZES[j] + codes[:, j]
        expected = np.bincount(cell, weights, minlength=SIZES[i] * SIZES[j]) * count
        found = np.bincount(cell[rows], minlength=SIZES[i] * SIZES[j])
        worst += float(np.abs(found - expected).sum())
    return worst


def share(log_weights):
    weights = np.exp(log_weights)
    return weights / weights.sum()


@pytest.mark.parametrize("count", [1, 2, 50, 2000, 9000])
def test_as_many_rows_as_asked_for_and_none_more_often_than_its_weight_rounded_up(count):
    codes, log_weights = pool()
    rows = choose_rows(codes, SIZES, (1, 0, 2), log_weights, count, np.random.default_rng(0))
    assert len(rows) == count
    taken = np.bincount(rows, minlength=POOL)
    assert (taken <= np.ceil(count * share(log_weights) + 1e-9)).all()


def test_exchanged_rows_have_pairs_nearer_to_their_expectations(monkeypatch):
    codes, log_weights = pool()
    weights = share(log_weights)
    better = choose_rows(codes, SIZES, (1, 0, 2), log_weights, 2000, np.random.default_rng(0))
    monkeypatch.setattr(rounding, "HAS_NUMBA", False)
    plain = choose_rows(codes, SIZES, (1, 0, 2), log_weights, 2000, np.random.default_rng(0))
    assert pair_error(codes, weights, better) < 0.6 * pair_error(codes, weights, plain)
    alone = np.random.default_rng(0).choice(POOL, 2000, p=weights)
    assert pair_error(codes, weights, plain) < pair_error(codes, weights, alone)


def test_a_row_without_a_value_has_a_cell_of_its_own():
    codes, log_weights = pool()
    codes[::7, 1] = SIZES[1]
    rows = choose_rows(codes, SIZES, (0, 1, 2), log_weights, 1000, np.random.default_rng(0))
    expected = share(log_weights)[::7].sum()
    assert np.mean(rows % 7 == 0) == pytest.approx(expected, abs=0.01)


def test_long_columns_are_cut_into_coarser_codes():
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, 500, POOL), rng.integers(0, 3, POOL)], axis=1)
    rows = choose_rows(codes, (500, 3), (0, 1), np.zeros(POOL), 1500, rng)
    assert np.abs(np.bincount(codes[rows, 1]) / 1500 - np.bincount(codes[:, 1]) / POOL).max() < 0.01
