import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.models.products import Products
from dpgm.training.targets import CentredTarget

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
    shown = target.shown(chances, weights, target.scaling(DOMAIN)(chances)).numpy()

    drawn = Products(DOMAIN, weights.double(), chances).sample(400_000, generator=draws).to_dense(np.float32)
    centred = drawn - offsets.numpy()
    kept = np.minimum(1, limit / (centred**2).sum(axis=1))
    wanted = (centred * kept[:, None]).T @ centred / len(drawn)
    measured = np.ones((33, 33), dtype=bool)
    measured[30:, 30:] = False
    np.fill_diagonal(measured, False)
    assert np.abs(shown - wanted)[measured].max() < 0.004
    assert np.abs(wanted[measured]).max() > 0.02 * min(limit, 10)
