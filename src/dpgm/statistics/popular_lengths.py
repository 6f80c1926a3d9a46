"""How many records hold n of the most popular items: nested histograms, one bin per record in each."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.statistics.record_lengths import LengthGroups, counts_within, length_target, read_lengths
from dpgm.statistics.rules import ReadRules
from dpgm.statistics.statistic import Ints, Measured, Target

POPULAR = "popular lengths"


@dataclass(frozen=True)
class PopularLengths:
    """Histograms of the number of items that a record has in common with each of some groups of items."""

    words: ClassVar[Mapping[str, Measures]] = {
        POPULAR: Measures(
            "measure",
            "histograms of how many of the 30 and of the 100 most popular items records hold",
            "sqrt(2); of one histogram 1",
        )
    }

    domain: Domain
    groups: tuple[tuple[int, ...], ...]
    name: str = POPULAR

    @classmethod
    def of(cls, domain: Domain, ranks: Ints, sizes: tuple[int, ...]) -> "PopularLengths":
        """Groups of the given sizes, as far as there are so many positions; `ranks` has the most popular first."""
        groups = tuple(tuple(ranks[:size].tolist()) for size in sizes if size < domain.width)
        return cls(
            domain, groups or (tuple(ranks.tolist()),)
        )  # discovery may find fewer items than were planned for

    @property
    def sensitivity(self) -> float:
        """A record is in one bin of every histogram."""
        return sqrt(len(self.groups))

    @property
    def shape(self) -> tuple[int, ...]:
        """One row per group: 0 .. as many items as the largest group has."""
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


def popular_targets(
    popular: Measured[PopularLengths], records: int, rules: ReadRules
) -> list[Target[LengthGroups]]:
    """Counts of records by how many of the most popular items they hold, one target per group."""
    return [
        length_target(
            np.array(group),
            read_lengths(noisy[: len(group) + 1], popular.std, records, rules, few=True),
            records,
            rules,
        )
        for group, noisy in zip(popular.statistic.groups, popular.value.numpy(), strict=True)
    ]
