"""The first line of delimited text: whether it names columns, what is between its cells, and the names themselves.

It is taken for a header only where it cannot be a record: it contains every name that the options or the domain give,
or the user says so. A line that could be either is refused, because a record taken for a header would be published with
the domain. No other line is examined for this.
"""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpgm.data.formats.base import Guess
from dpgm.data.formats.lines import cells_of, split_cells
from dpgm.data.items import plain_name
from dpgm.data.labels import INDEX
from dpgm.errors import InputError, UsageError
from dpgm.validation import counted

if TYPE_CHECKING:
    from dpgm.data.read.options import ReadOptions

SEPARATORS = (",", ";", "\t", "|")
SPACE = " "  # as R's write.table has it: only where the header then has all names of the domain
_NUMBER = re.compile(
    r"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE
)
_MAX_COLUMNS = 100_000
_BINARY = {"0", "1", "true", "false"}  # how 0/1 columns are written


@dataclass(frozen=True)
class Header:
    """What a first line says.

    Attributes:
        separator: what is between cells.
        names: those of the columns; numbers from 0 if nobody names them.
        is_there: whether the line names columns and is no record.
        certain: whether the names are certainly names.
    """

    separator: str
    names: tuple[str, ...]
    is_there: bool
    certain: bool


def header_of(first: bytes, place: str, options: "ReadOptions", default: str, draft: Guess | None) -> Header:
    """The header of a file, from its first line at `place`; for a `draft`, that of a table without a domain.

    `default` is the separator if the options state none and the line does not show one.
    """
    if options.stated_shape is None and not options.header and not _is_binary(first, options.separator or default):
        raise UsageError(
            f"{place}: the shape is not clear; say `shape='basket'` (one row per record, a list"
            " of items), `shape='wide'` (one 0/1 column per item), `person` and `item` (one row per person and item),"
            " or, for a table, draft its domain with `dpgm inspect FILE --draft-domain domain.yaml`, read it and give"
            " it as `domain`."
        )
    separator, is_there, certain = _separator(first, options, default)
    if not separator.isascii():
        raise UsageError(
            f"{place}: the separator of a table must be an ASCII character; save the file with another."
        )
    cells = cells_of(first, separator, lambda: place)
    if len(cells) > _MAX_COLUMNS:
        raise InputError(f"{place}: has more than {_MAX_COLUMNS:,} columns; use the basket or long shape.")
    if is_there is None:
        is_there = _is_header(cells, options, place)
    if draft is not None and draft.columns:
        return Header(separator, tuple(draft.columns), is_there, certain)
    table = draft is not None or options.table_domain is not None
    return Header(separator, _names(cells, is_there, options, place, table=table), is_there, certain)


def _is_binary(row: bytes, separator: str) -> bool:
    """Whether a first line must be a record of 0/1 columns: more than two cells of 0 and 1 cannot be distinct names."""
    cells = [cell.strip() for cell in row.split(separator.encode())]
    return len(cells) > 2 and set(cells) <= {b"0", b"1"}


def _separator(first: bytes, options: "ReadOptions", default: str) -> tuple[str, bool | None, bool]:
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


def _is_header(cells: list[str], options: "ReadOptions", place: str) -> bool:
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


def _header_names(cells: Sequence[str], options: "ReadOptions", *, table: bool) -> tuple[str, ...]:
    """Column names from the cells of a header.

    R's write.table does not name the index at all. Whether a header lacks it is known from the domain, never from rows.
    """
    names = _with_index([plain_name(cell.strip()) for cell in cells])
    names = distinct_names(names) if table else names
    domain = options.table_domain
    lacks_index = domain is not None and INDEX not in names and INDEX in [one.name for one in domain.columns]
    return (INDEX, *names) if lacks_index else names


def _names(cells: list[str], header: bool, options: "ReadOptions", place: str, *, table: bool) -> tuple[str, ...]:
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
