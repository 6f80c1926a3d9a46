"""Writing records to files, chunk by chunk; a file appears complete or not at all.

The format follows from the file's ending. Records become a table of the requested shape, which is written as Parquet or
as lines of text (CSV, JSON lines); lines of items and matrices of bytes are written directly from the positions. The
writer of each format is a context manager that yields a function to append records; what completes the file comes after
the `yield`, so it is skipped after an error. In CSV, texts that a spreadsheet would run as a formula get a leading
apostrophe, which is removed on reading.
"""

import gzip
import json
import os
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpgm.data.atomic import atomic_file, atomic_folder
from dpgm.data.decoding import shaped_table
from dpgm.data.domain import Domain, Field, Label
from dpgm.data.formats import FileFormat, format_of
from dpgm.data.items import escape_formula
from dpgm.data.kinds.items import SetField
from dpgm.data.layouts import Layout, Shape, check_shape
from dpgm.data.picture_files import picture_arrays, picture_folder, shows_images
from dpgm.data.records import WHITE, Records, concatenate, pixel_values
from dpgm.errors import UsageError

# Both take records and the number of the first one: one returns lines of text, the other appends to a file.
_Render: TypeAlias = Callable[[Records, int], bytes]
_Append: TypeAlias = Callable[[Records, int], object]
# Cells with these characters are quoted: also all separators that a reader may guess.
_QUOTED = ('"', "\n", "\r", "\0", ",", ";", "\t", "|")
_CHUNK = 65_536  # records
_DENSE_CELLS = 20_000_000
_SHEET_ROWS, _SHEET_COLUMNS, _SHEET_TEXT = 1_048_576, 16_384, 32_767  # the limits of Excel
_NO_CELL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")  # characters that its format does not allow
_ONE_SHAPE: dict[str, Shape] = {"fimi": "basket", "npz": "wide", "npy": "wide", "idx": "wide", "png": "wide"}
_SETS = ("npz", "npy", "idx", "png")  # formats in which a record has each item at most once, without order
_SEEKING = ("npz", "npy", "idx", "png", "xlsx")  # formats that need a complete file, not a stream


