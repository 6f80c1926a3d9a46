from itertools import combinations

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.products.fitting import FitSettings, fit_moments
from dpgm.products.length_law import _law_by_transform, length_law
from dpgm.products.shrinkage import shrink
from dpgm.products.targets import LengthTarget, MomentTarget, moments


def exact_law(chances, longest):
    law = np.zeros(longest + 1)
    law[0] = 1
    for chance in chances:
        law[1:] = law[1:] * (1 - chance) + law[:-1] * chance
        law[0] *= 1 - chance
    return law


@pytest.mark.parametrize("width", [1, 12, 200])
def test_length_law_equals_direct_convolution(width):
    chances = torch.rand(5, width, generator=torch.Generator().manual_seed(1)) ** 8
    chances[:, 0] = 1.0
    law = length_law(chances, 63).numpy()
    wanted = np.stack([exact_law(row, 63) for row in chances.double().numpy()])
    assert np.abs(law - wanted).max() < 1e-6
    assert np.abs(_law_by_transform(chances, 63).numpy() - wanted).max() < 2e-4  # without numba


def test_lengths_beyond_the_longest_fold_back_in_both_ways_to_compute_the_law():
    chances = torch.rand(4, 40, generator=torch.Generator().manual_seed(2))
    assert torch.allclose(length_law(chances, 15), _law_by_transform(chances, 15), atol=1e-6)


def test_length_law_has_the_right_slope():
    chances = (torch.rand(3, 150, generator=torch.Generator().manual_seed(1)) ** 8).requires_grad_()
    lengths = torch.arange(64.0)
    (length_law(chances, 63) @ lengths).sum().backward()
    assert torch.allclose(chances.grad, torch.ones_like(chances), atol=1e-3)  # the mean grows by 1 per unit chance


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_moments_equal_enumeration(order):
    draws = torch.Generator().manual_seed(0)
    chances, weights = torch.rand(3, 5, generator=draws), torch.softmax(torch.randn(3, generator=draws), 0)
    level, slope = torch.rand(3, generator=draws), 0.1 * torch.rand(3, generator=draws)
    shown = moments(order, chances, weights, level, slope)
    pair = {p: at for at, p in enumerate(combinations(range(5), 2))}
    for members in combinations(range(5), order):
        listed = list(members)
        wanted = (weights * (level - slope * chances[:, listed].sum(1)) * chances[:, listed].prod(1)).sum()
        where = listed if order < 3 else [pair[members[:2]], members[2] if order == 3 else pair[members[2:]]]
        assert torch.isclose(shown[tuple(where)], wanted)


def test_a_fit_shows_the_pairs_it_is_given():
    domain = Domain((ItemSet("items", (0, 1)), Categorical("colour", ("red", "green"))))
    profile = torch.tensor([0.5, 0.5, 0.5, 0.5])
    wanted = torch.zeros(4, 4)
    wanted[0, 1], wanted[0, 2], wanted[0, 3], wanted[1, 2], wanted[1, 3] = 450.0, 400.0, 100.0, 400.0, 100.0
    variances = torch.where(wanted > 0, 1.0, torch.inf)
    everything = torch.arange(4)
    targets = [
        MomentTarget(1, everything, torch.ones(5), 1000 * profile, torch.ones(4)),
        MomentTarget(2, everything, torch.ones(5), wanted, variances),
    ]
    rule = FitSettings(components=6, steps=400, penalty=0.0)
    model = fit_moments(domain, 1000, profile, targets, None, rule, generator=torch.Generator().manual_seed(0))
    chances, weights = model.probabilities, model.weights.float()
    shown = 1000 * moments(2, chances, weights, torch.ones(6), torch.zeros(6))
    assert (shown - wanted)[wanted > 0].abs().max() < 10
    assert (1000 * weights @ chances - 500).abs().max() < 5
    assert torch.allclose(chances[:, 2:].sum(dim=1), torch.ones(6), atol=1e-5)


def test_a_fit_shows_how_many_of_some_items_records_hold():
    domain, profile, few = Domain.of_items(8), torch.full((8,), 0.5), torch.tensor([1, 3, 6])
    wanted = torch.tensor([450.0, 50.0, 50.0, 450.0])
    targets = [
        MomentTarget(1, torch.arange(8), torch.ones(9), 1000 * profile, torch.ones(8)),
        LengthTarget(few, torch.arange(4), wanted, torch.ones(4)),
    ]
    rule = FitSettings(components=6, steps=400, penalty=0.0)
    model = fit_moments(domain, 1000, profile, targets, None, rule, generator=torch.Generator().manual_seed(0))
    held = model.sample(1000, generator=torch.Generator().manual_seed(0)).to_dense()[:, few.numpy()].sum(axis=1)
    assert np.abs(np.bincount(held.astype(int), minlength=4) - wanted.numpy()).max() < 30


def test_shrinking_beats_both_the_noisy_counts_and_their_expectations():
    draws = np.random.default_rng(0)
    expected = draws.gamma(1.0, 50.0, size=5000) + 1
    truth = expected * np.where(draws.random(5000) < 0.2, 4.0, 0.9)
    noisy = truth + 30 * draws.normal(size=5000)
    means, deviations = shrink(noisy, 30.0, expected)
    error = np.abs(means - truth).mean()
    assert error < 0.7 * np.abs(noisy - truth).mean()
    assert error < 0.7 * np.abs(expected - truth).mean()
    assert 0.5 < np.mean(np.abs(means - truth) < deviations) < 0.9


def test_counts_without_noise_are_left_alone():
    counts = np.array([3.0, 500.0, 70.0])
    means, _ = shrink(counts, 1e-6, np.array([10.0, 90.0, 70.0]))
    assert np.allclose(means, counts, rtol=1e-3)
