"""Statistical tests of a claim, and lower bounds on epsilon.

If the claim holds, no test of membership is right more often than (1 + delta(0)) / 2, where delta(epsilon) is the
certified privacy profile; and no test has a false positive rate f and a true positive rate t with
t > e^epsilon f + delta(epsilon) for any epsilon. The same holds for every named mechanism alone, with its own profile;
and there the score has a known law, so that noise which is too small shows long before it helps an adversary.
Thresholds are fixed before the fits are made, or learned on other fits. All is compared with the certificate of the
fits, not with a typed number.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpgm.audit.trials import Trials
from dpgm.privacy.accountant import cost, delta_at, profile
from dpgm.privacy.events import Mechanism

LEVEL = 1e-4  # significance level of each gate
CONFIDENCE = 0.995  # of lower bounds: a tight audit of correct code exceeds the claim once in two hundred times
THRESHOLDS = (0.0, -1.0, 1.0, -3.0, 3.0)  # of the score, for the gate of rates
SCALES = (0.25, 8.0)  # range of noise scales that the lower bound searches
SCALE_WIDTH, LEVEL_WIDTH = 0.002, 0.05  # tolerances of bisections, for logarithms of scales and of levels
EPSILON_ROUNDING = 1e-9  # of a certificate's epsilon, which is computed anew
CURVE = np.linspace(0.0, 12.0, 49)  # epsilons at which the certified profile is evaluated


@dataclass(frozen=True)
class Gate:
    """A statistical test of the claim: its p-value, whether it passed, and what it looked at."""

    name: str
    p: float
    passed: bool
    detail: str


def guesses(trials: Trials) -> tuple[int, int]:
    """Guess membership by the sign of the score: the number of right guesses, and of all guesses."""
    without, with_it = trials.scores
    return int((without <= 0).sum() + (with_it > 0).sum()), len(without) + len(with_it)


def most_right(mechanisms: Sequence[Mechanism]) -> float:
    """The largest probability of a right guess that the claim allows."""
    return 0.5 * (1 + delta_at(mechanisms, 0.0))


def gate_of_guesses(trials: Trials, limit: float) -> Gate:
    """G1: guesses by the sign of the score are not right more often than the claim allows."""
    right, total = guesses(trials)
    p = float(stats.binom.sf(right - 1, total, limit))
    return Gate("G1 guesses", p, p >= LEVEL, f"{right / total:.1%} right; the claim allows {limit:.1%}")


def gate_of_rates(trials: Trials, curve: Callable[[float], float]) -> Gate:
    """G2: no threshold has more true positives than the claim allows; finds leaks that rarely occur, but are certain.

    `curve` gives the largest true positive rate that the claim allows at a false positive rate.
    """
    without, with_it = trials.scores
    tests = len(THRESHOLDS)
    p = min(_p_value_of_rates(without > limit, with_it > limit, curve, tests) for limit in THRESHOLDS)
    return Gate("G2 rates", p, p >= LEVEL, f"{tests} thresholds of the score")


def gate_of_scalars(trials: Trials, limit: float, curve: Callable[[float], float]) -> Gate:
    """G3: no single released number reveals more than the claim allows; chosen on one half, tested on the other."""
    halves = [[arm[start::2] for arm in trials.released] for start in (0, 1)]
    column, threshold, above = _best_scalar(*halves[0])
    without, with_it = ((arm[:, column] > threshold) == above for arm in halves[1])
    right, total = int((~without).sum() + with_it.sum()), len(without) + len(with_it)
    by_guesses = float(stats.binom.sf(right - 1, total, limit))
    p = min(1.0, 2 * by_guesses, 2 * _p_value_of_rates(without, with_it, curve, 1))
    detail = f"best of {trials.released[0].shape[1]} released numbers: {right / total:.1%} right on fresh fits"
    return Gate("G3 scalars", p, p >= LEVEL, detail)


def gate_of_certificates(trials: Trials) -> Gate:
    """The claim is the same with and without the canary, and its epsilon follows from its mechanisms; no chance."""
    first = trials.certificates[0]
    spent = cost(first.mechanisms, first.delta).epsilon
    passed = len(trials.certificates) == 1 and spent <= first.epsilon * (1 + EPSILON_ROUNDING)
    detail = f"{len(trials.certificates)} different; epsilon {first.epsilon:.4g}, its mechanisms cost {spent:.4g}"
    return Gate("certificates", float(passed), passed, detail)


def gate_of_mechanism(mechanism: Mechanism, scores: NDArray[np.float64]) -> Gate:
    """One mechanism alone: guesses by the sign of the score of each release, and the spread of the scores.

    Each release is guessed right with a probability of at most (1 + delta(0)) / 2 of its own profile, whatever was
    released before. Scores have the law N(±d²/2, d²): if they spread less, there is less noise than declared.

    Args:
        mechanism: as certified.
        scores: one line per release that the canary moved: 1 or -1 for with or without it, the score, d².
    """
    sign, ratio, energy = scores[scores[:, 2] > 0].T
    right = int((sign * ratio > 0).sum())
    limit = most_right([replace(mechanism, count=1, sampling_rate=1.0, sample=None)])
    by_guesses = float(stats.binom.sf(right - 1, len(sign), limit))
    normal = (ratio - sign * energy / 2) ** 2 / energy
    by_spread = float(stats.chi2.cdf(normal.sum(), len(sign))) if len(sign) else 1.0
    p = min(1.0, 2 * by_guesses, 2 * by_spread)
    share, spread = right / max(1, len(sign)), math.sqrt(normal.sum() / max(1, len(sign)))
    detail = f"{share:.1%} of {len(sign)} right; the claim allows {limit:.1%}; noise {spread:.2f} of the declared"
    return Gate(mechanism.name, p, p >= LEVEL, detail)


def certified_curve(mechanisms: Sequence[Mechanism], delta: float) -> Callable[[float], float]:
    """A function from a false positive rate to the largest true positive rate that the certified profile allows."""
    composed = profile(mechanisms, delta)
    deltas = np.array([max(each.delta(float(epsilon)) for each in composed) for epsilon in CURVE])

    def curve(false_positives: float) -> float:
        return float(min(1.0, np.min(np.exp(CURVE) * false_positives + deltas)))

    return curve


def lower_bound(trials: Trials, mechanisms: Sequence[Mechanism], delta: float) -> float:
    """The largest epsilon that the guesses contradict, among the certified mechanisms with their noise scaled."""
    right, total = guesses(trials)
    right_at_least = _lower(right, total, 1 - CONFIDENCE)

    def contradicted(log_scale: float) -> bool:
        return most_right(_scaled(mechanisms, math.exp(log_scale))) < right_at_least

    low, high = (math.log(scale) for scale in SCALES)
    if not contradicted(high):
        return 0.0
    _, scale = bisect(contradicted, low, high, SCALE_WIDTH)
    return cost(_scaled(mechanisms, math.exp(scale)), delta, check=False, cache=False).epsilon


def bisect(holds: Callable[[float], bool], low: float, high: float, width: float) -> tuple[float, float]:
    """A short interval in which `holds` turns from false (as at `low`) to true (as at `high`)."""
    while high - low > width:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def assumption_free(trials: Trials, delta: float) -> float:
    """A lower bound on epsilon for any mechanism, from Clopper-Pearson bounds on both error rates.

    The threshold of the score is chosen on a quarter of the fits.
    """
    first = [arm[: len(arm) // 4] for arm in trials.scores]
    rest = [arm[len(arm) // 4 :] for arm in trials.scores]
    best, threshold = 0.0, 0.0
    for candidate in np.concatenate(first):
        epsilon = _epsilon_of_rates(first[0] > candidate, first[1] > candidate, delta)
        if epsilon > best:
            best, threshold = epsilon, float(candidate)
    return _epsilon_of_rates(rest[0] > threshold, rest[1] > threshold, delta)


def _scaled(mechanisms: Sequence[Mechanism], scale: float) -> list[Mechanism]:
    return [replace(each, noise=each.noise * scale) for each in mechanisms]


def _p_value_of_rates(
    without: NDArray[np.bool_], with_it: NDArray[np.bool_], curve: Callable[[float], float], tests: int
) -> float:
    """A p-value for error rates that contradict the curve, for the best of so many tests; at most 1."""

    def contradicted(log_level: float) -> bool:
        return any(true > curve(false) for true, false in _rate_bounds(without, with_it, math.exp(log_level) / 2))

    if not contradicted(0.0):
        return 1.0
    _, smallest = bisect(contradicted, math.log(1e-12), 0.0, LEVEL_WIDTH)
    return min(1.0, 2 * tests * math.exp(smallest))


def _epsilon_of_rates(without: NDArray[np.bool_], with_it: NDArray[np.bool_], delta: float) -> float:
    bounds = _rate_bounds(without, with_it, (1 - CONFIDENCE) / 2)
    return max(math.log((true - delta) / false) if true - delta > false else 0.0 for true, false in bounds)


def _rate_bounds(
    without: NDArray[np.bool_], with_it: NDArray[np.bool_], level: float
) -> Iterator[tuple[float, float]]:
    """True positive rate at least, and false positive rate at most: of guessing membership, and of guessing absence."""
    for negatives, positives in ((without, with_it), (~with_it, ~without)):
        true = _lower(int(positives.sum()), len(positives), level)
        yield true, _upper(int(negatives.sum()), len(negatives), level)


def _lower(count: int, total: int, level: float) -> float:
    """Clopper-Pearson lower bound on a probability."""
    return float(stats.beta.ppf(level, count, total - count + 1)) if count else 0.0


def _upper(count: int, total: int, level: float) -> float:
    """Clopper-Pearson upper bound on a probability."""
    return float(stats.beta.isf(level, count + 1, total - count)) if count < total else 1.0


def _best_scalar(without: NDArray[np.float32], with_it: NDArray[np.float32]) -> tuple[int, float, bool]:
    """The column, threshold and direction that separate the two arms best (Kolmogorov-Smirnov)."""
    best = (-1.0, 0, 0.0, True)
    for column in range(without.shape[1]):
        a, b = np.sort(without[:, column]), np.sort(with_it[:, column])
        points = np.concatenate([a, b])
        gap = np.searchsorted(a, points, side="right") / len(a) - np.searchsorted(b, points, side="right") / len(b)
        at = int(np.argmax(np.abs(gap)))
        if abs(gap[at]) > best[0]:
            best = (float(abs(gap[at])), column, float(points[at]), bool(gap[at] > 0))
    return best[1], best[2], best[3]
