"""Baselines are families like the others: planned, charged, resumed, certified, released."""

import pytest
import torch

import dpgm
from dpgm.baselines.mwem import MWEM
from dpgm.baselines.rules import MwemSettings
from dpgm.errors import ArtefactError, UsageError
from dpgm.privacy.ledger import Ledger
from dpgm.synthesis.strategies import rebuild
from synthesis_data import SETS, TABLE, some_records

CASES = [("independent", SETS), ("independent", TABLE), ("mwem", SETS)]


class Stopped(Exception):
    """The process ends here."""


def stop_at(number):
    calls = []

    def progress(stage, done, total):
        calls.append(stage)
        if len(calls) == number:
            raise Stopped

    return progress


@pytest.mark.parametrize(("model", "domain"), CASES)
def test_a_baseline_is_planned_charged_resumed_released_and_verified(tmp_path, model, domain):
    records = some_records(domain, 400)
    ledger = Ledger.create(tmp_path / "ledger", epsilon_cap=1.0, delta=1e-4)
    fit = dpgm.Synthesizer(1.0, 1e-4, model=model)
    with pytest.raises(Stopped):
        fit.fit(records, ledger=ledger, checkpoint=tmp_path / "saved", progress=stop_at(2))
    fit.fit(records, ledger=Ledger.open(tmp_path / "ledger"), checkpoint=tmp_path / "saved", resume=True)
    assert fit.plan_.settings.model == model
    assert set(fit.certificate_.mechanisms) == set(fit.plan_.mechanisms)
    assert len(Ledger.open(tmp_path / "ledger").entries()) == 1
    fit.save(tmp_path / "release")
    assert dpgm.verify(tmp_path / "release").ok
    assert dpgm.load(tmp_path / "release").sample(60, seed=1) == fit.sample(60, seed=1)


@pytest.mark.parametrize("model", ["independent", "mwem"])
def test_a_spoiled_baseline_release_is_refused(model):
    made = dpgm.Synthesizer(1.0, model=model).fit(some_records(SETS, 100)).generator_
    good = made.state()
    assert rebuild(model, made.architecture, good, SETS).sample(5, generator=torch.Generator()).domain == SETS
    for name, tensor in good.items():
        for spoiled in (tensor[1:], tensor + 1, tensor.float(), -tensor):
            with pytest.raises(ArtefactError):
                rebuild(model, made.architecture, good | {name: spoiled}, SETS)
        with pytest.raises(ArtefactError):
            rebuild(model, made.architecture, {key: value for key, value in good.items() if key != name}, SETS)
    with pytest.raises(ArtefactError):
        rebuild(model, made.architecture | {"more": 1}, good, SETS)


def test_what_a_baseline_cannot_do_is_refused_before_anything_is_planned():
    with pytest.raises(UsageError, match="table columns"):
        dpgm.make_plan(dpgm.Config(1.0, model="mwem"), 1000, TABLE)
    with pytest.raises(UsageError, match="paper"):
        dpgm.make_plan(dpgm.Config(1.0, model="independent", preset="paper"), 1000, SETS)
    with pytest.raises(UsageError, match="'mwem'"):
        dpgm.make_plan(dpgm.Config(1.0, model="nonsense"), 1000, SETS)


def test_tables_of_mwem_that_are_no_numbers_are_refused():
    tensors = {
        "sizes": torch.tensor([2, 2]),
        "items": torch.tensor([0, 1, 2, 3]),
        "tables": torch.tensor([float("nan"), 0.5, 0.5, 0, 0.25, 0.25, 0.25, 0.25], dtype=torch.float64),
    }
    with pytest.raises(ArtefactError, match="shares that do not sum to 1"):
        MWEM.load({"kind": "mwem", "cap": 2}, tensors, dpgm.Domain.of_items(4), MwemSettings())
