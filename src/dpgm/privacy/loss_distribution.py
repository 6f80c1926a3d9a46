"""The privacy loss distribution: exact up to a grid that is refined until it no longer matters.

Each mechanism is put on a grid of privacy losses by "connect the dots" (Doroshenko et al. 2022): the mass between
two grid points moves to its two ends so that both the mass under P and the mass under Q stay what they were. The
result dominates the mechanism, so every epsilon here is an upper bound. Composition is one product of Fourier
transforms, taken under an exponential tilt so that a delta of 1e-12 keeps as many digits as one of 1e-3. The
construction is that of dp-accounting's PLD (the tests hold one against the other); it is written out here because a
grid fine enough for small sampling rates takes that library minutes and gigabytes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

# A grid error below this share of epsilon is not worth a finer grid; epsilon may come out that much too high.
GRID_TOLERANCE = 2e-4
FIRST_POINTS = 2**14
MOST_POINTS = 2**22
# What cutting off tails may add to delta, as a share of delta.
TAIL_SHARE = 1e-6
# Mass of the tilted distribution that may fall outside the Fourier window.
WINDOW_MASS = 1e-14


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
        return _grid_points(self.first, len(self.masses), self.grid)


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

        far = float(-ndtri(tail))
        low, high = _loss_at(np.array([-far, far + self.mu]), self.mu, self.rate)
        return (float(low), float(high)) if self.remove else (-float(high), -float(low))

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
        edges = _grid_points(first, last - first + 1, grid)
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


def _grid_points(first: int, count: int, grid: float) -> Floats:
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


class _Tilted:
    """A loss with its masses multiplied by e^(tilt * loss) and normalised."""

    def __init__(self, loss: Loss, tilt: float) -> None:
        with np.errstate(divide="ignore"):
            logs = np.log(loss.masses) + tilt * loss.losses
        peak = float(logs.max())
        weights = np.exp(logs - peak)
        total = float(weights.sum())
        self.weights = weights / total
        self.log_moment = peak + math.log(total)
        self.times = loss.times
        self.first = loss.first
        self._index = np.arange(len(weights), dtype=np.float64)

    @cached_property
    def mean(self) -> float:
        return float(np.dot(self._index, self.weights))

    @cached_property
    def variance(self) -> float:
        return float(np.dot((self._index - self.mean) ** 2, self.weights))

    @cached_property
    def _thinned(self) -> tuple[Floats, Floats]:
        """Neighbours grouped, for a first look at moments."""
        thin = max(1, len(self.weights) // 4096)
        starts = np.arange(0, len(self.weights), thin)
        return np.add.reduceat(self.weights, starts), starts.astype(np.float64) - self.mean

    def log_moment_at(self, order: float, exact: bool) -> float:
        """The logarithm of E[e^(order (index - mean))]."""
        weights, index = (self.weights, self._index - self.mean) if exact else self._thinned
        with np.errstate(divide="ignore"):
            logs = np.log(weights) + order * index
        peak = float(logs.max())
        return peak + math.log(float(np.exp(logs - peak).sum()))

    def spectrum(self, size: int) -> NDArray[np.complex128]:
        """Fourier transform of the weights about their mean, composed, folded into `size` points."""
        from scipy import fft

        places = (np.arange(len(self.weights)) - round(self.mean)) % size
        transform: NDArray[np.complex128] = fft.rfft(np.bincount(places, self.weights, minlength=size))
        return transform**self.times


class Composed:
    """A composed loss: tilted masses on a window, with what lies outside bounded from above."""

    def __init__(
        self, grid: float, first: int, masses: Floats, infinity: float, tilt: float = 0.0, log_moment: float = 0.0
    ) -> None:
        self.grid, self.first, self.masses, self.infinity = grid, first, masses, infinity
        losses = _grid_points(first, len(masses), grid)
        # Sums from the top, relative to a loss in the middle so that nothing overflows where it matters.
        self._reference = float(losses[len(losses) // 2])
        self._log_scale = log_moment - tilt * self._reference
        gaps = losses - self._reference
        shares = masses * np.exp(np.minimum(-tilt * gaps, 600.0))
        self._upper = np.append(np.cumsum(shares[::-1])[::-1], 0.0)
        self._lower = np.append(np.cumsum((shares * np.exp(np.minimum(-gaps, 100.0)))[::-1])[::-1], 0.0)

    def delta(self, epsilon: float) -> float:
        """The hockey-stick divergence at epsilon."""
        upper, lower = self._sums_above(epsilon)
        return min(1.0, max(0.0, upper - lower) + self.infinity)

    def slope(self, epsilon: float) -> float:
        """How fast log(delta) falls at epsilon."""
        upper, lower = self._sums_above(epsilon)
        return lower / max(upper - lower, 1e-300)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon >= 0 with divergence at most delta."""
        if self.infinity >= delta:
            return math.inf
        start = max(0, -self.first)
        gaps = (self.first + np.arange(start, len(self._upper))) * self.grid - self._reference
        target = (delta - self.infinity) * _exp(-self._log_scale)
        # The divergence at each grid point; the last one above the target brackets epsilon from below.
        above = np.flatnonzero(self._upper[start:] - np.exp(np.minimum(gaps, 700.0)) * self._lower[start:] > target)
        if len(above) == 0:
            return 0.0
        place = start + int(above[-1]) + 1
        upper, lower = self._upper[place], self._lower[place]
        if lower <= 0:
            return float(gaps[-1]) + self._reference
        return max(0.0, self._reference + math.log(max(upper - target, 1e-300) / lower))

    def _sums_above(self, epsilon: float) -> tuple[float, float]:
        place = min(max(0, math.floor(epsilon / self.grid) + 1 - self.first), len(self._upper) - 1)
        scale = _exp(self._log_scale)
        return scale * self._upper[place], scale * _exp(epsilon - self._reference) * self._lower[place]


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))


