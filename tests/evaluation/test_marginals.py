"""Marginals, pairs, frequent sets and pairs of columns agree with brute force."""

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgm.data.domain import Categorical, Domain, Numeric
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.evaluation.marginals import (
    co_occurrence,
    frequent_sets,
    one_way,
    pair_counts,
    record_lengths,
    table_pairs,
    top_sets,
    two_way,
)

WIDTH = 6
rows = st.lists(st.sets(st.integers(0, WIDTH - 1)).map(sorted), min_size=1, max_size=30)


def records_of(lists):
    return Records.from_lists(lists, Domain.of_items(WIDTH))


@given(rows)
def test_pair_counts_equal_brute_force(lists):
    dense = records_of(lists).to_dense(np.int64)
    positions = np.array([4, 0, 2])
    assert np.array_equal(
        pair_counts(records_of(lists), positions), (dense.T @ dense)[np.ix_(positions, positions)]
    )


def test_sparse_and_dense_pair_counts_agree():
    rng = np.random.default_rng(1)
    sparse = Records.from_dense(rng.random((500, 400)) < 0.005, Domain.of_items(400))
    dense = sparse.to_dense(np.int64)
    assert np.array_equal(pair_counts(sparse, np.arange(400)), dense.T @ dense)


@given(rows, rows)
def test_record_lengths_equal_their_definition(real, synthetic):
    distance = record_lengths(records_of(real), records_of(synthetic))
    share = [[sum(len(r) == n for r in side) / len(side) for n in range(WIDTH + 1)] for side in (real, synthetic)]
    assert distance.total_variation == pytest.approx(np.abs(np.subtract(*share)).sum() / 2)
    assert distance.real_mean == pytest.approx(np.mean([len(r) for r in real]))


@given(rows, rows)
def test_single_items_equal_their_definition(real, synthetic):
    compared = one_way(records_of(real), records_of(synthetic))
    gaps = [
        abs(sum(i in r for r in real) / len(real) - sum(i in r for r in synthetic) / len(synthetic))
        for i in range(WIDTH)
    ]
    assert compared.mean_difference == pytest.approx(np.mean(gaps))
    assert compared.largest_difference == pytest.approx(max(gaps))


@given(rows, rows)
@settings(max_examples=40)
def test_pairs_equal_their_definition(real, synthetic):
    occurring = [i for i in range(WIDTH) if any(i in r for r in real)]
    if len(occurring) < 2:
        with pytest.raises(UsageError, match="fewer than two items"):
            two_way(records_of(real), records_of(synthetic))
        return
    distances = []
    for i, j in combinations(occurring, 2):
        cells = []
        for side in (real, synthetic):
            table = np.zeros((2, 2))
            for r in side:
                table[int(i in r), int(j in r)] += 1 / len(side)
            cells.append(table)
        distances.append(np.abs(cells[0] - cells[1]).sum() / 2)
    measured = two_way(records_of(real), records_of(synthetic))
    assert measured.positions == len(occurring)
    assert measured.mean_total_variation == pytest.approx(np.mean(distances))
    assert measured.largest_total_variation == pytest.approx(max(distances))


@given(rows, st.integers(1, 30))
@settings(max_examples=60)
def test_top_sets_equal_brute_force(lists, top):
    every = chain.from_iterable(combinations(range(WIDTH), n) for n in range(1, WIDTH + 1))
    counts = {items: sum(set(items) <= set(r) for r in lists) for items in every}
    expected = sorted((count for count in counts.values() if count), reverse=True)[:top]
    found = top_sets(records_of(lists), top)
    assert [count for _, count in found] == expected
    assert all(counts[items] == count for items, count in found)
    assert len({items for items, _ in found}) == len(found)


def test_frequent_sets_of_other_data_are_missed():
    real = records_of([[0, 1, 2]] * 20)
    other = records_of([[3, 4, 5]] * 20)
    assert frequent_sets(real, real, top=5).precision == frequent_sets(real, real, top=5).recall == 1.0
    assert frequent_sets(real, other, top=5).precision == frequent_sets(real, other, top=5).recall == 0.0


def test_co_occurrence_is_a_conditional_share():
    real = records_of([[0, 1], [0, 1], [0], [1], [0, 2]])
    measured = co_occurrence(real, real, most=3)
    assert measured.positions == (0, 1, 2)
    assert measured.real[0, 1] == pytest.approx(2 / 4)
    assert measured.real[1, 0] == pytest.approx(2 / 3)
    assert measured.mean_difference == 0.0


DOMAIN = Domain(
    (Categorical("a", ("x", "y", "z")), Categorical("b", (0, 1)), Numeric("c", 0, 4, 4), Numeric("d", 0, 4, 4))
)


def table_of(codes):
    offsets = np.array(DOMAIN.offsets)
    return Records.from_lists([(np.array(row) + offsets).tolist() for row in codes], DOMAIN)


table_rows = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=25
)


@given(table_rows, table_rows)
@settings(max_examples=40)
def test_pairs_of_columns_equal_their_definition(real, synthetic):
    measured = table_pairs(table_of(real), table_of(synthetic))
    for a, b in combinations(range(4), 2):
        values = {(row[a], row[b]) for row in real + synthetic}
        expected = sum(
            abs(
                sum((r[a], r[b]) == value for r in real) / len(real)
                - sum((r[a], r[b]) == value for r in synthetic) / len(synthetic)
            )
            for value in values
        )
        assert measured.total_variation[a, b] == pytest.approx(expected / 2)
    assert measured.mean_total_variation == pytest.approx(
        np.mean([measured.total_variation[a, b] for a, b in combinations(range(4), 2)])
    )


def test_association_of_numbers_is_the_correlation():
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 4, (300, 2))
    codes[:, 1] = np.clip(codes[:, 0] + rng.integers(-1, 2, 300), 0, 3)
    records = table_of([(0, 0, int(x), int(y)) for x, y in codes])
    measured = table_pairs(records, records)
    assert measured.real_association[2, 3] == pytest.approx(abs(np.corrcoef(codes.T)[0, 1]))
    assert measured.mean_association_difference == 0.0


def test_association_of_categories_is_one_if_one_determines_the_other():
    records = table_of([(0, 0, 0, 0), (1, 1, 1, 1), (0, 0, 2, 2)] * 4)
    assert table_pairs(records, records).real_association[0, 1] == pytest.approx(1.0)


def test_tables_have_no_lengths_and_sets_no_columns():
    table, sets = table_of([(0, 0, 0, 0)]), records_of([[0]])
    with pytest.raises(UsageError, match="same length"):
        record_lengths(table, table)
    with pytest.raises(UsageError, match="fewer than two categorical"):
        table_pairs(sets, sets)
