"""Reading records from a file, whatever its format and shape."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from dpgm.data.arrays import is_idx, read_idx, read_npy, read_npz, refuse_labels
from dpgm.data.basket_lines import read_basket_lines
from dpgm.data.chunks import Columns, joined
from dpgm.data.delimited import delimited_columns, holds_lines_of_items
from dpgm.data.discovering import domain_of_schema, with_private_items, without_list
from dpgm.data.excel import excel_columns
from dpgm.data.formats import format_of
from dpgm.data.json_lines import json_columns
from dpgm.data.opening import Input, locate, open_bytes
from dpgm.data.options import Paths, ReadKeywords, ReadOptions, options_from
from dpgm.data.parquet import parquet_columns
from dpgm.data.records import Records
from dpgm.data.shapes import read_columns
from dpgm.data.source import Source
from dpgm.data.web_logs import looks_like_msweb, read_msnbc, read_msweb
from dpgm.errors import InputError, UsageError


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
    if len(files) == 1:
        return read_with(files[0], chosen)
    occurring = without_list(chosen)
    if occurring is None:
        return read_columns(joined(columns_of(file, chosen) for file in files), chosen)
    several = read_columns(joined(columns_of(file, occurring) for file in files), occurring)
    return with_private_items(*several, chosen)


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
        if looks_like_msweb(_first_bytes(source)):
            raise UsageError(
                f"{source}: looks like the msweb log; say --format msweb, or --format csv if it is not."
            )
    return name


def _first_bytes(source: Input) -> bytes:
    with open_bytes(source) as stream:
        return stream.read(64)


def read_with(source: Input, options: ReadOptions) -> tuple[Records, Source]:
    """Records of one file, read as said; with values still to be found where that was said."""
    if options.discover and options.domain is None and format_name(source, options) == "parquet":
        options = _with_schema(source, options)
    occurring = without_list(options)
    if occurring is None:
        return _read(source, options)
    return with_private_items(*_read(source, occurring), options)


def _with_schema(source: Input, options: ReadOptions) -> ReadOptions:
    """A Parquet table whose columns are described by its schema; a column of lists, or of items, is an item set."""
    columns = parquet_columns(source, options)
    if options.stated_shape in ("basket", "long") or columns.lists or set(columns.names) <= set(columns.truths):
        return options
    leave_out = () if options.person is None else (options.person,)
    domain = domain_of_schema(columns.schema, leave_out=leave_out)
    return replace(options, domain=domain, shape="wide", discover=False)


def _read(source: Input, options: ReadOptions) -> tuple[Records, Source]:
    name = format_name(source, options)
    if name == "idx":
        if not is_idx(source):
            raise InputError(f"{source}: is not an idx file of images; get it again.")
        return read_idx(source, options)
    refuse_labels(source, options)
    if options.skip_lines and name not in ("csv", "tsv", "fimi", "xlsx"):
        raise UsageError(f"{source}: --skip-lines is for text files and Excel sheets; leave it out.")
    if name == "npz":
        return read_npz(source, options)
    if name == "npy":
        return read_npy(source, options)
    if name == "msweb":
        return read_msweb(source, options)
    if name == "msnbc":
        return read_msnbc(source, options)
    if name == "fimi":
        if options.shape not in (None, "basket"):
            raise UsageError(f"{source}: FIMI files hold baskets; leave out the shape.")
        return read_basket_lines(source, options, " ", integers=True)
    if name in ("csv", "tsv") and holds_lines_of_items(options):
        separator = options.separator or ("\t" if name == "tsv" else ",")
        return read_basket_lines(source, options, separator, integers=False)
    return read_columns(columns_of(source, options), options)


def columns_of(source: Input, options: ReadOptions) -> Columns:
    """A file as named columns."""
    name = format_name(source, options)
    if name == "parquet":
        return parquet_columns(source, options)
    if name in ("jsonl", "json", "xlsx") and not options.number_style.is_plain:
        raise UsageError(
            f"{source}: numbers of JSON and Excel have a point of their own (1.234 would become 1234); leave out"
            " --decimal, --thousands and --strip-from-numbers, or save the data as CSV."
        )
    if name in ("jsonl", "json"):
        return json_columns(source, options, array=name == "json")
    if name == "xlsx":
        return excel_columns(source, options)
    if name in ("csv", "tsv"):
        return delimited_columns(source, options, "\t" if name == "tsv" else ",")
    raise UsageError(f"{source}: several files can be read together only as Parquet, CSV, Excel or JSON.")
