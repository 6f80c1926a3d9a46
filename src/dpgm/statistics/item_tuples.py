"""How many records hold all of two, three or four items, over a public choice of positions.

Only sets of distinct items are counted (never an item with itself: those cells would be item counts), and sets with
two values of one table column, which cannot occur, are left out. A record with n of the chosen positions has
C(n, order) sets; long ones are down-weighted (`clip_steps`), so its norm is at most sqrt(C(cap, order)).
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.mechanisms.query import Query, View
from dpgm.statistics.record_lengths import counts_within
from dpgm.statistics.statistic import GRID, clip_bound, clip_steps

NAMES = {1: "item counts", 2: "pair counts", 3: "triple counts", 4: "quadruple counts"}
# A product of 0/1 columns weighted by at most 256 stays below 2^24 over a chunk, where float32 sums are exact.
_CHUNK = {2: 1 << 14, 3: 1 << 12, 4: 1 << 12}


@dataclass(frozen=True)
class ItemTuples:
    """Counts of all sets of `order` positions out of `chosen`, in the order of `tuples`."""

    domain: Domain
    chosen: tuple[int, ...]
    order: int
    cap: int

    @property
    def name(self) -> str:
        """Its name in the plan."""
        return NAMES[self.order]

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """The chosen positions, in increasing order."""
        return np.array(sorted(self.chosen), dtype=np.int64)

    @cached_property
    def tuples(self) -> NDArray[np.int64]:
        """(count, order): places within `positions` of every set that can occur."""
        return possible_sets(self.domain, self.positions, self.order)

    @property
    def sensitivity(self) -> float:
        """sqrt(C(cap, order))."""
        return clip_bound(self.order, self.cap)

    @property
    def shape(self) -> tuple[int, ...]:
        """One number per set."""
        return (len(self.tuples),)

    def query(self) -> Query:
        """The question to the private rows."""
        return Query(self._sum, self.sensitivity, self.shape, grid=GRID)

    def _sum(self, view: View) -> Tensor:
        size = len(self.positions)
        place = np.full(self.domain.width, -1, dtype=np.int64)
        place[self.positions] = np.arange(size)
        steps = clip_steps(size, self.order, self.cap)
        left, right = (np.triu_indices(size, 1)) if self.order > 2 else (np.arange(size), np.arange(size))
        total = np.zeros((len(left), size if self.order < 4 else len(left)), dtype=np.int64)
        for chunk in view.rows.chunks(_CHUNK[self.order]):
            ones = counts_within(chunk, place >= 0)
            held = (ones >= self.order) & (steps[ones] > 0)  # the others add to no set
            if not held.any():
                continue
            dense = dense_rows(chunk, place, size)[held]
            weights = steps[ones[held]].astype(np.float32)[:, None]
            if self.order == 2:
                product = (dense * weights).T @ dense
            else:
                pairs = dense[:, left] * dense[:, right]
                product = (pairs * weights).T @ (dense if self.order == 3 else pairs)
            total += product.astype(np.int64)
        return torch.from_numpy(self._pick(total))

    def _pick(self, total: NDArray[np.int64]) -> NDArray[np.int64]:
        listed = self.tuples.T
        if self.order == 2:
            pairs: NDArray[np.int64] = total[listed[0], listed[1]]
            return pairs
        pair = pair_places(len(self.positions))
        last = listed[2] if self.order == 3 else pair[listed[2], listed[3]]
        picked: NDArray[np.int64] = total[pair[listed[0], listed[1]], last]
        return picked


def possible_sets(domain: Domain, positions: NDArray[np.int64], order: int) -> NDArray[np.int64]:
    """(count, order): places within `positions` of every set that can occur."""
    if order == 2:
        listed = np.stack(np.triu_indices(len(positions), 1), axis=1)
    else:
        listed = np.array(list(combinations(range(len(positions)), order)), dtype=np.int64).reshape(-1, order)
    owner = domain.column_of[positions]
    possible = np.ones(len(listed), dtype=np.bool_)
    for a, b in combinations(range(order), 2):
        possible &= owner[listed[:, a]] != owner[listed[:, b]]
    return listed[possible]


def pair_places(size: int) -> NDArray[np.int64]:
    """(size, size): the place of every pair i < j in the order of `triu_indices`."""
    places = np.full((size, size), -1, dtype=np.int64)
    rows, columns = np.triu_indices(size, 1)
    places[rows, columns] = np.arange(len(rows))
    return places


def dense_rows(records: Records, place: NDArray[np.int64], size: int) -> NDArray[np.float32]:
    """(records, size): which of the positions with a place >= 0 each record holds."""
    dense = np.zeros((len(records), size + 1), dtype=np.float32)  # the last column takes the others
    rows = np.repeat(np.arange(len(records)), records.lengths)
    dense[rows, place[records.indices]] = 1
    return dense[:, :size]
