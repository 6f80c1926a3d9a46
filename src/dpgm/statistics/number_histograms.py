"""Histograms of numeric columns over public grids, by which domain discovery finds bounds, popular values and bins.

A record is in one bin of each histogram, so the sensitivity is the square root of the number of histograms. Times are
numbers too: columns are counted in ticks, whole multiples of their unit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.data.number_grids import (
    BOUND_SLOTS,
    HOURS,
    STEP_SLOTS,
    Grid,
    bound_slot,
    hour_slot,
    places_slot,
    unit_slot,
    year_slot,
)
from dpgm.data.open_columns import NumberColumn
from dpgm.data.open_records import OpenRecords
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.statistics.statistic import Descriptions

BOUNDS, HISTOGRAMS = "value bounds", "number histograms"


def _pieces(view: View, column: int) -> Iterator[Floats]:
    """The values of one column in ticks, NaN where missing, piece by piece."""
    for piece in view.records.pieces():
        assert isinstance(piece, OpenRecords)
        raw = piece.columns[column]
        assert isinstance(raw, NumberColumn)
        yield raw.ticks


def _by_special(ticks: Floats, specials: tuple[float, ...]) -> tuple[Ints, Floats]:
    """Counts of the special values (in increasing order), and all other values that are present."""
    present = ticks[~np.isnan(ticks)]
    if not specials:
        return np.empty(0, dtype=np.int64), present
    known = np.array(specials)
    at = np.minimum(np.searchsorted(known, present), len(known) - 1)
    special = known[at] == present
    return np.bincount(at[special], minlength=len(known)).astype(np.int64), present[~special]


@dataclass(frozen=True)
class CountedNumber:
    """Which histograms of one column are measured."""

    column: int
    grid: Grid
    specials: tuple[float, ...] = ()  # values (in ticks, increasing) that are counted separately, not in the grid
    day: int = 0  # ticks per day, if hours of the day are counted as well; else 0

    @property
    def levels(self) -> int:
        """Most counts that a record is part of: one per level of the grid, and one for its hour."""
        return len(self.grid.levels) + (self.day > 0)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Numbers of counts for missing values, special values, hours and cells."""
        return 1, len(self.specials), HOURS if self.day else 0, self.grid.size

    def counts(self, ticks: Floats) -> Ints:
        """All counts of the column: missing values, special values, hours, cells."""
        specials, others = _by_special(ticks, self.specials)
        missing = np.array([np.isnan(ticks).sum()], dtype=np.int64)
        hours = np.empty(0, dtype=np.int64)
        if self.day:
            hours = np.bincount(hour_slot(others, self.day), minlength=HOURS).astype(np.int64)
        return np.concatenate([missing, specials, hours, self.grid.counts(self.grid.cell_of(others))])


@dataclass(frozen=True)
class NumberCounts:
    """The released counts of one column: missing values, special values, hours, and cells level by level."""

    missing: float
    specials: Floats
    hours: Floats
    groups: Floats


@dataclass(frozen=True)
class NumberHistograms:
    """For every column, counts of missing values, of special values and of each cell of each level of its grid.

    Times also count for their hour of the day. A record counts once per level of every column, so the sensitivity is
    the square root of the number of levels.
    """

    words: ClassVar[Descriptions] = {
        HISTOGRAMS: Measures(
            "discover",
            "histogram of each number over a public grid, and over groups of its cells (times: over hours of the day)",
            "sqrt(levels of all grids)",
        )
    }

    columns: tuple[CountedNumber, ...]
    name: str = HISTOGRAMS

    def query(self) -> Query:
        """All counts, column by column."""
        sensitivity = sqrt(sum(counted.levels for counted in self.columns))
        return Query(self._sum, sensitivity, (sum(sum(counted.sizes) for counted in self.columns),), grid=1.0)

    def _sum(self, view: View) -> Tensor:
        columns = []
        for counted in self.columns:
            counts = np.zeros(sum(counted.sizes), dtype=np.int64)
            for ticks in _pieces(view, counted.column):
                counts += counted.counts(ticks)
            columns.append(counts)
        return torch.from_numpy(np.concatenate(columns))

    def split(self, value: Tensor) -> list[NumberCounts]:
        """The released counts, one `NumberCounts` per column."""
        sizes = [size for counted in self.columns for size in counted.sizes]
        parts = np.split(value.numpy(), np.cumsum(sizes)[:-1])
        by_column = (parts[first : first + 4] for first in range(0, len(parts), 4))
        return [NumberCounts(float(missing[0]), *rest) for missing, *rest in by_column]


@dataclass(frozen=True)
class BoundHistograms:
    """For every column, a histogram over ranges between powers of two (of either sign, and 0); dates by calendar year.

    For columns whose step is unknown, also a histogram over the number of decimal places, or of whole days, hours,
    minutes and seconds. A record counts once per column, twice where the step is measured, so the sensitivity is the
    square root of that sum.
    """

    words: ClassVar[Descriptions] = {
        BOUNDS: Measures(
            "discover",
            "histogram of numbers between powers of two (dates: of years), of each column, and of its steps",
            "sqrt(columns, those whose step is found twice)",
        )
    }

    columns: tuple[int, ...]  # their indices
    dates: tuple[int | None, ...]  # for date columns, the seconds per tick
    steps: tuple[bool, ...]  # whether the step of the column is measured
    specials: tuple[tuple[float, ...], ...]  # special values of each column, which are not counted
    name: str = BOUNDS

    def query(self) -> Query:
        """One row per column: the histogram of ranges and, if any is measured, that of steps."""
        slots = BOUND_SLOTS + (STEP_SLOTS if any(self.steps) else 0)
        return Query(self._sum, sqrt(len(self.columns) + sum(self.steps)), (len(self.columns), slots), grid=1.0)

    def _sum(self, view: View) -> Tensor:
        counts = np.zeros(self.query().shape, dtype=np.int64)
        settings = zip(self.columns, self.dates, self.steps, self.specials, strict=True)
        for row, (column, date, step, specials) in zip(counts, settings, strict=True):
            for ticks in _pieces(view, column):
                _, present = _by_special(ticks, specials)
                slots = bound_slot(present) if date is None else year_slot(present, date)
                row[:BOUND_SLOTS] += np.bincount(slots, minlength=BOUND_SLOTS)
                if step:
                    slots = places_slot(present) if date is None else unit_slot(present * date)
                    row[BOUND_SLOTS:] += np.bincount(slots, minlength=STEP_SLOTS)
        return torch.from_numpy(counts)
