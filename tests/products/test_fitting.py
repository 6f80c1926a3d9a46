"""Fits of mixtures of products: the targets are met, and the terms of the loss are those of their formulas."""

from itertools import product

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.products.fitting import (
    FitSettings,
    Targets,
    divergences,
    entropy_bound,
    fit_moments,
    squared_errors,
    with_profile,
)
from dpgm.products.model import Products, joined
from dpgm.statistics.clipping import moments
from fit_targets import item_counts, length_counts, pair_counts


def test_a_fit_reproduces_the_given_pairs():
    domain = Domain((ItemSet("items", (0, 1)), Categorical("colour", ("red", "green"))))
    profile = torch.tensor([0.5, 0.5, 0.5, 0.5])
    target = torch.zeros(4, 4)
    target[0, 1], target[0, 2], target[0, 3], target[1, 2], target[1, 3] = 450.0, 400.0, 100.0, 400.0, 100.0
    variances = torch.where(target > 0, 1.0, torch.inf)
    targets = [
        item_counts(domain, 1000 * profile, torch.ones(4)),
        pair_counts(domain, target, variances),
    ]
    settings = FitSettings(components=6, steps=400, penalty=0.0)
    model = fit_moments(
        domain, 1000, Targets(profile, targets, None, settings), generator=torch.Generator().manual_seed(0)
    )
    chances, weights = model.probabilities, model.weights.float()
    predicted = 1000 * moments(2, chances, weights, torch.ones(6), torch.zeros(6))
    assert (predicted - target)[target > 0].abs().max() < 10
    assert (1000 * weights @ chances - 500).abs().max() < 5
    assert torch.allclose(chances[:, 2:].sum(dim=1), torch.ones(6), atol=1e-5)


def test_a_fit_reproduces_how_many_of_some_items_records_hold():
    domain, profile, few = Domain.of_items(8), torch.full((8,), 0.5), torch.tensor([1, 3, 6])
    target = torch.tensor([450.0, 50.0, 50.0, 450.0])
    targets = [
        item_counts(domain, 1000 * profile, torch.ones(8)),
        length_counts(few.tolist(), target, torch.ones(4)),
    ]
    settings = FitSettings(components=6, steps=400, penalty=0.0)
    model = fit_moments(
        domain, 1000, Targets(profile, targets, None, settings), generator=torch.Generator().manual_seed(0)
    )
    counts = model.sample(1000, generator=torch.Generator().manual_seed(0)).to_dense()[:, few.numpy()].sum(axis=1)
    assert np.abs(np.bincount(counts.astype(int), minlength=4) - target.numpy()).max() < 30


def test_single_values_are_brought_to_the_profile_and_pairs_hardly_move():
    domain = Domain((Categorical("a", (0, 1, 2)), Categorical("b", (0, 1, 2, 3))))
    draws = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 7, generator=draws)
    chances = torch.cat([torch.softmax(logits[:, :3], 1), torch.softmax(logits[:, 3:], 1)], dim=1)
    model = Products(domain, torch.full((6,), 1 / 6, dtype=torch.float64), chances)
    predicted = model.weights @ chances.double()
    profile = predicted * (1 + 0.1 * torch.randn(7, generator=draws, dtype=torch.float64))
    profile[:3] /= profile[:3].sum()
    profile[3:] /= profile[3:].sum()
    adjusted = with_profile(model, profile.float(), 50)
    assert torch.allclose(adjusted.weights @ adjusted.probabilities.double(), profile, atol=1e-5)
    sums = adjusted.probabilities[:, :3].sum(1), adjusted.probabilities[:, 3:].sum(1)
    assert all(torch.allclose(total, torch.ones(6)) for total in sums)
    before, after = (
        one.probabilities.T.double() @ (one.weights[:, None] * one.probabilities) for one in (model, adjusted)
    )
    ratio = (after[:3, 3:] / before[:3, 3:]) / (
        profile[:3, None] / predicted[:3, None] * profile[3:] / predicted[3:]
    )
    assert float((ratio - 1).abs().max()) < 0.05  # the dependence of a and b is what it was


def test_a_fitted_table_has_the_measured_shares_of_single_values():
    domain = Domain(tuple(Categorical(f"c{at}", tuple(range(9))) for at in range(4)))
    profile = torch.from_numpy(np.random.default_rng(0).dirichlet(np.ones(9), 4).ravel()).float()
    settings = FitSettings(components=8, steps=5, misfit=0.95)
    fitted = fit_moments(
        domain, 1000, Targets(profile, [], None, settings), generator=torch.Generator().manual_seed(0)
    )
    assert torch.allclose((fitted.weights @ fitted.probabilities.double()).float(), profile, atol=1e-4)


def test_the_mean_of_two_mixtures_has_the_mean_of_their_shares_and_pairs():
    domain = Domain((Categorical("a", (0, 1)), Categorical("b", (0, 1, 2))))
    draws = torch.Generator().manual_seed(0)
    models = []
    for components in (2, 3):
        logits = torch.randn(components, 5, generator=draws)
        chances = torch.cat([torch.softmax(logits[:, :2], dim=1), torch.softmax(logits[:, 2:], dim=1)], dim=1)
        models.append(Products(domain, torch.softmax(torch.randn(components, generator=draws), dim=0), chances))
    both = joined(models)
    assert both.components == 5
    assert joined(models[:1]) is models[0]

    def pairs(model):
        chances = model.probabilities.double()
        return (chances * model.weights[:, None]).T @ chances

    assert torch.allclose(pairs(both), (pairs(models[0]) + pairs(models[1])) / 2)


def drawn(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(len(shape)), dtype=torch.float64) * 0.8 + 0.1


