"""How far long records are scaled down: the bound that balances noise against distortion.

A larger bound keeps more of long records and needs more noise. Both are weighed as relative errors of popular sets of
items, from lengths and frequencies that were released before.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb
from typing import NamedTuple

import numpy as np

from dpgm.statistics.record_lengths import Known
from dpgm.statistics.rules import BoundRules
from dpgm.statistics.statistic import STEPS, Floats, Ints


class Popular(NamedTuple):
    """By how much popular sets are off, on average and relative to what errors are measured against."""

    noise: float  # for noise of standard deviation 1
    distortion: float  # if all that was counted were wrong


def choose_bound(
    candidates: Sequence[float],
    stds: Floats,
    weights: Iterable[Floats],
    mass: Floats,
    popular: Popular,
    wrong: float,
) -> tuple[float, float]:
    """The candidate of the smallest squared error, noise² + distortion², and that error; the first among equals.

    Args:
        candidates: bounds to choose from.
        stds: of each, the standard deviation of the noise.
        weights: of each, by what records of every kind are scaled down.
        mass: how much of what is counted is found in records of every kind.
        popular: what errors of popular sets are.
        wrong: how wrong the correction for what is cut may be, as a share of it.
    """
    retained = np.array([float((mass * kept).sum() / mass.sum()) for kept in weights])
    noise = stds / retained * popular.noise
    distortion = wrong * (1 - retained) / retained * popular.distortion
    costs = np.nan_to_num(noise**2 + distortion**2, nan=np.inf)
    best = int(np.argmin(costs))
    return candidates[best], float(costs[best])


def popular_sets(order: int, lengths: Floats, profile: Floats, known: Known) -> Popular:
    """Errors of popular sets of `order` items, given shares of lengths and how frequent each position is."""
    sets = np.array([comb(n, order) for n in range(len(lengths))], dtype=np.float64)
    count, records = known.rules.bound.popular_sets, known.records
    draws = np.random.default_rng(0).choice(len(profile), size=(count, order), p=profile / profile.sum())
    lift = (lengths * sets).sum() * np.prod(np.arange(1, order + 1)) / max(profile.sum(), 1e-12) ** order
    expected = np.minimum(records * lift * profile[draws].prod(axis=1), records * profile[draws].min(axis=1))
    yardstick = np.maximum(expected, known.rules.sanity * records)
    return Popular(float((1 / yardstick).mean()), float((expected / yardstick).mean()))


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
    offsets: Floats, chosen: Ints, profile: Floats, lengths: Floats, known: Known, scales: Floats | float = 1.0
) -> LikelyRecords:
    """Records to reckon with before any was seen; `lengths` of the chosen items, table columns not counted."""
    domain, rules = known.domain, known.rules.bound
    count = rules.likely_records
    draws = np.random.default_rng(0)
    sizes = np.full(count, float(((scales * offsets) ** 2).sum()))
    items_held = np.zeros(count, dtype=np.int64)
    rise = np.zeros(domain.width)
    rise[chosen] = np.square(scales) * (1 - 2 * offsets)
    for column in domain.table_columns:
        chances = profile[column]
        sizes += draws.choice(rise[column], count, p=chances / chances.sum())
    items = chosen[domain.item_positions[chosen]]
    if len(items) and lengths[1:].sum() > 0:
        items_held = draws.choice(len(lengths), count, p=lengths / lengths.sum())
        sizes += _sums_held(rise[items], profile[items], items_held, draws, rules.distinct_items)
    return LikelyRecords(np.maximum(sizes, rules.least_size), items_held)


def _sums_held(rise: Floats, chances: Floats, lengths: Ints, draws: np.random.Generator, distinct: int) -> Floats:
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


def candidate_limits(sizes: Floats, rules: BoundRules) -> list[float]:
    """The bounds that are tried: quantiles of the sizes of likely records."""
    tried = np.unique(np.quantile(sizes, np.linspace(rules.first_quantile, 1, rules.candidates)))
    return [float(limit) for limit in tried]


def offsets_near(frequencies: Floats) -> tuple[int, ...]:
    """Offsets next to the items' frequencies, in steps."""
    return tuple(int(step) for step in np.clip(np.rint(STEPS * frequencies), 0, STEPS))
