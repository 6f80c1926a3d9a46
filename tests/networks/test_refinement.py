"""Fitting the decoders of a mixture of VAEs to target statistics."""

import pytest
import torch

from dpgm.data.domain import Domain
from dpgm.networks.mixture import Mixture
from dpgm.networks.refinement import refine_mixture
from dpgm.networks.vae import VAE
from dpgm.products.fitting import FitSettings, Targets
from fit_targets import item_counts, length_counts, pair_counts

ITEMS, RECORDS = 6, 1000
# Half of the records have exactly the items 0, 1, 2; the others exactly 3, 4.
PAIRS = {(0, 1): 500.0, (0, 2): 500.0, (1, 2): 500.0, (3, 4): 500.0}


def planted_targets():
    profile = torch.tensor([0.5, 0.5, 0.5, 0.5, 0.5, 0.001])
    pairs = torch.zeros(ITEMS, ITEMS)
    for pair, count in PAIRS.items():
        pairs[pair] = count
    variances = torch.full((ITEMS, ITEMS), 4.0).triu(1)
    variances[variances == 0] = torch.inf
    domain = Domain.of_items(ITEMS)
    targets = [
        item_counts(domain, RECORDS * profile, torch.full((ITEMS,), 4.0)),
        pair_counts(domain, pairs, variances),
    ]
    counts = torch.tensor([0.0, 0, 500, 500, 0, 0, 0])
    lengths = length_counts(range(ITEMS), counts, torch.full((ITEMS + 1,), 4.0))
    return profile, targets, lengths


def start(clusters=2):
    model = VAE(Domain.of_items(ITEMS), (16,), 3)
    parameters = model.initial(clusters, generator=torch.Generator().manual_seed(3))
    return Mixture(model, parameters, torch.full((clusters,), 1 / clusters))


def refined(mixture, steps, seed=0):
    profile, targets, lengths = planted_targets()
    rule = FitSettings(components=12, steps=steps, penalty=0.0)
    return refine_mixture(
        mixture, RECORDS, Targets(profile, targets, lengths, rule), generator=torch.Generator().manual_seed(seed)
    )


def test_generated_records_have_the_target_pairs():
    def error(mixture):
        rows = (
            mixture.sample(RECORDS, generator=torch.Generator().manual_seed(1)).to_scipy().toarray().astype(float)
        )
        counts = rows.T @ rows
        return max(abs(counts[i, j] - PAIRS.get((i, j), 0.0)) for j in range(ITEMS) for i in range(j))

    assert error(refined(start(), steps=1)) > 100
    assert error(refined(start(), steps=400)) < 30


def test_generated_records_have_the_target_lengths():
    drawn = refined(start(), steps=400).sample(RECORDS, generator=torch.Generator().manual_seed(1))
    counts = torch.bincount(torch.from_numpy(drawn.lengths), minlength=ITEMS + 1)
    assert abs(int(counts[2]) - 500) < 50
    assert abs(int(counts[3]) - 500) < 50


def test_the_same_seed_gives_the_same_network_and_another_seed_another():
    first, again, other = refined(start(), 5), refined(start(), 5), refined(start(), 5, seed=1)
    assert all(torch.equal(tensor, again.state()[name]) for name, tensor in first.state().items())
    assert not torch.equal(first.points, other.points)


def test_the_trained_mixture_and_encoders_are_not_changed():
    mixture = start()
    before = mixture.parameters.clone()
    fitted = refined(mixture, 5)
    assert torch.equal(mixture.parameters, before)
    assert mixture.points is None
    first = mixture.model.layout.offsets["decoder.0"]
    assert torch.equal(fitted.parameters[:, :first], before[:, :first])
    assert not torch.equal(fitted.parameters[:, first:], before[:, first:])


@pytest.mark.parametrize(("clusters", "points"), [(1, 12), (5, 3)])
def test_components_are_divided_among_the_networks(clusters, points):
    fitted = refined(start(clusters), 1)
    assert fitted.points.shape == (clusters, points, 3)
    assert fitted.weights.sum().item() == pytest.approx(1)
    assert torch.allclose(fitted.point_shares.sum(dim=1), torch.ones(clusters))
