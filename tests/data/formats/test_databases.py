"""SQLite, DuckDB and PostgreSQL: the release of the Parquet file bit for bit, types by the schema alone, and one sentence where
anything is wrong."""

import contextlib
import datetime
import sqlite3
import warnings

import adbc_driver_postgresql.dbapi as dbapi
import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pytest

import dpgm
from database_data import DOMAIN, as_duckdb, as_parquet, as_postgres, as_sqlite, people
from dpgm.cli.app import load_commands, run
from dpgm.data.formats.opening import locate
from dpgm.data.formats.queries import POSTGRESQL, SQLITE, word_from_others
from dpgm.data.kinds import column_of_type
from dpgm.data.read.frames import read_frame
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.readers import open_files
from dpgm.data.values import TEXTS
from dpgm.errors import DpgmError, InputError, UsageError
from dpgm.evaluation.file_inputs import file_inputs
from dpgm.evaluation.inputs import inputs_of
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.synthesis import joint
from dpgm.synthesis.readme import VOUCHED, statements_of
from postgres_server import PASSWORD, postgres_server

FILES = {"sqlite": as_sqlite, "duckdb": as_duckdb}
KINDS = (*FILES, "postgresql")
ONE_QUICKLY = [pytest.param(one, marks=[pytest.mark.slow] if one != "sqlite" else []) for one in KINDS]
SECRET = "s3cretvalue"

load_commands()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.yaml").write_text(DOMAIN)
    return tmp_path


@pytest.fixture(scope="module")
def server():
    with postgres_server() as started:
        yield started


@pytest.fixture
def stored(request, folder):
    """Stores people in a database of a kind; returns its path or address."""

    def store(kind, table):
        if kind == "postgresql":
            return as_postgres(table, request.getfixturevalue("server"))
        return FILES[kind](table, folder)

    return store


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


@pytest.mark.parametrize("kind", KINDS)
def test_a_database_gives_the_release_of_the_parquet_file_bit_for_bit(folder, stored, kind, fitted):
    how, expected = fitted
    assert release(folder, stored(kind, people()), *options_of(folder, how)) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"table": "people"}, {"query": "select * from people"}])
def test_a_table_gives_the_records_of_the_parquet_file(folder, stored, kind, options):
    table = people()
    records = dpgm.read_records(stored(kind, table), domain="people.yaml", **options)
    assert records == dpgm.read_records(as_parquet(table, folder), domain="people.yaml")


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_gives_the_rows_and_columns_that_it_selects(folder, stored, kind):
    table = people()
    path = stored(kind, table)
    records = dpgm.read_records(
        path, domain="people.yaml", query="select *, 5 as other from people where age >= 50;\n"
    )
    read = dpgm.read_records(
        as_parquet(table.filter(pc.greater_equal(table.column("age"), 50)), folder), domain="people.yaml"
    )
    assert lists(records) == lists(read)


@pytest.mark.parametrize("kind", ONE_QUICKLY)
def test_inspect_and_evaluate_read_it_alike(folder, stored, kind):
    table = people()
    path, parquet = stored(kind, table), as_parquet(table, folder)
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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("selec", "cannot be run"),
        ("select nothing from people", "nothing"),
        ("select age from peple", "peple"),
        ("select age from people; drop table people", "cannot be run"),
        ("insert into people (age) values (3)", "cannot be run"),
        ("delete from people returning age", "cannot be run"),
    ],
)
def test_a_query_that_cannot_be_run_is_refused_and_changes_nothing(folder, stored, kind, query, said):
    path = stored(kind, people(30))
    before = dpgm.read_records(path, domain="people.yaml")
    with pytest.raises(InputError, match=said) as refused:
        dpgm.read_records(path, domain="people.yaml", query=query)
    assert str(refused.value).count(". ") == 0
    assert dpgm.read_records(path, domain="people.yaml") == before


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


# -- a row must follow from one person's rows ---------------------------------------------------------------------

