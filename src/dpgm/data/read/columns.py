"""A file as named columns, chunk by chunk."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from dpgm.data.formats import Shape
from dpgm.data.values import Place
from dpgm.errors import InputError, UsageError
from dpgm.validation import near

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file as an Arrow table, and where each of them is."""

    table: "pyarrow.Table"
    place: Place


@dataclass(frozen=True)
class Columns:
    """A file as named columns: their names, those that hold lists or booleans, and the rows chunk by chunk.

    All but the chunks is known from the schema, the header, the options and the domain; `shape` is the one that the
    format has where none is stated. Names are `certain` unless they are a first line of text that was not stated to
    be a header: it may be a record, so that no message may repeat it.
    """

    file: str
    names: tuple[str, ...]
    lists: tuple[str, ...]
    chunks: Iterable[Chunk]
    certain: bool = True
    truths: tuple[str, ...] = ()
    shape: Shape | None = None
    schema: Any = None  # pyarrow's, of formats that carry one


def join_files(files: Iterator[Columns]) -> Columns:
    """Several files with the same columns, one after the other."""
    first = next(files)
    rest = list(files)
    for other in rest:
        if set(other.names) != set(first.names):
            raise InputError(f"{other.file}: has other columns than {first.file}; read the files one by one.")
    chunks = chain(first.chunks, *(other.chunks for other in rest))
    return replace(first, chunks=chunks)


def required_column(columns: Columns, name: str | None, option: str) -> str:
    """A column that an option names and the file has."""
    if name is None:
        raise UsageError(f"{columns.file}: the long shape needs --{option} COLUMN.")
    if name not in columns.names and not columns.certain:
        raise InputError(
            f"{columns.file}: line 1 names no column {name!r} for --{option}; check the name, or say --no-header"
            " if it holds no names."
        )
    if name not in columns.names:
        raise InputError(
            f"{columns.file}: there is no column {name!r} for --{option}{near(name, columns.names)}; the columns are"
            f" {listed_names(columns)}."
        )
    return name


def listed_names(columns: Columns) -> str:
    """The first names of columns, for a message; only of names that are certain not to be a record."""
    return ", ".join(repr(one) for one in columns.names[:12]) + (", ..." if len(columns.names) > 12 else "")
