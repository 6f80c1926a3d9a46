"""Scaled item counts: exact sums within their bound, for item sets and tables."""

from dataclasses import replace

import numpy as np
import pytest

from dpgm.data.domain import Categorical, Domain
from dpgm.data.records import Records
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.statistics.scaled_items import ScaledItems, ask_table
from dpgm.statistics.statistic import GRID, STEPS

ITEMS = Domain.of_items(8)
STATISTIC = ScaledItems(ITEMS, (16, 1, 7, 16, 3, 9, 12, 2), (14, 8, 0, 1, 16, 0, 8, 5), limit=60_000)
EVERY = Records.from_lists([[i for i in range(8) if mask >> i & 1] for mask in range(256)], ITEMS)
LIMITS = [1, 5_000, 60_000, 10**9]


def vectors(statistic, records):
    """Every record's contribution, by the definition."""
    scaled = (
        (records.to_dense(np.float64) - np.array(statistic.offsets) / STEPS) * np.array(statistic.scales) / STEPS
    )
    sizes = (scaled**2).sum(axis=1)
    weights = np.floor(np.minimum(1, np.sqrt(statistic.limit / STEPS**4 / sizes)) / GRID + 1e-9) * GRID
    return weights[:, None] * scaled


def exact_sums(statistic, records):
    return Gateway(records, randomness=SeededRandomness(0)).release(statistic.name, statistic.query(), 0.0).numpy()


@pytest.mark.parametrize("limit", LIMITS)
def test_sums_equal_the_definition(limit):
    statistic = replace(STATISTIC, limit=limit)
    records = EVERY.take(np.random.default_rng(0).integers(256, size=1_000))
    assert np.allclose(exact_sums(statistic, records), vectors(statistic, records).sum(axis=0), atol=1e-9)


@pytest.mark.parametrize("limit", LIMITS)
def test_no_record_exceeds_the_bound(limit):
    statistic = replace(STATISTIC, limit=limit)
    moved = np.array([exact_sums(statistic, EVERY.take(np.array([row]))) for row in range(256)])
    norms = np.linalg.norm(moved, axis=1)
    assert norms.max() <= statistic.query().sensitivity
    if limit in (5_000, 60_000):  # the bound is not idle
        assert norms.max() > 0.97 * statistic.query().sensitivity


def test_sizes_are_whole_and_exact():
    scaled = (STEPS * EVERY.to_dense(np.int64) - np.array(STATISTIC.offsets)) * np.array(STATISTIC.scales)
    assert np.array_equal(STATISTIC.sizes(EVERY), (scaled**2).sum(axis=1))


def test_an_empty_table_has_a_sum():
    assert np.array_equal(exact_sums(STATISTIC, EVERY.take(np.arange(0))), np.zeros(8))


TABLE = Domain(
    tuple(
        Categorical(name, tuple(range(size))) for name, size in (("a", 2), ("b", 3), ("c", 7), ("d", 1), ("e", 40))
    )
)


def table_rows(gaps):
    """300 random rows; with gaps, also rows that lack one value, and an empty row."""
    rng = np.random.default_rng(0)
    rows = [[int(rng.integers(column.start, column.stop)) for column in TABLE.table_columns] for _ in range(300)]
    if gaps:
        rows += [[value for at, value in enumerate(rows[0]) if at != column] for column in range(5)] + [[]]
    return Records.from_lists(rows, TABLE)


def test_counts_of_a_table_are_plain_counts_with_less_noise():
    statistic, rows = ScaledItems.of_table(TABLE), table_rows(gaps=False)
    assert np.array_equal(statistic.weight_steps(statistic.sizes(rows)), np.full(len(rows), round(1 / GRID)))
    measured = ask_table(Gateway(rows, randomness=SeededRandomness(0)), TABLE, len(rows), 0.0)
    assert np.allclose(measured.value.numpy(), rows.to_dense(np.float64).sum(axis=0), atol=1e-9)
    # 1 - 1/k per column, one quarter where there is one value, up to the rounding of 1/k
    assert statistic.query().sensitivity ** 2 == pytest.approx(1 / 2 + 2 / 3 + 6 / 7 + 1 / 4 + 1, abs=0.005)


def test_no_row_of_a_table_exceeds_its_bound_gaps_and_impossible_rows_included():
    statistic = ScaledItems.of_table(TABLE)
    rows = table_rows(gaps=True)
    several = Records.from_lists([list(range(TABLE.width)), [0, 1, 2, 3, 4], [0, 1]], TABLE)
    norms = [
        np.linalg.norm(exact_sums(statistic, part.take(np.array([row]))))
        for part in (rows, several)
        for row in range(len(part))
    ]
    assert 0.99 * statistic.query().sensitivity < max(norms) <= statistic.query().sensitivity
