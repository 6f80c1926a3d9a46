"""Writing records, chunk by chunk, in the format of the file's ending; the file appears whole or not at all.

Records become a table of the wanted shape, which is written as it stands (Parquet) or as lines of text (CSV, JSON
lines); lines of items and matrices of bytes are written from the positions. A writer of one format is a context manager
that gives a function to append records with: what completes the file comes after its `yield`, so that it is left out
after an error. Texts that a spreadsheet would run as a formula get a leading apostrophe in CSV (and lose it again on
reading).
"""

import gzip
import json
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpgm.data.atomic import atomic_file
from dpgm.data.decoding import shaped_table
from dpgm.data.domain import Domain, Image, ItemSet, Label, ShapedNumber
from dpgm.data.formats import FileFormat, Layout, Shape, check_shape, format_of
from dpgm.data.items import escape_formula
from dpgm.data.records import Records, byte_values, concatenate
from dpgm.data.values import as_written
from dpgm.errors import UsageError

# Records and the number of the first one, to bytes.
Render: TypeAlias = Callable[[Records, int], bytes]
# Also the separators a reader may guess, so that it never sees them outside of quotes.
_QUOTED = ('"', "\n", "\r", "\0", ",", ";", "\t", "|")
# Appends records, the first of which has this number.
Append: TypeAlias = Callable[[Records, int], object]
_CHUNK = 65_536
_DENSE_CELLS = 20_000_000
_ONE_SHAPE: dict[str, Shape] = {"fimi": "basket", "npz": "wide", "npy": "wide", "idx": "wide"}
_SEEKING = ("npz", "npy", "idx")  # formats that are completed at their beginning


