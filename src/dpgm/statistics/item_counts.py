"""How many records hold each item, in all or in each cluster, long records down-weighted to a bounded norm.

Counts of larger sets (`item_tuples.py`) are down-weighted alike. The moments of a mixture of products are exact: order
1 is w'p, order 2 p'diag(w)p, orders 3 and 4 the products of pairs. Long records were down-weighted when the counts were
measured, so the model is asked for the same down-weighted counts: each component's moments are scaled by the mean
weight its records would have had.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import comb, floor, sqrt
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.kernels.poisson_binomial import length_distribution
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.statistics.bounds import choose_bound, popular_sets
from dpgm.statistics.record_lengths import Known
from dpgm.statistics.rules import ReadRules
from dpgm.statistics.shrinkage import onto_simplex, shrink_alone
from dpgm.statistics.statistic import (
    FULL_WEIGHT,
    GRID,
    Floats,
    Ints,
    Measured,
    Scale,
    Scaling,
    Target,
    Words,
    columns_of,
    target_of,
)

ITEMS = "item counts"
CLUSTERS = "clusters"  # the private column with the cluster of every row, a record-wise map of released centres
SIZES, PROFILES = "cluster sizes", "cluster profiles"
_CHUNK = 1 << 18


# -- the queries -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def clip_steps(longest: int, order: int, cap: int) -> Ints:
    """Weight of a record of n = 0 .. `longest` items, in grid steps, rounded down.

    A record of n items has C(n, order) sets of `order` items; all of them together, each weighted by
    min(1, sqrt(C(cap, order) / C(n, order))), have norm at most sqrt(C(cap, order)).

    >>> (clip_steps(6, 2, 4) * GRID).round(3).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.773, 0.629]
    """
    bound = comb(cap, order)
    steps = np.full(longest + 1, FULL_WEIGHT, dtype=np.int64)
    for n in range(cap + 1, longest + 1):
        steps[n] = floor(sqrt(bound / comb(n, order)) / GRID)
    steps.flags.writeable = False
    return steps


def clip_bound(order: int, cap: int) -> float:
    """The norm that `clip_steps` keeps every record within."""
    return sqrt(comb(cap, order))


@dataclass(frozen=True)
class ItemCounts:
    """Counts of all positions; a record of n > `cap` ones counts sqrt(cap / n) for each of them."""

    words: ClassVar[Words] = {ITEMS: Measures("profile", "records holding each item", "sqrt(length bound)")}

    domain: Domain
    cap: int
    name: str = ITEMS
    order: int = 1

    @classmethod
    def choose(cls, known: Known, noise: float) -> "ItemCounts":
        """With the cap that promises the smallest error, given the lengths and how popularity usually falls."""
        lengths = known.whole
        zipf = 1 / (np.arange(known.domain.width) + known.rules.bound.zipf_offset)
        guess = np.minimum(zipf / zipf.sum() * (lengths @ np.arange(len(lengths))), 1.0)
        return cls(known.domain, choose_cap(1, lengths, guess, known, noise)[0])

    def query(self) -> Query:
        """One number per position."""
        return Query(self._sum, clip_bound(1, self.cap), (self.domain.width,), grid=GRID)

    def _sum(self, view: View) -> Tensor:
        steps = clip_steps(self.domain.width, 1, self.cap)
        total = np.zeros(self.domain.width, dtype=np.int64)
        for chunk in view.rows.pieces():
            weights = np.repeat(steps[chunk.lengths], chunk.lengths).astype(np.float64)
            # whole numbers far below 2^53: the floating-point sums are exact
            total += np.bincount(chunk.indices, weights, minlength=self.domain.width).astype(np.int64)
        return torch.from_numpy(total)

    @cached_property
    def positions(self) -> Ints:
        """All positions."""
        return np.arange(self.domain.width)

    @cached_property
    def _index(self) -> Tensor:
        return torch.from_numpy(self.positions)

    def expected(self, probabilities: Tensor, weights: Tensor, scale: Scale) -> Tensor:
        """Share of the records that hold each position, weighted."""
        # selected like the sets of other orders, though it is all of them: gradients then add up in the same order
        return moments(1, columns_of(probabilities, self._index), weights, *scale)


@dataclass(frozen=True)
class ClusterSizes:
    """Records of each cluster; one record moves one size by 1."""

    words: ClassVar[Words] = {SIZES: Measures("profiles", "records of each final cluster", "1")}

    clusters: int
    name: str = SIZES

    def query(self) -> Query:
        """One number per cluster."""
        return Query(self._sum, 1.0, (self.clusters,), grid=1.0)

    def _sum(self, view: View) -> Tensor:
        return torch.from_numpy(np.bincount(view.kept[CLUSTERS], minlength=self.clusters).astype(np.int64))


@dataclass(frozen=True)
class ClusterProfiles:
    """Item counts of each cluster, weighted as those of all records; a record moves the counts of one cluster."""

    words: ClassVar[Words] = {
        PROFILES: Measures("profiles", "records of each cluster holding each item", "sqrt(length bound)")
    }

    domain: Domain
    clusters: int
    cap: int
    name: str = PROFILES

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


# -- the bound on long records -----------------------------------------------------------------------------------


def choose_cap(order: int, lengths: Floats, profile: Floats, known: Known, noise: float) -> tuple[int, float]:
    """The bound on a record's items that balances noise against what down-weighting distorts, and its cost.

    Both are relative errors of a popular set of `order` items, rare ones taken as frequent enough to matter.
    """
    mass = lengths * np.array([comb(n, order) for n in range(len(lengths))], dtype=np.float64)
    caps = list(range(order, len(lengths)))
    if mass.sum() <= 0 or not caps:
        return order, np.inf
    weights = (clip_steps(len(lengths) - 1, order, cap) * np.float64(GRID) for cap in caps)
    stds = noise * np.array([clip_bound(order, cap) for cap in caps])
    popular, wrong = popular_sets(order, lengths, profile, known), known.rules.bound.distortion[order - 1]
    cap, cost = choose_bound(caps, stds, weights, mass, popular, wrong)
    return int(cap), cost


# -- how noisy counts are read -----------------------------------------------------------------------------------


def _posterior(items: Measured[ItemCounts], rules: ReadRules) -> tuple[Floats, Floats]:
    """Posterior mean and deviation of every count: rare items are not as frequent as noise makes some of them seem."""
    counts, stds = items.value.numpy().copy(), np.full(len(items.value), items.std)
    free, columns = items.statistic.domain.item_positions, items.statistic.domain.table_columns
    parts: list[slice | NDArray[np.bool_]] = [free] if free.any() else []
    parts += [column for column in columns if column.stop - column.start > rules.many_values]
    for part in parts:
        counts[part], stds[part] = shrink_alone(counts[part], items.std, rules.shrink)
    return counts, stds


def item_profile(items: Measured[ItemCounts], known: Known) -> Floats:
    """Share of the records that hold each position, corrected for down-weighting on average.

    The shares of a table column sum to 1: they are the nearest ones that do. Columns of many values, whose counts are
    shrunk, are scaled to it: what noise hides is in their counts already, and floors would add up.
    """
    rules = known.rules.read
    shares = _posterior(items, rules)[0] / (mean_weight(items, known) * known.records)
    profile = possible_shares(shares, items.std, known)
    for column in known.domain.table_columns:
        width = column.stop - column.start
        if width > rules.many_values:
            profile[column] = possible_shares(shares[column], 0.0, known)
            profile[column] /= profile[column].sum()
        else:
            floor = min(float(_floor(items.std, known)), rules.largest_floor / width)
            profile[column] = onto_simplex(shares[column], 1.0, floor)
    return profile


def pilot_profile(sums: Floats, known: Known) -> Floats:
    """Share of the records that hold each item, in proportion to noisy sums; lengths say how many they hold in all.

    Records of n values added 1/sqrt(n) to each, so items of long records come out a little too rare. A pilot may err:
    it decides scales, offsets and bounds of the release that follows.
    """
    lengths = known.whole
    mean = float(lengths @ np.arange(len(lengths)))
    shares = np.maximum(sums, 0.0)
    return possible_shares(shares * (mean / max(float(shares.sum()), 1e-12)), 0.0, known)


def mean_weight(items: Measured[ItemCounts], known: Known) -> float:
    """Mean weight of the records that hold an item."""
    lengths = known.whole
    held = np.arange(len(lengths))
    weights = clip_steps(len(lengths) - 1, 1, items.statistic.cap) * GRID
    mean = float((lengths * held * weights).sum() / max((lengths * held).sum(), 1e-12))
    return max(mean, known.rules.read.least_weight)


def possible_shares(shares: Floats, std: float | Floats, known: Known) -> Floats:
    """Noisy shares of the records, brought off 0 and 1: what noise hides may still be there."""
    floor = np.minimum(_floor(std, known), known.rules.read.largest_floor)
    possible: Floats = np.clip(shares, floor, known.rules.read.largest_share)
    return possible


def _floor(std: float | Floats, known: Known) -> Floats:
    """Share of the records that everything is taken to have at least."""
    rules = known.rules.read
    floor: Floats = np.maximum(rules.floor_noise * np.asarray(std), rules.floor_records) / known.records
    return floor


# -- on a model --------------------------------------------------------------------------------------------------


def item_target(items: Measured[ItemCounts], known: Known, emphasis: float) -> Target[ItemCounts]:
    """The counts, shrunk, as a target of a fit."""
    counts, stds = _posterior(items, known.rules.read)
    statistic = items.statistic
    longest = longest_expected(known.whole, statistic.domain.width, known.rules.read)
    scaling = clipped_scaling(1, statistic.positions, statistic.cap, longest, statistic.domain)
    return target_of(statistic, counts, stds, scaling, emphasis)


def longest_expected(lengths: Floats, size: int, rules: ReadRules) -> int:
    """Longest record the fit reckons with, out of `size` positions: what was seen, and some room."""
    return int(min(size, len(lengths) + max(rules.room, len(lengths) // 2)))


def clipped_scaling(order: int, positions: Ints, cap: int, longest: int, domain: Domain) -> Scaling:
    """Mean weight, in every component, of records that hold a given set of `order` positions (see `moments`).

    Records that hold more than `cap` of the positions are down-weighted; `longest` is the most that is reckoned with.
    """
    weights = torch.from_numpy(clip_steps(longest, order, cap) * GRID).float()
    chosen = np.zeros(domain.width, dtype=np.bool_)
    chosen[positions] = True
    index = torch.from_numpy(np.flatnonzero(chosen & domain.item_positions))
    columns = [column.start + np.flatnonzero(chosen[column]) for column in domain.table_columns]
    joint = [torch.from_numpy(column) for column in columns if len(column)]

    def scale(probabilities: Tensor) -> Scale:
        # Independent zero-one units: an item each, a table column together.
        here = probabilities.device
        parts = [probabilities[:, index.to(here)]]
        parts += [probabilities[:, column.to(here)].sum(dim=1, keepdim=True).clamp(max=1.0) for column in joint]
        chances = torch.cat(parts, dim=1)
        lengths = length_distribution(chances, min(len(weights), chances.shape[1] + 1) - 1)
        lengths = lengths / lengths.sum(dim=1, keepdim=True)
        longer = torch.cat([weights, weights[-1:].expand(order)]).to(lengths.device)
        others = lengths @ longer[order : order + lengths.shape[1]]  # the set comes on top of n other ones
        members = lengths @ longer[: lengths.shape[1]]  # the set is among the n
        return others, (others - members) / order

    return scale


def moments(order: int, chances: Tensor, weights: Tensor, level: Tensor, slope: Tensor) -> Tensor:
    """Moments of the mixture, each set's share in a component scaled by level - slope x (sum of its chances).

    Of (k, T) chances (T,) for order 1, (T, T) for order 2, (pairs, T) for 3, (pairs, pairs) for 4. `level` is
    the mean weight of records that hold a set of unlikely items, `slope` by how much it is smaller per likely item.
    """
    level, slope = (weights * level)[:, None], (weights * slope)[:, None]
    if order == 1:
        return (chances * (level - slope * chances)).sum(dim=0)
    if order == 2:
        half = (chances * (0.5 * level - slope * chances)).T @ chances
        return half + half.T
    left, right = torch.triu_indices(chances.shape[1], chances.shape[1], 1, device=chances.device)
    first, second = chances.index_select(1, left), chances.index_select(1, right)
    pairs, sums = first * second, first + second
    if order == 3:
        return (pairs * (level - slope * sums)).T @ chances - (pairs * slope).T @ chances**2
    half = (pairs * (0.5 * level - slope * sums)).T @ pairs
    return half + half.T
