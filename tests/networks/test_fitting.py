"""A fit of a mixture of networks, from plan to samples: generated records reproduce the measured statistics."""

import dataclasses

import numpy as np
import pytest
import torch

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.products.rules import PRODUCT_RULES
from dpgm.products.strategy import measure
from dpgm.strategy.protocol import RunContext
from dpgm.strategy.settings import Config
from dpgm.synthesis.plan import make_plan
from dpgm.synthesis.strategies import fit_generator, rebuild
from synthesis_data import tiny_plan

WIDE = Domain.of_items(26)
RECORDS = 2000


def planted():
    """Every record has the items 0 and 1, or 2 and 3, or neither; and one of the others."""
    rng = np.random.default_rng(0)
    kinds = rng.choice(3, size=RECORDS)
    rest = rng.integers(4, 26, size=RECORDS)
    return Records.from_lists(
        [[[0, 1], [2, 3], []][kind] + [int(item)] for kind, item in zip(kinds, rest, strict=True)], WIDE
    )


def pair(records, first, second):
    rows = records.to_scipy().toarray().astype(bool)
    return int((rows[:, first] & rows[:, second]).sum())


def fit(plan, records=None):
    gateway = Gateway(
        planted() if records is None else records, randomness=SeededRandomness(0), allowance=plan.mechanisms
    )
    draws = torch.Generator().manual_seed(0)
    generator = fit_generator(gateway, plan, WIDE, draws=draws, context=RunContext())
    gateway.assert_complete()
    assert {m.name: m.count for m in gateway.spent} == {m.name: m.count for m in plan.mechanisms}
    return generator


def with_three_steps(plan):
    """The plan with hardly any training: three steps at a small rate."""
    family = dataclasses.replace(plan.settings.family, steps=3, learning_rate=1e-4)
    mechanisms = tuple(dataclasses.replace(m, count=3) if m.sample else m for m in plan.mechanisms)
    return dataclasses.replace(
        plan, settings=dataclasses.replace(plan.settings, family=family), mechanisms=mechanisms
    )


def test_generated_records_reproduce_pairs_if_these_were_measured_and_only_then():
    plan = tiny_plan("vae", WIDE, RECORDS, clusters=1, sampling_rate=0.05, products=PRODUCT_RULES)
    assert plan.pays_for("pair counts")
    generator = fit(plan)
    drawn = generator.sample(RECORDS, generator=torch.Generator().manual_seed(1))
    assert pair(drawn, 0, 1) == pytest.approx(RECORDS / 3, rel=0.15)
    assert pair(drawn, 2, 3) == pytest.approx(RECORDS / 3, rel=0.15)
    assert pair(drawn, 0, 3) < 0.03 * RECORDS

    read = rebuild(generator.kind, generator.architecture, generator.state(), WIDE)
    again = read.sample(RECORDS, generator=torch.Generator().manual_seed(1))
    assert np.array_equal(drawn.indices, again.indices)

    without = dataclasses.replace(plan, mechanisms=tuple(m for m in plan.mechanisms if m.name != "pair counts"))
    drawn = fit(without).sample(RECORDS, generator=torch.Generator().manual_seed(1))
    assert pair(drawn, 0, 3) > 0.06 * RECORDS


def test_networks_are_refined_to_centred_pairs_too():
    dense = Records.from_dense(np.random.default_rng(0).random((RECORDS, 26)) < 0.9, WIDE)
    plan = tiny_plan("vae", WIDE, RECORDS, clusters=1, sampling_rate=0.05)
    measured = measure(Gateway(dense, randomness=SeededRandomness(0)), WIDE, RECORDS, plan.noises, PRODUCT_RULES)
    assert measured.centred is not None
    assert not measured.tuples
    assert "points" in fit(plan, dense).state()


@pytest.mark.parametrize("model", ["vae", "rbm"])
def test_one_network_of_the_papers_preset_starts_from_the_stated_mean_length(model):
    """Nothing is measured before training then, and a few steps of noise hardly change the start."""
    plan = make_plan(Config(1.0, None, 1, model, "paper", mean_length=2.0), RECORDS, WIDE)
    assert {mechanism.name for mechanism in plan.mechanisms} == {"norms", "gradients"}
    drawn = fit(with_three_steps(plan)).sample(RECORDS, generator=torch.Generator().manual_seed(1))
    assert drawn.lengths.mean() == pytest.approx(2.0, rel=0.15)


@pytest.mark.parametrize("model", ["vae", "rbm"])
def test_networks_of_the_papers_preset_start_from_the_noisy_profile(model):
    plan = make_plan(Config(8.0, None, 2, model, "paper"), RECORDS, WIDE)
    drawn = fit(with_three_steps(plan)).sample(RECORDS, generator=torch.Generator().manual_seed(1))
    assert np.abs(drawn.to_dense().mean(0) - planted().to_dense().mean(0)).max() < 0.06
