"""How far long records are scaled down: the bound that balances noise against distortion.

A larger bound keeps more of long records and needs more noise. Both are weighed as relative errors of popular sets of
items, from lengths and frequencies that were released before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain
from dpgm.products.rules import BoundRules, ProductRules
from dpgm.statistics.centred_pairs import centred_bound
from dpgm.statistics.statistic import GRID, clip_bound, clip_steps

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


def choose_bound(candidates: Sequence[float], noise: Floats, distortion: Floats) -> tuple[float, float]:
    """The candidate of the smallest squared error, noise² + distortion², and that error; the first among equals.

    Args:
        candidates: bounds to choose from.
        noise: of each, the relative error from noise.
        distortion: of each, the relative error from what is cut.
    """
    costs = np.nan_to_num(noise**2 + distortion**2, nan=np.inf)
    best = int(np.argmin(costs))
    return candidates[best], float(costs[best])


def choose_cap(
    order: int, law: Floats, profile: Floats, records: int, noise: float, rules: ProductRules
) -> tuple[int, float]:
    """The bound on a record's items that balances noise against what down-weighting distorts, and its cost.

    Both are relative errors of a popular set of `order` items, rare ones taken as frequent enough to matter.

    Args:
        order: items in a set.
        law: share of the records that hold n = 0, 1, ... of the positions.
        profile: share of the records that hold each position.
        records: the public number of records.
        noise: multiplier.
        rules: tuned numbers.
    """
    sizes = np.arange(len(law))
    sets = np.array([comb(int(n), order) for n in sizes], dtype=np.float64)
    caps = list(range(order, len(law)))
    if (law * sets).sum() <= 0 or not caps:
        return order, np.inf
    weights = [clip_steps(len(law) - 1, order, cap) * GRID for cap in caps]
    retained = np.array([float((law * sets * kept).sum() / (law * sets).sum()) for kept in weights])
    popular = popular_sets(order, law, profile, records, rules)
    stds = noise * np.array([clip_bound(order, cap) for cap in caps])
    cap, cost = choose_bound(caps, popular.noise(stds, retained), popular.distortion(order, retained, rules))
    return int(cap), cost


@dataclass(frozen=True)
class LikelyRecords:
    """Draws of records of independent items and columns: s, the sum of scale_i² (x_i - offset_i)², and items held."""

    sizes: Floats
    lengths: Ints

    @property
    def shares(self) -> Floats:
        """How likely an item is found in each: in proportion to its length."""
        counted = self.lengths if self.lengths.any() else np.ones(len(self.lengths))
        shares: Floats = counted / counted.sum()
        return shares


def draw_likely(
    offsets: Floats,
    chosen: Ints,
    profile: Floats,
    law: Floats,
    domain: Domain,
    rules: BoundRules,
    scales: Floats | float = 1.0,
) -> LikelyRecords:
    """Records to reckon with before any was seen.

    Args:
        offsets: of every chosen position.
        chosen: positions.
        profile: share of the records that hold each position of the domain.
        law: share of the records that hold n = 0, 1, ... chosen items, table columns not counted.
        domain: the public domain.
        rules: tuned numbers.
        scales: of every chosen position, or of all.
    """
    count = rules.likely_records
    draws = np.random.default_rng(0)
    sizes = np.full(count, float(((scales * offsets) ** 2).sum()))
    lengths = np.zeros(count, dtype=np.int64)
    rise = np.zeros(domain.width)
    rise[chosen] = np.square(scales) * (1 - 2 * offsets)
    for column in domain.table_columns:
        chances = profile[column]
        sizes += draws.choice(rise[column], count, p=chances / chances.sum())
    items = chosen[domain.item_positions[chosen]]
    if len(items) and law[1:].sum() > 0:
        lengths = draws.choice(len(law), count, p=law / law.sum())
        sizes += _held(rise[items], profile[items], lengths, draws, rules.distinct_items)
    return LikelyRecords(np.maximum(sizes, rules.least_size), lengths)


def _held(rise: Floats, chances: Floats, lengths: Ints, draws: np.random.Generator, distinct: int) -> Floats:
    """Sums of `rise` over as many items as `lengths` says, drawn by their odds; with repetition if there are many."""
    count = len(lengths)
    if len(rise) > distinct:
        held = draws.choice(len(rise), int(lengths.sum()), p=chances / chances.sum())
        return np.bincount(np.repeat(np.arange(count), lengths), rise[held], minlength=count).astype(np.float64)
    odds = np.log(chances) - np.log1p(-chances) + draws.gumbel(size=(count, len(rise)))
    running = np.cumsum(rise[np.argsort(-odds, axis=1)], axis=1)
    last = np.minimum(lengths, len(rise)) - 1
    sums: Floats = np.where(last >= 0, running[np.arange(count), last], 0.0)
    return sums


def choose_limit(sizes: Floats, popular: "PopularSets", noise: float, rules: ProductRules) -> tuple[float, float]:
    """The limit of s (see `CentredPairs`) that balances noise against distortion, and its cost as in `choose_cap`."""
    # Lengths that appear only because of noise can be extreme, and would dominate sums of squares.
    sizes = np.minimum(sizes, np.quantile(sizes, rules.bound.seen))
    limits = _quantiles(sizes, rules.bound)
    weights = [np.minimum(1.0, limit / sizes) for limit in limits]
    retained = np.array([float((sizes**2 * kept).sum() / (sizes**2).sum()) for kept in weights])
    stds = noise * np.array([centred_bound(limit) for limit in limits])
    return choose_bound(limits, popular.noise(stds, retained), popular.distortion(2, retained, rules))


def choose_scaled_limit(
    likely: LikelyRecords, scales: Floats, profile: Floats, records: int, noise: float, rules: ProductRules
) -> tuple[float, float]:
    """The limit of s (see `ScaledItems`) that balances noise against distortion, and its cost.

    Args:
        likely: draws of records.
        scales: of every item.
        profile: share of the records that hold each item.
        records: the public number of records.
        noise: multiplier.
        rules: tuned numbers.
    """
    counts, popularity = records * profile, profile / profile.sum()
    yardstick = np.maximum(counts, rules.budget.sanity * records)
    noisy = float(popularity @ (1 / (scales * yardstick)))
    distorted = rules.bound.scaled_distortion * float(popularity @ (counts / yardstick))
    # Of many records the longest are seen too; few of them are not worth a bound that all pay for.
    seen = max(rules.bound.seen, 1 - rules.bound.unseen_records / records)
    sizes = np.minimum(likely.sizes, np.quantile(likely.sizes, seen))
    limits = _quantiles(sizes, rules.bound)
    weights = [np.sqrt(np.minimum(1.0, limit / sizes)) for limit in limits]
    retained = np.array([float(likely.shares @ kept) for kept in weights])
    stds = noise * np.array([sqrt(limit) for limit in limits])
    return choose_bound(limits, stds / retained * noisy, distorted * (1 - retained) / retained)


def _quantiles(sizes: Floats, rules: BoundRules) -> list[float]:
    """The bounds that are tried."""
    tried = np.unique(np.quantile(sizes, np.linspace(rules.first_quantile, 1, rules.candidates)))
    return [float(limit) for limit in tried]


@dataclass(frozen=True)
class PopularSets:
    """Draws of popular sets of items: the counts to expect, and what their errors are measured against."""

    expected: Floats
    yardstick: Floats

    def noise(self, stds: Floats, retained: Floats) -> Floats:
        """Relative error from noise of given deviations, if so much of the records is retained."""
        errors: Floats = stds / retained * float((1 / self.yardstick).mean())
        return errors

    def distortion(self, order: int, retained: Floats, rules: ProductRules, doubt: float = 1.0) -> Floats:
        """Relative error from the correction for what was not retained; `doubt` scales how wrong that may be."""
        wrong = doubt * rules.bound.distortion[order - 1]
        errors: Floats = wrong * (1 - retained) / retained * float((self.expected / self.yardstick).mean())
        return errors


def popular_sets(order: int, law: Floats, profile: Floats, records: int, rules: ProductRules) -> PopularSets:
    """Popular sets of `order` items, given the law of lengths and how frequent each position is."""
    sets = np.array([comb(n, order) for n in range(len(law))], dtype=np.float64)
    count = rules.bound.popular_sets
    draws = np.random.default_rng(0).choice(len(profile), size=(count, order), p=profile / profile.sum())
    lift = (law * sets).sum() * np.prod(np.arange(1, order + 1)) / max(profile.sum(), 1e-12) ** order
    expected = np.minimum(records * lift * profile[draws].prod(axis=1), records * profile[draws].min(axis=1))
    return PopularSets(expected, np.maximum(expected, rules.budget.sanity * records))
