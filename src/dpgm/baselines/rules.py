"""Tuned numbers of the baselines, each with its unit and reason. All chosen by hand: they should be fair, not best."""

from dataclasses import dataclass


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


BASELINE_RULES = BaselineRules()