FROM_OTHERS = {
    "select age, max(income) over () as income from people": "OVER",
    "select age, sum(income) OVER/**/(order by age) from people": "OVER",
    "select * from people order by age limit 20": "LIMIT",
    "select * from people where age = (select age from people order by income limit 1)": "LIMIT",
    "select distinct sex from people": "DISTINCT",
    "select * from (select /* all */ DISTINCT age from people) as x": "DISTINCT",
    "select age from people union select age from people": "UNION without ALL",
    "with x as (select age from people intersect select age from people) select * from x": "INTERSECT",
    "select age from people except select 5": "EXCEPT",
}
FROM_ONE = (
    "select * from people -- limit 1",
    "select * from people /* over () */ where sex <> ' limit 1'",
    "select age, 'over' as \"limit\" from people union all select age, 'union' from people",
    "select a.age, count(distinct b.sex) as n from people as a join people as b on a.age = b.age group by a.age",
    "select age from people where sex is distinct from 'f' order by age",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_whose_rows_follow_from_several_people_is_refused(folder, stored, kind):
    path = stored(kind, people(30))
    for query, word in FROM_OTHERS.items():
        with pytest.raises(InputError, match=f"the query has {word}; it must give one row per record") as refused:
            dpgm.read_records(path, discover=True, query=query)
        assert str(refused.value).count(". ") == 0
    for query in FROM_ONE:
        assert len(dpgm.read_records(path, discover=True, query=query)) > 0, query


@pytest.mark.parametrize(
    ("language", "query"),
    [
        (SQLITE, "select [limit], `over` from people -- \r limit"),
        (SQLITE, "select 'it''s' /* limit"),
        (POSTGRESQL, r"select E'it\'s limit' as a, $$over$$, $x$ $$ limit $x$, a$x$b from t"),
        (POSTGRESQL, "select a[1], e'a'\n 'b\\' limit' from t"),
    ],
)
def test_texts_names_and_comments_of_a_language_are_no_words_of_a_query(language, query):
    assert word_from_others(query, language) is None


@pytest.mark.parametrize(
    ("language", "query", "word"),
    [
        (SQLITE, r"select 'a\' limit 1 --'", "LIMIT"),
        (SQLITE, "select $$ from t limit 1 -- $$", "LIMIT"),
        (POSTGRESQL, "select * from t -- \r limit 1", "LIMIT"),
        (POSTGRESQL, "select '[' from t limit 1 --]", "LIMIT"),
        (POSTGRESQL, "select a[1] from t fetch first row only --]", "FETCH"),
        (POSTGRESQL, "select like'\\' limit 1 --'", "LIMIT"),
        (POSTGRESQL, "select 1 /* ' /* */ */ limit 1 --'", "a comment within a comment"),
        (POSTGRESQL, "select * from t tablesample system (5)", "TABLESAMPLE"),
    ],
)
def test_what_only_looks_like_a_text_hides_no_word(language, query, word):
    assert word_from_others(query, language) == word


@pytest.fixture
def visits(folder):
    """A DuckDB file whose values are secrets, with a view."""
    with contextlib.closing(duckdb.connect("visits.duckdb")) as connection:
        connection.execute("CREATE TABLE visits (id INTEGER, ward VARCHAR, note VARCHAR)")
        connection.execute(f"INSERT INTO visits VALUES (1, 'a', '{SECRET}'), (2, 'b', '{SECRET}2')")
        connection.execute("CREATE VIEW seen AS FROM visits")
    return "visits.duckdb"


PIVOTS = (
    "PIVOT visits ON note USING count(*) GROUP BY id, ward",
    "select * from (PIVOT visits ON note USING count(*) GROUP BY id, ward)",
    "with x as (PIVOT visits ON note USING count(*)) from x",
    "PIVOT visits ON note IN ('x') USING count(*)",
    "select 1) as x, (PIVOT visits ON note USING count(*)",
    "select * from query('PIVOT visits ON note USING count(*)')",
    "SUMMARIZE visits",
    "SHOW TABLES",
)


@pytest.mark.parametrize("query", PIVOTS)
def test_no_column_of_duckdb_follows_from_rows(visits, query):
    with pytest.raises(InputError, match=r"the query (cannot be run|has)") as refused:
        dpgm.read_records(visits, discover=True, query=query)
    assert SECRET not in str(refused.value)
    with contextlib.closing(duckdb.connect(visits)) as connection:
        with pytest.raises(InputError, match=r"the query (cannot be run|has)"):
            dpgm.read_records(connection, discover=True, query=query)
        with pytest.raises(duckdb.Error, match="cannot be used in views"):
            connection.execute(f"CREATE VIEW pivoted AS {PIVOTS[0]}")


@pytest.mark.parametrize(
    "query",
    ["from visits tablesample 1 rows", "from visits positional join visits as b", "from visits limit 50%"],
)
def test_rows_of_duckdb_that_are_chosen_by_others_are_refused(visits, query):
    with pytest.raises(InputError, match=r"the query has (TABLESAMPLE|POSITIONAL JOIN|LIMIT);"):
        dpgm.read_records(visits, discover=True, query=query)


@pytest.mark.parametrize("kind", KINDS)
def test_the_certificate_says_who_vouches_for_the_rows_of_a_query_or_view(folder, stored, kind):
    path = stored(kind, people(60))
    query = "select age, sex from people"
    connects = {"sqlite": sqlite3.connect, "duckdb": duckdb.connect, "postgresql": dbapi.connect}

    def told(statement):
        with contextlib.closing(connects[kind](str(path))) as connection:
            with contextlib.closing(connection.cursor()) as cursor:
                cursor.execute(statement)
            connection.commit()

    told(f"CREATE VIEW seen AS {query}")
    try:
        for how, vouched in (({"query": query}, True), ({"table": "seen"}, True), ({"table": "people"}, False)):
            source = dpgm.read_source(path, discover=True, **how)[1]
            assert source.vouched == vouched
            assert (VOUCHED in statements_of(source)) == vouched
        words = ["--query", query, "--discover", "--epsilon", "1", "--quiet", "--out", "release"]
        if kind == "sqlite":
            assert run(["fit", str(path), *words]) == 0
            assert VOUCHED in dpgm.load("release").certificate.statements
            assert VOUCHED in (folder / "release" / "README.md").read_text("utf-8")
            assert run(["verify", "release"]) == 0
            assert all(query not in one.read_bytes().decode("latin-1") for one in (folder / "release").iterdir())
    finally:
        told("DROP VIEW seen")  # the next test makes another table of people on the same server


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
        ("INTEGER", 3, 1e300),
        ("REAL", 2.5, SECRET),
        ("NUMERIC", 2, SECRET),
        ("BOOLEAN", 1, 2),
        ("BOOLEAN", 1, SECRET),
        ("DATE", "2020-01-01", SECRET),
        ("DATE", "2020-01-01", 20200101),
        ("TIMESTAMP", "2020-01-01 10:00", SECRET),
        ("TEXT", "f", SECRET.encode()),
        ("JSON ARRAY", '["a"]', f'{{"a": "{SECRET}"}}'),
        ("JSON ARRAY", "[]", SECRET),
    ],
)
def test_a_value_of_another_type_than_declared_is_refused_wherever_it_stands(
    folder, declared, good, bad, capsys, monkeypatch
):
    monkeypatch.setattr("dpgm.data.formats.sqlite.ROWS_AT_ONCE", 64)
    messages = set()
    for at in (0, 1, 200):
        rows = [[good]] * 201
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
        ("JSON ARRAY", ["[]", '["a", 5, null]', None, '["b"]'], "items"),
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


