"""A sheet of an Excel workbook (.xlsx) as named columns of texts, read cell by cell.

Formulas are never evaluated: a cell that holds one is read as the value that was saved with it. Types come from the
domain and not from the cells, as in delimited text.
"""

import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from dpgm.data.items import plain_name
from dpgm.data.read.columns import Chunk, Columns
from dpgm.data.read.delimited import distinct_names
from dpgm.data.read.opening import Input, zip_members
from dpgm.data.read.options import ReadOptions
from dpgm.data.values import numbered, scalar_text
from dpgm.errors import InputError, ResourceError, UsageError

_ROWS = 16_384
_MAX_UNPACKED = 4 << 30
_MAX_RATIO = 200  # sheets are XML, which compresses some twenty times
_RATIO_FROM = 64 << 20
_SHOWN = 5  # names of sheets in a message
_TITLES = 20  # rows at the top among which titles are looked for


def excel_columns(source: Input, options: ReadOptions, *, draft: bool = False) -> Columns:
    """A sheet of a workbook as named columns; the first row that is read names them unless `header` is False."""
    if draft:
        _refuse_title(source, options)
    first = next(islice(_rows(source), options.skip_lines, None), None)
    if first is None:
        raise InputError(f"{source}: holds no records; give a file with at least one.")
    domain = options.table_domain
    if options.header is False:
        names = tuple(str(at) for at in range(len(first)))
        if domain is not None and len(domain.fields) >= len(first):  # its last cells may be empty
            names = tuple(field.name for field in domain.fields)
        return Columns(str(source), names, (), _chunks(source, names, options.skip_lines))
    names = tuple(plain_name((text or "").strip()) for text in first)
    if draft or domain is not None:
        names = distinct_names(names)
    stated = bool(options.named_columns) and set(options.named_columns) <= set(names)
    if not stated and not options.header and not options.named_columns:
        raise UsageError(
            f"{source}: row {options.skip_lines + 1} may be a record, and a header would be published; say --no-header"
            " if it is a record, or --header if it names the columns."
        )
    return Columns(
        str(source), names, (), _chunks(source, names, options.skip_lines + 1), stated or options.header is True
    )


def _rows(source: Input) -> Iterator[list[str | None]]:
    """The rows of a sheet as texts, without empty cells at their ends; the place of a fault is told."""
    source.refuse_member("Excel workbooks")
    try:
        import openpyxl
    except ImportError:
        raise UsageError(
            f"{source}: reading Excel needs openpyxl; install dpgm[excel], or save the sheet as CSV."
        ) from None
    _check_size(source)
    fault = f"{source}: is not a readable Excel workbook (.xlsx), or is damaged; save it again, or as CSV."
    book = _quietly(
        lambda: openpyxl.load_workbook(source.path, read_only=True, data_only=True, keep_links=False), fault
    )
    try:
        values = _sheet(book, source).iter_rows(values_only=True)
        for number in range(1, 1 << 31):
            row = _quietly(lambda: next(values, None), fault)
            if row is None:
                return
            yield _texts(row, f"{source}: row {number}")
    finally:
        book.close()


def _quietly(read: Callable[[], Any], fault: str) -> Any:
    """What `read` gives, without warnings: they repeat cells, such as a date beyond all calendars."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read()
    except MemoryError:
        raise
    except Exception:  # of a damaged file openpyxl raises whatever its damage leads to
        raise InputError(fault) from None


def _sheet(book: Any, source: Input) -> Any:
    """The sheet that is asked for, or the only one."""
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    listed = ", ".join(list(sheets)[:_SHOWN]) + (", ..." if len(sheets) > _SHOWN else "")
    if source.sheet is None and len(sheets) != 1:
        raise InputError(f"{source}: holds {len(sheets)} sheets ({listed}); choose one with --member NAME.")
    if source.sheet is not None and source.sheet not in sheets:
        raise InputError(f"{source}: there is no such sheet; it holds {listed}.")
    return next(iter(sheets.values())) if source.sheet is None else sheets[source.sheet]


def _refuse_title(source: Input, options: ReadOptions) -> None:
    """Say how to leave out rows above a table: of one cell at most, and wider ones below. For drafts alone."""
    top = list(islice(_rows(source), options.skip_lines, options.skip_lines + _TITLES))
    filled = [sum(cell is not None for cell in row) for row in top]
    names = next((at for at, cells in enumerate(filled) if cells > 1), 0)
    if names and len(top) > names + 1:
        row = options.skip_lines + names
        raise InputError(
            f"{source}: row {options.skip_lines + 1} looks like a title above a table whose names of columns are in row"
            f" {row + 1}; leave out what is above them with --skip-lines {row}."
        )


def _check_size(source: Input) -> None:
    fault = f"{source}: is not a readable Excel workbook (.xlsx), or is damaged; save it again."
    unpacked = sum(one.file_size for one in zip_members(source.path, fault))
    packed = source.path.stat().st_size
    if unpacked > _MAX_UNPACKED or (unpacked > _RATIO_FROM and unpacked > _MAX_RATIO * packed):
        raise ResourceError(f"{source}: would unpack to {unpacked >> 20:,} MB; save the sheet as CSV.")


def _texts(row: tuple[Any, ...], where: str) -> list[str | None]:
    try:
        texts = [scalar_text(value) for value in row]
    except (TypeError, ValueError):
        raise InputError(f"{where}: a cell holds neither a text, a number, a date nor a boolean.") from None
    while texts and texts[-1] is None:
        texts.pop()
    return texts


def _chunks(source: Input, names: tuple[str, ...], skip: int) -> Iterator[Chunk]:
    filled = ((number, row) for number, row in islice(enumerate(_rows(source), start=1), skip, None) if row)
    while piece := list(islice(filled, _ROWS)):
        for number, row in piece:
            if len(row) > len(names):
                raise InputError(
                    f"{source}: row {number}: has {len(row)} cells where {len(names)} are expected; correct the row."
                )
        columns = zip(*((*row, *[None] * (len(names) - len(row))) for _, row in piece), strict=True)
        table = pa.table([pa.array(column, type=pa.string()) for column in columns], names=list(names))
        yield Chunk(table, numbered(f"{source}: row", [number for number, _ in piece]))
