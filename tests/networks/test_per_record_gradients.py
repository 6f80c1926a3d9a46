"""Norms and clipped sums from factors, compared with per-record gradients of torch.func."""

import numpy as np
import pytest
import torch

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.networks.model import Views
from dpgm.networks.private_sgd import SLACK
from dpgm.networks.rbm import RBM
from dpgm.networks.vae import VAE
from model_references import (
    MIXED,
    SETS,
    free_energy,
    per_record_gradients,
    random_records,
    segmented,
    tiled,
    vae_loss,
)

MODELS = {
    "vae, 1 layer": lambda domain: VAE(domain, (13,), 3),
    "vae, 2 layers": lambda domain: VAE(domain, (13, 7), 2),
    "vae, 3 layers": lambda domain: VAE(domain, (17, 11, 5), 1),
    "rbm": lambda domain: RBM(domain, 11, chains=4),
}


def _case(make, domain, clusters, count=40):
    model = make(domain)
    k = 7 if clusters == "uneven" else 1
    rng = np.random.default_rng(3)
    routed = np.minimum(rng.geometric(0.5, size=count) - 1, 5) if k == 7 else np.zeros(count, dtype=np.int64)
    generator = torch.Generator().manual_seed(1)
    parameters = model.initial(k, generator=generator).double()
    parameters += 0.3 * torch.randn(parameters.shape, generator=generator, dtype=torch.float64)
    draws = torch.randn((count, model.draws_per_record), generator=generator, dtype=torch.float64)
    records = random_records(domain, count)
    loss = free_energy if isinstance(model, RBM) else vae_loss
    expected = per_record_gradients(loss, model, parameters, records, routed, draws)
    return model, parameters, records, routed, draws, expected


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("domain", [SETS, MIXED], ids=["sets", "every field type"])
@pytest.mark.parametrize("clusters", ["one", "uneven"])
@pytest.mark.parametrize("arrange", [segmented, tiled])
def test_norms_and_clipped_sums_equal_those_of_per_record_gradients(name, domain, clusters, arrange):
    model, parameters, records, routed, draws, expected = _case(MODELS[name], domain, clusters)
    batch, places = arrange(model, parameters, records, routed, draws)
    factors = model.factors(batch)
    norms, true = batch.squared_norms(factors).sqrt(), torch.linalg.vector_norm(expected, dim=1)
    if arrange is tiled:
        assert torch.allclose(norms[places], true, rtol=1e-10, atol=1e-10)
    else:
        assert torch.allclose(norms, true[places], rtol=1e-10, atol=1e-10)

    bound = float(true.median())
    weights = torch.clamp(bound / norms, max=1)
    if batch.unused is not None:
        weights[batch.unused] = 0
    out = torch.full_like(parameters, torch.nan)
    got = batch.weighted_sum(factors, weights, Views(model.layout, out))
    clipped = expected * torch.clamp(bound / true, max=1).unsqueeze(1)
    sums = torch.zeros_like(parameters).index_add_(0, torch.from_numpy(routed), clipped)
    assert torch.allclose(got, sums, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_float32_agrees_with_float64(name):
    model, parameters, records, routed, draws, expected = _case(MODELS[name], SETS, "uneven")
    batch, order = segmented(model, parameters.float(), records, routed, draws.float())
    norms = batch.squared_norms(model.factors(batch)).sqrt()
    assert torch.allclose(norms, torch.linalg.vector_norm(expected, dim=1)[order], rtol=1e-5)


@pytest.mark.parametrize("arrange", [segmented, tiled])
def test_norms_of_wide_records_are_not_understated_in_float32(arrange):
    """A norm that is too small by more than the slack of clipping would let a record add more than the bound."""
    model = VAE(Domain.of_items(100_000), (1,), 1)
    records = Records.from_lists([[], [5]], model.domain)
    parameters = torch.full((1, model.layout.size), 0.01)
    batch, _ = arrange(model, parameters, records, np.zeros(2, dtype=np.int64), torch.zeros(2, 1))
    factors = model.factors(batch)
    last = next(factor for factor in factors if factor.delta.shape[-1] == 100_000)
    true = last.delta.double().square().sum(-1) * (last.activation.double().square().sum(-1) + 1)
    found = batch.squared_norms([last]).double()
    assert (found.sqrt() * SLACK >= true.sqrt()).all()
