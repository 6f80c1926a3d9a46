"""A new family needs a class and a line in the list of families: everything else works without changes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dpgm
import toy_family
from dpgm.errors import UsageError
from dpgm.privacy.ledger import Ledger
from dpgm.synthesis import strategies
from dpgm.testing import assert_bounded, assert_playback_invariant
from synthesis_data import SETS, TABLE, some_records

KILLED_FIT = """
import os, signal, sys
import dpgm, toy_family
from dpgm.privacy.ledger import Ledger
toy_family.add()
folder = sys.argv[1]
dpgm.Synthesizer(1.0, 1e-4, model="coins").fit(
    dpgm.read_records(folder + "/visits.npz"), ledger=Ledger.open(folder + "/ledger"),
    checkpoint=folder + "/saved", progress=lambda *_: os.kill(os.getpid(), signal.SIGKILL),
)
"""


@pytest.fixture
def coins(monkeypatch):
    monkeypatch.setattr(strategies, "STRATEGIES", strategies.STRATEGIES)
    toy_family.add()


@pytest.mark.usefixtures("coins")
def test_a_toy_family_is_planned_killed_resumed_released_verified_sampled_and_evaluated(tmp_path):
    some_records(SETS, 500).write(tmp_path / "visits.npz")
    records = dpgm.read_records(tmp_path / "visits.npz")
    Ledger.create(tmp_path / "ledger", epsilon_cap=1.0, delta=1e-4)
    paths = f"{Path(toy_family.__file__).parent}{os.pathsep}{Path(dpgm.__file__).parents[1]}"
    environment = os.environ | {"PYTHONPATH": paths}
    child = subprocess.run([sys.executable, "-c", KILLED_FIT, str(tmp_path)], env=environment, check=False)
    assert child.returncode == -signal.SIGKILL

    fit = dpgm.Synthesizer(1.0, 1e-4, model="coins")
    fit.fit(records, ledger=Ledger.open(tmp_path / "ledger"), checkpoint=tmp_path / "saved", resume=True)
    assert [mechanism.name for mechanism in fit.certificate_.mechanisms] == ["item counts"]
    assert len(Ledger.open(tmp_path / "ledger").entries()) == 1
    fit.save(tmp_path / "release")
    assert dpgm.verify(tmp_path / "release").ok
    drawn = dpgm.load(tmp_path / "release").sample(500, seed=1)
    assert drawn == fit.sample(500, seed=1)
    assert dpgm.evaluate(records, drawn).counting.rows


@pytest.mark.usefixtures("coins")
def test_the_checks_of_privacy_apply_to_it():
    plan = dpgm.make_plan(dpgm.Config(1.0, 1e-4, model="coins"), 60, SETS)
    records = some_records(SETS, 60)

    def run(gateway):
        context = strategies.RunContext()
        return strategies.fit_generator(gateway, plan, SETS, draws=None, context=context).state()

    assert_playback_invariant(run, [records, some_records(SETS, 9, seed=3)], allowance=plan.mechanisms)
    assert assert_bounded(run, records, records.rows(0, 1), allowance=plan.mechanisms) <= 1
    with pytest.raises(UsageError, match="item sets"):
        dpgm.make_plan(dpgm.Config(1.0, model="coins"), 60, TABLE)


def test_without_its_line_the_family_is_unknown():
    with pytest.raises(UsageError, match="`model`"):
        dpgm.make_plan(dpgm.Config(1.0, model="coins"), 60, SETS)
