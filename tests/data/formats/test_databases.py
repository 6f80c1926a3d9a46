"""SQLite and DuckDB: the release of the Parquet file bit for bit, types by the schema alone, and one sentence where
anything is wrong."""

import contextlib
import sqlite3

import duckdb
import numpy as np
import pyarrow.compute as pc
import pytest

import dpgm
from database_data import DOMAIN, as_duckdb, as_parquet, as_sqlite, people
from dpgm.cli.app import load_commands, run
from dpgm.data.formats.opening import locate
from dpgm.data.kinds import column_of_type
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.readers import open_files
from dpgm.data.values import TEXTS
from dpgm.errors import InputError, UsageError
from dpgm.evaluation.file_inputs import file_inputs

FILES = {"sqlite": as_sqlite, "duckdb": as_duckdb}
SECRET = "s3cretvalue"

load_commands()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.yaml").write_text(DOMAIN)
    return tmp_path


def release(folder, *words):
    """The files of the release of a fit."""
    out = folder / "release"
    (folder / "people.yaml").write_text(DOMAIN)
    assert run(["fit", *map(str, words), "--epsilon", "1", "--seed", "3", "--quiet", "--out", str(out)]) == 0
    return {one.name: one.read_bytes() for one in out.iterdir()}


def options_of(folder, how):
    return ["--discover"] if how == "discover" else ["--domain", str(folder / "people.yaml")]


@pytest.fixture(scope="module", params=["domain", "discover"])
def fitted(request, tmp_path_factory):
    """How people are described, and the release of their Parquet file."""
    folder = tmp_path_factory.mktemp("fitted")
    return request.param, release(folder, as_parquet(people(), folder), *options_of(folder, request.param))


def lists(records):
    return [sorted(one) for one in np.split(records.indices, records.indptr[1:-1])]


@pytest.mark.parametrize("kind", FILES)
def test_a_database_gives_the_release_of_the_parquet_file_bit_for_bit(folder, kind, fitted):
    how, expected = fitted
    assert release(folder, FILES[kind](people(), folder), *options_of(folder, how)) == expected


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("options", [{}, {"table": "people"}, {"query": "select * from people"}])
def test_a_table_gives_the_records_of_the_parquet_file(folder, kind, options):
    table = people()
    records = dpgm.read_records(FILES[kind](table, folder), domain="people.yaml", **options)
    assert records == dpgm.read_records(as_parquet(table, folder), domain="people.yaml")


@pytest.mark.parametrize("kind", FILES)
def test_a_query_gives_the_rows_and_columns_that_it_selects(folder, kind):
    table = people()
    path = FILES[kind](table, folder)
    records = dpgm.read_records(
        path, domain="people.yaml", query="select *, 5 as other from people where age >= 50;\n"
    )
    read = dpgm.read_records(
        as_parquet(table.filter(pc.greater_equal(table.column("age"), 50)), folder), domain="people.yaml"
    )
    assert lists(records) == lists(read)


@pytest.mark.parametrize("kind", FILES)
def test_inspect_and_evaluate_read_it_alike(folder, kind):
    table = people()
    path, parquet = FILES[kind](table, folder), as_parquet(table, folder)
    assert dpgm.inspect_file(path).domain == dpgm.inspect_file(parquet).domain
    for domain in ("people.yaml", None):
        expected = file_inputs(parquet, parquet, ReadOptions(domain=domain))
        for real, synthetic, more in (
            (path, parquet, {}),
            (path, parquet, {"table": "people"}),
            (path, parquet, {"query": "select * from people"}),
            (parquet, path, {}),
            (parquet, f"{path}::people", {}),
            (f"{path}::people", f"{path}::people", {}),
        ):
            found = file_inputs(real, synthetic, ReadOptions(domain=domain, **more))
            assert (found.real, found.synthetic) == (expected.real, expected.synthetic)
            assert found.raw is not None


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("selec", "selec"),
        ("select nothing from people", "nothing"),
        ("select age from peple", "peple"),
        ("select age from people; drop table people", "cannot be run"),
        ("insert into people (age) values (3)", "cannot be run"),
        ("delete from people returning age", "cannot be run"),
    ],
)
def test_a_query_that_cannot_be_run_is_refused_and_changes_nothing(folder, kind, query, said):
    path = FILES[kind](people(30), folder)
    before = path.read_bytes()
    with pytest.raises(InputError, match=said) as refused:
        dpgm.read_records(path, domain="people.yaml", query=query)
    assert str(refused.value).count(". ") == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", FILES)
