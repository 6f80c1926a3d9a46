"""Every command and code block of the guides is run, at a small size, on files made here under the names the guides use.

README, quickstart and recipes make their own files (`test_readme_runs.py`); the tutorial runs on public data
(`test_tutorial.py`).
"""

import contextlib
import gzip
import os
import random
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import adbc_driver_postgresql.dbapi as dbapi
import duckdb
import pytest

import dpgm
from postgres_server import PASSWORD, PostgresServer, postgres_server
from public_data import DATA

SERVER = "postgresql://ann@db.example/clinic"
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
STEP = re.compile(
    r"^```(?P<kind>sh|python|yaml)\n(?P<text>.*?)^```$|^ {4}(?P<line>(?:dpgm|torchrun) [^\n]*)$",
    re.DOTALL | re.MULTILINE,
)
SMALLER = {"10000000": "200", "--nproc-per-node 4": "--nproc-per-node 2", "--processes 4": "--processes 2"}
ELSEWHERE = {
    "tutorial.md": "test_tutorial.py",
    "quickstart.md": "test_readme_runs.py",
    "contributing.md": "its blocks are test files, shown whole",
    "performance.md": "several machines over ssh and Slurm; one machine: cli/test_torchrun.py",
}
PUBLIC = {
    "train-images-idx3-ubyte.gz": "mnist",
    "train-labels-idx1-ubyte.gz": "mnist",
    "retail.csv.gz": "retail",
    "anonymous-msweb.data.gz": "msweb",
    "tw_ny/train.csv.gz": "repeat-consumption",
    "nltcs.train.data.gz": "debd/nltcs",
    "adult.data.gz": "adult",
    "adult.test.gz": "adult",
    "data-society-bank-marketing-data.zip": "bank-marketing",
}


# -- the files that guides speak of ------------------------------------------------------------------------------


def _dpgm(folder: Path, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "dpgm", *words], cwd=folder, check=True, capture_output=True, timeout=600)


def visits(folder: Path) -> None:
    """Simulated travellers as Parquet, their stations as domain files, a release and a sample."""
    _dpgm(
        folder,
        "simulate",
        "transit",
        "--records",
        "4000",
        "--out",
        "visits.parquet",
        "--domain-out",
        "stations.yaml",
    )
    (folder / "places.yaml").write_text((folder / "stations.yaml").read_text())


def two_places(folder: Path) -> None:
    """The travellers of two places, and the folder in which the curator collects parts."""
    visits(folder)
    records = dpgm.read_records(folder / "visits.parquet", domain=folder / "stations.yaml")
    records.rows(0, 1500).write(folder / "north.parquet")
    records.rows(1500, 4000).write(folder / "south.parquet")
    (folder / "parts").mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")


def clinic(folder: Path) -> None:
    """A clinic in every database, its domain, and a server in the place of the one that the page names."""
    draw = random.Random(0)
    wards = ["surgery", "children", "heart"]
    rows = [(draw.randint(0, 95), draw.choice(wards), draw.randint(1, 20)) for _ in range(400)]
    for path, connect in (("clinic.db", sqlite3.connect), ("clinic.duckdb", duckdb.connect)):
        with contextlib.closing(connect(str(folder / path))) as connection:
            connection.execute("CREATE TABLE patients (age INTEGER, ward VARCHAR(20), stay INTEGER)")
            connection.executemany("INSERT INTO patients VALUES (?, ?, ?)", rows)
            connection.commit()
    (folder / "clinic.yaml").write_text(
        "fields:\n"
        "- {name: age, kind: numeric, low: 0, high: 100, bins: 10, integer: true}\n"
        "- {name: ward, kind: categorical, values: [surgery, children, heart]}\n"
        "- {name: stay, kind: numeric, low: 0, high: 20, bins: 10, integer: true}\n"
    )


@pytest.fixture
def clinic_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresServer]:
    """A server with the patients; its password is in the environment."""
    with postgres_server() as server:
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        with contextlib.closing(duckdb.connect(str(tmp_path / "clinic.duckdb"), read_only=True)) as connection:
            rows = connection.sql("select * from patients").to_arrow_table()
        with contextlib.closing(dbapi.connect(server.url)) as connection:
            with contextlib.closing(connection.cursor()) as cursor:
                cursor.adbc_ingest("patients", rows)
            connection.commit()
        yield server


