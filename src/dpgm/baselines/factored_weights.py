"""Multiplicative weights over {0, 1}^m as a product of small groups of items.

A query about one or two items touches one group (two groups are merged when a query joins them), so updating that
group's table is exactly the update of the full table of 2^m cells. Merging stops at `largest` items.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpgm.baselines.rules import RULES


class FactoredWeights:
    """A distribution over item sets: independent groups, each with a full table.

    Args:
        probabilities: (m,) of the independent items to start from.
        largest: most items of a group.
    """

    def __init__(self, probabilities: NDArray[np.float64], largest: int = RULES.largest_group) -> None:
        self.largest = largest
        self.width = len(probabilities)
        self.group = np.arange(self.width)
        self.items = {at: [at] for at in range(self.width)}
        self.tables = {at: np.array([1 - p, p]) for at, p in enumerate(probabilities)}
        self.single = probabilities.astype(np.float64)
        self.pairs = np.outer(self.single, self.single)
        np.fill_diagonal(self.pairs, self.single)

    @classmethod
    def of_groups(
        cls, groups: Sequence[tuple[list[int], NDArray[np.float64]]], largest: int = RULES.largest_group
    ) -> "FactoredWeights":
        """The distribution of given groups: the items of each and their table."""
        weights = cls(np.zeros(sum(len(items) for items, _ in groups)), largest)
        weights.items = {items[0]: items for items, _ in groups}
        weights.tables = {items[0]: table for items, table in groups}
        for items, _ in groups:
            weights.group[items] = items[0]
        weights.refresh()
        return weights

    def representable(self) -> NDArray[np.bool_]:
        """(m, m): whether the pair lies in one group or its two groups may still be merged."""
        sizes = np.array([len(self.items[int(at)]) for at in self.group])
        fits: NDArray[np.bool_] = sizes[:, None] + sizes[None, :] <= self.largest
        fits |= self.group[:, None] == self.group[None, :]
        return fits

    def join(self, i: int, j: int) -> None:
        """Put two items into one group; the distribution stays the same."""
        a, b = int(self.group[i]), int(self.group[j])
        if a == b:
            return
        self.tables[a] = np.multiply.outer(self.tables[a], self.tables.pop(b))
        moved = self.items.pop(b)
        self.items[a] = self.items[a] + moved
        self.group[moved] = a

    def update(self, query: tuple[int, ...], measured: float) -> None:
        """One multiplicative-weights step toward the measured share of records holding the query's items."""
        group = int(self.group[query[0]])
        table = self.tables[group]
        cells = tuple(1 if item in query else slice(None) for item in self.items[group])
        answer = table[cells].sum()
        table[cells] *= np.exp((measured - answer) / 2)
        table /= table.sum()

    def refresh(self) -> None:
        """Recompute single and pair probabilities from the tables."""
        for group, items in self.items.items():
            table, axes = self.tables[group], range(len(items))
            for at in axes:
                rest = tuple(axis for axis in axes if axis != at)
                self.single[items[at]] = table.sum(axis=rest)[1]
        self.pairs = np.outer(self.single, self.single)
        np.fill_diagonal(self.pairs, self.single)
        for group, items in self.items.items():
            table, axes = self.tables[group], range(len(items))
            for a in axes:
                for b in range(a + 1, len(items)):
                    rest = tuple(axis for axis in axes if axis not in (a, b))
                    both = table.sum(axis=rest)[1, 1]
                    self.pairs[items[a], items[b]] = self.pairs[items[b], items[a]] = both

    def draw(self, count: int, generator: np.random.Generator) -> NDArray[np.bool_]:
        """`count` records, dense (count, m)."""
        records = np.zeros((count, self.width), dtype=np.bool_)
        for group, items in self.items.items():
            table = self.tables[group]
            edges = np.cumsum(table.ravel())
            cell = np.searchsorted(edges, generator.random(count) * edges[-1], side="right")
            values = np.unravel_index(np.minimum(cell, table.size - 1), table.shape)
            for item, value in zip(items, values, strict=True):
                records[:, item] = value == 1
        return records