def test_sqlite_quotes_no_value_of_a_row_that_it_fails_at(folder):
    path = sqlite_table(folder, "code TEXT", [["no such"], [f"near {SECRET}"]])
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE VIRTUAL TABLE notes USING fts5 (note)")
        connection.execute("INSERT INTO notes VALUES ('x')")
        connection.execute("CREATE TABLE terms (term TEXT)")
        connection.execute(f"INSERT INTO terms VALUES ('{SECRET}:x')")
        connection.commit()
    query = "select term from terms where exists (select 1 from notes where notes match term)"
    with (
        contextlib.closing(sqlite3.connect(path)) as connection,
        pytest.raises(sqlite3.Error, match=f"no such column: {SECRET}"),
    ):
        connection.execute(query).fetchall()
    with pytest.raises(InputError, match="the query cannot be run; give") as refused:
        dpgm.read_records(path, discover=True, query=query)
    assert SECRET not in str(refused.value)


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


@pytest.mark.parametrize(
    "query",
    [
        "select cast(note as integer) as number from visits",
        "select ward, cast(error(note) as varchar) as said from visits",
        "select strptime(note, '%d') as day from visits",
        "select ward from visits where cast(note as date) > '2020-01-01'",
    ],
)
def test_duckdb_quotes_no_value_of_a_row_that_it_fails_at(visits, query, capsys):
    with contextlib.closing(duckdb.connect(visits)) as connection, pytest.raises(duckdb.Error, match=SECRET):
        connection.sql(query).fetchall()
    assert run(["fit", visits, "--query", query, "--discover", "--epsilon", "1", "--out", "release"]) == 2
    said = capsys.readouterr().err
    assert "error[E-INPUT]: visits.duckdb: a row has a value that the query cannot convert or compute with" in said
    assert SECRET not in said
    with pytest.raises(InputError, match="a row has a value"):
        dpgm.read_records(visits, discover=True, query=query)


