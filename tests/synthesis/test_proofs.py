"""What a fit charges, certifies, reads and says: quick proofs beside playback and coupled sensitivity."""

import logging

import numpy as np
import pytest
import torch

from dpgm.data.domain import Numeric
from dpgm.data.kinds.numeric import bin_of
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness, SystemRandomness
from dpgm.networks.private_sgd import Trainer
from dpgm.privacy.accountant import replace_one_epsilon
from dpgm.privacy.events import Mechanism
from dpgm.strategy.protocol import RunContext
from dpgm.synthesis.books import Books
from dpgm.synthesis.checkpoint import Checkpoint
from dpgm.synthesis.strategies import fit_generator
from dpgm.synthesis.synthesizer import Synthesizer
from synthesis_data import SETS, some_records, tiny_plan

pytestmark = pytest.mark.usefixtures("short_fits")

RECORDS = some_records(SETS, 60)


def test_steps_are_charged_before_they_run(tmp_path, monkeypatch):
    plan = tiny_plan("rbm", SETS, len(RECORDS), sampling_rate=0.3)
    saved = Checkpoint.start(tmp_path / "fit", plan, RECORDS)
    seen, step = [], Trainer._step

    def watching(self):
        seen.append((saved.steps_charged, self.done + 1))
        step(self)

    monkeypatch.setattr(Trainer, "_step", watching)
    gateway = Books(plan, RECORDS, None, saved).gateway(SeededRandomness(0))
    draws = torch.Generator().manual_seed(saved.public_seed)
    fit_generator(gateway, plan, SETS, draws=draws, context=RunContext(checkpoint=saved))
    assert len(seen) == 6
    assert all(charged >= through for charged, through in seen)


def test_the_certificate_lists_what_ran(monkeypatch):
    """The figure is that of the calls: whatever ran besides the plan would be in it."""
    spent = Gateway.spent.fget
    more = Mechanism("something else", 50.0)
    monkeypatch.setattr(Gateway, "spent", property(lambda self: (*spent(self), more)))
    fitted = Synthesizer(1.0, model="independent", randomness=SystemRandomness()).fit(RECORDS)
    assert more in fitted.certificate_.mechanisms
    assert fitted.certificate_.epsilon > fitted.plan_.epsilon
    replaced = replace_one_epsilon(fitted.certificate_.mechanisms, fitted.certificate_.delta)
    assert fitted.certificate_.epsilon_replace_one == replaced > fitted.certificate_.epsilon


def test_a_fit_says_nothing_about_its_rows(caplog, capfd):
    plan = tiny_plan("vae", SETS, 60, clusters=2, sampling_rate=0.3)
    with caplog.at_level(logging.DEBUG):
        gateway = Gateway(RECORDS, randomness=SeededRandomness(0), allowance=plan.mechanisms)
        fit_generator(gateway, plan, SETS, draws=torch.Generator().manual_seed(0), context=RunContext())
    assert [record for record in caplog.records if record.name.startswith("dpgm")] == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("integer", [False, True])
def test_a_number_is_read_the_same_whatever_stands_beside_it(integer):
    field = Numeric("age", 0, 100, 10, integer=integer)
    values = np.array([0.0, 3.0, 17.0, 55.0, 99.0])
    alone = np.concatenate([bin_of(field, values[i : i + 1]) for i in range(5)])
    for odd in (-50.0, 250.0, 1e9):
        assert np.array_equal(bin_of(field, np.append(values, odd))[:5], alone)
