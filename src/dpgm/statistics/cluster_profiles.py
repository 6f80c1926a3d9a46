"""Size and item counts of each cluster: mixture weights and warm start of the networks' outputs.

The cluster of a row is a private column (`view.kept["clusters"]`), a record-wise map of released centres. A record is
in one cluster, so it moves one size by 1 and one block of counts by at most sqrt(cap).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.statistics.clipped_sets import clip_bound, clip_steps
from dpgm.statistics.statistic import GRID

CLUSTERS = "clusters"
SIZES, PROFILES = "cluster sizes", "cluster profiles"
_CHUNK = 1 << 18


@dataclass(frozen=True)
class ClusterSizes:
    """Records of each cluster."""

    words: ClassVar[Mapping[str, Measures]] = {SIZES: Measures("profiles", "records of each final cluster", "1")}

    clusters: int
    name: str = SIZES
    sensitivity: float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """One number per cluster."""
        return (self.clusters,)

    def query(self) -> Query:
        """The question to the private rows."""
        return Query(self._sum, self.sensitivity, self.shape, grid=1.0)

    def _sum(self, view: View) -> Tensor:
        sizes = np.bincount(view.kept[CLUSTERS], minlength=self.clusters)
        return torch.from_numpy(sizes.astype(np.int64))


@dataclass(frozen=True)
class ClusterProfiles:
    """Item counts of each cluster; a record of n > `cap` ones counts sqrt(cap / n) for each of them."""

    words: ClassVar[Mapping[str, Measures]] = {
        PROFILES: Measures("profiles", "records of each cluster holding each item", "sqrt(length bound)")
    }

    domain: Domain
    clusters: int
    cap: int
    name: str = PROFILES

    @property
    def sensitivity(self) -> float:
        """sqrt(cap)."""
        return clip_bound(1, self.cap)

    @property
    def shape(self) -> tuple[int, ...]:
        """One row of counts per cluster."""
        return (self.clusters, self.domain.width)

    def query(self) -> Query:
        """The question to the private rows."""
        return Query(self._sum, self.sensitivity, self.shape, grid=GRID)

    def _sum(self, view: View) -> Tensor:
        steps = clip_steps(self.domain.width, 1, self.cap)
        size = self.clusters * self.domain.width
        total = np.zeros(size, dtype=np.int64)
        clusters = view.kept[CLUSTERS]
        for start in range(0, len(view.records), _CHUNK):
            chunk = view.records.rows(start, start + _CHUNK)
            base = np.repeat(clusters[start : start + _CHUNK] * self.domain.width, chunk.lengths)
            weights = np.repeat(steps[chunk.lengths], chunk.lengths).astype(np.float64)
            total += np.bincount(base + chunk.indices, weights, minlength=size).astype(np.int64)
        return torch.from_numpy(total.reshape(self.shape))
