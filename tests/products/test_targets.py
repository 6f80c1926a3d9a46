import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.products.model import Products
from dpgm.products.targets import CentredTarget, ScaledItemTarget

DOMAIN = Domain((ItemSet("items", tuple(range(30))), Categorical("colour", ("red", "green", "blue"))))


@pytest.mark.parametrize("limit", [3.0, 6.0, 100.0])
def test_centred_moments_are_those_of_drawn_records(limit):
    draws = torch.Generator().manual_seed(0)
    chances = torch.rand((4, 33), generator=draws)
    chances[:, 30:] /= chances[:, 30:].sum(dim=1, keepdim=True)
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4])
    offsets = (torch.rand(33, generator=draws) * 16).round() / 16
    owners = torch.tensor([*range(30), 30, 30, 30])
    unused = torch.zeros(33, 33)
    target = CentredTarget(torch.arange(33), owners, offsets, limit, unused, unused, unused)
    predicted = target.predicted(chances, weights, target.scaling(DOMAIN)(chances)).numpy()

    drawn = Products(DOMAIN, weights.double(), chances).sample(400_000, generator=draws).to_dense(np.float32)
    centred = drawn - offsets.numpy()
    kept = np.minimum(1, limit / (centred**2).sum(axis=1))
    wanted = (centred * kept[:, None]).T @ centred / len(drawn)
    measured = np.ones((33, 33), dtype=bool)
    measured[30:, 30:] = False
    np.fill_diagonal(measured, False)
    assert np.abs(predicted - wanted)[measured].max() < 0.004
    assert np.abs(wanted[measured]).max() > 0.02 * min(limit, 10)


@pytest.mark.parametrize("limit", [0.3, 1.0, 3.0, 100.0])
@pytest.mark.parametrize("likely", [0.1, 0.9])
def test_scaled_items_are_those_of_drawn_records(limit, likely):
    draws = torch.Generator().manual_seed(0)
    domain = Domain.of_items(40)
    chances = likely * torch.rand((4, 40), generator=draws)
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4])
    scales = (1 + 15 * torch.rand(40, generator=draws)).round() / 16
    offsets = (weights @ chances * 16).round() / 16
    unused = torch.zeros(40)
    target = ScaledItemTarget(scales, offsets, limit, unused, unused, unused)
    predicted = target.predicted(chances, weights, target.scaling(domain)(chances)).numpy()

    drawn = Products(domain, weights.double(), chances).sample(100_000, generator=draws).to_dense(np.float32)
    scaled = (drawn - offsets.numpy()) * scales.numpy()
    kept = np.sqrt(np.minimum(1, limit / (scaled**2).sum(axis=1).clip(1e-9)))
    wanted = (scaled * kept[:, None]).mean(axis=0)
    assert np.abs(predicted - wanted).max() < 0.002
    assert np.abs(wanted).max() > 0.008
