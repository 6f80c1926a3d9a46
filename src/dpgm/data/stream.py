"""`RowStream`: rows with a stated schema, on their way into records from a file, a frame, an array or a database."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa

from dpgm.data.domain import Domain, Field
from dpgm.data.items import is_list, is_nested
from dpgm.data.layouts import Shape
from dpgm.data.values import LISTS, TEXTS, Conversion, Place
from dpgm.errors import InputError, UsageError
from dpgm.validation import near

POSITION_COLUMN = (
    "(positions)"  # the only column of a matrix: the positions that a record has, as a tensor or a list
)
_LISTED = 12  # names in a message
Readers: TypeAlias = Mapping[str, Conversion]  # the columns to read, and how Python objects in them become columns


@dataclass(frozen=True)
class Chunk:
    """Some rows as an Arrow table, and the place of each."""

    table: pa.Table
    place: Place


@dataclass(frozen=True)
class RowStream:
    """Rows that are read once, chunk by chunk, and what is known of them before: never by looking at a row.

    Attributes:
        name: what messages call it, such as the path of a file.
        schema: names and types of the columns. All are texts where types are not stated.
        rows: gives the chunks, with the columns that are asked for. Formats without types convert the objects of each
            column by its reader; what has a type already stays as it is.
        typed: whether types were stated with the data, so that they say what a column holds.
        certain: whether names are certainly names. The first line of a text file that nobody stated to be a header may
            be a record, which no message may repeat.
        shape: the shape that the format implies, used if none is stated.
        lines: whether rows are lines of items, so that the only column has no name in the file.
        more_columns: whether rows may hold columns that the schema does not name.
        domain: the domain of the rows where the shape of an array tells it and none is stated.
        domain_from_rows: whether values of that domain were taken from the rows.
        noun: what messages call the place where columns are.
        inferred: whether somebody else may have taken the types from the rows.
        vouched: whether the rows are those of a query or view, for which somebody else vouches.
    """

    name: str
    schema: pa.Schema
    rows: Callable[[Readers], Iterator[Chunk]]
    typed: bool = False
    certain: bool = True
    shape: Shape | None = None
    lines: bool = False
    more_columns: bool = False
    domain: Domain | None = None
    domain_from_rows: bool = False
    noun: str = "file"
    inferred: bool = False
    vouched: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that can be read, in order; those with structures cannot."""
        return tuple(entry.name for entry in self.schema if not is_nested(entry.type))

    @cached_property
    def lists(self) -> tuple[str, ...]:
        """The columns that hold lists of items."""
        return tuple(entry.name for entry in self.schema if is_list(entry.type))

    @cached_property
    def booleans(self) -> tuple[str, ...]:
        """The columns of booleans."""
        return tuple(entry.name for entry in self.schema if pa.types.is_boolean(entry.type))

    def read(self, readers: Readers) -> Iterator[Chunk]:
        """The chunks that have rows; refuses a stream without any."""
        some = False
        for chunk in self.rows(readers):
            if chunk.table.num_rows:
                some = True
                yield chunk
        if not some:
            raise InputError(f"{self.name}: holds no records; give a {self.noun} with at least one.")

    def required(self, name: str | None, option: str) -> str:
        """The column named by an option; refuses one that is not there."""
        if name is None:
            raise UsageError(f"{self.name}: the long shape needs `{option}`, the name of a column.")
        if name not in self.names and not self.certain:
            raise InputError(
                f"{self.name}: line 1 names no column {name!r} for `{option}`; check the name, or say `header=False`"
                " if it holds no names."
            )
        if name not in self.names:
            raise InputError(
                f"{self.name}: there is no column {name!r} for `{option}`{near(name, self.names)}; the columns are"
                f" {self.listed()}."
            )
        return name

    def refuse_repeated(self) -> None:
        """Raise if two columns have the same name."""
        seen: dict[str, int] = {}
        for at, name in enumerate(self.names):
            if seen.setdefault(name, at) != at:
                raise InputError(
                    f"{self.name}: columns {seen[name] + 1} and {at + 1} have the same name; names must differ:"
                    " correct them, or say `header=False` if the first line holds no names."
                )

    def listed(self) -> str:
        """The first names, for a message; to be used only if they are certain."""
        more = ", ..." if len(self.names) > _LISTED else ""
        return ", ".join(map(repr, self.names[:_LISTED])) + more


def conversion_of(field: Field, stream: RowStream) -> Conversion:
    """How objects of a column are read: those of a frame may be anything, those of a text file are texts or lists."""
    if stream.typed:
        return Conversion(field.from_objects, field.holds_lists)
    return LISTS if field.holds_lists else TEXTS


def join_streams(streams: Iterable[RowStream]) -> RowStream:
    """Several streams with the same columns, one after the other; each but the first is opened when its turn comes."""
    rest = iter(streams)
    first = next(rest)

    def rows(readers: Readers) -> Iterator[Chunk]:
        yield from first.rows(readers)
        for other in rest:
            if set(other.names) != set(first.names):
                raise InputError(f"{other.name}: has other columns than {first.name}; read the files one by one.")
            yield from other.rows(readers)

    return replace(first, rows=rows)
