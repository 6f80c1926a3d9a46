"""Hive folders, and files at addresses: the records of the plain file; a sentence where anything is wrong."""

import contextlib
import shutil
import sys

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpgm
from database_data import DOMAIN, as_duckdb, as_sqlite, people
from dpgm.cli.app import load_commands, run
from dpgm.data.domain import Categorical, Domain, Numeric
from dpgm.data.formats import located
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.readers import open_files, read_share
from dpgm.data.values import TEXTS
from dpgm.errors import InputError, UsageError

load_commands()
SECRET = "s3cretkey"
FEW = Domain((Numeric("age", 0, 100, 10), Categorical("sex", ("f", "m"))))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.yaml").write_text(DOMAIN)
    return tmp_path


@pytest.fixture
def memory():
    """fsspec's file system in memory, empty."""
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def lake(table, folder, *names):
    """The table as Spark writes it: a folder for each value, which the files do not have as a column."""
    keys = [[str(one) if one is not None else None for one in table.column(name).to_pylist()] for name in names]
    rest = table.drop_columns(list(names))
    rows = []
    for values in sorted(set(zip(*keys, strict=True)), key=str):
        inside = [one == values for one in zip(*keys, strict=True)]
        place = folder
        for name, value in zip(names, values, strict=True):
            place = place / f"{name}={'__HIVE_DEFAULT_PARTITION__' if value is None else value.replace('/', '%2F')}"
        place.mkdir(parents=True)
        pq.write_table(rest.filter(pa.array(inside)), place / "part-0.parquet")
        rows.append(table.filter(pa.array(inside)))
    (folder / "_SUCCESS").touch()
    return pa.concat_tables(rows)  # in the order in which the folders are read


# -- Hive folders -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [["sex"], ["insured", "sex"]])
def test_a_hive_folder_gives_the_records_of_the_table(folder, names):
    table = people()
    ordered = lake(table, folder / "lake", *names)
    pq.write_table(ordered, "people.parquet")
    expected = dpgm.read_records("people.parquet", domain="people.yaml")
    assert dpgm.read_records("lake", domain="people.yaml") == expected
    assert dpgm.inspect_file("lake").records == 400
    assert run(["evaluate", "lake", "people.parquet", "--domain", "people.yaml", "--quiet"]) == 0


def test_shares_of_processes_together_are_the_hive_folder(folder):
    lake(people(), folder / "lake", "sex", "insured")
    options = ReadOptions(
        domain={"fields": [{"name": "sex", "kind": "categorical", "values": ["f", "m"], "missing": True}]}
    )
    whole = dpgm.read_records("lake", options)
    parts = [read_share("lake", options, share, 3)[0] for share in range(3)]
    assert sum(map(len, parts)) == len(whole) == 400
    assert [one for part in parts for one in part.indices.tolist()] == whole.indices.tolist()


def test_values_of_folders_are_texts_whatever_they_look_like(folder):
    table = pa.table({"year": ["2024", "2025"], "ward": ["ear/nose", None], "age": [1, 2]})
    lake(table, folder / "lake", "year", "ward")
    stream = open_files(located("lake"), ReadOptions())
    assert stream.schema.field("year").type == pa.string()
    rows = [row for chunk in stream.read(dict.fromkeys(stream.names, TEXTS)) for row in chunk.table.to_pylist()]
    assert rows == [{"age": 1, "year": "2024", "ward": "ear/nose"}, {"age": 2, "year": "2025", "ward": None}]


def test_hive_folders_with_other_columns_are_refused(folder):
    pq.write_table(people(30), folder / "top.parquet")
    lake(people(30), folder / "lake", "sex")
    (folder / "lake" / "sex=m" / "year=2024").mkdir()
    shutil.move("lake/sex=m/part-0.parquet", "lake/sex=m/year=2024/part-0.parquet")
    with pytest.raises(InputError, match="has other columns than"):
        dpgm.read_records("lake", domain="people.yaml")
    (folder / "twice" / "sex=f").mkdir(parents=True)
    shutil.copy("top.parquet", "twice/sex=f/part.parquet")
    with pytest.raises(InputError, match="'sex' is a column and the name of its folder"):
        dpgm.read_records("twice", domain="people.yaml")


# -- addresses ----------------------------------------------------------------------------------------------------


def put(files, address, path):
    files.pipe_file(address, path.read_bytes())


@pytest.mark.parametrize("name", ["few.parquet", "few.csv", "few.csv.gz", "few.jsonl", "few.xlsx"])
def test_a_file_at_an_address_is_read_as_the_file(folder, memory, name):
    dpgm.Records.from_lists([[0, 10], [5, 11]], FEW).write(name)
    put(memory, f"/bucket/{name}", folder / name)
    expected = dpgm.read_records(name, domain=FEW)
    assert len(expected) == 2
    for address in (f"memory://bucket/{name}", (folder / name).as_uri()):
        assert dpgm.read_records(address, domain=FEW) == expected


