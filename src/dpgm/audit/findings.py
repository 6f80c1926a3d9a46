"""The audit of tiny fits: three tests of a claim against trials, lower bounds on epsilon, and a verdict.

Under the claim no test of membership can be right more often than (1 + delta(0)) / 2, where delta(epsilon) is the
certified profile, nor have rates (false positives f, true positives t) with t > e^epsilon f + delta(epsilon) for any
epsilon. Each gate fails a correct build with probability below `LEVEL`; thresholds are fixed before the fits are made,
or learned on other fits.
"""

import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpgm.audit.trials import Configuration, Trials, configurations, processes, run_trials
from dpgm.errors import UsageError
from dpgm.privacy.accountant import cost, delta_at, profile
from dpgm.privacy.events import Mechanism
from dpgm.strategy.protocol import Progress, silent

FITS = 500  # with the canary and as many without, times a configuration's effort: two to three minutes
QUICK_FITS = 60
LEVEL = 1e-3 / 3  # of each of the three gates: one false alarm in a thousand audits
CONFIDENCE = 0.99  # of lower bounds: a tight audit of correct code exceeds the claim once in a hundred times
THRESHOLDS = (0.0, -1.0, 1.0, -3.0, 3.0)  # of the score; the first is that of the gate of guesses
SCALES = (0.25, 8.0)  # of the noise, among which the least private one that is contradicted is sought
SCALE_WIDTH, LEVEL_WIDTH = 0.002, 0.05  # to which bisections of log scales and of log levels are settled
CURVE = np.linspace(0.0, 12.0, 49)  # epsilons at which the certified profile is looked up


@dataclass(frozen=True)
class Gate:
    """A test that the claim must not fail: its p-value, and what was looked at."""

    name: str
    p: float
    passed: bool
    detail: str


class Claim:
    """What every audit says of the epsilon that is claimed."""

    epsilon: float
    epsilon_lower: float

    @property
    def share(self) -> float:
        """The lower bound as a share of the claim."""
        return self.epsilon_lower / self.epsilon

    @property
    def passed(self) -> bool:
        """The lower bound does not exceed the claim."""
        return self.share <= 1

    @property
    def verdict(self) -> str:
        """In words."""
        return "no contradiction" if self.passed else "PRIVACY BUG: the release betrays more than it claims"


