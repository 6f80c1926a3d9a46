"""Mechanisms -> epsilon(delta): the privacy loss distribution, cross-checked by Renyi divergences.

The privacy loss distribution (PLD) is tight. Renyi divergences (RDP), ours and dp-accounting's, are independent
upper bounds: one that came out below the PLD figure would mean a fault, and stops everything. The smallest figure
is reported. Releases on the whole data alone are one Gaussian mechanism, costed in closed form.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from dpgm import validation
from dpgm.arrays import Floats
from dpgm.errors import DpgmError, UsageError
from dpgm.privacy import cache as disk
from dpgm.privacy.events import (
    LARGEST_NOISE,
    SMALLEST_NOISE,
    Adjacency,
    CountsAndSums,
    Event,
    GaussianRelease,
    Mechanism,
    Parallel,
    SampledSteps,
    Threshold,
    events_of,
    threshold_delta,
)
from dpgm.privacy.loss_composition import (
    GRID_TOLERANCE,
    Composed,
    MaxProfile,
    Part,
    TooWideError,
    dominating,
    refined,
)
from dpgm.privacy.loss_distribution import Pair
from dpgm.privacy.renyi import delta_from, epsilon_from, renyi_curve

# Goes into certificates; changes whenever figures could.
ACCOUNTANT = "dpgm privacy loss distribution 1, checked by Renyi divergences (dpgm 1, dp-accounting)"
_AGREEMENT = 1e-6
# Below this the Fourier transforms' rounding exceeds delta, and the Renyi bound stands alone.
SMALLEST_TIGHT_DELTA = 1e-18
# Beyond this nothing is protected, and it does not matter by how much.
LARGEST_TIGHT_EPSILON = 2e4
# No plan may need more; also keeps numbers inside double precision.
LARGEST_COUNT = 10**9
# Below this the terms of the Renyi series are lost in rounding, so the cross-check would compare with nothing.
SMALLEST_RATE = 1e-12


@dataclass(frozen=True)
class Cost:
    """What a list of mechanisms costs; `epsilon` is the figure to quote."""

    epsilon: float
    delta: float
    adjacency: Adjacency
    epsilon_pld: float
    epsilon_rdp: float


@dataclass(frozen=True)
class NormalForm:
    """Events in normal form: one Gaussian, sampled steps, and what runs in parallel branches."""

    adjacency: Adjacency
    mu_squared: float
    steps: tuple[SampledSteps, ...]
    parallels: tuple[Parallel, ...] = ()
    thresholds: float = 0.0  # what lists of values that passed a threshold add to delta

    def left(self, delta: float) -> float:
        """Delta left after the thresholds."""
        if self.thresholds >= delta:
            raise UsageError(
                f"publishing values that pass a threshold needs {self.thresholds:.3g} of `delta` = {delta:.3g}; "
                "use a larger delta or a higher threshold."
            )
        return delta - self.thresholds

    @property
    def is_gaussian(self) -> bool:
        """Whether all of it is one Gaussian mechanism, which has a closed form."""
        return not self.steps and not self.parallels

    @property
    def mu(self) -> float:
        """Of the Gaussian."""
        return math.sqrt(self.mu_squared)

    @cached_property
    def curve(self) -> Floats:
        """Renyi divergences."""
        twice = 2 if self.adjacency is Adjacency.REPLACE_ONE else 1  # one removal and one addition
        events: list[Event] = [SampledSteps(s.noise, s.sampling_rate, twice * s.steps) for s in self.steps]
        if self.mu_squared > 0:
            events.append(GaussianRelease(1 / self.mu))
        return renyi_curve([*events, *self.parallels])

    def pairs(self, *removes: bool) -> tuple[Pair, ...]:
        """The Gaussian, which is symmetric, and the sampled steps: removing a record, adding one, or both."""
        gaussian = (Pair(self.mu, 1.0, 1, True),) if self.mu_squared > 0 else ()
        steps = ((step, remove) for step in self.steps for remove in removes)
        return (
            *gaussian,
            *(Pair(1 / step.noise, step.sampling_rate, step.steps, remove) for step, remove in steps),
        )

    def directions(self) -> list[tuple[Part, ...]]:
        """What is composed: removing and adding apart, or both at once for a replacement, which is symmetric."""
        if self.adjacency is Adjacency.REPLACE_ONE:
            return [self.pairs(True, False)]
        return [
            (*self.pairs(remove), *(part for parallel in self.parallels for part in _branches(parallel, remove)))
            for remove in (True, False)
        ]

    def tight(self, delta: float, tolerance: float = GRID_TOLERANCE) -> tuple[float, float, float]:
        """Epsilon by the privacy loss distribution, what of it the grid adds, and epsilon by Renyi divergences.

        The first two are infinite where the distribution gives no figure.
        """
        rdp, order = epsilon_from(self.curve, delta)
        if delta < SMALLEST_TIGHT_DELTA or rdp > LARGEST_TIGHT_EPSILON:
            return math.inf, math.inf, rdp
        pld = grid_error = 0.0
        try:
            for parts in self.directions():
                _, epsilon, error = refined(parts, delta, order - 1, ignore_below=pld, tolerance=tolerance)
                if epsilon > pld:
                    pld, grid_error = epsilon, error
        except TooWideError:
            return math.inf, math.inf, rdp
        return pld, grid_error, rdp


Costable: TypeAlias = Mechanism | Event


def cost(
    mechanisms: Sequence[Costable],
    delta: float,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    *,
    check: bool = True,
    cache: bool = True,
) -> Cost:
    """Epsilon of all mechanisms together.

    Args:
        mechanisms: mechanisms or events, in any order; those sharing a sample are merged.
        delta: the slack in the promise.
        adjacency: add/remove (the same as zero-out, where the number of records is public), or the proved bound
            for replacing a record.
        check: also compute dp-accounting's Renyi figure and compare; searches skip it until their last step.
        cache: look the figures up on disk, and keep them there.

    Raises:
        UsageError: a parameter breaks a rule, or an event is of a kind the accountant does not know.
        DpgmError: the two accountants contradict each other.

    >>> round(cost([GaussianRelease(noise=5.0)], delta=1e-6).epsilon, 4)
    0.8341
    """
    validation.probability(delta=delta)
    normal = normal_form(mechanisms, adjacency)
    left = normal.left(delta)
    if normal.is_gaussian:
        rdp = epsilon_from(normal.curve, left)[0]
        exact = gaussian_epsilon(normal.mu, left)
        _agree(exact, rdp, 0.0)
        return Cost(exact, delta, adjacency, exact, rdp)
    key = ["cost", ACCOUNTANT, repr(normal), float(delta), check]
    known = disk.recall(key) if cache else None
    if isinstance(known, list) and len(known) == 2 and all(isinstance(figure, float) for figure in known):
        pld, rdp = known
    else:
        pld, rdp = _tight_and_renyi(normal, left, check)
        if cache:
            disk.keep(key, [pld, rdp])
    return Cost(min(pld, rdp), delta, adjacency, pld, rdp)


def search_epsilon(mechanisms: Sequence[Costable], delta: float, tolerance: float) -> float:
    """Epsilon by the privacy loss distribution alone, at most `tolerance` (a share of it) too high; for searches."""
    normal = normal_form(mechanisms, Adjacency.ADD_REMOVE)
    delta = normal.left(delta)
    if normal.is_gaussian:
        return gaussian_epsilon(normal.mu, delta)
    pld, _, rdp = normal.tight(delta, tolerance)
    return min(pld, rdp)


def _tight_and_renyi(normal: NormalForm, delta: float, check: bool) -> tuple[float, float]:
    pld, grid_error, rdp = normal.tight(delta)
    if check and normal.adjacency is Adjacency.ADD_REMOVE and not normal.parallels:
        witness = _dp_accounting_epsilon(normal, delta)
        if witness > 0:  # it returns 0 on underflow, which is ignored
            rdp = min(rdp, witness)
    _agree(pld, rdp, grid_error)
    return pld, rdp


def replace_one_epsilon(mechanisms: Sequence[Costable], delta: float) -> float:
    """The proved bound on epsilon when a neighbour replaces one record by another (docs/privacy-proof.md 3.5)."""
    return cost(mechanisms, delta, Adjacency.REPLACE_ONE).epsilon


def delta_at(mechanisms: Sequence[Costable], epsilon: float, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> float:
    """The smallest delta for which all mechanisms together cost at most `epsilon`."""
    validation.non_negative(epsilon=epsilon)
    normal = normal_form(mechanisms, adjacency)
    if normal.is_gaussian:
        return min(1.0, gaussian_delta(normal.mu, epsilon) + normal.thresholds)
    renyi = delta_from(normal.curve, epsilon)
    answer = 0.0
    try:
        for parts in normal.directions():
            delta = 1e-6
            # The grid is chosen for a delta, which is what is asked for: two or three rounds settle it.
            for _ in range(4):
                tilt = epsilon_from(normal.curve, delta)[1] - 1
                previous, delta = delta, max(refined(parts, delta, tilt).composed.delta(epsilon), 1e-30)
                if 0.2 < delta / previous < 5:
                    break
            answer = max(answer, delta)
    except TooWideError:
        answer = renyi
    return min(1.0, min(answer, renyi) + normal.thresholds)


def profile(mechanisms: Sequence[Costable], delta: float) -> tuple[Composed, ...]:
    """The composed privacy loss in both directions, on a grid fine enough around `delta`; for audits."""
    normal = normal_form(mechanisms, Adjacency.ADD_REMOVE)
    delta = normal.left(delta)
    order = epsilon_from(normal.curve, delta)[1]
    return tuple(refined(parts, delta, order - 1).composed for parts in normal.directions())


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Delta of the Gaussian mechanism at epsilon, exactly (Balle and Wang 2018)."""
    from scipy.special import log_ndtr

    high, low = float(log_ndtr(mu / 2 - epsilon / mu)), float(log_ndtr(-mu / 2 - epsilon / mu))
    return -math.exp(high) * math.expm1(min(epsilon + low - high, 0.0))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon of the Gaussian mechanism at delta, exactly."""
    from scipy.optimize import brentq

    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    highest = mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))  # a tail bound, so delta is met there
    return float(brentq(lambda epsilon: gaussian_delta(mu, epsilon) - delta, 0.0, highest, xtol=1e-14, rtol=1e-14))


def _agree(pld: float, rdp: float, grid_error: float) -> None:
    """The Renyi figure is an upper bound, so it cannot lie below the tight one, up to the latter's grid."""
    if pld < math.inf and rdp < pld - 2 * grid_error - _AGREEMENT:
        raise DpgmError(
            f"the accountants contradict each other (PLD {pld:.9g}, Renyi {rdp:.9g}); nothing was charged. "
            "Please report these figures."
        )


