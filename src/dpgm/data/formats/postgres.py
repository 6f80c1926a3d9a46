"""PostgreSQL databases, by the ADBC driver, which streams rows as Arrow batches with the types of their columns.

Everything happens in one transaction that may only read. The address may hold a password, and so may the environment
(`PGPASSWORD`) and `~/.pgpass`, which the library of PostgreSQL reads; no message repeats what the driver says of them.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa

from dpgm.data.formats.database import Database, Relation, Store, driver, faults, quoted, refuse_taken
from dpgm.data.formats.opening import Input
from dpgm.data.formats.queries import POSTGRESQL, word_from_others
from dpgm.errors import UsageError

_SETTINGS = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET LOCAL synchronize_seqscans = off",  # rows come in the same order each time
    "SET LOCAL max_parallel_workers_per_gather = 0",
    "SET LOCAL standard_conforming_strings = on",  # as the words of a query are told from its texts
)
# Arrow has no type like these. As text, PostgreSQL takes the blanks that fill up a char(n) away.
_CASTS = {"numeric": ("float8", pa.float64()), "money": ("numeric::float8", pa.float64())}
_AS_TEXT = ("text", pa.string())
_NO_ADDRESS = "a PostgreSQL database has an address: postgresql://user@host/name."
_TABLES = (
    "SELECT n.nspname AS part, c.relname AS name, pg_table_is_visible(c.oid) AS visible,"
    " c.relkind IN ('v', 'm') AS is_view FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema',"
    " 'pg_toast') ORDER BY 3 DESC, 1, 2"
)
_STATE = re.compile(r"SQLSTATE: ([0-9A-Z]{5})")
_SAID = re.compile(r"ERROR:\s+(.*)")


class Postgres(Database):
    """Servers of PostgreSQL; `postgresql://` addresses."""

    @contextmanager
    def session(self, source: Input) -> Iterator["OpenPostgres"]:
        """Connects, for reading alone."""
        if source.connection is not None:
            errors = driver("adbc_driver_manager.dbapi", source, "a PostgreSQL database").Error
            with closing(source.connection.cursor()) as cursor:
                yield OpenPostgres(source, cursor, errors)
            return
        if source.address is None:
            raise UsageError(f"{source}: {_NO_ADDRESS}")
        dbapi = driver("adbc_driver_postgresql.dbapi", source, "a PostgreSQL database")
        with faults(source, dbapi.Error, _unreachable):
            connection = dbapi.connect(source.address)
        with closing(connection), closing(connection.cursor()) as cursor:
            with faults(source, dbapi.Error, _lost):
                for setting in _SETTINGS:
                    cursor.execute(setting)
            yield OpenPostgres(source, cursor, dbapi.Error)

    @contextmanager
    def new_table(self, target: Input, name: str, schema: pa.Schema) -> Iterator[Store]:
        """Columns have PostgreSQL's types for those of Arrow; lists are arrays."""
        if target.address is None:
            raise UsageError(f"{target}: {_NO_ADDRESS}")
        dbapi = driver("adbc_driver_postgresql.dbapi", target, "a PostgreSQL database", "written")
        part, _, own = name.rpartition(".")
        how = {"table_name": own} | ({"db_schema_name": part} if part else {})
        with faults(target, dbapi.Error, _unreachable):
            connection = dbapi.connect(target.address)
        with closing(connection), closing(connection.cursor()) as cursor, faults(target, dbapi.Error, _not_written):
            if name in OpenPostgres(target, cursor, dbapi.Error).tables():
                refuse_taken(target, name)
            cursor.adbc_ingest(data=schema.empty_table(), mode="create", **how)
            yield lambda table: cursor.adbc_ingest(data=table, mode="append", **how)
            connection.commit()


def _not_written(error: Exception) -> str:
    if "SQLSTATE: 42P07" in str(error):
        return "there is a table of this name already, and none is replaced; name another, or drop it yourself."
    if "SQLSTATE: 42501" in str(error):
        return "you may not make tables there; name another schema, as in `mine.people`, or ask for the right to."
    return (
        "the table cannot be written; check that it has no more columns than PostgreSQL allows, and the connection."
    )


