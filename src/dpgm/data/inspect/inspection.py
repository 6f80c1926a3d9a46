"""Inspecting a data file for its curator: shape, record lengths and a draft of a domain. Nothing is private here.

Shape, header and separator are guessed from the first rows if they are not stated. `inspect` and `evaluate` may guess,
because they release nothing. A fit may not: it uses what is stated (see `dpgm.data.formats.delimited` and
`dpgm.data.read.columns`).
"""

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.data.domain_file import save_domain
from dpgm.data.formats.delimited import SEPARATORS, SPACE, distinct_names, has_content, is_number_text, split_cells
from dpgm.data.formats.json_lines import json_rows
from dpgm.data.formats.lines import TextBlock, first_block
from dpgm.data.formats.opening import Input
from dpgm.data.formats.parquet import parquet_columns
from dpgm.data.inspect.drafting import Drafted, draft_table
from dpgm.data.items import flat_column, plain_name
from dpgm.data.layouts import Source
from dpgm.data.read.columns import Columns, is_binary
from dpgm.data.read.frames import checked_frame, column_names, frame_columns, is_frame
from dpgm.data.read.keywords import ReadKeywords
from dpgm.data.read.options import ReadOptions, options_from
from dpgm.data.read.pandas_columns import drafted_column
from dpgm.data.read.readers import columns_of_files, format_name, located, read_files
from dpgm.data.records import Records
from dpgm.errors import InputError, UsageError

_FIRST_ROWS = 2000
# Baskets of three or more items hardly ever have equal lengths: if this share of rows is as wide as the first, the file
# is a table, perhaps with damaged rows.
_TABLE_WIDTH, _TABLE_ROWS, _MIN_TABLE_ROWS = 3, 0.9, 20
_MAX_LISTED = 40  # fields in the printed inspection
_NAMED = 5  # columns in a line
_AMBIGUOUS = "Not a number here and a value elsewhere; correct the cells, or say --missing TEXT for all columns:"
_TITLE_LINES = 20  # at the top, searched for a title
_ITEMS_NOTE = (
    "curator only: derived from the data; remove anything that is not public knowledge\n"
    "(items and values that only some people have, and bounds taken from the rows)."
)
_TABLE_NOTE = (
    "drafted by dpgm inspect: names and kinds of columns, judged by the rows (the certificate says so), and no value\n"
    "of any person but usual words for a missing value. Confirm the kinds; values,\n"
    "ranges and bins that are left open are found privately by the fit. List values or ranges that are public\n"
    "knowledge: that saves budget."
)
_ROWS = (
    "Confirm that every row is another person; if not, name the column that identifies persons: --person COLUMN"
    " (with --item COLUMN or --rows-per-person K)."
)
_ORDERS = (
    "No row breaks these rules, but synthetic ones can; where one is public knowledge, state it in the draft under"
    " `constraints`:"
)
_CONFIRM = "Confirm that these are public knowledge: the names of the columns, and that they are"
_LEFT_OUT = "Left out (change it with --kind COLUMN=KIND, or drop more with --drop COLUMN):"
_ALL_MEMBERS = "only the lists of items are read; for a table of all members say --shape wide"
_AFTER = "the time since is then modelled, and nothing has to be left out"
_ORDERS_NOTE = (
    "\nRules that no row breaks, seen in the data: take the # away from `constraints` and from those that are public\n"
    "knowledge (synthetic records then keep them), and remove the others.\nconstraints:\n"
)


