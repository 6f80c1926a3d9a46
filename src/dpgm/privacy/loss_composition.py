"""Privacy losses composed, on a grid refined until it no longer matters.

Composition is one product of Fourier transforms, taken under an exponential tilt so that a delta of 1e-12 keeps as
many digits as one of 1e-3. Whatever the transforms may have rounded away, and whatever lies outside their window, is
bounded and counted: figures are too high rather than too low.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dpgm.arrays import Floats
from dpgm.privacy.loss_distribution import Loss, Pair, grid_points

# A grid error below this share of epsilon is not worth a finer grid; epsilon may come out that much too high.
GRID_TOLERANCE = 2e-4
FIRST_POINTS = 2**14
MOST_POINTS = 2**21
# What cutting off tails may add to delta, as a share of delta.
TAIL_SHARE = 1e-5
# Rounding of the Fourier transforms in a sum of masses, in units of machine epsilon for each composition; at most
# a third of this was ever seen. Each end of the window may lose a thousandth as much.
FOURIER_ROUNDING = 2.0
WINDOW_SHARE = 1e-3
WIDEST = 2**24
_LEAST_TILT = 1e-3
FARTHEST_LOSS = 600.0  # beyond, e^loss leaves the range of floating point


class TooWideError(Exception):
    """No window of a reasonable size holds the composed loss; the caller has another bound to fall back on."""


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

    def spectrum(self, size: int, precise: bool) -> Any:
        """Fourier transform of the weights about their mean, composed, folded into `size` points."""
        from scipy import fft

        places = (np.arange(len(self.weights)) - round(self.mean)) % size
        folded = np.bincount(places, self.weights, minlength=size)
        return fft.rfft(folded.astype(np.longdouble) if precise else folded) ** self.times


@dataclass(frozen=True, eq=False)
class Composed:
    """A composed loss: tilted masses on a window, with what lies outside bounded from above."""

    grid: float
    first: int
    masses: Floats
    infinity: float
    _tilt: float
    _log_moment: float
    _noise: float
    _complete: bool  # no loss lies above the window

    @cached_property
    def _sums(self) -> tuple[Floats, Floats]:
        """Sums of P and of Q over the losses from each grid point up, as logarithms, since tilts leave the range."""
        losses = grid_points(self.first, len(self.masses), self.grid)
        with np.errstate(divide="ignore"):
            logs = np.log(np.maximum(self.masses, 0.0)) + (self._log_moment - self._tilt * losses)
        upper, lower = (np.logaddexp.accumulate(numbers[::-1])[::-1] for numbers in (logs, logs - losses))
        return upper, lower

    @property
    def lowest(self) -> float:
        """The lowest loss of the window; no smaller epsilon is reported."""
        return max(0.0, self.first * self.grid)

    def delta(self, epsilon: float) -> float:
        """The hockey-stick divergence at epsilon, or more."""
        upper, lower = self._sums_above(epsilon)
        inside = max(0.0, _exp(upper) - _exp(epsilon + lower))
        return min(1.0, inside + self.noise_at(epsilon) + self.infinity)

    def slope(self, epsilon: float) -> float:
        """How fast log(delta) falls at epsilon."""
        upper, lower = self._sums_above(epsilon)
        return 1 / max(math.expm1(min(upper - lower - epsilon, 700.0)), 1e-300) if lower > -math.inf else 0.0

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon of the window, at least 0, with divergence at most delta."""
        if self.delta(self.lowest) <= delta:
            return self.lowest
        start = max(0, -self.first)
        upper, lower = (sums[start:] for sums in self._sums)
        losses = grid_points(self.first + start, len(upper), self.grid)
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = upper + np.log(-np.expm1(np.minimum(losses + lower - upper, 0.0)))
        outside = np.log(self._noise) + self._log_moment - self._tilt * losses
        values = np.logaddexp(np.where(np.isnan(inside), -np.inf, inside), outside)
        allowed = math.log(max(delta - self.infinity, 1e-300))
        above_allowed = np.flatnonzero(values > allowed)
        place = int(above_allowed[-1]) if len(above_allowed) else 0  # the last point whose divergence is too large
        if place + 1 == len(losses):
            return float(losses[place]) if self._complete and self.infinity <= delta else math.inf
        # Between here and the next point the sums are those of the losses above, so epsilon has a closed form.
        left = max(_exp(allowed) - self.noise_at(float(losses[place])), 0.0)
        above, weight = float(upper[place + 1]), float(lower[place + 1])
        gap = -math.expm1(math.log(left) - above) if left > 0 else 1.0
        epsilon = above + math.log(gap) - weight if gap > 0 else -math.inf
        return min(max(epsilon, float(losses[place])), float(losses[place + 1]))

    def noise_at(self, epsilon: float) -> float:
        """How much of delta at epsilon is allowance for rounding and for what lies outside the window."""
        return self._noise * _exp(self._log_moment - self._tilt * epsilon)

    def _sums_above(self, epsilon: float) -> tuple[float, float]:
        place = max(0, math.floor(epsilon / self.grid) + 1 - self.first)
        if place >= len(self.masses):
            return -math.inf, -math.inf
        upper, lower = self._sums
        return float(upper[place]), float(lower[place])


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))