def visits_and_release(folder: Path) -> None:
    visits(folder)
    people(folder)
    _dpgm(folder, "fit", "visits.parquet", "--domain", "stations.yaml", "--epsilon", "1", "--out", "release")
    _dpgm(folder, "sample", "release", "--records", "300", "--out", "synthetic.parquet")
    (folder / "synthetic.csv").write_text((folder / "people.csv").read_text())


def long_visits(folder: Path) -> None:
    """One row per traveller and station, and baskets of one line each."""
    draw = random.Random(0)
    stations = ["north", "south", "harbour"]
    rows = [f"t{who},{draw.choice(stations)}" for who in range(200) for _ in range(2)]
    (folder / "visits.csv").write_text("traveller,station\n" + "\n".join(rows) + "\n")
    (folder / "baskets.csv").write_text("milk,bread\nmilk\nbread,jam\n" * 50)
    (folder / "stations.yaml").write_text(
        "fields: [{name: station, kind: items, items: [north, south, harbour]}]\n"
    )
    (folder / "products.yaml").write_text("fields: [{name: product, kind: items, items: [milk, bread, jam]}]\n")


def people(folder: Path) -> None:
    """A small table with the columns of the guide, and its domain."""
    draw = random.Random(0)
    lines = ["age,education,income,town,admitted,number"]
    for number in range(400):
        town = draw.choice(["Ulm", "Bonn"])
        day = f"20{draw.randint(15, 25)}-0{draw.randint(1, 9)}-1{draw.randint(0, 9)}"
        lines.append(
            f"{draw.randint(17, 90)},{draw.choice(['school', 'college'])},{draw.choice(['low', 'high'])},{town},{day},{number}"
        )
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    text = (DOCS / "guides" / "tables.md").read_text()
    (folder / "people.yaml").write_text(re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1])


def files_of_every_shape(folder: Path) -> None:
    """For the page of files and domains: what its Python blocks open."""
    visits(folder)
    (folder / "visits.csv").write_text("who,where\n1,north\n1,south\n2,north\n")
    (folder / "places.yaml").write_text("fields: [{name: where, kind: items, items: [north, south]}]\n")
    (folder / "shop.yaml").write_text("fields: [{name: sku, kind: items, items: [milk, bread]}]\n")
    for name in ("train", "validation", "test"):
        with gzip.open(folder / f"{name}.csv.gz", "wt") as file:
            file.write("1,milk,2\n2,bread,1\n2,milk,0\n")
    for name, place in PUBLIC.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(DATA / place / name)
    (folder / "examples").symlink_to(ROOT / "examples")


def table_with_rules(folder: Path) -> None:
    """A release of a table with the rules of the page."""
    text = (DOCS / "constraints.md").read_text()
    (folder / "rules.yaml").write_text(re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1])
    draw = random.Random(0)
    lines = ["age,married,net,tax,total,basket"]
    for _ in range(400):
        net, tax = draw.randint(200, 999), draw.randint(0, 199)
        pair = draw.choice([("never", '["milk"]'), ("once", '["milk","bread"]'), ("once", '["jam"]')])
        lines.append(
            f"{draw.randint(15, 100)},{pair[0]},{net},{tax},{net + tax},{pair[1].replace(chr(34), chr(34) * 2).join(chr(34) * 2)}"
        )
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    _dpgm(folder, "fit", "people.csv", "--domain", "rules.yaml", "--epsilon", "1", "--out", "release")


