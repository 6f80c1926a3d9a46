"""Findings of a verdict: a sentence about one figure, and the level that the limits of this figure allow.

`VerdictRules` holds every limit with its reason (except that for copies, which is in `copies.py`). The checks of
`column_checks.py` and `record_checks.py` yield findings; `verdict.py` makes a grade and a headline of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from dpgm.evaluation.evaluate import Evaluation

CLOSE, USEFUL, ROUGH, COPIES = range(4)  # levels, from good to bad
TOO_FEW = "There are too few records to judge"  # begins a sentence about a figure that only reflects chance
NAMED = 3  # columns named in the headline, and examples named in a sentence
_SMALLEST_PERCENT = 0.01  # smaller shares are printed as "under 0.01 %"
_ONE_PERCENT = 0.01  # shares from here on are printed with one decimal


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
    # Difference of the mean length, relative to the real mean: totals of all items are off by as much.
    mean_length: Limits = Limits(0.1, 0.3)
    # Difference in the share of empty records above which it is mentioned.
    empty_gap: float = 0.01
    # A difference of 5 points in the share of one value, or of missing values, changes a reader's conclusions.
    share_gap: float = 0.05
    # A tenth of a standard deviation: called a negligible effect in statistics.
    median_shift: float = 0.1
    mean_shift: float = 0.1
    # Share of the values between the two medians: medians of few distinct values jump although hardly a value
    # changes. A tenth of a standard deviation is 4 % of a normal distribution.
    median_mass: float = 0.04
    # Probability that a new sample of the real population is called off by one family of figures.
    false_alarm: float = 0.01
    # Figures of columns that a table has, about: each may be off by chance.
    column_figures: int = 50
    # Kolmogorov distance (total variation of categories): at least a tenth of the rows would have to change.
    column_distance: float = 0.1
    # Standard deviation relative to that of the real column: outside of this, tails are cut off or invented.
    deviation_ratio: tuple[float, float] = (2 / 3, 1.5)
    # Share of the values below the smallest or above the largest real value: impossible values, such as -1 children.
    outside_range: float = 0.01
    # Share of columns that may be off before the grade is "rough".
    columns_off: float = 1 / 3
    # Difference in the association (0 to 1) of any pair of columns: a dependence that is lost or invented.
    association_gap: Limits = Limits(0.15, 0.4)
    # Share of the rows in which two columns are in an order that (nearly) no real row has: discharged before admitted.
    out_of_order: Limits = Limits(0.01, 0.25)
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


RULES = VerdictRules()


class Finding(NamedTuple):
    """A sentence, whether it says that something is off, and the best level that it allows, if it limits the grade.

    `subject` is the pair of columns that the headline names if nothing else is as bad.
    """

    text: str
    off: bool
    level: int | None = None
    subject: str = ""


Findings: TypeAlias = Iterator[Finding]


def graded(level: int, text: str, subject: str = "") -> Finding:
    """A finding that limits the grade; it says that something is off unless its level is `CLOSE`."""
    return Finding(text, level > 0, level, subject)


def beyond_chance(
    evaluation: Evaluation, figure: str, value: float, limits: Limits, what: str, text: str, rest: str = ""
) -> Finding:
    """Grade the part of a figure that chance does not explain; `text` and `rest` are the sentence.

    If there are too few records for the figure to mean anything, the sentence says that instead, without a level.
    """
    chance, most = evaluation.chance.get(figure, 0.0), evaluation.chance_most.get(figure, 0.0)
    level = limits.level(max(0.0, value**2 - most**2) ** 0.5)
    by = percent(chance) if chance <= 1 else "more than 100 %"
    if not level and value > limits.close and max(value, chance) > limits.useful:
        few = f"{TOO_FEW} {what}: even a new sample of real records would be off by {by}."
        return Finding(few, True)
    aside = f" (for a new sample of real records: {by})" if chance > value / 3 else ""
    return graded(level, f"{text}{aside}{rest}.")


def percent(share: float) -> str:
    """A share or relative error in percent, with two significant digits below 10 %.

    >>> percent(0.0042), percent(0.137), percent(3.0), percent(8.6e-11)
    ('0.42 %', '14 %', '300 %', 'under 0.01 %')
    """
    value = 100 * share
    if 0 < value < _SMALLEST_PERCENT:
        return f"under {_SMALLEST_PERCENT} %"
    return "0 %" if value == 0 else f"{value:.2g} %" if value < 9.95 else f"{value:.0f} %"


def share_text(share: float) -> str:
    """A share in percent with one decimal, so that 99.9 % does not become 100 %.

    >>> share_text(0.917), share_text(0.0005), share_text(0.0), share_text(1.0)
    ('91.7 %', '0.05 %', '0 %', '100 %')
    """
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    return f"{100 * share:.1f} %" if share >= _ONE_PERCENT else percent(share)


def listed(names: Sequence[str]) -> str:
    """The first names and the number of the others.

    >>> listed(["age"]), listed(["a", "b", "c", "d", "e"])
    ('age', 'a, b, c and 2 more')
    """
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
