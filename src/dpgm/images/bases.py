"""Smooth bases of images: cosine coefficients, and fields of small displacements."""

import math

import torch
from torch import Tensor


def cosine_basis(size: int) -> Tensor:
    """The orthonormal cosine transform of a line of `size` pixels, one row per frequency."""
    position = (torch.arange(size, dtype=torch.float64) + 0.5) / size
    basis = torch.cos(math.pi * torch.arange(size, dtype=torch.float64)[:, None] * position)
    basis *= math.sqrt(2 / size)
    basis[0] /= math.sqrt(2)
    return basis.float()


def cosine_images(height: int, columns: int, chosen: Tensor) -> Tensor:
    """The waves (chosen, pixels) of chosen cosine coefficients, numbered row by row."""
    vertical = cosine_basis(height)[torch.div(chosen, columns, rounding_mode="floor")]
    horizontal = cosine_basis(columns)[chosen % columns]
    return (vertical[:, :, None] * horizontal[:, None, :]).flatten(1)


def squared_frequencies(height: int, columns: int) -> Tensor:
    """f1² + f2² of every cosine coefficient, in half waves per image side (of equal area when not square)."""
    side = math.sqrt(height * columns)
    vertical = torch.arange(height, dtype=torch.float32) * (side / height)
    horizontal = torch.arange(columns, dtype=torch.float32) * (side / columns)
    return vertical[:, None] ** 2 + horizontal**2


def displacement_basis(height: int, columns: int, order: int) -> Tensor:
    """Fields (k, height, columns, 2) that move pixels: the six of an affine map, then waves up to `order`.

    The first coordinate is horizontal, in half image sides, as `grid_sample` counts.
    """
    y = ((torch.arange(height) * 2 + 1) / height - 1)[:, None].expand(height, columns)
    x = ((torch.arange(columns) * 2 + 1) / columns - 1)[None, :].expand(height, columns)
    scalars = [x, y, torch.ones(height, columns)]
    for vertical in range(order + 1):
        for horizontal in range(order + 1):
            if vertical + horizontal >= 2:
                wave = torch.cos(math.pi * vertical * (y + 1) / 2) * torch.cos(math.pi * horizontal * (x + 1) / 2)
                scalars.append(wave / (vertical + horizontal))
    zero = torch.zeros(height, columns)
    fields = [torch.stack([scalar, zero], dim=-1) for scalar in scalars]
    fields += [torch.stack([zero, scalar], dim=-1) for scalar in scalars]
    return torch.stack(fields)


def resting_grid(height: int, columns: int) -> Tensor:
    """The grid (height, columns, 2) that moves nothing."""
    y = (torch.arange(height) * 2 + 1) / height - 1
    x = (torch.arange(columns) * 2 + 1) / columns - 1
    return torch.stack([x.expand(height, columns), y[:, None].expand(height, columns)], dim=-1)
