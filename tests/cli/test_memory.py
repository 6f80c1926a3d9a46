"""`fit --memory`: rows beyond the limit stay on the disk, and the release is the same."""

import os
import subprocess
import sys

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
    limited = child(tmp_path, model, allowed, "--memory", "20MB")
    assert limited.returncode == 0, limited.stderr
    free = child(tmp_path, model, 0)
    assert free.returncode == 0, free.stderr
    for file in ("model.safetensors", "certificate.json"):
        assert (tmp_path / f"large{allowed}" / file).read_bytes() == (tmp_path / "large0" / file).read_bytes()


def test_the_release_is_the_same_bit_for_bit(tmp_path):
    from dpgm.cli.app import run

    save_domain(DOMAIN, tmp_path / "domain.yaml")
    Records.from_dense(np.random.default_rng(5).random((3000, ITEMS)) < 0.2, DOMAIN).write(tmp_path / "a.parquet")
    outs = [tmp_path / "plain", tmp_path / "limited"]
    for out, more in zip(outs, ([], ["--memory", "8KB"]), strict=True):
        plain = ["fit", str(tmp_path / "a.parquet"), "--domain", str(tmp_path / "domain.yaml"), "--epsilon", "1"]
        assert run([*plain, "--out", str(out), "--seed", "3", "--quiet", *more]) == 0
    assert (outs[0] / "model.safetensors").read_bytes() == (outs[1] / "model.safetensors").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a.parquet", "domain.yaml", "limited", "plain"]
