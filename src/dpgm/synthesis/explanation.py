"""What the guarantee of a plan or of a release means for one person, in odds: `dpgm explain` and the certificate.

The promise (epsilon and delta alone) and the plan (all mechanisms) stand side by side. Every figure is an upper bound,
rounded up, so that no text states less risk than the certificate.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

from dpgm.privacy.certificate import Certificate
from dpgm.privacy.odds import WRONGLY, Odds, odds, promised_odds
from dpgm.synthesis.plan import Plan


@dataclass(frozen=True)
class Explanation:
    """The guarantee of one release, or of a plan for one.

    Attributes:
        protects: whom it protects, such as "one person".
        epsilon: of the guarantee.
        delta: of the guarantee.
        promise: the odds that epsilon and delta allow.
        plan: the odds that the mechanisms allow; never larger.
    """

    protects: str
    epsilon: float
    delta: float
    promise: Odds
    plan: Odds

    @property
    def who(self) -> str:
        """Whose presence somebody wants to find out."""
        return "one particular row" if self.protects == "one row" else "one particular person"

    @property
    def sentences(self) -> tuple[str, ...]:
        """The odds in words."""
        plan, promise = self.plan, self.promise
        return (
            f"Somebody studies the release to find out whether {self.who} was in the data. Suppose their method "
            f"wrongly accuses {WRONGLY:g} of 100 who were not in it. Then it rightly accuses at most "
            f"{people(plan.accused)} of 100 who were ({plan.accused:.1f}); without any release it would be "
            f"{WRONGLY:g}. Epsilon and delta alone promise at most {people(promise.accused)} ({promise.accused:.1f}).",
            f"Told to guess in or out, half and half, they are right at most {people(plan.guesses)} times of 100 "
            f"({plan.guesses:.1f}); tossing a coin is right 50 times. Epsilon and delta alone promise at most "
            f"{people(promise.guesses)} ({promise.guesses:.1f}).",
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return asdict(self) | {"wrongly": WRONGLY, "sentences": list(self.sentences)}


def explain_plan(plan: Plan) -> Explanation:
    """What a plan promises, before any data is opened."""
    most = plan.rows_per_person
    protects = "one record" if most == 1 else f"one person with up to {most} rows"
    found = odds(plan.mechanisms, plan.delta)
    return Explanation(protects, plan.epsilon, plan.delta, promised_odds(plan.epsilon, plan.delta), found)


def explain_certificate(certificate: Certificate) -> Explanation:
    """What a certificate says; its figures are taken as they stand (`verify` checks them)."""
    promise = promised_odds(certificate.epsilon, certificate.delta)
    found = promise if certificate.odds is None else certificate.odds
    return Explanation(protected(certificate), certificate.epsilon, certificate.delta, promise, found)


def protected(certificate: Certificate) -> str:
    """Whom a certificate protects."""
    rows = certificate.plan.get("rows_per_person", 1)
    return f"one {certificate.unit}" if rows == 1 else f"one {certificate.unit} with up to {rows} rows"


def people(figure: float) -> int:
    """A figure of 100 as whole people, rounded up."""
    return min(100, math.ceil(figure))
