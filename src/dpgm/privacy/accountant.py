"""Mechanisms -> epsilon(delta): the privacy loss distribution, cross-checked by Renyi divergences.

The privacy loss distribution (PLD) is tight. Renyi divergences (RDP), ours and dp-accounting's, are independent
upper bounds: one that came out below the PLD figure would mean a fault, and stops everything. The smallest figure
is reported. Releases on the whole data alone are one Gaussian mechanism, costed in closed form.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dpgm import validation
from dpgm.errors import DpgmError, UsageError
from dpgm.privacy import cache as disk
from dpgm.privacy.events import (
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
from dpgm.privacy.loss_composition import GRID_TOLERANCE, Composed, Part, TooWideError, refined
from dpgm.privacy.loss_distribution import Pair
from dpgm.privacy.parallel_branches import Envelope, dominating
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
class _Normal:
    """Events in normal form: one Gaussian, sampled steps, and what runs in parallel branches."""

    mu_squared: float
    steps: tuple[SampledSteps, ...]
    parallels: tuple[Parallel, ...] = ()
    thresholds: float = 0.0  # what lists of values that passed a threshold add to delta

    def left(self, delta: float) -> float:
        """What of delta the noisy releases may use."""
        if self.thresholds >= delta:
            raise UsageError(
                f"publishing values that pass a threshold needs {self.thresholds:.3g} of `delta` = {delta:.3g}; "
                "use a larger delta or a higher threshold."
            )
        return delta - self.thresholds


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
        delta: the probability the guarantee leaves open.
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
    normal = _normal_form(mechanisms, adjacency)
    left = normal.left(delta)
    if not normal.steps and not normal.parallels:
        rdp = epsilon_from(renyi_curve(_renyi_events(normal, adjacency)), left)[0]
        exact = gaussian_epsilon(math.sqrt(normal.mu_squared), left)
        _agree(exact, rdp, 0.0)
        return Cost(exact, delta, adjacency, exact, rdp)
    key = ["cost", ACCOUNTANT, repr(normal), float(delta), adjacency.value, check]
    known = disk.recall(key) if cache else None
    if isinstance(known, list) and len(known) == 2 and all(isinstance(figure, float) for figure in known):
        pld, rdp = known
    else:
        pld, rdp = _tight_and_renyi(normal, left, adjacency, check)
        if cache:
            disk.keep(key, [pld, rdp])
    return Cost(min(pld, rdp), delta, adjacency, pld, rdp)


def search_epsilon(mechanisms: Sequence[Costable], delta: float, tolerance: float) -> float:
    """Epsilon by the privacy loss distribution alone, at most `tolerance` (a share of it) too high; for searches."""
    normal = _normal_form(mechanisms, Adjacency.ADD_REMOVE)
    delta = normal.left(delta)
    if not normal.steps and not normal.parallels:
        return gaussian_epsilon(math.sqrt(normal.mu_squared), delta)
    rdp, order = epsilon_from(renyi_curve(_renyi_events(normal, Adjacency.ADD_REMOVE)), delta)
    return min(_tight(normal, delta, Adjacency.ADD_REMOVE, rdp, order, tolerance)[0], rdp)


def _tight(
    normal: _Normal,
    delta: float,
    adjacency: Adjacency,
    rdp: float,
    order: float,
    tolerance: float = GRID_TOLERANCE,
) -> tuple[float, float]:
    """Epsilon by the privacy loss distribution and what of it the grid adds; infinite where it gives no figure."""
    if delta < SMALLEST_TIGHT_DELTA or rdp > LARGEST_TIGHT_EPSILON:
        return math.inf, math.inf
    pld = grid_error = 0.0
    try:
        for parts in _directions(normal, adjacency):
            _, epsilon, error = refined(parts, delta, order - 1, ignore_below=pld, tolerance=tolerance)
            if epsilon > pld:
                pld, grid_error = epsilon, error
    except TooWideError:
        return math.inf, math.inf
    return pld, grid_error


def _tight_and_renyi(normal: _Normal, delta: float, adjacency: Adjacency, check: bool) -> tuple[float, float]:
    rdp, order = epsilon_from(renyi_curve(_renyi_events(normal, adjacency)), delta)
    pld, grid_error = _tight(normal, delta, adjacency, rdp, order)
    if check and adjacency is Adjacency.ADD_REMOVE and not normal.parallels:
        witness = _dp_accounting_epsilon(normal, delta)
        if witness > 0:  # where divergences drown in rounding it answers 0, which says nothing
            rdp = min(rdp, witness)
    _agree(pld, rdp, grid_error)
    return pld, rdp


def replace_one_epsilon(mechanisms: Sequence[Costable], delta: float) -> float:
    """The proved bound on epsilon when a neighbour replaces one record by another (docs/privacy-proof.md 3.5)."""
    return cost(mechanisms, delta, Adjacency.REPLACE_ONE).epsilon


def delta_at(mechanisms: Sequence[Costable], epsilon: float, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> float:
    """The smallest delta for which all mechanisms together cost at most `epsilon`."""
    validation.non_negative(epsilon=epsilon)
    normal = _normal_form(mechanisms, adjacency)
    if not normal.steps and not normal.parallels:
        return min(1.0, gaussian_delta(math.sqrt(normal.mu_squared), epsilon) + normal.thresholds)
    curve = renyi_curve(_renyi_events(normal, adjacency))
    renyi = delta_from(curve, epsilon)
    answer = 0.0
    try:
        for parts in _directions(normal, adjacency):
            delta = 1e-6
            # The grid is chosen for a delta, which is what is asked for: two or three rounds settle it.
            for _ in range(4):
                tilt = epsilon_from(curve, delta)[1] - 1
                previous, delta = delta, max(refined(parts, delta, tilt).composed.delta(epsilon), 1e-30)
                if 0.2 < delta / previous < 5:
                    break
            answer = max(answer, delta)
    except TooWideError:
        answer = renyi
    return min(1.0, min(answer, renyi) + normal.thresholds)


def profile(mechanisms: Sequence[Costable], delta: float) -> tuple[Composed, ...]:
    """The composed privacy loss in both directions, on a grid fine enough around `delta`; for audits."""
    normal = _normal_form(mechanisms, Adjacency.ADD_REMOVE)
    delta = normal.left(delta)
    order = epsilon_from(renyi_curve(_renyi_events(normal, Adjacency.ADD_REMOVE)), delta)[1]
    return tuple(refined(parts, delta, order - 1).composed for parts in _directions(normal, Adjacency.ADD_REMOVE))


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


def _normal_form(mechanisms: Sequence[Costable], adjacency: Adjacency) -> _Normal:
    plain: list[Mechanism] = []
    events: list[Event] = []
    for entry in mechanisms:
        if isinstance(entry, Mechanism):
            validation.positive(noise=entry.noise)
            validation.whole(count=entry.count, at_least=1, at_most=LARGEST_COUNT)
            check_rate(entry.sampling_rate)
            validation.non_negative(delta=entry.delta)
            plain.append(entry)
        elif isinstance(entry, (GaussianRelease, SampledSteps, CountsAndSums, Parallel, Threshold)):
            events.append(entry)
        else:
            raise UsageError(f"an event of kind {type(entry).__name__} is unknown and cannot be costed.")
    replace = adjacency is Adjacency.REPLACE_ONE
    mu_squared = 0.0
    steps: list[SampledSteps] = []
    parallels: list[Parallel] = []
    thresholds: list[Threshold] = []
    for event in (*events_of(plain), *events):
        if isinstance(event, GaussianRelease):
            validation.positive(noise=event.noise)
            validation.whole(count=event.count, at_least=1, at_most=LARGEST_COUNT)
            mu_squared += (4 if replace else 1) * event.count / float(event.noise) ** 2
        elif isinstance(event, CountsAndSums):
            validation.positive(count_noise=event.count_noise, sum_noise=event.sum_noise)
            validation.whole(count=event.count, at_least=1, at_most=LARGEST_COUNT)
            counts, sums = 1 / float(event.count_noise) ** 2, 1 / float(event.sum_noise) ** 2
            mu_squared += event.count * (max(4 * sums, 2 * counts + 2 * sums) if replace else counts + sums)
        elif isinstance(event, SampledSteps):
            validation.positive(noise=event.noise)
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
        else:
            if replace:
                raise UsageError("the replace-one figure is not available for parallel branches.")
            parallels.append(event)
    if mu_squared == 0 and not steps and not parallels:
        raise UsageError("there is no mechanism to cost; list at least one.")
    added = threshold_delta(thresholds, records=2 if replace else 1)
    return _Normal(mu_squared, tuple(steps), tuple(parallels), added)


def _renyi_events(normal: _Normal, adjacency: Adjacency) -> list[Event]:
    twice = 2 if adjacency is Adjacency.REPLACE_ONE else 1  # one removal and one addition
    events: list[Event] = [SampledSteps(s.noise, s.sampling_rate, twice * s.steps) for s in normal.steps]
    if normal.mu_squared > 0:
        events.append(GaussianRelease(1 / math.sqrt(normal.mu_squared)))
    return [*events, *normal.parallels]


def _directions(normal: _Normal, adjacency: Adjacency) -> list[list[Part]]:
    """What is composed: removing and adding apart, or both at once for a replacement, which is symmetric."""
    gaussian: list[Part] = [*_gaussian_pair(normal)]
    if adjacency is Adjacency.REPLACE_ONE:
        return [[*gaussian, *(_pair(step, remove) for step in normal.steps for remove in (True, False))]]
    return [
        [
            *gaussian,
            *(_pair(step, remove) for step in normal.steps),
            *(part for parallel in normal.parallels for part in _branches(parallel, remove)),
        ]
        for remove in (True, False)
    ]


def _gaussian_pair(normal: _Normal) -> tuple[Pair, ...]:
    return (Pair(math.sqrt(normal.mu_squared), 1.0, 1, True),) if normal.mu_squared > 0 else ()


def _pair(step: SampledSteps, remove: bool) -> Pair:
    return Pair(1 / step.noise, step.sampling_rate, step.steps, remove)


def _branches(parallel: Parallel, remove: bool) -> tuple[Part, ...]:
    branches: list[tuple[Pair, ...]] = []
    for branch in parallel.branches:
        normal = _normal_form(branch, Adjacency.ADD_REMOVE)
        branches.append((*_gaussian_pair(normal), *(_pair(step, remove) for step in normal.steps)))
    worst = dominating(branches)
    if worst is not None:
        return worst
    return (Envelope(tuple(branches)),)


def _dp_accounting_epsilon(normal: _Normal, delta: float) -> float:
    """The Renyi figure of an independent implementation. Multipliers are floats: with ints it drops events."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    root = logging.getLogger("absl")
    level = root.level
    root.setLevel(logging.ERROR)  # it logs a warning for each order it leaves out, which is no concern of users
    try:
        if normal.mu_squared > 0:
            accountant.compose(dp_accounting.GaussianDpEvent(1 / math.sqrt(normal.mu_squared)))
        for step in normal.steps:
            inner = dp_accounting.GaussianDpEvent(float(step.noise))
            accountant.compose(
                dp_accounting.PoissonSampledDpEvent(float(step.sampling_rate), inner), int(step.steps)
            )
        return float(accountant.get_epsilon(delta))
    finally:
        root.setLevel(level)
