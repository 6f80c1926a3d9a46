"""Distribution of the number of ones of a product (Poisson binomial), for many components at once.

On a CPU a compiled recursion over the units. Elsewhere (an accelerator, a machine without numba) the characteristic
function, exact for the likely items and a short series in power sums for the unlikely ones, and one inverse FFT.
"""

import math
from typing import Any

import torch
from torch import Tensor

from dpgm.compute.compiled import HAS_NUMBA
from dpgm.compute.length_kernel import poisson_binomial
from dpgm.products.rules import SAMPLING


def length_law(chances: Tensor, longest: int) -> Tensor:
    """(k, longest + 1): probability of 0 .. longest ones, given (k, u) chances of independent zero-one units.

    Lengths beyond `longest` fold back, so `longest` should leave some room. Differentiable in `chances`.

    >>> length_law(torch.tensor([[0.5, 0.5]]), 3).round(decimals=3).tolist()
    [[0.25, 0.5, 0.25, 0.0]]
    """
    law: Tensor = _LengthLaw.apply(chances, longest)  # type: ignore[no-untyped-call]
    return law


class _LengthLaw(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, chances: Tensor, longest: int) -> Tensor:
        recursive = HAS_NUMBA and chances.device.type == "cpu" and chances.dtype == torch.float32
        law = _law_by_recursion(chances, longest) if recursive else _law_by_transform(chances, longest)
        ctx.save_for_backward(chances, law)
        return law

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        chances, law = ctx.saved_tensors
        # d/dp E[G(n)] = E[G(1 + r) - G(r)], r = ones among the other units; exact for p = 0 (r = n) and
        # p = 1 (r = n - 1), interpolated between.
        rise = gradient[:, 1:] - gradient[:, :-1]
        without = (law[:, :-1] * rise).sum(dim=1, keepdim=True)
        within = (law[:, 1:] * rise).sum(dim=1, keepdim=True)
        return without + chances * (within - without), None


def _law_by_recursion(chances: Tensor, longest: int) -> Tensor:
    law = torch.empty(len(chances), longest + 1)
    poisson_binomial(chances.detach().contiguous().numpy(), law.numpy())
    return law


def _law_by_transform(chances: Tensor, longest: int) -> Tensor:
    size = longest + 1
    angles = torch.arange(size // 2 + 1, dtype=torch.float32) * (-2 * math.pi / size)
    turn = torch.complex(angles.cos() - 1, angles.sin())
    likely = int((chances > SAMPLING.series_below).sum(dim=1).max()) if chances.numel() else 0
    if 2 * likely < chances.shape[1]:
        large = chances.topk(likely, dim=1).values
        small = torch.where(chances > SAMPLING.series_below, chances.new_zeros(()), chances)
        # entries of `large` at or below the limit are in the series already
        large = torch.where(large > SAMPLING.series_below, large, large.new_zeros(()))
        exponent = torch.zeros(len(chances), len(turn), dtype=torch.complex64)
        power, factor = small, turn
        for degree in range(1, 5):
            sign = 1.0 if degree % 2 else -1.0
            exponent += (sign / degree) * power.sum(dim=1)[:, None] * factor
            power, factor = power * small, factor * turn
        transform = exponent.exp()
    else:
        large = chances
        transform = torch.ones(len(chances), len(turn), dtype=torch.complex64)
    for start in range(0, large.shape[1], 64):
        transform = transform * (1 + large[:, start : start + 64, None] * turn).prod(dim=1)
    law: Tensor = torch.fft.irfft(transform, n=size, dim=1)
    return law.clamp(min=0)
