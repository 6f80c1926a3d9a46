"""DuckDB databases, by the package duckdb, which gives rows as Arrow batches with the types of its columns."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa

from dpgm.data.formats.database import ROWS_AT_ONCE, Database, Relation, Store, driver, faults, quoted, refuse_taken
from dpgm.data.formats.opening import Input
from dpgm.errors import InputError

# No other files: DuckDB takes the types of a CSV file from its rows. Nothing is installed, and no variable of Python is
# taken for a table.
_CLOSED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
# What a query may consist of. PIVOT is not here: its columns would follow from the rows.
_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "CTE_NODE", "RECURSIVE_CTE_NODE"}
_NODES |= {"BASE_TABLE", "SUBQUERY", "JOIN", "EMPTY", "EMPTY_FROM", "EXPRESSION_LIST", "TABLE_FUNCTION"}
_NODES |= {"ORDER_MODIFIER", "ORDER_DEFAULT", "ASCENDING", "DESCENDING"}
_EXPRESSIONS = {"COLUMN_REF", "CONSTANT", "FUNCTION", "OPERATOR", "COMPARISON", "CONJUNCTION", "CAST", "CASE"}
_EXPRESSIONS |= {"BETWEEN", "COLLATE", "STAR", "SUBQUERY", "LAMBDA", "LAMBDA_REF", "POSITIONAL_REFERENCE", "TYPE"}
_EXPRESSIONS |= {"PARAMETER"}
_FUNCTIONS = ("unnest", "range", "generate_series", "read_")  # of tables; files are refused where they are opened
_JOINS = {"REGULAR", "NATURAL", "CROSS", "DEPENDENT"}


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
                yield OpenDuckDb(source, source.connection, duckdb.Error)
            return
        with faults(source, duckdb.Error, _unreadable):
            connection = duckdb.connect(str(source.path), read_only=True, config=_CLOSED)
        with faults(source, duckdb.Error, _why), closing(connection):
            connection.execute("SET enable_progress_bar = false")  # it would go to stdout
            yield OpenDuckDb(source, connection, duckdb.Error)

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
                if name in OpenDuckDb(target, connection, duckdb.Error).tables():
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

    def __init__(self, source: Input, connection: Any, errors: type[Exception]) -> None:
        self._source, self._connection = source, connection
        self._errors = (errors, pa.ArrowException, OSError)

    def tables(self) -> Mapping[str, Relation]:
        """Tables and views; those of other schemas with the name of the schema."""
        found = self._connection.execute(
            "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_catalog ="
            " current_database() ORDER BY table_schema <> 'main', table_schema, table_name"
        ).fetchall()
        return {
            name if schema == "main" else f"{schema}.{name}": Relation(
                f"{quoted(schema)}.{quoted(name)}", kind == "VIEW"
            )
            for schema, name, kind in found
        }

    def from_others(self, query: str) -> str | None:
        """By the tree of the query, which must be one SELECT statement: DuckDB binds a PIVOT by reading rows."""
        ((said,),) = self._connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()
        tree = json.loads(said)
        if tree["error"] or len(tree["statements"]) != 1:
            said = tree["error_message"].partition("\n")[0] if tree.get("error_type") == "parser" else ""
            why = f" ({said.rstrip('.!')})" if said else ""
            raise InputError(
                f"{self._source}: the query cannot be run{why}; give one SELECT statement, without PIVOT."
            )
        return _from_others(tree["statements"])

    def described(self, query: str) -> tuple[str, pa.Schema]:
        """Names and types."""
        relation = self._connection.sql(f"SELECT * FROM ({query}\n) LIMIT 0")  # reads no row, so it may say why not
        with faults(self._source, self._errors, _broken):
            return query, relation.to_arrow_reader(1).schema

    def batches(self, query: str, schema: pa.Schema, row: str) -> Iterator[pa.Table]:
        """The rows, as DuckDB streams them."""
        with faults(self._source, self._errors, _broken):
            for batch in self._connection.sql(query).to_arrow_reader(ROWS_AT_ONCE):
                yield pa.Table.from_batches([batch])


def _from_others(tree: Any) -> str | None:
    """By what in a query a row follows from other rows, or what in it is not known not to do so."""
    parts = [tree]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            if (found := _named(part)) is not None:
                return found
            part = [*part.values()]
        if isinstance(part, list):
            parts += part
    return None


def _named(node: dict[str, Any]) -> str | None:
    """The same for one node of its tree, without the parts."""
    kind, group = node.get("type"), node.get("class")
    if node.get("sample") is not None:
        return "TABLESAMPLE"
    if group is not None:
        return None if group in _EXPRESSIONS else {"WINDOW": "OVER"}.get(group, group)
    if not isinstance(kind, str):
        return None
    if kind not in _NODES:
        return kind.replace("_PERCENT", "").removesuffix("_MODIFIER").removesuffix("_REF").removesuffix("_NODE")
    if kind == "SET_OPERATION_NODE" and not (node["setop_type"] == "UNION" and node["setop_all"]):
        return "UNION without ALL" if node["setop_type"] == "UNION" else str(node["setop_type"])
    if kind == "JOIN" and node["ref_type"] not in _JOINS:
        return f"{node['ref_type']} JOIN"
    if kind == "TABLE_FUNCTION" and not node["function"]["function_name"].startswith(_FUNCTIONS):
        return f"the function {node['function']['function_name']}"
    return None


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


def _broken(error: Exception) -> str:
    """Why there are no rows, or no more; DuckDB's own words might repeat a value."""
    return (
        "a row has a value that the query cannot convert or compute with, or the file cannot be read to its end;"
        " correct the row, or the query."
    )
