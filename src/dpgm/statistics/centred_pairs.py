"""Centred sums of pairs of positions, for dense records: rows of a table, long baskets from a short list.

For positions i and j, the sum over records of (x_i - offset_i)(x_j - offset_j), offsets near their frequencies. It says
as much as counting the records that hold both, once frequencies are known, but a record that holds what most records
hold adds next to nothing. With s the sum of (x_i - offset_i)² over the chosen positions, a record's vector has a norm
of at most s / sqrt(2); records of s > `limit` are scaled down by limit / s. All is done in whole numbers: offsets are
multiples of 1/16, weights of 1/256.
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
from dpgm.statistics.item_tuples import NAMES, dense_rows, possible_sets
from dpgm.statistics.statistic import GRID

_CHUNK = 1 << 14  # 2^14 rows of weights up to 256 stay below 2^24, where float32 sums are exact
_FULL_WEIGHT = round(1 / GRID)


@dataclass(frozen=True)
class CentredPairs:
    """Centred sums of all pairs out of `chosen`, in the order of `tuples`."""

    domain: Domain
    chosen: tuple[int, ...]  # in increasing order
    offsets: tuple[int, ...]  # of each, in steps of 1 / STEPS
    limit: int  # of s, in steps of 1 / STEPS²
    name: str = NAMES[2]
    order: int = 2

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """The chosen positions."""
        return np.array(self.chosen, dtype=np.int64)

    @cached_property
    def tuples(self) -> NDArray[np.int64]:
        """(count, 2): places within `positions` of every pair that can occur."""
        return possible_sets(self.domain, self.positions, 2)

    @property
    def sensitivity(self) -> float:
        """The norm of a record at the limit, at most."""
        return centred_bound(self.limit / STEPS**2)

    @property
    def shape(self) -> tuple[int, ...]:
        """One number a pair."""
        return (len(self.tuples),)

    def query(self) -> Query:
        """The question to the private rows."""
        return Query(self._sum, self.sensitivity, self.shape, grid=GRID / STEPS**2)

    def weight_steps(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Weight of records of the given s (in steps), in grid steps, rounded down."""
        steps: NDArray[np.int64] = np.minimum(_FULL_WEIGHT, _FULL_WEIGHT * self.limit // np.maximum(sizes, 1))
        return steps

    def sizes(self, rows: Records) -> NDArray[np.int64]:
        """The s of every record, in steps."""
        offsets = np.array(self.offsets, dtype=np.int64)
        rise = np.zeros(self.domain.width)
        rise[self.positions] = STEPS**2 - 2 * STEPS * offsets
        record = np.repeat(np.arange(len(rows)), rows.lengths)
        # whole numbers far below 2^53: the floating-point sums are exact
        held = np.bincount(record, rise[rows.indices], minlength=len(rows)).astype(np.int64)
        sizes: NDArray[np.int64] = held + int((offsets**2).sum())
        return sizes

    def _sum(self, view: View) -> Tensor:
        size = len(self.positions)
        place = np.full(self.domain.width, -1, dtype=np.int64)
        place[self.positions] = np.arange(size)
        both = np.zeros((size, size), dtype=np.int64)
        one = np.zeros(size, dtype=np.int64)
        none = 0
        for chunk in view.rows.chunks(_CHUNK):
            weights = self.weight_steps(self.sizes(chunk))
            dense = dense_rows(chunk, place, size)
            weighted = dense * weights.astype(np.float32)[:, None]
            both += (weighted.T @ dense).astype(np.int64)
            one += weighted.sum(axis=0, dtype=np.float64).astype(np.int64)
            none += int(weights.sum())
        i, j = self.tuples.T
        offsets = np.array(self.offsets, dtype=np.int64)
        # (16 x_i - a)(16 x_j - b), multiplied out
        sums = STEPS**2 * both[i, j] - STEPS * (offsets[j] * one[i] + offsets[i] * one[j])
        return torch.from_numpy(sums + offsets[i] * offsets[j] * none)


def centred_bound(limit: float) -> float:
    """The norm that weights of limit / s keep every record within.

    Over pairs i < j the squares (y_i y_j)² add up to ((sum of y²)² - sum of y⁴) / 2, at most s² / 2.
    """
    return limit / sqrt(2)
