"""SIGKILL at random moments of a real fit in a child process, then resume: it always ends in a sound release."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

import dpgm
from dpgm.privacy.ledger import Ledger
from synthesis_data import SETS, some_records

pytestmark = pytest.mark.slow


def _command(folder, *more):
    return [
        sys.executable,
        "-m",
        "dpgm",
        "fit",
        str(folder / "visits.npz"),
        "--epsilon",
        "1",
        "--plan",
        str(folder / "plan.json"),
        "--checkpoint",
        str(folder / "checkpoint"),
        "--ledger",
        str(folder / "ledger"),
        "--out",
        str(folder / "release"),
        *more,
    ]


def test_a_fit_killed_at_20_random_moments_always_ends_in_a_verified_release(tmp_path):
    import json

    from dpgm.data.domain import Domain
    from dpgm.strategy.settings import Config
    from dpgm.synthesis.plan import make_plan

    some_records(SETS, 2000).write(tmp_path / "visits.npz")
    plan = make_plan(Config(1.0, model="vae", clusters=3), 2000, Domain.of_items(12))
    (tmp_path / "plan.json").write_text(json.dumps(plan.to_json()))
    Ledger.create(tmp_path / "ledger", epsilon_cap=1.01, delta=plan.delta)
    rng = random.Random(1)
    kills, runs = 0, 0
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    while not (tmp_path / "release").exists():
        runs += 1
        assert runs < 60, "the fit never ends"
        more = ["--resume"] if (tmp_path / "checkpoint" / "checkpoint.json").exists() else []
        journal = tmp_path / "checkpoint" / "journal.jsonl"
        before = journal.stat().st_size if journal.exists() else 0
        with (tmp_path / "told").open("w") as told:
            child = subprocess.Popen(_command(tmp_path, *more), env=environment, stderr=told)
            if kills < 20:
                # Start-up takes a while; wait until work has begun, so that kills fall into it.
                while child.poll() is None and (not journal.exists() or journal.stat().st_size == before):
                    time.sleep(0.005)
                time.sleep(rng.uniform(0.0, 0.15))  # longer, and the fit ends before the last kill
                child.send_signal(signal.SIGKILL)
                kills += child.wait() == -signal.SIGKILL
            else:
                assert child.wait(timeout=600) == 0, (tmp_path / "told").read_text()
    assert kills == 20
    verification = dpgm.verify(tmp_path / "release")
    assert verification.ok, verification.failed
    assert verification.certificate.epsilon <= 1.0
    assert {m.name: m.count for m in verification.certificate.mechanisms} == {
        m.name: m.count for m in plan.mechanisms
    }
    assert [entry.state for entry in Ledger.open(tmp_path / "ledger").entries()] == ["committed"]
    assert not list(tmp_path.glob("*.tmp-*"))


def test_two_fits_at_once_cannot_overspend_one_ledger(tmp_path):
    some_records(SETS, 500).write(tmp_path / "visits.npz")
    Ledger.create(tmp_path / "ledger", epsilon_cap=1.2, delta=1e-5)
    base = [sys.executable, "-m", "dpgm", "fit", str(tmp_path / "visits.npz"), "--epsilon", "1", "--delta", "1e-5"]
    children = [
        subprocess.Popen([*base, "--ledger", str(tmp_path / "ledger"), "--out", str(tmp_path / f"r{i}")])
        for i in range(2)
    ]
    codes = sorted(child.wait(timeout=600) for child in children)
    assert codes == [0, 2]
    assert sum((tmp_path / f"r{i}").exists() for i in range(2)) == 1
