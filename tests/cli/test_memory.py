"""`fit --memory`: rows beyond the limit stay on the disk, and the release is the same."""

import json
import os
import re
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpgm.data.domain import Domain, ItemSet
from dpgm.data.domain_file import save_domain
from dpgm.data.records import Records

ITEMS, HELD = 30, 24
DOMAIN = Domain((ItemSet("items", tuple(range(ITEMS))),))

# Everything is loaded and has run once; from there on the process may take `allowed` bytes more.
CHILD = """
import re, resource, sys
from pathlib import Path
from dpgm.cli.app import load_commands, run
load_commands()
here, model, allowed, *more = sys.argv[1:]
def fit(data, out, *more):
    assert run(["fit", f"{here}/{data}", "--domain", f"{here}/domain.yaml", "--epsilon", "1", "--out", f"{here}/{out}",
                 "--seed", "3", "--model", model, "--quiet", "--device", "cpu", *more]) == 0
fit("small.parquet", "small", "--force")
if int(allowed):
    taken = int(re.search(r"VmData:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (taken + int(allowed),) * 2)
fit("large.parquet", "large" + allowed, *more)
"""


def write(path, rows):
    """Records that hold consecutive items, from a random first one."""
    draws = np.random.default_rng(0)
    kind = pa.list_(pa.int16())
    with pq.ParquetWriter(path, pa.schema([("items", kind)]), use_dictionary=False) as file:
        for start in range(0, rows, 20_000):
            size = min(20_000, rows - start)
            items = (draws.integers(0, ITEMS, (size, 1)) + np.arange(HELD)) % ITEMS
            ends = pa.array(np.arange(size + 1) * HELD, pa.int32())
            file.write_table(pa.table({"items": pa.ListArray.from_arrays(ends, items.ravel().astype(np.int16))}))


def child(here, model, allowed, *more):
    around = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    around |= {"ARROW_DEFAULT_MEMORY_POOL": "system"}  # allocates no more than requested
    started = [sys.executable, "-c", CHILD, str(here), model, str(allowed), *more]
    return subprocess.run(started, env=around, capture_output=True, text=True, timeout=500)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on private memory")
@pytest.mark.parametrize(
    ("model", "rows", "allowed"),
    [("independent", 900_000, 48 << 20), pytest.param("products", 1_500_000, 70 << 20, marks=pytest.mark.slow)],
)
def test_data_larger_than_the_memory_allowed(tmp_path, model, rows, allowed):
    save_domain(DOMAIN, tmp_path / "domain.yaml")
    write(tmp_path / "small.parquet", 2000)
    write(tmp_path / "large.parquet", rows)
    assert rows * (2 * HELD + 8) > allowed
    refused = child(tmp_path, model, allowed)
    assert refused.returncode != 0
    assert not (tmp_path / f"large{allowed}").exists()
    limited = child(tmp_path, model, allowed, "--memory", "340MB" if model == "independent" else "440MB")
    assert limited.returncode == 0, limited.stderr
    free = child(tmp_path, model, 0)
    assert free.returncode == 0, free.stderr
    for file in ("model.safetensors", "certificate.json"):
        assert (tmp_path / f"large{allowed}" / file).read_bytes() == (tmp_path / "large0" / file).read_bytes()


def test_the_release_is_the_same_bit_for_bit(tmp_path, monkeypatch):
    from dpgm.cli.app import run

    save_domain(DOMAIN, tmp_path / "domain.yaml")
    Records.from_dense(np.random.default_rng(5).random((3000, ITEMS)) < 0.2, DOMAIN).write(tmp_path / "a.parquet")
    monkeypatch.setattr("dpgm.data.read.options.rows_share", lambda memory: 2000)
    outs = [tmp_path / "plain", tmp_path / "limited"]
    for out, more in zip(outs, ([], ["--memory", "1GB"]), strict=True):
        plain = ["fit", str(tmp_path / "a.parquet"), "--domain", str(tmp_path / "domain.yaml"), "--epsilon", "1"]
        assert run([*plain, "--out", str(out), "--seed", "3", "--quiet", *more]) == 0
    assert (outs[0] / "model.safetensors").read_bytes() == (outs[1] / "model.safetensors").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a.parquet", "domain.yaml", "limited", "plain"]


# -- every format within a hard limit --------------------------------------------------------------------------------

