"""What the items of lists beside table columns add to statistics: maps from records to sparse vectors.

A record is scaled down where it holds many items (`clipped_vectors.py`), so that lists of any length have the same
bound. Items are those of all lists of the domain.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpgm.arrays import AnyArray, Ints
from dpgm.data.records import Records
from dpgm.data.rows import row_pointers
from dpgm.mechanisms.query import Measures
from dpgm.statistics.clipped_vectors import Vectors
from dpgm.statistics.coded_rows import Coding
from dpgm.statistics.statistic import STEPS, Descriptions

LIST_ITEMS, ITEMS_BY_GROUPS, ITEMS_BY_VALUES, ITEMS_TOGETHER = (
    "list items",
    "items by groups",
    "items by values",
    "items together",
)


@dataclass(frozen=True, eq=False)
class _Items:
    """A choice of items: positions in increasing order."""

    coding: Coding
    items: Ints

    def held(self, records: Records) -> tuple[Ints, Ints]:
        """The record and the number of every chosen item that records hold, record by record."""
        place = np.full(records.width, -1, dtype=np.int64)
        place[self.items] = np.arange(len(self.items))
        numbers = place[records.indices]
        chosen = numbers >= 0
        return np.repeat(np.arange(len(records)), records.lengths)[chosen], numbers[chosen]


@dataclass(frozen=True, eq=False)
class ListItems(_Items):
    """Which items a record holds."""

    words: ClassVar[Descriptions] = {
        LIST_ITEMS: Measures("profile", "records holding each item of a list", "sqrt(items within the bound)")
    }

    name: str = LIST_ITEMS

    @property
    def width(self) -> int:
        """One cell per item."""
        return len(self.items)

    def vectors(self, records: Records) -> Vectors:
        """1 for each item."""
        rows, items = self.held(records)
        return _of_cells(rows, items, len(records))


@dataclass(frozen=True, eq=False)
class ItemsByColumns(_Items):
    """Which items a record holds, beside the value, or group of values, that it has in each of some columns.

    `groups` has the group of every code of every column, the last one of rows without a value; None for columns that
    are left out.
    """

    words: ClassVar[Descriptions] = {
        ITEMS_BY_GROUPS: Measures(
            "measure",
            "for every column, groups of its values beside each item",
            "sqrt(columns x items within the bound)",
        ),
        ITEMS_BY_VALUES: Measures(
            "measure",
            "for the column that says most of items, its values beside each item",
            "sqrt(items within the bound)",
        ),
    }

    groups: tuple[Ints | None, ...]
    name: str = ITEMS_BY_GROUPS

    @cached_property
    def _starts(self) -> Ints:
        """The first row of cells of every column, and the number of rows."""
        sizes = [0 if own is None else int(own[-1]) for own in self.groups]
        return np.cumsum(np.array([0, *sizes], dtype=np.int64))

    @property
    def width(self) -> int:
        """A cell for every group and item."""
        return int(self._starts[-1]) * len(self.items)

    def table(self, numbers: AnyArray, column: int) -> AnyArray:
        """(groups, items): the numbers of one column."""
        rows = numbers.reshape(-1, len(self.items))
        return rows[self._starts[column] : self._starts[column + 1]]

    def vectors(self, records: Records) -> Vectors:
        """1 for the group of every column and each item."""
        codes = self.coding.codes(records)
        rows, items = self.held(records)
        all_rows, cells = [], []
        for column, own in enumerate(self.groups):
            if own is None:
                continue
            group = own[codes[rows, column]]
            known = group < own[-1]
            all_rows.append(rows[known])
            cells.append((self._starts[column] + group[known]) * len(self.items) + items[known])
        return _of_cells(np.concatenate(all_rows), np.concatenate(cells), len(records))


@dataclass(frozen=True, eq=False)
class ItemsTogether(_Items):
    """Which pairs of items a record holds."""

    words: ClassVar[Descriptions] = {
        ITEMS_TOGETHER: Measures(
            "measure", "records holding each pair of the commonest items of lists", "sqrt(pairs within the bound)"
        )
    }

    name: str = ITEMS_TOGETHER

    @property
    def width(self) -> int:
        """A cell for each pair."""
        return len(self.items) * (len(self.items) - 1) // 2

    def vectors(self, records: Records) -> Vectors:
        """1 for each pair of items."""
        rows, items = self.held(records)
        first, second = _pairs_within(np.bincount(rows, minlength=len(records)))
        low, high = items[first], items[second]  # increasing within a record
        cells = low * (2 * len(self.items) - low - 1) // 2 + high - low - 1
        return _of_cells(rows[first], cells, len(records))


def _pairs_within(lengths: Ints) -> tuple[Ints, Ints]:
    """Places of the first and of the second of all pairs of entries of each record, for records one after the other.

    >>> [one.tolist() for one in _pairs_within(np.array([3, 0, 2]))]
    [[0, 0, 1, 3], [1, 2, 2, 4]]
    """
    ends = np.cumsum(lengths)
    partners = np.repeat(ends, lengths) - np.arange(int(lengths.sum())) - 1  # later entries of the same record
    first = np.repeat(np.arange(len(partners)), partners)
    within = np.arange(len(first)) - np.repeat(np.cumsum(partners) - partners, partners)
    return first, first + 1 + within


def _of_cells(rows: Ints, cells: Ints, count: int) -> Vectors:
    """1 for every cell of a record; no cell comes twice."""
    order = np.argsort(rows, kind="stable")
    return Vectors(
        row_pointers(np.bincount(rows, minlength=count)), cells[order], np.full(len(cells), STEPS, dtype=np.int64)
    )
