from dataclasses import replace

import numpy as np
import pytest

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.statistics.scaled_items import ScaledItems
from dpgm.statistics.statistic import GRID, STEPS

ITEMS = Domain.of_items(8)
ASKED = ScaledItems(ITEMS, (16, 1, 7, 16, 3, 9, 12, 2), (14, 8, 0, 1, 16, 0, 8, 5), limit=60_000)
EVERY = Records.from_lists([[i for i in range(8) if mask >> i & 1] for mask in range(256)], ITEMS)
LIMITS = [1, 5_000, 60_000, 10**9]


def vectors(asked, records):
    """Every record's contribution, by the definition."""
    scaled = (records.to_dense(np.float64) - np.array(asked.offsets) / STEPS) * np.array(asked.scales) / STEPS
    sizes = (scaled**2).sum(axis=1)
    weights = np.floor(np.minimum(1, np.sqrt(asked.limit / STEPS**4 / sizes)) / GRID + 1e-9) * GRID
    return weights[:, None] * scaled


def ask(asked, records):
    return Gateway(records, randomness=SeededRandomness(0)).release(asked.name, asked.query(), 0.0).numpy()


@pytest.mark.parametrize("limit", LIMITS)
def test_sums_equal_the_definition(limit):
    asked = replace(ASKED, limit=limit)
    records = EVERY.take(np.random.default_rng(0).integers(256, size=1_000))
    assert np.allclose(ask(asked, records), vectors(asked, records).sum(axis=0), atol=1e-9)


@pytest.mark.parametrize("limit", LIMITS)
def test_no_record_exceeds_the_bound(limit):
    asked = replace(ASKED, limit=limit)
    moved = np.array([ask(asked, EVERY.take(np.array([row]))) for row in range(256)])
    norms = np.linalg.norm(moved, axis=1)
    assert norms.max() <= asked.sensitivity
    if limit in (5_000, 60_000):  # the bound is not idle
        assert norms.max() > 0.97 * asked.sensitivity


def test_sizes_are_whole_and_exact():
    scaled = (STEPS * EVERY.to_dense(np.int64) - np.array(ASKED.offsets)) * np.array(ASKED.scales)
    assert np.array_equal(ASKED.sizes(EVERY), (scaled**2).sum(axis=1))


def test_an_empty_table_has_a_sum():
    assert np.array_equal(ask(ASKED, EVERY.take(np.arange(0))), np.zeros(8))
