"""How many records hold each item, long records down-weighted so that every record has a bounded norm."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.statistics.clipped_sets import (
    choose_cap,
    clip_bound,
    clip_steps,
    clipped_scaling,
    longest_expected,
    moments,
)
from dpgm.statistics.record_lengths import RecordSizes
from dpgm.statistics.rules import ReadRules, StatisticRules
from dpgm.statistics.shrinkage import shrink_alone
from dpgm.statistics.simplex import onto_simplex
from dpgm.statistics.statistic import GRID, Floats, Ints, Measured, Scale, Target, columns_of

ITEMS = "item counts"


@dataclass(frozen=True)
class ItemCounts:
    """Counts of all positions; a record of n > `cap` ones counts sqrt(cap / n) for each of them."""

    words: ClassVar[Mapping[str, Measures]] = {
        ITEMS: Measures("profile", "records holding each item", "sqrt(length bound)")
    }

    domain: Domain
    cap: int
    name: str = ITEMS
    order: int = 1

    @classmethod
    def choose(cls, sizes: RecordSizes, noise: float, rules: StatisticRules) -> "ItemCounts":
        """With the cap that promises the smallest error, given the lengths and how popularity usually falls."""
        lengths = sizes.whole
        zipf = 1 / (np.arange(sizes.domain.width) + rules.bound.zipf_offset)
        guess = np.minimum(zipf / zipf.sum() * (lengths @ np.arange(len(lengths))), 1.0)
        return cls(sizes.domain, choose_cap(1, lengths, guess, sizes.records, noise, rules)[0])

    @cached_property
    def positions(self) -> Ints:
        """All positions."""
        return np.arange(self.domain.width)

    @cached_property
    def _index(self) -> Tensor:
        return torch.from_numpy(self.positions)

    @property
    def sensitivity(self) -> float:
        """sqrt(cap)."""
        return clip_bound(1, self.cap)

    @property
    def shape(self) -> tuple[int, ...]:
        """One number per position."""
        return (self.domain.width,)

    def query(self) -> Query:
        """The question to the private rows."""
        return Query(self._sum, self.sensitivity, self.shape, grid=GRID)

    def _sum(self, view: View) -> Tensor:
        steps = clip_steps(self.domain.width, 1, self.cap)
        total = np.zeros(self.domain.width, dtype=np.int64)
        for chunk in view.rows.pieces():
            weights = np.repeat(steps[chunk.lengths], chunk.lengths).astype(np.float64)
            # whole numbers far below 2^53: the floating-point sums are exact
            total += np.bincount(chunk.indices, weights, minlength=self.domain.width).astype(np.int64)
        return torch.from_numpy(total)

    def expected(self, probabilities: Tensor, weights: Tensor, scale: Scale) -> Tensor:
        """Share of the records that hold each position, weighted."""
        # selected like the sets of other orders, though it is all of them: gradients then add up in the same order
        return moments(1, columns_of(probabilities, self._index), weights, *scale)


def posterior_counts(items: Measured[ItemCounts], rules: ReadRules) -> tuple[Floats, Floats]:
    """Posterior mean and deviation of every count: rare items are not as frequent as noise makes some of them seem."""
    counts, stds = items.value.numpy().copy(), np.full(len(items.value), items.std)
    free = items.statistic.domain.item_positions
    if free.any():
        counts[free], stds[free] = shrink_alone(counts[free], items.std, rules.shrink)
    for column in items.statistic.domain.table_columns:
        if column.stop - column.start > rules.many_values:
            counts[column], stds[column] = shrink_alone(counts[column], items.std, rules.shrink)
    return counts, stds


def item_profile(items: Measured[ItemCounts], sizes: RecordSizes, rules: ReadRules) -> Floats:
    """Share of the records that hold each position, corrected for down-weighting on average.

    The shares of a table column sum to 1: they are the nearest ones that do. Columns of many values, whose counts are
    shrunk, are scaled to it: what noise hides is in their counts already, and floors would add up.
    """
    shares = posterior_counts(items, rules)[0] / (mean_weight(items, sizes, rules) * sizes.records)
    profile = possible_shares(shares, items.std, sizes.records, rules)
    for column in sizes.domain.table_columns:
        width = column.stop - column.start
        if width > rules.many_values:
            profile[column] = possible_shares(shares[column], 0.0, sizes.records, rules)
            profile[column] /= profile[column].sum()
        else:
            floor = min(float(_floor(items.std, sizes.records, rules)), rules.largest_floor / width)
            profile[column] = onto_simplex(shares[column], 1.0, floor)
    return profile


def pilot_profile(sums: Floats, sizes: RecordSizes, rules: ReadRules) -> Floats:
    """Share of the records that hold each item, in proportion to noisy sums; lengths say how many they hold in all.

    Records of n values added 1/sqrt(n) to each, so items of long records come out a little too rare. A pilot may err:
    it decides scales, offsets and bounds of the release that follows.
    """
    mean = float(sizes.whole @ np.arange(len(sizes.whole)))
    shares = np.maximum(sums, 0.0)
    return possible_shares(shares * (mean / max(float(shares.sum()), 1e-12)), 0.0, sizes.records, rules)


def mean_weight(items: Measured[ItemCounts], sizes: RecordSizes, rules: ReadRules) -> float:
    """Mean weight of the records that hold an item."""
    lengths = sizes.whole
    held = np.arange(len(lengths))
    weights = clip_steps(len(lengths) - 1, 1, items.statistic.cap) * GRID
    mean = float((lengths * held * weights).sum() / max((lengths * held).sum(), 1e-12))
    return max(mean, rules.least_weight)


def possible_shares(shares: Floats, std: float | Floats, records: int, rules: ReadRules) -> Floats:
    """Noisy shares of the records, brought off 0 and 1: what noise hides may still be there."""
    floor = np.minimum(_floor(std, records, rules), rules.largest_floor)
    possible: Floats = np.clip(shares, floor, rules.largest_share)
    return possible


def _floor(std: float | Floats, records: int, rules: ReadRules) -> Floats:
    """Share of the records that everything is taken to have at least."""
    floor: Floats = np.maximum(rules.floor_noise * np.asarray(std), rules.floor_records) / records
    return floor


def item_target(
    items: Measured[ItemCounts], sizes: RecordSizes, emphasis: float, rules: ReadRules
) -> Target[ItemCounts]:
    """The counts, shrunk, as a target of a fit."""
    statistic = items.statistic
    longest = longest_expected(sizes.whole, statistic.domain.width, rules)
    counts, stds = posterior_counts(items, rules)
    values = torch.from_numpy(counts).float()
    return Target(
        statistic=statistic,
        values=values,
        variances=torch.from_numpy(stds**2).float(),
        size=values.clamp(min=0),
        scaling=clipped_scaling(1, statistic.positions, statistic.cap, longest, statistic.domain),
        emphasis=emphasis,
    )