@dataclass(frozen=True)
class Finding(Claim):
    """One configuration: the claim, what could be shown against it, and the verdict.

    `epsilon_lower` holds at 99 % within the family "the certified mechanism with its noise scaled";
    `epsilon_assumption_free` holds at 98 % whatever the mechanism, and is much weaker.
    """

    configuration: str
    sentence: str
    fits: int
    epsilon: float
    delta: float
    epsilon_lower: float
    epsilon_assumption_free: float
    right: float
    right_at_most: float
    least_share: float
    gates: tuple[Gate, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """No gate failed and the lower bound does not exceed the claim."""
        return all(gate.passed for gate in self.gates) and self.share <= 1

    @property
    def strong(self) -> bool:
        """Whether the audit saw enough to mean something."""
        return self.share >= self.least_share

    @property
    def verdict(self) -> str:
        """In words."""
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
        names: configurations by name; all of them by default.
        fits: how many fits with the canary, and as many without; times the effort of a configuration.
        workers: processes; one per core by default.
        progress: called with a configuration's name, how much of it is done and how much there is.

    Returns:
        One finding per configuration; `Finding.passed` is the verdict.
    """
    known = {configuration.name: configuration for configuration in configurations()}
    for name in names or ():
        if name not in known:
            raise UsageError(f"there is no audit {name!r}; there are {', '.join(known)}.")
    if fits < 40:
        raise UsageError(f"an audit needs at least 40 fits with the canary and as many without; got {fits}.")
    workers = len(os.sched_getaffinity(0)) if workers is None else workers
    with processes(workers) as pool:  # the same for all: starting them takes as long as a hundred fits
        chosen = [known[name] for name in names or known]
        return [_audit_twice_if_alarmed(one, round(fits * one.effort), pool, progress) for one in chosen]


def _audit_twice_if_alarmed(
    configuration: Configuration, fits: int, pool: Executor | None, progress: Progress
) -> Finding:
    """An alarm is looked into once, with fresh entropy and four times as many fits; only what it shows then counts."""
    found = _audit(configuration, fits, pool, progress)
    return found if found.passed else _audit(configuration, 4 * fits, pool, progress)


def _audit(configuration: Configuration, fits: int, pool: Executor | None, progress: Progress) -> Finding:
    start = time.perf_counter()
    trials = run_trials(configuration, fits, pool=pool, progress=progress)
    mechanisms, delta = configuration.plan.mechanisms, configuration.plan.delta
    limit, curve = most_right(mechanisms), certified_curve(mechanisms, delta)
    right, total = guesses(trials)
    return Finding(
        configuration=configuration.name,
        sentence=configuration.sentence,
        fits=fits,
        epsilon=configuration.plan.epsilon,
        delta=delta,
        epsilon_lower=lower_bound(trials, mechanisms, delta),
        epsilon_assumption_free=assumption_free(trials, delta),
        right=right / total,
        right_at_most=limit,
        least_share=configuration.least_share,
        gates=(
            gate_of_guesses(trials, limit),
            gate_of_rates(trials, curve),
            gate_of_scalars(trials, limit, curve),
        ),
        seconds=time.perf_counter() - start,
    )


# -- gates and bounds ----------------------------------------------------------------------------------------------


def guesses(trials: Trials) -> tuple[int, int]:
    """How many guesses by the sign of the score are right, of how many."""
    without, with_it = trials.scores
    return int((without <= 0).sum() + (with_it > 0).sum()), len(without) + len(with_it)


def most_right(mechanisms: Sequence[Mechanism]) -> float:
    """The most often that any guess can be right under the claim."""
    return 0.5 * (1 + delta_at(mechanisms, 0.0))


def gate_of_guesses(trials: Trials, limit: float) -> Gate:
    """G1: guesses by the sign of the score are not right more often than the claim allows."""
    right, total = guesses(trials)
    p = float(stats.binom.sf(right - 1, total, limit))
    return Gate("G1 guesses", p, p >= LEVEL, f"{right / total:.1%} right; the claim allows {limit:.1%}")


def gate_of_rates(trials: Trials, curve: Callable[[float], float]) -> Gate:
    """G2: no pair of error rates lies below the certified trade-off curve; finds lopsided leaks.

    `curve` gives the largest true positive rate that the claim allows at a false positive rate.
    """
    without, with_it = trials.scores
    looks = len(THRESHOLDS)
    p = min(_worst_of_rates(without > limit, with_it > limit, curve, looks) for limit in THRESHOLDS)
    return Gate("G2 rates", p, p >= LEVEL, f"{looks} thresholds of the score")


def gate_of_scalars(trials: Trials, limit: float, curve: Callable[[float], float]) -> Gate:
    """G3: no single released number tells more than the claim allows; learned on one half, tested on the other."""
    halves = [[arm[start::2] for arm in trials.released] for start in (0, 1)]
    column, threshold, above = _best_scalar(*halves[0])
    without, with_it = ((arm[:, column] > threshold) == above for arm in halves[1])
    right, total = int((~without).sum() + with_it.sum()), len(without) + len(with_it)
    by_guesses = float(stats.binom.sf(right - 1, total, limit))
    p = min(1.0, 2 * by_guesses, 2 * _worst_of_rates(without, with_it, curve, 1))
    detail = f"best of {trials.released[0].shape[1]} released numbers: {right / total:.1%} right on fresh fits"
    return Gate("G3 scalars", p, p >= LEVEL, detail)


def certified_curve(mechanisms: Sequence[Mechanism], delta: float) -> Callable[[float], float]:
    """The largest true positive rate at a false positive rate that the certified profile allows."""
    composed = profile(mechanisms, delta)
    deltas = np.array([max(each.delta(float(epsilon)) for each in composed) for epsilon in CURVE])

    def curve(false_positives: float) -> float:
        return float(min(1.0, np.min(np.exp(CURVE) * false_positives + deltas)))

    return curve


def lower_bound(trials: Trials, mechanisms: Sequence[Mechanism], delta: float) -> float:
    """Epsilon of the least private mechanism that the guesses contradict, among the certified one with scaled noise."""
    right, total = guesses(trials)
    proven = _lower(right, total, 1 - CONFIDENCE)

    def contradicted(log_scale: float) -> bool:
        return most_right(_scaled(mechanisms, math.exp(log_scale))) < proven

    low, high = (math.log(scale) for scale in SCALES)
    if not contradicted(high):
        return 0.0
    _, scale = bisect(contradicted, low, high, SCALE_WIDTH)
    return cost(_scaled(mechanisms, math.exp(scale)), delta, check=False, cache=False).epsilon


def bisect(holds: Callable[[float], bool], low: float, high: float, width: float) -> tuple[float, float]:
    """The ends of an interval in which something begins to hold that does not at `low` and does at `high`."""
    while high - low > width:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def assumption_free(trials: Trials, delta: float) -> float:
    """Epsilon shown for any mechanism by two Clopper-Pearson bounds; a quarter of the fits teach the threshold."""
    quarters = [len(arm) // 4 for arm in trials.scores]
    learned = [arm[:quarter] for arm, quarter in zip(trials.scores, quarters, strict=True)]
    fresh = [arm[quarter:] for arm, quarter in zip(trials.scores, quarters, strict=True)]
    candidates = np.concatenate(learned)
    best, threshold = 0.0, 0.0
    for candidate in candidates:
        shown = _epsilon_of_rates(learned[0] > candidate, learned[1] > candidate, delta)
        if shown > best:
            best, threshold = shown, float(candidate)
    return _epsilon_of_rates(fresh[0] > threshold, fresh[1] > threshold, delta)


def _scaled(mechanisms: Sequence[Mechanism], scale: float) -> list[Mechanism]:
    return [replace(each, noise=each.noise * scale) for each in mechanisms]


def _worst_of_rates(
    without: NDArray[np.bool_], with_it: NDArray[np.bool_], curve: Callable[[float], float], looks: int
) -> float:
    """A p-value, in both directions, for rates that contradict the curve; at most 1."""
    rates = [(int(a.sum()), len(a), int(b.sum()), len(b)) for a, b in ((without, with_it), (~with_it, ~without))]

    def contradicted(log_level: float) -> bool:
        return any(_contradicts(rate, curve, math.exp(log_level)) for rate in rates)

    if not contradicted(0.0):
        return 1.0
    _, level = bisect(
        contradicted, math.log(1e-12), 0.0, LEVEL_WIDTH
    )  # the largest at which no contradiction remains
    return min(1.0, 2 * looks * math.exp(level))


def _contradicts(rate: tuple[int, int, int, int], curve: Callable[[float], float], level: float) -> bool:
    false, negatives, true, positives = rate
    return _lower(true, positives, level / 2) > curve(_upper(false, negatives, level / 2))


def _epsilon_of_rates(without: NDArray[np.bool_], with_it: NDArray[np.bool_], delta: float) -> float:
    level = (1 - CONFIDENCE) / 2
    shown = 0.0
    for a, b in ((without, with_it), (~with_it, ~without)):
        true, false = _lower(int(b.sum()), len(b), level), _upper(int(a.sum()), len(a), level)
        if true - delta > false:
            shown = max(shown, math.log((true - delta) / false))
    return shown


def _lower(count: int, total: int, level: float) -> float:
    return float(stats.beta.ppf(level, count, total - count + 1)) if count else 0.0


def _upper(count: int, total: int, level: float) -> float:
    return float(stats.beta.isf(level, count + 1, total - count)) if count < total else 1.0


def _best_scalar(without: NDArray[np.float32], with_it: NDArray[np.float32]) -> tuple[int, float, bool]:
    """The column, threshold and direction by which the two arms differ most (Kolmogorov-Smirnov)."""
    best = (-1.0, 0, 0.0, True)
    for column in range(without.shape[1]):
        a, b = np.sort(without[:, column]), np.sort(with_it[:, column])
        points = np.concatenate([a, b])
        gap = np.searchsorted(a, points, side="right") / len(a) - np.searchsorted(b, points, side="right") / len(b)
        at = int(np.argmax(np.abs(gap)))
        if abs(gap[at]) > best[0]:
            best = (float(abs(gap[at])), column, float(points[at]), bool(gap[at] > 0))
    return best[1], best[2], best[3]