def compose(losses: Sequence[Loss], tilt: float, precise: bool = False) -> Composed:
    """All losses composed, each as often as it says, seen under the tilt; `precise` takes 80-bit floats."""
    from scipy import fft

    parts = [_Tilted(loss, tilt) for loss in losses]
    times = sum(part.times for part in parts)
    rounding = FOURIER_ROUNDING * times * float(np.finfo(np.longdouble if precise else np.float64).eps)
    low, high, complete = _window(parts, WINDOW_SHARE * rounding)
    if high - low > WIDEST:
        raise TooWideError
    size = int(fft.next_fast_len(high - low + 1, real=True))
    spectrum: Any = 1.0
    for part in parts:
        spectrum = spectrum * part.spectrum(size, precise)
    centre = sum(part.times * (part.first + round(part.mean)) for part in parts)
    masses = np.roll(fft.irfft(spectrum, size).astype(np.float64), centre - low)
    log_moment = sum(part.times * part.log_moment for part in parts)
    infinity = -math.expm1(sum(loss.times * math.log1p(-loss.infinity) for loss in losses))
    noise = (1 + 2 * WINDOW_SHARE) * rounding
    return Composed(losses[0].grid, low, masses, infinity, tilt, log_moment, noise, complete)


def _window(parts: Sequence[_Tilted], mass: float) -> tuple[int, int, bool]:
    """Indices outside which at most `mass` lies at either end, by Chernoff bounds; whether none lies above."""
    mean = sum(part.times * (part.first + part.mean) for part in parts)
    lowest = sum(part.times * part.first for part in parts)
    highest = sum(part.times * (part.first + len(part.weights) - 1) for part in parts)
    spread = math.sqrt(sum(part.times * part.variance for part in parts)) + 1e-3
    cut = -math.log(mass)

    def distance(order: float, exact: bool) -> float:
        moments = sum(part.times * part.log_moment_at(order, exact) for part in parts)
        return (moments + cut) / abs(order)

    orders = [math.sqrt(2 * cut) / spread * 2.0**power for power in range(-14, 3)]
    upwards = min(orders, key=lambda order: distance(order, exact=False))
    downwards = min(orders, key=lambda order: distance(-order, exact=False))
    high = min(highest, math.ceil(mean + distance(upwards, exact=True)))
    low = max(lowest, math.floor(mean - distance(-downwards, exact=True)))
    return low, high, high == highest


class Refined(NamedTuple):
    """A composed loss, its epsilon, and about how much of that epsilon is owed to the grid."""

    composed: Composed
    epsilon: float
    grid_error: float


def refined(
    parts: Sequence["Part"],
    delta: float,
    tilt: float,
    *,
    ignore_below: float = 0.0,
    tolerance: float = GRID_TOLERANCE,
) -> Refined:
    """The parts composed on a grid refined until it costs less than `tolerance`, a share of epsilon.

    An epsilon already below `ignore_below` is not refined: it is an upper bound on any grid.
    """
    tail = delta * TAIL_SHARE / sum(part.runs for part in parts)
    width = max(part.width(tail) for part in parts)
    if width > FARTHEST_LOSS:
        raise TooWideError
    span = max(width, 20 * math.sqrt(sum(part.variance(tail) for part in parts)))
    grid, finest = span / FIRST_POINTS, span / MOST_POINTS
    precise = False
    while True:
        try:
            whole = compose([part.on_grid(grid, tail) for part in parts], tilt, precise)
        except TooWideError:
            if tilt < _LEAST_TILT:
                raise
            tilt /= 2  # so strong a tilt makes rare, large losses common
            continue
        epsilon = whole.epsilon(delta)
        if epsilon <= ignore_below:
            return Refined(whole, epsilon, 0.0)
        if epsilon == whole.lowest > 0 and tilt > _LEAST_TILT:
            tilt /= 2  # the window lies above epsilon
            continue
        if not precise and (epsilon == math.inf or whole.noise_at(epsilon) > 1e-5 * delta):
            precise = True
            continue
        if epsilon == math.inf:
            return Refined(whole, epsilon, epsilon)
        error = sum(part.added_variance(grid, tail) for part in parts) / 2 * (1 + whole.slope(epsilon))
        allowed = tolerance * epsilon + 1e-7
        if error <= allowed or grid <= finest:
            return Refined(whole, epsilon, error)
        grid = max(finest, grid * min(0.5, 0.75 * math.sqrt(allowed / error)))


