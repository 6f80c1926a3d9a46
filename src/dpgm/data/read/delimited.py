"""Delimited text as tables of columns, all of them texts; and whether its first line names them or is a record.

Only the first line is examined, and it is a header only where it cannot be a record: it holds every name that
the options or the domain give, or the user says so. A line that could be either is refused, because a record taken for
a header would be published with the domain.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.csv

from dpgm.data.items import plain_name
from dpgm.data.read.columns import Chunk, Columns
from dpgm.data.read.lines import MARK, TextBlock, blocks_of
from dpgm.data.read.opening import Input
from dpgm.data.read.options import ReadOptions
from dpgm.data.values import Place
from dpgm.errors import InputError, UsageError

SEPARATORS = (",", ";", "\t", "|")
_MAX_COLUMNS = 100_000
_FEW = 1000  # rows looked at together for the first one that counts
_MARK_IN_CELL = "a quotation mark stands within a cell; put the whole cell in quotes and double the mark."
_NUMBER = re.compile(
    r"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE
)
_BINARY = {"0", "1", "true", "false"}  # how 0/1 columns are written


def split_cells(row: bytes, separator: str) -> list[str]:
    """The cells of one row.

    Rows end where quotes are closed, so that a row with a single mark within a cell takes in all that follow up to the
    next such row. It is refused: the first one would be read and the others lost.

    Raises:
        csv.Error: the text is more than one row of cells (`_MARK_IN_CELL`), or a cell is too long.
    """
    rows = csv.reader(io.StringIO(row.decode(), newline=""), delimiter=separator)
    cells = next(rows, [])
    if next(rows, None) is not None:
        raise csv.Error(_MARK_IN_CELL)
    return cells


def cells_of(row: bytes, separator: str, where: Callable[[], str]) -> list[str]:
    """The cells of one row; `where` names it if it cannot be read."""
    try:
        return split_cells(row, separator)
    except csv.Error as error:
        fault = _MARK_IN_CELL if str(error) == _MARK_IN_CELL else "a cell is longer than 128 kB; correct the file."
        raise InputError(f"{where()}: {fault}") from None


def delimited_columns(source: Input, options: ReadOptions, default: str, *, draft: bool = False) -> Columns:
    """A delimited file as named columns, known from its first line, the options and the domain.

    Args:
        source: the file.
        options: how it is read.
        default: the separator, if nothing else is stated.
        draft: the columns are fields of a table, even if no domain says so: one is being drafted.
    """
    first, place = _first_row(source, options)
    stated = options.stated_shape is not None
    if not stated and not options.header and not _zeros_and_ones(first, options.separator or default):
        raise UsageError(
            f"{source}: the shape is not clear; say `--shape basket` (one row per record, a list of items), `--shape"
            " wide` (one 0/1 column per item), --person and --item (one row per person and item), or, for a table,"
            " draft its domain with `dpgm inspect FILE --draft-domain domain.yaml`, read it and give it with --domain."
        )
    separator, header, certain = _separator(first, options, default)
    if not separator.isascii():
        raise UsageError(
            f"{source}: the separator of a table must be an ASCII character; save the file with another."
        )
    cells = cells_of(first, separator, lambda: place)
    if len(cells) > _MAX_COLUMNS:
        raise InputError(f"{place}: has more than {_MAX_COLUMNS:,} columns; use the basket or long shape.")
    if header is None:
        header = _is_header(cells, options, place)
    names = _names(cells, header, options, place)
    if header and (draft or options.table_domain is not None):
        names = distinct_names(names)
    chunks = _chunks(source, options, names, separator, header)
    return Columns(str(source), names, (), chunks, certain, shape=None if stated or header else "wide")


def _first_row(source: Input, options: ReadOptions) -> tuple[bytes, str]:
    """The first row that is not left out, and where it is."""
    for block in _blocks(source, options):
        for start in range(0, len(block.ends), _FEW):
            for at, row in enumerate(block.rows(start, start + _FEW), start):
                if is_kept(row, options.comment):
                    return row, block.place(at)
    raise InputError(f"{source}: holds no records; give a file with at least one.")


def _blocks(source: Input, options: ReadOptions) -> Iterator[TextBlock]:
    """The text in blocks of whole rows, comments among them."""
    return blocks_of(
        source,
        quoted=True,
        encoding=options.encoding,
        skip_lines=options.skip_lines,
        comment=options.comment,
    )


def _zeros_and_ones(row: bytes, separator: str) -> bool:
    """Whether a first line is a record of 0/1 columns and can be nothing else: names would have to differ."""
    cells = [cell.strip() for cell in row.split(separator.encode())]
    return len(cells) > 2 and set(cells) <= {b"0", b"1"}


def _separator(first: bytes, options: ReadOptions, default: str) -> tuple[str, bool | None, bool]:
    """The separator; whether the first line is a header, where that is clear; and whether its names are certain."""

    def cells(mark: str) -> list[str]:
        try:
            return split_cells(first, mark)
        except csv.Error:
            return []

    def names_all(mark: str) -> bool:
        return set(options.named_columns) <= set(distinct_names([plain_name(cell.strip()) for cell in cells(mark)]))

    marks = (default, *(mark for mark in SEPARATORS if mark != default))
    if options.separator is not None:
        marks = (options.separator,)
    if options.header is not False and options.named_columns:
        # A line that lacks a name is refused later, in a sentence that names the column.
        named = next((mark for mark in marks if names_all(mark)), None)
        separator = named or max(marks, key=lambda mark: len(cells(mark)))
        return separator, True, named is not None or options.header is True
    if options.header:
        return max(marks, key=lambda mark: len(cells(mark))), True, True
    return marks[0], options.header, True


def _is_header(cells: list[str], options: ReadOptions, place: str) -> bool:
    """Whether the first line of 0/1 columns names them; refuses where it could be a record as well."""
    field = options.item_set
    bare = [cell.strip() for cell in cells]
    numbers = [bool(_NUMBER.fullmatch(cell)) or cell.lower() in ("true", "false") for cell in bare]
    record = all(numbers) if options.threshold is not None else {cell.lower() for cell in bare} <= _BINARY
    if field is not None:
        labels = {str(label) for label in field.items}
        names = {plain_name(cell).strip() for cell in cells} | {plain_name(cell) for cell in cells}
        unclear = record and labels <= names
        header = not record
    else:
        # Names must differ, so that 0 and 1 in three or more columns are a record.
        distinct = len(set(bare)) == len(bare)
        header = not any(numbers) and "" not in bare
        unclear = not header and (distinct or not record or options.threshold is not None)
    if unclear:
        _refuse_title(bare, place)
        raise UsageError(
            f"{place} may be a record, and a header would be published; say --no-header if it is a record, or"
            " --header if it names the columns."
        )
    return header


def distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names of the columns of a table, of which some may be empty or occur twice: those are numbered.

    >>> distinct_names(["age", "q2", "q2", ""])
    ('age', 'q2', 'q2 (2)', 'column 4')
    """
    used, seen, distinct = set(names), set(), []
    following: dict[str, int] = {}  # the number to try next, so that names are made in linear time
    for at, name in enumerate(names):
        if name and name not in seen:
            seen.add(name)
            distinct.append(name)
            continue
        number = max(following.get(name, 0), 2 if name else at + 1)
        while (fresh := f"{name} ({number})" if name else f"column {number}") in used:
            number += 1
        following[name] = number + 1
        used.add(fresh)
        distinct.append(fresh)
    return tuple(distinct)


