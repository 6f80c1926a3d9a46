"""A mixture of forests over the columns of a row: the base from which pools are drawn.

All components share one forest: every column is a root or has a parent. A component has, for every root, a distribution
of its codes and, for every other column, one for each code of its parent. The items of a list are leaves below one
column, or roots: a component has the chance of every item for each code of that column. Without edges this is a mixture
of products; one component is a tree.

A mixture restricted to a box (the codes that some columns may have, items that must be there or not) is a mixture of
the same kind, found by messages from the leaves to the roots.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpgm.arrays import Floats, Ints, Mask
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.data.rows import index_dtype, row_pointers
from dpgm.kernels.rounded_draws import draw_items
from dpgm.strategy.protocol import Box

_NEGLIGIBLE = 1e-12  # share of the total weight below which a component is dropped


@dataclass(frozen=True, eq=False)
class Leaves:
    """The items of one list: (K, codes of the parent or 1, items), the chance that a record holds each item."""

    start: int  # first position of the list
    parent: int  # a column; -1 if items depend on none
    chances: Floats


@dataclass(frozen=True, eq=False)
class Forest:
    """Components that share a forest.

    Attributes:
        domain: the closed domain.
        weights: (K,) shares of the components.
        parents: the parent of every table column; -1 for roots.
        tables: for every column (K, codes of the parent or 1, own codes); the last axis sums to 1.
        leaves: one for each list of items.
    """

    domain: Domain
    weights: Floats
    parents: tuple[int, ...]
    tables: tuple[Floats, ...]
    leaves: tuple[Leaves, ...] = ()

    @property
    def components(self) -> int:
        """The number K of components."""
        return len(self.weights)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Columns, parents first, depth first."""
        return depth_first(self.parents)

    @cached_property
    def marginals(self) -> tuple[Floats, ...]:
        """(K, codes) shares of every column's codes."""
        found: dict[int, Floats] = {}
        for column in self.order:
            parent, table = self.parents[column], self.tables[column]
            found[column] = table[:, 0] if parent < 0 else np.einsum("kp,kpc->kc", found[parent], table)
        return tuple(found[column] for column in range(len(self.parents)))

    # -- drawing ---------------------------------------------------------------------------------------------------

    def draw(self, count: int, rng: np.random.Generator) -> Records:
        """Random records; the number with each code, given the parent's, is its expectation up to rounding."""
        components = _stratified(self.weights[None], np.zeros(count, dtype=np.int64), rng)
        codes = np.empty((count, len(self.parents)), dtype=np.int64)
        for column in self.order:
            table, parent = self.tables[column], self.parents[column]
            groups = components * table.shape[1] + (0 if parent < 0 else codes[:, parent])
            codes[:, column] = _stratified(table.reshape(-1, table.shape[2]), groups, rng)
        starts = np.array([column.start for column in self.domain.table_columns], dtype=np.int64)
        rows, positions = [np.repeat(np.arange(count), len(starts))], [(codes + starts).ravel()]
        for leaves in self.leaves:
            groups = components * leaves.chances.shape[1]
            groups += 0 if leaves.parent < 0 else codes[:, leaves.parent]
            sizes = np.bincount(groups, minlength=self.components * leaves.chances.shape[1])
            own = leaves.chances.reshape(len(sizes), -1).astype(np.float32)
            places, items = draw_items(own, sizes, np.cumsum(sizes) - sizes, rng)
            rows.append(np.argsort(groups, kind="stable")[places])
            positions.append(items + leaves.start)
        return _as_records(self.domain, count, np.concatenate(rows), np.concatenate(positions))

    # -- conditioning ----------------------------------------------------------------------------------------------

    def conditioned(self, boxes: Sequence[Box], most: int) -> "tuple[Forest | None, float] | None":
        """The mixture given that a record is in one of some disjoint boxes, and the probability of that.

        The mixture is None if that is 0; all is None if it would have more than `most` numbers.
        """
        parts = [self._restricted(box) for box in boxes]
        total = float(sum(float(weights.sum()) for weights, *_ in parts))
        if not total > 0:
            return None, 0.0
        chosen = [weights > _NEGLIGIBLE * total for weights, *_ in parts]
        numbers = sum(table[0].size for table in self.tables) + sum(one.chances[0].size for one in self.leaves)
        if sum(int(one.sum()) for one in chosen) * numbers > most:
            return None
        weights = np.concatenate([part[0][kept] for part, kept in zip(parts, chosen, strict=True)])
        tables = tuple(
            np.concatenate([part[1][at][kept] for part, kept in zip(parts, chosen, strict=True)])
            for at in range(len(self.tables))
        )
        leaves = tuple(
            Leaves(
                one.start,
                one.parent,
                np.concatenate([part[2][at][kept] for part, kept in zip(parts, chosen, strict=True)]),
            )
            for at, one in enumerate(self.leaves)
        )
        return Forest(self.domain, weights / weights.sum(), self.parents, tables, leaves), total

    def _restricted(self, box: Box) -> tuple[Floats, list[Floats], list[Floats]]:
        """The weight of every component within a box, its tables and its chances of items there."""
        masks, forced = self._places(box)
        # What a column's codes are worth: whether the box allows them, times the chance of what it asks below them.
        worth = [np.repeat(mask[None].astype(np.float64), self.components, axis=0) for mask in masks]
        weights = self.weights.copy()
        chances = []
        for leaves, asked in zip(self.leaves, forced, strict=True):
            own = leaves.chances.copy()
            for item, (absent, present) in asked.items():
                here = leaves.chances[:, :, item]
                factor = here * present + (1 - here) * absent
                if leaves.parent < 0:
                    weights *= factor[:, 0]
                else:
                    worth[leaves.parent] *= factor
                if absent != present:
                    own[:, :, item] = float(present)
            chances.append(own)
        tables: list[Floats] = [*self.tables]
        for column in self.order[::-1]:
            parent = self.parents[column]
            joint = self.tables[column] * worth[column][:, None]
            total = joint.sum(axis=2)
            # Codes of the parent that are left out are worth 0; their distribution does not matter.
            tables[column] = np.where(total[:, :, None] > 0, joint / np.maximum(total, 1e-300)[:, :, None], joint)
            tables[column][total <= 0] = 1 / joint.shape[2]
            if parent < 0:
                weights *= total[:, 0]
            else:
                worth[parent] *= total
        return weights, tables, chances

    def _places(self, box: Box) -> tuple[list[Mask], list[dict[int, tuple[bool, bool]]]]:
        """The codes that a box allows in every column; and for each list, whether items may be absent or present."""
        masks = [np.ones(table.shape[2], dtype=np.bool_) for table in self.tables]
        forced: list[dict[int, tuple[bool, bool]]] = [{} for _ in self.leaves]
        fields = self.domain.fields
        columns = {field.name: at for at, field in enumerate(one for one in fields if not one.is_set)}
        lists = {field.name: at for at, field in enumerate(one for one in fields if one.is_set)}
        for (name, item), mask in box.items():
            if item < 0:
                masks[columns[name]] &= mask
            else:
                forced[lists[name]][item] = bool(mask[0]), bool(mask[1])
        return masks, forced