def test_a_table_that_is_not_there_is_refused_and_of_several_one_must_be_named(folder, kind):
    path = FILES[kind](people(30), folder)
    with pytest.raises(UsageError, match="did you mean people"):
        dpgm.read_records(path, domain="people.yaml", table="peple")
    connect = sqlite3.connect if kind == "sqlite" else duckdb.connect
    with contextlib.closing(connect(str(path))) as connection:
        connection.execute("CREATE TABLE wards (ward VARCHAR(5))")
        connection.commit()
    with pytest.raises(UsageError, match="'people', 'wards'"):
        dpgm.read_records(path, domain="people.yaml")
    assert len(dpgm.read_records(path, domain="people.yaml", table="people")) == 30
    assert len(dpgm.read_records(f"{path}::people", domain="people.yaml")) == 30
    with pytest.raises(InputError, match="no records"):
        dpgm.read_records(path, discover=True, table="wards")


def test_options_of_databases_are_refused_elsewhere_and_two_that_contradict(folder):
    parquet = as_parquet(people(30), folder)
    for option in ({"table": "people"}, {"query": "select 1"}):
        with pytest.raises(UsageError, match="for databases"):
            dpgm.read_records(parquet, domain="people.yaml", **option)
    with pytest.raises(UsageError, match="leave out one"):
        dpgm.read_records(parquet, table="people", query="select 1")


@pytest.mark.parametrize(("name", "head"), [("x.db", b"SQLite format 3\0"), ("x.duckdb", b"12345678DUCK")])
def test_a_damaged_database_is_refused(folder, name, head):
    for content in (b"nothing of the kind" * 500, head + b"\xff" * 9000):
        (folder / name).write_bytes(content)
        with pytest.raises(InputError, match="no readable"):
            dpgm.read_records(name, domain="people.yaml")


# -- SQLite: any cell may hold anything ---------------------------------------------------------------------------


def sqlite_table(folder, columns, rows):
    path = folder / "odd.db"
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE odd ({columns})")
        connection.executemany(f"INSERT INTO odd VALUES ({', '.join('?' * len(rows[0]))})", rows)
    return path


@pytest.mark.parametrize(
    ("declared", "good", "bad"),
    [
        ("INTEGER", 3, SECRET),
        ("INTEGER", 3, 2.5),
        ("REAL", 2.5, SECRET),
        ("NUMERIC", 2, SECRET),
        ("BOOLEAN", 1, 2),
        ("BOOLEAN", 1, SECRET),
        ("DATE", "2020-01-01", SECRET),
        ("DATE", "2020-01-01", 20200101),
        ("TIMESTAMP", "2020-01-01 10:00", SECRET),
        ("TEXT", "f", SECRET.encode()),
    ],
)
def test_a_value_of_another_type_than_declared_is_refused_wherever_it_stands(folder, declared, good, bad, capsys):
    messages = set()
    for at in (0, 1, 70_000):
        rows = [[good]] * 70_001
        rows[at] = [bad]
        path = sqlite_table(folder, f"value {declared}", rows)
        words = ["fit", str(path), "--discover", "--epsilon", "1", "--ledger", "ledger.json", "--out", "release"]
        assert run(words) == 2
        said = capsys.readouterr().err
        assert f"odd.db: row {at + 1}, column 'value': holds a value that its declared type, {declared}" in said
        assert SECRET not in said
        assert not (folder / "release").exists()
        messages.add(said.replace(f"row {at + 1}", "row"))
    assert len(messages) == 1


