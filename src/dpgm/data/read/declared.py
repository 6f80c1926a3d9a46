"""Every option that says how a file is read, declared once: name, type, default, help, and which files it is for.

All else follows: the fields of `ReadOptions` and their description, the options of the command line (`cli.options`),
the keywords of Python functions (`keywords`) and the table of the reference, both from `tools/docs_reference.py`.
To add an option, declare it here, run that tool, and read it where it matters.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    from dpgm.data.domain_file import DomainLike

Paths = str | os.PathLike[str]
UTF8 = "utf-8"


@dataclass(frozen=True)
class Option:
    """What is declared of an option beside its name, type and default.

    Attributes:
        help: What it says.
        metavar: What its value is called on the command line.
        needs: What a file must have for the option to mean something (see `data.formats.base`).
        in_memory: Whether `Synthesizer` takes it for data in memory, too, as an argument of its own.
    """

    help: str
    metavar: str | None = None
    needs: str | None = None
    in_memory: bool = False


@dataclass(frozen=True)
class DeclaredOptions:
    """The options, as the fields of `ReadOptions`."""

    domain: Annotated[
        "DomainLike | None",
        Option(
            "The public domain: a YAML or JSON file (in Python also a mapping or `Domain`).", "FILE", None, True
        ),
    ] = None
    assume_public_items: Annotated[
        bool,
        Option(
            "Declare that the set of items occurring in the file is public knowledge (the certificate says so)."
        ),
    ] = False
    assume_public_domain: Annotated[
        bool,
        Option(
            "Declare that a domain drafted from the data by `inspect` is public knowledge (the certificate says so)."
        ),
    ] = False
    discover: Annotated[
        bool,
        Option(
            "Find items (and, in a Parquet table without a domain, values and ranges) privately in the fit instead of"
            " listing them.",
            in_memory=True,
        ),
    ] = False
    format: Annotated[
        str | None, Option("Format, where the ending of the file does not say it, such as csv or fimi.", "NAME")
    ] = None
    shape: Annotated[
        str | None,
        Option(
            "basket (one row per record, a list of items), long (one row per person and item) or wide (one column per"
            " field, or one 0/1 column per item)."
        ),
    ] = None
    person: Annotated[
        str | None,
        Option(
            "The column of persons: long rows are grouped by it; in other shapes its values must differ, except with"
            " rows per person.",
            "COLUMN",
            "columns",
            True,
        ),
    ] = None
    rows_per_person: Annotated[
        int | None,
        Option(
            "Use at most K rows per person, chosen at random and in secret; the fit protects all of them together.",
            "K",
            in_memory=True,
        ),
    ] = None
    item: Annotated[
        str | None,
        Option("The column of items (long), or of lists of items (basket).", "COLUMN", "columns", True),
    ] = None
    time: Annotated[
        str | None,
        Option(
            "Makes the items of a person a sequence: the column of times (long) or of lists of times; any numbers that"
            " rise with time will do where the domain has no times.",
            "COLUMN",
            "columns",
            True,
        ),
    ] = None
    period: Annotated[
        str | None,
        Option(
            "Sequences without a domain: the public period of their times, such as 2024-03-01..2024-03-31; samples then"
            " have times, and not only an order.",
            "FROM..TO",
            in_memory=True,
        ),
    ] = None
    persons: Annotated[
        Paths | None,
        Option(
            "Sequences: a second file with the attributes of persons, one row each, with the same column of persons.",
            "FILE",
            None,
            True,
        ),
    ] = None
    count: Annotated[
        str | None, Option("Long shape: the column of counts; 0 means that the item is absent.", "COLUMN")
    ] = None
    threshold: Annotated[
        float | None,
        Option("Where 0 and 1 are expected: numbers above it mean that an item is present (images: 127)."),
    ] = None
    labels: Annotated[
        Paths | None, Option("The idx labels of idx images; they become the field `label`.", "FILE", "labels")
    ] = None
    member: Annotated[str | None, Option("The file to read within a .zip, or the sheet of a workbook.", "NAME")] = (
        None
    )
    table: Annotated[
        str | None,
        Option("Databases: the table or view to read; needed where there are several.", "NAME", "queries"),
    ] = None
    query: Annotated[
        str | None,
        Option("Databases: the SELECT statement whose rows are read, instead of a table.", "SQL", "queries"),
    ] = None
    separator: Annotated[
        str | None,
        Option("The character between cells (`tab` for a tab character); by default the one that the header uses."),
    ] = None
    item_separator: Annotated[
        str | None,
        Option("The text between the items of a cell, such as `;` in `bread; milk`; '' if a cell is one item."),
    ] = None
    header: Annotated[
        bool | None,
        Option("Whether the first line names columns; known where it has all names that are stated."),
    ] = None
    missing: Annotated[
        Sequence[str],
        Option("A text that means missing, besides the empty cell and those of the domain (repeatable).", "TEXT"),
    ] = ()
    comment: Annotated[str | None, Option("Skip lines that start with this text.", "TEXT")] = None
    skip_lines: Annotated[
        int,
        Option("Skip this many lines at the top of a text or sheet, such as a title.", "N", "lines"),
    ] = 0
    strip_suffix: Annotated[
        str, Option("Text to remove from the end of category values, such as a dot.", "TEXT")
    ] = ""
    encoding: Annotated[str, Option("The encoding of a text file, such as cp1252 or utf-16.", "NAME")] = UTF8
    decimal: Annotated[
        str, Option("The decimal mark of numbers in text files: the point or the comma.", "MARK", "written numbers")
    ] = "."
    thousands: Annotated[
        str | None,
        Option("The mark between thousands in text files, such as a comma or space.", "MARK", "written numbers"),
    ] = None
    strip_from_numbers: Annotated[
        Sequence[str],
        Option(
            "A sign to remove before or after numbers in text files, such as € or % (repeatable).",
            "SIGN",
            "written numbers",
        ),
    ] = ()
    memory: Annotated[
        str | int | None,
        Option(
            "A limit on the memory of the process, such as 4GB: rows beyond their share are kept in nameless temporary"
            " files, and a file that must be read whole is refused where it needs more.",
            "SIZE",
            in_memory=True,
        ),
    ] = None
    cache: Annotated[
        Paths | None,
        Option("The folder of those temporary files (`dpgm fit`: by default that of its output).", "FOLDER"),
    ] = None


@dataclass(frozen=True)
class Declared:
    """One option as it was declared."""

    name: str
    type: Any
    default: Any
    option: Option


def declared() -> list[Declared]:
    """All options, in the order of help pages."""
    found = []
    for field in fields(DeclaredOptions):
        annotation: Any = field.type
        found.append(Declared(field.name, annotation.__origin__, field.default, annotation.__metadata__[0]))
    return found


def described() -> str:
    """The options with what they say, as the attributes in a docstring."""
    return "".join(f"\n    {one.name}: {one.option.help}" for one in declared())
