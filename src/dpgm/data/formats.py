"""File formats, shapes of item sets in files, and facts about how records were read.

`Layout` and `Source` hold only what the user stated or a schema says (shape, column names), never contents of a row.
"""

import os
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from dpgm.errors import UsageError
from dpgm.validation import near

Shape: TypeAlias = Literal["basket", "long", "wide"]
SHAPES: tuple[Shape, ...] = get_args(Shape)

FORMATS = ("parquet", "csv", "tsv", "jsonl", "json", "xlsx", "fimi", "npz", "npy", "idx", "png")

_ENDINGS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".data": "csv",  # the UCI archive's names for comma-separated text
    ".test": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".xlsx": "xlsx",
    ".dat": "fimi",
    ".npz": "npz",
    ".npy": "npy",
    ".idx": "idx",
    "-ubyte": "idx",
    ".png": "png",
}
_READ_ENDINGS = (
    ".parquet .csv .tsv .jsonl .json .xlsx .dat .npz .npy .idx -ubyte (text also with .gz, or in a .zip), or a folder"
    " of images"
)
_WRITTEN_ENDINGS = (
    ".parquet .csv .tsv .jsonl .xlsx .dat .npz .npy .idx (text also with .gz); images: a folder (no ending)"
)
_TEXT_FILE = (
    "a .txt file may hold anything, so say what it holds: `format='csv'` (cells; `separator` for what is between them,"
    " `shape='basket'` for lines of items) or `format='fimi'` (item numbers with blanks between them)"
)
_DATABASES = (".sqlite", ".sqlite3", ".db", ".db3", ".duckdb")
_SELF_CONTAINED = ("xlsx", "parquet", "npz", "npy", "png")
_MAX_NAME = 1000  # characters of a column name


@dataclass(frozen=True)
class FileFormat:
    """The format of a file, and whether it is compressed."""

    name: str
    gzip: bool = False


def format_of(path: str | os.PathLike[str], format: str | None = None, *, written: bool = False) -> FileFormat:
    """The format of a file: as given, otherwise by the ending of its name. `written` selects the error message.

    >>> format_of("visits.csv.gz")
    FileFormat(name='csv', gzip=True)
    """
    name = os.path.basename(os.fspath(path)).lower()
    gzipped = name.endswith(".gz")
    stem = name.removesuffix(".gz")
    if format is not None:
        if format not in FORMATS:
            raise UsageError(
                f"`format` must be one of {', '.join(FORMATS)}; got {format!r}{near(format, FORMATS)}."
            )
        return FileFormat(format, gzipped)
    for ending, known in _ENDINGS.items():
        if stem.endswith(ending):
            if gzipped and known in _SELF_CONTAINED:
                break
            return FileFormat(known, gzipped)
    if written:
        raise UsageError(f"{os.fspath(path)}: no format has this ending; write one of {_WRITTEN_ENDINGS}.")
    if stem.endswith(_DATABASES):
        raise UsageError(
            f"{os.fspath(path)}: is a database; export a table of it to a .csv or .parquet file, or give a frame:"
            " `pandas.read_sql('SELECT * FROM visits', connection)`."
        )
    advice = f"use one of {_READ_ENDINGS} (`format` names what is read)"
    raise UsageError(
        f"{os.fspath(path)}: the ending is not known; {_TEXT_FILE if stem.endswith('.txt') else advice}."
    )


def check_shape(shape: str | None) -> Shape | None:
    """A shape given by the user; raises if it is unknown."""
    if shape is None or shape in SHAPES:
        return shape  # type: ignore[return-value]
    raise UsageError(f"`shape` must be one of {', '.join(SHAPES)}; got {shape!r}{near(shape, SHAPES)}.")


@dataclass(frozen=True)
class Layout:
    """The shape of item sets in a file, and the names of their columns.

    Attributes:
        shape: `basket` (one row per record), `long` (one row per person and item) or `wide` (a 0/1 column per item).
        person: the column of persons (long).
        item: the column of items (long) or of lists (basket); None for a basket file whose lines are lists of items.
    """

    shape: Shape
    person: str | None = None
    item: str | None = None

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise UsageError(f"the shape of a layout must be one of {', '.join(SHAPES)}.")
        for name in (self.person, self.item):
            valid = name is None or (isinstance(name, str) and 0 < len(name) <= _MAX_NAME and "\0" not in name)
            if not valid:
                raise UsageError("the columns of a layout must be texts.")
        if self.person is not None and self.person == self.item:
            raise UsageError("the columns of a layout must differ.")


@dataclass(frozen=True)
class Source:
    """Facts about how records were read that a certificate must state.

    `unit` is the unit of privacy: `person` if rows were grouped by a person column, or checked to be distinct in it;
    `row` if every row is assumed to be a different person. `items_assumed_public`: the list of items was taken from the
    file and declared public by the custodian. `layout` is how item sets were laid out in the file, so that samples can
    be written in the same way. `rows_per_person` is the maximum number of rows kept per person. `like_persons`
    are columns that are named like identifiers of persons where no column of persons was stated.
    """

    unit: Literal["person", "row"]
    items_assumed_public: bool
    shape: Shape
    layout: Layout | None = None
    rows_per_person: int = 1
    like_persons: tuple[str, ...] = ()
