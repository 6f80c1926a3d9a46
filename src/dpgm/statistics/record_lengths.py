"""How many records hold n items: a histogram, one bin per record; how a noisy one is read, and its value on a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.compute.poisson_binomial import length_distribution
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.statistics.rules import ReadRules
from dpgm.statistics.shrinkage import shrink_alone
from dpgm.statistics.statistic import Floats, Ints, Measured, Scale, Target, columns_of, unscaled

LENGTHS = "record lengths"
LONGEST = 512  # public: records of more items share the last bin


@dataclass(frozen=True)
class RecordLengths:
    """Histogram of the number of items of a record, over its item sets and images; longer ones in the last bin."""

    words: ClassVar[Mapping[str, Measures]] = {LENGTHS: Measures("profile", "histogram of record lengths", "1")}

    domain: Domain
    longest: int
    name: str = LENGTHS
    sensitivity: float = 1.0

    @classmethod
    def of(cls, domain: Domain) -> "RecordLengths":
        """The statistic for a domain; its public longest length is that of the domain, at most 512."""
        return cls(domain, int(min(domain.item_positions.sum(), LONGEST)))

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths 0 .. longest."""
        return (self.longest + 1,)

    def query(self) -> Query:
        """The question to the private rows."""
        return Query(self._sum, self.sensitivity, self.shape, grid=1.0)

    def _sum(self, view: View) -> Tensor:
        total = np.zeros(self.longest + 1, dtype=np.int64)
        for chunk in view.rows.pieces():
            lengths = np.minimum(item_lengths(chunk), self.longest)
            total += np.bincount(lengths, minlength=self.longest + 1)
        return torch.from_numpy(total)


def item_lengths(records: Records) -> Ints:
    """Items of every record, over its item sets and images."""
    free = records.domain.item_positions
    return records.lengths if free.all() else counts_within(records, free)


def counts_within(records: Records, chosen: NDArray[np.bool_]) -> Ints:
    """How many of the chosen positions every record holds."""
    running = np.zeros(len(records.indices) + 1, dtype=np.int64)
    np.cumsum(chosen[records.indices], out=running[1:])
    return running[records.indptr[1:]] - running[records.indptr[:-1]]


# -- how a noisy histogram is read -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lengths:
    """Groups of lengths with their noisy counts, and the smoothed distribution they suggest.

    `shares[n]` is the share of records with n items, n = 0 .. longest; `groups[n]` numbers the group n belongs to.
    """

    shares: Floats
    groups: Ints
    counts: Floats
    stds: Floats

    @property
    def mean(self) -> float:
        """Mean number of items."""
        return float(self.shares @ np.arange(len(self.shares)))


