"""Mechanisms run with torch and numpy alone, as on a bare GPU machine."""

import subprocess
import sys

PROGRAM = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"numba", "scipy", "cryptography", "dp_accounting", "pyarrow", "pydantic"}:
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import torch
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.norm_bound import norm_edges, norm_query
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import SystemRandomness
source = SystemRandomness()
gateway = Gateway(Records.from_lists([[0]] * 50, Domain.of_items(1)), randomness=source)
with gateway.poisson("step", 0.5):
    gateway.release("norms", norm_query(lambda view: view.rows.lengths, norm_edges()), 2.0)
    gateway.release("sums", Query(lambda view: torch.zeros(100), 1.0, (100,)), 1.0)
print(*source.names_used)
"""


def test_mechanisms_run_without_the_optional_packages():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Philox4x64-10")
