"""Centred counts of sets of items over a domain of so few items that all 2^m possible records can be enumerated.

For a set S, the sum over records of the product of (x_i - offset_i) over i in S, with offsets near the items'
frequencies. Where records are dense this says as much as counting the records that hold S, but a record's vector is
several times shorter, and so is the noise: a record that holds what most records hold adds next to nothing. The norm
of a record's vector is a function of the record, known beforehand for all 2^m of them; longer vectors are scaled
down to `bound`. All is done in whole numbers: offsets are multiples of 1/16, weights of 1/256.

Records of at most `order` items can be counted `whole` instead: such a record adds the full norm to the one cell that
stands for exactly these items, and nothing to the sets. The same release then holds two statistics of different
records for the noise of one.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import floor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.mechanisms.query import Query, View
from dpgm.statistics.item_tuples import NAMES
from dpgm.statistics.statistic import GRID

STEPS = 16  # of an offset, in 1
_MARGIN = 1 - 1e-12  # far above the rounding of doubles: a weight is never rounded up


@dataclass(frozen=True)
class EnumeratedSets:
    """Centred sums of all sets of `order` items, in the order of `sets`; then `whole_records`."""

    domain: Domain
    order: int
    offsets: tuple[int, ...]  # of every item, in steps
    bound: float
    whole: bool = False

    @property
    def name(self) -> str:
        """Its name in the plan."""
        return NAMES[self.order]

    @property
    def width(self) -> int:
        """The number m of items."""
        return self.domain.width

    @cached_property
    def sets(self) -> NDArray[np.int64]:
        """Bit masks of all sets of `order` items."""
        listed = np.array(list(combinations(range(self.width), self.order)), dtype=np.int64)
        masks: NDArray[np.int64] = (1 << listed.reshape(-1, self.order)).sum(axis=1)
        return masks

    @cached_property
    def whole_records(self) -> NDArray[np.int64]:
        """Bit masks of all records that are counted whole."""
        return np.flatnonzero(self._counted_whole)

    @cached_property
    def _counted_whole(self) -> NDArray[np.bool_]:
        short = np.bitwise_count(np.arange(1 << self.width)) <= self.order
        return short if self.whole else np.zeros_like(short)

    @cached_property
    def norms(self) -> NDArray[np.float64]:
        """Norm of the vector of every possible record, before weights."""
        held = (np.arange(1 << self.width)[:, None] >> np.arange(self.width)) & 1
        squares = (STEPS * held - np.array(self.offsets)) ** 2
        # Elementary symmetric polynomial: the sum over all sets of the product of squares.
        sums = np.zeros((self.order + 1, 1 << self.width), dtype=np.int64)
        sums[0] = 1
        for item in range(self.width):
            for size in range(self.order, 0, -1):
                sums[size] += sums[size - 1] * squares[:, item]
        norms: NDArray[np.float64] = np.sqrt(sums[self.order].astype(np.float64)) / STEPS**self.order
        return norms

    @cached_property
    def weight_steps(self) -> NDArray[np.int64]:
        """Weight of every possible record in the sets, in grid steps."""
        most = self.bound / GRID / np.maximum(self.norms, self.bound * GRID) * _MARGIN
        steps = np.floor(np.minimum(most, round(1 / GRID))).astype(np.int64)
        steps[self.norms <= self.bound * _MARGIN] = round(1 / GRID)
        steps[self._counted_whole] = 0
        return steps

    @property
    def sensitivity(self) -> float:
        """The bound: weights keep every record's vector within it."""
        return self.bound

    @property
    def grid(self) -> float:
        """What all sums are whole multiples of."""
        return GRID / float(STEPS) ** self.order

    @property
    def whole_weight(self) -> float:
        """What a record that is counted whole adds to its cell: the bound, rounded down to the grid."""
        return self._whole_steps * self.grid

    @property
    def _whole_steps(self) -> int:
        return floor(self.bound / self.grid * _MARGIN)

    @property
    def shape(self) -> tuple[int, ...]:
        """One number per set, and one per record that is counted whole."""
        return (len(self.sets) + len(self.whole_records),)

    def query(self) -> Query:
        """The question to the private rows."""
        return Query(self._sum, self.sensitivity, self.shape, grid=self.grid)

    def _sum(self, view: View) -> Tensor:
        cells = np.zeros(1 << self.width, dtype=np.int64)
        for chunk in view.rows.chunks(1 << 16):
            rows = np.repeat(np.arange(len(chunk)), chunk.lengths)
            bits = np.left_shift(1, chunk.indices.astype(np.int64))
            masks = np.bincount(rows, weights=bits, minlength=len(chunk)).astype(np.int64)
            cells += np.bincount(masks, minlength=len(cells))
        sums = cells * self.weight_steps
        # Item by item, from "which records" to "which sets"; larger sets than those counted may overflow, unread.
        for item, offset in enumerate(self.offsets):
            halves = sums.reshape(-1, 2, 1 << item)
            without, held = halves[:, 0].copy(), halves[:, 1].copy()
            halves[:, 0] = without + held
            halves[:, 1] = (STEPS - offset) * held - offset * without
        return torch.from_numpy(np.concatenate([sums[self.sets], self._whole_steps * cells[self.whole_records]]))


def offsets_near(frequencies: NDArray[np.float64]) -> tuple[int, ...]:
    """Offsets next to the items' frequencies."""
    return tuple(int(step) for step in np.clip(np.rint(STEPS * frequencies), 0, STEPS))