class RecordWriter:
    r"""Appends records to a file that appears, complete, when the `with` block ends without an error.

    The format follows the ending, or is the `format` given with a `stream` (such as stdout) to write to instead of a
    file. `shape` is `basket` (default for one item set), `long` or `wide`; without it, item sets are written in the
    shape of `layout`, which also names the columns. Numbers of numeric fields are drawn within their bins from `rng`.

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
        self._format = _format_for(Path(path), format, domain)
        self._stream = stream
        self._shape = _shape_for(self._format, domain, check_shape(shape), layout)
        self._layout = layout
        if domain.sequence is not None:
            self.domain = replace(domain, layout=layout)
        self._rng = np.random.default_rng() if rng is None else rng
        self._force = force
        self._stack = ExitStack()
        self._append: _Append | None = None
        _check_fits(self.path, self._format, domain)
        if stream is not None and self._format.name in _SEEKING:
            raise UsageError(f"the format {self._format.name} cannot be written to stdout; name a file.")

    def __enter__(self) -> "RecordWriter":
        with self._stack:
            if self._stream is not None:
                appender = self._stream_appender(self._stream)
            else:
                # A folder is never replaced: it may hold anything.
                folder = self._format.name == "png"
                target = atomic_folder(self.path) if folder else atomic_file(self.path, force=self._force)
                appender = self._file_appender(self._stack.enter_context(target))
            self._append = self._stack.enter_context(appender)
            self._stack = self._stack.pop_all()
        return self

    def write(self, records: Records) -> None:
        """Append records of the writer's domain."""
        if self._append is None:
            raise UsageError("a RecordWriter writes inside its `with` block only.")
        if records.domain is not self.domain and records.domain != self.domain:
            raise UsageError("the records have another domain than the writer.")
        records = replace(records, domain=self.domain)  # whose layout is the one to write
        size = max(1, min(_CHUNK, _DENSE_CELLS // records.width))
        for chunk in records.chunks(size):
            self._append(chunk, self.count)
            self.count += len(chunk)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Errors reach `atomic_file`, which removes the incomplete file.
        self._stack.__exit__(kind, error, trace)

    def _file_appender(self, temporary: Path) -> AbstractContextManager[_Append]:
        name = self._format.name
        if name == "png":
            return picture_folder(temporary, self.domain)
        if name == "npz":
            write = picture_arrays if shows_images(self.domain) else _npz
            return write(temporary, self.domain)
        if name == "xlsx":
            return _sheet(temporary, self._empty_table().column_names, self._cell_table)
        if name in ("npy", "idx"):
            return _matrix(temporary, self.domain, idx=name == "idx", zipped=self._format.gzip)
        return self._stream_appender(self._stack.enter_context(open(temporary, "wb")))

    def _stream_appender(self, raw: IO[bytes]) -> AbstractContextManager[_Append]:
        if self._format.name == "parquet":
            return _parquet(raw, self._empty_table().schema, self._table)
        header, render = self._header_and_render()
        return _text(raw, header, render, self._format.gzip)

    def _table(self, records: Records, first: int) -> Any:
        return shaped_table(records, self._shape, self._layout, first=first, rng=self._rng)

    def _empty_table(self) -> Any:
        return self._table(Records.from_lists([], self.domain), 0)

    def _text_table(self, records: Records, first: int) -> Any:
        return _as_written(self._table(records, first), self.domain)

    def _cell_table(self, records: Records, first: int) -> Any:
        return _as_cells(self._text_table(records, first), self.domain)

    def _header_and_render(self) -> tuple[bytes, _Render]:
        """The header of a text file, and the function that renders records as lines."""
        name, field = self._format.name, self.domain.item_set
        if name == "jsonl":
            return b"", lambda records, first: _json_lines(self._text_table(records, first))
        separator = "\t" if name == "tsv" else ","
        if field is not None and name == "fimi":
            return b"", _render_baskets(field, " ", str)
        without_columns = self._layout is None or (self._layout.shape == "basket" and self._layout.item is None)
        without_columns &= self.domain.time_column is None
        if field is not None and self._shape == "basket" and without_columns:
            return b"", _render_baskets(field, separator, _csv_cell)
        if field is not None and self._shape == "wide" and self.domain.sequence is None:
            return _csv_line(field.items, separator), _render_binary_csv(separator)
        header = _csv_line(self._empty_table().column_names, separator)
        return header, lambda records, first: _csv_lines(self._cell_table(records, first), self.domain, separator)


def write_records(
    records: Records,
    path: str | os.PathLike[str],
    *,
    shape: str | None = None,
    rng: np.random.Generator | None = None,
    force: bool = True,
) -> None:
    """Write records to a file in the format of its ending; the file appears complete or not at all.

    Samples of item sets are written like the file that was fitted, as `dpgm sample` does.

    Args:
        records: The records.
        path: The file; `.parquet`, `.csv`, `.tsv`, `.jsonl`, `.xlsx`, `.dat`, `.npz`, `.npy` or `.idx` (text also
            `.gz`).
        shape: `basket`, `long` or `wide`; by default that of the domain's layout, else `basket` for one item set and
            `wide` otherwise.
        rng: Draws numbers within the bins of numeric fields.
        force: Replace an existing file.

    Raises:
        DiskError: the file cannot be written.
        UsageError: the format or shape does not suit the domain.
    """
    layout = records.domain.layout
    with RecordWriter(path, records.domain, shape=shape, rng=rng, force=force, layout=layout) as writer:
        writer.write(records)


def _format_for(path: Path, format: str | None, domain: Domain) -> FileFormat:
    """The format to write: images go to a folder if the name has no ending."""
    if format is None and not path.suffix and shows_images(domain):
        return FileFormat("png")
    return format_of(path, format, written=True)


def _shape_for(format: FileFormat, domain: Domain, shape: Shape | None, layout: Layout | None) -> Shape:
    only_shape = _ONE_SHAPE.get(format.name)
    shapes: list[Shape] = ["basket", "long", "wide"] if domain.item_set is not None else ["wide"]
    if domain.item_set is None and domain.sequence is not None:
        shapes.append("long")
    if shape is None:
        by_layout = None if layout is None or layout.shape not in shapes else layout.shape
        return (only_shape if only_shape in shapes else None) or by_layout or shapes[0]
    if shape not in shapes:
        raise UsageError(f"the shape {shape!r} needs a domain of one item set; write this one with shape 'wide'.")
    if only_shape not in (None, shape):
        raise UsageError(f"the format {format.name} cannot hold the shape {shape!r}; leave the shape out.")
    return shape


def _check_fits(path: Path, format: FileFormat, domain: Domain) -> None:
    field = domain.item_set
    if format.name == "json":
        raise UsageError(f"{path}: the format json can only be read; write .csv, .parquet, .jsonl or .dat.")
    if domain.sequence is not None and (format.name in _SETS or (format.name == "fimi" and domain.time_column)):
        raise UsageError(
            f"{path}: the format {format.name} cannot hold the events of a sequence; write .csv, .jsonl or .parquet."
        )
    if format.name == "fimi" and (field is None or not isinstance(field.items[0], int)):
        raise UsageError(f"{path}: FIMI files hold item numbers only; write .csv, .jsonl or .parquet.")
    if format.name == "png" and path.suffix:
        raise UsageError(f"{path}: images are written to a folder, one file each; give a name without an ending.")
    if format.name == "idx" and (field is None or field.image is None):
        raise UsageError(f"{path}: idx files hold images only; write .csv, .jsonl or .parquet.")


@contextmanager
def _text(raw: IO[bytes], header: bytes, render: _Render, zipped: bool) -> Iterator[_Append]:
    # gzip without a name and time, so that equal records give equal files.
    file: IO[bytes]
    with gzip.GzipFile("", "wb", 6, raw, mtime=0) if zipped else nullcontext(raw) as file:  # type: ignore[assignment]
        file.write(header)
        yield lambda records, first: file.write(render(records, first))
        file.flush()


@contextmanager
def _parquet(raw: IO[bytes], schema: Any, table: Callable[[Records, int], Any]) -> Iterator[_Append]:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(raw, schema, compression="zstd") as writer:
        yield lambda records, first: writer.write_table(table(records, first))


@contextmanager
def _sheet(path: Path, names: list[str], table: Callable[[Records, int], Any]) -> Iterator[_Append]:
    """A workbook with one sheet; texts that Excel would run as formulas are escaped as in CSV."""
    try:
        import openpyxl
    except ImportError:
        raise UsageError(
            f"{path.name}: writing Excel needs openpyxl; install dpgm[excel], or write .csv."
        ) from None
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("records")
    if len(names) > _SHEET_COLUMNS:
        raise UsageError(f"a sheet has room for {_SHEET_COLUMNS:,} columns; write .csv or .parquet.")
    sheet.append([_sheet_cell(name) for name in names])
    rows = 1

    def append(records: Records, first: int) -> None:
        nonlocal rows
        made = table(records, first)
        rows += made.num_rows
        if rows > _SHEET_ROWS:
            raise UsageError(f"a sheet has room for {_SHEET_ROWS - 1:,} rows of data; write .csv or .parquet.")
        for row in zip(*(column.to_pylist() for column in made.columns), strict=True):
            sheet.append([_sheet_cell(value) for value in row])

    try:
        yield append
    finally:
        sheet.close()  # else its temporary file stays open
    book.save(path)


def _sheet_cell(value: Any) -> Any:
    """A value as a cell of a sheet: lists as JSON, texts escaped."""
    if isinstance(value, list):
        value = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        return value
    text = escape_formula(value)
    if len(text) > _SHEET_TEXT or _NO_CELL.search(text):
        raise UsageError("a text is too long for a cell or holds a control character; write .csv or .parquet.")
    return text


@contextmanager
def _npz(path: Path, domain: Domain) -> Iterator[_Append]:
    """Scipy's sparse format; all records are kept in memory until the end."""
    import scipy.sparse

    parts = [Records.from_lists([], domain)]
    yield lambda records, _: parts.append(records)
    with open(path, "wb") as file:
        scipy.sparse.save_npz(file, concatenate(parts).to_scipy())


@contextmanager
def _matrix(path: Path, domain: Domain, *, idx: bool, zipped: bool) -> Iterator[_Append]:
    """Bytes in npy or MNIST's idx format: images as grey values, or zeros and ones.

    The header has the number of rows, so it is written again at the end; compression comes after that.
    """
    field = domain.item_set
    image = None if field is None else field.image
    image = image if image is not None and (idx or image.levels > 2) else None  # with grey values
    white = WHITE if image is None or image.white is None else image.white
    white = min(white, WHITE) if idx else white  # idx files hold bytes
    shape = (domain.width,) if image is None else (image.height, image.columns)
    count = 0

    def write_header() -> None:
        if idx:
            file.write(struct.pack(">IIII", 0x0803, count, *shape))
            return
        # numpy pads the header, so a longer count still fits.
        header = {"descr": "|u1" if white <= WHITE else "<u2", "fortran_order": False, "shape": (count, *shape)}
        np.lib.format.write_array_header_1_0(file, header)

    def append(records: Records, first: int) -> None:
        nonlocal count
        rows = records.to_dense(np.uint8) if image is None else pixel_values(records, image, white)
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
    """Compress a file in place."""
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


def _csv_cell(value: object) -> str:
    """A value as a CSV cell: lists as JSON, texts escaped and quoted if needed, empty if missing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        value = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        return repr(value) if isinstance(value, float) else str(value)
    text = escape_formula(value)
    would_be_stripped = text != text.strip() or text.startswith("\ufeff")
    if would_be_stripped or any(mark in text for mark in _QUOTED):
        return '"' + text.replace('"', '""') + '"'
    return text


def _csv_line(values: Any, separator: str) -> bytes:
    return (separator.join(_csv_cell(value) for value in values) + "\n").encode()


def _as_written(table: pa.Table, domain: Domain) -> pa.Table:
    """The table with the columns that text files write in their own way, such as dates in a pattern."""
    for at, name in enumerate(table.column_names):
        field = _field_of_column(name, table, domain)
        if field is not None and (written := field.as_written(table.column(at))) is not None:
            table = table.set_column(at, name, written)
        if domain.sequence is not None and name == domain.time_column:
            table = table.set_column(at, name, domain.sequence.times_as_written(table.column(at)))
    return table


def _as_cells(table: pa.Table, domain: Domain) -> pa.Table:
    """The table with lists of items as cells, where the domain states what stands between items (else JSON lists)."""
    for at, name in enumerate(table.column_names):
        field = domain.sequence if name == domain.time_column else _field_of_column(name, table, domain)
        if field is None or not pa.types.is_nested(table.schema.field(at).type):
            continue
        if (cells := field.as_cells(table.column(at))) is not None:
            table = table.set_column(at, name, cells)
    return table


def _field_of_column(name: str, table: pa.Table, domain: Domain) -> Field | None:
    """The field of a column; the layout may name that of the only item set otherwise, and it is the last column."""
    if domain.sequence is not None and domain.layout is not None and name == domain.layout.item:
        return domain.sequence
    if domain.item_set is not None and domain.sequence is None:
        return domain.item_set if name == table.column_names[-1] else None
    return next((field for field in domain.fields if field.name == name), None)


def _csv_lines(table: pa.Table, domain: Domain, separator: str) -> bytes:
    """One line per row; decimal numbers have all their places (1.50)."""
    places = {field.name: field.decimal_places or None for field in domain.fields}
    columns = [_cells(table.column(name), places.get(name)) for name in table.column_names]
    lines = pc.binary_join_element_wise(*columns, separator)
    if len(columns) == 1:  # an empty cell would make a blank line, which readers skip
        lines = pc.if_else(pc.equal(lines, ""), '""', lines)
    return _joined(lines)


def _cells(column: pa.ChunkedArray, places: int | None) -> pa.Array:
    """The cells of a column; texts, dates and booleans are formatted once per distinct value."""
    column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)
    if pa.types.is_integer(column.type):
        return pc.fill_null(column.cast(pa.string()), "")
    if places is not None:
        cells = ["" if value is None else f"{value:.{places}f}" for value in column.to_pylist()]
        return pa.array(cells, type=pa.string())
    if pa.types.is_nested(column.type) or pa.types.is_floating(column.type):
        return pa.array([_csv_cell(value) for value in column.to_pylist()], type=pa.string())
    encoded = column.dictionary_encode()
    cells = [_csv_cell(value) for value in encoded.dictionary.to_pylist()]
    return pc.fill_null(pa.array(cells, type=pa.string()).take(encoded.indices), "")


def _joined(lines: Any) -> bytes:
    """An Arrow array of texts as lines."""
    if not len(lines):
        return b""
    one_list = pa.ListArray.from_arrays(pa.array([0, len(lines)], type=pa.int32()), lines)
    text: bytes = pc.binary_join(one_list, "\n")[0].as_buffer().to_pybytes()
    return text + b"\n"


def _json_lines(table: pa.Table) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in table.to_pylist()).encode()


def _render_baskets(field: SetField, separator: str, cell: Callable[[Label], str]) -> _Render:
    """Renders one line of items per record."""
    texts = pa.array([cell(label) for label in field.items], type=pa.string())

    def render(records: Records, _: int) -> bytes:
        events = records.events
        indptr, codes = (records.indptr, records.indices) if events is None else (events.indptr, events.codes)
        lists = pa.ListArray.from_arrays(pa.array(indptr.astype(np.int32)), texts.take(pa.array(codes)))
        return _joined(pc.binary_join(lists, separator))

    return render


def _render_binary_csv(separator: str) -> _Render:
    """Renders one line per record, with 0 or 1 for every position."""

    def render(records: Records, _: int) -> bytes:
        cells = np.full((len(records), 2 * records.width), ord(separator), dtype=np.uint8)
        cells[:, 0::2] = records.to_dense(np.uint8) + ord("0")
        cells[:, -1] = ord("\n")
        return cells.tobytes()

    return render
