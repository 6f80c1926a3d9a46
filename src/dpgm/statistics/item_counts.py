"""How many records hold each item, long records down-weighted so that every record has a bounded norm."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.mechanisms.query import Query, View
from dpgm.statistics.statistic import GRID, clip_bound, clip_steps


@dataclass(frozen=True)
class ItemCounts:
    """Counts of all positions; a record of n > `cap` ones counts sqrt(cap / n) for each of them."""

    domain: Domain
    cap: int
    name: str = "item counts"
    order: int = 1

    @property
    def positions(self) -> NDArray[np.int64]:
        """All positions."""
        return np.arange(self.domain.width)

    @property
    def sensitivity(self) -> float:
        """sqrt(cap)."""
        return clip_bound(1, self.cap)

    @property
    def shape(self) -> tuple[int, ...]:
        """One number per position."""
        return (self.domain.width,)

    def query(self) -> Query:
        """The question to the private rows."""
        return Query(self._sum, self.sensitivity, self.shape, grid=GRID)

    def _sum(self, view: View) -> Tensor:
        steps = clip_steps(self.domain.width, 1, self.cap)
        total = np.zeros(self.domain.width, dtype=np.int64)
        for chunk in view.rows.pieces():
            weights = np.repeat(steps[chunk.lengths], chunk.lengths).astype(np.float64)
            # whole numbers far below 2^53: the floating-point sums are exact
            total += np.bincount(chunk.indices, weights, minlength=self.domain.width).astype(np.int64)
        return torch.from_numpy(total)
