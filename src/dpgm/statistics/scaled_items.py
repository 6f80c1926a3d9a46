"""How often each item occurs, counted on scales and from offsets that suit it, once its frequency is roughly known.

The sum over records of scale_i (x_i - offset_i). Noise is the same on every sum, so rare items are best counted on a
larger scale than frequent ones, whose counts can bear more noise: most of what a record holds is frequent and then
weighs little. Offsets near the frequencies do the same for items that most records hold. With s the sum of the squares
over a record, records of s > `limit` are scaled down by sqrt(limit / s), so a record's vector has a norm of at most
sqrt(limit). All is done in whole numbers: scales and offsets are multiples of 1/16, weights of 1/256.
"""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.mechanisms.query import Query, View
from dpgm.statistics.enumerated_sets import STEPS
from dpgm.statistics.statistic import GRID

NAME = "scaled item counts"
_FULL_WEIGHT = round(1 / GRID)
_MARGIN = 1 - 1e-12  # far above the rounding of doubles: a weight is never rounded up


@dataclass(frozen=True)
class ScaledItems:
    """Sums of scale_i (x_i - offset_i) for all positions; `limit` in steps of 1 / STEPS⁴, as s is."""

    domain: Domain
    scales: tuple[int, ...]  # in steps of 1 / STEPS
    offsets: tuple[int, ...]  # in steps of 1 / STEPS
    limit: int
    name: str = NAME

    @property
    def sensitivity(self) -> float:
        """sqrt(limit)."""
        return sqrt(self.limit / STEPS**4)

    @property
    def shape(self) -> tuple[int, ...]:
        """One number per position."""
        return (self.domain.width,)

    def query(self) -> Query:
        """The question to the private rows."""
        return Query(self._sum, self.sensitivity, self.shape, grid=GRID / STEPS**2)

    @cached_property
    def nothing(self) -> int:
        """The s of the empty record."""
        return int(((np.array(self.scales) * np.array(self.offsets)) ** 2).sum())

    @cached_property
    def rises(self) -> NDArray[np.int64]:
        """By how much every item adds to s."""
        scales, offsets = np.array(self.scales, dtype=np.int64), np.array(self.offsets, dtype=np.int64)
        rises: NDArray[np.int64] = scales**2 * STEPS * (STEPS - 2 * offsets)
        return rises

    def weight_steps(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Weight of records of the given s, in grid steps, rounded down."""
        shares = np.sqrt(self.limit / np.maximum(sizes, 1)) * _MARGIN
        steps: NDArray[np.int64] = np.where(
            sizes <= self.limit, _FULL_WEIGHT, np.floor(_FULL_WEIGHT * shares)
        ).astype(np.int64)
        return steps

    def sizes(self, rows: Records) -> NDArray[np.int64]:
        """The s of every record."""
        record = np.repeat(np.arange(len(rows)), rows.lengths)
        # whole numbers far below 2^53: the floating-point sums are exact
        held = np.bincount(record, self.rises[rows.indices].astype(np.float64), minlength=len(rows))
        sizes: NDArray[np.int64] = held.astype(np.int64) + self.nothing
        return sizes

    def _sum(self, view: View) -> Tensor:
        held, none = np.zeros(self.domain.width, dtype=np.int64), 0
        for chunk in view.rows.pieces():
            weights = self.weight_steps(self.sizes(chunk))
            spread = np.repeat(weights, chunk.lengths).astype(np.float64)
            held += np.bincount(chunk.indices, spread, minlength=self.domain.width).astype(np.int64)
            none += int(weights.sum())
        scales, offsets = np.array(self.scales, dtype=np.int64), np.array(self.offsets, dtype=np.int64)
        return torch.from_numpy(scales * (STEPS * held - offsets * none))
