"""What an audit found, as plain values."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Gate:
    """A test that the claim must not fail: its p-value, and what was looked at."""

    name: str
    p: float
    passed: bool
    detail: str


@dataclass(frozen=True)
class Finding:
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
    def share(self) -> float:
        """The lower bound as a share of the claim."""
        return self.epsilon_lower / self.epsilon

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
        if not self.passed:
            return "PRIVACY BUG: the release betrays more than it claims"
        return "no contradiction" if self.strong else "no contradiction, but the audit is weak (too few fits)"

    def to_json(self) -> dict[str, Any]:
        """Plain values by name."""
        values = asdict(self) | {"share": self.share, "passed": self.passed, "strong": self.strong}
        return values | {"verdict": self.verdict}


@dataclass(frozen=True)
class OneRunFinding:
    """One fit of a public file with many canaries, each in the data with probability one half."""

    canaries: int
    guesses: int
    right: int
    epsilon: float
    delta: float
    epsilon_lower: float
    model: str
    records: int
    seconds: float

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

    def to_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return asdict(self) | {"share": self.share, "passed": self.passed, "verdict": self.verdict}
