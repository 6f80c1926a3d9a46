"""How many records hold n items: histograms over all items (`RecordLengths`) or over groups of them (`PopularLengths`).

A record is in one bin of a histogram, so one histogram has sensitivity 1. Noisy histograms are read by joining and
shrinking bins (`read_lengths`); what they say about the records is kept in `ReleasedFacts`, which later statistics
build on.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from math import sqrt
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.kernels.poisson_binomial import length_distribution
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.statistics.rules import ReadRules, StatisticRules
from dpgm.statistics.shrinkage import shrink_alone
from dpgm.statistics.statistic import Descriptions, Measured, ScaleTerms, Target, at_positions, target_of, unscaled

LENGTHS, POPULAR = "record lengths", "popular lengths"
LONGEST = 512  # public: longer records share the last bin


@dataclass(frozen=True)
class RecordLengths:
    """Histogram of the number of items per record, over item sets and images; long records share the last bin."""

    words: ClassVar[Descriptions] = {LENGTHS: Measures("profile", "histogram of record lengths", "1")}

    domain: Domain
    name: str = LENGTHS

    def query(self) -> Query:
        """Bins for 0 .. longest items, at most 512; a record is in one bin."""
        longest = int(min(self.domain.item_positions.sum(), LONGEST))
        return Query(partial(self._sum, longest), 1.0, (longest + 1,), grid=1.0)

    def _sum(self, longest: int, view: View) -> Tensor:
        return _histograms(view.rows, self.domain.item_positions[None], longest)[0]


@dataclass(frozen=True)
class PopularLengths:
    """For each of some groups of items, a histogram of the number of these items per record."""

    words: ClassVar[Descriptions] = {
        POPULAR: Measures(
            "measure",
            "histograms of how many of the 30 and of the 100 most popular items records hold",
            "sqrt(2); of one histogram 1",
        )
    }

    domain: Domain
    groups: tuple[tuple[int, ...], ...]
    name: str = POPULAR

    @classmethod
    def of(cls, domain: Domain, most_popular: Ints, sizes: tuple[int, ...]) -> "PopularLengths":
        """Groups of the given sizes; sizes that the domain does not exceed are left out."""
        groups = tuple(tuple(most_popular[:size].tolist()) for size in sizes if size < domain.width)
        # Discovery may find fewer items than the plan was made for.
        return cls(domain, groups or (tuple(most_popular.tolist()),))

    def query(self) -> Query:
        """One row per group, with bins up to the size of the largest; a record is in one bin of every row."""
        longest = max(map(len, self.groups))
        return Query(partial(self._sum, longest), sqrt(len(self.groups)), (len(self.groups), longest + 1), grid=1.0)

    def _sum(self, longest: int, view: View) -> Tensor:
        inside = np.zeros((len(self.groups), self.domain.width), dtype=np.bool_)
        for row, group in zip(inside, self.groups, strict=True):
            row[list(group)] = True
        return _histograms(view.rows, inside, longest)


def _histograms(rows: Records, inside: NDArray[np.bool_], longest: int) -> Tensor:
    """For each row of `inside`, the histogram of how many of its positions records hold; the last bin is open."""
    total = np.zeros((len(inside), longest + 1), dtype=np.int64)
    for chunk in rows.pieces():
        for counts, chosen in zip(total, inside, strict=True):
            lengths = np.minimum(counts_within(chunk, chosen), longest)
            counts += np.bincount(lengths, minlength=longest + 1)
    return torch.from_numpy(total)


def counts_within(records: Records, chosen: NDArray[np.bool_]) -> Ints:
    """How many of the chosen positions each record holds."""
    if chosen.all():
        return records.lengths
    running = np.zeros(len(records.indices) + 1, dtype=np.int64)
    np.cumsum(chosen[records.indices], out=running[1:])
    return running[records.indptr[1:]] - running[records.indptr[:-1]]


def record_sums(records: Records, numbers: Floats) -> Ints:
    """For each record, the sum of `numbers` (whole, one per position) over the positions that it holds."""
    record = np.repeat(np.arange(len(records)), records.lengths)
    # far below 2^53: the floating-point sums are exact
    return np.bincount(record, numbers[records.indices], minlength=len(records)).astype(np.int64)


# -- how a noisy histogram is read -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lengths:
    """Groups of lengths with their noisy counts, and the smoothed distribution they suggest.

    `shares[n]` is the share of records with n items, n = 0 .. longest; `groups[n]` is the group of length n.
    """

    shares: Floats
    groups: Ints
    counts: Floats
    stds: Floats


def read_lengths(noisy: Floats, std: float, records: int, rules: ReadRules, *, few: bool = False) -> Lengths:
    """Join neighbouring lengths until each group stands out from the noise; drop the tail that never does.

    Where counts are far above the noise a group is one length. In the tail groups grow (at most doubling), so that
    500 noisy empty bins do not add up to many very long records. With `few`, for histograms of few lengths, there may
    be more lengths after a gap.
    """
    counts: list[float] = []
    widths: list[int] = []
    at = 0
    while at < len(noisy):
        width = 1
        limit = max(2, at // 2) if sum(counts) > rules.half * records else 1
        limit = min(limit, len(noisy) - at)
        while noisy[at : at + width].sum() < rules.stands_out * std * np.sqrt(width) and width < limit:
            width += 1
        total, rest = float(noisy[at : at + width].sum()), noisy[at:]
        # Noise alone is hardly ever this large.
        gap = few and rest.sum() >= rules.after_gap * std * np.sqrt(len(rest))
        if total < rules.visible * std * np.sqrt(width) and sum(counts) > rules.nearly_all * records and not gap:
            break  # nothing visible here, and nearly all records are counted
        counts.append(total)
        widths.append(width)
        at += width
    if at < len(noisy):  # one last, empty group: the fit should make no longer records
        counts.append(0.0)
        widths.append(min(len(noisy) - at, max(rules.beyond, at)))
    joined, sizes = np.array(counts), np.array(widths)
    single = sizes == 1
    # Noise is positive in half of the empty bins, and together they would be many records as well.
    joined[single] = shrink_alone(joined[single], std, rules.shrink)[0]
    joined = np.maximum(joined, 0.0)
    if joined.sum() <= 0:
        joined = np.ones(len(joined))
    groups = np.repeat(np.arange(len(sizes)), sizes)
    shares = (joined / sizes)[groups]
    joined *= records / joined.sum()
    return Lengths(shares / shares.sum(), groups, joined, std * np.sqrt(sizes.astype(np.float64)))


@dataclass(frozen=True)
class ReleasedFacts:
    """What is known about the records when a statistic is chosen or its noisy values are read."""

    domain: Domain
    records: int  # the public number of records
    lengths: Lengths | None  # of item sets, from the noisy histogram; None for tables
    rules: StatisticRules

    @classmethod
    def read(
        cls, lengths: Measured[RecordLengths] | None, domain: Domain, records: int, rules: StatisticRules
    ) -> "ReleasedFacts":
        """From a released histogram of lengths; tables have none."""
        if lengths is None:
            return cls(domain, records, None, rules)
        return cls(domain, records, read_lengths(lengths.value.numpy(), lengths.std, records, rules.read), rules)

    @property
    def items(self) -> Floats:
        """Share of the records that hold n = 0, 1, ... items."""
        return np.ones(1) if self.lengths is None else self.lengths.shares

    @property
    def whole(self) -> Floats:
        """Share of the records that hold n = 0, 1, ... positions: items, and one value per table column."""
        return thinned(self.items, 1.0, len(self.domain.table_columns))

    def within(self, chosen: Ints, profile: Floats) -> Floats:
        """Share of the records that hold n = 0, 1, ... of the chosen positions, given the frequencies of all."""
        free = self.domain.item_positions
        inside = np.zeros(self.domain.width, dtype=np.bool_)
        inside[chosen] = True
        share = profile[free & inside].sum() / max(profile[free].sum(), 1e-12)
        return thinned(self.items, float(share), self.domain.columns_within(chosen))


def mean_length(shares: Floats) -> float:
    """The mean of a distribution of lengths."""
    return float(shares @ np.arange(len(shares)) / max(shares.sum(), 1e-12))


def thinned(shares: Floats, part: float, always: int = 0) -> Floats:
    """Distribution of lengths if each item is retained with probability `part`, plus `always` fixed positions."""
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
    """Records by groups of lengths: `groups[n]` is the group of records that hold n of the positions."""

    positions: tuple[int, ...]
    groups: tuple[int, ...]

    @cached_property
    def _index(self) -> tuple[Tensor, Tensor]:
        return torch.tensor(self.positions, dtype=torch.long), torch.tensor(self.groups, dtype=torch.long)

    def expected(self, probabilities: Tensor, weights: Tensor, scale: ScaleTerms) -> Tensor:
        """Share of the records in each group."""
        positions, groups = self._index
        shares = length_distribution(at_positions(probabilities, positions), len(groups) - 1)
        return weights.new_zeros(max(self.groups) + 1).index_add(0, groups.to(weights.device), weights @ shares)


def length_target(
    positions: Ints, lengths: Lengths, known: ReleasedFacts, emphasis: float = 1.0
) -> Target[LengthGroups]:
    """Counts of records by the number of positions they hold; errors of a few records in ten thousand are tolerated.

    Without the tolerance, where noise is small, a length that nobody has (the empty record) would cost more than all
    others together: a product that is never empty is seldom short.
    """
    stds = np.maximum(lengths.stds, known.rules.read.length_tolerance * known.records)
    groups = LengthGroups(tuple(positions.tolist()), tuple(lengths.groups.tolist()))
    return target_of(groups, lengths.counts, stds, unscaled, emphasis)


def popular_targets(popular: Measured[PopularLengths], known: ReleasedFacts) -> list[Target[LengthGroups]]:
    """One target per group: counts of records by how many of its items they hold."""
    targets = []
    for group, noisy in zip(popular.statistic.groups, popular.value.numpy(), strict=True):
        lengths = read_lengths(noisy[: len(group) + 1], popular.std, known.records, known.rules.read, few=True)
        targets.append(length_target(np.array(group), lengths, known))
    return targets
