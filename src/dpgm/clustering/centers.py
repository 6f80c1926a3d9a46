"""The centres of k-means: where they start, how they follow released counts and sums, how many become few.

They start at public records or at draws from the independent model of a noisy profile, never at a private row. The
rest is post-processing with public rules only:

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

import numpy as np
import torch
from torch import Tensor

from dpgm.clustering.rules import RULES
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.statistics.fourier_features import FeatureMap
from dpgm.validation import whole


def draw_initial_centers(
    profile: Tensor, clusters: int, feature_map: FeatureMap, *, domain: Domain, generator: torch.Generator
) -> Tensor:
    """Centres from records drawn by the independent model of the item frequencies `profile`.

    Args:
        profile: (m,) frequencies, noisy or public; values outside [0, 1] are clamped.
        clusters: k.
        feature_map: maps the draws to features.
        domain: tells which positions exclude each other.
        generator: source of the draws.

    Returns:
        (k, d) float64.
    """
    pool = _independent_records(profile, max(RULES.pool, RULES.pool_per_cluster * clusters), domain, generator)
    return centers_from_records(pool, clusters, feature_map, generator=generator)


def centers_from_records(
    public: Records, clusters: int, feature_map: FeatureMap, *, generator: torch.Generator
) -> Tensor:
    """Some of the given public records, far from one another as in k-means++, as (k, d) float64 features.

    With fewer distinct records than clusters the remaining centres repeat some of them; the first iteration leaves
    those empty and they are re-seeded.
    """
    whole(at_least=1, clusters=clusters)
    if len(public) == 0:
        raise UsageError("no public records were given to start from; give at least one.")
    features = feature_map.quantised(public).double() * feature_map.grid
    chosen = [int(torch.randint(len(public), (1,), generator=generator))]
    distances = ((features - features[chosen[0]]) ** 2).sum(dim=1)
    for _ in range(clusters - 1):
        weights = distances if float(distances.sum()) > 0 else torch.ones_like(distances)
        chosen.append(int(torch.multinomial(weights, 1, generator=generator)))
        distances = torch.minimum(distances, ((features - features[chosen[-1]]) ** 2).sum(dim=1))
    return features[torch.tensor(chosen)]


def _independent_records(profile: Tensor, count: int, domain: Domain, generator: torch.Generator) -> Records:
    """Records whose positions are drawn independently, one per field where a field takes exactly one value."""
    if profile.shape != (domain.width,):
        raise UsageError(
            f"`profile` must hold one frequency per position, ({domain.width},); got {tuple(profile.shape)}."
        )
    frequencies = profile.double().nan_to_num().clamp(0, 1)
    drawn = np.zeros((count, domain.width), dtype=bool)
    for block in domain.blocks:
        here = frequencies[block.start : block.stop]
        if block.softmax:
            weights = here if float(here.sum()) > 0 else torch.ones_like(here)
            values = torch.multinomial(weights, count, replacement=True, generator=generator).numpy()
            drawn[np.arange(count), block.start + values] = True
        else:
            coins = torch.rand(count, block.width, generator=generator, dtype=torch.float64)
            drawn[:, block.start : block.stop] = (coins < here).numpy()
    return Records.from_dense(drawn, domain)


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
        large = counts >= self.smallest_count
        large[int(counts.argmax())] = True
        return self._estimate(counts, sums)[large], counts[large].clamp(min=1.0)

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


def merge_clusters(centers: Tensor, sizes: Tensor, clusters: int) -> tuple[Tensor, Tensor]:
    """Centres (k, d) and sizes (k,): again and again the two clusters whose union costs k-means least become one.

    A union of n and m records with centres at distance r raises the sum of squared distances by r^2 n m / (n + m).

    Args:
        centers: (k or more, d).
        sizes: (k or more,) positive.
        clusters: k; no more centres than that stay as they are.

    >>> centers = torch.tensor([[0.0], [1.0], [9.0]])
    >>> [each.tolist() for each in merge_clusters(centers, torch.tensor([3.0, 1.0, 2.0]), 2)]
    [[[0.25], [9.0]], [4.0, 2.0]]
    """
    centers, sizes = centers.clone(), sizes.clone()
    active = torch.ones(len(centers), dtype=torch.bool)
    costs = torch.stack([_union_costs(centers, sizes, active, each) for each in range(len(centers))])
    for _ in range(len(centers) - clusters):
        one, other = divmod(int(costs.argmin()), len(centers))
        union = sizes[one] + sizes[other]
        centers[one] = (sizes[one] * centers[one] + sizes[other] * centers[other]) / union
        sizes[one] = union
        active[other] = False
        costs[other] = costs[:, other] = math.inf
        costs[one] = costs[:, one] = _union_costs(centers, sizes, active, one)
    return centers[active], sizes[active]


def _union_costs(centers: Tensor, sizes: Tensor, active: Tensor, one: int) -> Tensor:
    """What it costs to merge cluster `one` with each active one, (k,); infinite for itself and the others."""
    gaps = ((centers - centers[one]) ** 2).sum(dim=1)
    costs = gaps * sizes * sizes[one] / (sizes + sizes[one])
    costs[~active] = math.inf
    costs[one] = math.inf
    return costs
