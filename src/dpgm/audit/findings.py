"""The audit of tiny fits: what trials say about the claim of their certificate.

A configuration fails if one of its gates fails (`gates.py`) or a lower bound on epsilon exceeds the claim. Then it is
tried again with four times as many new fits, and only that result counts: a correct build raises an alarm with
probability at most `false_alarm_rate`, below one in a thousand.
"""

import math
import os
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from typing import Any

from dpgm.audit.configurations import Configuration, configurations
from dpgm.audit.gates import (
    CONFIDENCE,
    LEVEL,
    Gate,
    assumption_free,
    certified_curve,
    gate_of_certificates,
    gate_of_guesses,
    gate_of_mechanism,
    gate_of_rates,
    gate_of_scalars,
    guesses,
    lower_bound,
    most_right,
)
from dpgm.audit.trials import Trials, processes, run_trials
from dpgm.errors import UsageError
from dpgm.strategy.protocol import Progress, silent

FITS = 500  # fits with the canary, and as many without, times a configuration's effort: two to three minutes
QUICK_FITS = 60
WHOLE_GATES = 3  # gates of a configuration that look at the whole fit and may fail by chance


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
        return "no contradiction" if self.passed else "PRIVACY BUG: the release leaks more than it claims"


@dataclass(frozen=True)
class AuditFinding(Claim):
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
) -> list[AuditFinding]:
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


def _audit(configuration: Configuration, fits: int, pool: Executor | None, progress: Progress) -> AuditFinding:
    start = time.perf_counter()
    trials = run_trials(configuration, fits, pool=pool, progress=progress)
    return replace(judge_trials(configuration, trials), seconds=time.perf_counter() - start)


def judge_trials(configuration: Configuration, trials: Trials) -> AuditFinding:
    """What the trials say about the claim of their certificate."""
    certificate = trials.certificates[0]
    mechanisms, delta = certificate.mechanisms, certificate.delta
    limit, curve = most_right(mechanisms), certified_curve(mechanisms, delta)
    right, total = guesses(trials)
    alone = (one for one in mechanisms if one.name in trials.mechanisms)
    return AuditFinding(
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
