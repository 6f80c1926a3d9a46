"""Which dates never come after which others in a table: suggestions for its curator, never a rule by themselves.

Without a rule a synthetic discharge can come before its admission. What the rows show is told to the curator alone, who
states it as a public rule where everybody knows that it holds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

ENOUGH_ROWS = 20  # rows with both dates, from which an order may be more than chance
_MOST_COLUMNS = 20
_SOON = 0.25  # of the standard deviation of the first date: then the time between says more than the second date
_DAY = 86_400


@dataclass
class DateOrders:
    """Pairs of date columns, and in how many rows the first one was before, with or after the second."""

    before: dict[tuple[str, str], int] = field(default_factory=dict)
    equal: dict[tuple[str, str], int] = field(default_factory=dict)
    gaps: dict[tuple[str, str], float] = field(default_factory=dict)  # sums of the second minus the first
    moments: dict[str, NDArray[np.float64]] = field(default_factory=dict)  # number, sum and sum of squares, in days

    def see(self, seconds: Mapping[str, NDArray[np.float64]]) -> None:
        """Compare the dates of some rows, NaN where one is missing."""
        for pair in permutations(list(seconds)[:_MOST_COLUMNS], 2):
            first, second = seconds[pair[0]], seconds[pair[1]]
            self.before[pair] = self.before.get(pair, 0) + int((first < second).sum())
            self.equal[pair] = self.equal.get(pair, 0) + int((first == second).sum())
            self.gaps[pair] = self.gaps.get(pair, 0.0) + float(np.nansum(second - first)) / _DAY
        for name, dates in seconds.items():
            days = dates[~np.isnan(dates)] / _DAY
            sums = np.array([len(days), days.sum(), (days**2).sum()])
            self.moments[name] = self.moments.get(name, np.zeros(3)) + sums

    def is_close(self, first: str, second: str) -> bool:
        """Whether the second date follows soon: by a fraction of how far the first ones lie apart, on average."""
        rows = self.before[first, second] + self.equal[first, second]
        count, total, squares = self.moments[first]
        spread = max(squares / count - (total / count) ** 2, 0.0) ** 0.5
        return bool(self.gaps[first, second] / rows < _SOON * spread)

    def found(self, columns: tuple[str, ...]) -> list[tuple[str, str]]:
        """Pairs of these columns whose first never comes after the second; none that follows from two others."""
        holds = {
            pair
            for pair, before in self.before.items()
            if set(pair) <= set(columns) and before and not self.before.get((pair[1], pair[0]))
            if before + self.equal[pair] >= ENOUGH_ROWS
        }
        return [
            (first, last)
            for first, last in sorted(holds, key=lambda pair: (columns.index(pair[0]), columns.index(pair[1])))
            if not any((first, middle) in holds and (middle, last) in holds for middle in columns)
        ]


def order_rule(first: str, second: str) -> str:
    """The rule as a domain file states it.

    >>> order_rule("admitted", "day left")
    'admitted <= "day left"'
    """
    return f"{_quoted(first)} <= {_quoted(second)}"


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'
