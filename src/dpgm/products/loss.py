"""The two terms of the loss of a fit to moments, each with its gradient written out: few passes over the arrays."""

from typing import Any

import torch
from torch import Tensor

_LEAST = 1e-9  # probabilities below are taken as this in logarithms


def squared_errors(predicted: Tensor, values: Tensor, records: int, weights: Tensor) -> Tensor:
    """Sum of weight x (records x predicted - value)², differentiable in `predicted`.

    >>> float(squared_errors(torch.tensor([0.5]), torch.tensor([3.0]), 10, torch.tensor([0.25])))
    1.0
    """
    total: Tensor = _SquaredErrors.apply(predicted, values, records, weights)  # type: ignore[no-untyped-call]
    return total


class _SquaredErrors(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, predicted: Tensor, values: Tensor, records: int, weights: Tensor) -> Tensor:
        off = (predicted * records).sub_(values)
        pull = off * weights
        ctx.save_for_backward(pull)
        ctx.factor = 2.0 * records
        return (off.mul_(pull)).sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        (pull,) = ctx.saved_tensors
        return pull * (gradient * ctx.factor), None, None, None


def divergences(probabilities: Tensor, log_profile: Tensor, log_rest: Tensor, free: Tensor | None) -> Tensor:
    """(k,) Kullback-Leibler divergence of every component from the profile, in nats per record.

    Args:
        probabilities: (k, m).
        log_profile: (m,) logarithms of the profile.
        log_rest: (m,) logarithms of one minus the profile.
        free: (m,) 1 for items and 0 for values of table columns; None where all are items.

    >>> profile = torch.tensor([0.5, 0.25])
    >>> found = divergences(torch.tensor([[0.5, 0.25], [1.0, 0.25]]), profile.log(), (1 - profile).log(), None)
    >>> [round(value, 3) for value in found.tolist()]
    [0.0, 0.693]
    """
    found: Tensor = _Divergences.apply(probabilities, log_profile, log_rest, free)  # type: ignore[no-untyped-call]
    return found


class _Divergences(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, probabilities: Tensor, log_profile: Tensor, log_rest: Tensor, free: Tensor | None
    ) -> Tensor:
        rest = (1 - probabilities).clamp_(min=_LEAST).log_().sub_(log_rest)
        if free is not None:
            rest.mul_(free)
        slope = probabilities.clamp(min=_LEAST).log_().sub_(log_profile).sub_(rest)
        # p a + (1 - p) b = p (a - b) + b
        divergence = rest.addcmul_(probabilities, slope).sum(dim=1)
        if free is not None:
            slope.add_(1 - free)  # of p log p alone; the two halves of an item cancel
        ctx.save_for_backward(slope)
        return divergence

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        (slope,) = ctx.saved_tensors
        return slope * gradient[:, None], None, None, None
