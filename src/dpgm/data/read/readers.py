"""Reading records from files of every format and shape: all of them, or one process's share.

Values may still be unknown (`discover`): item sets without a list of items, tables of which only the schema is known.
Kinds and names of columns come from the user, from the domain file or from the schema of a Parquet file or frame: never
from the values.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa

from dpgm.data.domain import (
    Boolean,
    Categorical,
    Date,
    DateTime,
    Domain,
    Field,
    Identifier,
    Ignored,
    ItemSet,
    Numeric,
    Unread,
)
from dpgm.data.formats import Source, format_of
from dpgm.data.inspect.hints import is_identifier
from dpgm.data.items import is_list
from dpgm.data.number_fields import DISCOVER
from dpgm.data.open_records import OpenRecords
from dpgm.data.read.arrays import ARRAYS, read_array
from dpgm.data.read.columns import Columns, join_files, read_columns
from dpgm.data.read.delimited import delimited_columns, holds_lines_of_items
from dpgm.data.read.excel import excel_columns
from dpgm.data.read.item_lines import line_columns, looks_like_msweb, msnbc_columns, msweb_columns
from dpgm.data.read.json_lines import json_columns
from dpgm.data.read.opening import Input, locate, open_bytes
from dpgm.data.read.options import Paths, ReadKeywords, ReadOptions, options_from
from dpgm.data.read.parquet import parquet_columns, row_groups
from dpgm.data.records import Records
from dpgm.data.values import is_text
from dpgm.errors import InputError, UsageError

_BASKETS = ("fimi", "msweb", "msnbc")
_DRAFT = (
    "draft its domain with `dpgm inspect FILE --shape wide --draft-domain domain.yaml` and give it with --domain"
)


def read_source(
    path: Paths | Sequence[Paths], options: ReadOptions | None = None, **keywords: Unpack[ReadKeywords]
) -> tuple[Records, Source]:
    """Records of a file, and the facts about the reading that a certificate must state.

    Args:
        path: The file (`archive.zip::member` for one in a zip), a folder of Parquet parts, or several files of one
            table.
        options: How it is to be read.
        keywords: The fields of `ReadOptions`, one by one; they go before `options`.

    Raises:
        InputError: the file cannot be read as asked.
        UsageError: the items are not declared public, or the shape is not clear.
    """
    chosen = options_from(options, **keywords)
    files = [locate(one, chosen.member) for one in parts_of(path)]
    if not files:
        raise UsageError("no file to read; give at least one.")
    _tell_left_out(files[0], chosen)
    return read_files(files, chosen)


def read_records(
    path: Paths | Sequence[Paths], options: ReadOptions | None = None, **keywords: Unpack[ReadKeywords]
) -> Records:
    """Records of a file; see `read_source`, which also tells how they were read."""
    records, _ = read_source(path, options, **keywords)
    return records


def parts_of(path: Paths | Sequence[Paths]) -> list[Paths]:
    """The files of a data set: those named, or the Parquet files of a folder by name."""
    if not isinstance(path, (str, os.PathLike)):
        return list(path)
    if not os.path.isdir(path):
        return [path]
    parts: list[Paths] = [*sorted(Path(path).glob("*.parquet"))]
    if not parts:
        raise InputError(f"{os.fspath(path)}: is a folder without .parquet files; name a file.")
    return parts


def format_name(source: Input, options: ReadOptions) -> str:
    """The format, from the file's ending; the log of msweb by its name."""
    name = format_of(source.name, options.format).name
    if options.format is None and name == "csv":
        if "msweb" in source.name.lower():
            return "msweb"
        with open_bytes(source) as stream:
            head = stream.read(64)
        if looks_like_msweb(head):
            raise UsageError(
                f"{source}: looks like the msweb log; say --format msweb, or --format csv if it is not."
            )
    return name


def read_files(files: Sequence[Input], options: ReadOptions) -> tuple[Records, Source]:
    """Records of one file, or of several of one table; with values still to be found where that was said."""
    if options.discover and options.domain is None:
        options = _with_schema(files[0], options)
    name = format_name(files[0], options)

    def read(stated: ReadOptions) -> tuple[Records, Source]:
        if len(files) == 1 and name in ARRAYS:
            _refuse_options(files[0], name, stated)
            return read_array(files[0], name, stated)
        return read_columns(join_files(columns_of(file, stated) for file in files), stated)

    return discovering(options, read)


