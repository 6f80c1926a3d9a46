"""`Database`: what all databases share. A subclass opens a database, which is asked for a schema and then for rows.

Columns have the types that the database states, never types seen in rows: what a row is read as depends on that row.
A query is read as a subquery, so it cannot change anything, and the session may only read.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from dpgm.data.formats.base import Append, Guess
from dpgm.data.formats.opening import Input
from dpgm.data.formats.typed import Typed
from dpgm.data.formats.written import Written
from dpgm.data.nested import with_members
from dpgm.data.stream import Chunk, Readers, RowStream
from dpgm.data.values import numbered
from dpgm.errors import InputError, UsageError
from dpgm.validation import near

if TYPE_CHECKING:
    from dpgm.data.read.options import ReadOptions

ROWS_AT_ONCE = 65_536
_LISTED = 12  # tables in a message
_FROM_OTHERS = (
    "it must give one row per record, each from that person's rows alone, so leave this out (a column of such a name"
    ' stands in "quotes"), or make a view or table of which you know that it does.'
)
CHANGED = "the columns changed while the rows were read; run again when nobody changes the table."


Store: TypeAlias = Callable[[pa.Table], object]  # appends rows to a new table


class Relation(NamedTuple):
    """What a query calls a table or view, and which of the two it is."""

    called: str
    is_view: bool


class OpenDatabase(Protocol):
    """A database that is open for reading."""

    def tables(self) -> Mapping[str, Relation]:
        """The tables and views by name."""
        ...

    def from_others(self, query: str) -> str | None:
        """By what in a query a row follows from other rows, as far as the query shows it; no row is read."""
        ...

    def described(self, query: str) -> tuple[str, pa.Schema]:
        """The query, as it is read, and names and types of its columns; no row is read."""
        ...

    def batches(self, query: str, schema: pa.Schema, row: str) -> Iterator[pa.Table]:
        """The rows of a query whose columns have the schema; `row` is what messages put before its number."""
        ...


class Database(Typed):
    """A database: rows are those of a table or a query."""

    has: ClassVar[frozenset[str]] = frozenset({"columns", "queries", "sheets"})
    writes: ClassVar[Literal["stream", "file", "folder", "table"] | None] = "table"

    def session(self, source: Input) -> AbstractContextManager[OpenDatabase]:
        """Opens a database for reading."""
        raise NotImplementedError

    def new_table(self, target: Input, name: str, schema: pa.Schema) -> AbstractContextManager[Store]:
        """Makes a table in a transaction, which ends with the block; refuses a name that is taken."""
        raise NotImplementedError

    @contextmanager
    def writer(self, target: Input, written: Written) -> Iterator[Append]:
        """The table appears whole or not at all. None is replaced: it might hold the real rows."""
        if target.sheet is None:
            raise UsageError(f"{target}: say what the table is called: `{target}::people`, or `table`.")
        with self.new_table(target, target.sheet, written.schema) as store:
            yield lambda records, first: store(written.table(records, first))

    def stream(self, source: Input, options: "ReadOptions", draft: Guess | None = None) -> RowStream:
        """The rows of the table or query."""
        if source.copy is not None:  # drivers open a file by its name, and copies have none
            raise InputError(f"{source}: databases are read from the disk; copy it here first.")
        with self.session(source) as session:
            query, vouched = _query(session, source, options)
            query, schema = session.described(query)
        if len(set(schema.names)) < len(schema):
            raise InputError(f"{source}: two columns of the query have the same name; give each its own with AS.")

        def rows(readers: Readers) -> Iterator[Chunk]:
            wanted = pa.schema([entry for entry in schema if entry.name in readers])
            start = 0
            with self.session(source) as session:
                chosen = f"SELECT {', '.join(map(quoted, wanted.names))} FROM ({query}\n) AS dpgm_query"
                for table in session.batches(chosen, wanted, f"{source}: row"):
                    if not table.schema.equals(wanted):
                        raise InputError(f"{source}: {CHANGED}")
                    place = numbered(f"{source}: row", range(start + 1, start + 1 + table.num_rows))
                    yield Chunk(_decoded(table), place)
                    start += table.num_rows

        # Whoever opened a connection may have tables whose types were taken from the rows of a file.
        inferred = source.connection is not None
        stream = RowStream(
            str(source), schema, rows, True, noun="table or query", inferred=inferred, vouched=vouched
        )
        return with_members(stream)


def _query(session: OpenDatabase, source: Input, options: "ReadOptions") -> tuple[str, bool]:
    """The query whose rows are read, and whether somebody wrote it or a view that it reads."""
    if options.query is not None:
        query = options.query.strip().rstrip(";").rstrip()
        if (word := session.from_others(query)) is not None:
            raise InputError(f"{source}: the query has {word}; {_FROM_OTHERS}")
        return query, True
    tables, name = session.tables(), options.table or source.sheet
    listed = ", ".join([*map(repr, [*tables][:_LISTED]), *(["..."] if len(tables) > _LISTED else [])])
    if name is None and len(tables) != 1:
        held = f"holds the tables {listed}" if tables else "holds no table"
        raise UsageError(f"{source}: {held}; say with `table` or `query` what to read.")
    if name is not None and name not in tables:
        raise UsageError(
            f"{source}: there is no table {name!r}{near(name, [*tables])}; there are {listed or 'none'}."
        )
    table = tables[name] if name is not None else next(iter(tables.values()))
    return f"SELECT * FROM {table.called}", table.is_view


def refuse_taken(target: Input, name: str) -> None:
    """Refuse to write a table whose name is taken."""
    raise UsageError(
        f"{target}: there is a table {name!r} already, and none is replaced, since it might hold real rows; name"
        " another, or drop it yourself."
    )


def quoted(name: str) -> str:
    """A name as queries write it.

    >>> print(quoted('the "old" one'))
    "the ""old"" one"
    """
    return '"' + name.replace('"', '""') + '"'


def _decoded(table: pa.Table) -> pa.Table:
    """The table with texts where the database has a list of all values."""
    for at, entry in enumerate(table.schema):
        if pa.types.is_dictionary(entry.type):
            table = table.set_column(at, entry.name, table.column(at).cast(entry.type.value_type))
    return table


def driver(name: str, source: Input, needed: str, done: str = "read") -> Any:
    """The module of a driver; says how to install it where it is missing."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise UsageError(
            f"{source}: {needed} is {done} with the package {name.partition('.')[0].replace('_', '-')}; install it with"
            " `pip install 'dpgm[sql]'`."
        ) from None


@contextmanager
def faults(source: Input, errors: type[Exception] | tuple[type[Exception], ...], message: Any) -> Iterator[None]:
    """Errors of a driver as one sentence; `message` makes it, and never repeats a value or a credential."""
    try:
        yield
    except errors as error:
        raise InputError(f"{source}: {message(error)}") from None