ROWS, ALLOWED = 400_000, 110 << 20
NUMBERS = "fields:\n" + "".join(
    f"- {{name: {name}, kind: numeric, low: discover, high: discover, decimals: 2}}\n" for name in "abcdef"
)
READ = {
    "table.parquet": ["--discover"],
    "table.csv": ["--domain", "numbers.yaml"],
    "table.jsonl": ["--domain", "numbers.yaml"],
    "table.json": ["--domain", "numbers.yaml"],
    "lists.parquet": ["--discover"],
    "baskets.csv": ["--shape", "basket", "--discover"],
    "wide.csv": ["--shape", "wide", "--header"],
    "long.parquet": ["--person", "who", "--item", "what", "--assume-public-items"],
    "long.csv": ["--person", "who", "--item", "what", "--assume-public-items"],
    "persons.parquet": ["--discover", "--person", "who"],
    "some_rows.parquet": ["--discover", "--person", "who", "--rows-per-person", "1"],
    "matrix.npy": [],
}

# All formats in one process, because it takes long to start: a line of the name and the exit status of each.
FORMATS = """
import json, re, resource, sys
from pathlib import Path
from dpgm.cli.app import load_commands, run
load_commands()
here, allowed, formats = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
def fit(data, options, *more):
    out = f"{here}/out-{data}"
    return run(["fit", f"{here}/{data}", *options, "--epsilon", "1", "--out", out, "--seed", "3", "--force",
                "--model", "independent", "--quiet", "--device", "cpu", *more])
for data, options in formats.items():
    fit("small-" + data, options)
taken = int(re.search(r"VmData:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) << 10
resource.setrlimit(resource.RLIMIT_DATA, (taken + allowed,) * 2)
for data, options in formats.items():
    print(data, fit(data, options, "--memory", "301MB"), flush=True)
"""


def table(rows, draws):
    return pa.table({name: np.round(draws.lognormal(5, 1, rows), 2) for name in "abcdef"})


