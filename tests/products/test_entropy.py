from itertools import product

import pytest
import torch

from dpgm.data.domain import Categorical, Domain
from dpgm.products.fitting import FitSettings, Targets, entropy_bound, fit_moments
from fit_targets import item_counts, pair_counts

COLUMNS = [slice(0, 2), slice(2, 5), slice(5, 9)]


def mixture(components, sharpness, seed=0):
    draws = torch.Generator().manual_seed(seed)
    logits = sharpness * torch.randn(components, 9, generator=draws)
    chances = torch.cat([torch.softmax(logits[:, column], dim=1) for column in COLUMNS], dim=1)
    return chances, torch.softmax(torch.randn(components, generator=draws), dim=0)


def exact_entropy(chances, weights):
    """Over all possible records."""
    cells = [
        (weights * chances[:, a] * chances[:, 2 + b] * chances[:, 5 + c]).sum()
        for a, b, c in product(range(2), range(3), range(4))
    ]
    shares = torch.stack(cells).double()
    return float(-(shares * shares.clamp(min=1e-300).log()).sum())


@pytest.mark.parametrize("sharpness", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("components", [1, 2, 7])
def test_the_bound_is_below_the_entropy_and_near_it(components, sharpness):
    chances, weights = mixture(components, sharpness)
    exact, bound = exact_entropy(chances, weights), float(entropy_bound(COLUMNS, chances, weights))
    within = float(-(weights * (chances * chances.log()).sum(dim=1)).sum())
    assert within - 1e-5 <= bound <= exact + 1e-5
    assert exact - bound <= 0.5 * (exact - within) + 1e-5


def test_its_gradient_is_that_of_finite_differences():
    chances, weights = (numbers.double().requires_grad_() for numbers in mixture(4, 1.5))
    assert torch.autograd.gradcheck(lambda p, w: entropy_bound(COLUMNS, p, w), (chances, weights))


def test_components_that_are_alike_count_as_one():
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
    for rule in (FitSettings(60, 300, penalty=0.002), FitSettings(60, 300, misfit=0.95)):
        draws = torch.Generator().manual_seed(1)
        model = fit_moments(domain, records, Targets(profile, [items, target], None, rule), generator=draws)
        a, b, c = (model.probabilities[:, column].double() for column in (slice(0, 8), slice(8, 16), slice(16, 24)))
        shown = torch.einsum("k,ka,kb,kc->abc", model.weights, a, b, c)
        errors.append(float((shown - joint).abs().sum() / 2))
    assert errors[1] < 0.8 * errors[0]
