"""Groups of options that several commands share: reading a data file, and requesting a generator.

A command receives a group as one value; its decorator replaces that parameter by the single options:

    @app.command()
    @takes_read_options
    def inspect(data: str = DATA, *, options: "ReadOptions", ...) -> None:
        found = dpgm.inspect_file(data, options, ...)
"""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dpgm.cli.app import argument, option
from dpgm.strategy.settings import Config

if TYPE_CHECKING:
    from dpgm.data.read.options import ReadOptions

PRIVACY, GENERATOR, _READING = "Privacy", "The generator", "Reading the data"  # groups in help
Command: TypeAlias = Callable[..., None]

EPSILON = ("--epsilon", "Privacy budget; 1 is a usual choice.")
DATA = argument("The data file (archive.zip::member for one in a zip, - for stdin).", metavar="DATA")


def _parameter(
    name: str, kind: Any, help: str, metavar: str | None = None, default: Any = None, panel: str = _READING
) -> inspect.Parameter:
    flag = f"--{name.replace('_', '-')}"
    flags = f"{flag}/--no-{name}" if kind == bool | None else flag
    declared = option(flags, help, False if kind is bool else default, panel=panel, metavar=metavar)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=declared, annotation=kind)


def _takes(
    parameter: str, options: list[inspect.Parameter], made: Callable[..., Any]
) -> Callable[[Command], Command]:
    """A decorator for commands whose `parameter` is made from single options."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_single_options(**arguments: Any) -> None:
            chosen = {one.name: arguments.pop(one.name) for one in options}
            command(**arguments, **{parameter: made(**chosen)})

        expanded: list[inspect.Parameter] = []
        for name, one in inspect.signature(command).parameters.items():
            expanded += options if name == parameter else [one.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
        with_single_options.__signature__ = inspect.Signature(expanded)  # type: ignore[attr-defined]
        with_single_options.__annotations__ = {one.name: one.annotation for one in expanded} | {"return": None}
        del with_single_options.__wrapped__  # type: ignore[attr-defined]
        return with_single_options

    return decorate


# The fields of ReadOptions in the order of the help page, each with its type on the command line.
READ_OPTIONS = [
    _parameter("domain", Path | None, "The public domain (YAML or JSON).", "FILE"),
    _parameter(
        "assume_public_items",
        bool,
        "Declare that the set of items occurring in the file is public knowledge (the certificate says so).",
    ),
    _parameter(
        "discover",
        bool,
        "Find items (and, in a Parquet table, values and ranges) privately instead of listing them.",
    ),
    _parameter(
        "assume_public_domain",
        bool,
        "Declare that a --domain drafted from the data by `inspect` is public knowledge (the certificate says so).",
    ),
    _parameter(
        "format",
        str | None,
        "Format, if the ending does not tell: parquet, csv, tsv, jsonl, json, xlsx, fimi, npz, npy, idx, png.",
    ),
    _parameter(
        "shape",
        str | None,
        "basket (one row per record), long (one row per person and item) or wide (one column per field).",
    ),
    _parameter("person", str | None, "The column that identifies persons.", "COLUMN"),
    _parameter(
        "rows_per_person",
        int | None,
        "Use at most K rows per person, chosen at random and in secret; the fit protects all of them together.",
        "K",
    ),
    _parameter("item", str | None, "The column of items, or of lists of items.", "COLUMN"),
    _parameter("count", str | None, "Long shape: the column of counts; 0 means that the item is absent.", "COLUMN"),
    _parameter("threshold", float | None, "Numbers above it mean that an item is present (images: 127)."),
    _parameter("labels", Path | None, "The idx labels of idx images.", "FILE"),
    _parameter("member", str | None, "The file to read within a .zip, or the sheet of a workbook.", "NAME"),
    _parameter("separator", str | None, "The character between cells (`tab` for a tab character)."),
    _parameter("item_separator", str | None, "The text between the items of a cell; '' if a cell is one item."),
    _parameter("header", bool | None, "Whether the first line names columns."),
    _parameter("missing", list[str] | None, "A text that means missing (repeatable).", "TEXT"),
    _parameter("skip_lines", int, "Skip this many lines at the top, such as a title.", "N", 0),
    _parameter("comment", str | None, "Skip lines that start with this text.", "TEXT"),
    _parameter("encoding", str, "The encoding of a text file, such as cp1252 or utf-16.", "NAME", "utf-8"),
    _parameter("decimal", str, "The decimal mark of numbers in text files: . or ,", "MARK", "."),
    _parameter("thousands", str | None, "The mark between thousands in text files.", "MARK"),
    _parameter(
        "strip_from_numbers",
        list[str] | None,
        "A sign to remove before or after numbers in text files, such as € or % (repeatable).",
        "SIGN",
    ),
    _parameter("strip_suffix", str, "Text to remove from the end of values.", "TEXT", ""),
    _parameter(
        "memory",
        str | None,
        "A memory limit, such as 4GB: rows beyond its share for them are kept in private temporary files.",
        "SIZE",
    ),
    _parameter(
        "cache", Path | None, "The folder for the file of --memory (fit: by default the folder of --out).", "FOLDER"
    ),
]


def read_options(**chosen: Any) -> "ReadOptions":
    """The `ReadOptions` of the options of a command."""
    from dpgm.data.read.options import ReadOptions

    for name in ("separator", "item_separator"):
        if chosen[name] in ("\\t", "tab"):
            chosen[name] = "\t"
    lists = {name: chosen[name] or () for name in ("missing", "strip_from_numbers")}
    return ReadOptions(**chosen | lists)


# The options of `plan` and `fit` that request a generator, besides epsilon.
REQUEST_OPTIONS = [
    _parameter("delta", float | None, "By default 1 / (10 x number of records).", panel=PRIVACY),
    _parameter("clusters", int | None, "Number of networks in a mixture of vae or rbm.", panel=GENERATOR),
    _parameter(
        "model", str, "auto, products, image, vae, rbm, independent or mwem.", default="auto", panel=GENERATOR
    ),
    _parameter("preset", str, "default, or paper for the paper's own choices.", default="default", panel=GENERATOR),
    _parameter(
        "mean_length",
        float | None,
        "Public mean number of items per record, from which a vae or rbm starts.",
        panel=GENERATOR,
    ),
]

takes_read_options = _takes("options", READ_OPTIONS, read_options)
# The command calls `request(epsilon)` to get a Config.
takes_request = _takes("request", REQUEST_OPTIONS, lambda **chosen: functools.partial(Config, **chosen))