def test_squared_errors_are_those_of_the_formula_and_infinite_variances_count_nothing():
    predicted, values = drawn(4, 5).requires_grad_(), 30 * drawn(5, 4).T
    weights = 1 / torch.where(values > 20, torch.inf, values)
    squared_errors(predicted, values, 40, weights).backward()
    plain = predicted.detach().clone().requires_grad_()
    expected = ((40 * plain - values) ** 2 * weights).sum()
    expected.backward()
    found = squared_errors(predicted.detach(), values, 40, weights)
    assert float(found) == pytest.approx(float(expected.detach()))
    torch.testing.assert_close(predicted.grad, plain.grad)


@pytest.mark.parametrize("columns", [0, 3])
def test_divergences_are_those_of_the_formula_for_items_and_columns(columns):
    profile, chances = drawn(6), drawn(3, 6).requires_grad_()
    free = torch.ones(6, dtype=torch.float64)
    free[:columns] = 0
    logs, rest = profile.log(), (1 - profile).log()
    weights = drawn(3)
    found = divergences(chances, logs, rest, free if columns else None)
    (weights * found).sum().backward()
    plain = chances.detach().clone().requires_grad_()
    bits = plain * (plain.log() - logs)
    others = (1 - plain) * ((1 - plain).log() - rest)
    expected = bits.sum(dim=1) + others[:, columns:].sum(dim=1)
    (weights * expected).sum().backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(chances.grad, plain.grad)


def test_probabilities_of_zero_and_one_have_finite_gradients():
    chances = torch.tensor([[0.0, 1.0]], requires_grad=True)
    half = torch.full((2,), 0.5).log()
    divergences(chances, half, half, None).sum().backward()
    assert bool(torch.isfinite(chances.grad).all())


COLUMNS = [slice(0, 2), slice(2, 5), slice(5, 9)]


def mixture(components, sharpness, seed=0):
    draws = torch.Generator().manual_seed(seed)
    logits = sharpness * torch.randn(components, 9, generator=draws)
    chances = torch.cat([torch.softmax(logits[:, column], dim=1) for column in COLUMNS], dim=1)
    return chances, torch.softmax(torch.randn(components, generator=draws), dim=0)


def exact_entropy(chances, weights):
    """The entropy, computed over all possible records."""
    cells = [
        (weights * chances[:, a] * chances[:, 2 + b] * chances[:, 5 + c]).sum()
        for a, b, c in product(range(2), range(3), range(4))
    ]
    shares = torch.stack(cells).double()
    return float(-(shares * shares.clamp(min=1e-300).log()).sum())


@pytest.mark.parametrize("sharpness", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("components", [1, 2, 7])
def test_the_entropy_bound_is_below_the_entropy_and_near_it(components, sharpness):
    chances, weights = mixture(components, sharpness)
    exact, bound = exact_entropy(chances, weights), float(entropy_bound(COLUMNS, chances, weights))
    within = float(-(weights * (chances * chances.log()).sum(dim=1)).sum())
    assert within - 1e-5 <= bound <= exact + 1e-5
    assert exact - bound <= 0.5 * (exact - within) + 1e-5


def test_the_gradient_of_the_bound_is_that_of_finite_differences():
    chances, weights = (numbers.double().requires_grad_() for numbers in mixture(4, 1.5))
    assert torch.autograd.gradcheck(lambda p, w: entropy_bound(COLUMNS, p, w), (chances, weights))


def test_identical_components_count_as_one_in_the_bound():
    chances, weights = mixture(3, 2.0)
    once = entropy_bound(COLUMNS, chances, weights)
    twice = entropy_bound(COLUMNS, chances.repeat(2, 1), weights.repeat(2) / 2)
    assert torch.isclose(once, twice)


def test_a_fit_of_largest_entropy_guesses_triples_better_than_a_fixed_penalty():
    # A chain of columns, each near the one before: given the pairs, largest entropy is the truth for triples.
    size, records = 8, 20_000
    step = torch.softmax(-0.8 * (torch.arange(size)[:, None] - torch.arange(size)).abs(), dim=1)
    start = torch.softmax(torch.linspace(0, 1, size), dim=0)
    joint = start[:, None, None] * step[:, :, None] * step[None]
    domain = Domain(tuple(Categorical(name, tuple(range(size))) for name in "abc"))
    pairs = torch.zeros(24, 24)
    variances = torch.full((24, 24), torch.inf)
    for (a, b), table in {(0, 1): joint.sum(2), (0, 2): joint.sum(1), (1, 2): joint.sum(0)}.items():
        pairs[8 * a : 8 * a + 8, 8 * b : 8 * b + 8] = records * table
        variances[8 * a : 8 * a + 8, 8 * b : 8 * b + 8] = 20.0**2
    noise = 20.0 * torch.randn(24, 24, generator=torch.Generator().manual_seed(0))
    profile = torch.cat([joint.sum((1, 2)), joint.sum((0, 2)), joint.sum((0, 1))])
    items = item_counts(domain, records * profile, torch.full((24,), 20.0**2), emphasis=30.0)
    target = pair_counts(domain, pairs + noise.where(variances.isfinite(), noise * 0), variances)
    errors = []
    for settings in (FitSettings(60, 300, penalty=0.002), FitSettings(60, 300, misfit=0.95)):
        draws = torch.Generator().manual_seed(1)
        model = fit_moments(domain, records, Targets(profile, [items, target], None, settings), generator=draws)
        a, b, c = (model.probabilities[:, column].double() for column in (slice(0, 8), slice(8, 16), slice(16, 24)))
        predicted = torch.einsum("k,ka,kb,kc->abc", model.weights, a, b, c)
        errors.append(float((predicted - joint).abs().sum() / 2))
    assert errors[1] < 0.8 * errors[0]
