"""A sheet of an Excel workbook (.xlsx) as named columns of texts.

Formulas are never evaluated: a cell with a formula is read as the value that was saved with it. As in delimited text,
types come from the domain and not from the cells.
"""

import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from dpgm.data.formats.delimited import distinct_names
from dpgm.data.formats.opening import Input, zip_members
from dpgm.data.items import plain_name
from dpgm.data.read.columns import Chunk, Columns
from dpgm.data.read.options import ReadOptions
from dpgm.data.values import numbered, scalar_text
from dpgm.errors import InputError, ResourceError, UsageError
from dpgm.validation import counted

_ROWS = 16_384  # per chunk
_MAX_UNPACKED = 4 << 30
_MAX_RATIO = 200  # sheets are XML, which compresses about twenty times
_RATIO_FROM = 64 << 20
_SHARED_TEXTS = "sharedStrings.xml"
_TEXT_COPIES = 3  # bytes of memory per byte of the list of texts: 60 for a short text, which takes 20 there
_MAX_LISTED = 5  # names of sheets in a message
_TITLE_ROWS = 20  # at the top, searched for a title
_FAULT = "is not a readable Excel workbook (.xlsx), or is damaged; save it again, or as CSV."


def excel_columns(source: Input, options: ReadOptions, *, draft: bool) -> Columns:
    """A sheet of a workbook as named columns; the first row names them unless the option `header` is False."""
    if draft:
        _refuse_title(source, options)
    _refuse_texts(source, options)
    first = next(islice(_rows(source), options.skip_lines, None), None)
    if first is None:
        raise InputError(f"{source}: holds no records; give a file with at least one.")
    domain = options.table_domain
    if options.header is False:
        names = tuple(str(at) for at in range(len(first)))
        if domain is not None and len(domain.columns) >= len(first):  # the last cells of the row may be empty
            names = tuple(column.name for column in domain.columns)
        return Columns(str(source), names, (), _chunks(source, names, options.skip_lines))
    names = tuple(plain_name((text or "").strip()) for text in first)
    if draft or domain is not None:
        names = distinct_names(names)
    if not options.header and not options.named_columns:
        raise UsageError(
            f"{source}: row {options.skip_lines + 1} may be a record, and a header would be published; say"
            " `header=False` if it is a record, or `header=True` if it names the columns."
        )
    certain = options.header is True or set(options.named_columns) <= set(names)
    return Columns(str(source), names, (), _chunks(source, names, options.skip_lines + 1), certain)


def _rows(source: Input) -> Iterator[list[str | None]]:
    """The rows of a sheet as texts, without the empty cells at their ends."""
    source.refuse_member("Excel workbooks")
    try:
        import openpyxl
    except ImportError:
        raise UsageError(
            f"{source}: reading Excel needs openpyxl; install dpgm[excel], or save the sheet as CSV."
        ) from None
    _check_size(source)
    book = _quietly(
        lambda: openpyxl.load_workbook(source.path, read_only=True, data_only=True, keep_links=False), source
    )
    try:
        values = _sheet(book, source).iter_rows(values_only=True)
        for number in range(1, 1 << 31):
            row = _quietly(lambda: next(values, None), source)
            if row is None:
                return
            yield _texts(row, f"{source}: row {number}")
    finally:
        book.close()


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


def _refuse_title(source: Input, options: ReadOptions) -> None:
    """Refuse rows of at most one cell above wider ones, and say how to skip them. For drafts only."""
    top = list(islice(_rows(source), options.skip_lines, options.skip_lines + _TITLE_ROWS))
    width = max(map(len, top), default=0)
    header = next((at for at, row in enumerate(top) if _names_columns(row, width)), 0)
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


def _check_size(source: Input) -> None:
    unpacked = sum(one.file_size for one in zip_members(source.path, f"{source}: {_FAULT}"))
    packed = source.path.stat().st_size
    if unpacked > _MAX_UNPACKED or (unpacked > _RATIO_FROM and unpacked > _MAX_RATIO * packed):
        raise ResourceError(f"{source}: would unpack to {unpacked >> 20:,} MB; save the sheet as CSV.")


def _refuse_texts(source: Input, options: ReadOptions) -> None:
    """Refuse a workbook whose texts, which stand in a list that is read whole, take more than the memory allowed."""
    members = zip_members(source.path, f"{source}: {_FAULT}")
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


def _chunks(source: Input, names: tuple[str, ...], skip: int) -> Iterator[Chunk]:
    filled = ((number, row) for number, row in islice(enumerate(_rows(source), start=1), skip, None) if row)
    while piece := list(islice(filled, _ROWS)):
        for number, row in piece:
            if len(row) > len(names):
                raise InputError(
                    f"{source}: row {number}: has {counted(len(row), 'cell')} where {len(names)} are expected;"
                    " correct the row."
                )
        columns = zip(*((*row, *[None] * (len(names) - len(row))) for _, row in piece), strict=True)
        table = pa.table([pa.array(column, type=pa.string()) for column in columns], names=list(names))
        yield Chunk(table, numbered(f"{source}: row", [number for number, _ in piece]))