def test_an_error_of_the_disk_without_a_reason_repeats_nothing(folder, monkeypatch, capsys):
    def fails(*_, **__):
        raise OSError(f"Conversion Error: {SECRET}")

    path = as_sqlite(people(30), folder)
    monkeypatch.setattr("dpgm.data.formats.database._query", fails)
    assert run(["inspect", str(path)]) == 2
    said = capsys.readouterr().err
    assert "E-DISK" in said
    assert SECRET not in said


def test_a_query_of_duckdb_reads_no_other_file(folder):
    path = as_duckdb(people(30), folder)
    as_parquet(people(30), folder)
    (folder / "x.csv").write_text("age\n5\n")
    for query in ("select * from 'people.parquet'", "select * from read_csv('x.csv')", "select * from 'x.csv'"):
        with pytest.raises(InputError, match="other files"):
            dpgm.read_records(path, domain="people.yaml", query=query)


def test_a_file_that_this_program_has_open_is_read_through_that_connection(folder):
    path = as_duckdb(people(30), folder)
    with contextlib.closing(duckdb.connect(str(path))) as connection:
        with pytest.raises(InputError, match="give that connection"):
            dpgm.read_records(path, domain="people.yaml")
        assert len(dpgm.read_records(connection, domain="people.yaml")) == 30


def test_a_variable_of_python_is_no_table(folder):
    path = as_duckdb(people(30), folder)
    given = people(5)
    with pytest.raises(InputError, match="given"):
        dpgm.read_records(path, domain="people.yaml", query="select * from given")
    assert given.num_rows == 5


# -- PostgreSQL: a server, and credentials ------------------------------------------------------------------------


def test_types_of_postgresql_are_read(folder, server):
    with (
        contextlib.closing(dbapi.connect(server.url_with_password)) as connection,
        contextlib.closing(connection.cursor()) as cursor,
    ):
        cursor.execute("DROP TABLE IF EXISTS odd")
        cursor.execute("DROP TYPE IF EXISTS size")
        cursor.execute("CREATE TYPE size AS ENUM ('small', 'large')")
        cursor.execute(
            "CREATE TABLE odd (size size, code char(4), price money, items text[], id uuid, doses numeric[], sizes size[],"
            " place inet, told json, at timestamptz)"
        )
        cursor.execute(
            "INSERT INTO odd VALUES ('small', 'a', 2.25, '{milk,bread}', gen_random_uuid(), '{0.5,2}', '{small}', '::1',"
            " '{}', '2020-01-01 00:00+02')"
        )
        connection.commit()
    stream = open_files([locate(server.url_with_password)], ReadOptions(table="odd"))
    (chunk,) = stream.read(dict.fromkeys(stream.names, TEXTS))
    (row,) = chunk.table.to_pylist()
    assert len(row.pop("id")) == 36
    assert row == {
        "size": "small",
        "code": "a",
        "price": 2.25,
        "items": ["milk", "bread"],
        "doses": [0.5, 2.0],
        "sizes": ["small"],
        "place": "::1/128",
        "told": "{}",
        "at": datetime.datetime(2019, 12, 31, 22, tzinfo=datetime.UTC),
    }


