"""Histograms of raw numbers over public grids: what bounds, popular values, bins and shapes are found by."""

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

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
from dpgm.data.open_records import NumberColumn, OpenRecords
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.statistics.statistic import Floats, Ints, Words

BOUNDS, HISTOGRAMS = "value bounds", "number histograms"


def _ticks(view: View, column: int) -> Floats:
    """The ticks of one column, NaN where missing."""
    assert isinstance(view.records, OpenRecords)
    raw = view.records.columns[column]
    assert isinstance(raw, NumberColumn)
    return raw.ticks


def _by_special(ticks: Floats, specials: tuple[float, ...]) -> tuple[Ints, Floats]:
    """How many of the values present are each of the special ones (rising), and all the others."""
    present = ticks[~np.isnan(ticks)]
    if not specials:
        return np.empty(0, dtype=np.int64), present
    known = np.array(specials)
    at = np.minimum(np.searchsorted(known, present), len(known) - 1)
    alike = known[at] == present
    return np.bincount(at[alike], minlength=len(known)).astype(np.int64), present[~alike]


@dataclass(frozen=True)
class CountedNumber:
    """What is counted of the column at a place, over its public grid."""

    column: int
    grid: Grid
    specials: tuple[float, ...] = ()  # values (in ticks, rising) that are counted on their own, and in no cell
    day: int = 0  # ticks of a day, where hours of the day are counted as well

    @property
    def levels(self) -> int:
        """How often a record counts at most: once per level of the grid, and once for its hour."""
        return len(self.grid.levels) + (self.day > 0)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """How many numbers tell of missing values, special values, hours and cells."""
        return 1, len(self.specials), HOURS if self.day else 0, self.grid.size

    def counts(self, ticks: Floats) -> Ints:
        """All numbers of the column, one kind after the other."""
        alone, others = _by_special(ticks, self.specials)
        gone = np.array([np.isnan(ticks).sum()], dtype=np.int64)
        hours = np.empty(0, dtype=np.int64)
        if self.day:
            hours = np.bincount(hour_slot(others, self.day), minlength=HOURS).astype(np.int64)
        return np.concatenate([gone, alone, hours, self.grid.counts(self.grid.cell_of(others))])


@dataclass(frozen=True)
class NumberCounts:
    """The released numbers of one column: missing values, special values, hours, and groups level after level."""

    missing: float
    specials: Floats
    hours: Floats
    groups: Floats


@dataclass(frozen=True)
class NumberHistograms:
    """For every column how many records miss it, hold each special value, or lie in each group of a level of its grid.

    A moment counts for its hour of the day as well. A record counts once per level of every column, so the sensitivity
    is the square root of the number of levels.
    """

    words: ClassVar[Words] = {
        HISTOGRAMS: Measures(
            "discover",
            "histogram of each number over a public grid, and over groups of its cells (times: over hours of the day)",
            "sqrt(levels of all grids)",
        )
    }

    columns: tuple[CountedNumber, ...]
    name: str = HISTOGRAMS

    def query(self) -> Query:
        """The numbers of one column after the other."""
        sensitivity = sqrt(sum(counted.levels for counted in self.columns))
        return Query(self._sum, sensitivity, (sum(sum(counted.sizes) for counted in self.columns),), grid=1.0)

    def _sum(self, view: View) -> Tensor:
        parts = [counted.counts(_ticks(view, counted.column)) for counted in self.columns]
        return torch.from_numpy(np.concatenate(parts))

    def split(self, value: Tensor) -> list[NumberCounts]:
        """The released numbers of every column."""
        sizes = [size for counted in self.columns for size in counted.sizes]
        parts = iter(np.split(value.numpy(), np.cumsum(sizes)[:-1]))
        return [NumberCounts(float(gone[0]), *rest) for gone, *rest in zip(parts, parts, parts, parts, strict=True)]


@dataclass(frozen=True)
class BoundHistograms:
    """For every column how many records lie between two powers of two, of either sign, or are 0.

    Of dates how many lie in each calendar year. Where steps are asked for, also how many have so many places after the
    point, or are whole days, hours, minutes or seconds. A record counts once per column and once more where the step is
    asked for, so the sensitivity is the square root of how often that is.
    """

    words: ClassVar[Words] = {
        BOUNDS: Measures(
            "discover",
            "histogram of numbers between powers of two (dates: of years), of each column, and of its steps",
            "sqrt(columns, those whose step is found twice)",
        )
    }

    columns: tuple[int, ...]  # their places
    dates: tuple[int | None, ...]  # of dates the seconds of one tick
    steps: tuple[bool, ...]  # whether the step of each is asked for
    specials: tuple[tuple[float, ...], ...]  # of each the values that are no part of its range, and are not counted
    name: str = BOUNDS

    def query(self) -> Query:
        """One row per column: the range and, where any is asked for, the step."""
        slots = BOUND_SLOTS + (STEP_SLOTS if any(self.steps) else 0)
        return Query(self._sum, sqrt(len(self.columns) + sum(self.steps)), (len(self.columns), slots), grid=1.0)

    def _sum(self, view: View) -> Tensor:
        counts = np.zeros(self.query().shape, dtype=np.int64)
        asked = zip(self.columns, self.dates, self.steps, self.specials, strict=True)
        for row, (column, date, step, specials) in zip(counts, asked, strict=True):
            _, present = _by_special(_ticks(view, column), specials)
            slots = bound_slot(present) if date is None else year_slot(present, date)
            row[:BOUND_SLOTS] = np.bincount(slots, minlength=BOUND_SLOTS)
            if step:
                slots = places_slot(present) if date is None else unit_slot(present * date)
                row[BOUND_SLOTS:] = np.bincount(slots, minlength=STEP_SLOTS)
        return torch.from_numpy(counts)
