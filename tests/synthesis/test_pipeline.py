"""The privacy proof, executed on the whole fit: playback invariance and coupled sensitivity."""

import pytest
import torch

from dpgm.data.records import Records
from dpgm.strategy.protocol import RunContext
from dpgm.synthesis.strategies import fit_generator
from dpgm.testing import assert_bounded, assert_coin_off, assert_playback_invariant
from synthesis_data import BY_LABEL, CLICKS, COLUMNS, IMAGES, SETS, TABLE, one_record, some_records, tiny_plan

CASES = [
    pytest.param("products", SETS, {}, id="products-sets"),
    pytest.param("products", TABLE, {}, id="products-table"),
    pytest.param("trees", COLUMNS, {}, id="trees"),
    pytest.param("trees", TABLE, {}, id="trees-list"),
    pytest.param("vae", SETS, {"clusters": 3, "sampling_rate": 0.3}, id="vae-sets"),
    pytest.param("vae", TABLE, {"clusters": 2, "sampling_rate": 0.3}, id="vae-table"),
    pytest.param("vae", IMAGES, BY_LABEL, id="vae-images"),
    pytest.param("rbm", SETS, {"clusters": 2, "sampling_rate": 0.3}, id="rbm-sets"),
    pytest.param("independent", SETS, {}, id="independent-sets"),
    pytest.param("independent", TABLE, {}, id="independent-table"),
    pytest.param("mwem", SETS, {}, id="mwem"),
    pytest.param("sequences", CLICKS, {}, id="sequences"),
    pytest.param("image", IMAGES, {}, id="image", marks=pytest.mark.slow),
]


def _run(plan, domain):
    def run(gateway):
        generator = fit_generator(
            gateway, plan, domain, draws=torch.Generator().manual_seed(5), context=RunContext()
        )
        gateway.assert_complete()
        drawn = generator.sample(50, generator=torch.Generator().manual_seed(1))
        drawn_values = [drawn.indices, *(() if drawn.events is None else drawn.events.buffers())]
        return {"state": generator.state(), "architecture": str(generator.architecture), "drawn": drawn_values}

    return run


@pytest.mark.parametrize(("model", "domain", "settings"), CASES)
def test_a_fit_is_a_function_of_its_noisy_values_alone(model, domain, settings):
    records = some_records(domain, 40)
    plan = tiny_plan(model, domain, 40, **settings)
    others = [records, some_records(domain, 7, seed=9)]
    assert_playback_invariant(_run(plan, domain), others, tapes=1, allowance=plan.mechanisms)


@pytest.mark.parametrize(("model", "domain", "settings"), CASES)
def test_one_more_record_moves_every_release_within_its_bound(model, domain, settings):
    records = some_records(domain, 40)
    plan = tiny_plan(model, domain, 40, **settings)
    full = sorted(
        {
            block.start if block.softmax else position
            for block in domain.blocks
            for position in range(block.start, block.stop)
        }
    )
    for row in (full, full[-1:] if domain is not IMAGES else full):
        extra = one_record(domain, row)
        run = _run(plan, domain)
        assert assert_bounded(run, records, extra, rounding=1e-6, allowance=plan.mechanisms) <= 1 + 1e-6


@pytest.mark.parametrize("model", ["vae", "rbm"])
def test_a_record_outside_the_sample_moves_no_step(model):
    plan = tiny_plan(model, SETS, 40, clusters=2, sampling_rate=0.3)
    extra = Records.from_lists([[0, 1, 2]], SETS)
    assert_coin_off(_run(plan, SETS), some_records(SETS, 40), extra, allowance=plan.mechanisms)