class RecordWriter:
    r"""Appends records to a file that appears, complete, when the `with` block ends without an error.

    The format follows the ending, or is the `format` given with a `stream` (such as stdout) to write to instead of a
    file. `shape` is `basket` (default for one item set), `long` or `wide`; without it, item sets are written as their
    `layout` says, which also names the columns. Numbers of numeric fields are drawn within their bins from `rng`.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "visits.dat")
    >>> with RecordWriter(path, Domain.of_items(4)) as writer:
    ...     writer.write(Records.from_lists([[0, 3], [1]], Domain.of_items(4)))
    >>> with open(path) as file:
    ...     file.read()
    '0 3\n1\n'
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        domain: Domain,
        *,
        shape: str | None = None,
        rng: np.random.Generator | None = None,
        force: bool = True,
        layout: Layout | None = None,
        stream: IO[bytes] | None = None,
        format: str | None = None,
    ) -> None:
        self.path = Path(path)
        self.domain = domain
        self.count = 0
        self._format = format_of(path, format, written=True)
        self._stream = stream
        self._shape = _shape_for(self._format, domain, check_shape(shape), layout)
        self._layout = layout
        self._rng = np.random.default_rng() if rng is None else rng
        self._force = force
        self._stack = ExitStack()
        self._append: Append | None = None
        _check_fits(self.path, self._format, domain)
        if stream is not None and self._format.name in _SEEKING:
            raise UsageError(f"the format {self._format.name} cannot be written to stdout; name a file.")

    def __enter__(self) -> "RecordWriter":
        with self._stack:
            if self._stream is not None:
                opened = self._text_or_parquet(self._stream)
            else:
                opened = self._opened(self._stack.enter_context(atomic_file(self.path, force=self._force)))
            self._append = self._stack.enter_context(opened)
            self._stack = self._stack.pop_all()
        return self

    def write(self, records: Records) -> None:
        """Append records of the writer's domain."""
        if self._append is None:
            raise UsageError("a RecordWriter writes inside its `with` block only.")
        if records.domain is not self.domain and records.domain != self.domain:
            raise UsageError("the records have another domain than the writer.")
        size = max(1, min(_CHUNK, _DENSE_CELLS // records.width))
        for chunk in records.chunks(size):
            self._append(chunk, self.count)
            self.count += len(chunk)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Errors are handed on to `atomic_file`, which removes the half-written file.
        self._stack.__exit__(kind, error, trace)

    def _opened(self, temporary: Path) -> AbstractContextManager[Append]:
        name = self._format.name
        if name == "npz":
            return _npz(temporary, self.domain)
        if name in ("npy", "idx"):
            return _matrix(temporary, self.domain, idx=name == "idx", zipped=self._format.gzip)
        return self._text_or_parquet(self._stack.enter_context(open(temporary, "wb")))

    def _text_or_parquet(self, raw: IO[bytes]) -> AbstractContextManager[Append]:
        if self._format.name == "parquet":
            return _parquet(raw, self._table(Records.from_lists([], self.domain), 0).schema, self._table)
        header, render = self._lines()
        return _text(raw, header, render, self._format.gzip)

    def _table(self, records: Records, first: int) -> Any:
        return shaped_table(records, self._shape, self._layout, first=first, rng=self._rng)

    def _written(self, records: Records, first: int) -> Any:
        return written_table(self._table(records, first), self.domain)

    def _lines(self) -> tuple[bytes, Render]:
        """The header of a text file, and how its lines are written."""
        name, field = self._format.name, self.domain.item_set
        if name == "jsonl":
            return b"", lambda records, first: json_lines(self._written(records, first))
        separator = "\t" if name == "tsv" else ","
        if field is not None and name == "fimi":
            return b"", render_baskets(field, " ", str)
        lines = self._layout is None or (self._layout.shape == "basket" and self._layout.item is None)
        if field is not None and self._shape == "basket" and lines:
            return b"", render_baskets(field, separator, lambda label: csv_cell(label, separator))
        if field is not None and self._shape == "wide":
            return csv_line(field.items, separator), render_binary_csv(separator)
        names = self._table(Records.from_lists([], self.domain), 0).column_names
        return csv_line(names, separator), lambda records, first: csv_lines(
            self._written(records, first), self.domain, separator
        )


def write_records(
    records: Records,
    path: str | os.PathLike[str],
    *,
    shape: str | None = None,
    rng: np.random.Generator | None = None,
    force: bool = True,
) -> None:
    """Write records to a file in the format of its ending; the file appears whole or not at all.

    Args:
        records: What to write.
        path: The file; `.parquet`, `.csv`, `.tsv`, `.jsonl`, `.dat`, `.npz`, `.npy` or `.idx` (text also `.gz`).
        shape: `basket` (default for one item set), `long` or `wide` (default otherwise).
        rng: Draws numbers within the bins of numeric fields.
        force: Replace an existing file.

    Raises:
        DiskError: the file cannot be written.
        UsageError: the format or shape does not suit the domain.
    """
    with RecordWriter(path, records.domain, shape=shape, rng=rng, force=force) as writer:
        writer.write(records)


def _shape_for(format: FileFormat, domain: Domain, shape: Shape | None, layout: Layout | None) -> Shape:
    single = domain.item_set is not None
    only = _ONE_SHAPE.get(format.name)
    if shape is None:
        if not single:
            return "wide"
        return only or ("basket" if layout is None else layout.shape)
    if shape != "wide" and not single:
        raise UsageError(f"the shape {shape!r} needs a domain of one item set; write this one with shape 'wide'.")
    if only not in (None, shape):
        raise UsageError(f"the format {format.name} cannot hold the shape {shape!r}; leave the shape out.")
    return shape


def _check_fits(path: Path, format: FileFormat, domain: Domain) -> None:
    field = domain.item_set
    if format.name in ("msweb", "msnbc", "json", "xlsx"):
        raise UsageError(
            f"{path}: the format {format.name} can only be read; write .csv, .parquet, .jsonl or .dat."
        )
    if format.name == "fimi" and (field is None or not isinstance(field.items[0], int)):
        raise UsageError(f"{path}: FIMI files hold item numbers only; write .csv, .jsonl or .parquet.")
    if format.name == "idx" and not isinstance(field, Image):
        raise UsageError(f"{path}: idx files hold images only; write .csv, .jsonl or .parquet.")


@contextmanager
def _text(raw: IO[bytes], header: bytes, render: Render, zipped: bool) -> Iterator[Append]:
    # No name and no time inside: equal records give equal files.
    file: IO[bytes]
    with gzip.GzipFile("", "wb", 6, raw, mtime=0) if zipped else nullcontext(raw) as file:  # type: ignore[assignment]
        file.write(header)
        yield lambda records, first: file.write(render(records, first))
        file.flush()


@contextmanager
def _parquet(raw: IO[bytes], schema: Any, table: Callable[[Records, int], Any]) -> Iterator[Append]:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(raw, schema, compression="zstd") as writer:
        yield lambda records, first: writer.write_table(table(records, first))


@contextmanager
def _npz(path: Path, domain: Domain) -> Iterator[Append]:
    """Scipy's sparse format; kept in memory (the size of the records) until the end."""
    import scipy.sparse

    parts = [Records.from_lists([], domain)]
    yield lambda records, _: parts.append(records)
    with open(path, "wb") as file:
        scipy.sparse.save_npz(file, concatenate(parts).to_scipy())


@contextmanager
def _matrix(path: Path, domain: Domain, *, idx: bool, zipped: bool) -> Iterator[Append]:
    """Images or zeros and ones as bytes (npy, or MNIST's idx): a header, then the rows.

    The header holds the number of rows, so that it is written again at the end; compressed files are packed then.
    """
    field = domain.item_set
    image = field if isinstance(field, Image) and (idx or field.levels > 2) else None  # bytes 0 to 255
    shape = (domain.width,) if image is None else (image.height, image.columns)
    count = 0

    def write_header() -> None:
        if idx:
            file.write(struct.pack(">IIII", 0x0803, count, *shape))
            return
        # numpy pads the header so that a longer count still fits.
        header = {"descr": "|u1", "fortran_order": False, "shape": (count, *shape)}
        np.lib.format.write_array_header_1_0(file, header)

    def append(records: Records, first: int) -> None:
        nonlocal count
        rows = records.to_dense(np.uint8) if image is None else byte_values(records, image)
        file.write(rows.tobytes())
        count = first + len(records)

    with open(path, "wb") as file:
        write_header()
        yield append
        file.seek(0)
        write_header()
    if zipped:
        _compress(path)


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


def csv_cell(value: object, separator: str) -> str:
    """One cell: numbers as they are, lists as JSON, texts escaped and quoted where needed, nothing where missing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        value = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        return repr(value) if isinstance(value, float) else str(value)
    text = escape_formula(value)
    outer = text != text.strip() or text.startswith("\ufeff")
    if outer or separator in text or any(mark in text for mark in _QUOTED):
        return '"' + text.replace('"', '""') + '"'
    return text


def csv_line(values: Any, separator: str) -> bytes:
    """A line of cells."""
    return (separator.join(csv_cell(value, separator) for value in values) + "\n").encode()


def written_table(table: pa.Table, domain: Domain) -> pa.Table:
    """The table with dates as texts where the domain says how they are written."""
    for field in domain.fields:
        if isinstance(field, ShapedNumber) and field.pattern is not None:
            at = table.column_names.index(field.name)
            table = table.set_column(at, field.name, as_written(table.column(at), field.pattern))
    return table


def csv_lines(table: pa.Table, domain: Domain, separator: str) -> bytes:
    """One line per row; decimals have all their places (1.50)."""
    places = {
        field.name: field.format.decimals
        for field in domain.fields
        if isinstance(field, ShapedNumber) and field.format.kind == "decimal"
    }
    columns = [_cells(table.column(name), separator, places.get(name)) for name in table.column_names]
    lines = pc.binary_join_element_wise(*columns, separator)
    if len(columns) == 1:  # a lone empty cell would make a blank line, which readers skip
        lines = pc.if_else(pc.equal(lines, ""), '""', lines)
    return _joined(lines)


def _cells(column: pa.ChunkedArray, separator: str, places: int | None) -> pa.Array:
    """The cells of a column, each different value written once."""
    column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)
    if pa.types.is_integer(column.type):
        return pc.fill_null(column.cast(pa.string()), "")
    if places is not None:
        written = ["" if value is None else f"{value:.{places}f}" for value in column.to_pylist()]
        return pa.array(written, type=pa.string())
    if pa.types.is_nested(column.type) or pa.types.is_floating(column.type):
        return pa.array([csv_cell(value, separator) for value in column.to_pylist()], type=pa.string())
    encoded = column.dictionary_encode()
    cells = [csv_cell(value, separator) for value in encoded.dictionary.to_pylist()]
    return pc.fill_null(pa.array(cells, type=pa.string()).take(encoded.indices), "")


def _joined(lines: Any) -> bytes:
    """Arrow texts as lines."""
    if not len(lines):
        return b""
    one_list = pa.ListArray.from_arrays(pa.array([0, len(lines)], type=pa.int32()), lines)
    text: bytes = pc.binary_join(one_list, "\n")[0].as_buffer().to_pybytes()
    return text + b"\n"


def json_lines(table: pa.Table) -> bytes:
    """One object per row."""
    rows = table.to_pylist()
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows).encode()


def render_baskets(field: ItemSet | Image, separator: str, cell: Callable[[Label], str]) -> Render:
    """One line per record: its items, separated."""
    texts = pa.array([cell(label) for label in field.items], type=pa.string())

    def render(records: Records, _: int) -> bytes:
        items = texts.take(pa.array(records.indices))
        lists = pa.ListArray.from_arrays(pa.array(records.indptr.astype(np.int32)), items)
        return _joined(pc.binary_join(lists, separator))

    return render


def render_binary_csv(separator: str) -> Render:
    """One line per record: 0 or 1 for every position."""

    def render(records: Records, _: int) -> bytes:
        cells = np.full((len(records), 2 * records.width), ord(separator), dtype=np.uint8)
        cells[:, 0::2] = records.to_dense(np.uint8) + ord("0")
        cells[:, -1] = ord("\n")
        return cells.tobytes()

    return render
