"""SQLite databases, by the module of the standard library.

Any cell may hold any value in SQLite, whatever the type of its column. Drivers that make typed columns take the type
from the first rows, so one row would change how the others are read. Here it is the declared type of the column, and
each value is read by itself; one of another type is refused.
"""

import datetime
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any

import pyarrow as pa

from dpgm.data.formats.database import ROWS_AT_ONCE, Database, Relation, Store, faults, quoted, refuse_taken
from dpgm.data.formats.opening import Input
from dpgm.data.formats.queries import SQLITE, word_from_others
from dpgm.data.values import Place, in_column, numbered
from dpgm.errors import InputError

_VIEW = "dpgm_columns"
_LIST = "JSON ARRAY"  # as which lists are declared that are written here
_MOST = 2**63  # beyond the whole numbers of SQLite and Arrow
_WRONG = "holds a value that its declared type, {}, does not have; correct it, or convert the column in a `query`."


def _text(value: Any) -> str:
    if isinstance(value, (int, float)):  # of an expression, which has no declared type
        return repr(value)
    if not isinstance(value, str):
        raise ValueError
    return value


def _whole(value: Any) -> int:
    if isinstance(value, (str, bytes)) or int(value) != value or not -_MOST <= value < _MOST:
        raise ValueError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise ValueError
    return float(value)


def _truth(value: Any) -> bool:
    if isinstance(value, (str, bytes)) or value not in (0, 1):
        raise ValueError
    return bool(value)


def _day(value: Any) -> datetime.date:
    return value if type(value) is datetime.date else datetime.date.fromisoformat(value)


def _moment(value: Any) -> datetime.datetime:
    moment = value if isinstance(value, datetime.datetime) else datetime.datetime.fromisoformat(value)
    return moment if moment.tzinfo is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError
    return value


def _texts(value: Any) -> list[str | None]:
    found = json.loads(_text(value))
    if not isinstance(found, list) or any(isinstance(one, (list, dict)) for one in found):
        raise ValueError
    return [one if one is None or isinstance(one, str) else json.dumps(one) for one in found]


# The first word that a declared type contains decides, as in SQLite's own rules; without one, columns hold numbers.
_READERS: tuple[tuple[str, pa.DataType, Callable[[Any], Any]], ...] = (
    (_LIST, pa.list_(pa.string()), _texts),
    ("BOOL", pa.bool_(), _truth),
    ("DATETIME", pa.timestamp("us"), _moment),
    ("TIMESTAMP", pa.timestamp("us"), _moment),
    ("DATE", pa.date32(), _day),
    ("INT", pa.int64(), _whole),
    ("CHAR", pa.string(), _text),
    ("CLOB", pa.string(), _text),
    ("TEXT", pa.string(), _text),
    ("JSON", pa.string(), _text),
    ("TIME", pa.string(), _text),
    ("UUID", pa.string(), _text),
    ("BLOB", pa.binary(), _bytes),
    ("", pa.float64(), _number),
)
# Values that Arrow converts to a type as strictly as the reader does, and faster.
_PLAIN: dict[pa.DataType, set[type]] = {
    pa.int64(): {int, type(None)},
    pa.string(): {str, type(None)},
    pa.float64(): {int, float, type(None)},
}


_DECLARED: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("BOOLEAN", pa.types.is_boolean),
    ("INTEGER", pa.types.is_integer),
    ("REAL", pa.types.is_floating),
    ("DATE", pa.types.is_date),
    ("TIMESTAMP", pa.types.is_timestamp),
    (_LIST, pa.types.is_nested),
)


def _reader(declared: str) -> tuple[pa.DataType, Callable[[Any], Any]]:
    """The type of a column by its declared type; texts for an expression, which has none."""
    if not declared.strip():
        return pa.string(), _text
    return next((kind, read) for word, kind, read in _READERS if word in declared.upper())


class Sqlite(Database):
    """SQLite files."""

    def begins(self, head: bytes) -> bool:
        """By the mark of SQLite."""
        return head.startswith(b"SQLite format 3\0")

    @contextmanager
    def session(self, source: Input) -> Iterator["OpenSqlite"]:
        """Opens the file for reading alone."""
        with faults(source, sqlite3.Error, _why):
            if source.connection is not None:
                yield OpenSqlite(source, source.connection)
                return
            address = f"{source.path.absolute().as_uri()}?mode=ro"
            with closing(sqlite3.connect(address, uri=True)) as connection:
                yield OpenSqlite(source, connection)

    @contextmanager
    def new_table(self, target: Input, name: str, schema: pa.Schema) -> Iterator[Store]:
        """Lists are JSON texts, dates and times ISO texts, in columns declared for `dpgm` to read them back."""
        is_new = not target.path.exists()
        columns = ", ".join(f"{quoted(entry.name)} {_declaration(entry.type)}" for entry in schema)
        marks = ", ".join("?" * len(schema))
        try:
            with (
                faults(target, sqlite3.Error, _not_written),
                closing(sqlite3.connect(target.path, isolation_level=None)) as connection,
            ):
                connection.execute("BEGIN IMMEDIATE")
                if name in OpenSqlite(target, connection).tables():
                    refuse_taken(target, name)
                connection.execute(f"CREATE TABLE {quoted(name)} ({columns})")
                insert = f"INSERT INTO {quoted(name)} VALUES ({marks})"
                yield lambda table: connection.executemany(
                    insert, zip(*(_cells(column) for column in table.columns), strict=True)
                )
                connection.execute("COMMIT")
        except BaseException:
            if is_new:
                target.path.unlink(missing_ok=True)
            raise


