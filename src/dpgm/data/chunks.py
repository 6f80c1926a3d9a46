"""A file as named columns, chunk by chunk, with a way to name a row's place in it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from dpgm.data.columns import flat_column
from dpgm.data.formats import Shape
from dpgm.data.gathering import DistinctPersons
from dpgm.data.items import Place, escape_formula
from dpgm.data.options import ReadOptions
from dpgm.errors import InputError, UsageError

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file as an Arrow table, and where each of them is."""

    table: "pyarrow.Table"
    place: Place


@dataclass(frozen=True)
class Columns:
    """A file as named columns: their names, those that hold lists or truth values, and the rows chunk by chunk.

    All but the chunks is known from the schema, the header, the options and the domain; `shape` is the one that the
    format has where none is stated. Names are `certain` unless they are a first line of text that nobody said was a
    header: it may be a record, so that no message may repeat it.
    """

    file: str
    names: tuple[str, ...]
    lists: tuple[str, ...]
    chunks: Iterable[Chunk]
    certain: bool = True
    truths: tuple[str, ...] = ()
    shape: Shape | None = None
    schema: Any = None  # pyarrow's, of formats that carry one


def joined(files: Iterator[Columns]) -> Columns:
    """Several files with the same columns, one after the other."""
    first = next(files)
    rest = list(files)
    for other in rest:
        if set(other.names) != set(first.names):
            raise InputError(f"{other.file}: has other columns than {first.file}; read the files one by one.")
    chunks = chain(first.chunks, *(other.chunks for other in rest))
    return replace(first, chunks=chunks)


def plain_name(name: str) -> str:
    """A column name without the apostrophe that protects spreadsheets from formulas."""
    return name[1:] if name.startswith("'") and escape_formula(name[1:]) == name else name


def need(columns: Columns, name: str | None, option: str) -> str:
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
            f"{columns.file}: there is no column {name!r} for --{option}; the columns are {listed_names(columns)}."
        )
    return name


def listed_names(columns: Columns) -> str:
    """The first names of columns, for a message; only of names that are certain not to be a record."""
    return ", ".join(repr(one) for one in columns.names[:12]) + (", ..." if len(columns.names) > 12 else "")


def in_column(place: Place, name: str | int) -> Place:
    """Places that also tell the column."""
    return lambda row: f"{place(row)}, column {name!r}"


class People:
    """The person column of a shape with one row a person, where the user names one."""

    def __init__(self, file: str, name: str | None) -> None:
        self._file, self._name, self._distinct = file, name, DistinctPersons()

    def see(self, chunk: Chunk) -> None:
        """Note the persons of a chunk."""
        if self._name is not None:
            self._distinct.add(flat_column(chunk.table, self._name), in_column(chunk.place, self._name))

    def unit(self) -> Literal["person", "row"]:
        """The unit of privacy, once all chunks were seen; raises if a person occurred twice."""
        if self._name is None:
            return "row"
        self._distinct.check(self._file, lambda row: f"record {row + 1}")
        return "person"


def people_of(columns: Columns, options: ReadOptions) -> People:
    """The persons of a file, as far as the user names their column."""
    if options.person is not None:
        need(columns, options.person, "person")
    return People(columns.file, options.person)
