"""Connections to databases that somebody opened in Python."""

from pathlib import Path
from typing import Any

from dpgm.data.formats.opening import Input
from dpgm.errors import UsageError

_KINDS = {"sqlite3": "sqlite", "duckdb": "duckdb", "_duckdb": "duckdb", "adbc_driver_manager": "postgresql"}
_OTHERS = ("sqlalchemy", "psycopg", "psycopg2", "pyodbc", "mysql", "pymysql", "oracledb", "snowflake")
_NAME = "the database"


def is_connection(data: object) -> bool:
    """Whether this is a connection to a database, also of a kind that is not read."""
    package = type(data).__module__.partition(".")[0]
    return package in _OTHERS or (package in _KINDS and type(data).__name__.endswith("Connection"))


def of_connection(connection: Any) -> Input:
    """What is read through a connection, which stays open; refuses one of another kind."""
    kind = _KINDS.get(type(connection).__module__.partition(".")[0])
    if kind == "postgresql" and connection.adbc_get_info().get("vendor_name") != "PostgreSQL":
        kind = None
    if kind is None:
        raise UsageError(
            "connections of sqlite3, duckdb and adbc_driver_postgresql are read; for another kind, give the address of"
            " the database, or its rows as a frame: `pandas.read_sql('SELECT * FROM visits', connection)`."
        )
    return Input(Path(_NAME), label=_NAME, format=kind, connection=connection)
