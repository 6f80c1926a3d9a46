"""Centred sums of pairs: equal to their definition, and within their bound."""

from dataclasses import replace

import numpy as np
import pytest

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.data.records import Records
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.statistics.centred_pairs import CentredPairs
from dpgm.statistics.statistic import GRID, STEPS

MIXED = Domain((ItemSet("items", tuple(range(6))), Categorical("colour", ("red", "green", "blue"))))
SETS = CentredPairs(MIXED, (0, 1, 3, 4, 6, 7), (14, 2, 0, 16, 8, 5), limit=400)


def rows(count, seed=0):
    draws = np.random.default_rng(seed)
    dense = draws.random((count, 9)) < [0.9, 0.2, 0.5, 0.1, 0.8, 0.3, 0, 0, 0]
    dense[np.arange(count), draws.integers(6, 9, count)] = True
    return Records.from_dense(dense, MIXED)


def vectors(sets, records):
    """The centred products of each record, by the definition."""
    centred = records.to_dense(np.float64)[:, sets.positions] - np.array(sets.offsets) / STEPS
    s = (centred**2).sum(axis=1)
    weights = np.floor(np.minimum(1, sets.limit / STEPS**2 / s) / GRID + 1e-9) * GRID
    i, j = sets.tuples.T
    return weights[:, None] * centred[:, i] * centred[:, j]


def exact_sums(sets, records):
    return Gateway(records, randomness=SeededRandomness(0)).release(sets.name, sets.query(), 0.0)


@pytest.mark.parametrize("limit", [1, 100, 400, 10_000])
def test_sums_equal_the_definition(limit):
    sets = replace(SETS, limit=limit)
    records = rows(300)
    assert np.allclose(exact_sums(sets, records).numpy(), vectors(sets, records).sum(axis=0), atol=1e-9)


def test_pairs_within_a_column_are_left_out():
    assert len(SETS.tuples) == 15 - 1


def test_the_bound_of_a_table_leaves_out_pairs_within_columns_and_is_reached():
    columns = 3
    table = Domain(tuple(Categorical(f"c{at}", (0, 1)) for at in range(columns)))
    sets = CentredPairs(table, tuple(range(6)), (8,) * 6, limit=STEPS**2)
    every = [[2 * at + (mask >> at & 1) for at in range(columns)] for mask in range(2**columns)]
    norms = np.linalg.norm(vectors(sets, Records.from_lists(every, table)), axis=1)
    assert sets.query().sensitivity == pytest.approx((1 / 3) ** 0.5)
    assert 0.99 * sets.query().sensitivity < norms.max() <= sets.query().sensitivity + 1e-12


@pytest.mark.parametrize("limit", [1, 100, 400, 10_000])
def test_no_record_exceeds_the_bound(limit):
    sets = replace(SETS, limit=limit)
    every = [[i for i in range(6) if mask >> i & 1] + [6 + colour] for mask in range(64) for colour in range(3)]
    norms = np.linalg.norm(vectors(sets, Records.from_lists(every, MIXED)), axis=1)
    assert norms.max() <= sets.query().sensitivity + 1e-12
    if limit in (100, 400):  # the bound is not idle
        assert norms.max() > 0.6 * sets.query().sensitivity
