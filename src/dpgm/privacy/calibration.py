"""A budget -> every noise multiplier, before any data is opened.

Stages that release on the whole data take shares of mu², where mu is that of the Gaussian mechanism costing exactly
(epsilon, delta); private SGD takes the rest: its noise is searched until the *composed* cost meets the budget
(docs/privacy-proof.md 10). Multipliers are rounded up, and the cost is computed anew from the rounded ones.
"""

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from dpgm import validation
from dpgm.errors import DpgmError, UsageError
from dpgm.privacy import cache as disk
from dpgm.privacy.accountant import ACCOUNTANT, check_rate, cost, gaussian_delta, search_epsilon
from dpgm.privacy.events import Mechanism, Threshold, threshold_delta
from dpgm.privacy.loss_composition import GRID_TOLERANCE

# The composed epsilon ends up between these shares of the target.
_LOWEST, _AIM = 1 - 5e-4, 1 - 2e-4
_COARSE = 5e-3  # relative error of the grid while the search is far from the target
# Less noise than this protects nothing, and more leaves nothing to see.
SMALLEST_PLANNED_NOISE, LARGEST_PLANNED_NOISE = 0.1, 1e7


@dataclass(frozen=True)
class Spend:
    """A share of the budget (in mu² units) spread evenly over `count` releases on the whole data.

    A release of the values that pass a threshold takes `delta` besides, in each run.
    """

    name: str
    share: float
    count: int = 1
    delta: float = 0.0


@dataclass(frozen=True)
class Training:
    """Private SGD: takes whatever the spends leave; `norm_share` of each step goes to the norm histogram."""

    sampling_rate: float
    steps: int
    norm_share: float = 0.05