@dataclass(frozen=True, kw_only=True)
class Inspection(Drafted):
    """The contents of a file. Computed from the data without privacy: for the curator only, not for publication."""

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
    dim_images: tuple[str, ...] = ()  # warnings about images without bright pixels

    def lines(self) -> list[str]:
        """The inspection as lines of text."""
        most = self.source.rows_per_person
        record = self.source.unit if most == 1 else f"row, of which a person keeps {most} at most"
        head = [
            f"{self.file} (curator only: computed on the data, do not publish)",
            f"records    {self.records:,} (a record is a {record}; shape {self.source.shape})",
        ]
        head += [f"persons    {sentence}" for sentence in self._persons()]
        if self.confirm:
            return [*head, *self._checklist()]
        origin = "draft, derived from the data" if self.domain_is_draft else "given or public by nature"
        listed = [f"  {field.name}: {field.described()}" for field in self.domain.fields[:_MAX_LISTED]]
        if len(self.domain.fields) > _MAX_LISTED:
            listed.append(f"  ... and {len(self.domain.fields) - _MAX_LISTED} more")
        return [
            *head,
            f"positions  {self.domain.width:,}",
            f"lengths    mean {self.mean_length:.2f}, median {self.median_length:g}, longest {self.longest:,},"
            f" empty records {self.empty:,}",
            f"fields     {len(self.domain.fields)} ({origin})",
            *listed,
            *([f"not read   {', '.join(self.unread)}: {_ALL_MEMBERS}"] if self.unread else []),
            *self.dim_images,
        ]

    def _persons(self) -> list[str]:
        """What a column that is named like an identifier of persons means, and which option protects persons."""
        names = self.source.like_persons
        if not names:
            return []
        person = shlex.quote(names[0])
        return [
            f"{', '.join(map(repr, names))}: named like an identifier of persons; without --person a fit takes every"
            " row as another person and protects rows, not persons. To protect persons with all their rows say"
            f" --person {person} --rows-per-person K (or --person {person} --item COLUMN if rows are items);"
            f" --person {person} alone if every row is another person."
        ]

    def _checklist(self) -> list[str]:
        """For a drafted table: what was left out, and what the curator must confirm."""

        def section(title: str, lines: Sequence[str]) -> list[str]:
            return [title, *(f"  {line}" for line in lines)] if lines else []

        hinted: dict[str, list[str]] = {}
        for name, hint in self.hints:
            hinted.setdefault(hint, []).append(name)
        return [
            f"fields     {len(self.domain.fields)} to be modelled, {len(self.left_out)} left out",
            *([_ROWS] if self.source.unit == "row" and not self.source.like_persons else []),
            *section(_CONFIRM, [f"[ ] {line}" for line in self.confirm]),
            *section(_LEFT_OUT, [f"{name}: {why}" for name, why in self.left_out]),
            *section(self._gaps_title(), self._gap_lines()),
            *section(_AMBIGUOUS, self._ambiguous_lines()),
            *section(
                "Perhaps not read as you mean:", [f"{_listed(names)}: {hint}" for hint, names in hinted.items()]
            ),
            *section(_ORDERS, [f"[ ] {rule}" for rule in self.orders]),
            *(f"  {_suggest_after(first, last)}" for last, first in self.follows),
            "The draft holds no value of any person: ranges, bins and categories are found privately by the fit.",
        ]

    def _gaps_title(self) -> str:
        options = " ".join(f"--missing {shlex.quote(text)}" for text, _, values in self.gaps if not values)
        return f"Read as missing (`missing_texts` in the draft; the same as {options}):"

    def _gap_lines(self) -> list[str]:
        """One line for all spellings of a missing value that occur in the same columns."""
        spellings: dict[tuple[str, ...], list[str]] = {}
        for text, gaps, values in self.gaps:
            if not values:
                spellings.setdefault(gaps, []).append(repr(text))
        return [f"[ ] {', '.join(texts)} in {_listed(gaps)}" for gaps, texts in spellings.items()]

    def _ambiguous_lines(self) -> list[str]:
        """One line for every spelling that is missing in some columns and seems to be a value in others."""
        return [
            f"[ ] {text!r} in {_listed(gaps)}; seems to be a value in {_listed(values)}"
            for text, gaps, values in self.gaps
            if values
        ]


