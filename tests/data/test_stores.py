"""Rows beyond a stated memory limit are stored in a nameless file, and read as if they were in memory."""

import errno
import mmap
import os
import tempfile

import numpy as np
import pytest

import dpgm
from dpgm.data.domain import Domain, ItemSet
from dpgm.data.records import Records
from dpgm.data.stores import MemoryLimit, RowStore
from dpgm.errors import DiskError, InputError, ResourceError, UsageError

DOMAIN = Domain((ItemSet("items", tuple(range(40))),))


@pytest.fixture(scope="module")
def records():
    return Records.from_dense(np.random.default_rng(5).random((3000, 40)) < 0.2, DOMAIN)


def mapped(records):
    return records.indices.base is not None


@pytest.mark.parametrize(
    ("ending", "options"),
    [
        ("parquet", {"domain": DOMAIN}),
        ("parquet", {"assume_public_items": True}),
        ("dat", {"domain": DOMAIN, "format": "fimi"}),
        ("dat", {"assume_public_items": True, "format": "fimi"}),
        ("csv", {"domain": DOMAIN, "shape": "wide"}),
    ],
)
def test_rows_on_the_disk_are_the_rows(records, tmp_path, ending, options):
    path = tmp_path / f"rows.{ending}"
    if ending == "csv":
        lines = [",".join(str(item) for item in range(40))]
        lines += [",".join(str(int(one)) for one in row) for row in records.to_dense()]
        path.write_text("\n".join(lines) + "\n")
    else:
        records.write(path)
    plain = dpgm.read_records(path, **options)
    limited = dpgm.read_records(path, memory="8KB", cache=tmp_path, **options)
    assert mapped(limited)
    assert not mapped(plain)
    assert limited == plain
    assert os.listdir(tmp_path) == [path.name]  # the file has no name
    ample = dpgm.read_records(path, memory="1GB", cache=tmp_path, **options)
    assert ample == plain
    assert not mapped(ample)


def test_a_full_disk_is_one_sentence(monkeypatch):
    class Full:
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self):
            pass

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda dir: Full())
    store = RowStore(np.dtype(np.int16), MemoryLimit(limit=1))
    with pytest.raises(DiskError, match="`cache`"):
        store.append(np.array([2]), np.array([0, 1]))


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    with pytest.raises(DiskError, match="`cache`"):
        MemoryLimit(1, str(tmp_path / "nowhere")).temporary_file()


@pytest.mark.parametrize("size", ["much", "-1GB", "0", "4 gigs"])
def test_what_is_no_size_is_refused(size):
    with pytest.raises(UsageError, match="4GB"):
        dpgm.ReadOptions(memory=size)


def test_the_file_is_the_owners_alone(tmp_path):
    with MemoryLimit(1, str(tmp_path)).temporary_file() as file:
        assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600


