"""Inspecting a data file: shape, lengths, and a draft of a domain. For its curator only: nothing is protected here.

The shape, the header and the separator are guessed from the first rows where they are not stated. `inspect` and
`evaluate` may do so, because they release nothing. A fit may not: it takes them from what is stated (see
`dpgm.data.read.delimited` and `dpgm.data.read.columns`).
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from dpgm.data.domain import Boolean, Categorical, Date, Domain, Field, Image, ItemSet, Numeric, ShapedNumber
from dpgm.data.domain_file import save_domain
from dpgm.data.formats import Source
from dpgm.data.inspect.drafting import Drafted, draft_table
from dpgm.data.items import flat_column
from dpgm.data.number_fields import DISCOVER
from dpgm.data.read.columns import Columns, is_binary
from dpgm.data.read.delimited import SEPARATORS, is_kept, split_cells
from dpgm.data.read.json_lines import json_rows
from dpgm.data.read.lines import TextBlock, first_block
from dpgm.data.read.opening import Input, locate
from dpgm.data.read.options import ReadKeywords, ReadOptions, options_from
from dpgm.data.read.parquet import parquet_columns
from dpgm.data.read.readers import columns_of, format_name, read_files
from dpgm.data.records import Records
from dpgm.errors import InputError, UsageError

_FIRST_ROWS = 2000
# Baskets of three items or more hardly ever have one length: with so many rows as wide as the header, a file is a table
# with damaged rows.
_TABLE_WIDTH, _TABLE_ROWS = 3, 0.95
_MOST_FIELDS = 40  # that are listed
_TITLES = 20  # lines at the top among which titles are looked for
DRAFT_NOTE = (
    "curator only: derived from the data; remove anything that is not public knowledge\n"
    "(items and values that only some people have, and bounds taken from the rows)."
)
TABLE_NOTE = (
    "drafted by dpgm inspect: names and kinds of columns, and no value of any person. Confirm the kinds; values,\n"
    "ranges and bins that are left open are found privately by the fit. List values or ranges that are public\n"
    "knowledge: that saves budget."
)
_ROWS = (
    "Confirm that every row is another person; if not, name the column that tells persons apart: --person COLUMN"
    " (with --item COLUMN or --rows-per-person K)."
)
_ORDERS = (
    "No row breaks these rules, but synthetic ones can; where one is public knowledge, state it in the draft under"
    " `constraints`:"
)
_CONFIRM = "Confirm that these are public knowledge: the names of the columns, and that they are"
_LEFT_OUT = "Left out (change it with --kind COLUMN=KIND, or drop more with --drop COLUMN):"
_ALL_MEMBERS = "lists of items alone are read; for a table of all members say --shape wide"
_AFTER = "the time since is then modelled, and nothing has to be left out"
_ORDERS_NOTE = (
    "\nRules that no row breaks, seen in the data: take the # away from `constraints` and from those that are public\n"
    "knowledge (synthetic records then keep them), and remove the others.\nconstraints:\n"
)


@dataclass(frozen=True, kw_only=True)
class Inspection(Drafted):
    """What a file holds. Computed on the data: for the curator's eyes, not for publication."""

    file: str
    source: Source
    domain_is_draft: bool
    records: int
    empty: int
    mean_length: float
    median_length: float
    longest: int
    held_by_one: int = 0
    unread: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The inspection as lines of text."""
        most = self.source.rows_per_person
        record = self.source.unit if most == 1 else f"row, of which a person keeps {most} at most"
        head = [
            f"{self.file} (curator only: computed on the data, do not publish)",
            f"records    {self.records:,} (a record is a {record}; shape {self.source.shape})",
        ]
        if self.confirm:
            return [*head, *self._checklist()]
        origin = "draft, derived from the data" if self.domain_is_draft else "given or public by nature"
        listed = [f"  {field.name}: {_describe(field)}" for field in self.domain.fields[:_MOST_FIELDS]]
        if len(self.domain.fields) > _MOST_FIELDS:
            listed.append(f"  ... and {len(self.domain.fields) - _MOST_FIELDS} more")
        return [
            *head,
            f"positions  {self.domain.width:,}",
            f"lengths    mean {self.mean_length:.2f}, median {self.median_length:g}, longest {self.longest:,},"
            f" empty records {self.empty:,}",
            f"fields     {len(self.domain.fields)} ({origin})",
            *listed,
            *([f"not read   {', '.join(self.unread)}: {_ALL_MEMBERS}"] if self.unread else []),
        ]

    def _checklist(self) -> list[str]:
        """A drafted table: what was left out, and what the curator must confirm."""

        def section(title: str, lines: Sequence[str]) -> list[str]:
            return [title, *(f"  {line}" for line in lines)] if lines else []

        return [
            f"fields     {len(self.domain.fields)} to be modelled, {len(self.left_out)} left out",
            *([_ROWS] if self.source.unit == "row" else []),
            *section(_CONFIRM, [f"[ ] {line}" for line in self.confirm]),
            *section(_LEFT_OUT, [f"{name}: {why}" for name, why in self.left_out]),
            *section("Perhaps read otherwise than you mean:", [f"{name}: {hint}" for name, hint in self.hints]),
            *section(_ORDERS, [f"[ ] {rule}" for rule in self.orders]),
            *(f"  {_better(first, last)}" for last, first in self.follows),
            "The draft holds no value of any person: ranges, bins and categories are found privately by the fit.",
        ]


def _better(first: str, last: str) -> str:
    return f"or, better, `after: {first}` in the line of {last}: {_AFTER}"


def _describe(field: Field) -> str:
    missing = ", may be missing" if getattr(field, "missing", False) else ""
    if isinstance(field, ItemSet):
        return f"{field.width:,} items"
    if isinstance(field, Categorical):
        return f"{len(field.values):,} values{missing}"
    if isinstance(field, Numeric):
        kind = "whole numbers" if field.integer else "numbers"
        bins = "bins to be found" if field.bins is None else f"{field.bins} bins"
        return f"{kind} from {field.low} to {field.high}, {bins}{missing}"
    if isinstance(field, Image):
        levels = "" if field.levels == 2 else f", {field.levels} grey levels"
        return f"image of {field.height} x {field.columns}{levels}"
    if isinstance(field, Boolean):
        return f"true or false{missing}"
    if isinstance(field, ShapedNumber):
        return f"numbers, {len(field.atoms)} popular values and {len(field.starts)} bins{missing}"
    found = DISCOVER in (field.low, field.high)
    span = ", range to be found" if found else f" from {field.low} to {field.high}"
    return ("dates" if isinstance(field, Date) else "times") + span


def inspect_file(
    path: str | os.PathLike[str],
    options: ReadOptions | None = None,
    *,
    draft_domain: str | os.PathLike[str] | None = None,
    force: bool = False,
    drop: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    **keywords: Unpack[ReadKeywords],
) -> Inspection:
    """Counts, lengths and a draft domain of a file (for its curator).

    The options are those of `read_source`, but the items of the file need no declaration, and a shape that is not
    stated is guessed from the first rows. Without a `domain`, one is drafted, and `draft_domain` names a YAML or JSON
    file to write it to (an existing file is replaced with `force` alone). The draft of a table states names and kinds
    of columns only, and leaves all values to be found privately; `drop` and `kinds` correct it by column. The draft of
    an item set lists its items and is marked as drafted: a fit refuses it until the curator declares it public.
    """
    chosen = replace(options_from(options, **keywords), assume_public_items=True)
    source_file = locate(path, chosen.member)
    guess = guess_options(source_file, chosen)
    chosen = guess.options
    drafted: Drafted | None = None
    if guess.table:
        drafted = draft_table(table_columns(source_file, guess), chosen, drop=drop, kinds=kinds)
        chosen = replace(chosen, domain=drafted.domain, shape="wide")
    elif drop or kinds:
        raise UsageError(
            f"{source_file}: --drop and --kind are for tables that are drafted; correct the domain file."
        )
    records, source = read_files([source_file], chosen)
    lengths = records.lengths
    # Items come from the rows; the draft of a table holds nothing that does.
    domain = replace(records.domain, origin="drafted") if source.items_assumed_public else records.domain
    if draft_domain is not None:
        note = DRAFT_NOTE if drafted is None else TABLE_NOTE
        if drafted is not None and drafted.orders:
            note += _ORDERS_NOTE + "\n".join(f"- {rule}" for rule in drafted.orders)
            note += "".join(f"\n{_better(first, last)}" for last, first in drafted.follows)
        save_domain(domain, draft_domain, note=note, force=force)
    notes = Drafted(domain) if drafted is None else replace(drafted, domain=domain)
    return Inspection(
        **vars(notes),
        file=str(source_file),
        source=source,
        domain_is_draft=drafted is not None or source.items_assumed_public,
        records=len(records),
        empty=int((lengths == 0).sum()),
        mean_length=float(lengths.mean()),
        median_length=float(np.median(lengths)),
        longest=int(lengths.max()),
        held_by_one=held_by_one(records),
        unread=guess.unread,
    )


def held_by_one(records: Records) -> int:
    """How many items and category values occur in exactly one record. For the curator's eyes; not to be stored."""
    counts = np.zeros(records.width, dtype=np.int64)
    for chunk in records.pieces():
        counts += np.bincount(chunk.indices, minlength=records.width)
    total = 0
    for field, start in zip(records.domain.fields, records.domain.offsets, strict=True):
        if isinstance(field, (ItemSet, Categorical)):
            named = len(field.items) if isinstance(field, ItemSet) else len(field.values)
            total += int(np.count_nonzero(counts[start : start + named] == 1))
    return total