# -- parallel branches ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MaxProfile:
    """Disjoint parts of the data under unequal mechanisms: the worst branch at every epsilon, all in one direction.

    Which branch a record falls into may depend on earlier releases, so the branches' profiles delta(epsilon) are
    replaced by their pointwise maximum before composing (docs/privacy-proof.md 3.3). The maximum of convex profiles is
    one, so it has a loss of its own; taking the maximum of the composed epsilons instead would be wrong.
    """

    branches: tuple[tuple[Pair, ...], ...]

    @property
    def runs(self) -> int:
        """How many outcomes are drawn in all."""
        return sum(pair.times for branch in self.branches for pair in branch)

    def width(self, tail: float) -> float:
        """How far the losses of one run of one pair reach."""
        return max(pair.width(tail) for branch in self.branches for pair in branch)

    def variance(self, tail: float) -> float:
        """Variance of the widest branch."""
        return max(sum(pair.variance(tail) for pair in branch) for branch in self.branches)

    def added_variance(self, grid: float, tail: float) -> float:
        """What the grid adds to the worst branch."""
        return max(sum(pair.added_variance(grid, tail) for pair in branch) for branch in self.branches)

    def on_grid(self, grid: float, tail: float) -> Loss:
        """The loss whose profile is the envelope."""
        composed = [
            compose([pair.on_grid(grid, tail) for pair in branch], 0.0, precise=True) for branch in self.branches
        ]
        first = min(branch.first for branch in composed)
        count = max(branch.first + len(branch.masses) for branch in composed) - first
        masses = np.zeros((len(composed), count))
        for row, branch in zip(masses, composed, strict=True):
            row[branch.first - first :][: len(branch.masses)] = branch.masses
        losses = grid_points(first, count, grid)
        profiles = np.stack(
            [_profile(*row, losses) for row in zip(masses, (one.infinity for one in composed), strict=True)]
        )
        worst = np.argmax(profiles, axis=0)
        profile = profiles.max(axis=0)
        slopes = np.diff(profile) / np.diff(np.exp(losses))
        result = masses[worst, np.arange(len(losses))]
        # Where the worst branch changes, the envelope has a kink of its own.
        changed = np.flatnonzero((worst[:-2] != worst[1:-1]) | (worst[1:-1] != worst[2:])) + 1
        result[changed] = np.exp(losses[changed]) * np.maximum(slopes[changed] - slopes[changed - 1], 0.0)
        result = np.maximum(result, 0.0)
        infinity = float(profile[-1])
        result[0] = max(0.0, 1.0 - infinity - float(result[1:].sum()))
        return Loss(grid, first, result, infinity)


Part: TypeAlias = Pair | MaxProfile  # what can be put on a grid of losses and composed


def _profile(masses: Floats, infinity: float, losses: Floats) -> Floats:
    """The hockey-stick divergence at every grid point, from sums over the losses above it."""
    upper = np.append(np.cumsum(masses[::-1])[::-1][1:], 0.0)
    lower = np.append(np.cumsum((masses * np.exp(-losses))[::-1])[::-1][1:], 0.0)
    profile: Floats = np.maximum(upper - np.exp(losses) * lower, 0.0) + infinity
    return profile


def dominating(branches: Sequence[tuple[Pair, ...]]) -> tuple[Pair, ...] | None:
    """The branch that is worst in every parameter, if there is one among branches of one pair each."""
    if any(len(branch) != 1 for branch in branches):
        return None
    pairs = [branch[0] for branch in branches]
    for pair in pairs:
        if all(pair.mu >= other.mu and pair.rate >= other.rate and pair.times >= other.times for other in pairs):
            return (pair,)
    return None
