"""Which format a file name stands for, and which shapes a format can hold."""

import os
from dataclasses import dataclass

from dpgm.data.domain import Domain, Image, ItemSet
from dpgm.data.source import SHAPES, Shape
from dpgm.errors import UsageError
from dpgm.validation import near

FORMATS = ("parquet", "csv", "tsv", "jsonl", "json", "xlsx", "fimi", "npz", "npy", "idx", "msweb", "msnbc")

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
    ".seq": "msnbc",
}
KNOWN_ENDINGS = (
    ".parquet .csv .tsv .jsonl .json .xlsx .dat .npz .npy .idx -ubyte (text also with .gz, or in a .zip)"
)
_SELF_CONTAINED = ("xlsx", "parquet", "npz", "npy")


@dataclass(frozen=True)
class FileFormat:
    """How the bytes of a file are laid out."""

    name: str
    gzip: bool = False


def format_of(path: str | os.PathLike[str], format: str | None = None) -> FileFormat:
    """The format of a file name, unless it is given.

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
    raise UsageError(
        f"{os.fspath(path)}: the ending is not known; use one of {KNOWN_ENDINGS} (--format names what is read)."
    )


def set_field(domain: Domain) -> ItemSet | Image | None:
    """The field of a domain that is one item set or image alone, else nothing."""
    only = domain.fields[0]
    return only if len(domain.fields) == 1 and isinstance(only, (ItemSet, Image)) else None


def check_shape(shape: str | None) -> Shape | None:
    """A shape given by the user."""
    if shape is None or shape in SHAPES:
        return shape  # type: ignore[return-value]
    raise UsageError(f"`shape` must be one of {', '.join(SHAPES)}; got {shape!r}{near(shape, SHAPES)}.")
