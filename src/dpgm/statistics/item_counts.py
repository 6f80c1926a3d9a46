"""How many records hold each item.

A record adds 1 to the count of each of its items; long records are down-weighted (`clipping.py`), so the sensitivity is
sqrt(cap). Noisy counts are read by empirical Bayes (`shrinkage.py`) as shares of the records: the profile.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.arrays import Floats
from dpgm.data.domain import Domain
from dpgm.mechanisms.query import Counts, Measures, Query, View
from dpgm.statistics.clipping import choose_cap, clip_bound, clip_steps, clipped_scaling, longest_expected, moments
from dpgm.statistics.record_lengths import ReleasedFacts
from dpgm.statistics.rules import ReadRules
from dpgm.statistics.shrinkage import onto_simplex, shrink_alone
from dpgm.statistics.statistic import GRID, Descriptions, Measured, ScaleTerms, Target, target_of

ITEMS = "item counts"


@dataclass(frozen=True)
class ItemCounts:
    """Counts of all positions; a record of n > `cap` items counts sqrt(cap / n) for each of them."""

    words: ClassVar[Descriptions] = {ITEMS: Measures("profile", "records holding each item", "sqrt(length bound)")}

    domain: Domain
    cap: int
    name: str = ITEMS

    @classmethod
    def choose(cls, known: ReleasedFacts, noise: float) -> "ItemCounts":
        """With the cap of the smallest expected error, given the lengths; popularity is assumed to be Zipf-like."""
        lengths = known.whole
        zipf = 1 / (np.arange(known.domain.width) + known.rules.bound.zipf_offset)
        guess = np.minimum(zipf / zipf.sum() * (lengths @ np.arange(len(lengths))), 1.0)
        return cls(known.domain, choose_cap(1, lengths, guess, known, noise)[0])

    def query(self) -> Query:
        """One number per position."""
        counts = None
        if self.domain.is_table and self.cap >= len(self.domain.table_columns):  # no row is down-weighted
            counts = Counts(np.arange(self.domain.width), np.zeros(self.domain.width))
        return Query(self._sum, clip_bound(1, self.cap), (self.domain.width,), grid=GRID, counts=counts)

    def _sum(self, view: View) -> Tensor:
        steps = clip_steps(self.domain.width, 1, self.cap)
        total = np.zeros(self.domain.width, dtype=np.int64)
        for chunk in view.rows.pieces():
            weights = np.repeat(steps[chunk.lengths], chunk.lengths).astype(np.float64)
            # whole numbers far below 2^53: the floating-point sums are exact
            total += np.bincount(chunk.indices, weights, minlength=self.domain.width).astype(np.int64)
        return torch.from_numpy(total)

    def expected(self, probabilities: Tensor, weights: Tensor, scale: ScaleTerms) -> Tensor:
        """Share of the records that hold each position, down-weighted like the counts."""
        return moments(1, probabilities, weights, *scale)


# -- how noisy counts are read -------------------------------------------------------------------------------------


def item_profile(items: Measured[ItemCounts], known: ReleasedFacts) -> Floats:
    """Share of the records that hold each position, corrected for the mean effect of down-weighting.

    The shares of a table column are projected onto those that sum to 1. Columns of many values are scaled to the sum 1
    instead: their counts are shrunk already, and the floors of the projection would add up.
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


def item_target(items: Measured[ItemCounts], known: ReleasedFacts, emphasis: float) -> Target[ItemCounts]:
    """The shrunk counts as a target of a fit."""
    counts, stds = _posterior(items, known.rules.read)
    statistic, domain = items.statistic, known.domain
    longest = longest_expected(known.whole, domain.width, known.rules.read)
    scaling = clipped_scaling(1, np.arange(domain.width), statistic.cap, longest, domain)
    return target_of(statistic, counts, stds, scaling, emphasis)


def _posterior(items: Measured[ItemCounts], rules: ReadRules) -> tuple[Floats, Floats]:
    """Posterior mean and standard deviation of every count; only items and columns of many values are shrunk."""
    counts, stds = items.value.numpy().copy(), np.full(len(items.value), items.std)
    free, columns = items.statistic.domain.item_positions, items.statistic.domain.table_columns
    parts: list[slice | NDArray[np.bool_]] = [free] if free.any() else []
    parts += [column for column in columns if column.stop - column.start > rules.many_values]
    for part in parts:
        counts[part], stds[part] = shrink_alone(counts[part], items.std, rules.shrink)
    return counts, stds


def pilot_profile(sums: Floats, known: ReleasedFacts) -> Floats:
    """Share of the records that hold each item, in proportion to noisy sums and with the measured mean length.

    Domain discovery adds 1/sqrt(n) for each of a record's n values, so items of long records come out a little too
    rare. That is good enough for a pilot: it decides only scales, offsets and bounds of the release that follows.
    """
    lengths = known.whole
    mean = float(lengths @ np.arange(len(lengths)))
    shares = np.maximum(sums, 0.0)
    return possible_shares(shares * (mean / max(float(shares.sum()), 1e-12)), 0.0, known)


def mean_weight(items: Measured[ItemCounts], known: ReleasedFacts) -> float:
    """Mean weight of the records that hold an item."""
    lengths = known.whole
    sizes = np.arange(len(lengths))
    weights = clip_steps(len(lengths) - 1, 1, items.statistic.cap) * GRID
    mean = float((lengths * sizes * weights).sum() / max((lengths * sizes).sum(), 1e-12))
    return max(mean, known.rules.read.least_weight)


def possible_shares(shares: Floats, std: float | Floats, known: ReleasedFacts) -> Floats:
    """Noisy shares of the records, clipped away from 0 and 1: an item below the noise may still occur."""
    floor = np.minimum(_floor(std, known), known.rules.read.largest_floor)
    possible: Floats = np.clip(shares, floor, known.rules.read.largest_share)
    return possible


def _floor(std: float | Floats, known: ReleasedFacts) -> Floats:
    """The smallest share of the records that an item is taken to have."""
    rules = known.rules.read
    floor: Floats = np.maximum(rules.floor_noise * np.asarray(std), rules.floor_records) / known.records
    return floor