def _refuse_title(names: list[str], place: str) -> None:
    """Refuse a first line of several cells of which one at most is filled: it names no columns."""
    if len(names) > 2 and sum(name != "" for name in names) <= 1:
        raise InputError(
            f"{place} has {len(names)} cells, all empty but one at most, like a title above a table; leave out the"
            " lines above the names of the columns with --skip-lines N."
        )


def _names(cells: list[str], header: bool, options: ReadOptions, place: str) -> tuple[str, ...]:
    """Names from the header, from the domain, or numbers from 0."""
    field, count = options.item_set, len(cells)
    if header:
        _refuse_title([cell.strip() for cell in cells], place)
        if field is not None and options.item is None:
            return tuple(cells)  # items may have white space around them
        return tuple(plain_name(cell.strip()) for cell in cells)
    if options.table_domain is not None:
        fields = options.table_domain.fields
        if len(fields) != count:
            raise InputError(
                f"{place}: has {count} cells, but the domain has {len(fields)} fields and the file no header;"
                " correct the domain, or name the columns in a header."
            )
        return tuple(field.name for field in fields)
    if field is not None and field.width == count:
        return tuple(str(label) for label in field.items)
    return tuple(str(at) for at in range(count))


def is_kept(row: bytes, comment: str | None) -> bool:
    """Whether a row is neither blank nor a comment."""
    return bool(row) and not (comment is not None and row.startswith(comment.encode()))


