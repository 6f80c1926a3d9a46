"""A sheet of an Excel workbook (.xlsx) as text columns.

Formulas are never evaluated: a cell with a formula is read as the value that was saved with it. As in delimited text,
types come from the domain and not from the cells.
"""

import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from dpgm.data.formats.base import Append, Format, Guess
from dpgm.data.formats.headers import distinct_names
from dpgm.data.formats.opening import Input, zip_members
from dpgm.data.formats.written import Written, plain_cell
from dpgm.data.items import plain_name
from dpgm.data.records import Records
from dpgm.data.stream import Chunk, Readers, RowStream
from dpgm.data.values import numbered, scalar_text
from dpgm.errors import InputError, ResourceError, UsageError
from dpgm.validation import counted

if TYPE_CHECKING:
    from dpgm.data.read.options import ReadOptions

_Row: TypeAlias = tuple[
    int, list[str | None]
]  # its number in the sheet, and its cells without empty ones at the end
_ROWS = 16_384  # per chunk
_MAX_UNPACKED = 4 << 30
_MAX_RATIO = 200  # sheets are XML, which compresses about twenty times
_RATIO_FROM = 64 << 20
_SHARED_TEXTS = "sharedStrings.xml"
_TEXT_COPIES = 3  # bytes of memory per byte of the list of texts: 60 for a short text, which takes 20 there
_MAX_LISTED = 5  # names of sheets in a message
_TITLE_ROWS = 20  # at the top, searched for a title
_FAULT = "is not a readable Excel workbook (.xlsx), or is damaged; save it again, or as CSV."


_SHEET_ROWS, _SHEET_COLUMNS, _SHEET_TEXT = 1_048_576, 16_384, 32_767  # the limits of Excel
_NO_CELL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")  # characters that its format does not allow


class Workbook(Format):
    """One sheet of a workbook; the first row names the columns unless `header` is False."""

    has = frozenset({"columns", "lines", "sheets"})
    packed = True
    writes = "file"

    def begins(self, head: bytes) -> bool:
        """By the mark of a zip archive."""
        return head.startswith(b"PK\x03\x04")

    def stream(self, source: Input, options: "ReadOptions", draft: Guess | None = None) -> RowStream:
        """Text columns."""
        sheet = islice(_rows(source, options), options.skip_lines, None)
        top = list(islice(sheet, 1 if draft is None else _TITLE_ROWS))
        if not top:
            raise InputError(f"{source}: holds no records; give a file with at least one.")
        if draft is not None:
            _refuse_title(top, source, options)
        first, domain = top[0][1], options.table_domain
        if options.header is False:
            names = tuple(str(at) for at in range(len(first)))
            if domain is not None and len(domain.columns) >= len(first):  # the last cells of the row may be empty
                names = tuple(column.name for column in domain.columns)
        else:
            names = tuple(plain_name((text or "").strip()) for text in first)
            if draft is not None or domain is not None:
                names = distinct_names(names)
            if not options.header and not options.named_columns:
                raise UsageError(
                    f"{source}: row {options.skip_lines + 1} may be a record, and a header would be published; say"
                    " `header=False` if it is a record, or `header=True` if it names the columns."
                )

        def rows(readers: Readers) -> Iterator[Chunk]:
            body = islice(chain(top, sheet), options.header is not False, None)
            return _chunks(source, names, (row for row in body if row[1]))

        certain = options.header is not None or set(options.named_columns) <= set(names)
        return RowStream(str(source), pa.schema([(name, pa.string()) for name in names]), rows, certain=certain)

    def guess(self, source: Input, options: "ReadOptions") -> Guess:
        """A sheet is a table with a header, unless the options say otherwise."""
        guess = super().guess(source, options)
        with_header = replace(guess.options, header=options.header is not False)
        return replace(guess, options=with_header) if guess.table else guess

    @contextmanager
    def writer(self, target: Path, written: Written) -> Iterator[Append]:
        """A workbook with one sheet; texts that Excel would run as formulas are escaped as in CSV."""
        try:
            import openpyxl
        except ImportError:
            raise UsageError(
                f"{target.name}: writing Excel needs openpyxl; install dpgm[excel], or write .csv."
            ) from None
        book = openpyxl.Workbook(write_only=True)
        sheet = book.create_sheet("records")
        names = written.schema.names
        if len(names) > _SHEET_COLUMNS:
            raise UsageError(f"a sheet has room for {_SHEET_COLUMNS:,} columns; write .csv or .parquet.")
        sheet.append([_cell(name) for name in names])
        rows = 1

        def append(records: Records, first: int) -> None:
            nonlocal rows
            made = written.cells(records, first)
            rows += made.num_rows
            if rows > _SHEET_ROWS:
                raise UsageError(f"a sheet has room for {_SHEET_ROWS - 1:,} rows of data; write .csv or .parquet.")
            for row in zip(*(column.to_pylist() for column in made.columns), strict=True):
                sheet.append([_cell(value) for value in row])

        try:
            yield append
        finally:
            sheet.close()  # else its temporary file stays open
        book.save(target)


