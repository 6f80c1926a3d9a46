"""How many records hold n items: a histogram, one bin per record."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.mechanisms.query import Query, View

LONGEST = 512  # public: records of more items share the last bin


@dataclass(frozen=True)
class RecordLengths:
    """Histogram of the number of items of a record, over its item sets and images; longer ones in the last bin."""

    domain: Domain
    longest: int
    name: str = "record lengths"
    sensitivity: float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths 0 .. longest."""
        return (self.longest + 1,)

    def query(self) -> Query:
        """The question to the private rows."""
        return Query(self._sum, self.sensitivity, self.shape, grid=1.0)

    def _sum(self, view: View) -> Tensor:
        total = np.zeros(self.longest + 1, dtype=np.int64)
        for chunk in view.rows.pieces():
            lengths = np.minimum(item_lengths(chunk), self.longest)
            total += np.bincount(lengths, minlength=self.longest + 1)
        return torch.from_numpy(total)


def item_lengths(records: Records) -> NDArray[np.int64]:
    """Items of every record, over its item sets and images."""
    free = records.domain.item_positions
    return records.lengths if free.all() else counts_within(records, free)


def counts_within(records: Records, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many of the chosen positions every record holds."""
    running = np.zeros(len(records.indices) + 1, dtype=np.int64)
    np.cumsum(chosen[records.indices], out=running[1:])
    return running[records.indptr[1:]] - running[records.indptr[:-1]]


def record_lengths(domain: Domain) -> RecordLengths:
    """The statistic for a domain; its public longest length is that of the domain, at most 512."""
    return RecordLengths(domain, int(min(domain.item_positions.sum(), LONGEST)))
