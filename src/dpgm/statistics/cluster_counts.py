"""Counts within clusters of records: their sizes, and how many records of each hold each item.

The cluster of a row is a private column that the gateway holds: a map of the single record under released centres. A
record is in one cluster, so it changes the numbers of one cluster only.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.statistics.clipping import clip_bound, clip_steps
from dpgm.statistics.statistic import GRID, Descriptions

CLUSTERS = "clusters"  # the name of the private column
CLUSTER_SIZES, CLUSTER_PROFILES = "cluster sizes", "cluster profiles"
_CHUNK = 1 << 18


@dataclass(frozen=True)
class ClusterSizes:
    """Records of each cluster; one record changes one size by 1."""

    words: ClassVar[Descriptions] = {CLUSTER_SIZES: Measures("profiles", "records of each final cluster", "1")}

    clusters: int
    name: str = CLUSTER_SIZES

    def query(self) -> Query:
        """One number per cluster."""
        return Query(self._sum, 1.0, (self.clusters,), grid=1.0)

    def _sum(self, view: View) -> Tensor:
        return torch.from_numpy(np.bincount(view.kept[CLUSTERS], minlength=self.clusters).astype(np.int64))


@dataclass(frozen=True)
class ClusterProfiles:
    """Item counts of each cluster; a record of n > `cap` items counts sqrt(cap / n) for each of them."""

    words: ClassVar[Descriptions] = {
        CLUSTER_PROFILES: Measures("profiles", "records of each cluster holding each item", "sqrt(length bound)")
    }

    domain: Domain
    clusters: int
    cap: int
    name: str = CLUSTER_PROFILES

    def query(self) -> Query:
        """One row of counts per cluster."""
        return Query(self._sum, clip_bound(1, self.cap), (self.clusters, self.domain.width), grid=GRID)

    def _sum(self, view: View) -> Tensor:
        width = self.domain.width
        steps = clip_steps(width, 1, self.cap)
        total = np.zeros(self.clusters * width, dtype=np.int64)
        for start in range(0, len(view.records), _CHUNK):
            chunk = view.records.rows(start, start + _CHUNK)
            base = np.repeat(view.kept[CLUSTERS][start : start + _CHUNK] * width, chunk.lengths)
            weights = np.repeat(steps[chunk.lengths], chunk.lengths).astype(np.float64)
            total += np.bincount(base + chunk.indices, weights, minlength=len(total)).astype(np.int64)
        return torch.from_numpy(total.reshape(self.clusters, width))
