"""How many records hold n of the most popular items: nested histograms, one bin per record in each."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.mechanisms.query import Query, View
from dpgm.statistics.record_lengths import counts_within

NAME = "popular lengths"


@dataclass(frozen=True)
class PopularLengths:
    """Histograms of the number of items that a record has in common with each of some groups of items."""

    domain: Domain
    groups: tuple[tuple[int, ...], ...]
    name: str = NAME

    @property
    def sensitivity(self) -> float:
        """A record is in one bin of every histogram."""
        return sqrt(len(self.groups))

    @property
    def shape(self) -> tuple[int, ...]:
        """A row a group: 0 .. as many items as the largest group has."""
        return (len(self.groups), max(map(len, self.groups)) + 1)

    def query(self) -> Query:
        """The question to the private rows."""
        return Query(self._sum, self.sensitivity, self.shape, grid=1.0)

    def _sum(self, view: View) -> Tensor:
        inside = np.zeros((len(self.groups), self.domain.width), dtype=np.bool_)
        for row, group in zip(inside, self.groups, strict=True):
            row[list(group)] = True
        total = np.zeros(self.shape, dtype=np.int64)
        for chunk in view.rows.pieces():
            for counts, chosen in zip(total, inside, strict=True):
                counts += np.bincount(counts_within(chunk, chosen), minlength=len(counts))
        return torch.from_numpy(total)
