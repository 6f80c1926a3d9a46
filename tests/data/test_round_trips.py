"""What is written reads back: every format, every shape, every kind of domain."""

import os
import tempfile

import numpy as np
import pytest
from hypothesis import given, settings

from data_strategies import images, integer_sets, item_domains, random_records, records_of, tables
from dpgm.data.decoding import decode
from dpgm.data.domain import Domain
from dpgm.data.read.frames import as_records
from dpgm.data.read.readers import read_records, read_source
from dpgm.data.records import Records
from dpgm.data.writers import RecordWriter, write_records
from dpgm.errors import InputError, UsageError

TABULAR = ["x.parquet", "x.csv", "x.csv.gz", "x.tsv", "x.jsonl", "x.jsonl.gz"]


@pytest.fixture(autouse=True, scope="module")
def no_waiting_for_the_disk():
    """Flushing hundreds of small files to disk would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def round_trip(records, name, shape, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        write_records(records, path, shape=shape, rng=np.random.default_rng(0))
        assert os.listdir(folder) == [name]
        return read_records(path, domain=records.domain, shape=shape, **options)


@pytest.mark.parametrize("name", TABULAR)
@given(records=records_of(item_domains))
@settings(max_examples=12, deadline=None)
def test_baskets_read_back(name, records):
    columns = {"item": records.domain.fields[0].name} if name.startswith(("x.parquet", "x.jsonl")) else {}
    assert round_trip(records, name, "basket", **columns) == records


@pytest.mark.parametrize("name", TABULAR)
@given(records=records_of(item_domains))
@settings(max_examples=12, deadline=None)
def test_the_long_shape_reads_back_with_people_without_items(name, records):
    assert round_trip(records, name, "long", person="person", item="item") == records


@pytest.mark.parametrize("name", TABULAR)
@given(records=records_of(item_domains))
@settings(max_examples=12, deadline=None)
def test_columns_of_zeros_and_ones_read_back(name, records):
    assert round_trip(records, name, "wide", header=True) == records


@pytest.mark.parametrize("name", TABULAR)
@given(records=records_of(tables()))
@settings(max_examples=12, deadline=None)
def test_tables_read_back(name, records):
    assert round_trip(records, name, None) == records


@pytest.mark.parametrize("name", ["x.dat", "x.dat.gz", "x.npz", "x.npy"])
@given(records=records_of(integer_sets))
@settings(max_examples=12, deadline=None)
def test_numbers_and_matrices_read_back(name, records):
    assert round_trip(records, name, None) == records


@pytest.mark.parametrize("name", ["x.idx", "x-ubyte.gz"])
@given(records=records_of(images))
@settings(max_examples=15, deadline=None)
def test_images_read_back_without_a_domain(name, records):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        write_records(records, path)
        assert read_records(path) == records


@given(records=records_of(tables()))
@settings(max_examples=60, deadline=None)
def test_encoding_a_decoded_table_gives_the_records_again(records):
    for seed in range(3):
        assert as_records(decode(records, rng=np.random.default_rng(seed)), records.domain) == records


@given(records=records_of(tables()))
@settings(max_examples=30, deadline=None)
def test_frames_of_pandas_polars_and_arrow_read_back(records):
    rng = np.random.default_rng(0)
    assert as_records(records.to_arrow(rng=rng), records.domain) == records
    assert as_records(records.to_pandas(rng=rng), records.domain) == records
    assert as_records(records.to_polars(rng=rng), records.domain) == records


@given(records=records_of(item_domains))
@settings(max_examples=30, deadline=None)
def test_matrices_of_scipy_and_numpy_read_back(records):
    assert as_records(records.to_scipy(), records.domain) == records
    assert as_records(records.to_dense(), records.domain) == records


def test_files_longer_than_a_chunk_read_back(tmp_path):
    records = random_records(70_000, 40, 3)
    for name, shape in [
        ("a.parquet", "basket"),
        ("b.csv", "basket"),
        ("c.csv", "long"),
        ("d.parquet", "long"),
        ("e.npy", None),
    ]:
        columns = {"person": "person", "item": "item"} if shape == "long" else {}
        write_records(records, tmp_path / name, shape=shape)
        assert read_records(tmp_path / name, domain=records.domain, shape=shape, **columns) == records


def test_blocks_cut_anywhere_give_the_same_records(tmp_path, monkeypatch):
    records = random_records(500, 30, 4)
    write_records(records, tmp_path / "a.csv", shape="basket")
    write_records(records, tmp_path / "b.csv", shape="long")
    write_records(records, tmp_path / "c.dat")
    for size in (7, 64, 1000):
        monkeypatch.setattr("dpgm.data.formats.lines.BLOCK_BYTES", size)
        assert read_records(tmp_path / "a.csv", domain=records.domain, shape="basket") == records
        assert read_records(tmp_path / "b.csv", domain=records.domain, person="person", item="item") == records
        assert read_records(tmp_path / "c.dat", domain=records.domain) == records


def test_scattered_rows_of_a_person_become_one_record(tmp_path):
    (tmp_path / "v.csv").write_text("who,what,when\nb,2,x\na,1,x\nb,1,y\nc,,x\na,2,z\na,2,w\n")
    records, source = read_source(tmp_path / "v.csv", person="who", item="what", domain=Domain.of_items([1, 2]))
    assert records == Records.from_lists([[0, 1], [0, 1], []], Domain.of_items([1, 2]))
    assert (source.unit, source.shape, source.items_assumed_public) == ("person", "long", False)


def test_persons_written_differently_stay_apart_and_kinds_may_mix(tmp_path, monkeypatch):
    monkeypatch.setattr("dpgm.data.formats.lines.BLOCK_BYTES", 8)
    (tmp_path / "v.csv").write_text(
        "p,i\n1,0\n01,1\n7,0\nx7,1\n1,1\n-3,0\n0,0\n+1,0\n99999999999999999999,1\n7,1\n"
    )
    records = read_records(tmp_path / "v.csv", person="p", item="i", domain=Domain.of_items(2))
    assert [row.indices.tolist() for row in records.chunks(1)] == [[0, 1], [1], [0, 1], [1], [0], [0], [0], [1]]
    numbers = "".join(f"{10**power},{power % 2}\n{10**power - 1},1\n" for power in range(1, 19))
    (tmp_path / "n.csv").write_text("p,i\n" + numbers * 2)
    assert len(read_records(tmp_path / "n.csv", person="p", item="i", domain=Domain.of_items(2))) == 36


def test_scattered_large_files_are_grouped_like_sorted_ones(tmp_path):
    rng = np.random.default_rng(3)
    persons, items = rng.integers(0, 5000, 100_000), rng.integers(0, 50, 100_000)
    lines = "".join(f"{p},{i}\n" for p, i in zip(persons, items, strict=True))
    (tmp_path / "v.csv").write_text("p,i\n" + lines)
    records = read_records(tmp_path / "v.csv", person="p", item="i", domain=Domain.of_items(50))
    first = list(dict.fromkeys(persons.tolist()))
    for row in (0, 17, len(first) - 1):
        expected = np.unique(items[persons == first[row]])
        assert records.rows(row, row + 1).indices.tolist() == expected.tolist()
    assert len(records) == len(first)


def test_items_assumed_public_are_sorted_and_reported(tmp_path):
    (tmp_path / "v.csv").write_text("pear,apple\n\napple\n")
    records, source = read_source(tmp_path / "v.csv", assume_public_items=True, shape="basket")
    assert records.domain.fields[0].items == ("apple", "pear")
    assert source.items_assumed_public
    assert records == Records.from_lists([[0, 1], [], [0]], records.domain)
    (tmp_path / "n.dat").write_text("10 9 9\n100\n")
    assert read_records(tmp_path / "n.dat", assume_public_items=True).domain.fields[0].items == (9, 10, 100)


def test_items_outside_the_domain_are_dropped_without_a_word(tmp_path, recwarn):
    domain = Domain.of_items([1, 2])
    (tmp_path / "v.dat").write_text("1 2 3\n3\n")
    assert read_records(tmp_path / "v.dat", domain=domain) == Records.from_lists([[0, 1], []], domain)
    assert not recwarn.list


def test_several_files_are_one_table(tmp_path):
    (tmp_path / "a.csv").write_text("p,i\n1,a\n2,b\n")
    (tmp_path / "b.csv").write_text("p,i\n1,b\n")
    records = read_records(
        [tmp_path / "a.csv", tmp_path / "b.csv"], person="p", item="i", domain=Domain.of_items(["a", "b"])
    )
    assert records == Records.from_lists([[0, 1], [1]], records.domain)


def test_a_writer_streams_chunks_and_checks_the_domain(tmp_path):
    records = random_records(100, 10, 2)
    with RecordWriter(tmp_path / "x.parquet", records.domain) as writer:
        for chunk in records.chunks(7):
            writer.write(chunk)
        with pytest.raises(UsageError, match="another domain"):
            writer.write(random_records(1, 11, 2))
    assert writer.count == 100
    assert read_records(tmp_path / "x.parquet", domain=records.domain) == records


def test_a_writer_that_fails_leaves_nothing(tmp_path):
    records = random_records(10, 10, 2)

    def fail(name):
        with RecordWriter(tmp_path / name, records.domain) as writer:
            writer.write(records)
            raise KeyError

    for name in ("x.parquet", "x.csv.gz", "x.npz", "x.npy", "x.dat"):
        with pytest.raises(KeyError):
            fail(name)
    assert os.listdir(tmp_path) == []


def test_formulas_are_defused_in_csv_and_kept_in_parquet(tmp_path):
    domain = Domain.of_items(["=cmd()", "plain"])
    records = Records.from_lists([[0, 1]], domain)
    records.write(tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == "'=cmd(),plain\n"
    records.write(tmp_path / "x.parquet")
    import pyarrow.parquet as pq

    assert pq.read_table(tmp_path / "x.parquet")["items"].to_pylist() == [["=cmd()", "plain"]]
    assert read_records(tmp_path / "x.csv", domain=domain, shape="basket") == records


def test_equal_records_give_equal_compressed_files(tmp_path):
    records = random_records(50, 10, 2)
    records.write(tmp_path / "a.csv.gz")
    records.write(tmp_path / "b.csv.gz")
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


def test_objects_in_memory_are_checked():
    assert as_records(random_records(3, 4, 2)) == random_records(3, 4, 2)
    with pytest.raises(UsageError, match="public domain"):
        as_records(random_records(3, 4, 2).to_pandas())
    with pytest.raises(UsageError, match="must come from"):
        as_records([[1, 2]])
    for bad, words in [
        (np.array([[0.0, np.nan]]), "NaN"),
        (np.zeros(3), "two dimensions"),
        (np.zeros((2, 0)), "no columns"),
        (np.array([["a"]]), "numbers"),
    ]:
        with pytest.raises(InputError, match=words):
            as_records(bad)
    with pytest.raises(InputError, match="3 columns but the domain has 2"):
        as_records(np.zeros((2, 3)), Domain.of_items(2))


def test_names_of_fields_that_look_like_formulas_read_back(tmp_path):
    from dpgm.data.domain import Categorical

    domain = Domain((Categorical("=a", (1, 2)), Categorical("b;c", ("x",))))
    records = Records.from_lists([[0, 2], [1, 2]], domain)
    records.write(tmp_path / "x.csv")
    assert read_records(tmp_path / "x.csv", domain=domain) == records