def _listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are.

    >>> _listed(["Q1", "Q2"]), _listed([f"Q{at}" for at in range(60)])
    ('Q1, Q2', 'Q0, Q1, Q2, Q3, Q4 and 55 more columns')
    """
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more column{'s' * (more > 1)}" if more > 0 else "")


def _suggest_after(first: str, last: str) -> str:
    return f"or, better, `after: {first}` in the line of {last}: {_AFTER}"


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
    """Counts, lengths and a draft domain of a file, or of a folder of Parquet files, for its curator.

    The options are those of `read_source`, but items need not be declared public, and a shape that is not stated is
    guessed from the first rows. Without a `domain`, one is drafted and written to the YAML or JSON file `draft_domain`,
    if given (an existing file is replaced only with `force`). The draft of a table states names and kinds of columns
    only, and leaves all values to be found privately; `drop` and `kinds` correct it by column. The draft of an item set
    lists its items and is marked as drafted: a fit refuses it until the curator declares it public.
    """
    options = replace(options_from(options, **keywords), assume_public_items=True)
    files = located(path, options)
    source_file = files[0]
    guess = guess_options(source_file, options)
    options = guess.options
    drafted: Drafted | None = None
    if guess.table:
        drafted = draft_table(table_columns(files, guess), options, drop=drop, kinds=kinds)
        texts = (text for text, *_ in drafted.gaps)
        options = replace(options, domain=drafted.domain, shape="wide", missing=(*options.missing, *texts))
    elif drop or kinds:
        raise UsageError(
            f"{source_file}: `drop` and `kinds` are for tables that are drafted; correct the domain file."
        )
    records, source = read_files(files, options)
    lengths = records.lengths
    # Items come from the rows; the draft of a table contains nothing that does.
    domain = replace(records.domain, origin="drafted") if source.items_assumed_public else records.domain
    if drafted is not None:
        domain = replace(domain, origin="judged", missing_texts=drafted.domain.missing_texts)
    if draft_domain is not None:
        note = _ITEMS_NOTE if drafted is None else _TABLE_NOTE
        if drafted is not None and drafted.orders:
            note += _ORDERS_NOTE + "\n".join(f"- {rule}" for rule in drafted.orders)
            note += "".join(f"\n{_suggest_after(first, last)}" for last, first in drafted.follows)
        save_domain(domain, draft_domain, note=note, force=force)
    draft = Drafted(domain) if drafted is None else replace(drafted, domain=domain)
    return Inspection(
        **vars(draft),
        file=os.fspath(path) if len(files) > 1 else str(source_file),
        source=source,
        domain_is_draft=drafted is not None or source.items_assumed_public,
        records=len(records),
        empty=int((lengths == 0).sum()),
        mean_length=float(lengths.mean()),
        median_length=float(np.median(lengths)),
        longest=int(lengths.max()),
        held_by_one=held_by_one(records),
        unread=guess.unread,
        dim_images=tuple(dim_image_warnings(records)),
    )


def draft_frame(
    data: object, *, drop: Sequence[str] = (), kinds: Mapping[str, str] | None = None, person: str | None = None
) -> Domain:
    """A domain drafted from a frame, by the rules of `inspect_file`, for its curator."""
    data = checked_frame(data)
    if not is_frame(data) or not column_names(data):
        raise UsageError(
            "a domain is drafted from a frame of pandas, polars or pyarrow that has columns; `dpgm.inspect_file` reads"
            " files."
        )
    columns = frame_columns(data, column_names(data), convert=drafted_column)
    if person is not None:
        columns.required(person, "person")
    items = [name for name in columns.names if name != person]
    if len(items) > 1 and not drop and not kinds:
        table = next(iter(columns.chunks)).table
        if table.num_rows and all(is_binary(flat_column(table, name)) for name in items):
            return Domain.of_items(items)
    drafted = draft_table(columns, ReadOptions(person=person), drop=drop, kinds=kinds)
    return replace(drafted.domain, origin="judged")


def dim_image_warnings(records: Records) -> Iterator[str]:
    """A warning for every field of grey images in which no pixel has the highest level."""
    for field, start in zip(records.domain.fields, records.domain.offsets, strict=True):
        image = field.image
        if image is None or image.levels == 2:
            continue
        brightest = 0
        for piece in records.pieces():
            positions = piece.indices[(piece.indices >= start) & (piece.indices < start + image.width)]
            if len(positions):  # those of the first level come first
                brightest = max(brightest, 1 + (int(positions.max()) - start) // image.pixels)
        if brightest < image.levels - 1:
            white = f"{image.white} is" if image.white else "255 (1.0 in files of floats) is"
            yield (
                f"dark       {image.name}: no pixel is brighter than level {brightest} of 0 to {image.levels - 1},"
                f" where {white} white; if a lower value is, state it in the line of {image.name}, such as `white: 16`"
            )


def held_by_one(records: Records) -> int:
    """How many items and category values occur in exactly one record. For the curator only; not to be stored."""
    counts = np.zeros(records.width, dtype=np.int64)
    for chunk in records.pieces():
        counts += np.bincount(chunk.indices, minlength=records.width)
    total = 0
    for field, start in zip(records.domain.fields, records.domain.offsets, strict=True):
        if field.lists_values:
            total += int(np.count_nonzero(counts[start : start + len(field.labels)] == 1))
    return total


def rarity_warning(records: Records) -> str | None:
    """A warning for the curator if items or values of a domain taken from the data occur in one record only."""
    unique = held_by_one(records)
    if not unique:
        return None
    return (
        f"{unique:,} of the {records.width:,} items or values of the domain are held by one person only, and the domain"
        " is published: make sure that all of them are public knowledge (curator only: this number is stored nowhere)"
    )


@dataclass(frozen=True)
class Guess:
    """Options completed from the first rows, and whether the file is a table that needs a domain.

    `unread` are the other members of JSON objects of which only the list of items is read. `names` are the columns of
    a text file whose header does not name the index.
    """

    options: ReadOptions
    table: bool = False
    names: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def guess_options(source: Input, options: ReadOptions) -> Guess:
    """The options, with shape, header and separator guessed if they are not stated."""
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


def table_columns(files: Sequence[Input], guess: Guess) -> Columns:
    """The columns of a table that has no domain yet, to draft one."""
    name, options = format_name(files[0], guess.options), guess.options
    if name in ("jsonl", "json"):
        fields = tuple(
            ItemSet(one, (0,)) if is_list else Categorical(one, (0,))
            for one, is_list in _json_members(files[0], options).items()
            if one.strip()
        )
        options = replace(options, domain=Domain(fields), shape="wide")
    elif name in ("csv", "tsv"):
        stated = Domain(tuple(Categorical(one, (0,)) for one in guess.names)) if guess.names else options.domain
        options = replace(options, domain=stated, shape="wide")
    return columns_of_files(files, options, draft=True)


def _guess_delimited(source: Input, options: ReadOptions, default: str) -> Guess:
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
        return Guess(replace(options, shape="wide", header=True), table=True, names=names)
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


def _refuse_title(source: Input, block: TextBlock, options: ReadOptions, default: str) -> None:
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


def _guess_parquet(source: Input, options: ReadOptions) -> Guess:
    columns = parquet_columns(source, options)
    names = [name for name in columns.names if name != options.person]
    if columns.lists and len(names) > 1:  # then the list is one of several columns of a table
        return Guess(replace(options, shape="wide"), table=True)
    if options.shape is None and len(columns.lists) == 1:
        return Guess(options)
    first = next(iter(columns.chunks), None)
    if first is None or columns.lists:
        return Guess(options)
    binary = all(is_binary(flat_column(first.table, name), options.threshold) for name in names)
    return Guess(replace(options, shape="wide"), table=not binary)


def _first_json_rows(source: Input, options: ReadOptions) -> list[Any]:
    rows: list[Any] = []
    if format_name(source, options) == "json":
        return next((piece for piece, _ in json_rows(source, options, array=True)), rows)
    for line in first_block(source, options, quoted=False).rows():
        if line.strip():
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError):
                break  # reported by the reader, with the line
    return rows


def _json_members(source: Input, options: ReadOptions) -> dict[str, bool]:
    """The members of all objects of a file, in order of first appearance, and whether they hold lists."""
    members: dict[str, bool] = {}
    for rows, _ in json_rows(source, options, array=format_name(source, options) == "json"):
        for row in rows:
            if isinstance(row, dict):
                for name, value in row.items():
                    members[name] = members.get(name, False) or isinstance(value, list)
    return members


def _is_item_list(value: object) -> bool:
    return isinstance(value, list) and not any(isinstance(item, (dict, list)) for item in value)


def _guess_json(source: Input, options: ReadOptions) -> Guess:
    rows = _first_json_rows(source, options)
    lists = {name for row in rows if isinstance(row, dict) for name in row if _is_item_list(row[name])}
    if options.shape is None and (options.item is not None or any(isinstance(row, list) for row in rows)):
        return Guess(replace(options, shape="basket"))
    if options.shape is None and len(lists) == 1:
        (item,) = lists
        unread = tuple(one for one in _json_members(source, options) if one not in (item, options.person))
        return Guess(replace(options, item=item), unread=unread)
    return Guess(replace(options, shape="wide"), table=True)