class OpenPostgres:
    """A connection to a PostgreSQL database."""

    def __init__(self, source: Input, cursor: Any, errors: type[Exception]) -> None:
        self._cursor = cursor
        self._faults: Callable[[Any], Any] = lambda why: faults(source, (errors, pa.ArrowException, OSError), why)

    def tables(self) -> Mapping[str, Relation]:
        """Tables and views; those that are not on the search path with the name of their schema."""
        with self._faults(_lost):
            self._cursor.execute(_TABLES)
            found = self._cursor.fetchall()
        return {
            name if visible else f"{part}.{name}": Relation(f"{quoted(part)}.{quoted(name)}", is_view)
            for part, name, visible, is_view in found
        }

    def from_others(self, query: str) -> str | None:
        """By the words of the query."""
        return word_from_others(query, POSTGRESQL)

    def described(self, query: str) -> tuple[str, pa.Schema]:
        """The query, with casts of types that Arrow does not have, and its schema."""
        with self._faults(_why):  # no row was read, so no message can repeat a value
            columns = self._cursor.adbc_execute_schema(f"SELECT * FROM ({query}\n) AS dpgm_rows")
        chosen, fields = [], []
        for column in columns:
            cast, kind = _cast(column)
            name = quoted(column.name)
            chosen.append(f"{name}::{cast} AS {name}" if cast else name)
            fields.append((column.name, kind))
        return f"SELECT {', '.join(chosen)} FROM ({query}\n) AS dpgm_rows", pa.schema(fields)

    def batches(self, query: str, schema: pa.Schema, row: str) -> Iterator[pa.Table]:
        """The rows, as the server sends them."""
        with self._faults(_broken):
            self._cursor.execute(query)
            for batch in self._cursor.fetch_record_batch():
                yield pa.Table.from_batches([batch]).replace_schema_metadata(None)


def _cast(column: pa.Field) -> tuple[str | None, pa.DataType]:
    """The cast that a column needs, if it does, and its type then."""
    kind, is_list = column.type, pa.types.is_list(column.type)
    inner = kind.value_field if is_list else column
    name = (inner.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
    if name not in (*_CASTS, "bpchar") and not isinstance(inner.type, pa.BaseExtensionType):
        return None, pa.list_(inner.type) if is_list else kind
    cast, plain = _CASTS.get(name, _AS_TEXT)
    if is_list:
        return f"{cast.partition('::')[2] or cast}[]", pa.list_(plain)
    return cast, plain


def _unreachable(error: Exception) -> str:
    """Why there is no connection; the driver's own words might repeat parts of the address."""
    said = str(error)
    if "password" in said or "authentication" in said:
        return "the server refuses the user name or password; give it in PGPASSWORD or ~/.pgpass, or correct it."
    if "does not exist" in said:
        return "the server has no such database or user; check the address."
    if "invalid URI" in said or "invalid connection option" in said:
        return "the address is not one of PostgreSQL's: postgresql://user@host/name; correct it."
    return "no connection to the server; check the address, and that the server runs and lets you in."


def _why(error: Exception) -> str:
    """Why a query has no schema."""
    state, said = _STATE.search(str(error)), _SAID.search(str(error))
    if state and said and state[1].startswith(("42", "3F")):
        return f"the query cannot be run ({said[1].strip()}); correct it."
    if "ERROR:" in str(error):
        return "the query cannot be run; give one SELECT statement, and check that it works."
    return _lost(error)


def _broken(error: Exception) -> str:
    """Why there are no rows, or no more; the server's own words might repeat a value."""
    if "ERROR:" not in str(error):
        return _lost(error)
    return (
        "the query fails at a row: it cannot compute with a value, may not read something, or would change something;"
        " correct the row, or the query."
    )


def _lost(error: Exception) -> str:
    return "the connection was lost; run again when the server can be reached."