def test_databases_at_an_address_and_from_a_pipe_are_refused(folder, memory):
    table = people(30)
    put(memory, "/bucket/people.db", as_sqlite(table, folder))
    put(memory, "/bucket/people.duckdb", as_duckdb(table, folder))
    for address in (
        "memory://bucket/people.db",
        "memory://bucket/people.db::people",
        "memory://bucket/people.duckdb",
    ):
        with pytest.raises(InputError, match="databases are read from the disk; copy it here first"):
            dpgm.read_records(address, domain="people.yaml")


def test_folders_at_an_address_are_read_as_folders(folder, memory):
    pq.write_table(lake(people(), folder / "lake", "sex", "insured"), "people.parquet")
    expected = dpgm.read_records("people.parquet", domain="people.yaml")
    for path in sorted((folder / "lake").rglob("*")):
        if path.is_file():
            memory.pipe_file(f"/bucket/{path.relative_to(folder)}", path.read_bytes())
    for address in ("memory://bucket/lake", "memory://bucket/lake/", (folder / "lake").as_uri()):
        assert dpgm.read_records(address, domain="people.yaml") == expected


def test_every_command_takes_an_address(folder, memory, capsys):
    pq.write_table(people(), "people.parquet")
    put(memory, "/bucket/people.parquet", folder / "people.parquet")
    address, domain = "memory://bucket/people.parquet", ["--domain", "people.yaml"]
    plan = ["plan", *domain, "--records", "400", "--epsilon", "1", "--out", "plan.json"]
    for words in (
        ["inspect", address],
        ["fit", address, *domain, "--epsilon", "1", "--model", "independent", "--out", "release"],
        ["evaluate", address, address, *domain],
        plan,
        ["keys", "create", "curator", "--seal"],
        [
            "measure",
            address,
            *domain,
            "--plan",
            "plan.json",
            "--part",
            "1/2",
            "--key",
            "curator.pub",
            "--out",
            "1.sums",
        ],
    ):
        assert run(words) == 0, words
    assert "memory://bucket/people.parquet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("memory://bucket/none.parquet", "there is no such file"),
        ("memory://bucket/empty.parquet", "holds nothing"),
        ("memory://bucket/x.zip", "copy it here first"),
        ("memory://bucket/folder", "without .parquet files"),
        ("nothing://bucket/x.csv", "addresses of this kind are not read"),
        ("no thing://bucket/x.csv", "addresses of this kind are not read"),
        (f"broken://user:{SECRET}@bucket/x.csv?key={SECRET}", "cannot be read; check the address"),
    ],
)
def test_what_cannot_be_read_at_an_address_is_one_sentence_without_keys(folder, memory, address, said, monkeypatch):
    memory.pipe_file("/bucket/empty.parquet", b"")
    memory.pipe_file("/bucket/x.zip", b"PK")
    memory.pipe_file("/bucket/folder/x.txt", b"1")
    monkeypatch.setitem(sys.modules["fsspec.registry"]._registry, "broken", Broken)
    with pytest.raises((InputError, UsageError), match=said) as refused:
        dpgm.read_records(address, domain="people.yaml")
    assert str(refused.value).count(". ") == 0
    assert SECRET not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


class Broken(fsspec.AbstractFileSystem):
    """A service that says too much."""

    protocol = "broken"

    def info(self, path, **kwargs):
        raise ConnectionError(f"refused {path} with {SECRET}")


@pytest.mark.parametrize(("scheme", "driver"), [("s3", "s3fs"), ("gs", "gcsfs"), ("https", "aiohttp")])
def test_a_driver_that_is_missing_is_named(folder, monkeypatch, scheme, driver):
    monkeypatch.setitem(sys.modules, driver, None)
    for name in [one for one in sys.modules if one.startswith("fsspec.implementations.http")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys.modules["fsspec.registry"], "_registry", {})
    with pytest.raises(UsageError, match=rf"{scheme}:// addresses are read with a driver.*pip install {driver}"):
        dpgm.read_records(f"{scheme}://bucket/x.csv", domain="people.yaml")


def test_a_real_store_of_the_kind_of_s3(folder, monkeypatch):
    """Skipped where the driver and a server are not installed: both are larger than all else together."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    server = pytest.importorskip("moto.server", reason="moto is not installed").ThreadedMotoServer(
        port=0, verbose=False
    )
    server.start()
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", SECRET)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        files = fsspec.filesystem("s3")
        files.mkdir("clinic")
        pq.write_table(lake(people(), folder / "lake", "sex"), "people.parquet")
        files.put("people.parquet", "clinic/people.parquet")
        files.put("lake", "clinic/lake", recursive=True)
        expected = dpgm.read_records("people.parquet", domain="people.yaml")
        assert dpgm.read_records("s3://clinic/people.parquet", domain="people.yaml") == expected
        assert dpgm.read_records("s3://clinic/lake", domain="people.yaml") == expected
        with pytest.raises(InputError, match="no such file"):
            dpgm.read_records("s3://clinic/none.parquet", domain="people.yaml")
