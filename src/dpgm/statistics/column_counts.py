"""How many rows have each value of each column, less an equal share of the rows.

A row adds x_v - 1/k to each of the k values of a column. That has a squared norm of 1 - 1/k instead of 1, and nothing
is lost, since every row has one value and the number of rows is public. Lengths of lists are a column like others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.mechanisms.query import Counts, Measures, Query, View
from dpgm.statistics.coded_rows import Coding
from dpgm.statistics.rules import ReadRules
from dpgm.statistics.shrinkage import onto_simplex, shrink_alone
from dpgm.statistics.statistic import FULL_WEIGHT, GRID, Descriptions, Measured

COLUMNS = "column counts"


@dataclass(frozen=True, eq=False)
class ColumnCounts:
    """Centred counts of the values of all columns, one column after the other."""

    words: ClassVar[Descriptions] = {
        COLUMNS: Measures(
            "profile",
            "rows holding each value of each column, less an equal share of the rows",
            "sqrt(sum over the columns of 1 - 1/values)",
        )
    }

    coding: Coding
    name: str = COLUMNS

    @cached_property
    def offsets(self) -> Ints:
        """The equal share of each column in grid steps; one half of a single value, which a row may lack."""
        return np.array([round(FULL_WEIGHT / max(2, size)) for size in self.coding.sizes], dtype=np.int64)

    def query(self) -> Query:
        """A row adds one vector per column, whose largest norm follows from the number of values."""
        largest = [
            (FULL_WEIGHT - offset) ** 2 + (size - 1) * offset**2
            for size, offset in zip(self.coding.sizes, self.offsets.tolist(), strict=True)
        ]
        numbers = sum(self.coding.sizes)
        return Query(self._sum, sqrt(sum(largest)) / FULL_WEIGHT, (numbers,), grid=GRID, counts=self._counts)

    @property
    def _counts(self) -> Counts:
        """Numbers of table columns count the rows at a position, less their offset."""
        columns = self.coding.domain.table_columns
        known = [np.arange(column.start, column.stop) for column in columns]
        lengths = np.full(sum(self.coding.sizes[len(columns) :]), -1)
        shares = np.repeat(self.offsets * GRID, self.coding.sizes)
        return Counts(np.concatenate([*known, lengths]).astype(np.int64), shares)

    def _sum(self, view: View) -> Tensor:
        counts = [np.zeros(size + 1, dtype=np.int64) for size in self.coding.sizes]
        for chunk in view.rows.pieces():
            for count, codes in zip(counts, self.coding.codes(chunk).T, strict=True):
                count += np.bincount(codes, minlength=len(count))
        pairs = zip(counts, self.offsets, strict=True)
        return torch.from_numpy(
            np.concatenate([FULL_WEIGHT * one[:-1] - offset * one[:-1].sum() for one, offset in pairs])
        )


def column_shares(measured: Measured[ColumnCounts], records: int, rules: ReadRules) -> tuple[Floats, ...]:
    """The shares of the values of every column, by its noisy counts; they sum to 1.

    The counts of columns of many values are shrunk first, since most of them are below the noise.
    """
    statistic, found, start = measured.statistic, [], 0
    for size, offset in zip(statistic.coding.sizes, statistic.offsets, strict=True):
        counts = measured.value[start : start + size].numpy() + offset * GRID * records
        start += size
        if size > rules.many_values:
            counts = shrink_alone(counts, measured.std, rules.shrink)[0]
        found.append(onto_simplex(counts / records, 1.0, _floor(size, measured.std, records, rules)))
    return tuple(found)


class ColumnFeatures:
    """The codes of rows of a pool, one indicator per value (`tilting.tilt.PoolFeatures`)."""

    def __init__(self, sizes: Sequence[int], codes: Ints) -> None:
        # A row without a value in a column has a number of its own there, which is left out.
        self._sizes = [size + 1 for size in sizes]
        self._places = np.ascontiguousarray(codes + (np.cumsum(self._sizes) - self._sizes))
        kept = np.concatenate([np.arange(size + 1) < size for size in sizes])
        self._kept = np.flatnonzero(kept)

    def energies(self, theta: Tensor) -> Tensor:
        """(n,): the sum of the parameters of every row's values."""
        table = np.zeros(sum(self._sizes))
        table[self._kept] = theta.numpy()
        return torch.from_numpy(table[self._places].sum(axis=1))

    def sums(self, weights: Tensor) -> Tensor:
        """The weight of the rows with each value."""
        total = np.zeros(sum(self._sizes))
        for places in self._places.T:
            total += np.bincount(places, weights.numpy(), minlength=len(total))
        return torch.from_numpy(total[self._kept])

    squares = sums


def _floor(size: int, std: float, records: int, rules: ReadRules) -> float:
    """The smallest share that a value is taken to have."""
    floor = max(rules.floor_noise * std, rules.floor_records) / records
    return float(min(floor, rules.largest_floor / size))


def expected_rows(shares: Sequence[Floats], count: int, rng: np.random.Generator) -> Ints:
    """(count, columns): codes of rows whose columns are independent and have the given shares, up to rounding."""
    rows = np.empty((count, len(shares)), dtype=np.int64)
    for column, own in enumerate(shares):
        grid = (np.arange(count) + rng.random()) / count * own.sum()
        drawn = np.minimum(np.searchsorted(np.cumsum(own), grid, side="right"), len(own) - 1)
        rows[:, column] = rng.permutation(drawn)
    return rows
