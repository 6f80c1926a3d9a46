"""Fitted mixtures: sampling, saving, and rejection of files that are not one."""

import itertools

import numpy as np
import pytest
import torch

from dpgm.data.domain import Domain
from dpgm.errors import ArtefactError
from dpgm.networks.mixture import Mixture
from dpgm.networks.model import Outputs
from dpgm.networks.rbm import RBM
from dpgm.networks.vae import VAE
from model_references import MIXED, SETS


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def vae_mixture(domain, clusters=3):
    model = VAE(domain, (6,), 2)
    weights = torch.tensor([0.5, 0.2, 0.3])[:clusters]
    return Mixture(model, model.initial(clusters, generator=generator()), weights / weights.sum())


def rbm_mixture(domain):
    model = RBM(domain, 5, chains=4, sweeps=3)
    return Mixture(
        model,
        model.initial(2, generator=generator()),
        torch.tensor([0.4, 0.6]),
        model.begin(2, generator=generator()),
    )


@pytest.mark.parametrize("make", [vae_mixture, rbm_mixture])
def test_samples_are_valid_records_of_the_domain(make):
    drawn = make(MIXED).sample(500, generator=generator(1))
    dense = drawn.to_dense()
    assert len(drawn) == 500
    for block in MIXED.blocks:
        if block.softmax:
            assert np.all(dense[:, block.start : block.stop].sum(1) == 1)
    for row in range(500):
        items = drawn.indices[drawn.indptr[row] : drawn.indptr[row + 1]]
        assert np.all(np.diff(items) > 0)


@pytest.mark.parametrize("make", [vae_mixture, rbm_mixture])
def test_the_same_generator_gives_the_same_records_and_another_gives_others(make):
    mixture = make(SETS)
    one, two, other = (mixture.sample(50, generator=generator(seed)) for seed in (1, 1, 2))
    assert one == two
    assert one != other
    assert len(mixture.sample(0, generator=generator())) == 0


def test_each_network_makes_its_share_in_random_order():
    model = VAE(Domain.of_items(2), (2,), 1)
    # Two networks that always give item 0 or item 1, whatever the latent is.
    frequencies = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    parameters = model.warm(model.initial(len(frequencies), generator=generator()), frequencies)
    model.layout.weight(parameters, model.layout.blocks[-1]).zero_()
    drawn = Mixture(model, parameters, torch.tensor([0.25, 0.75])).sample(20_000, generator=generator())
    dense = drawn.to_dense()
    assert abs(dense[:, 0].mean() - 0.25) < 0.02
    assert abs(dense[:10_000, 0].mean() - dense[10_000:, 0].mean()) < 0.02


def test_bernoulli_columns_are_drawn_with_their_probability_and_independently():
    outputs = Outputs.of(Domain.of_items(6))
    level = torch.tensor([1e-4, 0.01, 0.2, 0.5, 0.9, 0.999])
    count = 200_000
    columns, lengths = outputs.draw_sparse(torch.logit(level).repeat(count, 1), generator=generator())
    dense = np.zeros((count, 6))
    dense[np.repeat(np.arange(count), lengths), columns] = 1
    spread = torch.sqrt(level * (1 - level) / count).numpy()
    assert np.all(np.abs(dense.mean(0) - level.numpy()) < 5 * spread)
    correlation = np.corrcoef(dense[:, 1:].T) - np.eye(5)
    assert np.abs(correlation).max() < 5 / np.sqrt(count)
    lag = np.mean((dense[1:] - dense[1:].mean(0)) * (dense[:-1] - dense[:-1].mean(0)), axis=0)
    assert np.all(np.abs(lag) < 5 * spread**2 * np.sqrt(count))


def test_a_warm_start_has_the_frequencies_it_was_given():
    frequencies = torch.full((2, MIXED.width), 0.2)
    for start, stop in Outputs.of(MIXED).softmax:
        frequencies[:, start:stop] = 1.0 / (stop - start)
    frequencies[0, 0], frequencies[1, 1] = 0.9, 0.03
    for model in (VAE(MIXED, (20,), 2), RBM(MIXED, 10, sweeps=5)):
        parameters = model.warm(model.initial(len(frequencies), generator=generator()), frequencies)
        for s in range(2):
            one = Mixture(model, parameters[s : s + 1], torch.ones(1))
            drawn = one.sample(4000, generator=generator()).to_dense().mean(0)
            assert np.abs(drawn - frequencies[s].numpy()).max() < 0.1