def digits(folder: Path) -> None:
    """Images of noise in the format of MNIST, as many of every label."""
    import struct

    draw = random.Random(0)
    with gzip.open(folder / "train-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">IIII", 2051, 3000, 28, 28) + draw.randbytes(3000 * 784))
    with gzip.open(folder / "train-labels-idx1-ubyte.gz", "wb") as file:
        file.write(struct.pack(">II", 2049, 3000) + bytes(at % 10 for at in range(3000)))


OPENED = 'import dpgm\nrelease = dpgm.load("release")\n'
FRAMES = """
import pandas as pd
import dpgm
df = pd.DataFrame({"age": [20, 70, 66, 31] * 50, "ward": ["a", "b", "b", "a"] * 50})
visits = pd.DataFrame({"user_id": [1, 1, 2] * 30, "sku": ["milk", "bread", "milk"] * 30})
domain = dpgm.Domain.of_items(["milk", "bread"])
import numpy as np
chunks = [dpgm.as_records(np.array([[0, 1], [1, 1]]), domain)]
"""
BOTH = (
    OPENED
    + """
import pandas as pd
df = pd.read_csv("people.csv")
synthetic_df = df.sample(frac=1, random_state=0)
real = dpgm.read_records("visits.parquet", domain="stations.yaml")
synthetic = dpgm.read_records("synthetic.parquet", domain="stations.yaml")
"""
)
PAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "constraints.md": (table_with_rules, OPENED),
    "domains.md": (files_of_every_shape, FRAMES),
    "files.md": (files_of_every_shape, FRAMES),
    "frames.md": (files_of_every_shape, FRAMES),
    "evaluation.md": (visits_and_release, BOTH),
    "guarantee.md": (visits, ""),
    "guides/budget.md": (visits, ""),
    "guides/databases.md": (clinic, "import sqlite3, duckdb, dpgm\n"),
    "guides/describing.md": (visits_and_release, ""),
    "guides/images.md": (digits, ""),
    "guides/questions.md": (people, ""),
    "guides/sets.md": (long_visits, ""),
    "guides/several-machines.md": (visits, ""),
    "guides/several-places.md": (two_places, ""),
    "guides/studio.md": (people, ""),
    "guides/tables.md": (people, ""),
    "how/mixture.md": (visits, ""),
}


# -- running them ------------------------------------------------------------------------------------------------


def steps(page: Path) -> list[tuple[str, str]]:
    """What a page shows, in order: (sh, python, yaml or line; text)."""
    text = page.read_text()
    for large, small in SMALLER.items():
        text = text.replace(large, small)
    return [(step["kind"] or "line", step["text"] or step["line"]) for step in STEP.finditer(text)]


def run_command(line: str, folder: Path) -> None:
    words = shlex.split(line, comments=True)
    if "--out" in words:  # pages show the same name twice
        made = folder / words[words.index("--out") + 1]
        if made.exists():
            made.rename(made.with_name(made.name + f".{len(list(folder.iterdir()))}"))
    if words[:2] == ["dpgm", "serve"]:
        return serve_once(words[2:], folder)
    programs = {"torchrun": ["-m", "torch.distributed.run"], "python": [], "dpgm": ["-m", "dpgm"]}
    words = [str(ROOT / word) if word.startswith("experiments/") else word for word in words]
    said = subprocess.run(
        [sys.executable, *programs[words[0]], *words[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert said.returncode == 0, f"{line}\n{said.stderr[-2000:]}"


def serve_once(words: list[str], folder: Path) -> None:
    """Start the studio, wait for its link, end it."""
    serving = [sys.executable, "-m", "dpgm", "serve", *words]
    with subprocess.Popen(serving, cwd=folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert "open http://127.0.0.1:" in server.stderr.readline()
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0


def test_every_page_with_commands_is_run_somewhere():
    for page in DOCS.rglob("*.md"):
        name = str(page.relative_to(DOCS))
        if name.startswith(("recipes/", "reference/")) or name in ELSEWHERE:
            continue
        assert not steps(page) or name in PAGES, f"{name}: say in PAGES what its commands need"
    assert all(steps(DOCS / name) for name in PAGES)


def test_contributing_shows_the_files_whole():
    text = (DOCS / "contributing.md").read_text()
    shown = re.findall(r'^--8<-- "(.+)"$', text, flags=re.MULTILINE)
    assert len(shown) == 6, "the marks of the snippets were changed, so the site would not show the files"
    assert all((ROOT / name).is_file() for name in shown)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_what_a_guide_shows_runs(name, tmp_path, request):
    prepare, opened = PAGES[name]
    prepare(tmp_path)
    script, server = opened, None
    if SERVER in (DOCS / name).read_text():
        server = request.getfixturevalue("clinic_server")
    for kind, text in steps(DOCS / name):
        if kind == "yaml":
            (tmp_path / "shown.yaml").write_text(text)
            assert dpgm.load_domain(tmp_path / "shown.yaml").fields
        elif kind == "python":
            script += text
        else:
            for line in text.replace("\\\n", " ").splitlines():
                made = set() if line.startswith("python") else {"msweb.dat"}  # by a script
                here = all((tmp_path / word).exists() for word in line.split() if word in {*PUBLIC, *made})
                if line and not line.startswith("#") and here:
                    run_command(line.replace(SERVER, f"'{server.url}'") if server else line, tmp_path)
    said = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=900,
    )
    assert said.returncode == 0, f"{name}: {said.stderr[-2000:]}"
