"""What the first line of delimited text is: the names of the columns, or a record.

Only this line is looked at, and it is a header only where it cannot be a record: it holds every name that the options
or the domain give, or the user says so. A line that could be either is refused, because a record taken for a header
would be published with the domain.
"""

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpgm.data.chunks import plain_name
from dpgm.data.formats import set_field
from dpgm.data.options import ReadOptions
from dpgm.errors import InputError, UsageError

SEPARATORS = (",", ";", "\t", "|")
_MAX_COLUMNS = 100_000
_NUMBER = re.compile(
    r"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE
)

_TOLD = {"0", "1", "true", "false"}  # how 0/1 columns are written


@dataclass(frozen=True)
class RowLayout:
    """How the rows of a delimited file are laid out.

    `certain` tells that nobody can take the names for a record, so that messages may repeat them.
    """

    separator: str
    header: bool
    names: tuple[str, ...]
    certain: bool


class MarkInCellError(csv.Error):
    """A quotation mark stands within a cell."""


def split_cells(row: bytes, separator: str) -> list[str]:
    """The cells of one row.

    Rows end where quotes are closed, so that a row with a single mark within a cell takes in all that follow up to the
    next such row. It is refused: the first one would be read and the others lost.

    Raises:
        MarkInCellError: the text is more than one row of cells.
        csv.Error: a cell is too long.
    """
    rows = csv.reader(io.StringIO(row.decode(), newline=""), delimiter=separator)
    cells = next(rows, [])
    if next(rows, None) is not None:
        raise MarkInCellError
    return cells


def cells_of(row: bytes, separator: str, where: Callable[[], str]) -> list[str]:
    """The cells of one row; `where` names it if it cannot be read."""
    try:
        return split_cells(row, separator)
    except MarkInCellError:
        raise InputError(
            f"{where()}: a quotation mark stands within a cell; put the whole cell in quotes and double the mark."
        ) from None
    except csv.Error:
        raise InputError(f"{where()}: a cell is longer than 128 kB; correct the file.") from None


def layout_of(
    first_row: bytes, options: ReadOptions, default: str, place: str, *, is_table: bool = False
) -> RowLayout:
    """The layout of a file, from its first line, the options and the domain.

    Args:
        first_row: the first line that is not left out.
        options: how the file is read.
        default: the separator, if nothing else is stated.
        place: where that line is, for messages.
        is_table: the columns are fields of a table, even if no domain says so: one is being drafted.
    """
    separator, header, certain = default, options.header, True
    candidates = (options.separator,) if options.separator is not None else _candidates(default)
    if header is not False and options.named_columns:
        named = [mark for mark in candidates if _names_all(first_row, mark, options.named_columns)]
        # A line that lacks a name is refused later, in a sentence that names the column.
        separator = named[0] if named else max(candidates, key=lambda mark: _count(first_row, mark))
        header, certain = True, bool(named) or options.header is True
    elif header:
        separator = max(candidates, key=lambda mark: _count(first_row, mark))
    else:
        separator = candidates[0]
    cells = cells_of(first_row, separator, lambda: place)
    if len(cells) > _MAX_COLUMNS:
        raise InputError(f"{place}: has more than {_MAX_COLUMNS:,} columns; use the basket or long shape.")
    if header is None:
        header = _is_header(cells, options, place)
    names = _names(cells, header, options, place)
    if header and (is_table or options.table_domain is not None):
        names = distinct_names(names)
    return RowLayout(separator, header, names, certain)


def _candidates(default: str) -> tuple[str, ...]:
    return (default, *(mark for mark in SEPARATORS if mark != default))


def _names_all(row: bytes, separator: str, names: tuple[str, ...]) -> bool:
    try:
        cells = split_cells(row, separator)
    except csv.Error:
        return False
    return set(names) <= set(distinct_names([plain_name(cell.strip()) for cell in cells]))


def _count(row: bytes, separator: str) -> int:
    try:
        return len(split_cells(row, separator))
    except csv.Error:
        return 0


def _is_header(cells: list[str], options: ReadOptions, place: str) -> bool:
    """Whether the first line of 0/1 columns names them; refuses where it could be a record as well."""
    domain = options.public_domain
    field = None if domain is None else set_field(domain)
    bare = [cell.strip() for cell in cells]
    numbers = [bool(_NUMBER.fullmatch(cell)) or cell.lower() in ("true", "false") for cell in bare]
    record = all(numbers) if options.threshold is not None else {cell.lower() for cell in bare} <= _TOLD
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
    taken, seen, made = set(names), set(), []
    following: dict[str, int] = {}  # the number to try next, so that names are made in linear time
    for at, name in enumerate(names):
        if name and name not in seen:
            seen.add(name)
            made.append(name)
            continue
        number = max(following.get(name, 0), 2 if name else at + 1)
        while (fresh := f"{name} ({number})" if name else f"column {number}") in taken:
            number += 1
        following[name] = number + 1
        taken.add(fresh)
        made.append(fresh)
    return tuple(made)


def _refuse_title(names: list[str], place: str) -> None:
    """Refuse a first line of several cells of which one at most is filled: it names no columns."""
    if len(names) > 2 and sum(name != "" for name in names) <= 1:
        raise InputError(
            f"{place} has {len(names)} cells, all empty but one at most, like a title above a table; leave out the"
            " lines above the names of the columns with --skip-lines N."
        )


def _names(cells: list[str], header: bool, options: ReadOptions, place: str) -> tuple[str, ...]:
    """Names from the header, from the domain, or numbers from 0."""
    domain, count = options.public_domain, len(cells)
    if header:
        _refuse_title([cell.strip() for cell in cells], place)
        if domain is not None and set_field(domain) is not None and options.item is None:
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
    if domain is not None and set_field(domain).width == count:  # type: ignore[union-attr]
        return tuple(str(label) for label in set_field(domain).items)  # type: ignore[union-attr]
    return tuple(str(at) for at in range(count))
