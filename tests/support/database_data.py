"""The same people as a Parquet file and as a table of every database."""

import contextlib
import datetime
import sqlite3
from pathlib import Path

import adbc_driver_postgresql.dbapi as dbapi
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from postgres_server import PostgresServer

DOMAIN = """\
fields:
- {name: age, kind: numeric, low: 0, high: 100, bins: 10, integer: true}
- {name: sex, kind: categorical, values: [f, m], missing: true}
- {name: income, kind: numeric, low: 0, high: 20000, bins: 8}
- {name: day, kind: date, low: "2020-01-01", high: "2022-12-31"}
- {name: seen, kind: datetime, low: "2020-01-01", high: "2021-12-31"}
- {name: insured, kind: boolean}
"""
SQLITE = "age INTEGER, sex VARCHAR(1), income DECIMAL(10, 2), day DATE, seen TIMESTAMP, insured BOOLEAN"


def people(rows: int = 400, seed: int = 0) -> pa.Table:
    """People with gaps."""
    draw = np.random.default_rng(seed)
    first = datetime.datetime(2020, 1, 1)
    days = [first.date() + datetime.timedelta(int(days)) for days in draw.integers(0, 900, rows)]
    seen = [first + datetime.timedelta(minutes=int(minutes)) for minutes in draw.integers(0, 500_000, rows)]
    table = pa.table(
        {
            "age": pa.array(draw.integers(0, 100, rows)),
            "sex": pa.array(draw.choice(["f", "m"], rows)),
            "income": pa.array(np.round(draw.lognormal(8, 1, rows), 2)),
            "day": pa.array(days, pa.date32()),
            "seen": pa.array(seen, pa.timestamp("us")),
            "insured": pa.array(draw.random(rows) < 0.8),
        }
    )
    gaps = pa.array(draw.random(rows) < 0.05)
    sex = pc.if_else(gaps, pa.scalar(None, pa.string()), table.column("sex"))
    return table.set_column(1, "sex", sex)


def as_parquet(table: pa.Table, folder: Path) -> Path:
    pq.write_table(table, folder / "people.parquet")
    return folder / "people.parquet"


def as_sqlite(table: pa.Table, folder: Path) -> Path:
    path = folder / "people.db"
    rows = [
        [str(one) if isinstance(one, datetime.date) else one for one in row.values()] for row in table.to_pylist()
    ]
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE people ({SQLITE})")
        connection.executemany(f"INSERT INTO people VALUES ({', '.join('?' * table.num_columns)})", rows)
    return path


def as_duckdb(table: pa.Table, folder: Path) -> Path:
    path = folder / "people.duckdb"
    with contextlib.closing(duckdb.connect(str(path))) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
    return path


def as_postgres(table: pa.Table, server: PostgresServer, name: str = "people") -> str:
    """The address of a server that has the people, with its password."""
    with (
        contextlib.closing(dbapi.connect(server.url_with_password)) as connection,
        contextlib.closing(connection.cursor()) as cursor,
    ):
        cursor.execute(f"DROP TABLE IF EXISTS {name}")
        cursor.adbc_ingest(name, table)
        cursor.execute(f"ALTER TABLE {name} ALTER COLUMN income TYPE numeric(12, 2)")
        connection.commit()
    return server.url_with_password
