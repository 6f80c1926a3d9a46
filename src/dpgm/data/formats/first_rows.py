"""What the first rows of delimited text say: whether they are baskets, lists, 0/1 columns or a table.

`inspect` and `evaluate` may guess, because they release nothing. A fit may not: it uses what is stated (`delimited`).
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpgm.data.formats.base import Guess
from dpgm.data.formats.headers import SEPARATORS, SPACE, distinct_names, is_number_text
from dpgm.data.formats.lines import TextBlock, first_block, has_content, split_cells
from dpgm.data.formats.opening import Input
from dpgm.data.items import plain_name
from dpgm.errors import InputError

if TYPE_CHECKING:
    from dpgm.data.read.options import ReadOptions

_FIRST_ROWS = 2000
# Baskets of three or more items hardly ever have equal lengths: if this share of rows is as wide as the first, the file
# is a table, perhaps with damaged rows.
_TABLE_WIDTH, _TABLE_ROWS, _MIN_TABLE_ROWS = 3, 0.9, 20
_TITLE_LINES = 20  # at the top, searched for a title


def guess_delimited(source: Input, options: "ReadOptions", default: str) -> Guess:
    """Whether a file holds baskets, a column of lists, 0/1 columns or a table, from its first rows."""
    block = first_block(source, options, quoted=True)
    rows = [row for row in block.rows()[:_FIRST_ROWS] if has_content(row, options.comment)]
    if options.stated_shape in (None, "wide"):
        _refuse_title(source, block, options, default)
    if not rows or options.shape == "basket":
        return Guess(options)
    separator = options.separator or (
        SPACE if _has_spaces_between(rows, default) else _frequent_separator(rows[0], default)
    )
    if not options.named_columns:  # else the reader finds the separator with which the header contains them
        options = replace(options, separator=separator)
    try:
        head = [split_cells(row, separator) for row in rows]
    except Exception:  # reported by the reader, with the line
        return Guess(options)
    if options.stated_shape not in (None, "wide") or options.table_domain is not None:
        return Guess(options)
    lacks_index = options.header is not False and _lacks_index_name(head)
    has_index = lacks_index or head[0][0].strip() == ""
    body = head if options.header is False or _binary(head[:1]) else [row[has_index:] for row in head[1:]]
    binary = len(head[0]) > 1 and _binary(body)
    if lacks_index and options.public_domain is None:
        names = distinct_names(["", *(plain_name(cell.strip()) for cell in head[0])])
        return Guess(replace(options, shape="wide", header=True), table=True, columns=dict.fromkeys(names, False))
    if options.shape is None and not binary and not options.header and not _have_equal_widths(head):
        first = next(at for at, row in enumerate(block.rows()) if has_content(row, options.comment))
        _refuse_odd_first_row(source, head, block.line_of(first))
        return Guess(replace(options, shape="basket"))
    if options.shape is None and options.header is not False and _is_list_column(head):
        return Guess(replace(options, shape="basket", header=True, item=head[0][0].strip()))
    if options.public_domain is not None:
        return Guess(replace(options, shape="wide") if binary else options)
    if options.shape is None and not options.header and _binary(head):
        return Guess(replace(options, shape="wide", header=False))
    return Guess(replace(options, shape="wide"), table=not binary and options.threshold is None)


def _refuse_title(source: Input, block: TextBlock, options: "ReadOptions", default: str) -> None:
    """Refuse lines of at most one cell above rows of equal width, and say how to skip them."""
    rows = block.rows()[:_FIRST_ROWS]
    content = [at for at, row in enumerate(rows) if has_content(row, options.comment)]
    separators = (default, *SEPARATORS) if options.separator is None else (options.separator,)
    headers: list[int] = []  # the index of the first row with two filled cells, by separator
    for separator in separators:
        try:
            cells = [split_cells(rows[at], separator) for at in content]
        except Exception:  # reported by the reader, with the line
            continue
        widths = [len(row) for row in cells]
        header = next((at for at, row in enumerate(cells[:_TITLE_LINES]) if _names_columns(row)), None)
        if header == 0 and min(widths) == max(widths):
            return  # a table without a title; other separators may be decimal commas in it
        if header and len(widths) > header + 2 and min(widths[header:]) == max(widths[header:]) > 2:
            headers.append(header)
    if headers:
        header = min(headers)  # a separator that occurs in the numbers of the table may find a later row
        line = block.line_of(content[header])
        raise InputError(
            f"{source}: line {block.line_of(content[0])} looks like a title above a table whose column names are"
            f" in line {line}; leave out what is above them with `skip_lines={line - 1}`."
        )


def _names_columns(row: list[str]) -> bool:
    """Whether a row may be a header: with two filled cells at the left, or none empty but that of the index."""
    filled = [cell.strip() != "" for cell in row]
    return sum(filled[:2]) > 1 or (len(filled) > 1 and not filled[0] and all(filled[1:]))


def _lacks_index_name(rows: list[list[str]]) -> bool:
    """Whether every row has one cell more than the first: R's write.table gives the row names no name."""
    widths, width = {len(row) for row in rows[1:]}, len(rows[0]) + 1
    named = not any(is_number_text(cell.strip()) for cell in rows[0])
    return named and widths == {width} and width >= _TABLE_WIDTH and len({row[0] for row in rows}) == len(rows)


def _has_spaces_between(rows: list[bytes], default: str) -> bool:
    """Whether there are spaces between the cells of every row, as R's write.table has them, and no other separator."""
    if default == "\t" or any(mark.encode() in row for row in rows for mark in SEPARATORS):
        return False
    try:
        cells = [split_cells(row, SPACE) for row in rows]
    except Exception:  # reported by the reader, with the line
        return False
    widths = {len(row) for row in cells[1:]}
    return (widths == {len(cells[0])} and len(cells[0]) >= _TABLE_WIDTH) or _lacks_index_name(cells)


def _refuse_odd_first_row(source: Input, rows: list[list[str]], line: int) -> None:
    """Refuse a first row of another width than all others, which are those of a table."""
    widths = {len(row) for row in rows[1:]}
    if len(rows) > _MIN_TABLE_ROWS and len(widths) == 1 and (width := widths.pop()) >= _TABLE_WIDTH:
        raise InputError(
            f"{source}: line {line} has {len(rows[0])} cells and every other row {width}; if it names columns, give it"
            f" a name for each, else leave it out with `skip_lines={line}` and say `header=False` if a record follows;"
            " for lists of items say `shape='basket'`."
        )


def _binary(rows: list[list[str]]) -> bool:
    return all(cell.strip() in ("0", "1") for row in rows for cell in row)


def _have_equal_widths(rows: list[list[str]]) -> bool:
    """Whether rows are those of a table: as wide as the first, except a few that the reader will refuse."""
    widths = np.array([len(row) for row in rows])
    share = 1.0 if widths[0] < _TABLE_WIDTH else _TABLE_ROWS
    return bool((widths == widths[0]).mean() >= share)


def _is_list_column(rows: list[list[str]]) -> bool:
    """Whether rows are one column of JSON lists below its name."""
    cells = [row[0].strip() for row in rows if len(row) == 1]
    below = [cell for cell in cells[1:] if cell]
    lists = bool(below) and all(cell.startswith("[") and cell.endswith("]") for cell in below)
    return lists and len(cells) == len(rows) and not cells[0].startswith("[")


def _frequent_separator(row: bytes, default: str) -> str:
    if default == "\t":
        return default
    unquoted = "".join(row.decode().split('"')[::2])
    best = max(SEPARATORS, key=unquoted.count)
    return best if unquoted.count(best) > unquoted.count(default) else default
