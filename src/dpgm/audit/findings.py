"""The audit of tiny fits: judges trials by gates, and bounds epsilon from below.

If the claim holds, no test of membership is right more often than (1 + delta(0)) / 2, where delta(epsilon) is the
certified privacy profile; and no test has a false positive rate f and a true positive rate t with
t > e^epsilon f + delta(epsilon) for any epsilon. The same holds for every named mechanism alone, with its own profile;
and there the score has a known law, so that noise which is too small shows long before it helps an adversary.
Thresholds are fixed before the fits are made, or learned on other fits. All is compared with the certificate of the
fits, not with a typed number.

A configuration that fails is tried again with four times as many new fits, and only that result counts: a correct build
raises an alarm with probability at most `false_alarm_rate`, below one in a thousand.
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpgm.audit.configurations import Configuration, configurations
from dpgm.audit.trials import Trials, processes, run_trials
from dpgm.errors import UsageError
from dpgm.privacy.accountant import cost, delta_at, profile
from dpgm.privacy.events import Mechanism
from dpgm.strategy.protocol import Progress, silent

FITS = 500  # fits with the canary, and as many without, times a configuration's effort: two to three minutes
QUICK_FITS = 60
LEVEL = 1e-4  # significance level of each gate
CONFIDENCE = 0.995  # of lower bounds: a tight audit of correct code exceeds the claim once in two hundred times
WHOLE_GATES = 3  # gates of a configuration that look at the whole fit and may fail by chance
THRESHOLDS = (0.0, -1.0, 1.0, -3.0, 3.0)  # of the score, for the gate of rates
SCALES = (0.25, 8.0)  # range of noise scales that the lower bound searches
SCALE_WIDTH, LEVEL_WIDTH = 0.002, 0.05  # tolerances of bisections, for logarithms of scales and of levels
ROUNDING = 1e-9  # of a certificate's epsilon, which is computed anew
CURVE = np.linspace(0.0, 12.0, 49)  # epsilons at which the certified profile is evaluated


@dataclass(frozen=True)
class Gate:
    """A statistical test of the claim: its p-value, whether it passed, and what it looked at."""

    name: str
    p: float
    passed: bool
    detail: str


class Claim:
    """A claimed epsilon and the lower bound that an audit has found."""

    epsilon: float
    epsilon_lower: float

    @property
    def share(self) -> float:
        """The lower bound as a share of the claim."""
        return self.epsilon_lower / self.epsilon

    @property
    def passed(self) -> bool:
        """Whether the lower bound does not exceed the claim."""
        return self.share <= 1

    @property
    def verdict(self) -> str:
        """The result in words."""
        return "no contradiction" if self.passed else "PRIVACY BUG: the release betrays more than it claims"


@dataclass(frozen=True)
class Finding(Claim):
    """The audit of one configuration: the claim, the lower bounds on epsilon, and the gates.

    `epsilon_lower` has 99.5 % confidence if the mechanism is the certified one with its noise scaled by some factor;
    `epsilon_assumption_free` has 99 % confidence for any mechanism, and is much weaker.
    """

    configuration: str
    sentence: str
    fits: int
    epsilon: float
    delta: float
    epsilon_lower: float
    epsilon_assumption_free: float
    right: float  # share of right guesses
    right_at_most: float  # largest share of right guesses that the claim allows
    least_share: float
    gates: tuple[Gate, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether no gate failed and the lower bound does not exceed the claim."""
        return all(gate.passed for gate in self.gates) and self.share <= 1

    @property
    def strong(self) -> bool:
        """Whether the lower bound is close enough to the claim for the audit to mean something."""
        return self.share >= self.least_share

    @property
    def verdict(self) -> str:
        """The result in words."""
        weak = self.passed and not self.strong
        return super().verdict + (", but the audit is weak (too few fits)" if weak else "")

    def to_json(self) -> dict[str, Any]:
        """Plain values by name."""
        values = asdict(self) | {"share": self.share, "passed": self.passed, "strong": self.strong}
        return values | {"verdict": self.verdict}


def audit(
    names: Sequence[str] | None = None,
    *,
    fits: int = FITS,
    workers: int | None = None,
    progress: Progress = silent,
) -> list[Finding]:
    """Audit tiny fits of the product's own code.

    Args:
        names: names of configurations; all of them by default.
        fits: number of fits with the canary, and of fits without it; multiplied by the effort of a configuration.
        workers: number of processes; one per core by default.
        progress: called with a configuration's name, the number of batches done, and of all batches.

    Returns:
        One finding per configuration.
    """
    known = {configuration.name: configuration for configuration in configurations()}
    for name in names or ():
        if name not in known:
            raise UsageError(f"there is no audit {name!r}; there are {', '.join(known)}.")
    if fits < 40:
        raise UsageError(f"an audit needs at least 40 fits with the canary and as many without; got {fits}.")
    workers = len(os.sched_getaffinity(0)) if workers is None else workers
    findings = []
    with processes(workers) as pool:  # one pool for all: starting the processes takes as long as a hundred fits
        for configuration in [known[name] for name in names or known]:
            count = round(fits * configuration.effort)
            found = _audit(configuration, count, pool, progress)
            if not found.passed:  # repeated once with four times as many new fits; only the second result counts
                found = _audit(configuration, 4 * count, pool, progress)
            findings.append(found)
    return findings


def false_alarm_rate(audited: Sequence[Configuration]) -> float:
    """The probability, at most, that an audit of correct code fails: some configuration must do so twice."""
    once = (
        1 - CONFIDENCE + LEVEL * (WHOLE_GATES + len(configuration.plan.mechanisms)) for configuration in audited
    )
    return math.fsum(probability**2 for probability in once)


def _audit(configuration: Configuration, fits: int, pool: Executor | None, progress: Progress) -> Finding:
    start = time.perf_counter()
    trials = run_trials(configuration, fits, pool=pool, progress=progress)
    return replace(judged(configuration, trials), seconds=time.perf_counter() - start)


def judged(configuration: Configuration, trials: Trials) -> Finding:
    """What the trials say about the claim of their certificate."""
    certificate = trials.certificates[0]
    mechanisms, delta = certificate.mechanisms, certificate.delta
    limit, curve = most_right(mechanisms), certified_curve(mechanisms, delta)
    right, total = guesses(trials)
    alone = (one for one in mechanisms if one.name in trials.mechanisms)
    return Finding(
        configuration=configuration.name,
        sentence=configuration.sentence,
        fits=len(trials.scores[0]),
        epsilon=certificate.epsilon,
        delta=delta,
        epsilon_lower=lower_bound(trials, mechanisms, delta),
        epsilon_assumption_free=assumption_free(trials, delta),
        right=right / total,
        right_at_most=limit,
        least_share=configuration.least_share,
        gates=(
            gate_of_certificates(trials),
            gate_of_guesses(trials, limit),
            gate_of_rates(trials, curve),
            gate_of_scalars(trials, limit, curve),
            *(gate_of_mechanism(one, trials.mechanisms[one.name]) for one in alone),
        ),
        seconds=0.0,
    )


# -- gates and bounds ----------------------------------------------------------------------------------------------


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
    passed = len(trials.certificates) == 1 and spent <= first.epsilon * (1 + ROUNDING)
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