@pytest.mark.parametrize(
    "query",
    [
        "with added as (insert into people (age) values (1) returning age) select * from added",
        "select set_config('transaction_read_only', 'off', true) as off, age from people",
        "select nextval('numbers') as next",
    ],
)
def test_a_transaction_may_only_read(folder, server, query):
    url = as_postgres(people(30), server)
    with contextlib.closing(dbapi.connect(url)) as connection, contextlib.closing(connection.cursor()) as cursor:
        cursor.execute("CREATE SEQUENCE IF NOT EXISTS numbers")
        connection.commit()
    with pytest.raises(InputError, match="the query"):
        dpgm.read_records(url, discover=True, query=query)
    assert len(dpgm.read_records(url, domain="people.yaml", table="people")) == 30


@pytest.mark.parametrize(
    "address",
    [
        f"host=db user=ann password={SECRET} dbname=people",
        f"dbname=people password = 'a {SECRET}'",
        f"postgresql://ann:a {SECRET}@db/people",
        f"postgresql:/ann:a {SECRET}@db/people",
        f"mysql://ann:a@ {SECRET}@db/people",
        f"s3://ann:a {SECRET}@db/people.csv",
    ],
)
def test_an_address_that_is_not_read_repeats_no_password(folder, address, capsys):
    for read in (dpgm.read_records, dpgm.inspect_file):
        with pytest.raises(DpgmError) as refused:
            read(address)
        assert SECRET not in str(refused.value)
    assert run(["fit", address, "--discover", "--epsilon", "1", "--out", "release"]) == 2
    assert SECRET not in "".join(capsys.readouterr())


