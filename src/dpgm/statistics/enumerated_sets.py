"""Centred sums of sets of items, for domains of so few items that all 2^m possible records can be enumerated.

For a set S, the sum over records of the product of (x_i - offset_i) over i in S, with offsets near the items'
frequencies. Where records are dense this is as informative as the count of records that hold S, but a record that holds
what most records hold adds next to nothing: vectors are several times shorter, and so is the noise. The norm of a
record's vector can be computed beforehand for all 2^m records; longer vectors are scaled down to `bound`, which is the
sensitivity. Sums are exact integers: offsets are multiples of 1/16, weights of 1/256.

Records of at most `order` items can be counted `whole` instead: such a record adds the full norm to the one cell for
exactly these items, and nothing to the sets. One release then holds two statistics of different records for the noise
of one.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import floor
from typing import ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.data.domain import Domain
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.statistics.bounds import choose_bound, offsets_near, popular_sets, set_counts
from dpgm.statistics.item_counts import possible_shares
from dpgm.statistics.item_tuples import CENTRED, CENTRED_BOUND, NAMES
from dpgm.statistics.record_lengths import Lengths, ReleasedFacts, record_sums
from dpgm.statistics.statistic import FULL_WEIGHT, GRID, MARGIN, STEPS, Descriptions, Measured


@dataclass(frozen=True)
class EnumeratedSets:
    """Centred sums of all sets of `order` items, in the order of `sets`; then `whole_records`."""

    words: ClassVar[Descriptions] = {
        name: Measures("profile" if order == 1 else "measure", CENTRED, CENTRED_BOUND)
        for order, name in NAMES.items()
    }

    domain: Domain
    order: int
    offsets: tuple[int, ...]  # one per item, in steps of 1 / STEPS
    bound: float
    whole: bool = False  # whether short records are counted whole

    @classmethod
    def choose(
        cls, order: int, profile: Floats, known: ReleasedFacts, noise: float, *, whole: bool
    ) -> "EnumeratedSets":
        """With the offsets and the bound of the smallest expected error; the frequencies are preferred as offsets."""
        domain, rules = known.domain, known.rules.bound
        sets = set_counts(order, domain.width + 1)[np.bitwise_count(np.arange(1 << domain.width))]
        mass = likely_records(profile, known.items) * sets
        popular = popular_sets(order, known.items, profile, known)
        wrong = rules.enumerated_doubt[order - 1] * rules.distortion[order - 1]
        tried = []
        for candidate in rules.offset_candidates:
            free = cls(domain, order, offsets_near(profile + candidate * (0.5 - profile)), 1.0, whole=whole)
            mass[free.whole_records] = 0.0
            bounds = np.unique(free.norms.round(1)) if mass.any() else np.empty(0)
            bounds = bounds[bounds > 0]
            best, cost = float(free.norms.max()), np.inf
            if len(bounds):
                weights = (np.minimum(1.0, bound / np.maximum(free.norms, 1e-12)) for bound in bounds)
                best, cost = choose_bound(bounds.tolist(), noise * bounds, weights, mass, popular, wrong)
            tried.append((cost, replace(free, bound=max(best, 1 / STEPS**order))))
        at_frequencies, other = tried[0], min(tried[1:], key=lambda found: found[0])
        gain = rules.enumerated_gain[order - 1] ** 2
        return (other if other[0] < gain * at_frequencies[0] else at_frequencies)[1]

    @property
    def name(self) -> str:
        """The name of its mechanism in the plan."""
        return NAMES[self.order]

    @property
    def width(self) -> int:
        """The number m of items."""
        return self.domain.width

    @cached_property
    def sets(self) -> Ints:
        """Bit masks of all sets of `order` items."""
        members = np.array(list(combinations(range(self.width), self.order)), dtype=np.int64)
        masks: Ints = (1 << members.reshape(-1, self.order)).sum(axis=1)
        return masks

    @cached_property
    def whole_records(self) -> Ints:
        """Bit masks of all records that are counted whole."""
        return np.flatnonzero(self._counted_whole)

    @cached_property
    def _counted_whole(self) -> NDArray[np.bool_]:
        short = np.bitwise_count(np.arange(1 << self.width)) <= self.order
        return short if self.whole else np.zeros_like(short)

    @cached_property
    def norms(self) -> Floats:
        """Norm of the vector of every possible record, before it is scaled down."""
        present = (np.arange(1 << self.width)[:, None] >> np.arange(self.width)) & 1
        squares = (STEPS * present - np.array(self.offsets)) ** 2
        # Elementary symmetric polynomial: the sum over all sets of the product of squares.
        sums = np.zeros((self.order + 1, 1 << self.width), dtype=np.int64)
        sums[0] = 1
        for item in range(self.width):
            for size in range(self.order, 0, -1):
                sums[size] += sums[size - 1] * squares[:, item]
        norms: Floats = np.sqrt(sums[self.order].astype(np.float64)) / STEPS**self.order
        return norms

    @cached_property
    def weight_steps(self) -> Ints:
        """Weight of every possible record in the sets, in grid steps."""
        most = self.bound / GRID / np.maximum(self.norms, self.bound * GRID) * MARGIN
        steps = np.floor(np.minimum(most, FULL_WEIGHT)).astype(np.int64)
        steps[self.norms <= self.bound * MARGIN] = FULL_WEIGHT
        steps[self._counted_whole] = 0
        return steps

    @property
    def grid(self) -> float:
        """The step that all sums are whole multiples of."""
        return GRID / float(STEPS) ** self.order

    @property
    def _whole_steps(self) -> int:
        """What a record counted whole adds to its cell: the bound, rounded down, in grid steps."""
        return floor(self.bound / self.grid * MARGIN)

    @property
    def whole_weight(self) -> float:
        """What a record counted whole adds to its cell, as a number."""
        return self._whole_steps * self.grid

    def query(self) -> Query:
        """One number per set, and one per record counted whole; weights keep every record within the bound."""
        return Query(self._sum, self.bound, (len(self.sets) + len(self.whole_records),), grid=self.grid)

    def _sum(self, view: View) -> Tensor:
        cells = np.zeros(1 << self.width, dtype=np.int64)
        bits = (1 << np.arange(self.width)).astype(np.float64)
        for chunk in view.rows.chunks(1 << 16):
            cells += np.bincount(record_sums(chunk, bits), minlength=len(cells))
        sums = cells * self.weight_steps
        # Item by item, from counts of records to sums of sets; sets larger than `order` may overflow but are not used.
        for item, offset in enumerate(self.offsets):
            halves = sums.reshape(-1, 2, 1 << item)
            without, within = halves[:, 0].copy(), halves[:, 1].copy()
            halves[:, 0] = without + within
            halves[:, 1] = (STEPS - offset) * within - offset * without
        return torch.from_numpy(np.concatenate([sums[self.sets], self._whole_steps * cells[self.whole_records]]))


def likely_records(profile: Floats, lengths: Floats) -> Floats:
    """Estimated share of each of the 2^m possible records, from item frequencies and the distribution of lengths."""
    cells = np.arange(1 << len(profile))
    odds = np.log(profile) - np.log1p(-profile)
    chances = np.exp(((cells[:, None] >> np.arange(len(profile))) & 1) @ odds)
    sizes = np.bitwise_count(cells)
    shares = np.zeros(len(profile) + 1)
    shares[: len(lengths)] = lengths[: len(profile) + 1]
    guess: Floats = chances * (shares / np.bincount(sizes, chances))[sizes]
    return guess


def enumerated_profile(items: Measured[EnumeratedSets], known: ReleasedFacts) -> Floats:
    """Share of the records that hold each item, from sums of single items with one common offset."""
    statistic, lengths = items.statistic, known.items
    sizes = np.arange(min(len(lengths), statistic.width + 1))
    lengths = lengths[: len(sizes)] / max(lengths[: len(sizes)].sum(), 1e-12)
    weights = statistic.weight_steps[(1 << sizes) - 1] * GRID  # with a common offset they depend on length only
    retained = (lengths * sizes * weights).sum() / max((lengths * sizes).sum(), 1e-12)
    shares = items.value.numpy() / known.records + statistic.offsets[0] / STEPS * (lengths @ weights)
    return possible_shares(shares / max(retained, known.rules.read.least_weight), items.std, known)


# -- on a model: a table with the probability of every possible record -------------------------------------------


@dataclass(frozen=True)
class SetSums:
    """Target sums, over weighted records, of the product of (x_i - offset_i) over the items of each set.

    With `weights` None they are counts of the records that hold exactly the items of a set.
    """

    sets: Tensor  # (count,) bit masks
    values: Tensor
    variances: Tensor
    weights: Tensor | None  # (2^m,)
    offsets: Tensor  # (m,)
    penalty: float  # the larger, the more these numbers yield to independence

    def expected(self, chances: Tensor) -> Tensor:
        """The mean of each sum under probabilities (2^m,) of all records."""
        sums = chances if self.weights is None else _over_records(self.weights.double() * chances, self.offsets)
        return sums[self.sets]

    def squares(self, chances: Tensor) -> Tensor:
        """The mean of the squares of what is summed."""
        if self.weights is None:
            return self.expected(chances)
        return _squares_over_records(self.weights.double() ** 2 * chances, self.offsets)[self.sets]

    def scores(self, parameters: Tensor, cells: int) -> Tensor:
        """(cells,) for every possible record, the sum of the parameters times what the record adds to each number."""
        placed = torch.zeros(cells, dtype=torch.float64).index_add_(0, self.sets, parameters)
        return placed if self.weights is None else self.weights.double() * _over_sets(placed, self.offsets)


@dataclass(frozen=True)
class LengthCounts:
    """Target counts of records by group of lengths; `groups` (2^m,) has the group of every possible record."""

    groups: Tensor
    values: Tensor
    variances: Tensor
    penalty: float

    @classmethod
    def of(cls, lengths: Lengths, width: int, penalty: float) -> "LengthCounts":
        """From the estimated lengths of records over `width` items."""
        sizes = torch.from_numpy(np.bitwise_count(np.arange(1 << width)).astype(np.int64))
        groups = torch.from_numpy(lengths.groups)[sizes.clamp(max=len(lengths.groups) - 1)]
        return cls(groups, torch.from_numpy(lengths.counts), torch.from_numpy(lengths.stds**2), penalty)

    def expected(self, chances: Tensor) -> Tensor:
        """The share of each group under probabilities (2^m,) of all records."""
        return torch.zeros(len(self.values), dtype=torch.float64).index_add_(0, self.groups, chances)

    def squares(self, chances: Tensor) -> Tensor:
        """As `expected`: a record adds 0 or 1."""
        return self.expected(chances)

    def scores(self, parameters: Tensor, cells: int) -> Tensor:
        """(cells,) for every possible record, the parameter of its group."""
        return parameters[self.groups]


TableTarget: TypeAlias = SetSums | LengthCounts


def set_sums(released: Measured[EnumeratedSets], penalty: float, whole_penalty: float) -> list[SetSums]:
    """The released sums as targets of a fit: one for the sets, one for records counted whole."""
    statistic = released.statistic
    sums, whole = released.value[: len(statistic.sets)], released.value[len(statistic.sets) :]
    offsets = torch.tensor(statistic.offsets) / STEPS
    weights, variances = torch.from_numpy(statistic.weight_steps * GRID), torch.full_like(sums, released.std**2)
    centred = SetSums(torch.from_numpy(statistic.sets), sums, variances, weights, offsets, penalty)
    if not statistic.whole:
        return [centred]
    variances = torch.full_like(whole, (released.std / statistic.whole_weight) ** 2)
    cells, counts = torch.from_numpy(statistic.whole_records), whole / statistic.whole_weight
    return [centred, SetSums(cells, counts, variances, None, offsets, whole_penalty)]


def _over_records(values: Tensor, offsets: Tensor) -> Tensor:
    """From values of all records to all sets: the sum of value x product of (x_i - offset_i) over the set's items."""
    values = values.clone()
    for item, offset in enumerate(offsets.tolist()):
        halves = values.view(-1, 2, 2**item)
        halves[:, 0] += halves[:, 1]
        if offset:
            halves[:, 1] -= offset * halves[:, 0]
    return values


def _squares_over_records(values: Tensor, offsets: Tensor) -> Tensor:
    """The same with the squares (x_i - offset_i)²."""
    values = values.clone()
    for item, offset in enumerate(offsets.tolist()):
        halves = values.view(-1, 2, 2**item)
        without = halves[:, 0].clone()
        halves[:, 0] += halves[:, 1]
        halves[:, 1] = (1 - offset) ** 2 * halves[:, 1] + offset**2 * without
    return values


def _over_sets(values: Tensor, offsets: Tensor) -> Tensor:
    """From values of all sets to all records, the transpose of `_over_records`; in place."""
    for item, offset in enumerate(offsets.tolist()):
        halves = values.view(-1, 2, 2**item)
        if offset:
            halves[:, 0] -= offset * halves[:, 1]
        halves[:, 1] += halves[:, 0]
    return values