def _cell(value: Any) -> Any:
    """A value as a cell of a sheet."""
    value = plain_cell(value)
    if isinstance(value, str) and (len(value) > _SHEET_TEXT or _NO_CELL.search(value)):
        raise UsageError("a text is too long for a cell or holds a control character; write .csv or .parquet.")
    return value


def _rows(source: Input, options: "ReadOptions") -> Iterator[_Row]:
    """The rows of a sheet as texts."""
    source.refuse_member("Excel workbooks")
    try:
        import openpyxl
    except ImportError:
        raise UsageError(
            f"{source}: reading Excel needs openpyxl; install dpgm[excel], or save the sheet as CSV."
        ) from None
    with open(source.path, "rb") as file:
        _check_size(zip_members(file, f"{source}: {_FAULT}"), source, options)
        book = _quietly(
            lambda: openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False), source
        )
        values = _sheet(book, source).iter_rows(values_only=True)
        for number in range(1, 1 << 31):
            row = _quietly(lambda: next(values, None), source)
            if row is None:
                return
            yield number, _texts(row, f"{source}: row {number}")


def _quietly(read: Callable[[], Any], source: Input) -> Any:
    """The result of `read`, without openpyxl's warnings: they quote cells, such as a date that is out of range."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read()
    except MemoryError:
        raise
    except Exception:  # on a damaged file openpyxl may raise anything
        raise InputError(f"{source}: {_FAULT}") from None


def _sheet(book: Any, source: Input) -> Any:
    """The sheet that the source names, or the only one."""
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    listed = ", ".join(list(sheets)[:_MAX_LISTED]) + (", ..." if len(sheets) > _MAX_LISTED else "")
    if source.sheet is None and len(sheets) != 1:
        raise InputError(f"{source}: holds {len(sheets)} sheets ({listed}); choose one with `member`.")
    if source.sheet is not None and source.sheet not in sheets:
        raise InputError(f"{source}: there is no such sheet; it holds {listed}.")
    return next(iter(sheets.values())) if source.sheet is None else sheets[source.sheet]


def _refuse_title(top: Sequence[_Row], source: Input, options: "ReadOptions") -> None:
    """Refuse rows of at most one cell above wider ones, and say how to skip them. For drafts only."""
    width = max(len(row) for _, row in top)
    header = next((at for at, (_, row) in enumerate(top) if _names_columns(row, width)), 0)
    if header and len(top) > header + 1:
        row = options.skip_lines + header
        raise InputError(
            f"{source}: row {options.skip_lines + 1} looks like a title above a table whose column names are in row"
            f" {row + 1}; leave out what is above them with `skip_lines={row}`."
        )


def _names_columns(row: list[str | None], width: int) -> bool:
    """Whether a row has several filled cells, or names the only column beside an index without a name."""
    filled = sum(cell is not None for cell in row)
    return filled > 1 or (filled == 1 and row[0] is None and len(row) == width == 2)


def _check_size(members: Sequence[zipfile.ZipInfo], source: Input, options: "ReadOptions") -> None:
    """Refuse a workbook that unpacks to too much, or whose list of texts, which is read whole, does."""
    unpacked = sum(one.file_size for one in members)
    packed = source.path.stat().st_size
    if unpacked > _MAX_UNPACKED or (unpacked > _RATIO_FROM and unpacked > _MAX_RATIO * packed):
        raise ResourceError(f"{source}: would unpack to {unpacked >> 20:,} MB; save the sheet as CSV.")
    texts = sum(one.file_size for one in members if one.filename.endswith(_SHARED_TEXTS))
    options.refuse_beyond_memory(source, _TEXT_COPIES * texts, "save the sheet as CSV")


def _texts(row: tuple[Any, ...], where: str) -> list[str | None]:
    try:
        texts = [scalar_text(value) for value in row]
    except (TypeError, ValueError):
        raise InputError(f"{where}: a cell holds neither a text, a number, a date nor a boolean.") from None
    while texts and texts[-1] is None:
        texts.pop()
    return texts


def _chunks(source: Input, names: tuple[str, ...], rows: Iterator[_Row]) -> Iterator[Chunk]:
    while piece := list(islice(rows, _ROWS)):
        for number, row in piece:
            if len(row) > len(names):
                raise InputError(
                    f"{source}: row {number}: has {counted(len(row), 'cell')} where {len(names)} are expected;"
                    " correct the row."
                )
        columns = zip(*((*row, *[None] * (len(names) - len(row))) for _, row in piece), strict=True)
        table = pa.table([pa.array(column, type=pa.string()) for column in columns], names=list(names))
        yield Chunk(table, numbered(f"{source}: row", [number for number, _ in piece]))
