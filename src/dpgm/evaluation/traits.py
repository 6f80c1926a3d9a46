"""Traits: the properties of a row that are compared in all rows, within groups of rows, and pair by pair.

The values of a trait are divided into cells: the values themselves if they are few, otherwise popular values and ranges
of about equally many rows of both data sets. `trait_makers.py` makes traits of columns, lists and records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from dpgm.arrays import Codes, Floats
from dpgm.data.kinds.base import ColumnKind

Aspect: TypeAlias = Literal[
    "values", "weekday", "month", "day", "hour", "rounding", "form", "time", "length", "item"
]
Which: TypeAlias = Literal["value", "range", "up_to", "above", "other", "missing", "present"]
_CELLS = 48  # ordered values are divided into about so many ranges: each holds 2 % of the rows
_POPULAR = 0.005  # share of either side's rows from which on an ordered value is a cell of its own
_GROUPS = 8  # ranges of an ordered trait that are groups of rows
_OWN_GROUP = 1 / 16  # share of the rows from which on one of its values is a group of its own
_CELL, _UP_TO, _MISSING = range(3)  # what a share is of
_MOST_LABELS = 250  # most frequent categories; the others are merged
OTHER_VALUES = "other values"


@dataclass(frozen=True)
class TraitPart:
    """Some values of a trait: one, a range of them, those up to a point or above it, missing ones or all others.

    `sentences.py` puts them into words.
    """

    trait: str
    aspect: Aspect
    kind: ColumnKind
    which: Which
    low: float | str = 0.0
    high: float | str = 0.0

    @property
    def last(self) -> float | str:
        """The largest of one value or of a range."""
        return self.high if self.which == "range" else self.low


@dataclass(frozen=True, eq=False)
class Trait:
    """One property of every row, real and synthetic.

    Attributes:
        name: what it is called.
        columns: the columns that it is made of; traits that share one are not paired.
        aspect: which property of the columns it is.
        kind: how its values are written.
        values: its ordered values, NaN where missing; None if it has no order.
        cells: the cell of every row; cells in order come first, then labelled ones, and missing at last.
        lows: smallest value in each cell in order.
        highs: largest value in each cell in order.
        labels: texts of the labelled cells.
        has_missing: whether the last cell holds missing values.
        alone: whether it is compared by itself only, not in groups.
    """

    name: str
    columns: tuple[str, ...]
    aspect: Aspect
    kind: ColumnKind
    values: tuple[Floats, Floats] | None
    cells: tuple[Codes, Codes]
    lows: Floats
    highs: Floats
    labels: tuple[str, ...]
    has_missing: bool
    alone: bool = False

    @property
    def in_order(self) -> int:
        """How many cells are in order."""
        return len(self.lows)

    @property
    def width(self) -> int:
        """The number of cells."""
        return self.in_order + len(self.labels) + self.has_missing

    @property
    def missing(self) -> int | None:
        """The cell of missing values."""
        return self.width - 1 if self.has_missing else None

    @property
    def comparisons(self) -> int:
        """In how many ways its shares may differ in one group of rows: cells, and values up to a cell."""
        return self.width + max(self.in_order - 1, 0)

    @cached_property
    def among(self) -> Codes:
        """Among how many comparisons each share counts: missing values, cells and values up to a cell get equal parts.

        >>> ordered("age", [np.array([1.0, 2.0]), np.array([2.0, np.nan])]).among.tolist()
        [6, 6, 3, 3]
        """
        kind = np.full(self.comparisons, _CELL)
        kind[self.width :] = _UP_TO
        if self.missing is not None:
            kind[self.missing] = _MISSING
        sizes = np.bincount(kind)
        if self.width == 2 and not self.in_order:
            sizes[:] = sizes > 0  # both cells say the same
        result: Codes = sizes[kind] * np.count_nonzero(sizes)
        return result

    @property
    def groups(self) -> int:
        """How many groups its cells form."""
        return int(self.group_of[-1]) + 1

    @cached_property
    def counts(self) -> tuple[Codes, Codes]:
        """Rows in every cell, real and synthetic."""
        real, synthetic = (np.bincount(side, minlength=self.width) for side in self.cells)
        return real, synthetic

    @cached_property
    def group_of(self) -> Codes:
        """The group of every cell: neighbours in order together, popular values and labels by themselves."""
        counts = (self.counts[0] + self.counts[1])[: self.in_order]
        groups, rows = np.zeros(self.in_order, dtype=np.int64), counts.sum()
        held, before = 0, False
        for cell, count in enumerate(counts):
            own = count >= _OWN_GROUP * rows
            if cell:
                full = held + count / 2 > rows / _GROUPS
                new = own or before or full or self.in_order <= _GROUPS
                held = 0 if new else held
                groups[cell] = groups[cell - 1] + new
            held, before = held + count, own
        first = int(groups[-1]) + 1 if len(groups) else 0
        return np.concatenate([groups, first + np.arange(self.width - self.in_order)])

    def cells_of(self, first: int, last: int) -> TraitPart:
        """The cells from `first` to `last`: of those in order some neighbours, otherwise one."""
        if first == self.missing:
            return self._cells("missing")
        if first >= self.in_order:
            return self._cells("value", self.labels[first - self.in_order])
        low, high = float(self.lows[first]), float(self.highs[last])
        return self._cells("value", low) if low == high else self._cells("range", low, high)

    def group(self, group: int) -> TraitPart:
        """The values of a group.

        >>> smokes = category("smokes", ("no", "yes"), (np.array([0, 1]), np.array([1, 1])))
        >>> smokes.group(1).low
        'yes'
        """
        inside = np.flatnonzero(self.group_of == group)
        return self.cells_of(int(inside[0]), int(inside[-1]))

    def up_to(self, cell: int) -> TraitPart:
        """The values up to the end of a cell in order."""
        return self._cells("up_to", float(self.highs[cell]))

    def above(self, cell: int) -> TraitPart:
        """The values above a cell in order."""
        return self._cells("above", float(self.highs[cell]))

    def all_but(self, cell: int) -> TraitPart:
        """All values but those of one cell."""
        if cell == self.missing:
            return self._cells("present")
        if self.width == 2:
            return self.cells_of(1 - cell, 1 - cell)
        low = self.labels[cell - self.in_order] if cell >= self.in_order else float(self.lows[cell])
        return self._cells("other", low)

    def _cells(self, which: Which, low: float | str = 0.0, high: float | str = 0.0) -> TraitPart:
        return TraitPart(self.name, self.aspect, self.kind, which, low, high)


def ordered(
    name: str,
    sides: Sequence[Floats],
    columns: tuple[str, ...] = (),
    aspect: Aspect = "values",
    kind: ColumnKind = "number",
    specials: Sequence[float] = (),
) -> Trait:
    """A trait of ordered values; NaN is missing, and specials are values with a meaning of their own.

    >>> ordered("age", [np.array([1.0, 2.0]), np.array([2.0, np.nan])]).cells[1].tolist()
    [1, 2]
    """
    plain = [np.where(np.isin(side, specials), np.nan, side) if specials else side for side in sides]
    raw, both = np.concatenate(sides), np.concatenate(plain)
    distinct, places, counts = np.unique(both[~np.isnan(both)], return_inverse=True, return_counts=True)
    cell_of = _cell_of(counts, places, int((~np.isnan(plain[0])).sum()))
    first = np.flatnonzero(np.diff(cell_of, prepend=-1))
    last = np.append(first[1:], len(distinct)) - 1 if len(first) else first
    known = [value for value in specials if (raw == value).any()]
    codes = np.full(len(both), len(first) + len(known), dtype=np.int64)
    codes[~np.isnan(both)] = cell_of[places]
    for at, value in enumerate(known):
        codes[raw == value] = len(first) + at
    real, synthetic = np.split(codes, [len(sides[0])])
    labels = tuple(f"{value:g}" for value in known)
    return Trait(
        name, columns or (name,), aspect, kind, (plain[0], plain[1]), (real, synthetic),
        distinct[first], distinct[last], labels, bool(np.isnan(raw).any()),
    )  # fmt: skip


def category(
    name: str,
    labels: Sequence[str],
    sides: Sequence[Codes],
    columns: tuple[str, ...] = (),
    aspect: Aspect = "values",
    *,
    alone: bool = False,
) -> Trait:
    """A trait of codes of labels; -1 is missing. Two labels are in the order in which they are given."""
    if len(labels) > _MOST_LABELS:
        counts = np.bincount(np.concatenate(sides) + 1, minlength=len(labels) + 1)[1:]
        top = np.argsort(-counts, kind="stable")[: _MOST_LABELS - 1]
        new_code = np.full(len(labels) + 1, len(top), dtype=np.int64)
        new_code[top], new_code[-1] = np.arange(len(top)), -1
        labels, sides = [*(labels[at] for at in top), OTHER_VALUES], [new_code[side] for side in sides]
    has_missing = any(bool((side < 0).any()) for side in sides)
    cells = [np.where(side < 0, len(labels), side) for side in sides]
    values = None
    if len(labels) == 2:
        first, last = (np.where(side < 0, np.nan, side.astype(np.float64)) for side in sides)
        values = first, last
    none = np.empty(0)
    return Trait(
        name, columns or (name,), aspect, "category", values, (cells[0], cells[1]),
        none, none, tuple(labels), has_missing, alone,
    )  # fmt: skip


def _cell_of(counts: Codes, places: Codes, real_rows: int) -> Codes:
    """The cell of each of the distinct values: all their own if they are few, else popular ones and equal ranges.

    >>> _cell_of(np.array([1, 2, 3]), np.array([0, 1, 1, 2, 2, 2]), 3).tolist()
    [0, 1, 2]

    Args:
        counts: rows with each distinct value, of both sides together.
        places: the place of every row's value among them, first of the real rows.
        real_rows: how many of these are real.
    """
    if len(counts) <= _CELLS:
        return np.arange(len(counts))
    sides = [np.bincount(side, minlength=len(counts)) for side in np.split(places, [real_rows])]
    popular = np.any([side >= _POPULAR * max(side.sum(), 1) for side in sides], axis=0)
    rest = np.where(popular, 0, counts)
    upto = np.cumsum(rest) - rest
    ranges = np.floor(upto * _CELLS / max(rest.sum(), 1)).astype(np.int64)
    starts = np.ones(len(counts), dtype=np.bool_)
    starts[1:] = popular[1:] | popular[:-1] | (np.diff(ranges) > 0)
    return np.cumsum(starts) - 1
