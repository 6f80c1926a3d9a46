"""Items of lists beside columns: sums equal to their definition, within their bound, and the same on a pool."""

from itertools import combinations

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.data.records import Records
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.statistics.clipped_vectors import ClippedVectors, VectorFeatures
from dpgm.statistics.coded_rows import Coding
from dpgm.statistics.list_vectors import ITEMS_BY_VALUES, ItemsByColumns, ItemsTogether, ListItems
from dpgm.statistics.statistic import GRID, STEPS, release
from dpgm.testing import assert_bounded, assert_playback_invariant

DOMAIN = Domain(
    (
        Categorical("ward", ("a", "b", "c")),
        ItemSet("drugs", tuple(range(5))),
        Categorical("sex", ("f", "m")),
        ItemSet("codes", ("x", "y")),
    )
)
CODING = Coding.of(DOMAIN)
ITEMS = np.array([3, 4, 6, 7, 10, 11])  # all but one
GROUPS = (np.array([0, 1, 1, 2]), np.array([0, 1, 2]))
ROWS = Records.from_lists(
    [[0, 3, 4, 8, 10], [2, 9], [1, 3, 4, 5, 6, 7, 9, 10, 11], [8, 6], [0, 5, 9], [1, 7, 9, 11]], DOMAIN
)
MAPS = [
    ListItems(CODING, ITEMS),
    ItemsByColumns(CODING, ITEMS, GROUPS),
    ItemsByColumns(CODING, ITEMS, (None, GROUPS[1]), ITEMS_BY_VALUES),
    ItemsTogether(CODING, ITEMS),
]


def vector(map_, row):
    """What a row adds before it is scaled down, by the definition."""
    held = [number for number, item in enumerate(ITEMS) if item in row]
    if isinstance(map_, ListItems):
        return np.isin(np.arange(6), held).astype(float)
    if isinstance(map_, ItemsTogether):
        return np.array([float(a in held and b in held) for a, b in combinations(range(6), 2)])
    tables = []
    for groups, start, size in zip(map_.groups, (0, 8), (3, 2), strict=True):
        if groups is None:
            continue
        table = np.zeros((groups[-1], 6))
        for code in range(size):
            if start + code in row:
                table[groups[code], held] = 1
        tables.append(table.ravel())
    return np.concatenate(tables)


def scaled(map_, limit):
    found = []
    for a, b in zip(ROWS.indptr[:-1], ROWS.indptr[1:], strict=True):
        own = vector(map_, ROWS.indices[a:b].tolist())
        norm = max(np.linalg.norm(own), 1e-12)
        weight = 1.0 if norm <= limit / STEPS + 1e-9 else np.floor(limit / STEPS / norm * (1 - 1e-12) / GRID) * GRID
        found.append(weight * own)
    return np.array(found)


@pytest.mark.parametrize("limit", [STEPS, 2 * STEPS, 100 * STEPS])
@pytest.mark.parametrize("map_", MAPS, ids=lambda one: one.name)
def test_sums_equal_the_definition_and_a_pool_has_the_same(map_, limit):
    statistic = ClippedVectors(map_, limit)
    exact = Gateway(ROWS, randomness=SeededRandomness(0)).release(map_.name, statistic.query(), 0.0)
    expected = scaled(map_, limit)
    assert np.allclose(exact.numpy(), expected.sum(axis=0))
    assert np.linalg.norm(expected, axis=1).max() <= statistic.bound + 1e-12
    weights = torch.arange(1.0, len(ROWS) + 1).double()
    features = VectorFeatures(statistic, ROWS)
    assert np.allclose(features.sums(weights).numpy(), weights.numpy() @ expected)


@pytest.mark.parametrize("map_", MAPS, ids=lambda one: one.name)
def test_a_release_depends_on_the_noisy_values_alone_and_keeps_its_bound(map_):
    def run(gateway):
        return {"noisy": release(gateway, ClippedVectors(map_, STEPS), 2.0).value}

    assert_playback_invariant(run, [ROWS, ROWS.rows(0, 2)])
    assert 0.9 < assert_bounded(run, ROWS, ROWS.rows(2, 3)) <= 1 + 1e-12


def test_cells_of_a_column_are_a_table_of_groups_and_items():
    numbers = np.arange(MAPS[1].width)
    assert MAPS[1].table(numbers, 0).tolist() == np.arange(12).reshape(2, 6).tolist()
    assert MAPS[1].table(numbers, 1).tolist() == np.arange(12, 24).reshape(2, 6).tolist()