def calibrate(
    epsilon: float, delta: float, spends: Sequence[Spend], training: Training | None = None, cache: bool = True
) -> tuple[Mechanism, ...]:
    """Noise multipliers for every stage, so that all of them together cost (epsilon, delta).

    Args:
        epsilon: the target; met from below, within 0.5 %.
        delta: the slack in the promise.
        spends: stages on the whole data. Their shares sum to 1, or to less if there is training.
        training: private SGD, if any; it becomes the mechanisms "norms" and "gradients" on the sample "step".
        cache: look the answer up on disk, and keep it there.

    Returns:
        one mechanism per stage, in the order given, then those of training.

    >>> noise = calibrate(1.0, 1e-5, [Spend("counts", 0.2), Spend("sums", 0.8)], cache=False)
    >>> [(mechanism.name, mechanism.noise) for mechanism in noise]
    [('counts', 8.342), ('sums', 4.171)]
    """
    _check(epsilon, delta, spends, training)
    key = [
        "calibrate",
        ACCOUNTANT,
        float(epsilon),
        float(delta),
        [[spend.name, float(spend.share), spend.count, float(spend.delta)] for spend in spends],
        None if training is None else [float(value) for value in astuple(training)],
    ]
    known = _recalled(key, spends, training) if cache else None
    if known is not None:
        return known
    left_of_delta = delta - threshold_delta(Threshold(spend.delta, spend.count) for spend in spends)
    if left_of_delta <= 0:
        raise UsageError(f"thresholds would use up all of `delta` = {delta:.3g}; give them a smaller share of it.")
    mu_squared = gaussian_mu(epsilon, left_of_delta) ** 2
    releases = tuple(
        Mechanism(
            spend.name,
            round_up(math.sqrt(spend.count / (spend.share * mu_squared))),
            spend.count,
            delta=spend.delta,
        )
        for spend in spends
    )
    left = 1 - math.fsum(spend.share for spend in spends)
    mechanisms = releases
    if training is not None:
        mechanisms = (*releases, *solve_training(epsilon, delta, releases, training, left * mu_squared))
    final = cost(mechanisms, delta, cache=cache).epsilon
    if final > epsilon:
        raise DpgmError(f"calibration to epsilon {epsilon} ended at {final}; nothing was charged.")
    if cache:
        disk.keep(key, [list(astuple(mechanism)) for mechanism in mechanisms])
    return mechanisms


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The mu of the Gaussian mechanism that costs exactly (epsilon, delta)."""
    from scipy.optimize import brentq

    validation.positive(epsilon=epsilon)
    validation.probability(delta=delta)

    def excess(log_mu: float) -> float:
        return math.log(max(gaussian_delta(math.exp(log_mu), epsilon), 1e-300) / delta)

    return math.exp(float(brentq(excess, math.log(1e-15), math.log(1e4), xtol=1e-13)))


def round_up(noise: float, digits: int = 5) -> float:
    """`noise` rounded up to `digits` significant digits."""
    exponent = digits - 1 - math.floor(math.log10(noise))
    rounded = math.ceil(noise * 10.0**exponent) / 10.0**exponent
    return rounded if rounded >= noise else (math.ceil(noise * 10.0**exponent) + 1) / 10.0**exponent


def training_mechanisms(noise: float, training: Training) -> tuple[Mechanism, ...]:
    """The mechanisms of one step whose merged multiplier is `noise`, rounded up."""
    rate, steps, share = float(training.sampling_rate), training.steps, training.norm_share
    gradients = Mechanism("gradients", round_up(noise / math.sqrt(1 - share)), steps, rate, "step")
    if share == 0:
        return (gradients,)
    return (Mechanism("norms", round_up(noise / math.sqrt(share)), steps, rate, "step"), gradients)


def solve_training(
    epsilon: float, delta: float, releases: Sequence[Mechanism], training: Training, mu_squared: float
) -> tuple[Mechanism, ...]:
    """The training that brings given releases to (epsilon, delta); about `mu_squared` is left for it.

    Searches the merged multiplier: secant steps on log(epsilon) against log(noise), kept inside a bracket.
    """
    ratio = mu_squared / (training.sampling_rate**2 * training.steps)
    noise = _clamped(1 / math.sqrt(math.log1p(ratio)))  # right in the limit of many small steps
    too_little, enough = 0.0, math.inf
    best: tuple[Mechanism, ...] | None = None
    previous: tuple[float, float] | None = None
    for _ in range(60):
        mechanisms = training_mechanisms(noise, training)
        reached = search_epsilon((*releases, *mechanisms), delta, _COARSE)
        if abs(reached / epsilon - 1) < 3 * _COARSE:
            reached = search_epsilon((*releases, *mechanisms), delta, GRID_TOLERANCE)
        if reached <= epsilon:
            enough, best = noise, mechanisms
            if reached >= epsilon * _LOWEST or noise <= SMALLEST_PLANNED_NOISE:
                return mechanisms
        else:
            too_little = noise
            if noise >= LARGEST_PLANNED_NOISE:
                break
        if best is not None and enough <= too_little * (1 + 1e-6):
            return best  # rounding the multipliers up leaves nothing in between
        point = (math.log(noise), math.log(min(max(reached, epsilon * 1e-3), epsilon * 1e3)))
        slope = -1.5
        if previous is not None and point[0] != previous[0]:
            slope = min(-0.2, (point[1] - previous[1]) / (point[0] - previous[0]))
        previous = point
        step = (math.log(epsilon * _AIM) - point[1]) / slope
        proposal = noise * math.exp(min(max(step, -0.7), 0.7))
        if not too_little < proposal < enough:
            proposal = math.sqrt(max(too_little, noise / 4) * min(enough, noise * 4))
        noise = _clamped(proposal)
    raise UsageError(
        f"no noise up to {LARGEST_PLANNED_NOISE:g} meets `epsilon` = {epsilon} at `delta` = {delta}; "
        "ask for a larger epsilon, or train for fewer steps at a smaller sampling rate."
    )


def _clamped(noise: float) -> float:
    return min(max(noise, SMALLEST_PLANNED_NOISE), LARGEST_PLANNED_NOISE)


def _check(epsilon: float, delta: float, spends: Sequence[Spend], training: Training | None) -> None:
    validation.positive(epsilon=epsilon)
    validation.probability(delta=delta)
    names = [spend.name for spend in spends]
    if len(set(names)) < len(names) or (training is not None and {"norms", "gradients"} & set(names)):
        raise UsageError("each stage of the budget needs a name of its own.")
    for spend in spends:
        validation.fraction(share=spend.share)
        validation.whole(count=spend.count, at_least=1)
        validation.non_negative(delta=spend.delta)
    if training is not None:
        check_rate(training.sampling_rate)
        validation.whole(steps=training.steps, at_least=1)
        validation.non_negative(norm_share=training.norm_share)
        if training.norm_share >= 1:
            raise UsageError(f"`norm_share` must be below 1; got {training.norm_share!r}.")
    validation.shares({spend.name: spend.share for spend in spends}, leave_some=training is not None)


def _recalled(key: object, spends: Sequence[Spend], training: Training | None) -> tuple[Mechanism, ...] | None:
    """What the disk remembers, if it has the shape of an answer to this question."""
    value = disk.recall(key)
    try:
        mechanisms = tuple(Mechanism(*entry) for entry in value or ())
    except TypeError:
        return None
    expected = [(spend.name, spend.count, spend.delta) for spend in spends]
    if training is not None:
        stages = training_mechanisms(1.0, training)
        expected += [(mechanism.name, mechanism.count, 0.0) for mechanism in stages]
    return mechanisms if [(entry.name, entry.count, entry.delta) for entry in mechanisms] == expected else None
