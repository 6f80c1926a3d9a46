import numpy as np
import torch

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.products.fitting import FitSettings, Targets, fit_moments, with_profile
from dpgm.products.model import Products, joined
from dpgm.statistics.item_counts import moments
from fit_targets import item_counts, length_counts, pair_counts


def test_a_fit_shows_the_pairs_it_is_given():
    domain = Domain((ItemSet("items", (0, 1)), Categorical("colour", ("red", "green"))))
    profile = torch.tensor([0.5, 0.5, 0.5, 0.5])
    wanted = torch.zeros(4, 4)
    wanted[0, 1], wanted[0, 2], wanted[0, 3], wanted[1, 2], wanted[1, 3] = 450.0, 400.0, 100.0, 400.0, 100.0
    variances = torch.where(wanted > 0, 1.0, torch.inf)
    targets = [
        item_counts(domain, 1000 * profile, torch.ones(4)),
        pair_counts(domain, wanted, variances),
    ]
    rule = FitSettings(components=6, steps=400, penalty=0.0)
    model = fit_moments(
        domain, 1000, Targets(profile, targets, None, rule), generator=torch.Generator().manual_seed(0)
    )
    chances, weights = model.probabilities, model.weights.float()
    shown = 1000 * moments(2, chances, weights, torch.ones(6), torch.zeros(6))
    assert (shown - wanted)[wanted > 0].abs().max() < 10
    assert (1000 * weights @ chances - 500).abs().max() < 5
    assert torch.allclose(chances[:, 2:].sum(dim=1), torch.ones(6), atol=1e-5)


def test_a_fit_shows_how_many_of_some_items_records_hold():
    domain, profile, few = Domain.of_items(8), torch.full((8,), 0.5), torch.tensor([1, 3, 6])
    wanted = torch.tensor([450.0, 50.0, 50.0, 450.0])
    targets = [
        item_counts(domain, 1000 * profile, torch.ones(8)),
        length_counts(few.tolist(), wanted, torch.ones(4)),
    ]
    rule = FitSettings(components=6, steps=400, penalty=0.0)
    model = fit_moments(
        domain, 1000, Targets(profile, targets, None, rule), generator=torch.Generator().manual_seed(0)
    )
    held = model.sample(1000, generator=torch.Generator().manual_seed(0)).to_dense()[:, few.numpy()].sum(axis=1)
    assert np.abs(np.bincount(held.astype(int), minlength=4) - wanted.numpy()).max() < 30


def test_single_values_are_brought_to_the_profile_and_pairs_hardly_move():
    domain = Domain((Categorical("a", (0, 1, 2)), Categorical("b", (0, 1, 2, 3))))
    draws = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 7, generator=draws)
    chances = torch.cat([torch.softmax(logits[:, :3], 1), torch.softmax(logits[:, 3:], 1)], dim=1)
    model = Products(domain, torch.full((6,), 1 / 6, dtype=torch.float64), chances)
    shown = model.weights @ chances.double()
    profile = shown * (1 + 0.1 * torch.randn(7, generator=draws, dtype=torch.float64))
    profile[:3] /= profile[:3].sum()
    profile[3:] /= profile[3:].sum()
    met = with_profile(model, profile.float(), 50)
    assert torch.allclose(met.weights @ met.probabilities.double(), profile, atol=1e-5)
    sums = met.probabilities[:, :3].sum(1), met.probabilities[:, 3:].sum(1)
    assert all(torch.allclose(total, torch.ones(6)) for total in sums)
    before, after = (
        one.probabilities.T.double() @ (one.weights[:, None] * one.probabilities) for one in (model, met)
    )
    ratio = (after[:3, 3:] / before[:3, 3:]) / (profile[:3, None] / shown[:3, None] * profile[3:] / shown[3:])
    assert float((ratio - 1).abs().max()) < 0.05  # the dependence of a and b is what it was


def test_a_fitted_table_shows_the_measured_shares_of_single_values():
    domain = Domain(tuple(Categorical(f"c{at}", tuple(range(9))) for at in range(4)))
    profile = torch.from_numpy(np.random.default_rng(0).dirichlet(np.ones(9), 4).ravel()).float()
    rule = FitSettings(components=8, steps=5, misfit=0.95)
    fitted = fit_moments(domain, 1000, Targets(profile, [], None, rule), generator=torch.Generator().manual_seed(0))
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
