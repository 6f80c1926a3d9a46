"""From released lengths and item counts to the distribution of lengths and the frequency of every item."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain
from dpgm.products.noisy_lengths import Lengths, read_lengths, thinned
from dpgm.products.rules import ReadRules
from dpgm.products.shrinkage import shrink_alone
from dpgm.statistics.item_counts import ItemCounts
from dpgm.statistics.record_lengths import RecordLengths
from dpgm.statistics.statistic import GRID, Measured, clip_steps

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Reading:
    """Lengths as far as they are known: of the item sets (noisy), and the table columns (always one each)."""

    domain: Domain
    lengths: Lengths | None

    @property
    def whole(self) -> Floats:
        """Law of the number of ones of a record."""
        return thinned(
            np.ones(1) if self.lengths is None else self.lengths.law, 1.0, len(self.domain.table_columns)
        )

    def within(self, chosen: NDArray[np.int64], profile: Floats) -> Floats:
        """Law of the number of ones among chosen positions."""
        free = self.domain.item_positions
        inside = np.zeros(self.domain.width, dtype=np.bool_)
        inside[chosen] = True
        share = profile[free & inside].sum() / max(profile[free].sum(), 1e-12)
        law = np.ones(1) if self.lengths is None else self.lengths.law
        return thinned(law, float(share), self.domain.columns_within(chosen))


def read(lengths: Measured[RecordLengths] | None, domain: Domain, records: int, rules: ReadRules) -> Reading:
    """What a released histogram of lengths says; without one there are no item sets."""
    if lengths is None:
        return Reading(domain, None)
    return Reading(domain, read_lengths(lengths.value.numpy(), lengths.std, records, rules))


def item_counts(items: Measured[ItemCounts], rules: ReadRules) -> tuple[Floats, Floats]:
    """Posterior mean and deviation of every count: rare items are not as frequent as noise makes some of them seem."""
    counts, stds = items.value.numpy().copy(), np.full(len(items.value), items.std)
    free = items.statistic.domain.item_positions
    if free.any():
        counts[free], stds[free] = shrink_alone(counts[free], items.std, rules.shrink)
    return counts, stds


def item_profile(items: Measured[ItemCounts], reading: Reading, records: int, rules: ReadRules) -> Floats:
    """Share of the records that hold each position, corrected for down-weighting on average."""
    profile = possible_shares(
        item_counts(items, rules)[0] / (retained(items, reading, rules) * records), items.std, records, rules
    )
    for column in reading.domain.table_columns:
        profile[column] /= profile[column].sum()
    return profile


def pilot_profile(sums: Floats, reading: Reading, records: int, rules: ReadRules) -> Floats:
    """Share of the records that hold each item, in proportion to noisy sums; lengths say how many they hold in all.

    Records of n values added 1/sqrt(n) to each, so items of long records come out a little too rare. A pilot may err:
    it decides scales, offsets and bounds of the release that follows.
    """
    law = reading.whole
    mean = float(law @ np.arange(len(law)))
    shares = np.maximum(sums, 0.0)
    return possible_shares(shares * (mean / max(float(shares.sum()), 1e-12)), 0.0, records, rules)


def retained(items: Measured[ItemCounts], reading: Reading, rules: ReadRules) -> float:
    """Mean weight, in the first release, of the records that hold an item."""
    law = reading.whole
    sizes = np.arange(len(law))
    kept = clip_steps(len(law) - 1, 1, items.statistic.cap) * GRID
    mean = float((law * sizes * kept).sum() / max((law * sizes).sum(), 1e-12))
    return max(mean, rules.least_weight)


def possible_shares(shares: Floats, std: float | Floats, records: int, rules: ReadRules) -> Floats:
    """Noisy shares of the records, kept off 0 and 1: what noise hides may still be there."""
    floor = np.maximum(rules.floor_noise * std, rules.floor_records) / records
    kept: Floats = np.clip(shares, np.minimum(floor, rules.largest_floor), rules.largest_share)
    return kept