def depth_first(parents: Sequence[int]) -> tuple[int, ...]:
    """Columns, parents before children; columns that are on a cycle are left out."""
    children: dict[int, list[int]] = {}
    for column, parent in enumerate(parents):
        children.setdefault(parent, []).append(column)
    found: list[int] = []
    waiting = children.get(-1, [])[::-1]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], [])[::-1]
    return tuple(found)


def _stratified(tables: Floats, groups: Ints, rng: np.random.Generator) -> Ints:
    """A draw for every row from the distribution of its group; rows of a group get evenly spread quantiles."""
    shuffled = rng.permutation(len(groups))
    order = shuffled[np.argsort(groups[shuffled], kind="stable")]
    sizes = np.bincount(groups, minlength=len(tables))
    place = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    at = (place + np.repeat(rng.random(len(tables)), sizes)) / np.repeat(sizes, sizes)
    ends = np.cumsum(tables, axis=1)
    ends /= ends[:, -1:]
    flat = (ends + np.arange(len(tables))[:, None]).ravel()
    rows = np.repeat(np.arange(len(tables)), sizes)
    drawn = np.searchsorted(flat, rows + at, side="right") - rows * tables.shape[1]
    found = np.empty(len(groups), dtype=np.int64)
    # A quantile at the very end of a table may pass it by rounding.
    last = tables.shape[1] - 1 - (tables[:, ::-1] > 0).argmax(axis=1)
    found[order] = np.minimum(drawn, last[rows])
    return found


def _as_records(domain: Domain, count: int, rows: Ints, positions: Ints) -> Records:
    keys = np.sort(rows * domain.width + positions)
    rows = keys // domain.width
    indptr = row_pointers(np.bincount(rows, minlength=count))
    return Records(domain, indptr, (keys - rows * domain.width).astype(index_dtype(domain.width)))
