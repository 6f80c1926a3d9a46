"""The terms of the loss of a fit to moments: squared errors, divergence from the profile, entropy.

All have their gradients written out: few passes over the arrays. The entropy of a mixture of products is a
lower bound that is nearly tight: with C the component of a record X, H(X) = H(X | C) + I(X; C). The first term is
exact; for the second, the pairwise bound of Kolchinsky and Tracey (2017): minus the sum over components c of
w_c log(sum over d of w_d B(c, d)), where B(c, d), the Bhattacharyya coefficient of two components, is a product over
columns of sum_v sqrt(p_c(v) p_d(v)). Components that are alike count as one, so a fit may use as many as it likes at no
price.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_LEAST = 1e-9  # probabilities below are taken as this in logarithms
_LEAST_CHANCE, _LEAST_OVERLAP = 1e-12, 1e-30  # the same in the entropy


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


def entropy_bound(columns: Sequence[slice], probabilities: Tensor, weights: Tensor) -> Tensor:
    """At most the entropy (nats per record) of a mixture of products over table columns.

    Args:
        columns: the positions of every column; in each component their probabilities sum to 1.
        probabilities: (k, m).
        weights: (k,) shares of the components.

    >>> two = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(float(entropy_bound([slice(0, 2)], two, torch.tensor([0.5, 0.5]))), 4)
    0.6931
    """
    bound: Tensor = _EntropyBound.apply(columns, probabilities, weights)  # type: ignore[no-untyped-call]
    return bound


class _EntropyBound(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, columns: Sequence[slice], probabilities: Tensor, weights: Tensor) -> Tensor:
        chances = probabilities.clamp(min=_LEAST_CHANCE)
        logs = chances.log()
        within = -(chances * logs).sum(dim=1)
        roots = chances.sqrt_()
        overlaps = [roots[:, column] @ roots[:, column].T for column in columns]
        overlap = overlaps[0].clone()
        for other in overlaps[1:]:
            overlap *= other
        reached = (overlap @ weights).clamp_(min=_LEAST_OVERLAP)
        ctx.columns = columns
        ctx.save_for_backward(probabilities, weights, logs, within, roots, overlap, reached, *overlaps)
        return (weights * (within - reached.log())).sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, Tensor]:  # type: ignore[override]
        probabilities, weights, logs, within, roots, overlap, reached, *overlaps = ctx.saved_tensors
        drawn = weights / reached
        # Of -sum_c w_c log(sum_d w_d B(c, d)), by B(c, d) and B(d, c) together, since they are one number.
        pull = overlap * torch.outer(drawn, weights)
        pull += pull.T.clone()
        slopes = (logs + 1) * weights[:, None]
        for column, own in zip(ctx.columns, overlaps, strict=True):
            # by the roots, and of a root by its probability
            slopes[:, column] += ((pull / own) @ roots[:, column]) / (2 * roots[:, column])
        slopes *= probabilities >= _LEAST_CHANCE
        by_weights = within - reached.log() - overlap @ drawn
        return None, slopes.mul_(-gradient), by_weights * gradient
