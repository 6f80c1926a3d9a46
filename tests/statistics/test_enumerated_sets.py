"""Centred sums of sets of few items: exact, and within their bound despite rounding."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.mechanisms.query import View
from dpgm.statistics.bounds import offsets_near
from dpgm.statistics.enumerated_sets import EnumeratedSets
from dpgm.statistics.statistic import GRID, STEPS

ITEMS = Domain.of_items(6)
OFFSETS = (0, 3, 8, 13, 16, 5)


def exact(statistic, some):
    query = statistic.query()
    value = query.compute(View(Records.from_lists(some, ITEMS)))
    assert value.dtype == torch.int64
    assert tuple(value.shape) == query.shape
    return value.double().numpy() * query.grid


def statistics(whole):
    return [
        EnumeratedSets(ITEMS, order, OFFSETS, bound, whole)
        for order in (1, 2, 3, 4)
        for bound in (0.05, 0.4, 1.0, 100.0)
    ]


rows = st.lists(st.sets(st.integers(0, 5)).map(sorted), max_size=8)


@settings(max_examples=40, deadline=None)
@given(rows, st.sets(st.integers(0, 5)).map(sorted))
def test_one_record_moves_the_sums_by_no_more_than_the_bound(some, added):
    for statistic in (*statistics(False), *statistics(True)):
        moved = exact(statistic, [*some, added]) - exact(statistic, some)
        assert np.linalg.norm(moved) <= statistic.query().sensitivity


def test_no_possible_record_is_longer_than_the_bound_and_some_come_near():
    everyone = [[item for item in range(6) if mask >> item & 1] for mask in range(2**6)]
    for statistic in (*statistics(False), *statistics(True)):
        norms = [np.linalg.norm(exact(statistic, [record])) for record in everyone]
        assert max(norms) <= statistic.query().sensitivity
        least = min(statistic.query().sensitivity, statistic.norms.max())
        assert statistic.bound < 0.2 or max(norms) >= 0.97 * least


@settings(max_examples=30, deadline=None)
@given(rows)
def test_sums_are_products_of_centred_items_times_weights(some):
    present = np.zeros((len(some), 6))
    for row, record in enumerate(some):
        present[row, record] = 1
    centred = present - np.array(OFFSETS) / STEPS
    masks = [sum(1 << item for item in record) for record in some]
    for statistic in statistics(False):
        weights = statistic.weight_steps[masks] * GRID
        expected = [
            (weights * centred[:, list(chosen)].prod(axis=1)).sum()
            for chosen in combinations(range(6), statistic.order)
        ]
        assert np.allclose(exact(statistic, some), expected, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(rows)
def test_short_records_are_counted_whole_and_in_no_set(some):
    for statistic in statistics(True):
        short = [record for record in some if len(record) <= statistic.order]
        long = [record for record in some if len(record) > statistic.order]
        sets, cells = np.split(exact(statistic, some), [comb(6, statistic.order)])
        masks = [sum(1 << item for item in record) for record in short]
        expected = [masks.count(mask) * statistic.whole_weight for mask in statistic.whole_records.tolist()]
        assert np.allclose(cells, expected)
        sets_only = EnumeratedSets(ITEMS, statistic.order, OFFSETS, statistic.bound)
        assert np.allclose(sets, exact(sets_only, long))


def test_without_offsets_and_bound_sets_are_plainly_counted():
    some = [[0, 1, 2], [0, 1], [3], [], [0, 1, 2, 3, 4, 5]]
    counted = exact(EnumeratedSets(ITEMS, 2, (0,) * 6, 100.0), some)
    pairs = list(combinations(range(6), 2))
    assert counted.tolist() == [sum(set(pair) <= set(record) for record in some) for pair in pairs]


def test_offsets_lie_next_to_the_frequencies():
    assert offsets_near(np.array([0.0, 0.02, 0.5, 0.97, 1.0])) == (0, 0, 8, 16, 16)


@pytest.mark.parametrize("order", [2, 3])
def test_dense_records_are_shorter_when_centred(order):
    dense = EnumeratedSets(ITEMS, order, (14,) * 6, 1.0).norms[-1]
    assert dense < 0.1 * EnumeratedSets(ITEMS, order, (0,) * 6, 1.0).norms[-1]
