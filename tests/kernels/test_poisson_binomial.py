"""The distribution of record lengths compared with direct convolution."""

import numpy as np
import pytest
import torch

from dpgm.kernels.poisson_binomial import by_transform, length_distribution


def exact_distribution(chances, longest):
    found = np.zeros(longest + 1)
    found[0] = 1
    for chance in chances:
        found[1:] = found[1:] * (1 - chance) + found[:-1] * chance
        found[0] *= 1 - chance
    return found


@pytest.mark.parametrize("width", [1, 12, 200])
def test_the_distribution_of_lengths_equals_direct_convolution(width):
    chances = torch.rand(5, width, generator=torch.Generator().manual_seed(1)) ** 8
    chances[:, 0] = 1.0
    found = length_distribution(chances, 63).numpy()
    expected = np.stack([exact_distribution(row, 63) for row in chances.double().numpy()])
    assert np.abs(found - expected).max() < 1e-6
    assert np.abs(by_transform(chances, 63).numpy() - expected).max() < 2e-4  # without numba


def test_lengths_beyond_the_longest_wrap_around_in_both_methods():
    chances = torch.rand(4, 40, generator=torch.Generator().manual_seed(2))
    assert torch.allclose(length_distribution(chances, 15), by_transform(chances, 15), atol=1e-6)


def test_the_distribution_of_lengths_has_the_right_gradient():
    chances = (torch.rand(3, 150, generator=torch.Generator().manual_seed(1)) ** 8).requires_grad_()
    lengths = torch.arange(64.0)
    (length_distribution(chances, 63) @ lengths).sum().backward()
    assert torch.allclose(chances.grad, torch.ones_like(chances), atol=1e-3)  # the mean grows by 1 per unit chance
