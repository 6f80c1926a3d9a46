"""Tuned numbers of the baselines, each with its unit and reason. All chosen by hand: they should be fair, not best."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BaselineRules:
    """Independent marginals and MWEM."""

    # Share of mu² for the histogram of record lengths, which bounds the length that counts are clipped to.
    lengths: float = 0.05
    # Independent marginals: share of the records that the clipping leaves whole.
    covered: float = 0.99
    # MWEM: most items, and items whose joint distribution is kept as one table of 2^12 numbers.
    most_items: int = 2_000
    largest_group: int = 12
    # Rounds of MWEM: those of the paper's comparison.
    iterations: int = 50
    # Passes over the measurements so far in every round.
    replays: int = 20


RULES = BaselineRules()
