"""Reweights a pool of records to released statistics by maximum entropy. Sees released values only, never data.

A record x of the pool gets a weight proportional to base(x) exp(theta . f(x)), where f(x) is what x adds to the
released sums, down-weighting of long or odd records included: so no clipping biases the result. theta minimises

    N log Z(theta) - theta . y + sum of ridge sigma² theta² / 2,

with Z the sum over the pool of base(x) exp(theta . f(x)). That is convex. y are the
noisy sums over N records, sigma the standard deviations of their noise. At the minimum each sum over the weighted pool
misses its noisy value by ridge sigma² theta. Parameters are scaled by the curvature at the start, so that L-BFGS sees
sums of common and of rare cells alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dpgm.tilting.rules import TILT_RULES, TiltRules

_LEAST_STD = 1e-9  # of a statistic without noise
_LEAST_SLOPE = 1e-6  # of a statistic that does not vary over the pool


class PoolFeatures(Protocol):
    """What every record of a pool adds to the sums of one statistic: a matrix that is never written out."""

    def energies(self, theta: Tensor) -> Tensor:
        """(n,): theta . f(x) for every record x of the pool."""
        ...

    def sums(self, weights: Tensor) -> Tensor:
        """(k,): the sum over the pool of weight x f(x)."""
        ...

    def squares(self, weights: Tensor) -> Tensor:
        """(k,): the sum over the pool of weight x f(x)²."""
        ...


@dataclass(frozen=True)
class Released:
    """The noisy sums of one statistic, with the same statistic on the pool.

    `std` is the standard deviation of the noise: of all numbers, or of each. The larger `ridge`, of all or of each, the
    further the tilt may stay from the noisy values.
    """

    features: PoolFeatures
    values: Tensor
    std: float | Tensor
    ridge: float | Tensor


@dataclass(frozen=True)
class Tilt:
    """The parameters of every statistic, the normalised logarithms of the weights of the pool, and the log of Z."""

    parameters: tuple[Tensor, ...]
    log_weights: Tensor
    log_total: float


def tilt(
    released: Sequence[Released],
    log_base: Tensor,
    records: int,
    rules: TiltRules = TILT_RULES,
    progress: Callable[[float], None] | None = None,
    start: Sequence[Tensor] | None = None,
) -> Tilt:
    """The weights of largest entropy, relative to the base, whose sums are near the released ones.

    `start` are parameters from which the search starts, by default 0.
    """
    values = torch.cat([one.values.double().flatten() for one in released])
    stds = torch.cat([_stds(one) for one in released])
    ridges = torch.cat([_each(one.ridge, one) for one in released])
    sizes = [one.values.numel() for one in released]
    base = log_base.double()
    first = torch.zeros_like(values) if start is None else torch.cat([one.double().flatten() for one in start])
    # In units of the noise a gradient is a residual in standard deviations; `curvature` is the root of its slope.
    curvature = _curvature(released, torch.split(first, sizes), base, records, stds, ridges)
    unknown = (first * stds * curvature).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [unknown],
        max_iter=rules.iterations,
        history_size=rules.history,
        tolerance_grad=rules.matched,
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )
    calls = 0

    @torch.no_grad()
    def loss() -> Tensor:
        nonlocal calls
        calls += 1
        scaled = unknown / curvature
        theta = scaled / stds
        logs = _log_weights(released, torch.split(theta, sizes), base)
        log_z = torch.logsumexp(logs, 0)
        weights = records * (logs - log_z).exp()
        sums = torch.cat([one.features.sums(weights).flatten() for one in released])
        unknown.grad = ((sums - values) / stds + ridges * scaled) / curvature
        if progress is not None:
            progress(min(1.0, calls / rules.iterations))
        return records * log_z - theta @ values + 0.5 * (ridges * scaled**2).sum()

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    parameters = tuple(part.clone() for part in torch.split(unknown.detach() / curvature / stds, sizes))
    logs = _log_weights(released, parameters, base)
    log_total = torch.logsumexp(logs, 0)
    return Tilt(parameters, logs - log_total, float(log_total))


def _curvature(
    released: Sequence[Released],
    parameters: Sequence[Tensor],
    base: Tensor,
    records: int,
    stds: Tensor,
    ridges: Tensor,
) -> Tensor:
    """The root of the second derivative of the loss by each parameter in units of its noise."""
    weights = torch.softmax(_log_weights(released, parameters, base), 0)
    sums = torch.cat([one.features.sums(weights).flatten() for one in released])
    squares = torch.cat([one.features.squares(weights).flatten() for one in released])
    return (records * (squares - sums**2).clamp(min=0) / stds**2 + ridges).sqrt().clamp(min=_LEAST_SLOPE)


def _log_weights(released: Sequence[Released], parameters: Sequence[Tensor], base: Tensor) -> Tensor:
    logs = base.clone()
    for one, theta in zip(released, parameters, strict=True):
        logs += one.features.energies(theta)
    return logs


def _stds(released: Released) -> Tensor:
    return _each(released.std, released).clamp(min=_LEAST_STD)


def _each(given: float | Tensor, released: Released) -> Tensor:
    return torch.as_tensor(given, dtype=torch.float64).expand(released.values.shape).flatten()