def write_formats(here, rows, prefix=""):
    """Every format, most of them with more bytes in memory than are allowed."""
    import pandas as pd
    import pyarrow.csv

    draws = np.random.default_rng(1)

    def name(file):
        return here / (prefix + file)

    numbers = table(rows, draws)
    pq.write_table(numbers, name("table.parquet"), row_group_size=100_000)
    pyarrow.csv.write_csv(numbers, name("table.csv"))
    numbers.to_pandas().to_json(name("table.jsonl"), orient="records", lines=True)
    numbers.to_pandas().to_json(name("table.json"), orient="records")
    who = pa.array([f"person {one}" for one in draws.permutation(rows)])
    pq.write_table(numbers.append_column("who", who), name("persons.parquet"))
    pq.write_table(
        numbers.append_column("who", who.take(pa.array(np.arange(rows) // 2))), name("some_rows.parquet")
    )
    items = draws.integers(0, 40, (rows, 12))
    ends = pa.array(np.arange(rows + 1) * 12, pa.int32())
    pq.write_table(pa.table({"items": pa.ListArray.from_arrays(ends, items.ravel())}), name("lists.parquet"))
    pd.DataFrame(items).to_csv(name("baskets.csv"), header=False, index=False)
    bits = (items < 20).astype(np.int8)
    pd.DataFrame(bits).rename(columns=lambda at: f"item {at}").to_csv(name("wide.csv"), index=False)
    rows_of = pa.array(draws.integers(0, rows // 2, 4 * rows))
    long = pa.table({"who": who.take(rows_of), "what": draws.integers(0, 40, 4 * rows)})
    pq.write_table(long, name("long.parquet"))
    pyarrow.csv.write_csv(long, name("long.csv"))
    np.save(name("matrix.npy"), np.tile(bits, (1, 6)))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """The exit status of a fit of every format, under the limit."""
    here = tmp_path_factory.mktemp("formats")
    (here / "numbers.yaml").write_text(NUMBERS)
    write_formats(here, ROWS)
    write_formats(here, 2000, "small-")
    around = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    around |= {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}  # allocate no more than requested
    started = [sys.executable, "-c", FORMATS, str(here), str(ALLOWED), json.dumps(READ)]
    ended = subprocess.run(started, env=around, cwd=here, capture_output=True, text=True, timeout=500)
    return dict(line.rsplit(" ", 1) for line in ended.stdout.splitlines()), ended.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on private memory")
@pytest.mark.parametrize("file", READ)
def test_every_format_stays_within_a_hard_limit(outcomes, file):
    statuses, told = outcomes
    assert statuses.get(file) == "0", told


def write_refused(here):
    import scipy.sparse

    bits = np.random.default_rng(2).random((4000, 100)) < 0.3
    np.savez_compressed(here / "matrix.npz", matrix=bits)
    scipy.sparse.save_npz(here / "sparse.npz", scipy.sparse.csr_array(bits.astype(np.int8)))
    (here / "images-idx3-ubyte").write_bytes(
        bytes((0, 0, 8, 3)) + struct.pack(">3I", 1000, 28, 28) + bytes(784_000)
    )
    with zipfile.ZipFile(here / "texts.xlsx", "w") as book:
        book.writestr("xl/sharedStrings.xml", b"<si><t>a text</t></si>" * 20_000)


@pytest.mark.parametrize(
    ("file", "advice", "options"),
    [
        ("matrix.npz", "Parquet", []),
        ("sparse.npz", "Parquet", []),
        ("images-idx3-ubyte", ".npy", []),
        ("texts.xlsx", "CSV", ["--header"]),
    ],
)
def test_formats_that_are_read_whole_are_refused_with_the_figure_needed(tmp_path, capsys, file, advice, options):
    from dpgm.cli.app import run

    write_refused(tmp_path)
    fit = ["fit", str(tmp_path / file), *options, "--epsilon", "1", "--out", str(tmp_path / "out"), "--quiet"]
    assert run([*fit, "--memory", "301MB"]) != 0
    told = capsys.readouterr().err
    assert re.search(r"takes about 30[1-9] MB and --memory allows 301 MB", told), told
    assert advice in told
    assert not (tmp_path / "out").exists()


def test_a_limit_below_what_the_process_takes_is_refused_before_reading(tmp_path, capsys):
    from dpgm.cli.app import run

    fit = ["fit", str(tmp_path / "absent.csv"), "--epsilon", "1", "--out", str(tmp_path / "out")]
    assert run([*fit, "--memory", "64MB"]) != 0
    assert "takes about 300 MB and --memory allows 64 MB" in capsys.readouterr().err


def test_a_fit_that_needs_more_than_the_limit_is_refused_before_it_is_charged(tmp_path, capsys):
    from dpgm.cli.app import run

    Records.from_dense(np.random.default_rng(5).random((300, ITEMS)) < 0.2, DOMAIN).write(tmp_path / "a.parquet")
    save_domain(DOMAIN, tmp_path / "domain.yaml")
    fit = ["fit", str(tmp_path / "a.parquet"), "--domain", str(tmp_path / "domain.yaml"), "--epsilon", "1"]
    assert run([*fit, "--out", str(tmp_path / "out"), "--memory", "310MB", "--model", "products"]) != 0
    assert re.search(r"needs about 3[89][0-9] MB and --memory allows 310 MB", capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


EVENTS = """
import re, resource, sys
from pathlib import Path
import dpgm
here, allowed, memory = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] or None
def read(file, memory):
    return dpgm.read_records(here / file, domain=here / "events.yaml", memory=memory, cache=here)
read("small.parquet", "301MB")
if allowed:
    taken = int(re.search(r"VmData:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (taken + allowed,) * 2)
records = read("events.parquet", memory)
import hashlib
print(hashlib.sha256(b"".join(memoryview(part).cast("B") for part in records.buffers())).hexdigest())
"""


def write_events(here, count, name):
    draws = np.random.default_rng(4)
    with pq.ParquetWriter(here / name, EVENT_ROWS) as file:
        for start in range(0, count, 200_000):
            size = min(200_000, count - start)
            who = draws.integers(0, max(count // 20, 1), size)
            when = pa.array(1709510400 + 60 * draws.integers(0, 7 * 1440, size)).cast(pa.timestamp("s"))
            columns = {"who": who, "what": draws.integers(0, 40, size), "when": when, "kind": who % 3}
            file.write_table(pa.table(columns, EVENT_ROWS))


EVENT_ROWS = pa.schema(
    [("who", pa.int64()), ("what", pa.int64()), ("when", pa.timestamp("s")), ("kind", pa.int64())]
)
EVENT_DOMAIN = """
fields:
- {name: kind, kind: categorical, values: [0, 1, 2]}
- {name: what, kind: sequence, items: [ITEMS], time: true, from: 2024-03-04, to: 2024-03-10}
layout: {shape: long, person: who, item: what, time: when}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on private memory")
def test_events_of_persons_stay_within_a_hard_limit(tmp_path):
    (tmp_path / "events.yaml").write_text(EVENT_DOMAIN.replace("ITEMS", ", ".join(map(str, range(40)))))
    write_events(tmp_path, 2000, "small.parquet")
    write_events(tmp_path, 2_000_000, "events.parquet")
    around = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    around |= {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}

    def read(allowed, memory):
        started = [sys.executable, "-c", EVENTS, str(tmp_path), str(allowed), memory]
        return subprocess.run(started, env=around, capture_output=True, text=True, timeout=500)

    refused, limited, free = read(60 << 20, ""), read(60 << 20, "310MB"), read(0, "")
    assert refused.returncode != 0
    assert limited.returncode == 0, limited.stderr
    assert limited.stdout == free.stdout != ""
