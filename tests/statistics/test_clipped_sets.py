from itertools import combinations

import pytest
import torch

from dpgm.statistics.clipped_sets import moments


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
