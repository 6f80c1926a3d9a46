"""Private kernel k-means: the paper's Algorithm 2, corrected as in docs/privacy-proof.md 2.2.

    centres <- features of public records, or of draws from a noisy profile
    for t in iterations:
        assign each record to its nearest centre; all centres are frozen meanwhile
        counts  <- number of records of each cluster                            (release, noise)
        sums    <- sum of Fourier features of each cluster                      (release, noise)
        centres <- sums / counts, shrunk and projected, empty ones re-seeded    (post-processing)
        after half of the iterations: merge clusters until k are left           (post-processing)

The update of the centres follows public rules:

1. A centre is its noisy sum over its noisy count, where the count is at least one and at least its noise.
2. It is shrunk toward the mean of all records by the James-Stein factor 1 - (noise energy) / (distance to it)^2: noise
   moves centres away from the mean, those of small clusters most. (The paper's update, `shrink=False`, does not.)
3. It is projected onto the set that contains every true centre: the box of the feature map, then its ball.
4. A cluster whose noisy count is below `smallest_count` is re-seeded near the centre of the largest cluster, which it
   splits; after the last iteration it is dropped.

With zero noise and no small cluster this is Lloyd's update. Lloyd's algorithm finds the optimum nearest to its start,
and centres start at public records or at draws from the independent model of a noisy profile, never at a private row.
So the first half of the iterations may run with more than k clusters (`merge_clusters`; the paper has k throughout).

A pass over the rows counts and sums in whole numbers. Features are cached if they fit a memory limit and recomputed
chunk by chunk otherwise, with the same bits.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.kernels import parallel
from dpgm.kernels.feature_kernels import add_by_cluster, assign
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.networks.rules import CLUSTERING_RULES, ClusteringRules
from dpgm.statistics.fourier_features import UNIT, FeatureMap
from dpgm.validation import non_negative, whole

MEMORY_LIMIT = 512 << 20  # largest size in bytes of cached features; above it they are recomputed
CHUNK_NUMBERS = 1 << 19  # features of a chunk: 1 MiB, which stays in the second-level cache
DEVICE_CHUNK_NUMBERS = 1 << 26
COUNTS, SUMS = "cluster counts", "cluster sums"
KMEANS_WORDS = {
    COUNTS: Measures("cluster", "records of each cluster", "1"),
    SUMS: Measures("cluster", "sum of Fourier features of each cluster", "1"),
}
_CACHE = "cluster features"


def cache_limit(memory: int | None) -> int:
    """Bytes of features to cache in a process limited to `memory` bytes: a quarter, and at most the default limit.

    Another quarter is for rows; the rest is for libraries and temporary arrays.

    >>> cache_limit(None) == MEMORY_LIMIT, cache_limit(1_000_000)
    (True, 250000)
    """
    return MEMORY_LIMIT if memory is None else min(MEMORY_LIMIT, memory // 4)


@dataclass(frozen=True, eq=False)
class Clustering:
    """Released centres and the map from a record to its cluster. Contains nothing private.

    Attributes:
        centers: (k, d) float64; fewer than `clusters` if some were dropped as too small.
        noisy_counts: (k,) float64, from the last iteration; positive.
        feature_map: the public map from records to features.
    """

    centers: Tensor
    noisy_counts: Tensor
    feature_map: FeatureMap

    def predict(self, records: Records, device: str = "cpu") -> NDArray[np.int64]:
        """The cluster of every record: the nearest centre in feature space; ties go to the first."""
        units, offsets = _integer_centers(self.centers, self.feature_map, device)
        chunks = feature_chunks(records, self.feature_map, device)
        parts = [assign(features, units, offsets).cpu() for features in chunks]
        chosen: NDArray[np.int64] = torch.cat(parts).numpy() if parts else np.empty(0, dtype=np.int64)
        return chosen


def private_kmeans(
    gateway: Gateway,
    initial_centers: Tensor,
    feature_map: FeatureMap,
    cluster_steps: int,
    count_noise: float,
    sum_noise: float,
    *,
    generator: torch.Generator,
    clusters: int | None = None,
    merge_after: int | None = None,
    shrink: bool = True,
    memory_limit: int = MEMORY_LIMIT,
    device: str = "cpu",
    rules: ClusteringRules = CLUSTERING_RULES,
) -> Clustering:
    """Cluster the gateway's rows by `cluster_steps` iterations of noisy Lloyd.

    Args:
        gateway: the private rows.
        initial_centers: (k or more, d), public or released (`initial_centers`), never data rows.
        feature_map: Fourier features for kernel k-means, `IdentityFeatures` for the standard one.
        cluster_steps: iterations, at least 1.
        count_noise: multiplier of each release "cluster counts" (sensitivity 1).
        sum_noise: multiplier of each release "cluster sums" (sensitivity: the map's norm bound).
        generator: source of public draws (re-seeded centres).
        clusters: k. If there are more initial centres, the first iterations run with all of them, which are then
            merged into k; None means one cluster per initial centre, which is plain Lloyd.
        merge_after: number of iterations before merging; None means half of all.
        shrink: shrink centres by the expected noise (`CenterUpdate`); False is the paper's update.
        memory_limit: bytes of features to cache; above it they are recomputed in every iteration.
        device: where features are computed.
        rules: how centres follow noisy counts and sums.

    Privacy:
        `cluster_steps` releases of each of "cluster counts" and "cluster sums" on the whole data. A record is in
        exactly one cluster, however many there are, so it moves one count by 1 and one sum by at most the norm bound.
    """
    whole(at_least=1, cluster_steps=cluster_steps)
    non_negative(count_noise=count_noise, sum_noise=sum_noise)
    if initial_centers.ndim != 2 or initial_centers.shape[1] != feature_map.features or not len(initial_centers):
        raise UsageError(
            f"`initial_centers` must be (clusters, {feature_map.features}); got {tuple(initial_centers.shape)}."
        )
    target = len(initial_centers) if clusters is None else clusters
    whole(at_least=1, clusters=target)
    merge_step = cluster_steps // 2 if merge_after is None else merge_after
    gateway.keep(_CACHE, lambda records: cache_features(records, feature_map, memory_limit, device))
    update = CenterUpdate(feature_map, count_noise, sum_noise, shrink, rules)
    centers = initial_centers.double().clone()
    for step in range(1, cluster_steps + 1):
        counts_query, sums_query = _cluster_queries(parallel.from_first(centers), feature_map, device)
        counts = gateway.release(COUNTS, counts_query, count_noise)
        sums = gateway.release(SUMS, sums_query, sum_noise)
        if step < cluster_steps:
            centers = update.next_centers(counts, sums, generator)
        if step == merge_step:
            centers, _ = merge_clusters(centers, update.sizes(counts), target)
    gateway.keep(_CACHE, lambda records: None)
    centers, counts = merge_clusters(*update.final_centers(counts, sums), target)
    return Clustering(parallel.from_first(centers), counts, feature_map)


def default_features(
    records: int, clusters: int, sum_noise: float, rules: ClusteringRules = CLUSTERING_RULES
) -> int:
    """The number of features that the noise allows, from public numbers.

    The noise of an average cluster's centre has length sum_noise x sqrt(d) x clusters / records; the rules say how much
    k-means tolerates, relative to the length of a feature vector.
    """
    bearable = (rules.bearable_noise * records / (clusters * max(sum_noise, 1e-9))) ** 2
    return 2 * round(min(rules.most_features, max(rules.least_features, bearable)) / 2)


# -- centres: initial ones, their update from released counts and sums, merging -------------------------------------


def initial_centers(
    start: Records | Tensor,
    clusters: int,
    feature_map: FeatureMap,
    *,
    domain: Domain,
    generator: torch.Generator,
    rules: ClusteringRules = CLUSTERING_RULES,
) -> Tensor:
    """Records of a public pool, chosen far from one another as in k-means++, as (k, d) float64 features.

    With fewer distinct records than clusters some centres are repeated; their clusters are empty in the first iteration
    and are re-seeded.

    Args:
        start: public records; or (m,) frequencies, noisy or public, to draw records of independent items from.
        clusters: k.
        feature_map: maps records to features.
        domain: the domain of the records.
        generator: source of the draws.
        rules: how many records of independent items are drawn.
    """
    whole(at_least=1, clusters=clusters)
    if isinstance(start, Tensor):
        count = max(rules.pool, rules.pool_per_cluster * clusters)
        start = _independent_records(start, count, domain, generator)
    if len(start) == 0:
        raise UsageError("no public records were given to start from; give at least one.")
    features = feature_map.quantised(start).double() * feature_map.grid
    chosen = [int(torch.randint(len(start), (1,), generator=generator))]
    distances = ((features - features[chosen[0]]) ** 2).sum(dim=1)
    for _ in range(clusters - 1):
        weights = distances if float(distances.sum()) > 0 else torch.ones_like(distances)
        chosen.append(int(torch.multinomial(weights, 1, generator=generator)))
        distances = torch.minimum(distances, ((features - features[chosen[-1]]) ** 2).sum(dim=1))
    return features[torch.tensor(chosen)]


def _independent_records(profile: Tensor, count: int, domain: Domain, generator: torch.Generator) -> Records:
    """Draw records whose items and columns are independent."""
    if profile.shape != (domain.width,):
        raise UsageError(
            f"`profile` must hold one frequency per position, ({domain.width},); got {tuple(profile.shape)}."
        )
    frequencies = profile.double().nan_to_num().clamp(0, 1)
    drawn = np.zeros((count, domain.width), dtype=bool)
    for block in domain.blocks:
        chances = frequencies[block.start : block.stop]
        if block.softmax:
            weights = chances if float(chances.sum()) > 0 else torch.ones_like(chances)
            values = torch.multinomial(weights, count, replacement=True, generator=generator).numpy()
            drawn[np.arange(count), block.start + values] = True
        else:
            coins = torch.rand(count, block.width, generator=generator, dtype=torch.float64)
            drawn[:, block.start : block.stop] = (coins < chances).numpy()
    return Records.from_dense(drawn, domain)


@dataclass(frozen=True)
class CenterUpdate:
    """The public rule that computes centres from released counts and sums."""

    feature_map: FeatureMap
    count_noise: float
    sum_noise: float
    shrink: bool = True
    rules: ClusteringRules = CLUSTERING_RULES

    @property
    def smallest_count(self) -> float:
        """Clusters with noisy counts below this are treated as empty."""
        return max(0.5, self.rules.empty_below * self.count_noise)

    def next_centers(self, counts: Tensor, sums: Tensor, generator: torch.Generator) -> Tensor:
        """Centres (k, d) for the next iteration; small clusters are re-seeded."""
        centers = self._estimate(counts, sums)
        small = counts < self.smallest_count
        if bool(small.any()):
            largest = centers[int(counts.argmax())]
            offsets = torch.randn(centers.shape, generator=generator, dtype=torch.float64)
            length = self.rules.split_distance * self.feature_map.norm_bound / math.sqrt(centers.shape[1])
            centers = torch.where(small[:, None], self._project(largest + length * offsets), centers)
        return centers

    def sizes(self, counts: Tensor) -> Tensor:
        """Noisy counts (k,) as weights for merging: one record for a cluster that is treated as empty."""
        return torch.where(counts < self.smallest_count, 1.0, counts.clamp(min=1.0))

    def final_centers(self, counts: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
        """Centres and noisy counts of the clusters that are large enough; the largest is never dropped."""
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
            centers = mean + (1 - noise / distance).clamp(min=self.rules.least_distance) * (centers - mean)
        return self._project(centers)

    def _project(self, centers: Tensor) -> Tensor:
        inside = centers.clamp(*self.feature_map.box)
        bound = self.feature_map.norm_bound
        lengths: Tensor = torch.linalg.vector_norm(inside, dim=1, keepdim=True)
        return inside * (bound / lengths.clamp(min=bound))


def merge_clusters(centers: Tensor, sizes: Tensor, clusters: int) -> tuple[Tensor, Tensor]:
    """Merge clusters with centres (k, d) and sizes (k,) until `clusters` are left; returns centres and sizes.

    Each step merges the two whose union raises the sum of squared distances least (Ward): the union of n and m records
    with centres at distance r raises it by r^2 n m / (n + m).

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
    """Cost of merging cluster `one` with each active cluster, (k,); infinite for itself and inactive ones."""
    distances = ((centers - centers[one]) ** 2).sum(dim=1)
    costs = distances * sizes * sizes[one] / (sizes + sizes[one])
    costs[~active] = math.inf
    costs[one] = math.inf
    return costs


# -- passes over the rows ------------------------------------------------------------------------------------------


def _cluster_queries(centers: Tensor, feature_map: FeatureMap, device: str) -> tuple[Query, Query]:
    """Queries for counts and sums of the clusters of frozen centres; one pass over the rows computes both."""
    pending: list[Tensor] = []  # the sums, between the first query and the second

    def pass_over(view: View) -> tuple[Tensor, Tensor]:
        cached = view.kept.get(_CACHE) if view.sample is None else None
        return count_and_sum(view.rows, centers, feature_map, device, cached)

    def counts(view: View) -> Tensor:
        exact, sums = pass_over(view)
        pending[:] = [sums]
        return exact

    def sums(view: View) -> Tensor:
        return pending.pop() if pending else pass_over(view)[1]

    clusters = len(centers)
    return (
        Query(counts, sensitivity=1.0, shape=(clusters,), grid=1.0),
        Query(
            sums, sensitivity=feature_map.norm_bound, shape=(clusters, feature_map.features), grid=feature_map.grid
        ),
    )


def _integer_centers(centers: Tensor, feature_map: FeatureMap, device: str) -> tuple[Tensor, Tensor]:
    """Centres (k, d) int16 on a grid on which scores are exact, and half their squared norms (k,) int64.

    The nearest centre has the largest score <feature, centre> - half its squared norm, in integer units.
    """
    scale = UNIT  # grid steps per unit length: centres fit int16 and, halved often enough, scores fit int32
    while feature_map.norm_bound / feature_map.grid * feature_map.norm_bound * scale >= 2**31:
        scale //= 2
    units = torch.round(centers.double() * scale).clamp(-UNIT, UNIT - 1).to(torch.int16)
    # The unit of a score is grid / scale; the unit of half a squared norm is 1 / (2 scale^2).
    squares = (units.long() ** 2).sum(dim=1).double()
    offsets = torch.round(squares / (2 * scale * feature_map.grid)).long()
    return units.to(device), offsets.to(device)


def feature_chunks(
    records: Records, feature_map: FeatureMap, device: str = "cpu", cached: Tensor | None = None
) -> Iterator[Tensor]:
    """Quantised features in chunks of consecutive rows, from the cache or computed."""
    numbers = CHUNK_NUMBERS if device == "cpu" else DEVICE_CHUNK_NUMBERS
    size = max(1, numbers // feature_map.features)
    if cached is not None:
        yield from torch.split(cached, size)
        return
    for chunk in records.chunks(size):
        yield feature_map.quantised(chunk, device)


def cache_features(
    records: Records, feature_map: FeatureMap, memory_limit: int, device: str = "cpu"
) -> Tensor | None:
    """All features, (N, d) int16; None if they would take more than `memory_limit` bytes."""
    if len(records) * feature_map.features * 2 > memory_limit:
        return None
    cached = torch.empty((len(records), feature_map.features), dtype=torch.int16, device=device)
    start = 0
    for chunk in feature_chunks(records, feature_map, device):
        cached[start : start + len(chunk)] = chunk
        start += len(chunk)
    return cached


def count_and_sum(
    records: Records, centers: Tensor, feature_map: FeatureMap, device: str = "cpu", cached: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Number of rows (k,) and sum of quantised features (k, d) of every cluster, int64; each row is in exactly one."""
    units, offsets = _integer_centers(centers, feature_map, device)
    counts = torch.zeros(len(centers), dtype=torch.int64, device=device)
    sums = torch.zeros(centers.shape, dtype=torch.int64, device=device)
    for features in feature_chunks(records, feature_map, device, cached):
        exact = features.double()  # once for both
        add_by_cluster(exact, assign(exact, units, offsets), counts, sums)
    return counts.cpu(), sums.cpu()
