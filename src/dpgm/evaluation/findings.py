"""Findings of a verdict: values that say what was found, in which columns, with which numbers, and how bad it is.

`VerdictRules` holds every limit with its reason (except that for copies, which is in `copies.py`). The checks of
`row_checks.py` and `record_checks.py` yield findings, `verdict.py` makes a grade of them, and `sentences.py` puts them
into words.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dpgm.evaluation.traits import TraitPart

CLOSE, USEFUL, ROUGH, COPIES = range(4)  # levels, from good to bad
NAMED = 3  # columns named in the headline, and examples named in a sentence


@dataclass(frozen=True)
class Limits:
    """A figure up to `close` is good, one up to `useful` is usable with care, a larger one is bad."""

    close: float
    useful: float

    def level(self, value: float) -> int:
        """The level of a figure: 0 (close), 1 (useful) or 2 (rough).

        >>> [Limits(0.05, 0.2).level(value) for value in (0.05, 0.1, 0.3)]
        [0, 1, 2]
        """
        return 0 if value <= self.close else 1 if value <= self.useful else 2


@dataclass(frozen=True)
class VerdictRules:
    """Limits of the verdict.

    Relative errors and shares are fractions (0.05 = 5 %, or 5 percentage points for a difference of shares).
    """

    # Mean relative error of popular counts: 5 % is the sampling error of a survey of a few thousand people.
    single_counts: Limits = Limits(0.05, 0.15)
    # Pairs are rarer than single values, so the same survey has about three times that error.
    pair_counts: Limits = Limits(0.15, 0.35)
    # Share of the rows that would have to change for a pair of columns to match, averaged over pairs.
    column_pairs: Limits = Limits(0.08, 0.2)
    # Accuracy of a model beyond guessing: the share of it that is lost by training on synthetic records.
    learning_lost: Limits = Limits(0.1, 0.35)
    # Share of the records whose length would have to change.
    lengths: Limits = Limits(0.1, 0.3)
    # Share of the steps, of starts with ends, or of the hours of events, that would have to change: as for lengths, but
    # steps of many items are rarer.
    event_steps: Limits = Limits(0.1, 0.35)
    event_times: Limits = Limits(0.05, 0.2)
    # Mean relative error of how many people have each of the commonest runs of three items; as for pairs.
    event_runs: Limits = Limits(0.15, 0.35)
    # Difference of the mean length, relative to the real mean: totals of all items are off by as much.
    mean_length: Limits = Limits(0.1, 0.3)
    # Difference in the share of empty records above which it is mentioned.
    empty_gap: float = 0.01
    # A difference of 5 points in the share of one label or item changes a reader's conclusions.
    share_gap: float = 0.05
    # Probability that a new sample of the real population is called off by one family of figures.
    false_alarm: float = 0.01
    # Effect on a share of rows, all of them or those of a group (see `evidence.py`): 55 % instead of 45 %, or 1 %
    # instead of 0 %, called small in statistics; then 70 % instead of 30 %, or 15 % instead of 0 %.
    shares: Limits = Limits(0.1, 0.4)
    # Share of the real rows that a group must hold before it alone makes the grade "rough".
    wide_group: float = 0.1
    # Difference of two rank correlations (-1 to 1): from no relation to one that is called small in statistics.
    relation_gap: Limits = Limits(0.1, 0.4)
    # A tenth of a standard deviation: called a negligible effect in statistics.
    mean_shift: float = 0.1
    # Ratio of standard deviations: beyond this, tails are cut off or invented.
    deviation_ratio: float = 1.5
    # Share of columns that may be off before the grade is "rough".
    columns_off: float = 1 / 3
    # Lost items or values (see `marginals.LostItems`), as a share of those in at least 0.1 % of the real records.
    lost_items: Limits = Limits(0.05, 0.3)
    # Share of the real records' items that the domain does not list, so that no synthetic record holds them.
    outside: Limits = Limits(0.05, 0.2)
    # 1 - (share of distinct synthetic records / share of distinct real records): records that are repeated.
    distinct_ratio: Limits = Limits(0.2, 0.5)
    # Relative error above which the worst item is named.
    rare_error: float = 0.25
    # Share of the most frequent sets that should be found.
    sets_found: float = 0.8
    # How many times as accurate as independent items the data must be before that is mentioned.
    worth_saying: float = 1.5
    # Error of independent items, relative to that of the data, below which they are called better rather than as good.
    simple_is_better: float = 0.9
    # Accuracy that a model must gain over guessing before a loss of it can be judged.
    least_learned: float = 0.01
    # |1 - variety of the images of one label relative to the real ones|.
    image_variety: Limits = Limits(0.3, 0.6)
    # Mean difference per pixel between the mean images of the labels.
    pixel_difference: Limits = Limits(0.03, 0.08)


VERDICT_RULES = VerdictRules()


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Attributes:
        kind: which sentence of `sentences.py` describes it.
        level: the best grade that it allows; None if it limits no grade.
        numbers: the figures of the sentence, by name.
        subject: what it is about: columns, items, values, or rows with some values.
        off: whether it says that something is off.
        undecided: whether it says that there are too few records to tell.
        parts: findings about the same subject that are said in one sentence.
    """

    kind: str
    level: int | None
    numbers: Mapping[str, float] = field(default_factory=dict)
    subject: tuple[str | TraitPart, ...] = ()
    off: bool = True
    undecided: bool = False
    parts: tuple["Finding", ...] = ()


Findings: TypeAlias = Iterator[Finding]


def graded(
    kind: str, level: int, numbers: Mapping[str, float] | None = None, subject: tuple[str | TraitPart, ...] = ()
) -> Finding:
    """A finding that limits the grade; it says that something is off unless its level is `CLOSE`."""
    return Finding(kind, level, numbers or {}, subject, off=level > CLOSE)


def beyond_chance(
    kind: str,
    value: float,
    chance: float,
    most: float,
    limits: Limits,
    numbers: Mapping[str, float],
    subject: tuple[str | TraitPart, ...] = (),
) -> Finding:
    """Grade the part of a figure that chance does not explain.

    Args:
        kind: kind of the finding; if there are too few records to judge the figure, it is `too_few_<kind>`.
        value: the figure.
        chance: what a new sample of real records gives.
        most: what hardly any such sample exceeds.
        limits: limits of the figure.
        numbers: other numbers of the sentence.
        subject: what the figure is about.
    """
    level = limits.level(max(0.0, value**2 - most**2) ** 0.5)
    numbers = {"value": value, "chance": chance} | dict(numbers)
    if not level and value > limits.close and max(value, chance) > limits.useful:
        return Finding(f"too_few_{kind}", None, numbers, subject, off=False, undecided=True)
    return graded(kind, level, numbers, subject)
