"""Where a writer's chunks of records go: text, Parquet, scipy, numpy and idx files."""

import gzip
import os
import shutil
import struct
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import numpy as np

from dpgm.data.domain import Domain, Image, ItemSet
from dpgm.data.formats import Shape
from dpgm.data.pictures import byte_values
from dpgm.data.records import Records, concatenate
from dpgm.data.table import decode
from dpgm.data.write.rendering import Render

if TYPE_CHECKING:
    import pyarrow


class Sink(Protocol):
    """Where chunks of records go."""

    def write(self, records: Records, first: int) -> None:
        """Append records, the first of which has this number."""

    def close(self, count: int) -> None:
        """Complete the file, now that the number of records is known."""


@dataclass(frozen=True)
class SetColumns:
    """What the columns of item sets are called: of persons, of items, of lists; or whether CSV has plain `lines`."""

    person: str
    item: str
    lists: str
    lines: bool


class TextSink:
    """Lines of text, compressed where the name says so."""

    def __init__(self, raw: IO[bytes], header: bytes, render: Render, zipped: bool, stack: ExitStack) -> None:
        # No name and no time inside: equal records give equal files.
        self._file = stack.enter_context(gzip.GzipFile("", "wb", 6, raw, mtime=0)) if zipped else raw
        self._render = render
        self._file.write(header)

    def write(self, records: Records, first: int) -> None:
        """Append records."""
        self._file.write(self._render(records, first))

    def close(self, count: int) -> None:
        """Complete the file."""
        self._file.flush()


class ParquetSink:
    """One column of lists, person and item columns, or one column per field or item."""

    def __init__(
        self,
        raw: IO[bytes],
        domain: Domain,
        shape: Shape,
        names: SetColumns,
        rng: np.random.Generator,
        stack: ExitStack,
    ) -> None:
        self._raw, self._domain, self._shape, self._names, self._rng = raw, domain, shape, names, rng
        self._stack = stack
        self._writer: Any = None
        # The schema comes from an empty table, so that a file without records is complete as well.
        self._append(self._table(Records.from_lists([], domain), 0))

    def _table(self, records: Records, first: int) -> "pyarrow.Table":
        field = self._domain.item_set
        if field is not None and self._shape == "wide":
            return binary_table(records, field)
        table = decode(records, rng=self._rng)
        if field is None:
            return table
        if self._shape == "basket":
            return table.rename_columns([self._names.lists])
        return long_table(table.column(0).combine_chunks(), first, self._names.person, self._names.item)

    def _append(self, table: "pyarrow.Table") -> None:
        import pyarrow.parquet as pq

        if self._writer is None:
            self._writer = self._stack.enter_context(pq.ParquetWriter(self._raw, table.schema, compression="zstd"))
        if table.num_rows:
            self._writer.write_table(table)

    def write(self, records: Records, first: int) -> None:
        """Append records."""
        self._append(self._table(records, first))

    def close(self, count: int) -> None:
        """Complete the file."""
        self._writer.close()


def binary_table(records: Records, field: ItemSet | Image) -> "pyarrow.Table":
    """One 0/1 column per item."""
    import pyarrow as pa

    dense = records.to_dense(np.uint8)
    return pa.table([pa.array(column) for column in dense.T], names=[str(item) for item in field.items])


def long_table(lists: Any, first: int, person: str, item: str) -> "pyarrow.Table":
    """One row per person and item; persons are numbered from `first`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(lists, pa.ChunkedArray):
        lists = lists.chunk(0) if lists.num_chunks else pa.array([], type=lists.type)
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    persons = np.repeat(np.arange(first, first + len(lists)), np.maximum(lengths, 1))
    # A person without items keeps one row with a null item.
    values = pc.list_flatten(lists)
    has_item = np.ones(len(persons), dtype=bool)
    starts = np.cumsum(np.maximum(lengths, 1)) - np.maximum(lengths, 1)
    has_item[starts[lengths == 0]] = False
    at = np.cumsum(has_item) - 1
    return pa.table({person: persons, item: values.take(pa.array(at, mask=~has_item))})


class NpzSink:
    """scipy's sparse format; kept in memory (the size of the records) until the end."""

    def __init__(self, path: Path, domain: Domain) -> None:
        self._path = path
        self._parts = [Records.from_lists([], domain)]

    def write(self, records: Records, first: int) -> None:
        """Append records."""
        self._parts.append(records)

    def close(self, count: int) -> None:
        """Complete the file."""
        import scipy.sparse

        with open(self._path, "wb") as file:
            scipy.sparse.save_npz(file, concatenate(self._parts).to_scipy())


class MatrixSink:
    """Images or zeros and ones as bytes (npy, or MNIST's idx): a header, then the rows.

    The header holds the number of rows, so that it is written again at the end; compressed files are packed then.
    """

    def __init__(self, path: Path, domain: Domain, *, idx: bool, zipped: bool, stack: ExitStack) -> None:
        field = domain.item_set
        self._image = field if isinstance(field, Image) and (idx or field.levels > 2) else None  # bytes 0 to 255
        self._shape = (domain.width,) if self._image is None else (self._image.height, self._image.columns)
        self._path, self._idx, self._zipped = path, idx, zipped
        self._file = stack.enter_context(open(path, "wb"))  # noqa: SIM115 (closed by the stack)
        self._write_header(0)

    def _write_header(self, count: int) -> None:
        if self._idx:
            self._file.write(struct.pack(">IIII", 0x0803, count, *self._shape))
            return
        # numpy pads the header so that a longer count still fits.
        layout = {"descr": "|u1", "fortran_order": False, "shape": (count, *self._shape)}
        np.lib.format.write_array_header_1_0(self._file, layout)

    def write(self, records: Records, first: int) -> None:
        """Append records."""
        rows = records.to_dense(np.uint8) if self._image is None else byte_values(records, self._image)
        self._file.write(rows.tobytes())

    def close(self, count: int) -> None:
        """Complete the file."""
        self._file.seek(0)
        self._write_header(count)
        self._file.close()
        if self._zipped:
            _compress(self._path)


def _compress(path: Path) -> None:
    """Replace a file by itself compressed."""
    packed = path.with_name(path.name + ".gz")
    try:
        with (
            open(path, "rb") as source,
            open(packed, "wb") as raw,
            gzip.GzipFile("", "wb", 6, raw, mtime=0) as target,
        ):
            shutil.copyfileobj(source, target)
        os.replace(packed, path)
    finally:
        packed.unlink(missing_ok=True)