def _with_schema(source: Input, options: ReadOptions) -> ReadOptions:
    """A Parquet table whose columns are described by its schema; lists alone, or columns of truths, are an item set."""
    if format_name(source, options) != "parquet" or options.item is not None:
        return options
    columns = parquet_columns(source, options)
    names = {name for name in columns.names if name != options.person}
    only_lists = len(names) == 1 and names <= set(columns.lists)
    if options.stated_shape in ("basket", "long") or only_lists or names <= set(columns.truths):
        return options
    leave_out = () if options.person is None else (options.person,)
    domain = domain_of_schema(columns.schema, leave_out=leave_out)
    return replace(options, domain=domain, shape="wide", discover=False)


def _tell_left_out(source: Input, options: ReadOptions) -> None:
    """Say what is left out where lists of items alone are read, although neither the options nor a domain say so.

    Members of JSON objects are known from rows alone, on which what is said must not depend: it is said of every file.
    """
    if options.domain is not None or options.stated_shape is not None or options.item is not None:
        return
    name = format_name(source, options)
    if name in ("jsonl", "json"):
        told = (
            f"of JSON objects the only list is read, as a set of items, and no other member; to have a table of all of"
            f" them, {_DRAFT}; if the lists are all you want, say --shape basket"
        )
    elif name == "parquet" and not options.discover:
        columns = parquet_columns(source, options)
        others = [repr(one) for one in columns.names if one not in (*columns.lists, options.person)]
        if len(columns.lists) != 1 or not others:
            return
        told = (
            f"only the lists of {columns.lists[0]!r} are read; left out: {', '.join(others)}; to have a table of all"
            f" columns, {_DRAFT}; if the lists are all you want, say --shape basket"
        )
    else:
        return
    warnings.warn(f"{source}: {told}.", UserWarning, stacklevel=3)


def columns_of(source: Input, options: ReadOptions, *, draft: bool = False) -> Columns:
    """A file as named columns; for a `draft`, those of a table that has no domain yet."""
    name = format_name(source, options)
    _refuse_options(source, name, options)
    separator = "\t" if name == "tsv" else ","
    match name:
        case "parquet":
            return parquet_columns(source, options)
        case "jsonl" | "json":
            return json_columns(source, options, array=name == "json", draft=draft)
        case "xlsx":
            return excel_columns(source, options, draft=draft)
        case "fimi":
            return line_columns(source, options, " ", integers=True)
        case "msweb":
            return msweb_columns(source, options)
        case "msnbc":
            return msnbc_columns(source, options)
        case "csv" | "tsv" if holds_lines_of_items(options):
            return line_columns(source, options, options.separator or separator, integers=False)
        case "csv" | "tsv":
            return delimited_columns(source, options, separator, draft=draft)
    raise UsageError(f"{source}: several files can be read together only as Parquet, CSV, Excel or JSON.")


def _refuse_options(source: Input, name: str, options: ReadOptions) -> None:
    """Refuse options that mean nothing in a format."""
    if options.labels is not None and name != "idx":
        raise UsageError(f"{source}: --labels belongs to idx images; leave it out.")
    if options.skip_lines and name not in ("csv", "tsv", "fimi", "xlsx"):
        raise UsageError(f"{source}: --skip-lines is for text files and Excel sheets; leave it out.")
    if name in _BASKETS and options.shape not in (None, "basket"):
        raise UsageError(f"{source}: {name.upper()} files hold baskets; leave out the shape.")
    if name in (*_BASKETS, *ARRAYS) and (options.person is not None or options.item is not None):
        raise UsageError(f"{source}: {name.upper()} files have no columns; leave out --person and --item.")
    if name in ("jsonl", "json", "xlsx") and not options.number_style.is_plain:
        raise UsageError(
            f"{source}: numbers of JSON and Excel have a point of their own (1.234 would become 1234); leave out"
            " --decimal, --thousands and --strip-from-numbers, or save the data as CSV."
        )


def discovering(
    options: ReadOptions, read: Callable[[ReadOptions], tuple[Records, Source]]
) -> tuple[Records, Source]:
    """What `read` finds; where items are to be discovered, it reads those that occur, and the records then keep them.

    Where the list of items did not come from the rows (0/1 columns, array files), it is public by nature and stays,
    unless the domain says otherwise.
    """
    domain = options.public_domain
    if domain is not None:
        if options.discover and not domain.is_open:
            raise UsageError(
                "the domain leaves nothing to discover; leave out --discover, or say `discover: true` in it."
            )
        if not isinstance(domain.item_set, ItemSet) or not domain.item_set.discover:
            return read(options)
    elif not options.discover:
        return read(options)
    elif options.assume_public_items:
        raise UsageError("items are discovered or assumed public, not both; leave out one of the two options.")
    records, source = read(replace(options, domain=None, discover=False, assume_public_items=True))
    if not source.items_assumed_public and domain is None:
        return records, source
    if domain is None:
        domain = Domain((ItemSet(records.domain.fields[0].name, discover=True),))
    return OpenRecords.of_sets(records, domain), replace(source, items_assumed_public=False)