def read_lengths(noisy: Floats, std: float, records: int, rules: ReadRules, *, few: bool = False) -> Lengths:
    """Join neighbouring lengths until each group stands out of the noise; what never does is left out.

    Where counts are far above the noise a group is one length. In the tail groups grow (at most doubling), so that
    500 noisy empty bins do not add up to a crowd of very long records.

    Args:
        noisy: records of 0, 1, ... items.
        std: standard deviation of the noise.
        records: the public number of records.
        rules: tuned numbers.
        few: there are few lengths, and after a gap there may be others that many records have.
    """
    groups = np.zeros(len(noisy), dtype=np.int64)
    counts: list[float] = []
    widths: list[int] = []
    at = 0
    while at < len(noisy):
        width = 1
        limit = max(2, at // 2) if sum(counts) > rules.half * records else 1
        while (
            noisy[at : at + width].sum() < rules.stands_out * std * np.sqrt(width)
            and width < limit
            and at + width < len(noisy)
        ):
            width += 1
        total = float(noisy[at : at + width].sum())
        rest = noisy[at:]
        gap = few and rest.sum() >= rules.after_gap * std * np.sqrt(
            len(rest)
        )  # noise alone is hardly ever so large
        if total < rules.visible * std * np.sqrt(width) and sum(counts) > rules.nearly_all * records and not gap:
            break  # nothing visible here, and nearly everybody has been seen
        groups[at : at + width] = len(counts)
        counts.append(total)
        widths.append(width)
        at += width
    if at < len(noisy):  # one last group, so that the model is told that there is nothing beyond
        width = min(len(noisy) - at, max(rules.beyond, at))
        groups[at : at + width] = len(counts)
        counts.append(0.0)
        widths.append(width)
        at += width
    joined = np.array(counts)
    single = np.array(widths) == 1
    # A length that nobody has shows noise half of the time, and together such lengths would be a crowd as well.
    joined[single] = shrink_alone(joined[single], std, rules.shrink)[0]
    joined = np.maximum(joined, 0.0)
    if joined.sum() <= 0:
        joined = np.ones(len(joined))
    density = joined / np.array(widths)
    shares = density[groups[:at]]
    joined *= records / joined.sum()
    return Lengths(shares / shares.sum(), groups[:at], joined, std * np.sqrt(np.array(widths, dtype=np.float64)))


@dataclass(frozen=True)
class RecordSizes:
    """How many positions records hold, as far as it is known: items (noisy), and table columns (always one each)."""

    domain: Domain
    records: int
    lengths: Lengths | None  # of the item sets; None: there are none

    @classmethod
    def read(
        cls, lengths: Measured[RecordLengths] | None, domain: Domain, records: int, rules: ReadRules
    ) -> "RecordSizes":
        """What a released histogram of lengths says; without one there are no item sets."""
        if lengths is None:
            return cls(domain, records, None)
        return cls(domain, records, read_lengths(lengths.value.numpy(), lengths.std, records, rules))

    @property
    def _items(self) -> Floats:
        return np.ones(1) if self.lengths is None else self.lengths.shares

    @property
    def whole(self) -> Floats:
        """Share of the records that hold n = 0, 1, ... positions."""
        return thinned(self._items, 1.0, len(self.domain.table_columns))

    def within(self, chosen: Ints, profile: Floats) -> Floats:
        """Share of the records that hold n = 0, 1, ... of the chosen positions, given how frequent each is."""
        free = self.domain.item_positions
        inside = np.zeros(self.domain.width, dtype=np.bool_)
        inside[chosen] = True
        share = profile[free & inside].sum() / max(profile[free].sum(), 1e-12)
        return thinned(self._items, float(share), self.domain.columns_within(chosen))


def mean_length(shares: Floats) -> float:
    """The mean of a distribution of lengths."""
    return float(shares @ np.arange(len(shares)) / max(shares.sum(), 1e-12))


def thinned(shares: Floats, part: float, always: int = 0) -> Floats:
    """Distribution of the number of items in a subset that has `part` of all occurrences, plus `always` fixed ones."""
    part = min(max(part, 0.0), 1.0)
    within = np.zeros(len(shares) + always)
    binomial = np.zeros(len(shares))
    binomial[0] = 1.0
    for n in range(len(shares)):
        if n > 0:
            binomial[1:] = binomial[1:] * (1 - part) + binomial[:-1] * part
            binomial[0] *= 1 - part
        within[always:] += shares[n] * binomial
    return within


# -- on a model --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LengthGroups:
    """Records by groups of lengths: `groups[n]` is the group of n = 0 .. longest of the positions."""

    positions: tuple[int, ...]
    groups: tuple[int, ...]

    @cached_property
    def _index(self) -> tuple[Tensor, Tensor]:
        return torch.tensor(self.positions, dtype=torch.long), torch.tensor(self.groups, dtype=torch.long)

    def expected(self, probabilities: Tensor, weights: Tensor, scale: Scale) -> Tensor:
        """Share of the records in each group."""
        positions, groups = self._index
        shares = length_distribution(columns_of(probabilities, positions), len(groups) - 1)
        return weights.new_zeros(max(self.groups) + 1).index_add(0, groups.to(weights.device), weights @ shares)


def length_target(
    positions: Ints, lengths: Lengths, records: int, rules: ReadRules, emphasis: float = 1.0
) -> Target[LengthGroups]:
    """Counts of records by the number of positions they hold; a few records in ten thousand do not matter.

    Else, where noise is small, a length that nobody has (the empty record) would cost more than all others together:
    products that are never empty are seldom short.
    """
    stds = np.maximum(lengths.stds, rules.length_tolerance * records)
    values = torch.from_numpy(lengths.counts).float()
    return Target(
        statistic=LengthGroups(tuple(positions.tolist()), tuple(lengths.groups.tolist())),
        values=values,
        variances=torch.from_numpy(stds**2).float(),
        size=values,
        scaling=unscaled,
        emphasis=emphasis,
    )
