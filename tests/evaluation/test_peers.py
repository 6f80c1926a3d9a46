"""The adapters for peers: what is absent is skipped with a message, what they draw becomes records again."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
DATA = Path(os.environ.get("DPGM_DATA", "/work/shared/data"))


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import peers

    return peers


def test_tables_survive_coding(peers):
    from peers_data import from_codes

    from dpgm.data.domain import Categorical, Domain

    domain = Domain((Categorical("a", ("x", "y", "z")), Categorical("b", (0, 1))))
    codes = np.array([[0, 1], [2, 0], [1, 1]])
    table, sizes = peers.coded(from_codes(codes, domain))
    assert np.array_equal(table, codes)
    assert sizes.tolist() == [3, 2]


def test_sets_become_columns_of_zeros_and_ones(peers):
    from dpgm.data.domain import Domain
    from dpgm.data.records import Records

    table, sizes = peers.coded(Records.from_lists([[0, 2], [1]], Domain.of_items(3)))
    assert table.tolist() == [[1, 0, 1], [0, 1, 0]]
    assert sizes.tolist() == [2, 2, 2]


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the public data sets are not on this machine (set DPGM_DATA)")
def test_absent_peers_are_skipped_with_a_message(tmp_path):
    environment = {key: value for key, value in os.environ.items() if key != "DPGM_PEERS_PYTHON"}
    command = [sys.executable, str(BENCHMARKS / "peers.py"), "--quick", "--json", str(tmp_path / "rows.json")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "mst skipped: set DPGM_PEERS_PYTHON" in done.stdout
    assert "nltcs independent pop1=" in done.stdout
