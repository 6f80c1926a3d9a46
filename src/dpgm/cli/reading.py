"""The options that say how a data file is read, shared by every command that reads one.

A command lists the ones it wants as parameters, with these aliases as types and `None` (or `False`) as defaults,
and passes them on to `read_from_options`:

    def fit(data: Data, domain: DomainFile = None, shape: Shape = None, ...) -> None:
        records, source = read_from_options(data, domain=domain, shape=shape, ...)
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dpgm.data.records import Records
    from dpgm.data.source import Source

_PANEL = "How the data are read"

Data = Annotated[str, typer.Argument(help="The data file (archive.zip::member for one in a zip).", metavar="DATA")]
DomainFile = Annotated[
    Path | None,
    typer.Option("--domain", metavar="FILE", help="The public domain (YAML or JSON).", rich_help_panel=_PANEL),
]
AssumePublicItems = Annotated[
    bool,
    typer.Option(
        "--assume-public-items",
        help="Declare that the set of items occurring in the file is public knowledge (the certificate says so).",
        rich_help_panel=_PANEL,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Where the ending does not tell: parquet, csv, tsv, jsonl, fimi, npz, npy, idx, msweb, msnbc.",
        rich_help_panel=_PANEL,
    ),
]
Shape = Annotated[
    str | None,
    typer.Option(
        "--shape",
        help="basket (a row a record), long (a row a person and item) or wide (a column a field).",
        rich_help_panel=_PANEL,
    ),
]
Person = Annotated[
    str | None,
    typer.Option("--person", metavar="COLUMN", help="The column of persons.", rich_help_panel=_PANEL),
]
Item = Annotated[
    str | None,
    typer.Option("--item", metavar="COLUMN", help="The column of items or of lists.", rich_help_panel=_PANEL),
]
Count = Annotated[
    str | None,
    typer.Option("--count", metavar="COLUMN", help="Long shape: 0 here means not there.", rich_help_panel=_PANEL),
]
Threshold = Annotated[
    float | None,
    typer.Option("--threshold", help="Numbers above it mean present (images: 127).", rich_help_panel=_PANEL),
]
Labels = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help="The idx labels of idx images.", rich_help_panel=_PANEL),
]
Member = Annotated[
    str | None,
    typer.Option("--member", metavar="NAME", help="The file to read within a .zip.", rich_help_panel=_PANEL),
]
Separator = Annotated[
    str | None,
    typer.Option("--separator", help="The character between cells.", rich_help_panel=_PANEL),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first line names columns.", rich_help_panel=_PANEL),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        "--missing", metavar="TEXT", help="A text that means missing (repeatable).", rich_help_panel=_PANEL
    ),
]
Comment = Annotated[
    str | None,
    typer.Option("--comment", metavar="TEXT", help="Leave out lines that start with it.", rich_help_panel=_PANEL),
]
StripSuffix = Annotated[
    str,
    typer.Option("--strip-suffix", metavar="TEXT", help="Taken off the end of values.", rich_help_panel=_PANEL),
]


def read_from_options(
    data: str | Path,
    *,
    domain: Path | None = None,
    assume_public_items: bool = False,
    format: str | None = None,
    shape: str | None = None,
    person: str | None = None,
    item: str | None = None,
    count: str | None = None,
    threshold: float | None = None,
    labels: Path | None = None,
    member: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    missing: list[str] | None = None,
    comment: str | None = None,
    strip_suffix: str = "",
) -> "tuple[Records, Source]":
    """Records of a file, and the facts about the reading that a certificate must state."""
    from dpgm.data.readers import read_source

    return read_source(
        data,
        domain=domain,
        assume_public_items=assume_public_items,
        format=format,
        shape=shape,
        person=person,
        item=item,
        count=count,
        threshold=threshold,
        labels=labels,
        member=member,
        separator=separator_character(separator),
        header=header,
        missing=missing or (),
        comment=comment,
        strip_suffix=strip_suffix,
    )


def separator_character(separator: str | None) -> str | None:
    r"""A separator as typed: `\t` and `tab` mean a tabulator."""
    return "\t" if separator in ("\\t", "tab") else separator
