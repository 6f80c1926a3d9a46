"""The audit of tiny fits: trials, gates, bounds, verdict."""

import os
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from typing import Any

from dpgm.audit.gates import (
    Gate,
    assumption_free,
    certified_curve,
    gate_of_guesses,
    gate_of_rates,
    gate_of_scalars,
    guesses,
    lower_bound,
    most_right,
)
from dpgm.audit.trials import Configuration, configurations, processes, run_trials
from dpgm.errors import UsageError
from dpgm.strategy.protocol import Progress, silent

FITS = 500  # with the canary and as many without, times a configuration's effort: two to three minutes
QUICK_FITS = 60


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
