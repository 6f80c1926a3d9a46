"""The file formats: what each is called, and by which endings it is known."""

import os
from dataclasses import dataclass

from dpgm.errors import UsageError
from dpgm.validation import near

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