def _declaration(kind: pa.DataType) -> str:
    """How a column of an Arrow type is declared."""
    return next((word for word, known in _DECLARED if known(kind)), "TEXT")


def _cells(column: pa.ChunkedArray) -> list[Any]:
    """A column as SQLite stores it."""
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    if pa.types.is_temporal(kind):
        column = column.cast(pa.string())
    values: list[Any] = column.to_pylist()
    if not pa.types.is_nested(kind):
        return values
    return [None if one is None else json.dumps(one, ensure_ascii=False, default=str) for one in values]


def _not_written(error: sqlite3.Error) -> str:
    if "locked" in str(error) or "busy" in str(error):
        return "somebody else is using it; run again when they are done."
    if "not a database" in str(error) or "malformed" in str(error):
        return "is no SQLite database; name another file."
    return "the table cannot be written; check the folder, the disk and the number of columns."


class OpenSqlite:
    """An open SQLite database."""

    def __init__(self, source: Input, connection: sqlite3.Connection) -> None:
        self._source, self._connection = source, connection

    def tables(self) -> Mapping[str, Relation]:
        """Tables and views."""
        found = self._plain_cursor().execute(
            "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')"
            " AND name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY name"
        )
        return {name: Relation(quoted(name), kind == "view") for name, kind in found}

    def from_others(self, query: str) -> str | None:
        """By the words of the query."""
        return word_from_others(query, SQLITE)

    def _plain_cursor(self) -> sqlite3.Cursor:
        """A cursor whose rows are tuples, whatever the connection was told."""
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor

    def _declared(self, query: str) -> list[tuple[str, str]]:
        """Names and declared types of the columns of a query, which SQLite tells of views alone."""
        self._connection.execute(f"CREATE TEMP VIEW {_VIEW} AS SELECT * FROM ({query}\n)")
        try:
            found = self._plain_cursor().execute(f"PRAGMA temp.table_info({_VIEW})").fetchall()
        finally:
            self._connection.execute(f"DROP VIEW temp.{_VIEW}")
        return [(name, declared) for _, name, declared, *_ in found]

    def described(self, query: str) -> tuple[str, pa.Schema]:
        """Names, and types by the declared ones."""
        return query, pa.schema([(name, _reader(declared)[0]) for name, declared in self._declared(query)])

    def batches(self, query: str, schema: pa.Schema, row: str) -> Iterator[pa.Table]:
        """The rows, value by value."""
        declared = [kind for _, kind in self._declared(query)]
        cursor, start = self._plain_cursor(), 0
        with faults(self._source, sqlite3.Error, _broken):
            cursor.execute(query)
            while rows := cursor.fetchmany(ROWS_AT_ONCE):
                place = numbered(row, range(start + 1, start + 1 + len(rows)))
                columns = [
                    _column(values, kind, in_column(place, name))
                    for name, kind, values in zip(schema.names, declared, zip(*rows, strict=True), strict=True)
                ]
                yield pa.table(columns, names=schema.names)
                start += len(rows)


def _column(values: tuple[Any, ...], declared: str, place: Place) -> pa.Array:
    kind, read = _reader(declared)
    if {*map(type, values)} <= _PLAIN.get(kind, set()):
        with suppress(pa.ArrowException, UnicodeEncodeError):  # such as a whole number beyond 2^53 among floats
            return pa.array(values, kind)
    converted = []
    for row, value in enumerate(values):
        try:
            converted.append(None if value is None else read(value))
        except (TypeError, ValueError, OverflowError, RecursionError):
            raise InputError(f"{place(row)}: {_WRONG.format(declared or 'TEXT')}") from None
    return pa.array(converted, kind)


def _why(error: sqlite3.Error) -> str:
    """What went wrong before rows are read; then SQLite's words repeat the query, and no value."""
    said = str(error)
    if said.startswith(("no such", "near ", "incomplete input", "ambiguous column", "unrecognized token")):
        return f"the query cannot be run ({said}); correct it."
    return _broken(error)


def _broken(error: sqlite3.Error) -> str:
    """What went wrong, maybe while rows were read; SQLite's own words might repeat a value."""
    said = str(error)
    if "not a database" in said or "malformed" in said:
        return "is no readable SQLite database (cut short, damaged or encrypted); get it again."
    if "locked" in said or "busy" in said:
        return "somebody else is writing to it; run again when they are done."
    if "UTF-8" in said:
        return "holds a text that is not UTF-8; correct it, or leave the column out in a `query`."
    return "the query cannot be run; give one SELECT statement, and check that it works."