@pytest.mark.parametrize("make", [vae_mixture, rbm_mixture])
def test_a_mixture_survives_saving(make):
    mixture = make(MIXED)
    again = Mixture.from_state(mixture.architecture, mixture.state(), MIXED)
    assert again.sample(40, generator=generator()) == mixture.sample(40, generator=generator())
    assert again.kind == mixture.kind


@pytest.mark.parametrize("make", [vae_mixture, rbm_mixture])
def test_what_is_not_a_mixture_is_refused(make):
    mixture = make(SETS)
    architecture, tensors = mixture.architecture, mixture.state()
    for changed in (
        {**architecture, "kind": "gan"},
        {**architecture, "clusters": 0},
        {**architecture, "clusters": True},
        {**architecture, "clusters": 10**9},
        {**architecture, "extra": 1},
        {**architecture, "hidden": [10**12]},
        {**architecture, "hidden": "many"},
        {**architecture, "with_chains": not architecture["with_chains"]},
        {key: value for key, value in architecture.items() if key != "hidden"},
    ):
        with pytest.raises(ArtefactError):
            Mixture.from_state(changed, tensors, SETS)
    for name, value in {
        "parameters": tensors["parameters"][:, :-1],
        "weights": -tensors["weights"],
        "more": torch.zeros(1),
    }.items():
        with pytest.raises(ArtefactError):
            Mixture.from_state(architecture, {**tensors, name: value}, SETS)
    for wrong in (tensors["parameters"].double(), torch.full_like(tensors["parameters"], torch.nan)):
        with pytest.raises(ArtefactError):
            Mixture.from_state(architecture, {**tensors, "parameters": wrong}, SETS)
    if "chains" in tensors:
        with pytest.raises(ArtefactError):
            Mixture.from_state(architecture, {**tensors, "chains": tensors["chains"] + 2}, SETS)


def test_an_rbm_samples_its_boltzmann_distribution():
    domain = Domain.of_items(3)
    model = RBM(domain, 2, chains=10, sweeps=60)
    parameters = torch.randn((1, model.layout.size), generator=generator(4))
    states = torch.tensor(list(itertools.product([0.0, 1.0], repeat=3)))
    weight = model.layout.weight(parameters, model.layout.blocks[0])[0]
    visible = model.layout.weight(parameters, model.layout.blocks[1])[0, :, 0]
    hidden = model.layout.bias(parameters, model.layout.blocks[0])[0, 0]
    energy = states @ visible + torch.nn.functional.softplus(states @ weight + hidden).sum(1)
    expected = torch.softmax(energy, 0).numpy()
    dense = Mixture(model, parameters, torch.ones(1)).sample(20_000, generator=generator()).to_dense()
    found = np.bincount((dense @ np.array([4, 2, 1])).astype(int), minlength=8) / 20_000
    assert np.abs(found - expected).max() < 0.02


def test_the_chains_part_of_the_gradient_is_their_clipped_mean_statistic():
    model = RBM(MIXED, 5, chains=6)
    parameters = 0.3 * torch.randn((2, model.layout.size), generator=generator(1))
    chains = model.begin(2, generator=generator())
    for bound in (1e9, 1.0):
        gradient = torch.zeros_like(parameters)
        model.advance(chains, parameters, bound, gradient, generator=generator(2))
        for s in range(2):
            p = torch.sigmoid(
                chains[s] @ model.layout.weight(parameters, model.layout.blocks[0])[s]
                + model.layout.bias(parameters, model.layout.blocks[0])[s]
            )
            each = torch.cat([torch.einsum("nv,nh->nvh", chains[s], p).flatten(1), p, chains[s]], dim=1)
            norms = torch.linalg.vector_norm(each, dim=1, keepdim=True)
            assert torch.allclose(gradient[s], (each * (bound / norms).clamp(max=1)).mean(0), atol=1e-5)
    for start, stop in model.outputs.softmax:
        assert torch.all(chains[..., start:stop].sum(-1) == 1)