def check_rate(rate: float) -> None:
    """A sampling rate in (0, 1] that the accountants can tell from 0; raises UsageError."""
    validation.fraction(sampling_rate=rate)
    if rate < SMALLEST_RATE:
        raise UsageError(
            f"`sampling_rate` must be at least {SMALLEST_RATE:g}, below which its cost cannot be checked; got {rate!r}."
        )


def _check_noise(**named: float) -> None:
    """Noise multipliers whose cost is a number; raises UsageError."""
    for name, noise in named.items():
        validation.positive(**{name: noise})  # type: ignore[arg-type]
        if not SMALLEST_NOISE <= noise <= LARGEST_NOISE:
            raise UsageError(f"`{name}` must be between {SMALLEST_NOISE:g} and {LARGEST_NOISE:g}; got {noise!r}.")


def normal_form(mechanisms: Sequence[Costable], adjacency: Adjacency) -> NormalForm:
    """Mechanisms and events as one Gaussian, sampled steps and parallel branches; raises UsageError."""
    plain = [entry for entry in mechanisms if isinstance(entry, Mechanism)]
    events = [entry for entry in mechanisms if not isinstance(entry, Mechanism)]
    for entry in plain:
        _check_noise(noise=entry.noise)
        validation.whole(count=entry.count, at_least=1, at_most=LARGEST_COUNT)
        check_rate(entry.sampling_rate)
        validation.non_negative(delta=entry.delta)
    replace = adjacency is Adjacency.REPLACE_ONE
    mu_squared = 0.0
    steps: list[SampledSteps] = []
    parallels: list[Parallel] = []
    thresholds: list[Threshold] = []
    for event in (*events_of(plain), *events):
        if isinstance(event, GaussianRelease):
            _check_noise(noise=event.noise)
            validation.whole(count=event.count, at_least=1, at_most=LARGEST_COUNT)
            mu_squared += (4 if replace else 1) * event.count / float(event.noise) ** 2
        elif isinstance(event, CountsAndSums):
            _check_noise(count_noise=event.count_noise, sum_noise=event.sum_noise)
            validation.whole(count=event.count, at_least=1, at_most=LARGEST_COUNT)
            counts, sums = 1 / float(event.count_noise) ** 2, 1 / float(event.sum_noise) ** 2
            mu_squared += event.count * (max(4 * sums, 2 * counts + 2 * sums) if replace else counts + sums)
        elif isinstance(event, SampledSteps):
            _check_noise(noise=event.noise)
            check_rate(event.sampling_rate)
            validation.whole(steps=event.steps, at_least=1, at_most=LARGEST_COUNT)
            if event.sampling_rate == 1:
                mu_squared += (4 if replace else 1) * event.steps / float(event.noise) ** 2
            else:
                noise = float(event.noise) / (math.sqrt(2) if replace else 1.0)
                steps.append(SampledSteps(noise, float(event.sampling_rate), event.steps))
        elif isinstance(event, Threshold):
            validation.probability(delta=event.delta)
            validation.whole(count=event.count, at_least=1, at_most=LARGEST_COUNT)
            thresholds.append(event)
        elif not isinstance(event, Parallel):
            raise UsageError(f"an event of kind {type(event).__name__} is unknown and cannot be costed.")
        elif replace:
            raise UsageError("the replace-one figure is not available for parallel branches.")
        else:
            parallels.append(event)
    if mu_squared == 0 and not steps and not parallels:
        raise UsageError("there is no mechanism to cost; list at least one.")
    added = threshold_delta(thresholds, records=2 if replace else 1)
    return NormalForm(adjacency, mu_squared, tuple(steps), tuple(parallels), added)


def _branches(parallel: Parallel, remove: bool) -> tuple[Part, ...]:
    branches = tuple(normal_form(branch, Adjacency.ADD_REMOVE).pairs(remove) for branch in parallel.branches)
    return dominating(branches) or (MaxProfile(branches),)


def _dp_accounting_epsilon(normal: NormalForm, delta: float) -> float:
    """The Renyi figure of an independent implementation. Multipliers are floats: with ints it drops events."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    root = logging.getLogger("absl")
    level = root.level
    root.setLevel(logging.ERROR)  # it logs a warning for each order it leaves out, which is no concern of users
    try:
        if normal.mu_squared > 0:
            accountant.compose(dp_accounting.GaussianDpEvent(1 / normal.mu))
        for step in normal.steps:
            inner = dp_accounting.GaussianDpEvent(float(step.noise))
            accountant.compose(
                dp_accounting.PoissonSampledDpEvent(float(step.sampling_rate), inner), int(step.steps)
            )
        return float(accountant.get_epsilon(delta))
    finally:
        root.setLevel(level)
