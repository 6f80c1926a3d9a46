"""Reweights a pool of records to released statistics by maximum entropy. Sees released values only, never data.

A record x of the pool gets a weight proportional to base(x) exp(theta . f(x)), where f(x) is what x adds to the
released sums, down-weighting of long or odd records included: so no clipping biases the result. theta minimises

    N log Z(theta) - theta . y + sum of ridge sigma² theta² / 2,

with Z the sum over the pool of base(x) exp(theta . f(x)). That is convex. y are the
noisy sums over N records, sigma the standard deviations of their noise. At the minimum each sum over the weighted pool
misses its noisy value by ridge sigma² theta.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dpgm.tilting.rules import TILT_RULES, TiltRules

_LEAST_STD = 1e-9  # of a statistic without noise


class PoolFeatures(Protocol):
    """What every record of a pool adds to the sums of one statistic: a matrix that is never written out."""

    def energies(self, theta: Tensor) -> Tensor:
        """(n,): theta . f(x) for every record x of the pool."""
        ...

    def sums(self, weights: Tensor) -> Tensor:
        """(k,): the sum over the pool of weight x f(x)."""
        ...


@dataclass(frozen=True)
class Released:
    """The noisy sums of one statistic, with the same statistic on the pool.

    `std` is the standard deviation of the noise: of all numbers, or of each. The larger `ridge`, the further the tilt
    may stay from the noisy values.
    """

    features: PoolFeatures
    values: Tensor
    std: float | Tensor
    ridge: float


@dataclass(frozen=True)
class Tilt:
    """The parameters of every statistic, and the normalised logarithms of the weights of the pool."""

    parameters: tuple[Tensor, ...]
    log_weights: Tensor


def tilt(
    released: Sequence[Released],
    log_base: Tensor,
    records: int,
    rules: TiltRules = TILT_RULES,
    progress: Callable[[float], None] | None = None,
) -> Tilt:
    """The weights of largest entropy, relative to the base, whose sums are near the released ones."""
    values = torch.cat([one.values.double().flatten() for one in released])
    stds = torch.cat([_stds(one) for one in released])
    ridges = torch.cat([torch.full((one.values.numel(),), one.ridge, dtype=torch.float64) for one in released])
    sizes = [one.values.numel() for one in released]
    base = log_base.double()
    # Parameters are kept in units of the noise: a gradient is a residual in standard deviations.
    scaled = torch.zeros(len(values), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [scaled],
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
        theta = scaled / stds
        logs = _log_weights(released, torch.split(theta, sizes), base)
        log_z = torch.logsumexp(logs, 0)
        weights = records * (logs - log_z).exp()
        sums = torch.cat([one.features.sums(weights).flatten() for one in released])
        scaled.grad = (sums - values) / stds + ridges * scaled
        if progress is not None:
            progress(min(1.0, calls / rules.iterations))
        return records * log_z - theta @ values + 0.5 * (ridges * scaled**2).sum()

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    parameters = tuple(part.clone() for part in torch.split(scaled.detach() / stds, sizes))
    logs = _log_weights(released, parameters, base)
    return Tilt(parameters, logs - torch.logsumexp(logs, 0))


def _log_weights(released: Sequence[Released], parameters: Sequence[Tensor], base: Tensor) -> Tensor:
    logs = base.clone()
    for one, theta in zip(released, parameters, strict=True):
        logs += one.features.energies(theta)
    return logs


def _stds(released: Released) -> Tensor:
    given = torch.as_tensor(released.std, dtype=torch.float64).clamp(min=_LEAST_STD)
    return given.expand(released.values.shape).flatten()