def holds_lines_of_items(options: ReadOptions) -> bool:
    """Whether rows are lists of items without columns: baskets where the options name no header or column."""
    return options.shape == "basket" and not options.header and options.item is None and options.person is None


def _chunks(
    source: Input, options: ReadOptions, names: tuple[str, ...], separator: str, header: bool
) -> Iterator[Chunk]:
    needed = options.columns_to_read(names)
    for block in _blocks(source, options):
        text, count = block.text, len(block.ends)
        place: Place = block.place
        if b"\n\n" in text or text.startswith(b"\n") or options.comment is not None:
            rows, place = block.kept(lambda row: is_kept(row, options.comment))
            text, count = b"".join(row + b"\n" for row in rows), len(rows)
            below = len(rows[0]) + 1 if rows else 0
            del rows
        else:
            below = int(block.ends[0]) + 1
        if header and text:
            header, text, count, place = False, text[below:], count - 1, _one_below(place)
        if text:
            yield Chunk(_parse(text, count, names, needed, separator, place), place)


def _one_below(place: Place) -> Place:
    return lambda row: place(row + 1)


def _parse(
    text: bytes, rows: int, names: tuple[str, ...], needed: list[str], separator: str, place: Place
) -> pa.Table:
    """The columns `needed` of `rows` rows of text, all as texts."""
    ragged: list[tuple[int, int]] = []

    def note(row: object) -> str:
        ragged.append((row.number, row.actual_columns))  # type: ignore[attr-defined]
        return "skip"

    if text.startswith(MARK):
        text = MARK + text  # the parser drops one at the start of what it gets
    # Names as numbers: column names of the file may repeat, which is refused later with a better sentence.
    keys = {name: str(at) for at, name in enumerate(names)}
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(text),
            pyarrow.csv.ReadOptions(
                use_threads=False, block_size=len(text) + 1, column_names=[str(at) for at in range(len(names))]
            ),
            pyarrow.csv.ParseOptions(
                delimiter=separator, newlines_in_values=True, ignore_empty_lines=False, invalid_row_handler=note
            ),
            pyarrow.csv.ConvertOptions(
                column_types={key: pa.string() for key in keys.values()},
                include_columns=[keys[name] for name in needed],
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )
    except pa.ArrowInvalid:
        raise InputError(
            f"{place(0)} or after: the text cannot be read as rows of cells; check its quotes."
        ) from None
    if table.num_rows + len(ragged) != rows:
        raise InputError(f"{place(0)} or after: {_MARK_IN_CELL}")
    if ragged:
        number, cells = ragged[0]
        raise InputError(
            f"{place(number - 1)}: has {cells} cells where {len(names)} are expected; correct the row, or say"
            " `--shape basket` if rows are lists of items."
        )
    return table.rename_columns(needed)
