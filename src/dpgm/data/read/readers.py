"""Reading the records of a file of any format and shape, or one process's share of them.

With `discover` values may still be unknown: item sets without a list of items, tables with no more than a schema. Names
and kinds of columns come from the user, the domain file or the schema of a Parquet file or frame, never from values.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy as np
import pyarrow as pa

from dpgm.data.domain import Domain, Ignored, ItemSet
from dpgm.data.formats import format_of
from dpgm.data.formats.delimited import delimited_columns, holds_lines_of_items
from dpgm.data.formats.excel import excel_columns
from dpgm.data.formats.item_lines import line_columns
from dpgm.data.formats.json_lines import json_columns
from dpgm.data.formats.opening import Input, locate, picture_files
from dpgm.data.formats.parquet import parquet_columns, row_groups
from dpgm.data.kinds import column_of_type
from dpgm.data.layouts import Source
from dpgm.data.open_records import OpenRecords
from dpgm.data.person_columns import person_advice
from dpgm.data.read.arrays import ARRAYS, read_array
from dpgm.data.read.columns import Columns, join_files, read_columns
from dpgm.data.read.declared import Paths
from dpgm.data.read.keywords import ReadKeywords
from dpgm.data.read.options import ReadOptions, options_from
from dpgm.data.records import Records
from dpgm.errors import InputError, PrivacyWarning, UsageError

_BASKET_FORMATS = ("fimi",)
_DRAFT_ADVICE = (
    "draft its domain with `dpgm inspect FILE --shape wide --draft-domain domain.yaml` and give it as `domain`"
)
_NOT_MODELLED = (
    "of a type that cannot be modelled, so samples do not have it; turn it into numbers, texts or dates (a duration"
    " into seconds) to keep it."
)
_IDENTIFIER = (
    "an identifier, as its name says, so samples carry fresh ones; to have it modelled, give the column another name"
    " or state a domain."
)


def read_source(
    path: Paths | Sequence[Paths], options: ReadOptions | None = None, **keywords: Unpack[ReadKeywords]
) -> tuple[Records, Source]:
    """Records of a file, and the facts about how they were read that a certificate must state.

    Args:
        path: The file (`archive.zip::member` for one in a zip), a folder of Parquet files, or several files of one
            table.
        options: How it is read.
        keywords: Single fields of `ReadOptions`, which replace those of `options`.

    Raises:
        InputError: the file cannot be read with these options.
        UsageError: the items are not declared public, or the shape is not clear.
    """
    options = options_from(options, **keywords)
    files = located(path, options)
    _warn_of_unread_columns(files[0], options)
    records, source = read_files(files, options)
    if source.like_persons:
        warnings.warn(f"{files[0]}: {person_advice(source.like_persons)}.", PrivacyWarning, stacklevel=2)
    return records, source


def read_records(
    path: Paths | Sequence[Paths], options: ReadOptions | None = None, **keywords: Unpack[ReadKeywords]
) -> Records:
    """Records of a file; see `read_source`, which also returns how they were read.

    A fit that shall protect all rows of a person needs that, too: `fit(records, source=source)`.
    """
    records, source = read_source(path, options, **keywords)
    if source.rows_per_person > 1:
        warnings.warn(
            "records alone do not say whose rows they are, and a fit of them protects each row by itself; read them"
            " with `read_source` and pass its source to `fit` to protect all rows of a person.",
            PrivacyWarning,
            stacklevel=2,
        )
    return records


def parts_of(path: Paths | Sequence[Paths]) -> list[Paths]:
    """The files of a data set: those given, or the Parquet files of a folder in the order of their names."""
    if not isinstance(path, (str, os.PathLike)):
        return list(path)
    if not os.path.isdir(path) or picture_files(Path(path)):
        return [path]
    parts: list[Paths] = [*sorted(Path(path).glob("*.parquet"))]
    if not parts:
        raise InputError(f"{os.fspath(path)}: is a folder without .parquet and image files; name a file.")
    return parts


def located(path: Paths | Sequence[Paths], options: ReadOptions) -> list[Input]:
    """The files of a data set, ready to be opened; at least one."""
    files = [locate(one, options.member) for one in parts_of(path)]
    if not files:
        raise UsageError("no file to read; give at least one.")
    return files


def format_name(source: Input, options: ReadOptions) -> str:
    """The format as stated, or by the ending of the file name."""
    return format_of(source.name, options.format).name


def read_files(files: Sequence[Input], options: ReadOptions) -> tuple[Records, Source]:
    """Records of one file, or of several files of one table; open records if values are to be discovered."""
    if options.discover and options.domain is None:
        options = _with_schema_domain(files[0], options)
    name = format_name(files[0], options)

    def read(options: ReadOptions) -> tuple[Records, Source]:
        if len(files) == 1 and name in ARRAYS:
            _refuse_options(files[0], name, options)
            return read_array(files[0], name, options)
        return read_columns(columns_of_files(files, options), options)

    return read_with_discovery(options, read)


def _with_schema_domain(source: Input, options: ReadOptions) -> ReadOptions:
    """The options with the domain of a Parquet table's schema.

    A list column with nothing beside it that can be modelled is an item set, and so are boolean columns alone.
    """
    if format_name(source, options) != "parquet" or options.item is not None:
        return options
    columns = parquet_columns(source, options)
    modelled = [
        entry.name
        for entry in columns.schema
        if entry.name != options.person and column_of_type(entry.name, entry.type).is_read
    ]
    only_lists = len(modelled) == 1 and modelled[0] in columns.lists
    if options.stated_shape in ("basket", "long") or only_lists or set(columns.names) <= set(columns.booleans):
        return options
    domain = domain_of_schema(columns.schema, person=options.person)
    return replace(options, domain=domain, shape="wide", discover=False)


def _warn_of_unread_columns(source: Input, options: ReadOptions) -> None:
    """Warn if only a list of items will be read, although neither the options nor a domain say so.

    Messages must not depend on rows, and the members of JSON objects are known from rows only: for JSON the warning is
    always given.
    """
    if options.domain is not None or options.stated_shape is not None or options.item is not None:
        return
    name = format_name(source, options)
    if name in ("jsonl", "json"):
        warning = (
            f"of JSON objects the only list is read, as a set of items, and no other member; to have a table of all of"
            f" them, {_DRAFT_ADVICE}; if the lists are all you want, say `shape='basket'`"
        )
    elif name == "parquet" and not options.discover:
        columns = parquet_columns(source, options)
        others = [repr(one) for one in columns.names if one not in (*columns.lists, options.person)]
        if len(columns.lists) != 1 or not others:
            return
        warning = (
            f"only the lists of {columns.lists[0]!r} are read; left out: {', '.join(others)}; to have a table of all"
            f" columns, {_DRAFT_ADVICE}; if the lists are all you want, say `shape='basket'`"
        )
    else:
        return
    warnings.warn(f"{source}: {warning}.", UserWarning, stacklevel=3)


def columns_of_files(files: Sequence[Input], options: ReadOptions, *, draft: bool = False) -> Columns:
    """The named columns of one file, or of several with the same columns."""
    return join_files(columns_of(file, options, draft=draft) for file in files)


def columns_of(source: Input, options: ReadOptions, *, draft: bool = False) -> Columns:
    """The named columns of a file; for a `draft`, those of a table that has no domain yet."""
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
        case "csv" | "tsv" if holds_lines_of_items(options):
            return line_columns(source, options, options.separator or separator, integers=False)
        case "csv" | "tsv":
            return delimited_columns(source, options, separator, draft=draft)
    raise UsageError(f"{source}: several files can be read together only as Parquet, CSV, Excel or JSON.")


def _refuse_options(source: Input, name: str, options: ReadOptions) -> None:
    """Refuse options that have no meaning in a format."""
    if options.labels is not None and name != "idx":
        raise UsageError(f"{source}: `labels` belongs to idx images; leave it out.")
    if options.skip_lines and name not in ("csv", "tsv", "fimi", "xlsx"):
        raise UsageError(f"{source}: `skip_lines` is for text files and Excel sheets; leave it out.")
    if name in _BASKET_FORMATS and options.shape not in (None, "basket"):
        raise UsageError(f"{source}: {name.upper()} files hold baskets; leave out the shape.")
    if name in (*_BASKET_FORMATS, *ARRAYS) and (options.person is not None or options.item is not None):
        raise UsageError(f"{source}: {name.upper()} files have no columns; leave out `person` and `item`.")
    if name in ("jsonl", "json", "xlsx") and not options.number_style.is_plain:
        raise UsageError(
            f"{source}: numbers of JSON and Excel have a point of their own (1.234 would become 1234); leave out"
            " `decimal`, `thousands` and `strip_from_numbers`, or save the data as CSV."
        )


def read_with_discovery(
    options: ReadOptions, read: Callable[[ReadOptions], tuple[Records, Source]]
) -> tuple[Records, Source]:
    """The result of `read`; if items are to be discovered, all items that occur are read, into open records.

    A list of items that does not come from the rows (0/1 columns, array files) is public and stays closed, unless the
    domain says otherwise.
    """
    domain = options.public_domain
    if domain is not None:
        if options.discover and not domain.is_open:
            raise UsageError(
                "the domain leaves nothing to discover; leave out `discover`, or say `discover: true` in it."
            )
        if domain.item_set is None or not domain.item_set.finds_labels:
            return read(options)
    elif not options.discover:
        return read(options)
    elif options.assume_public_items:
        raise UsageError("items are discovered or assumed public, not both; leave out one of the two options.")
    records, source = read(replace(options, domain=None, discover=False, assume_public_items=True))
    if not source.items_assumed_public and domain is None:
        return records, source
    if domain is None:
        separator = options.item_separator or None
        domain = Domain((ItemSet(records.domain.fields[0].name, discover=True, separator=separator),))
    return OpenRecords.of_sets(records, domain, options.memory_limit), replace(source, items_assumed_public=False)


def domain_of_schema(schema: pa.Schema, *, person: str | None = None) -> Domain:
    """An open domain from names and types of columns; warns of types that cannot be modelled. `person` is ignored.

    >>> import pyarrow as pa
    >>> [field.kind for field in domain_of_schema(pa.schema({"age": pa.int64(), "ward": pa.string()})).fields]
    ['numeric', 'categorical']
    """
    columns = [
        Ignored(entry.name) if entry.name == person else column_of_type(entry.name, entry.type) for entry in schema
    ]
    if not any(column.is_read for column in columns):
        raise UsageError("no column has a type that can be modelled; state a domain.")
    for in_samples, reason in ((False, _NOT_MODELLED), (True, _IDENTIFIER)):
        unread = [one for one in columns if not one.is_read and one.name != person]
        names = [repr(one.name) for one in unread if one.in_samples == in_samples]
        if names:
            warnings.warn(f"{', '.join(names)}: {reason}", UserWarning, stacklevel=3)
    return Domain.of_columns(columns)


def read_share(
    path: Paths | Sequence[Paths], options: ReadOptions, share: int, shares: int
) -> tuple[Records, Source]:
    """Share number `share` out of `shares` of the records of a file, or of a folder of Parquet files.

    From Parquet files with a closed domain, a process reads only its own row groups. Anything else is read whole by
    every process, which then keeps its own rows: the items of a file, or the rows of a person, may be anywhere in it.
    """
    paths = parts_of(path)
    if shares == 1:
        return read_source(paths, options)
    if options.rows_per_person is not None:
        raise UsageError("`rows_per_person` chooses rows by a secret order of one process; fit with one process.")
    files = located(paths, options)
    closed = options.public_domain is not None and not options.public_domain.is_open
    rows_are_records = options.stated_shape != "long" and options.person is None
    groups = _row_groups(files, options) if closed and rows_are_records else []
    if len(groups) < shares:
        records, source = read_source(paths, options)
        return records.rows(len(records) * share // shares, len(records) * (share + 1) // shares), source
    mine = _share_of(groups, share, shares)
    selected = mine or groups[:1]  # a process without rows still needs the columns
    columns = join_files(
        parquet_columns(file, options, [number for one, number, _ in selected if one == file])
        for file in dict.fromkeys(one for one, _, _ in selected)
    )
    records, source = read_columns(columns, options)
    return (records if mine else records.rows(0, 0)), source


def _row_groups(files: Sequence[Input], options: ReadOptions) -> list[tuple[Input, int, int]]:
    """File, number and size of every row group that is not empty; none if a file is not Parquet."""
    if any(format_name(file, options) != "parquet" for file in files):
        return []
    return [(file, number, rows) for file in files for number, rows in enumerate(row_groups(file)) if rows]


def _share_of(groups: Sequence[tuple[Input, int, int]], share: int, shares: int) -> list[tuple[Input, int, int]]:
    """The row groups whose middle falls into this share of all rows."""
    sizes = np.array([rows for _, _, rows in groups])
    owners = (np.cumsum(sizes) - sizes / 2) * shares // sizes.sum()
    return [group for group, owner in zip(groups, owners, strict=True) if owner == share]
