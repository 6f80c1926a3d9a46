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
from dpgm.errors import DiskError, UsageError

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
