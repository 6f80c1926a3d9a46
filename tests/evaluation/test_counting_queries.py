"""Counting queries agree with brute force and keep their invariants; wrong inputs are refused in one sentence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgm.data.domain import Categorical, Domain
from dpgm.data.records import Records
from dpgm.errors import InputError, UsageError
from dpgm.evaluation import counting_queries
from dpgm.evaluation.counting_queries import (
    count_queries,
    paper_workload,
    popular_queries,
    query_error,
    read_workload,
)

WIDTH = 7
rows = st.lists(st.sets(st.integers(0, WIDTH - 1)).map(sorted), max_size=40)
workloads = st.lists(st.sets(st.integers(0, WIDTH - 1), min_size=1).map(sorted), min_size=1, max_size=8)


def records_of(lists):
    return Records.from_lists(lists, Domain.of_items(WIDTH))


@given(rows, workloads)
def test_counts_equal_brute_force_for_both_readings(lists, queries):
    records = records_of(lists)
    with_all = [sum(set(query) <= set(row) for row in lists) for query in queries]
    with_any = [sum(bool(set(query) & set(row)) for row in lists) for query in queries]
    assert count_queries(records, queries).tolist() == with_all
    assert count_queries(records, queries, "any").tolist() == with_any


@given(rows, workloads, st.randoms(use_true_random=False))
def test_counts_do_not_depend_on_the_order_of_records(lists, queries, random):
    shuffled = list(lists)
    random.shuffle(shuffled)
    assert np.array_equal(count_queries(records_of(lists), queries), count_queries(records_of(shuffled), queries))


def test_blocks_of_records_add_up(monkeypatch):
    rng = np.random.default_rng(0)
    records = Records.from_dense(rng.random((1000, WIDTH)) < 0.4, Domain.of_items(WIDTH))
    queries = [[0], [1, 2], [3, 4, 5], [0, 6]]
    whole = count_queries(records, queries)
    monkeypatch.setattr(counting_queries, "_BLOCK_BYTES", 64 * (WIDTH + 1))
    assert np.array_equal(count_queries(records, queries), whole)


@given(rows.filter(len), workloads)
def test_identical_data_has_no_error(lists, queries):
    records = records_of(lists)
    assert query_error(records, records, queries).mean == 0.0


@given(rows.filter(len), rows.filter(len), workloads)
@settings(max_examples=50)
def test_relative_error_equals_its_definition(real, synthetic, queries):
    error = query_error(records_of(real), records_of(synthetic), queries, sanity=0.25)
    for at, query in enumerate(queries):
        truth = sum(set(query) <= set(row) for row in real)
        answer = sum(set(query) <= set(row) for row in synthetic) * len(real) / len(synthetic)
        expected = abs(answer - truth) / max(truth, 0.25 * len(real))
        assert error.per_query[at] == pytest.approx(expected)
    assert error.mean == pytest.approx(error.per_query.mean())


def test_doubling_the_synthetic_data_changes_nothing():
    real, half = records_of([[0, 1], [1], [2, 3]]), [[0], [1, 2]]
    once, twice = records_of(half), records_of(half * 2)
    queries = [[0], [1], [1, 2]]
    assert query_error(real, once, queries).mean == pytest.approx(query_error(real, twice, queries).mean)


def test_popular_queries_have_distinct_items_that_occur():
    records = records_of([[0, 1, 2], [0, 1], [0, 4]] * 5)
    for query in popular_queries(records, 3, count=50):
        assert len(set(query)) == 3
        assert set(query) <= {0, 1, 2, 4}


def test_popular_queries_follow_frequency():
    records = records_of([[0]] * 90 + [[1]] * 10)
    first = np.mean([query == (0,) for query in popular_queries(records, 1, count=2000)])
    assert abs(first - 0.9) < 0.03


def test_popular_queries_never_ask_for_two_values_of_a_column():
    domain = Domain((Categorical("a", (0, 1, 2)), Categorical("b", (0, 1))))
    records = Records.from_lists([[0, 3], [1, 4], [2, 4]] * 4, domain)
    for low, high in popular_queries(records, 2, count=60):
        assert low < 3 <= high


def test_popular_queries_longer_than_the_data_allow_are_refused():
    with pytest.raises(UsageError, match="fewer than 4 items occur"):
        popular_queries(records_of([[0, 1, 2]]), 4)


def test_paper_workload_has_five_subsets_of_growing_length():
    records = records_of([[0, 1, 2, 3, 4], [5]])
    subsets = paper_workload(records, seed=1)
    assert [len(subset) for subset in subsets] == [200] * 5
    for part, subset in enumerate(subsets, 1):
        assert {len(query) for query in subset} == set(range(1, part + 1))
        assert all(len(set(query)) == len(query) for query in subset)


def test_workload_file_is_read_by_label(tmp_path):
    domain = Domain.of_items(["bread", "milk, whole", "jam"])
    text = tmp_path / "queries.csv"
    text.write_text('bread, jam\n\n"milk, whole"\n')
    assert read_workload(text, domain) == ((0, 2), (1,))
    listed = tmp_path / "queries.json"
    listed.write_text('[["jam", "bread"], ["milk, whole"]]')
    assert read_workload(listed, domain) == ((0, 2), (1,))
    blanks = tmp_path / "queries.dat"
    blanks.write_text("3 1\n2\n")
    assert read_workload(blanks, Domain.of_items([1, 2, 3])) == ((0, 2), (1,))


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("q.csv", "bread\nbeer\n", "line 2: the item 'beer' is not in the domain"),
        ("q.csv", "\n\n", "holds no queries"),
        ("q.json", '[["bread"], []]', "query 2: the query is empty"),
        ("q.json", "[1", "not valid JSON"),
        ("q.json", '{"a": 1}', "list of lists"),
    ],
)
def test_bad_workload_files_give_one_sentence(tmp_path, name, text, says):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=says.replace("[", r"\[")):
        read_workload(path, Domain.of_items(["bread", "jam"]))


def test_unreadable_workload_files_give_one_sentence(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_workload(tmp_path / "none.csv", Domain.of_items(2))
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_workload(tmp_path / "bytes.csv", Domain.of_items(2))


def test_bad_comparisons_are_refused():
    records = records_of([[0]])
    with pytest.raises(UsageError, match="no queries"):
        query_error(records, records, [])
    with pytest.raises(UsageError, match="outside"):
        count_queries(records, [[WIDTH]])
    with pytest.raises(UsageError, match="synthetic data holds no records"):
        query_error(records, records_of([]), [[0]])
    with pytest.raises(UsageError, match="3 positions wide"):
        query_error(records, Records.from_lists([[0]], Domain.of_items(3)), [[0]])
    with pytest.raises(UsageError, match="different domains"):
        query_error(records, Records.from_lists([[0]], Domain.of_items([*"abcdefg"])), [[0]])


@pytest.mark.slow
def test_a_thousand_queries_over_millions_of_records_take_seconds():
    import resource
    import time

    rng = np.random.default_rng(0)
    count, width = 4_400_000, 1303
    lengths = np.minimum(rng.geometric(1 / 12, count), 190)
    indptr = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(lengths, out=indptr[1:])
    indices = np.empty(indptr[-1], dtype=np.int16)
    for start in range(0, len(indices), 2**22):
        part = indices[start : start + 2**22]
        part[:] = (width * rng.random(len(part)) ** 2).astype(np.int16)  # duplicates in a row do no harm here
    records = Records(Domain.of_items(width), indptr, indices)
    queries = [query for subset in paper_workload(records, seed=0) for query in subset]
    began = time.process_time()  # wall time on a shared machine says nothing about the code
    count_queries(records, queries)
    count_queries(records, queries, "any")
    print(f"1,000 queries: {time.process_time() - began:.1f} processor seconds")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1.5e6  # kB, with torch loaded
