"""A new network needs a class and a line in the list of families: everything else works without changes."""

import pytest
import torch

import dpgm
import toy_network
from dpgm.synthesis import strategies
from dpgm.testing import assert_bounded, assert_playback_invariant
from synthesis_data import SETS, TABLE, small_plan, some_records


@pytest.fixture
def logits(monkeypatch):
    monkeypatch.setattr(strategies, "STRATEGIES", strategies.STRATEGIES)
    toy_network.add()


@pytest.mark.usefixtures("logits")
@pytest.mark.parametrize("domain", [SETS, TABLE], ids=["sets", "table"])
def test_a_toy_network_is_planned_trained_released_verified_and_sampled(tmp_path, domain):
    records = some_records(domain, 500)
    plan = small_plan(dpgm.Config(1.0, 1e-4, model="logits", clusters=2), records, steps=5, cluster_steps=2)
    fit = dpgm.Synthesizer(1.0, 1e-4, model="logits").fit(records, plan=plan)
    assert {"cluster sums", "gradients"} <= {mechanism.name for mechanism in fit.certificate_.mechanisms}
    fit.save(tmp_path / "release")
    assert dpgm.verify(tmp_path / "release").ok
    drawn = dpgm.load(tmp_path / "release").sample(300, seed=1)
    assert drawn == fit.sample(300, seed=1)
    assert dpgm.evaluate(records, drawn)


@pytest.mark.usefixtures("logits")
def test_the_checks_of_privacy_apply_to_it():
    records = some_records(SETS, 60)
    plan = small_plan(dpgm.Config(1.0, 1e-4, model="logits", clusters=2), records, steps=3, cluster_steps=2)

    def run(gateway):
        draws, context = torch.Generator().manual_seed(0), strategies.RunContext()
        return strategies.fit_generator(gateway, plan, SETS, draws=draws, context=context).state()

    assert_playback_invariant(run, [records, some_records(SETS, 9, seed=3)], allowance=plan.mechanisms)
    assert assert_bounded(run, records, records.rows(0, 1), allowance=plan.mechanisms, rounding=1e-6) <= 1 + 1e-6
