"""What a file seems to hold, judged by its first rows: for a curator who looks at it, never for a fit.

`inspect` and `evaluate` release nothing, so they may look at rows to find the shape. A fit may not: it takes the
shape, the header and the separator from what is stated (see `dpgm.data.read.delimited` and `dpgm.data.read.columns`).
"""

import json
from dataclasses import dataclass, replace
from typing import Any

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.data.items import flat_column
from dpgm.data.read.columns import Columns, is_binary
from dpgm.data.read.delimited import SEPARATORS, is_kept, split_cells
from dpgm.data.read.json_lines import array_elements, line_elements
from dpgm.data.read.lines import TextBlock, first_block
from dpgm.data.read.opening import Input
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.parquet import parquet_columns
from dpgm.data.read.readers import columns_of, format_name
from dpgm.errors import InputError

_ROWS = 2000
_TITLES = 20  # lines at the top among which titles are looked for


@dataclass(frozen=True)
class Guess:
    """Options completed by what the first rows show, and whether they show a table that needs a domain.

    `unread` are members of JSON objects beside the only list, which is read as a set of items.
    """

    options: ReadOptions
    table: bool = False
    unread: tuple[str, ...] = ()


def guess_options(source: Input, options: ReadOptions) -> Guess:
    """The options with shape, header and separator filled in where they are not stated."""
    name = format_name(source, options)
    if name in ("csv", "tsv"):
        return _guess_delimited(source, options, "\t" if name == "tsv" else ",")
    if options.stated_shape not in (None, "wide") or options.public_domain is not None:
        return Guess(options)
    if name == "parquet":
        return _guess_parquet(source, options)
    if name in ("jsonl", "json"):
        return _guess_json(source, options)
    if name == "xlsx":
        return Guess(replace(options, shape="wide", header=options.header is not False), table=True)
    return Guess(options)


def table_columns(source: Input, guess: Guess) -> Columns:
    """The columns of a table without a domain, so that one can be drafted."""
    name, options = format_name(source, guess.options), guess.options
    if name in ("jsonl", "json"):
        fields = tuple(
            ItemSet(one, (0,)) if is_list else Categorical(one, (0,))
            for one, is_list in _json_members(source, options).items()
            if one.strip()
        )
        options = replace(options, domain=Domain(fields), shape="wide")
    elif name in ("csv", "tsv"):
        options = replace(options, shape="wide")
    return columns_of(source, options, draft=True)


def _guess_delimited(source: Input, options: ReadOptions, default: str) -> Guess:
    block = first_block(source, quoted=True, encoding=options.encoding, skip_lines=options.skip_lines)
    rows = [row for row in block.rows()[:_ROWS] if is_kept(row, options.comment)]
    if options.stated_shape in (None, "wide"):
        _refuse_title(source, block, options, default)
    if not rows or options.shape == "basket":
        return Guess(options)
    separator = options.separator or _frequent_separator(rows[0], default)
    if not options.named_columns:  # else the separator is the one with which the header holds the names
        options = replace(options, separator=separator)
    try:
        head = [split_cells(row, separator) for row in rows]
    except Exception:  # the reader says what is wrong, in a sentence that names the line
        return Guess(options)
    if options.stated_shape not in (None, "wide") or options.table_domain is not None:
        return Guess(options)
    body = head if options.header is False or _binary(head[:1]) else head[1:]
    binary = len(head[0]) > 1 and _binary(body)
    if options.shape is None and not binary and len({len(row) for row in head}) > 1 and not options.header:
        return Guess(replace(options, shape="basket"))
    if options.shape is None and options.header is not False and _lists(head):
        return Guess(replace(options, shape="basket", header=True, item=head[0][0].strip()))
    if options.public_domain is not None:
        return Guess(replace(options, shape="wide") if binary else options)
    if options.shape is None and not options.header and _binary(head):
        return Guess(replace(options, shape="wide", header=False))
    return Guess(replace(options, shape="wide"), table=not binary and options.threshold is None)