def rarity_warning(records: Records) -> str | None:
    """A sentence for the curator's screen, if the domain came from the data and some of it is one person's alone."""
    unique = held_by_one(records)
    if not unique:
        return None
    return (
        f"{unique:,} of the {records.width:,} items or values of the domain are held by one person only, and the domain"
        " is published: make sure that all of them are public knowledge (curator only: this number is stored nowhere)"
    )


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
    block = first_block(
        source,
        quoted=True,
        encoding=options.encoding,
        skip_lines=options.skip_lines,
        comment=options.comment,
    )
    rows = [row for row in block.rows()[:_FIRST_ROWS] if is_kept(row, options.comment)]
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
    if options.shape is None and not binary and not options.header and not _of_one_width(head):
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
    rows = block.rows()[:_FIRST_ROWS]
    lines = [at for at, row in enumerate(rows) if is_kept(row, options.comment)]
    marks = (options.separator,) if options.separator is not None else (default, *SEPARATORS)
    split: list[tuple[list[int], list[int]]] = []
    for mark in marks:
        try:
            widths = [sum(cell.strip() != "" for cell in split_cells(rows[at], mark)[:2]) for at in lines[:_TITLES]]
            split.append((widths, [len(split_cells(rows[at], mark)) for at in lines]))
        except Exception:  # the reader says what is wrong, in a sentence that names the line
            continue
    if any(cells and widths[0] > 1 and min(cells) == max(cells) for widths, cells in split):
        return  # names and rows of one width: decimal commas below them are no separators
    found = []
    for widths, cells in split:
        titles = next((at for at, width in enumerate(widths) if width > 1), 0)
        if titles and len(cells) > titles + 2 and min(cells[titles:]) == max(cells[titles:]) > 2:
            found.append((titles, -cells[titles]))
    if found:
        titles, _ = min(found)  # a mark that cuts numbers below the names would put them one line lower
        line = block.line_of(lines[titles])
        raise InputError(
            f"{source}: line {block.line_of(lines[0])} looks like a title above a table whose names of columns are"
            f" in line {line}; leave out what is above them with --skip-lines {line - 1}."
        )


