"""A real fit in a child process, killed by SIGKILL at 20 moments and resumed, always ends in a valid release."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import dpgm
from dpgm.data.domain import Domain
from dpgm.networks.fitting import BLOCKS
from dpgm.privacy.ledger import Ledger
from dpgm.strategy.settings import Config
from dpgm.synthesis.plan import make_plan
from synthesis_data import SETS, some_records

pytestmark = pytest.mark.slow
KILLS = 20


def _fit(folder, *more):
    options = {"plan": "plan.json", "checkpoint": "checkpoint", "ledger": "ledger", "out": "release"}
    named = [part for option, name in options.items() for part in (f"--{option}", str(folder / name))]
    command = [sys.executable, "-m", "dpgm", "fit", str(folder / "visits.npz"), "--epsilon", "1", *named, *more]
    with (folder / "stderr").open("w") as stderr:
        return subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stderr=stderr)


class Journal:
    """The journal of a running fit, read from outside."""

    def __init__(self, folder, plan):
        self.header, self.path, self.plan = folder / "checkpoint.json", folder / "journal.jsonl", plan
        self.steps = plan.mechanism("gradients").count
        self.size, self.entries = 0, []

    def read(self):
        size = self.path.stat().st_size if self.path.exists() else 0
        if size != self.size:
            self.size, lines = size, self.path.read_bytes().split(b"\n")
            self.entries = [json.loads(line) for line in lines[:-1]]

    def charged(self, name):
        return sum(entry["runs"] for entry in self.entries if entry.get("charge") == name)

    def progress(self):
        """The share of the plan's runs that are charged; a block of steps counts as a run."""
        runs = {one.name: one.count for one in self.plan.mechanisms if one.sample is None}
        done = sum(self.charged(name) for name in runs) + BLOCKS * self.charged("step") / self.steps
        return done / (sum(runs.values()) + BLOCKS)

    def stage(self):
        """The mechanism that was charged last; `model` when all is done but the release."""
        if self.entries and "model" in self.entries[-1]:
            return "model"
        return next((entry["charge"] for entry in reversed(self.entries) if "charge" in entry), "start")

    def has_reached(self, kill):
        """Whether it is time for a kill: at the start, at equal shares of the plan, and twice after training."""
        self.read()
        if kill < KILLS - 2:
            return self.header.exists() and self.progress() >= kill / (KILLS - 2)
        return self.charged("step") == self.steps if kill == KILLS - 2 else self.stage() == "model"

    def would_lose_all(self):
        """Whether the only run of a mechanism is charged and not on disk: killed now, the fit must start anew."""
        last = self.entries[-1].get("charge") if self.entries else None
        return last not in (None, "step") and self.plan.mechanism(last).count == 1


def _kill(child, journal, number):
    """Wait for the moment of a kill, by the journal's growth; False if the fit ended before."""
    while child.poll() is None:
        if journal.has_reached(number):
            child.send_signal(signal.SIGSTOP)  # so that nothing changes between reading and killing
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            journal.read()
            if not journal.would_lose_all():
                child.kill()
                return child.wait() == -signal.SIGKILL
            child.send_signal(signal.SIGCONT)
        time.sleep(0.001)
    return False


def test_a_fit_killed_at_20_moments_always_ends_in_a_verified_release(tmp_path):
    some_records(SETS, 2000).write(tmp_path / "visits.npz")
    plan = make_plan(Config(1.0, model="vae", clusters=3), 2000, Domain.of_items(12))
    (tmp_path / "plan.json").write_text(json.dumps(plan.to_json()))
    Ledger.create(tmp_path / "ledger", epsilon_cap=1.01, delta=plan.delta)
    journal = Journal(tmp_path / "checkpoint", plan)
    stages = []
    for number in range(KILLS):
        child = _fit(tmp_path, *(["--resume"] if journal.header.exists() else []))
        assert _kill(child, journal, number), (number, stages, (tmp_path / "stderr").read_text())
        stages.append(journal.stage())
        assert not (tmp_path / "release").exists()
    # Over the whole fit: before the first charge, in clustering, in training, and after the last of it.
    assert stages[0] == "start"
    assert {"cluster counts", "cluster sums"} & set(stages)
    assert stages.count("step") >= 5
    assert stages[-1] == "model"
    assert _fit(tmp_path, "--resume").wait(timeout=600) == 0, (tmp_path / "stderr").read_text()
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