def test_the_shares_of_several_processes_are_the_records_of_one(tmp_path):
    """Row groups of any size, also empty ones, in several files; also with rows on disk."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dpgm.data.read.options import ReadOptions
    from dpgm.data.read.readers import read_share, read_source

    kind = pa.list_(pa.string())
    for part, groups in enumerate(((0, 5, 0), (1,), (7, 7, 0, 3))):
        with pq.ParquetWriter(tmp_path / f"{part}.parquet", pa.schema({"items": kind})) as writer:
            for rows in groups:
                lists = [["a"] * (row % 2) + ["b"] * (part % 2) + ["c"] for row in range(rows)]
                writer.write_table(pa.table({"items": pa.array(lists, kind)}))
    domain = Domain((ItemSet("items", ("a", "b", "c")),))
    for memory in (None, 200):
        options = ReadOptions(domain=domain, memory=memory)
        whole = read_source(tmp_path, options)[0].to_dense()
        for shares in (1, 2, 3, 5, 9):
            parts = [read_share(tmp_path, options, share, shares)[0].to_dense() for share in range(shares)]
            assert np.array_equal(np.concatenate(parts), whole)


def test_dense_arrays_beyond_the_limit_are_mapped_from_the_disk_and_read_the_same(tmp_path):
    matrix = (np.random.default_rng(0).random((500, 40)) < 0.2).astype(np.uint8)
    np.save(tmp_path / "x.npy", matrix)
    in_memory = dpgm.read_records(tmp_path / "x.npy")
    on_disk = dpgm.read_records(tmp_path / "x.npy", memory=1000, cache=tmp_path)
    assert on_disk == in_memory
    assert isinstance(on_disk.indices.base, memoryview | mmap.mmap)
    assert not isinstance(in_memory.indices.base, memoryview | mmap.mmap)


LONG = {"person": "who", "item": "what", "domain": DOMAIN}


def long_lines(persons):
    draws = np.random.default_rng(6)
    rows = zip(draws.choice(persons, 3000).tolist(), draws.integers(-1, 40, 3000).tolist(), strict=True)
    return "who,what\n" + "".join(f"{who},{'' if item < 0 else item}\n" for who, item in rows)


@pytest.mark.parametrize(
    "persons", [np.arange(700), np.array([f"a{at % 350:03}" for at in range(700)] + ["7", "07"])]
)
@pytest.mark.parametrize("options", [LONG, LONG | {"domain": None, "assume_public_items": True}])
def test_persons_grouped_on_disk_are_those_grouped_in_memory(tmp_path, persons, options):
    (tmp_path / "long.csv").write_text(long_lines(persons))
    plain = dpgm.read_records(tmp_path / "long.csv", **options)
    limited = dpgm.read_records(tmp_path / "long.csv", memory=100, cache=tmp_path, **options)
    assert mapped(limited)
    assert limited == plain  # also in the order of persons
    assert os.listdir(tmp_path) == ["long.csv"]


def test_numbers_and_texts_of_persons_meet_on_disk():
    """A person is one whether a chunk holds numbers alone or texts as well."""
    import pyarrow as pa

    from dpgm.data.read.persons import Persons

    chunks = [pa.array([5, 7]), pa.array(["7", "x"]), pa.array(["07", "5"])]
    found = []
    for limit in (None, 1):
        persons = Persons(MemoryLimit(limit))
        for at, chunk in enumerate(chunks):
            persons.add(chunk, str, np.arange(2 * at, 2 * at + 2))
        groups = list(persons.groups())
        assert (len(groups) > 1) == (limit is not None)
        assert all(np.array_equal(group.rows, group.codes) for group in groups)
        found.append(
            sorted(
                sorted(group.rows[group.persons == person].tolist())
                for group in groups
                for person in range(group.count)
            )
        )
    assert found[0] == found[1] == [[0, 5], [1, 2], [3], [4]]


def person_rows(tmp_path, persons):
    lines = [f"{who},{at % 90},{['n', 's', 'e'][at % 3]}" for at, who in enumerate(persons)]
    (tmp_path / "rows.csv").write_text("\n".join(["who,age,ward", *lines]) + "\n")
    kinds = "{name: age, kind: numeric, low: discover, high: discover, integer: true}"
    domain = f"fields: [{kinds}, {{name: ward, kind: categorical, discover: true}}]"
    (tmp_path / "domain.yaml").write_text(domain)
    return {"domain": tmp_path / "domain.yaml", "person": "who"}


def test_open_columns_on_disk_are_the_columns(tmp_path):
    options = person_rows(tmp_path, range(3000))
    plain, limited = (dpgm.read_records(tmp_path / "rows.csv", **options | more) for more in ({}, {"memory": 100}))
    assert limited.columns[0].ticks.base is not None
    assert np.array_equal(limited.columns[0].ticks, plain.columns[0].ticks)
    assert np.array_equal(limited.columns[1].codes, plain.columns[1].codes)
    assert limited.columns[1].vocabulary.labels == plain.columns[1].vocabulary.labels


def test_rows_per_person_are_limited_on_disk_as_well(tmp_path):
    options = person_rows(tmp_path, [at // 3 for at in range(3000)])
    with pytest.raises(InputError, match=r"record 2: the person occurs"):
        dpgm.read_records(tmp_path / "rows.csv", memory=100, **options)
    records, source = dpgm.read_source(tmp_path / "rows.csv", memory=100, rows_per_person=2, **options)
    assert len(records) == 2000
    assert source.rows_per_person == 2


def test_more_labels_than_memory_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("dpgm.data.open_records._LABELS_ALLOWED", 1000)
    (tmp_path / "rows.csv").write_text("name\n" + "".join(f"person {at}\n" for at in range(100)))
    domain = {"fields": [{"name": "name", "kind": "categorical", "discover": True}]}
    dpgm.read_records(tmp_path / "rows.csv", domain=domain)
    with pytest.raises(ResourceError, match="raise it, list the values"):
        dpgm.read_records(tmp_path / "rows.csv", domain=domain, memory=100)


@pytest.mark.parametrize("size", [1, 3, 7])
def test_an_array_of_json_reads_the_same_whatever_the_pieces(tmp_path, monkeypatch, size):
    basket = {"shape": "basket", "assume_public_items": True}
    (tmp_path / "rows.json").write_text('[ {"items": [1, 22]} ,\n {"items": []}, ["ä", 3]  ]\n', "utf-8")
    whole = dpgm.read_records(tmp_path / "rows.json", **basket)
    monkeypatch.setattr("dpgm.data.formats.json_lines.BLOCK_BYTES", size)
    assert dpgm.read_records(tmp_path / "rows.json", **basket) == whole
    for broken in ('[{"items": [1]}', '[{"items": [1}]', '[{"items": [1]}] x', '[{"items": [1]} {}]'):
        (tmp_path / "rows.json").write_text(broken)
        with pytest.raises(InputError):
            dpgm.read_records(tmp_path / "rows.json", **basket)