def _binary(rows: list[list[str]]) -> bool:
    return all(cell.strip() in ("0", "1") for row in rows for cell in row)


def _of_one_width(rows: list[list[str]]) -> bool:
    """Whether rows are those of a table: as wide as the first, but for a few that the reader then names."""
    widths = np.array([len(row) for row in rows])
    share = 1.0 if widths[0] < _TABLE_WIDTH else _TABLE_ROWS
    return bool((widths == widths[0]).mean() >= share)


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
        return next((some for some, _ in json_rows(source, options.encoding, array=True)), rows)
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
    for rows, _ in json_rows(source, options.encoding, array=format_name(source, options) == "json"):
        for row in rows:
            if isinstance(row, dict):
                for name, value in row.items():
                    members[name] = members.get(name, False) or isinstance(value, list)
    return members


def _is_item_list(value: object) -> bool:
    return isinstance(value, list) and not any(isinstance(item, (dict, list)) for item in value)


def _guess_json(source: Input, options: ReadOptions) -> Guess:
    rows = _json_rows(source, options)
    lists = {name for row in rows if isinstance(row, dict) for name in row if _is_item_list(row[name])}
    if options.shape is None and (options.item is not None or any(isinstance(row, list) for row in rows)):
        return Guess(replace(options, shape="basket"))
    if options.shape is None and len(lists) == 1:
        (item,) = lists
        unread = tuple(one for one in _json_members(source, options) if one not in (item, options.person))
        return Guess(replace(options, item=item), unread=unread)
    return Guess(replace(options, shape="wide"), table=True)