@pytest.mark.parametrize(
    ("declared", "values", "kind"),
    [
        ("INTEGER", [1, None, 2, -5], "numeric"),
        ("BIGINT", [1, 2, 3, 2**40], "numeric"),
        ("DOUBLE PRECISION", [1, 2.5, None, 3], "numeric"),
        ("DECIMAL(5,2)", [1, 2.5, 3, 4], "numeric"),
        ("VARCHAR(9)", ["a", None, "5", "b"], "categorical"),
        ("BOOL", [0, 1, 1, None], "boolean"),
        ("DATE", ["2020-01-31", None, "2021-02-28", "1999-12-31"], "date"),
        ("DATETIME", ["2020-01-31 10:00:00", "2020-01-31T11:30", None, "2020-01-31T23:00:00+02:00"], "datetime"),
    ],
)
def test_what_a_row_is_read_as_does_not_depend_on_other_rows(folder, declared, values, kind):
    """Each value alone, and beside all others in any place, is the same value; the type is that of the schema."""

    def read(rows):
        stream = open_files(
            [locate(sqlite_table(folder, f"value {declared}", [[one] for one in rows]))], ReadOptions()
        )
        chunks = list(stream.read({"value": TEXTS}))
        assert {chunk.table.schema for chunk in chunks} == {stream.schema}
        assert column_of_type("value", stream.schema.field("value").type).kind == kind
        return [one for chunk in chunks for one in chunk.table.column("value").to_pylist()]

    alone = [read([one])[0] for one in values]
    assert read(values) == alone
    assert read(values[::-1]) == alone[::-1]


def test_an_expression_has_no_declared_type_and_is_a_text(folder):
    path = sqlite_table(folder, "a INTEGER, b TEXT", [[1, "x"], [2, "y"]])
    records = dpgm.read_records(
        path,
        query="select a + 1 as next, b from odd",
        domain={"fields": [{"name": "next", "kind": "categorical", "values": ["2", "3"]}]},
    )
    assert lists(records) == [[0], [1]]


# -- DuckDB: types of its own -------------------------------------------------------------------------------------


def test_types_of_duckdb_are_read(folder):
    with contextlib.closing(duckdb.connect("types.duckdb")) as connection:
        connection.execute("CREATE TYPE size AS ENUM ('small', 'large')")
        connection.execute(
            "CREATE TABLE odd (size size, code HUGEINT, price DECIMAL(9, 2), items VARCHAR[], trips STRUCT(station"
            " VARCHAR, day DATE)[], id UUID)"
        )
        connection.execute(
            "INSERT INTO odd VALUES ('small', 5, 2.25, ['milk', 'bread'], [{'station': 'north', 'day': '2020-01-01'}],"
            " uuid()), ('large', 7, 9.5, [], [], uuid())"
        )
    domain = {
        "fields": [
            {"name": "size", "kind": "categorical", "values": ["small", "large"]},
            {"name": "code", "kind": "numeric", "low": 0, "high": 9, "bins": 10, "integer": True},
            {"name": "price", "kind": "numeric", "low": 0, "high": 10, "bins": 4},
            {"name": "items", "kind": "items", "items": ["milk", "bread", "jam"]},
            {"name": "trips.station", "kind": "items", "items": ["north", "south"]},
        ]
    }
    records = dpgm.read_records("types.duckdb", domain=domain)
    assert lists(records) == [[0, 7, 12, 16, 17, 19], [1, 9, 15]]


def test_a_query_of_duckdb_reads_no_other_file(folder):
    path = as_duckdb(people(30), folder)
    as_parquet(people(30), folder)
    (folder / "x.csv").write_text("age\n5\n")
    for query in ("select * from 'people.parquet'", "select * from read_csv('x.csv')", "select * from 'x.csv'"):
        with pytest.raises(InputError, match="other files"):
            dpgm.read_records(path, domain="people.yaml", query=query)


def test_a_variable_of_python_is_no_table(folder):
    path = as_duckdb(people(30), folder)
    given = people(5)
    with pytest.raises(InputError, match="given"):
        dpgm.read_records(path, domain="people.yaml", query="select * from given")
    assert given.num_rows == 5
