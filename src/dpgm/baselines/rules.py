"""Tuned numbers of the baselines, each with its unit and reason. All chosen by hand: they should be fair, not best."""

from dataclasses import dataclass, field

from dpgm import validation
from dpgm.products.rules import SamplingRules
from dpgm.strategy.settings import FamilySettings


@dataclass(frozen=True)
class BaselineRules:
    """Independent marginals and MWEM."""

    # Share of mu² for the histogram of record lengths, from which the bound on the length is taken.
    lengths: float = 0.05
    # Independent marginals: share of the records that are not down-weighted.
    covered: float = 0.99
    # MWEM: most items of a domain, since all pairs are candidates, and most items of a group, whose joint distribution
    # is a table of 2^12 numbers.
    most_items: int = 2_000
    largest_group: int = 12
    # MWEM: number of rounds, as in the paper's comparison.
    iterations: int = 50
    # MWEM: passes per round over all measurements so far.
    replays: int = 20
    # Independent marginals: how samples are drawn that meet a condition.
    sampling: SamplingRules = field(default_factory=SamplingRules)


BASELINE_RULES = BaselineRules()


# Not tuned: a release with groups of more items is refused.
MOST_GROUPED = 16


@dataclass(frozen=True)
class BaselineSettings(FamilySettings):
    """The tuned numbers, as a plan keeps them."""

    rules: BaselineRules = BASELINE_RULES

    def check(self) -> None:
        """Sampling that takes a reasonable time."""
        self.rules.sampling.check()


@dataclass(frozen=True)
class MwemSettings(BaselineSettings):
    """With the number of rounds of select, measure, update."""

    iterations: int = BASELINE_RULES.iterations

    def check(self) -> None:
        """At least one round, and groups whose tables fit into memory."""
        super().check()
        validation.whole(at_least=1, at_most=100_000, iterations=self.iterations)
        validation.whole(at_least=1, at_most=MOST_GROUPED, largest_group=self.rules.largest_group)


def baseline_rules(settings: FamilySettings) -> BaselineRules:
    """The tuned numbers of a plan."""
    assert isinstance(settings, BaselineSettings)
    return settings.rules
