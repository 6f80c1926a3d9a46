"""The privacy loss distribution of one mechanism, on a grid of losses that dominates it.

"Connect the dots" (Doroshenko et al. 2022): the mass between two grid points moves to its two ends so that both the
mass under P and the mass under Q stay what they were. The result dominates the mechanism, so every epsilon computed
from it is an upper bound. The construction is that of dp-accounting's PLD (the tests hold one against the other); it
is written out here because a grid fine enough for small sampling rates takes that library minutes and gigabytes.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpgm.arrays import Floats


@dataclass(frozen=True)
class Loss:
    """Masses at losses (first + i) * grid, and the mass at infinity; to be composed `times` times."""

    grid: float
    first: int
    masses: Floats
    infinity: float
    times: int = 1

    @property
    def losses(self) -> Floats:
        """The losses the masses sit at."""
        return grid_points(self.first, len(self.masses), self.grid)


@dataclass(frozen=True)
class Pair:
    """Outcomes of a mechanism with a record and without it, `times` over, in one order.

    Without the record the outcome is N(0, 1); with it, N(mu, 1) with probability `rate` and N(0, 1) otherwise.
    "Remove" takes the loss of the former against the latter under the former, "add" the reverse.
    """

    mu: float
    rate: float
    times: int
    remove: bool

    def reach(self, tail: float) -> tuple[float, float]:
        """The lowest and the highest loss, leaving out outcomes of probability `tail` at either end."""
        from scipy.special import ndtri

        far = float(-ndtri(tail / 2))
        if not self.remove:
            low, high = _loss_at(np.array([-far, far]), self.mu, self.rate)
            return -float(high), -float(low)
        # Outcomes with the record are rare themselves, so their own tail need not be followed as far.
        farther = self.mu - float(ndtri(min(0.5, tail / 2 / self.rate)))
        low, high = _loss_at(np.array([-far, max(far, farther)]), self.mu, self.rate)
        return float(low), float(high)

    @property
    def runs(self) -> int:
        """How many outcomes are drawn in all."""
        return self.times

    def width(self, tail: float) -> float:
        """How far the losses of one run reach."""
        low, high = self.reach(tail)
        return high - low

    def variance(self, tail: float) -> float:
        """Variance of the composed loss, roughly."""
        return self.times * _variance_of_one(self, tail)

    def added_variance(self, grid: float, tail: float) -> float:
        """About grid²/6 for each loss, less where losses are far smaller than the grid."""
        return self.times * grid * min(grid / 6, math.sqrt(_variance_of_one(self, tail)))

    def on_grid(self, grid: float, tail: float) -> Loss:
        """The loss, connected to the dots of a grid."""
        from scipy.special import ndtr

        low, high = self.reach(tail)
        first, last = math.floor(low / grid), math.ceil(high / grid)
        edges = grid_points(first, last - first + 1, grid)
        start = edges[:-1]
        rate = self.rate
        if self.remove:
            points = _outcome_of(edges, self.mu, rate)
            without, shifted = _masses_between(points), _masses_between(points - self.mu)
            mass = (1 - rate) * without + rate * shifted
            # P - e^loss Q at the lower end of each interval, without cancelling what P and Q share.
            surplus = rate * shifted - (np.expm1(start) + rate) * without
            below = (1 - rate) * ndtr(points[0]) + rate * ndtr(points[0] - self.mu)
            above = (1 - rate) * ndtr(-points[-1]) + rate * ndtr(self.mu - points[-1])
        else:  # the highest loss belongs to the lowest outcome
            points = _outcome_of(-edges, self.mu, rate)[::-1]
            mass, shifted = _masses_between(points)[::-1], _masses_between(points - self.mu)[::-1]
            surplus = -np.expm1(start) * mass - np.exp(start) * rate * (shifted - mass)
            below, above = ndtr(-points[-1]), ndtr(points[0])
        upper = np.clip(surplus / -math.expm1(-grid), 0.0, mass)
        masses = np.zeros(len(edges))
        masses[:-1] += mass - upper
        masses[1:] += upper
        masses[0] += below  # losses below the grid are rounded up to its first point
        return Loss(grid, first, masses, float(above), self.times)


def grid_points(first: int, count: int, grid: float) -> Floats:
    """`count` multiples of the grid, from number `first` on."""
    points: Floats = (first + np.arange(count, dtype=np.float64)) * grid
    return points


def _loss_at(outcome: Floats, mu: float, rate: float) -> Floats:
    """log(1 - rate + rate e^(mu x - mu²/2)), without overflow."""
    exponent = mu * outcome - mu * mu / 2
    if rate == 1.0:
        return exponent
    small, large = np.minimum(exponent, 1), np.maximum(exponent, 1)
    return np.where(
        exponent > 1,
        math.log(rate) + large + np.log1p((1 - rate) / rate * np.exp(-large)),
        np.log1p(rate * np.expm1(small)),
    )


def _outcome_of(loss: Floats, mu: float, rate: float) -> Floats:
    """The outcome that has this loss; -inf where every outcome has a higher one."""
    if rate == 1.0:
        return loss / mu + mu / 2
    with np.errstate(divide="ignore"):
        small = np.log1p(np.maximum(np.expm1(np.minimum(loss, 1)) / rate, -1.0))
    large = loss - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(loss, 1)))
    return np.where(loss > 1, large, small) / mu + mu / 2


def _masses_between(points: Floats) -> Floats:
    """Normal mass between neighbouring points, from the tail it lies in so that small masses keep their digits."""
    from scipy.special import ndtr

    masses = np.where(points[:-1] < 0, np.diff(ndtr(points)), -np.diff(ndtr(-points)))
    return np.maximum(masses, 0.0)


@lru_cache(maxsize=64)
def _variance_of_one(pair: Pair, tail: float) -> float:
    loss = pair.on_grid(pair.width(tail) / 4096, tail)
    mean = np.average(loss.losses, weights=loss.masses)
    return float(np.average((loss.losses - mean) ** 2, weights=loss.masses))
