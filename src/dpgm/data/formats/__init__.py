"""File formats, one per module, and their list: all that reads or writes a file finds its format here.

To add a format, write a subclass of `Format` and a line in `FORMATS`. Nobody outside this package asks which format a
file has; what differs between formats is a method or an attribute of the format.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpgm.data.domain import Domain
from dpgm.data.formats.base import NEEDS, Format, Guess
from dpgm.data.formats.connections import is_connection, of_connection
from dpgm.data.formats.delimited import Delimited
from dpgm.data.formats.duck_db import DuckDb
from dpgm.data.formats.excel import Workbook
from dpgm.data.formats.hive import parts_in
from dpgm.data.formats.idx import Idx
from dpgm.data.formats.item_lines import ItemLines
from dpgm.data.formats.json_lines import JsonArray, JsonLines
from dpgm.data.formats.matrices import Npy, Npz
from dpgm.data.formats.opening import Input, at_database, locate
from dpgm.data.formats.parquet import Parquet
from dpgm.data.formats.pictures import PictureFolder
from dpgm.data.formats.postgres import Postgres
from dpgm.data.formats.remote import fetch
from dpgm.data.formats.sqlite import Sqlite
from dpgm.data.urls import is_url, without_credentials
from dpgm.errors import InputError, UsageError
from dpgm.validation import near

if TYPE_CHECKING:
    from dpgm.data.read.declared import Paths
    from dpgm.data.read.options import ReadOptions

__all__ = [
    "FORMATS",
    "Format",
    "Guess",
    "Named",
    "format_named",
    "format_of",
    "format_to_write",
    "locate_output",
    "located",
    "media_type_of",
    "parts_of",
]

FORMATS: tuple[Format, ...] = (
    Parquet("parquet", (".parquet",), (".pq",), "application/vnd.apache.parquet"),
    # .data and .test are the UCI archive's names for comma-separated text.
    Delimited("csv", (".csv",), (".data", ".test"), "text/csv"),
    Delimited("tsv", (".tsv",), (), "text/tab-separated-values", separator="\t"),
    JsonLines("jsonl", (".jsonl",), (".ndjson",), "application/jsonlines"),
    JsonArray("json", (".json",), (), "application/json"),
    Workbook("xlsx", (".xlsx",), (), "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ItemLines("fimi", (".dat",), (), "text/plain"),
    Npz("npz", (".npz",)),
    Npy("npy", (".npy",)),
    Idx("idx", (".idx", "-ubyte")),
    PictureFolder("png", (), (".png",)),
    Sqlite("sqlite", (".sqlite",), (".sqlite3", ".db", ".db3"), "application/vnd.sqlite3"),
    DuckDb("duckdb", (".duckdb",)),
    Postgres("postgresql", ()),
)
_ANYTHING_ELSE = "csv"  # what data without a name are that begin like no other format
_TEXT_FILE = (
    "a .txt file may hold anything, so say what it holds: `format='csv'` (cells; `separator` for what is between them,"
    " `shape='basket'` for lines of items) or `format='fimi'` (item numbers with blanks between them)"
)


@dataclass(frozen=True)
class Named:
    """The format that a file has by its name, and whether it is compressed."""

    format: Format
    gzip: bool = False


def format_named(name: str) -> Format:
    """The format of that name; refuses an unknown one."""
    names = [one.name for one in FORMATS]
    if name not in names:
        raise UsageError(f"`format` must be one of {', '.join(names)}; got {name!r}{near(name, names)}.")
    return FORMATS[names.index(name)]


def by_ending(path: str | os.PathLike[str], stated: str | None = None) -> Named | None:
    """The format that is stated, or has the ending of the file; None if no format has.

    >>> found = by_ending("visits.csv.gz")
    >>> found.format.name, found.gzip
    ('csv', True)
    """
    name = os.path.basename(os.fspath(path)).lower()
    stem, gzipped = name.removesuffix(".gz"), name.endswith(".gz")
    if stated is not None:
        return Named(format_named(stated), gzipped)
    for one in FORMATS:
        if stem.endswith((*one.endings, *one.other_endings)) and not (gzipped and one.packed):
            return Named(one, gzipped)
    return None


def media_type_of(path: str | os.PathLike[str]) -> str:
    """What the web calls files with this ending.

    >>> media_type_of("people.csv"), media_type_of("people.zip")
    ('text/csv', 'application/octet-stream')
    """
    named = by_ending(path)
    return Format.media_type if named is None or named.gzip else named.format.media_type


def format_of(source: Input, options: "ReadOptions") -> Format:
    """The format of a file or folder to read: as stated, otherwise by its name."""
    if source.format is None and source.path.is_dir():
        found = next((one for one in FORMATS if one.holds(source.path)), None)
        if found is None:
            raise InputError(f"{source}: is a folder; name a file in it.")
        return found
    named = by_ending(source.name, source.format or options.format)
    if named is None:
        raise _unknown(source)
    if source.sheet is not None and "sheets" not in named.format.has:
        raise InputError(f"{source}: is no .zip archive, workbook or database; leave out the member.")
    return named.format


def _unknown(source: Input) -> UsageError:
    stem = source.name.lower().removesuffix(".gz")
    advice = (
        f"use one of {_endings(FORMATS)} (text also with .gz, or in a .zip), or a folder of images (`format` names what"
        " is read)"
    )
    text = stem.endswith(".txt")
    return UsageError(f"{source}: the ending is not known; {_TEXT_FILE if text else advice}.")


def _endings(formats: Iterable[Format]) -> str:
    return " ".join(ending for one in formats for ending in one.endings)


def locate_output(path: str | os.PathLike[str]) -> Input:
    """Where records are written: a file, or, as in `people.db::people` and addresses, a table of a database."""
    text = os.fspath(path)
    if is_url(text):
        database = at_database(text)
        if database is None:
            raise UsageError(
                f"{without_credentials(text)}: nothing is written to such addresses; name a file here."
            )
        return database
    file, mark, table = text.rpartition("::")
    if not mark or by_ending(text) is not None:
        return Input(Path(text))
    return Input(Path(file), sheet=table)


def format_to_write(target: Input, stated: str | None, domain: Domain) -> Named:
    """The format in which records of a domain are written: as stated, or by the ending; images also to a folder."""
    path = target.path
    named = by_ending(path, target.format or stated)
    if named is None and stated is None and not path.suffix:
        named = next((Named(one) for one in FORMATS if one.writes == "folder" and one.misfit(domain) is None), None)
    if named is None:
        endings = _endings(one for one in FORMATS if one.writes)
        raise UsageError(
            f"{path}: no format has this ending; write one of {endings} (text also with .gz); images: a folder (no"
            " ending)."
        )
    if target.sheet is not None and named.format.writes != "table":
        raise UsageError(f"{path}: is no database; leave out the `table`.")
    if (reason := named.format.misfit(domain)) is not None:
        raise UsageError(f"{path}: {reason}")
    return named


def ending_of(head: bytes) -> str:
    """The usual ending of data that begin like this: for curators who release nothing, never for a fit.

    >>> ending_of(b"age,sex"), ending_of(b'{"age": 5}'), ending_of(b"[[1, 2],")
    ('.csv', '.jsonl', '.json')
    """
    found = next((one for one in FORMATS if one.begins(head)), format_named(_ANYTHING_ELSE))
    return found.endings[0]


def refuse_options(format: Format, source: Input, options: "ReadOptions") -> None:
    """Refuse options that have no meaning in a format."""
    stated = {
        "labels": options.labels is not None,
        "lines": options.skip_lines > 0,
        "queries": options.query is not None or options.table is not None,
        "columns": options.person is not None or options.item is not None,
        "written numbers": not options.number_style.is_plain,
    }
    for need, is_stated in stated.items():
        if is_stated and need not in format.has:
            raise UsageError(f"{source}: {NEEDS[need].format(format=format.name.upper())}")
    if format.only_shape == "basket" and options.shape not in (None, "basket"):
        raise UsageError(f"{source}: {format.name.upper()} files hold baskets; leave out the shape.")


# -- where a data set lies -----------------------------------------------------------------------------------------


def parts_of(path: "Paths | Sequence[Paths]", member: str | None = None) -> "list[Paths]":
    """The files of a data set: those given, or the files of one format in a folder in the order of their names."""
    if is_connection(path):
        return [of_connection(path)]
    if not isinstance(path, (str, os.PathLike)):
        return list(path)
    if is_url(text := os.fspath(path)) and not os.path.exists(text) and at_database(text) is None:
        return [*fetch(text, member)]
    folder = Path(path)
    if isinstance(path, Input) or not folder.is_dir() or any(one.holds(folder) for one in FORMATS):
        return [path]
    if not (parts := parts_in(folder)):
        raise InputError(f"{os.fspath(path)}: is a folder without .parquet and image files; name a file.")
    return [*parts]


def located(path: "Paths | Sequence[Paths]", member: str | None = None) -> list[Input]:
    """The files of a data set, ready to be opened; at least one."""
    files = [locate(one, member) for one in parts_of(path, member)]
    if not files:
        raise UsageError("no file to read; give at least one.")
    return files
