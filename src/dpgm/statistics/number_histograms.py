"""Histograms of raw numbers over public grids: what bounds, popular values, bins and shapes are found by."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.number_grid import BOUND_SLOTS, YEARS, Grid, bound_slot, year_slot
from dpgm.data.open_records import NumberColumn, OpenRecords
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.statistics.statistic import Floats

BOUNDS, HISTOGRAMS = "value bounds", "number histograms"


def _ticks(view: View, column: int) -> Floats:
    """The ticks of one column, NaN where missing."""
    assert isinstance(view.records, OpenRecords)
    raw = view.records.columns[column]
    assert isinstance(raw, NumberColumn)
    return raw.ticks


@dataclass(frozen=True)
class NumberHistograms:
    """For every column how many records miss it, and how many lie in each group of each level of its grid.

    A record counts once per level of every column, so the sensitivity is the square root of the number of levels.
    """

    words: ClassVar[Mapping[str, Measures]] = {
        HISTOGRAMS: Measures(
            "discover",
            "histogram of each number over a public grid, and over groups of its cells",
            "sqrt(levels of all grids)",
        )
    }

    columns: tuple[int, ...]
    grids: tuple[Grid, ...]
    name: str = HISTOGRAMS

    @property
    def sensitivity(self) -> float:
        """sqrt(levels of all columns)."""
        return sqrt(sum(len(grid.levels) for grid in self.grids))

    @property
    def shape(self) -> tuple[int, ...]:
        """One number for missing values and one per group, column after column."""
        return (sum(1 + grid.size for grid in self.grids),)

    def query(self) -> Query:
        """The question to the private rows."""
        return Query(self._sum, self.sensitivity, self.shape, grid=1.0)

    def _sum(self, view: View) -> Tensor:
        parts: list[NDArray[np.int64]] = []
        for column, grid in zip(self.columns, self.grids, strict=True):
            ticks = _ticks(view, column)
            gone = np.isnan(ticks)
            parts += [np.array([gone.sum()], dtype=np.int64), grid.counts(grid.cell_of(ticks[~gone]))]
        return torch.from_numpy(np.concatenate(parts))

    def split(self, value: Tensor) -> list[tuple[float, Floats]]:
        """The released numbers of every column: missing values, and the groups level after level."""
        numbers, at, parts = value.numpy(), 0, []
        for grid in self.grids:
            parts.append((float(numbers[at]), numbers[at + 1 : at + 1 + grid.size]))
            at += 1 + grid.size
        return parts


@dataclass(frozen=True)
class BoundHistograms:
    """For every column how many records lie between two powers of two, of either sign, or are 0.

    Of dates how many lie in each calendar year, with and without a clock time where that is asked. A record counts once
    per column, so the sensitivity is the square root of the number of columns.

    Attributes:
        columns: places of the columns.
        dates: of each column of dates the seconds of one tick and whether clock times are asked for; else None.
    """

    words: ClassVar[Mapping[str, Measures]] = {
        BOUNDS: Measures(
            "discover",
            "histogram of numbers between powers of two (dates: of years), of each column",
            "sqrt(columns)",
        )
    }

    columns: tuple[int, ...]
    dates: tuple[tuple[int, bool] | None, ...]
    name: str = BOUNDS

    @property
    def sensitivity(self) -> float:
        """sqrt(columns)."""
        return sqrt(len(self.columns))

    @property
    def shape(self) -> tuple[int, ...]:
        """One row per column."""
        clocks = any(date is not None and date[1] for date in self.dates)
        return (len(self.columns), 2 * YEARS if clocks else BOUND_SLOTS)

    def query(self) -> Query:
        """The question to the private rows."""
        return Query(self._sum, self.sensitivity, self.shape, grid=1.0)

    def _sum(self, view: View) -> Tensor:
        rows = []
        for column, date in zip(self.columns, self.dates, strict=True):
            ticks = _ticks(view, column)
            present = ticks[~np.isnan(ticks)]
            slots = bound_slot(present) if date is None else year_slot(present, *date)
            rows.append(np.bincount(slots, minlength=self.shape[1]))
        return torch.from_numpy(np.stack(rows).astype(np.int64))
