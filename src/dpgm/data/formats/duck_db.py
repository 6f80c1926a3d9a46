"""DuckDB databases, by the package duckdb, which gives rows as Arrow batches with the types of its columns."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa

from dpgm.data.formats.database import ROWS_AT_ONCE, Database, Store, driver, faults, quoted, refuse_taken
from dpgm.data.formats.opening import Input

# No other files: DuckDB takes the types of a CSV file from its rows. Nothing is installed, and no variable of Python is
# taken for a table.
_CLOSED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}


class DuckDb(Database):
    """DuckDB files."""

    def begins(self, head: bytes) -> bool:
        """By the mark of DuckDB."""
        return head[8:12] == b"DUCK"

    @contextmanager
    def session(self, source: Input) -> Iterator["OpenDuckDb"]:
        """Opens the file for reading alone."""
        duckdb = driver("duckdb", source, "a DuckDB database")
        if source.connection is not None:
            with faults(source, duckdb.Error, _why):
                yield OpenDuckDb(source.connection)
            return
        with faults(source, duckdb.Error, _unreadable):
            connection = duckdb.connect(str(source.path), read_only=True, config=_CLOSED)
        with faults(source, duckdb.Error, _why), closing(connection):
            connection.execute("SET enable_progress_bar = false")  # it would go to stdout
            yield OpenDuckDb(connection)

    @contextmanager
    def new_table(self, target: Input, name: str, schema: pa.Schema) -> Iterator[Store]:
        """Columns have DuckDB's types for those of Arrow."""
        duckdb = driver("duckdb", target, "a DuckDB database", "written")
        is_new = not target.path.exists()
        try:
            with (
                faults(target, duckdb.Error, _not_written),
                closing(duckdb.connect(str(target.path))) as connection,
            ):
                connection.execute("BEGIN")
                if name in OpenDuckDb(connection).tables():
                    refuse_taken(target, name)

                def store(table: pa.Table, how: str = f"INSERT INTO {quoted(name)}") -> None:
                    connection.register("dpgm_rows", table)
                    connection.execute(f"{how} SELECT * FROM dpgm_rows")
                    connection.unregister("dpgm_rows")

                store(schema.empty_table(), f"CREATE TABLE {quoted(name)} AS")
                yield store
                connection.execute("COMMIT")
        except BaseException:
            if is_new:
                target.path.unlink(missing_ok=True)
            raise


def _not_written(error: Exception) -> str:
    if "Could not set lock" in str(error) or "different configuration" in str(error):
        return "somebody else is using it; run again when they are done."
    return "the table cannot be written; check that it is a DuckDB database, the folder and the disk."


class OpenDuckDb:
    """An open DuckDB database."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def tables(self) -> Mapping[str, str]:
        """Tables and views; those of other schemas with the name of the schema."""
        found = self._connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = current_database()"
            " ORDER BY table_schema <> 'main', table_schema, table_name"
        ).fetchall()
        return {
            name if schema == "main" else f"{schema}.{name}": f"{quoted(schema)}.{quoted(name)}"
            for schema, name in found
        }

    def described(self, query: str) -> tuple[str, pa.Schema]:
        """Names and types."""
        return query, self._connection.sql(f"SELECT * FROM ({query}\n) LIMIT 0").to_arrow_reader(1).schema

    def batches(self, query: str, schema: pa.Schema, row: str) -> Iterator[pa.Table]:
        """The rows, as DuckDB streams them."""
        for batch in self._connection.sql(query).to_arrow_reader(ROWS_AT_ONCE):
            yield pa.Table.from_batches([batch])


def _unreadable(error: Exception) -> str:
    if "Could not set lock" in str(error):
        return "somebody else is writing to it; run again when they are done."
    if "different configuration" in str(error):
        return "is open in this program already; give that connection instead."
    return "is no readable DuckDB database (cut short, damaged or encrypted); get it again."


def _why(error: Exception) -> str:
    """What went wrong; of a query what DuckDB says before it reads rows, and no value."""
    kind, said = type(error).__name__, str(error).partition("\n")[0].partition(": ")[2]
    if kind in ("CatalogException", "ParserException", "BinderException"):
        return f"the query cannot be run ({said.rstrip('.!')}); correct it."
    if kind == "PermissionException":
        return "the query reads other files, whose types would follow from their rows; store them in a table first."
    if kind == "ConversionException":
        return "a row has a value that the query cannot convert; correct the row, or the query."
    if kind in ("IOException", "SerializationException", "FatalException"):
        return _unreadable(error)
    return "the query cannot be run; give one SELECT statement, and check that it works."
