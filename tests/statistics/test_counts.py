"""Counts of lengths, items and sets: equal to brute force, and within their sensitivities."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.data.records import Records
from dpgm.mechanisms.query import View
from dpgm.statistics.clipping import clip_steps
from dpgm.statistics.item_counts import ItemCounts
from dpgm.statistics.item_tuples import ItemTuples
from dpgm.statistics.record_lengths import PopularLengths, RecordLengths
from dpgm.statistics.statistic import GRID

ITEMS = Domain.of_items(7)
MIXED = Domain((ItemSet("items", tuple(range(4))), Categorical("colour", ("red", "green", "blue"))))


def records_of(rows, domain=ITEMS):
    return Records.from_lists(rows, domain)


def statistics(domain):
    width = domain.width
    listed = [RecordLengths(domain), ItemCounts(domain, 1), ItemCounts(domain, 3)]
    listed += [PopularLengths(domain, ((2, 0),)), PopularLengths(domain, ((3, 1), (3, 1, 0, 2)))]
    for order in (2, 3, 4):
        for cap in (order, order + 2):
            listed.append(ItemTuples(domain, tuple(range(width)), order, cap))
            listed.append(ItemTuples(domain, tuple(range(1, width)), order, cap))
    return listed


def exact(statistic, records):
    query = statistic.query()
    value = query.compute(View(records))
    assert value.dtype == torch.int64
    assert tuple(value.shape) == query.shape
    return value.double().numpy() * query.grid


rows = st.lists(st.sets(st.integers(0, 6)).map(sorted), max_size=8)


@settings(max_examples=40, deadline=None)
@given(rows, st.sets(st.integers(0, 6)).map(sorted), st.sampled_from([ITEMS, MIXED]))
def test_one_record_moves_no_statistic_by_more_than_its_sensitivity(some, added, domain):
    for statistic in statistics(domain):
        moved = exact(statistic, records_of([*some, added], domain)) - exact(statistic, records_of(some, domain))
        assert np.linalg.norm(moved) <= statistic.query().sensitivity * (1 + 1e-9)


@pytest.mark.parametrize("statistic", statistics(ITEMS), ids=lambda s: f"{s.name} {s.query().shape}")
def test_the_sensitivity_is_reached_up_to_the_grid(statistic):
    shifts = [
        np.linalg.norm(exact(statistic, records_of([list(chosen)])))
        for size in range(8)
        for chosen in combinations(range(7), size)
    ]
    assert 0.99 * statistic.query().sensitivity <= max(shifts) <= statistic.query().sensitivity * (1 + 1e-9)


@settings(max_examples=30, deadline=None)
@given(rows)
def test_tuple_counts_equal_brute_force(some):
    records = records_of(some)
    for order in (2, 3, 4):
        statistic = ItemTuples(ITEMS, (6, 0, 2, 3, 5), order, order)
        weight = clip_steps(5, order, order) * GRID
        expected = np.zeros(len(statistic.tuples))
        for row in some:
            inside = set(row) & set(statistic.chosen)
            for at, places in enumerate(statistic.positions[statistic.tuples]):
                expected[at] += set(places.tolist()) <= inside and weight[len(inside)]
        assert np.allclose(exact(statistic, records), expected)


def test_item_counts_equal_plain_counts_when_no_record_is_long():
    some = [[0, 1], [1, 2], [], [1, 2, 3]]
    assert exact(ItemCounts(ITEMS, 3), records_of(some)).tolist() == [1, 3, 2, 1, 0, 0, 0]


def test_no_item_is_ever_paired_with_itself_or_with_another_value_of_its_column():
    owner = MIXED.column_of
    for order in (2, 3, 4):
        for places in ItemTuples(MIXED, tuple(range(7)), order, order).tuples.tolist():
            assert len({int(owner[place]) for place in places}) == order
    assert ItemTuples(MIXED, tuple(range(7)), 2, 2).query().shape == (comb(7, 2) - 3,)


def test_lengths_count_items_only_and_put_long_records_in_the_last_bin():
    assert exact(RecordLengths(MIXED), records_of([[0, 1, 4], [5], [6, 3]], MIXED)).tolist() == [1, 1, 1, 0, 0]
    wide = Domain.of_items(600)
    histogram = exact(RecordLengths(wide), records_of([list(range(600)), list(range(590))], wide))
    assert histogram.sum() == histogram[-1] == 2


def test_popular_lengths_count_the_items_that_records_share_with_each_group():
    some = [[0, 1], [1, 2, 6], [], [1, 2, 3], [4, 5]]
    histograms = exact(PopularLengths(ITEMS, ((1, 2), (6, 1, 2, 3))), records_of(some))
    assert histograms.tolist() == [[2, 1, 2, 0, 0], [2, 1, 0, 2, 0]]


def test_a_sum_over_many_records_is_exact():
    many = Records.from_dense(np.ones((40_000, 5)), Domain.of_items(5))
    for order in (2, 3, 4):
        assert set(exact(ItemTuples(many.domain, tuple(range(5)), order, 5), many).tolist()) == {40_000.0}


def test_a_poisson_sample_counts_only_its_rows():
    query = ItemCounts(ITEMS, 3).query()
    view = View(records_of([[0], [1], [1]]), sample=np.array([1]))
    assert (query.compute(view) * GRID).tolist() == [0, 1, 0, 0, 0, 0, 0]


def test_a_domain_of_one_item_has_no_pairs():
    assert exact(ItemTuples(Domain.of_items(1), (0,), 2, 2), records_of([[0]], Domain.of_items(1))).shape == (0,)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_sets_are_counted_as_one_by_one(order):
    rng = np.random.default_rng(0)
    domain, chosen = Domain.of_items(30), tuple(range(0, 30, 2))
    held = rng.random((300, 30)) < rng.random((300, 1))
    statistic = ItemTuples(domain, chosen, order, cap=len(chosen))  # no record is weighted down
    expected = [int(held[:, members].all(axis=1).sum()) for members in combinations(chosen, order)]
    assert exact(statistic, Records.from_dense(held, domain)).tolist() == expected
