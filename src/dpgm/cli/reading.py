"""The options that say how a data file is read, shared by every command that reads one.

A command takes them all as one value and is decorated with `takes_read_options`, which puts the single options in the
place of that parameter:

    @app.command()
    @takes_read_options
    def fit(data: Data, options: "ReadOptions", out: ...) -> None:
        records, source = read_private(data, options)
"""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from dpgm.data.read.options import ReadOptions

_PANEL = "How the data are read"
_PARAMETER = "options"

Data = Annotated[
    str, typer.Argument(help="The data file (archive.zip::member for one in a zip, - for stdin).", metavar="DATA")
]


def _option(kind: Any, flags: str, help: str, metavar: str | None = None) -> Any:
    return Annotated[kind, typer.Option(flags, help=help, metavar=metavar, rich_help_panel=_PANEL)]


# The fields of ReadOptions in the order of the help page, each with its type on the command line.
READ_OPTIONS: dict[str, Any] = {
    "domain": _option(Path | None, "--domain", "The public domain (YAML or JSON).", "FILE"),
    "assume_public_items": _option(
        bool,
        "--assume-public-items",
        "Declare that the set of items occurring in the file is public knowledge (the certificate says so).",
    ),
    "discover": _option(
        bool,
        "--discover",
        "Find items (and, of a Parquet table, values and ranges) privately instead of listing them.",
    ),
    "assume_public_domain": _option(
        bool,
        "--assume-public-domain",
        "Declare that a --domain drafted from the data by `inspect` is public knowledge (the certificate says so).",
    ),
    "format": _option(
        str | None,
        "--format",
        "Where the ending does not tell: parquet, csv, tsv, jsonl, json, xlsx, fimi, npz, npy, idx, msweb, msnbc.",
    ),
    "shape": _option(
        str | None,
        "--shape",
        "basket (one row per record), long (one row per person and item) or wide (one column per field).",
    ),
    "person": _option(str | None, "--person", "The column of persons.", "COLUMN"),
    "rows_per_person": _option(
        int | None,
        "--rows-per-person",
        "Rows that a person keeps at most, by a secret choice; the fit protects all of them together.",
        "K",
    ),
    "item": _option(str | None, "--item", "The column of items or of lists.", "COLUMN"),
    "count": _option(str | None, "--count", "Long shape: 0 here means not there.", "COLUMN"),
    "threshold": _option(float | None, "--threshold", "Numbers above it mean present (images: 127)."),
    "labels": _option(Path | None, "--labels", "The idx labels of idx images.", "FILE"),
    "member": _option(
        str | None, "--member", "The file to read within a .zip, or the sheet of a workbook.", "NAME"
    ),
    "separator": _option(str | None, "--separator", "The character between cells (`tab` for a tabulator)."),
    "item_separator": _option(
        str | None, "--item-separator", "The text between the items of one cell; '' if a cell is one item."
    ),
    "header": _option(bool | None, "--header/--no-header", "Whether the first line names columns."),
    "missing": _option(list[str] | None, "--missing", "A text that means missing (repeatable).", "TEXT"),
    "skip_lines": _option(int, "--skip-lines", "Leave out so many lines at the top, such as a title.", "N"),
    "comment": _option(str | None, "--comment", "Leave out lines that start with it.", "TEXT"),
    "encoding": _option(str, "--encoding", "The encoding of a text file, such as cp1252 or utf-16.", "NAME"),
    "decimal": _option(str, "--decimal", "The decimal mark of numbers in text files: . or ,", "MARK"),
    "thousands": _option(str | None, "--thousands", "The mark between thousands in text files.", "MARK"),
    "strip_from_numbers": _option(
        list[str] | None,
        "--strip-from-numbers",
        "A sign before or after numbers in text files that is left out, such as € or % (repeatable).",
        "SIGN",
    ),
    "strip_suffix": _option(str, "--strip-suffix", "Taken off the end of values.", "TEXT"),
    "memory": _option(
        str | None, "--memory", "A memory limit, such as 4GB: rows beyond it are kept in a private file.", "SIZE"
    ),
    "cache": _option(Path | None, "--cache", "The folder of that file (fit: by default that of --out).", "FOLDER"),
}
_DEFAULTS: dict[str, Any] = {
    "assume_public_items": False,
    "assume_public_domain": False,
    "discover": False,
    "strip_suffix": "",
    "encoding": "utf-8",
    "decimal": ".",
    "skip_lines": 0,
}


def takes_read_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameter `options` is given on the command line by the single reading options."""
    signature = inspect.signature(command)

    @functools.wraps(command)
    def with_single_options(**arguments: Any) -> None:
        chosen = {name: arguments.pop(name) for name in READ_OPTIONS}
        command(**arguments, **{_PARAMETER: read_options(**chosen)})

    expanded = []
    for name, parameter in signature.parameters.items():
        if name != _PARAMETER:
            expanded.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        expanded += [
            inspect.Parameter(
                one, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS.get(one), annotation=annotation
            )
            for one, annotation in READ_OPTIONS.items()
        ]
    with_single_options.__signature__ = signature.replace(parameters=expanded)  # type: ignore[attr-defined]
    with_single_options.__annotations__ = {one.name: one.annotation for one in expanded} | {"return": None}
    del with_single_options.__wrapped__  # type: ignore[attr-defined]
    return with_single_options


def read_options(**chosen: Any) -> "ReadOptions":
    """The options as typed on the command line."""
    from dpgm.data.read.options import ReadOptions

    for name in ("separator", "item_separator"):
        if chosen[name] in ("\\t", "tab"):
            chosen[name] = "\t"
    lists = {name: chosen[name] or () for name in ("missing", "strip_from_numbers")}
    return ReadOptions(**chosen | lists)