def _refuse_title(source: Input, block: TextBlock, options: ReadOptions, default: str) -> None:
    """Say how to leave out lines above a table: one cell each at most, and below them rows of one width."""
    rows = block.rows()[:_ROWS]
    kept = [at for at, row in enumerate(rows) if is_kept(row, options.comment)]
    marks = (options.separator,) if options.separator is not None else (default, *SEPARATORS)
    split: list[tuple[list[int], list[int]]] = []
    for mark in marks:
        try:
            widths = [sum(cell.strip() != "" for cell in split_cells(rows[at], mark)[:2]) for at in kept[:_TITLES]]
            split.append((widths, [len(split_cells(rows[at], mark)) for at in kept]))
        except Exception:  # the reader says what is wrong, in a sentence that names the line
            continue
    if any(cells and widths[0] > 1 and min(cells) == max(cells) for widths, cells in split):
        return  # names and rows of one width: decimal commas below them are no separators
    for widths, cells in split:
        titles = next((at for at, width in enumerate(widths) if width > 1), 0)
        if titles and len(cells) > titles + 2 and min(cells[titles:]) == max(cells[titles:]) > 2:
            line = block.line_of(kept[titles])
            raise InputError(
                f"{source}: line {block.line_of(kept[0])} looks like a title above a table whose names of columns are"
                f" in line {line}; leave out what is above them with --skip-lines {line - 1}."
            )


def _binary(rows: list[list[str]]) -> bool:
    return all(cell.strip() in ("0", "1") for row in rows for cell in row)


def _lists(rows: list[list[str]]) -> bool:
    """Whether rows are a name and, below it, one cell each that holds a JSON list: baskets in a column."""
    cells = [row[0].strip() for row in rows if len(row) == 1]
    below = [cell for cell in cells[1:] if cell]
    lists = bool(below) and all(cell.startswith("[") and cell.endswith("]") for cell in below)
    return lists and len(cells) == len(rows) and not cells[0].startswith("[")


def _frequent_separator(row: bytes, default: str) -> str:
    if default == "\t":
        return default
    text = "".join(row.decode().split('"')[::2])  # outside of quotes
    counts = {mark: text.count(mark) for mark in SEPARATORS}
    best = max(SEPARATORS, key=lambda mark: counts[mark])
    return best if counts[best] > counts[default] else default


def _guess_parquet(source: Input, options: ReadOptions) -> Guess:
    columns = parquet_columns(source, options)
    names = [name for name in columns.names if name != options.person]
    if columns.lists and len(names) > 1:  # lists beside other columns are a column of a table
        return Guess(replace(options, shape="wide"), table=True)
    if options.shape is None and len(columns.lists) == 1:
        return Guess(options)
    first = next(iter(columns.chunks), None)
    if first is None or columns.lists:
        return Guess(options)
    binary = all(is_binary(flat_column(first.table, name), options.threshold) for name in names)
    return Guess(replace(options, shape="wide"), table=not binary)


def _json_rows(source: Input, options: ReadOptions) -> list[Any]:
    rows: list[Any] = []
    if format_name(source, options) == "json":
        return next((some for some, _ in array_elements(source, options.encoding)), rows)
    for line in first_block(source, quoted=False, encoding=options.encoding).rows():
        if line.strip():
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError):
                break  # the reader names the line
    return rows


def _json_members(source: Input, options: ReadOptions) -> dict[str, bool]:
    """The members of all objects of a file, in the order of their first rows, and which hold lists."""
    members: dict[str, bool] = {}
    read = array_elements if format_name(source, options) == "json" else line_elements
    for rows, _ in read(source, options.encoding):
        for row in rows:
            if isinstance(row, dict):
                for name, value in row.items():
                    members[name] = members.get(name, False) or isinstance(value, list)
    return members


def _guess_json(source: Input, options: ReadOptions) -> Guess:
    rows = _json_rows(source, options)
    lists = {name for row in rows if isinstance(row, dict) for name in row if isinstance(row[name], list)}
    if options.shape is None and (options.item is not None or any(isinstance(row, list) for row in rows)):
        return Guess(options)
    if options.shape is None and len(lists) == 1:
        (item,) = lists
        unread = tuple(one for one in _json_members(source, options) if one not in (item, options.person))
        return Guess(replace(options, item=item), unread=unread)
    return Guess(replace(options, shape="wide"), table=True)
