"""A file as named columns, chunk by chunk, with a way to name a row's place in it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from dpgm.data.columns import flat_column
from dpgm.data.gathering import PersonsOfRows
from dpgm.data.items import Place, escape_formula, in_column
from dpgm.data.options import ReadOptions
from dpgm.data.records import Records
from dpgm.data.source import Layout, Shape, Source
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
            f"{columns.file}: there is no column {name!r} for --{option}{near(name, columns.names)}; the columns are"
            f" {listed_names(columns)}."
        )
    return name


def listed_names(columns: Columns) -> str:
    """The first names of columns, for a message; only of names that are certain not to be a record."""
    return ", ".join(repr(one) for one in columns.names[:12]) + (", ..." if len(columns.names) > 12 else "")


class People:
    """The person column of a shape with one record per row, where the user names one.

    Persons must differ, or keep at most `most` of their rows.
    """

    def __init__(self, file: str, name: str | None, most: int | None = None) -> None:
        self._file, self._name, self._most, self._persons = file, name, most, PersonsOfRows()

    def see(self, chunk: Chunk) -> None:
        """Note the persons of a chunk."""
        if self._name is not None:
            self._persons.add(flat_column(chunk.table, self._name), in_column(chunk.place, self._name))

    def limited(
        self,
        records: Records,
        shape: Shape,
        *,
        items_assumed_public: bool = False,
        layout: Layout | None = None,
    ) -> tuple[Records, Source]:
        """The records of all chunks that are kept, and how they were read; raises if a person may not occur twice."""
        if self._name is None:
            return records, Source("row", items_assumed_public, shape, layout)
        if self._most is None:
            self._persons.check(self._file, lambda row: f"record {row + 1}")
            return records, Source("person", items_assumed_public, shape, layout)
        kept = records.take(self._persons.chosen(self._most))
        return kept, Source("person", items_assumed_public, shape, layout, self._most)


def people_of(columns: Columns, options: ReadOptions) -> People:
    """The persons of a file, as far as the user names their column."""
    if options.person is not None:
        need(columns, options.person, "person")
    return People(columns.file, options.person, options.rows_per_person)
