"""From noisy counts and sums to the next centres: post-processing with public rules only.

1. A centre is its noisy sum over its noisy count, the count at least one and at least its noise.
2. It is shrunk towards the mean of all records by the James-Stein factor 1 - (noise energy) / (distance from it)^2:
   noise lengthens a centre and moves it off at random, small clusters most. (`shrink=False`, the paper's update,
   leaves this step out.)
3. It is brought back into the set where every true centre lies: the map's box, then its ball.
4. A cluster whose noisy count is below `smallest_count` starts again beside the centre of the largest cluster,
   which it splits; after the last iteration it is dropped.

With zero noise and no small cluster this is Lloyd's update.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dpgm.clustering.rules import RULES
from dpgm.statistics.fourier_features import FeatureMap


@dataclass(frozen=True)
class CenterUpdate:
    """The public rule by which centres follow released counts and sums."""

    feature_map: FeatureMap
    count_noise: float
    sum_noise: float
    shrink: bool = True

    @property
    def smallest_count(self) -> float:
        """Noisy counts below this are taken for empty clusters: twice their noise, at least one half."""
        return max(0.5, 2.0 * self.count_noise)

    def next_centers(self, counts: Tensor, sums: Tensor, generator: torch.Generator) -> Tensor:
        """Centres (k, d) for the next iteration; small clusters are re-seeded."""
        centers = self._estimate(counts, sums)
        small = counts < self.smallest_count
        if bool(small.any()):
            largest = centers[int(counts.argmax())]
            offsets = torch.randn(centers.shape, generator=generator, dtype=torch.float64)
            length = RULES.split_distance * self.feature_map.norm_bound / math.sqrt(centers.shape[1])
            centers = torch.where(small[:, None], self._project(largest + length * offsets), centers)
        return centers

    def sizes(self, counts: Tensor) -> Tensor:
        """Noisy counts (k,) as weights: one record for a cluster that is taken for empty."""
        return torch.where(counts < self.smallest_count, 1.0, counts.clamp(min=1.0))

    def final_centers(self, counts: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
        """Centres and noisy counts of the clusters that are large enough; the largest always stays."""
        kept = counts >= self.smallest_count
        kept[int(counts.argmax())] = True
        return self._estimate(counts, sums)[kept], counts[kept].clamp(min=1.0)

    def _estimate(self, counts: Tensor, sums: Tensor) -> Tensor:
        sizes = counts.clamp(min=max(1.0, self.count_noise))[:, None]
        centers = sums / sizes
        if self.shrink and self.sum_noise > 0:
            mean = sums.sum(dim=0) / counts.sum().clamp(min=1.0)
            noise = centers.shape[1] * (self.sum_noise * self.feature_map.norm_bound / sizes) ** 2
            distance = ((centers - mean) ** 2).sum(dim=1, keepdim=True).clamp(min=1e-12)
            centers = mean + (1 - noise / distance).clamp(min=RULES.least_distance) * (centers - mean)
        return self._project(centers)

    def _project(self, centers: Tensor) -> Tensor:
        inside = centers.clamp(*self.feature_map.box)
        bound = self.feature_map.norm_bound
        lengths: Tensor = torch.linalg.vector_norm(inside, dim=1, keepdim=True)
        return inside * (bound / lengths.clamp(min=bound))