def domain_of_schema(schema: pa.Schema, *, leave_out: Sequence[str] = ()) -> Domain:
    """An open domain from the names and types of columns alone; types that cannot be modelled are left out and told.

    >>> import pyarrow as pa
    >>> [field.kind for field in domain_of_schema(pa.schema({"age": pa.int64(), "ward": pa.string()})).fields]
    ['numeric', 'categorical']
    """
    fields: list[Field | Unread] = [
        Ignored(entry.name) if entry.name in leave_out else _field_of(entry.name, entry.type) for entry in schema
    ]
    if all(isinstance(field, (Ignored, Identifier)) for field in fields):
        raise UsageError("no column has a type that can be modelled; state a domain.")
    for kind, what in (
        (
            Ignored,
            "of a type that cannot be modelled, so samples do not have it; turn it into numbers, texts or dates (a"
            " duration into seconds) to keep it.",
        ),
        (
            Identifier,
            "an identifier, as its name says, so samples carry fresh ones; to have it modelled, give the column another"
            " name or state a domain.",
        ),
    ):
        named = [repr(one.name) for one in fields if isinstance(one, kind) and one.name not in leave_out]
        if named:
            warnings.warn(f"{', '.join(named)}: {what}", UserWarning, stacklevel=3)
    return Domain(tuple(fields))  # type: ignore[arg-type]


def _field_of(name: str, kind: Any) -> Field | Unread:
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_boolean(kind):
        return Boolean(name, missing=True)
    if (is_text(kind) or types.is_integer(kind)) and is_identifier(name):
        return Identifier(name)
    if types.is_integer(kind):
        return Numeric(name, DISCOVER, DISCOVER, integer=True)
    if types.is_decimal(kind):
        return Numeric(name, DISCOVER, DISCOVER, decimals=max(0, min(int(kind.scale), 12)))
    if types.is_floating(kind):
        return Numeric(name, DISCOVER, DISCOVER, decimals=DISCOVER)
    if types.is_date(kind):
        return Date(name, DISCOVER, DISCOVER)
    if types.is_timestamp(kind):
        return DateTime(name, DISCOVER, DISCOVER, unit=DISCOVER)
    if is_text(kind):
        return Categorical(name, discover=True)
    return ItemSet(name, discover=True) if is_list(kind) else Ignored(name)


def read_share(
    path: Paths | Sequence[Paths], options: ReadOptions, share: int, shares: int
) -> tuple[Records, Source]:
    """Share number `share` out of `shares` of the records of a file, or of a folder of Parquet parts.

    Of Parquet data with a domain that leaves nothing open a process reads its own row groups alone. Anything else is
    read whole by every process, which keeps its rows: the items of a file, or the rows of a person, may lie anywhere.
    """
    paths = parts_of(path)
    if shares == 1:
        return read_source(paths, options)
    if options.rows_per_person is not None:
        raise UsageError("`rows_per_person` chooses rows by a secret order of one process; fit with one process.")
    files = [locate(one, options.member) for one in paths]
    stated = options.public_domain is not None and not options.public_domain.is_open
    alone = stated and options.stated_shape != "long" and options.person is None
    groups = _groups(files, options) if alone else []
    if len(groups) < shares:
        records, source = read_source(paths, options)
        return records.rows(len(records) * share // shares, len(records) * (share + 1) // shares), source
    mine = _share_of(groups, share, shares)
    chosen = mine or groups[:1]  # a process without rows still has to know their columns
    columns = join_files(
        parquet_columns(file, options, [number for one, number, _ in chosen if one == file])
        for file in dict.fromkeys(one for one, _, _ in chosen)
    )
    records, source = read_columns(columns, options)
    return (records if mine else records.rows(0, 0)), source


def _groups(files: Sequence[Input], options: ReadOptions) -> list[tuple[Input, int, int]]:
    """File, number and rows of every row group that has some; none if a file is not Parquet."""
    if any(format_name(file, options) != "parquet" for file in files):
        return []
    return [(file, number, rows) for file in files for number, rows in enumerate(row_groups(file)) if rows]


def _share_of(groups: Sequence[tuple[Input, int, int]], share: int, shares: int) -> list[tuple[Input, int, int]]:
    """The row groups whose middle falls into this share of all rows."""
    total, before, mine = sum(rows for _, _, rows in groups), 0, []
    for group in groups:
        middle = before + group[2] / 2
        before += group[2]
        if int(middle * shares // max(total, 1)) == share:
            mine.append(group)
    return mine
