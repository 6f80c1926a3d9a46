"""Delimited text (CSV, TSV) as tables of text columns, named by a header line, the domain or numbers.

The first line is taken for a header only where it cannot be a record: it contains every name that the options or the
domain give, or the user says so. A line that could be either is refused, because a record taken for a header would be
published with the domain. No other line is examined for this.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.csv

from dpgm.data.formats.lines import BYTE_ORDER_MARK, blocks_of
from dpgm.data.formats.opening import Input
from dpgm.data.items import plain_name
from dpgm.data.labels import INDEX
from dpgm.data.read.columns import Chunk, Columns
from dpgm.data.read.options import ReadOptions
from dpgm.data.values import Place
from dpgm.errors import InputError, UsageError
from dpgm.validation import counted

SEPARATORS = (",", ";", "\t", "|")
SPACE = " "  # as R's write.table has it: only where the header then has all names of the domain
_MAX_COLUMNS = 100_000
_ROWS_AT_ONCE = 1000  # in the search for the first row
_QUOTE_IN_CELL = "there is a quotation mark within a cell; put the whole cell in quotes and double the mark."
_NUMBER = re.compile(
    r"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE
)
_BINARY = {"0", "1", "true", "false"}  # how 0/1 columns are written


def split_cells(row: bytes, separator: str) -> list[str]:
    """The cells of one row.

    A row ends at a line break outside of quotes, so that a row with a single quotation mark within a cell extends to
    the next such row. It is refused: only its first line would be read, and the others lost.

    Raises:
        csv.Error: the text is more than one row of cells (`_QUOTE_IN_CELL`), or a cell is too long.
    """
    rows = csv.reader(io.StringIO(row.decode(), newline=""), delimiter=separator)
    cells = next(rows, [])
    if next(rows, None) is not None:
        raise csv.Error(_QUOTE_IN_CELL)
    return cells


def cells_of(row: bytes, separator: str, where: Callable[[], str]) -> list[str]:
    """The cells of one row; `where` gives its place for the message if it cannot be read."""
    try:
        return split_cells(row, separator)
    except csv.Error as error:
        too_long = "a cell is longer than 128 kB; correct the file."
        raise InputError(f"{where()}: {_QUOTE_IN_CELL if str(error) == _QUOTE_IN_CELL else too_long}") from None


def delimited_columns(source: Input, options: ReadOptions, default: str, *, draft: bool) -> Columns:
    """A delimited file as named columns.

    Args:
        source: the file.
        options: how it is read.
        default: the separator if the options state none and the header does not show one.
        draft: a domain is being drafted: the columns are fields of a table although no domain says so.
    """
    first, place = _first_row(source, options)
    stated = options.stated_shape is not None
    if not stated and not options.header and not _is_binary_record(first, options.separator or default):
        raise UsageError(
            f"{source}: the shape is not clear; say `shape='basket'` (one row per record, a list of items),"
            " `shape='wide'` (one 0/1 column per item), `person` and `item` (one row per person and item), or, for a"
            " table, draft its domain with `dpgm inspect FILE --draft-domain domain.yaml`, read it and give it as"
            " `domain`."
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
    names = _names(cells, header, options, place, table=draft or options.table_domain is not None)
    chunks = _chunks(source, options, names, separator, header)
    return Columns(str(source), names, (), chunks, certain, shape=None if stated or header else "wide")


def _first_row(source: Input, options: ReadOptions) -> tuple[bytes, str]:
    """The first row that is neither blank nor a comment, and its place."""
    for block in blocks_of(source, options, quoted=True):
        for start in range(0, len(block.ends), _ROWS_AT_ONCE):
            for at, row in enumerate(block.rows(start, start + _ROWS_AT_ONCE), start):
                if has_content(row, options.comment):
                    return row, block.place(at)
    raise InputError(f"{source}: holds no records; give a file with at least one.")


def _is_binary_record(row: bytes, separator: str) -> bool:
    """Whether a first line must be a record of 0/1 columns: more than two cells of 0 and 1 cannot be distinct names."""
    cells = [cell.strip() for cell in row.split(separator.encode())]
    return len(cells) > 2 and set(cells) <= {b"0", b"1"}


def _separator(first: bytes, options: ReadOptions, default: str) -> tuple[str, bool | None, bool]:
    """The separator; whether the first line is a header (None if unclear); and whether its names are certain."""

    def cells(separator: str) -> list[str]:
        try:
            return split_cells(first, separator)
        except csv.Error:
            return []

    def has_all_names(separator: str) -> bool:
        return set(options.named_columns) <= set(_header_names(cells(separator), options, table=True))

    candidates = (default, *(one for one in SEPARATORS if one != default))
    with_space = (*candidates, SPACE)
    if options.separator is not None:
        candidates = with_space = (options.separator,)
    if options.header is False or (options.header is None and not options.named_columns):
        return candidates[0], options.header, True
    most_cells = max(candidates, key=lambda separator: len(cells(separator)))
    if not options.named_columns:
        return most_cells, True, True
    # A line that lacks a name is refused later, with a message that names the column.
    matching = next((separator for separator in with_space if has_all_names(separator)), None)
    return matching or most_cells, True, matching is not None or options.header is True


def _is_header(cells: list[str], options: ReadOptions, place: str) -> bool:
    """Whether the first line of 0/1 columns names them; refuses a line that could be a record as well."""
    field = options.item_set
    stripped = [cell.strip() for cell in cells]
    numbers = [is_number_text(cell) or cell.lower() in ("true", "false") for cell in stripped]
    binary = {cell.lower() for cell in stripped} <= _BINARY
    may_be_record = binary if options.threshold is None else all(numbers)
    if field is not None:
        labels = {str(label) for label in field.items}
        names = {plain_name(cell).strip() for cell in cells} | {plain_name(cell) for cell in cells}
        header = not may_be_record
        unclear = may_be_record and labels <= names
    else:
        # Names must differ, so that 0 and 1 in three or more columns are a record.
        distinct = len(set(stripped)) == len(stripped)
        header = not any(numbers) and "" not in stripped[1:]
        unclear = not header and (distinct or not may_be_record or options.threshold is not None)
    if unclear:
        _refuse_title(stripped, place)
        raise UsageError(
            f"{place} may be a record, and a header would be published; say `header=False` if it is a record,"
            " `header=True` if it names the columns, or leave it out with `skip_lines` if it is neither."
        )
    return header


def is_number_text(cell: str) -> bool:
    """Whether a cell of a first line is a number, however it is written."""
    return bool(_NUMBER.fullmatch(cell))


def distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """Column names made distinct: empty and repeated ones are numbered, an empty one at the left is the index.

    >>> distinct_names(["", "age", "q2", "q2", ""])
    ('(index)', 'age', 'q2', 'q2 (2)', 'column 5')
    """
    names = _with_index(names)
    used, seen, distinct = set(names), set(), []
    next_number: dict[str, int] = {}  # to try for a name, so that the time is linear
    for at, name in enumerate(names):
        if name and name not in seen:
            seen.add(name)
            distinct.append(name)
            continue
        number = max(next_number.get(name, 0), 2 if name else at + 1)
        while (fresh := f"{name} ({number})" if name else f"column {number}") in used:
            number += 1
        next_number[name] = number + 1
        used.add(fresh)
        distinct.append(fresh)
    return tuple(distinct)


def _refuse_title(names: list[str], place: str) -> None:
    """Refuse a first line of several cells with at most one filled: it is a title, not the names of columns."""
    if len(names) > 2 and sum(name != "" for name in names) <= 1:
        raise InputError(
            f"{place} has {len(names)} cells, all empty but one at most, like a title above a table; leave out the"
            " lines above the names of the columns with `skip_lines`."
        )


def _with_index(names: Sequence[str]) -> tuple[str, ...]:
    """The names, the first of which is that of the index if it is empty."""
    return (INDEX, *names[1:]) if names and not names[0] else tuple(names)


def _header_names(cells: Sequence[str], options: ReadOptions, *, table: bool) -> tuple[str, ...]:
    """Column names from the cells of a header.

    R's write.table does not name the index at all. Whether a header lacks it is known from the domain, never from rows.
    """
    names = _with_index([plain_name(cell.strip()) for cell in cells])
    names = distinct_names(names) if table else names
    domain = options.table_domain
    lacks_index = domain is not None and INDEX not in names and INDEX in [one.name for one in domain.columns]
    return (INDEX, *names) if lacks_index else names


def _names(cells: list[str], header: bool, options: ReadOptions, place: str, *, table: bool) -> tuple[str, ...]:
    """Column names: from the header, from the domain, or numbers from 0."""
    field, count = options.item_set, len(cells)
    if header:
        _refuse_title([cell.strip() for cell in cells], place)
        if field is not None and options.item is None:
            return tuple(cells)  # items may have white space around them
        return _header_names(cells, options, table=table)
    if options.table_domain is not None:
        columns = options.table_domain.columns
        if len(columns) != count:
            raise InputError(
                f"{place}: has {counted(count, 'cell')}, but the domain has {counted(len(columns), 'field')} and the"
                " file no header; correct the domain, or name the columns in a header."
            )
        return tuple(column.name for column in columns)
    if field is not None and field.width == count:
        return tuple(str(label) for label in field.items)
    return tuple(str(at) for at in range(count))


def has_content(row: bytes, comment: str | None) -> bool:
    """Whether a row is neither blank nor a comment."""
    return bool(row) and not (comment is not None and row.startswith(comment.encode()))


def holds_lines_of_items(options: ReadOptions) -> bool:
    """Whether rows are lists of items without columns: baskets for which the options state no header or column."""
    return options.shape == "basket" and not options.header and options.item is None and options.person is None


def _chunks(
    source: Input, options: ReadOptions, names: tuple[str, ...], separator: str, header: bool
) -> Iterator[Chunk]:
    needed = options.columns_to_read(names)
    for block in blocks_of(source, options, quoted=True):
        text, count = block.text, len(block.ends)
        place: Place = block.place
        if b"\n\n" in text or text.startswith(b"\n") or options.comment is not None:
            rows, place = block.select(lambda row: has_content(row, options.comment))
            text, count = b"".join(row + b"\n" for row in rows), len(rows)
            first_length = len(rows[0]) + 1 if rows else 0
            del rows
        else:
            first_length = int(block.ends[0]) + 1
        if header and text:
            header, text, count, place = False, text[first_length:], count - 1, _after_header(place)
        if text:
            yield Chunk(_parse(text, count, names, needed, separator, place), place)


def _after_header(place: Place) -> Place:
    return lambda row: place(row + 1)


def _parse(
    text: bytes, rows: int, names: tuple[str, ...], needed: list[str], separator: str, place: Place
) -> pa.Table:
    """The columns `needed` of `rows` rows of text, all as texts."""
    ragged: list[tuple[int, int]] = []

    def note_ragged(row: object) -> str:
        ragged.append((row.number, row.actual_columns))  # type: ignore[attr-defined]
        return "skip"

    if text.startswith(BYTE_ORDER_MARK):
        text = BYTE_ORDER_MARK + text  # the parser drops one at the start of its input
    # Numbers stand for names: names in the file may repeat, which is refused later with a better message.
    keys = {name: str(at) for at, name in enumerate(names)}
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(text),
            pyarrow.csv.ReadOptions(
                use_threads=False, block_size=len(text) + 1, column_names=[str(at) for at in range(len(names))]
            ),
            pyarrow.csv.ParseOptions(
                delimiter=separator,
                newlines_in_values=True,
                ignore_empty_lines=False,
                invalid_row_handler=note_ragged,
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
        raise InputError(f"{place(0)} or after: {_QUOTE_IN_CELL}")
    if ragged:
        number, cells = ragged[0]
        advice = "say `shape='basket'` if rows are lists of items"
        if cells == len(names) + 1:
            advice += f"; if rows begin with a number or name of their own, name that column {INDEX} in the header"
        elif cells == len(names) - 1 and names[0] == INDEX:
            advice = f"take {INDEX} out of the domain if the file has no such column"
        raise InputError(
            f"{place(number - 1)}: has {counted(cells, 'cell')} where {len(names)} are expected; correct the row, or"
            f" {advice}."
        )
    return table.rename_columns(needed)