def test_whoever_may_connect_is_found_in_the_environment_and_in_pgpass(folder, server, monkeypatch):
    as_postgres(people(30), server)
    how = {"domain": "people.yaml", "table": "people"}
    monkeypatch.setenv("PGPASSFILE", str(folder / "none"))
    with pytest.raises(InputError, match=r"refuses the user name or password; give it in PGPASSWORD or ~/\.pgpass"):
        dpgm.read_records(server.url, **how)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert len(dpgm.read_records(server.url, **how)) == 30
    monkeypatch.delenv("PGPASSWORD")
    (folder / "pgpass").write_text(f"*:*:*:*:{PASSWORD}\n")
    (folder / "pgpass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(folder / "pgpass"))
    assert len(dpgm.read_records(server.url, **how)) == 30


FAULTS = {
    "wrong password": ("select * from people", "wr0ng-", "refuses the user name or password"),
    "no such database": ("select * from people", "/nowhere?", "no such database"),
    "dropped connection": (
        "select *, case when ctid > '(1,1)' then pg_terminate_backend(pg_backend_pid()) end from people",
        "",
        "the connection was lost",
    ),
    "a row breaks the schema": (
        "select age, cast(sex as integer) as sex, income, day, seen, insured from people",
        "",
        "fails at a row",
    ),
    "a row breaks the domain": (
        "select 'NaN'::float8 as age, sex, income, day, seen, insured from people",
        "",
        "row 1, column 'age'",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_sentence_without_credentials_and_spends_nothing(folder, server, name, capsys):
    query, change, said = FAULTS[name]
    url = as_postgres(people(300), server)
    url = url.replace("/people?", change) if "/" in change else url.replace("curator:", f"curator:{change}")
    assert run(["ledger", "create", "l.ledger", "--epsilon", "5", "--delta", "1e-5"]) == 0
    before = (folder / "l.ledger").read_bytes()
    capsys.readouterr()
    words = ["--domain", "people.yaml", "--epsilon", "1", "--ledger", "l.ledger", "--out", "release"]
    assert run(["--debug", "fit", url, "--query", query, *words]) == 2
    shown = "".join(capsys.readouterr())
    lines = [line for line in shown.splitlines() if line.startswith("dpgm: error")]
    assert len(lines) == 1
    assert said in lines[0]
    assert lines[0].count(". ") == 0
    assert leaks(shown) == []
    assert (folder / "l.ledger").read_bytes() == before
    assert not (folder / "release").exists()


def leaks(text):
    """The lines that hold a credential."""
    return [line for line in text.splitlines() if "mark5er" in line or PASSWORD in line]


def test_no_file_and_no_output_holds_a_credential(folder, server, capsys):
    url = as_postgres(people(), server)
    plan = ["plan", "--domain", "people.yaml", "--records", "400", "--epsilon", "1", "--out", "plan.json"]
    read = [url, "--table", "people", "--domain", "people.yaml"]
    for words in (
        plan,
        ["inspect", url, "--table", "people", "--draft-domain", "draft.yaml"],
        ["fit", *read, "--epsilon", "1", "--out", "release", "--checkpoint", "kept", "--events", "events.jsonl"],
        ["sample", "release", "--records", "50", "--out", "sample.csv"],
        ["evaluate", *read, "sample.csv", "--release", "release", "--out", "report.html", "--json", "report.json"],
        ["evaluate", "sample.csv", f"{url}::people", "--domain", "people.yaml", "--out", "other.html"],
        ["keys", "create", "curator", "--seal"],
        ["measure", *read, "--plan", "plan.json", "--part", "1/2", "--key", "curator.pub", "--out", "1.sums"],
        ["explain", "release"],
        ["describe", "release", "--form", "croissant", "--data", "sample.csv", "--out", "c.json"],
    ):
        assert run(words) == 0, words[0]
    for words in (
        ["fit", "release", url],
        ["fit", url, url],
        ["fit", url.replace("@", "#@"), "--epsilon", "1", "--out", "r"],
        [
            "fit",
            url,
            "--domain",
            "people.yaml",
            "--epsilon",
            "1",
            "--table",
            "people",
            "--memory",
            "300MB",
            "--out",
            "r",
        ],
        ["fit", *read, "--epsilon", "1", "--out", "r", "--shape", "long"],
        ["verify", url],
        ["fit", url, "--member", "nothing", "--discover", "--epsilon", "1", "--out", "r2"],
    ):
        run(["--debug", *words])
    assert leaks("".join(capsys.readouterr())) == []
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert len(written) > 15
    for path in written:
        assert leaks(path.read_bytes().decode("latin-1")) == [], path


def test_several_processes_do_not_read_a_server(folder, server, monkeypatch):
    url = as_postgres(people(30), server)
    monkeypatch.setattr(joint.parallel, "is_parallel", lambda: True)
    monkeypatch.setattr(joint, "all_or_none", contextlib.nullcontext)
    with pytest.raises(UsageError, match="other rows"), joint.reading_together(url, ReadOptions(), {}):
        pass


# -- connections and Arrow streams --------------------------------------------------------------------------------


@pytest.fixture
def connected(stored):
    """Connects to people in a database of a kind."""
    with contextlib.ExitStack() as stack:

        def connect(kind, table):
            connects = {"sqlite": sqlite3.connect, "duckdb": duckdb.connect, "postgresql": dbapi.connect}
            return stack.enter_context(contextlib.closing(connects[kind](str(stored(kind, table)))))

        yield connect


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_is_read_like_the_database_and_stays_open(folder, connected, kind):
    table = people()
    expected = dpgm.read_records(as_parquet(table, folder), domain="people.yaml")
    connection = connected(kind, table)
    for _ in range(2):
        assert dpgm.read_records(connection, domain="people.yaml", query="select * from people") == expected
    assert dpgm.inspect_file(connection, table="people").records == 400
    assert dpgm.read_source(connection, table="people", discover=True)[0].domain.origin == "judged"
    with pytest.raises(InputError, match="cannot be run"):
        dpgm.read_records(connection, query="select nothing from people", discover=True)


@pytest.mark.parametrize("kind", ONE_QUICKLY)
def test_a_fit_through_a_connection_is_that_of_the_file(folder, connected, kind):
    connection, parquet = connected(kind, people()), as_parquet(people(), folder)
    fits = [
        dpgm.Synthesizer(1, domain="people.yaml", randomness=SeededRandomness(1)).fit(data, **how)
        for data, how in ((connection, {"query": "select * from people"}), (parquet, {}))
    ]
    assert fits[0].sample(50, seed=1) == fits[1].sample(50, seed=1)
    assert [VOUCHED in fit.certificate_.statements for fit in fits] == [True, False]


def test_a_connection_that_was_told_how_to_give_rows_gives_the_same(folder, connected):
    table = people()
    path = as_sqlite(table, folder)
    expected = dpgm.read_records(path, domain="people.yaml")
    with contextlib.closing(sqlite3.connect(path, detect_types=sqlite3.PARSE_DECLTYPES)) as connection:
        connection.row_factory = sqlite3.Row
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the converters, in newer versions of Python
            assert dpgm.read_records(connection, domain="people.yaml") == expected
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table t (age integer)")
        connection.execute("insert into t values (5), (95)")
        domain = {"fields": [{"name": "age", "kind": "numeric", "low": 0, "high": 100, "bins": 10}]}
        assert lists(dpgm.read_records(connection, domain=domain)) == [[0], [9]]


def test_a_connection_of_another_kind_gets_a_sentence_that_helps():
    class Connection:
        pass

    Connection.__module__ = "sqlalchemy.engine.base"
    for read in (dpgm.read_records, dpgm.Synthesizer(1).fit, dpgm.inspect_file):
        with pytest.raises(UsageError, match=r"give the address.*pandas\.read_sql"):
            read(Connection())


class ArrowStream:
    """What libraries such as Ibis give: an object that has nothing but an Arrow stream."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def arrow_streams(table, folder):
    relation = duckdb.connect(str(as_duckdb(table, folder))).sql("select * from people")
    dataset = pyarrow.dataset.dataset(as_parquet(table, folder))
    return {
        "duckdb relation": lambda: relation,
        "polars lazy frame": lambda: polars.from_arrow(table).lazy(),
        "pyarrow dataset": lambda: dataset,
        "pyarrow scanner": lambda: dataset.scanner(batch_size=37),
        "pyarrow reader": lambda: table.to_reader(37),
        "arrow stream": lambda: ArrowStream(table),
        "arrow stream with categories": lambda: ArrowStream(
            table.set_column(1, "sex", table.column("sex").dictionary_encode())
        ),
    }


def test_whatever_gives_an_arrow_stream_is_read_as_the_table(folder):
    table = people()
    expected = read_frame(table, "people.yaml").records
    found = read_frame(table, discover=True).records.domain
    for name, given in arrow_streams(table, folder).items():
        assert read_frame(given(), "people.yaml").records == expected, name
        assert dpgm.as_records(given(), "people.yaml") == expected, name
        assert read_frame(given(), discover=True).records.domain == found, name
        assert dpgm.Domain.draft(given()) == dpgm.Domain.draft(table), name


@pytest.mark.slow
def test_fits_and_comparisons_of_an_arrow_stream_are_those_of_the_table(folder):
    table = people()
    fits = [
        dpgm.Synthesizer(1, domain="people.yaml", randomness=SeededRandomness(1)).fit(data)
        for data in (table, ArrowStream(table))
    ]
    assert fits[0].sample(50, seed=1) == fits[1].sample(50, seed=1)
    for domain in ("people.yaml", None):
        compared, plain = (
            inputs_of(table.to_reader(37), table, domain=domain),
            inputs_of(table, table, domain=domain),
        )
        assert (compared.real, compared.synthetic) == (plain.real, plain.synthetic)


def test_a_stream_that_breaks_off_is_one_sentence(folder):
    def batches():
        yield from people(30).to_batches()
        raise ValueError(SECRET)

    schema = people(30).schema
    with pytest.raises(InputError, match="cannot be read to its end") as refused:
        read_frame(pa.RecordBatchReader.from_batches(schema, batches()), "people.yaml")
    assert SECRET not in str(refused.value)


def test_row_numbers_of_a_stream_go_on_from_batch_to_batch():
    table = pa.table({"age": [5.0] * 40 + [float("nan")]})
    domain = {"fields": [{"name": "age", "kind": "numeric", "low": 0, "high": 100, "bins": 10}]}
    with pytest.raises(InputError, match="row 41, column 'age'"):
        read_frame(table.to_reader(7), domain)


# -- samples into tables ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A release of people, and a release of baskets."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "people.yaml").write_text(DOMAIN)
    dpgm.Synthesizer(1, domain=folder / "people.yaml").fit(as_parquet(people(), folder)).save(folder / "release")
    baskets = dpgm.Records.from_lists(
        [[0, 1], [], [2]] * 100, dpgm.Domain.of_items(["milk", "a, b", 'the "old" jam'])
    )
    dpgm.Synthesizer(1).fit(baskets).save(folder / "baskets")
    return folder


def outputs(request, kind):
    """Where to write, and where to read, a table of a database."""
    if kind != "postgresql":
        return {"sqlite": "sqlite:///synthetic.data", "duckdb": "synthetic.duckdb"}[kind]
    server = request.getfixturevalue("server")
    with contextlib.closing(dbapi.connect(server.url_with_password)) as connection:
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute("DROP TABLE IF EXISTS synthetic, baskets")
        connection.commit()
    return server.url_with_password


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_goes_into_a_table_and_is_read_back(folder, made, request, kind, capsys):
    out = outputs(request, kind)
    words = ["sample", str(made / "release"), "--records", "300", "--seed", "5"]
    assert run([*words, "--out", "synthetic.parquet"]) == 0
    assert run([*words, "--out", out, "--table", "synthetic"]) == 0
    assert "300 synthetic records written to" in capsys.readouterr().err
    table = {"domain": made / "people.yaml"}
    assert dpgm.read_records(f"{out}::synthetic", **table) == dpgm.read_records("synthetic.parquet", **table)
    compared = file_inputs(as_parquet(people(), folder), f"{out}::synthetic", ReadOptions(**table))
    assert len(compared.synthetic) == 300
    assert run([*words, "--out", out, "--table", "synthetic", "--force"]) == 2
    said = capsys.readouterr().err
    assert "none is replaced" in said
    assert leaks(said) == []


@pytest.mark.parametrize("kind", KINDS)
def test_baskets_go_into_a_table_and_are_read_back(folder, made, request, kind):
    out = outputs(request, kind)
    drawn = dpgm.load(made / "baskets").sample(200, seed=1)
    drawn.write(f"{out}::baskets")
    assert len(drawn.domain.item_set.labels) == 3
    found = file_inputs(as_written(drawn, folder), f"{out}::baskets", ReadOptions(domain=drawn.domain))
    assert found.real == found.synthetic == drawn


def as_written(records, folder):
    records.write(folder / "baskets.parquet")
    return folder / "baskets.parquet"


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_that_stops_leaves_no_table(folder, made, request, kind):
    out = outputs(request, kind)
    drawn = dpgm.load(made / "release").sample(50, seed=1)

    def stopped():
        with dpgm.RecordWriter(f"{out}::synthetic", drawn.domain) as writer:
            writer.write(drawn)
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        stopped()
    if kind == "postgresql":
        with pytest.raises(UsageError, match="no table 'synthetic'"):
            dpgm.read_records(out, table="synthetic", discover=True)
    else:
        assert list(folder.glob("synthetic*")) == []
    drawn.write(f"{out}::synthetic")
    assert len(dpgm.read_records(f"{out}::synthetic", domain="people.yaml")) == 50


def test_a_table_needs_a_name_and_a_database(folder, made, capsys):
    words = ["sample", str(made / "release"), "--records", "30"]
    for more, said in (
        (["--out", "x.db"], "say what the table is called: `x.db::people`, or --table"),
        (["--out", "x.csv", "--table", "people"], "is no database; leave out the --table"),
        (["--out", "s3://bucket/x.csv"], "nothing is written to such addresses"),
        (["--out", "x.db", "--table", "people", "--persons", "y.csv"], "--persons is for files"),
    ):
        assert run([*words, *more]) == 2
        assert said in capsys.readouterr().err
    assert {one.name for one in folder.iterdir()} == {"people.yaml"}
    (folder / "y.db").write_bytes(b"no database" * 200)
    assert run([*words, "--out", "y.db", "--table", "people"]) == 2
    assert "is no SQLite database" in capsys.readouterr().err
    assert (folder / "y.db").exists()