def compose(losses: Sequence[Loss], tilt: float) -> Composed:
    """All losses composed, each as often as it says, seen under the tilt."""
    from scipy import fft

    parts = [_Tilted(loss, tilt) for loss in losses]
    low, high, lost = _window(parts)
    size = int(fft.next_fast_len(high - low + 1, real=True))
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for part in parts:
        spectrum *= part.spectrum(size)
    centre = sum(part.times * (part.first + round(part.mean)) for part in parts)
    masses = np.roll(fft.irfft(spectrum, size), centre - low)
    log_moment = sum(part.times * part.log_moment for part in parts)
    grid = losses[0].grid
    infinity = -math.expm1(sum(loss.times * math.log1p(-loss.infinity) for loss in losses))
    infinity += lost * _exp(log_moment - tilt * high * grid)  # at most this lies above the window, untilted
    return Composed(grid, low, masses, infinity, tilt, log_moment)


def _window(parts: Sequence[_Tilted]) -> tuple[int, int, float]:
    """Indices that hold almost all tilted mass, by Chernoff bounds, and what may lie above them."""
    mean = sum(part.times * (part.first + part.mean) for part in parts)
    lowest = sum(part.times * part.first for part in parts)
    highest = sum(part.times * (part.first + len(part.weights) - 1) for part in parts)
    spread = math.sqrt(sum(part.times * part.variance for part in parts)) + 1e-3
    cut = -math.log(WINDOW_MASS)

    def distance(order: float, exact: bool) -> float:
        moments = sum(part.times * part.log_moment_at(order, exact) for part in parts)
        return (moments + cut) / abs(order)

    orders = [math.sqrt(2 * cut) / spread * 2.0**power for power in range(-14, 3)]
    upwards = min(orders, key=lambda order: distance(order, exact=False))
    downwards = min(orders, key=lambda order: distance(-order, exact=False))
    high = math.ceil(mean + distance(upwards, exact=True))
    low = max(lowest, math.floor(mean - distance(-downwards, exact=True)))
    return (low, highest, 0.0) if high >= highest else (low, high, WINDOW_MASS)


class Part(Protocol):
    """Something that can be put on a grid of losses and composed."""

    def width(self, tail: float) -> float:
        """How far the losses of one run reach, leaving out outcomes of probability `tail` at either end."""
        ...

    def variance(self, tail: float) -> float:
        """Variance of the composed loss, roughly."""
        ...

    def added_variance(self, grid: float, tail: float) -> float:
        """What connecting the dots of a grid adds to that variance."""
        ...

    def on_grid(self, grid: float, tail: float) -> Loss:
        """The loss on a grid, dominating the exact one."""
        ...

    @property
    def runs(self) -> int:
        """How many outcomes are drawn in all."""
        ...


class Refined(NamedTuple):
    """A composed loss, its epsilon, and about how much of that epsilon is owed to the grid."""

    composed: Composed
    epsilon: float
    grid_error: float


def refined(parts: Sequence[Part], delta: float, tilt: float, ignore_below: float = 0.0) -> Refined:
    """The parts composed on a grid refined until it costs less than GRID_TOLERANCE.

    An epsilon already below `ignore_below` is not refined: it is an upper bound on any grid.
    """
    tail = delta * TAIL_SHARE / sum(part.runs for part in parts)
    span = max(max(part.width(tail) for part in parts), 20 * math.sqrt(sum(part.variance(tail) for part in parts)))
    grid, finest = span / FIRST_POINTS, span / MOST_POINTS
    while True:
        whole = compose([part.on_grid(grid, tail) for part in parts], tilt)
        epsilon = whole.epsilon(delta)
        error = sum(part.added_variance(grid, tail) for part in parts) / 2 * whole.slope(epsilon)
        allowed = GRID_TOLERANCE * epsilon + 1e-7
        if error <= allowed or grid <= finest or epsilon <= ignore_below:
            return Refined(whole, epsilon, error)
        grid = max(finest, grid * min(0.5, 0.75 * math.sqrt(allowed / error)))


@lru_cache(maxsize=64)
def _variance_of_one(pair: Pair, tail: float) -> float:
    grid = pair.width(tail) / 4096
    return _Tilted(pair.on_grid(grid, tail), 0.0).variance * grid**2
