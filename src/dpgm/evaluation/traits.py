"""Traits: the properties of a row that are compared within groups of rows, and pair by pair.

Every column is a trait. Others follow from it: the time between two dates, the day of the week, the number of items in
a list, whether a list holds a frequent item, how a number is rounded. The values of a trait are divided into cells: the
values themselves if they are few, otherwise popular values and ranges of about equally many rows of both data sets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from dpgm.arrays import Codes, Floats
from dpgm.data.kinds.base import ColumnKind
from dpgm.data.records import Records
from dpgm.evaluation.raw_columns import RawColumn, figure_text

MOST_ROWS_JUDGED = 100_000  # rows of each side, evenly spread: more would not change what is found
_CELLS = 48  # ordered values are divided into about so many cells: a cell then holds 2 % of the rows
_COARSE = 8  # ... and into about so many groups
_MOST_VALUES = 50  # most frequent categories; the others are merged
_MOST_ITEMS = 40  # most frequent items of a list that are compared
_RARE = 0.005  # share of the rows below which an item is too rare to be compared, unless 100 rows hold it
_ENOUGH_ROWS = 100
_FEWEST = 20  # rows with a time between two dates; fewer say nothing about it
_MOST_DATES = 6  # date columns between which times are compared
_LONG_SPAN = 400  # days: dates that cover a year and more show whether months keep their share
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_THURSDAY = 3  # 1970-01-01, counted from Monday
_HOURS = 24
_STEPS = tuple(
    factor * 10.0**power for power in range(6, -4, -1) for factor in (5, 1)
)  # how numbers may be rounded
_STEP_ERROR = 1e-6  # of a step: what doubles and divisions leave


@dataclass(frozen=True)
class Trait:
    """One property of every row, real and synthetic.

    Attributes:
        name: what it is called in a sentence.
        sources: the columns that it is made of; traits that share one are not paired.
        kind: how its values are written.
        values: its ordered values, NaN where missing; None if it has no order.
        cells: the cell of every row; cells in order come first, then special values, and missing at last.
        in_order: how many cells are in order.
        labels: texts of the cells that are not ranges, from cell `in_order` on.
        lows: smallest value in each cell in order.
        highs: largest value in each cell in order.
        missing: the cell of missing values, if there are any.
        alone: whether it is compared by itself only, not in groups.
        phrases: whole texts of the cells, where `name = label` would not be English.
    """

    name: str
    sources: frozenset[str]
    kind: ColumnKind
    values: tuple[Floats, Floats] | None
    cells: tuple[Codes, Codes]
    in_order: int
    labels: tuple[str, ...]
    lows: Floats
    highs: Floats
    missing: int | None
    alone: bool = False
    phrases: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """The number of cells."""
        return self.in_order + len(self.labels)

    @cached_property
    def counts(self) -> tuple[Codes, Codes]:
        """Rows in every cell, real and synthetic."""
        real, synthetic = (np.bincount(side, minlength=self.width) for side in self.cells)
        return real, synthetic

    @cached_property
    def group_of(self) -> Codes:
        """The group of every cell: neighbours in order together, everything else by itself."""
        counts = (self.counts[0] + self.counts[1])[: self.in_order]
        enough = counts.sum() / _COARSE
        groups = np.arange(self.in_order)
        if self.in_order > _COARSE:
            held, at = 0.0, 0
            for cell, count in enumerate(counts):
                if held and (held + count / 2 > enough):
                    held, at = 0.0, at + 1
                groups[cell] = at
                held += count
        first = int(groups.max(initial=-1)) + 1
        return np.concatenate([groups, first + np.arange(len(self.labels))]).astype(np.int64)

    def group_text(self, group: int) -> str:
        """The rows of a group in words.

        >>> smokes = category("smokes", ("no", "yes"), (np.array([0, 1]), np.array([1, 1])))
        >>> smokes.group_text(1)
        'smokes = yes'
        """
        cells = np.flatnonzero(self.group_of == group)
        return self.cell_text(int(cells[0]), int(cells[-1]))

    def cell_text(self, first: int, last: int | None = None) -> str:
        """Rows in a cell, or in the cells from `first` to `last`, in words."""
        if self.phrases:
            return self.phrases[first]
        if first >= self.in_order:
            label = self.labels[first - self.in_order]
            return f"{self.name} missing" if first == self.missing else f"{self.name} = {label}"
        low, high = self.lows[first], self.highs[first if last is None else last]
        texts = [figure_text(self.kind, float(value)) for value in (low, high)]
        return f"{self.name} = {texts[0]}" if low == high else f"{self.name} from {texts[0]} to {texts[1]}"

    def up_to(self, cell: int) -> str:
        """The values up to the end of a cell, in words."""
        return f"{self.name} up to {figure_text(self.kind, float(self.highs[cell]))}"

    def above(self, cell: int) -> str:
        """The values above a cell, in words."""
        return f"{self.name} above {figure_text(self.kind, float(self.highs[cell]))}"


def traits_of(columns: Sequence[RawColumn], real: Records, synthetic: Records) -> tuple[Trait, ...]:
    """The traits of raw columns and of the lists of items in records, which have the same rows.

    Args:
        columns: the raw columns.
        real: the real records; their fields of items are used if rows and records are equally many.
        synthetic: the synthetic records.
    """
    found = [trait for column in columns for trait in _column_traits(_thinned(column))]
    found += list(_durations([column for column in columns if column.kind == "date"][:_MOST_DATES]))
    sides = (real, synthetic)
    if not columns or [len(side) for side in columns[0].sides] == [len(side) for side in sides]:
        found += _item_traits(real, synthetic)
    return tuple(trait for trait in found if trait.width > 1)


def ordered(name: str, kind: ColumnKind, sides: Sequence[Floats], sources: frozenset[str] | None = None) -> Trait:
    """A trait of ordered values; NaN is missing.

    >>> ordered("age", "number", [np.array([1.0, 2.0]), np.array([2.0, np.nan])]).cells[1].tolist()
    [1, 2]
    """
    return _ordered(name, kind, sides, sources or frozenset([name]), ())


def category(
    name: str,
    labels: Sequence[str],
    sides: Sequence[Codes],
    sources: frozenset[str] | None = None,
    *,
    alone: bool = False,
) -> Trait:
    """A trait of codes of labels; -1 is missing. Two labels are in the order in which they are given."""
    sources = sources or frozenset([name])
    counts = np.bincount(np.concatenate(sides) + 1, minlength=len(labels) + 1)[1:]
    if len(labels) > _MOST_VALUES:
        top = np.argsort(-counts, kind="stable")[: _MOST_VALUES - 1]
        new_code = np.full(len(labels) + 1, len(top), dtype=np.int64)
        new_code[top], new_code[-1] = np.arange(len(top)), -1
        labels, sides = [*(labels[at] for at in top), "other values"], [new_code[side] for side in sides]
    has_missing = any((side < 0).any() for side in sides)
    width = len(labels)
    cells = [np.where(side < 0, width, side) for side in sides]
    values = None
    if width == 2:
        values = tuple(np.where(side < 0, np.nan, side.astype(np.float64)) for side in sides)
    texts = (*labels, "missing") if has_missing else tuple(labels)
    missing, none = width if has_missing else None, np.empty(0)
    pair = None if values is None else (values[0], values[1])
    return Trait(name, sources, "category", pair, (cells[0], cells[1]), 0, texts, none, none, missing, alone)


def _thinned(column: RawColumn) -> RawColumn:
    sides = [side[:: -(-len(side) // MOST_ROWS_JUDGED) or 1] for side in column.sides]
    return RawColumn(column.name, column.kind, (sides[0], sides[1]), column.labels, column.specials)


def _column_traits(column: RawColumn) -> Iterator[Trait]:
    """The column itself, the weekday, month and hour of dates, and the rounding of numbers."""
    name, source = column.name, frozenset([column.name])
    if column.kind == "category":
        yield category(name, column.labels, column.sides)
        return
    yield _ordered(name, column.kind, column.sides, source, column.specials)
    present = [side[~np.isnan(side)] for side in column.sides]
    if not all(map(len, present)):
        return
    if column.kind == "number":
        plain = [np.where(np.isin(side, column.specials), np.nan, side) for side in column.sides]
        names = (*(f"multiples of {figure_text('number', step)}" for step in _STEPS), "finer values")
        yield category(f"rounding of {name}", names, [_step_codes(side) for side in plain], source, alone=True)
        return
    days = [np.floor(side) for side in column.sides]
    weekdays = [_codes(np.mod(side + _THURSDAY, len(_DAYS))) for side in days]
    yield category(f"weekday of {name}", _DAYS, weekdays, source)
    if np.ptp(np.concatenate(present)) > _LONG_SPAN:
        months = [_months(side) for side in days]
        yield ordered(f"month of {name}", "number", months, source)
    if (np.mod(present[0], 1.0) > 0).any():
        hours = [np.floor(np.mod(side, 1.0) * _HOURS + _STEP_ERROR) for side in column.sides]
        yield ordered(f"hour of {name}", "number", hours, source)


def _months(days: Floats) -> Floats:
    known = np.where(np.isnan(days), 0, days).astype("datetime64[D]")
    months = known.astype("datetime64[M]").astype(np.int64) % 12 + 1
    return np.where(np.isnan(days), np.nan, months.astype(np.float64))


def _codes(values: Floats) -> Codes:
    return np.where(np.isnan(values), -1, values).astype(np.int64)


def _step_codes(values: Floats) -> Codes:
    """For every number the largest step of which it is a multiple, as a code of `_STEPS`; -1 for 0 and missing ones."""
    codes = np.full(len(values), len(_STEPS), dtype=np.int64)
    codes[np.isnan(values) | (values == 0)] = -1
    for at, step in enumerate(_STEPS):
        multiples = values / step
        on_step = (np.abs(multiples - np.round(multiples)) < _STEP_ERROR) & (codes == len(_STEPS))
        codes[on_step] = at
    return codes


def _durations(dates: Sequence[RawColumn]) -> Iterator[Trait]:
    """The time between every two dates."""
    for first, last in combinations([_thinned(column) for column in dates], 2):
        sides = [b - a for a, b in zip(first.sides, last.sides, strict=True)]
        present = [side[~np.isnan(side)] for side in sides]
        if min(map(len, present)) < _FEWEST:
            continue
        if np.median(present[0]) < 0:
            first, last, sides = last, first, [-side for side in sides]
        name = f"days from {first.name} to {last.name}"
        yield ordered(name, "number", sides, frozenset([first.name, last.name]))


def _item_traits(real: Records, synthetic: Records) -> list[Trait]:
    """The number of items of every field of lists, and whether a list holds each of the most frequent items."""
    found = []
    sides = [
        side.take(np.arange(0, len(side), -(-len(side) // MOST_ROWS_JUDGED) or 1)) for side in (real, synthetic)
    ]
    for field, block in zip(real.domain.fields, real.domain.blocks, strict=True):
        if not field.is_set:
            continue
        source = frozenset([field.name])
        held = [side.to_scipy()[:, block.start : block.stop] for side in sides]
        lengths = [np.asarray(side.sum(axis=1)).ravel().astype(np.float64) for side in held]
        found.append(ordered(f"number of {field.name}", "number", lengths, source))
        counts = [np.asarray(side.sum(axis=0)).ravel() for side in held]
        enough = min(_ENOUGH_ROWS, _RARE * len(sides[0]))
        top = np.argsort(-(counts[0] + counts[1]), kind="stable")[:_MOST_ITEMS]
        for at in top[counts[0][top] >= max(enough, 1)]:
            codes = [np.asarray(side[:, [at]].todense()).ravel().astype(np.int64) for side in held]
            item = field.position_names[at]
            name = f"{item} in {field.name}"
            trait = category(name, ("no", "yes"), codes, frozenset([name]))
            found.append(replace(trait, phrases=(f"no {name}", name)))
    return found


def _ordered(
    name: str, kind: ColumnKind, sides: Sequence[Floats], sources: frozenset[str], specials: Sequence[float]
) -> Trait:
    plain = [np.where(np.isin(side, specials), np.nan, side) if specials else side for side in sides]
    both = np.concatenate(plain)
    distinct, places, counts = np.unique(both[~np.isnan(both)], return_inverse=True, return_counts=True)
    cell_of = _cell_of(counts)
    width = int(cell_of[-1]) + 1 if len(cell_of) else 0
    known = [value for value in specials if any((side == value).any() for side in sides)]
    codes = np.full(len(both), width + len(known), dtype=np.int64)
    codes[~np.isnan(both)] = cell_of[places]
    raw = np.concatenate(sides)
    for at, value in enumerate(known):
        codes[raw == value] = width + at
    labels = [figure_text(kind, value) for value in known]
    has_missing = bool(np.isnan(raw).any())
    missing = width + len(known) if has_missing else None
    first = np.flatnonzero(np.diff(cell_of, prepend=-1))
    last = np.append(first[1:], len(distinct)) - 1 if len(first) else first
    real, synthetic = np.split(codes, [len(sides[0])])
    texts = (*labels, "missing") if has_missing else tuple(labels)
    ends = distinct[first], distinct[last]
    return Trait(name, sources, kind, (plain[0], plain[1]), (real, synthetic), width, texts, *ends, missing)


def _cell_of(counts: Codes) -> Codes:
    """The cell of each of the distinct values: all their own if they are few, else popular ones and equal ranges.

    >>> _cell_of(np.array([1, 2, 3])).tolist()
    [0, 1, 2]
    """
    if len(counts) <= _CELLS:
        return np.arange(len(counts))
    popular = counts >= counts.sum() / _CELLS
    rest = np.where(popular, 0, counts)
    upto = np.cumsum(rest) - rest
    ranges = np.floor(upto * _CELLS / max(rest.sum(), 1)).astype(np.int64)
    starts = np.ones(len(counts), dtype=np.bool_)
    starts[1:] = popular[1:] | popular[:-1] | (np.diff(ranges) > 0)
    return np.cumsum(starts) - 1
