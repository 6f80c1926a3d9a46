"""How many records hold all of two, three or four items, over a public choice of positions.

Only sets of distinct items are counted (never an item with itself: those cells would be item counts), and sets with
two values of one table column, which cannot occur, are left out. A record with n of the chosen positions has
C(n, order) sets; long ones are down-weighted (`clip_steps`), so its norm is at most sqrt(C(cap, order)).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.statistics.clipped_sets import clip_bound, clip_steps, clipped_scaling, longest_expected, moments
from dpgm.statistics.item_counts import ITEMS
from dpgm.statistics.record_lengths import RecordSizes, counts_within
from dpgm.statistics.rules import StatisticRules
from dpgm.statistics.shrinkage import shrink
from dpgm.statistics.statistic import GRID, Floats, Measured, Scale, Target

NAMES = {1: ITEMS, 2: "pair counts", 3: "triple counts", 4: "quadruple counts"}  # by the size of the sets
# A product of 0/1 columns weighted by at most 256 stays below 2^24 over a chunk, where float32 sums are exact.
_CHUNK = {2: 1 << 14, 3: 1 << 12, 4: 1 << 12}


@dataclass(frozen=True)
class ItemTuples:
    """Counts of all sets of `order` positions out of `chosen`, in the order of `tuples`."""

    words: ClassVar[Mapping[str, Measures]] = {
        NAMES[2]: Measures("measure", "records holding each pair of popular items", "sqrt(sets within the bound)"),
        NAMES[3]: Measures(
            "measure", "records holding each triple of popular items", "sqrt(sets within the bound)"
        ),
        NAMES[4]: Measures("measure", "records holding each four of the items", "sqrt(sets within the bound)"),
    }

    domain: Domain
    chosen: tuple[int, ...]
    order: int
    cap: int

    @property
    def name(self) -> str:
        """Its name in the plan."""
        return NAMES[self.order]

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """The chosen positions, in increasing order."""
        return np.array(sorted(self.chosen), dtype=np.int64)

    @cached_property
    def tuples(self) -> NDArray[np.int64]:
        """(count, order): places within `positions` of every set that can occur."""
        return possible_sets(self.domain, self.positions, self.order)

    @property
    def sensitivity(self) -> float:
        """sqrt(C(cap, order))."""
        return clip_bound(self.order, self.cap)

    @property
    def shape(self) -> tuple[int, ...]:
        """One number per set."""
        return (len(self.tuples),)

    def query(self) -> Query:
        """The question to the private rows."""
        return Query(self._sum, self.sensitivity, self.shape, grid=GRID)

    def _sum(self, view: View) -> Tensor:
        size = len(self.positions)
        place = np.full(self.domain.width, -1, dtype=np.int64)
        place[self.positions] = np.arange(size)
        steps = clip_steps(size, self.order, self.cap)
        left, right = (np.triu_indices(size, 1)) if self.order > 2 else (np.arange(size), np.arange(size))
        total = np.zeros((len(left), size if self.order < 4 else len(left)), dtype=np.int64)
        for chunk in view.rows.chunks(_CHUNK[self.order]):
            ones = counts_within(chunk, place >= 0)
            held = (ones >= self.order) & (steps[ones] > 0)  # the others add to no set
            if not held.any():
                continue
            dense = dense_rows(chunk, place, size)[held]
            weights = steps[ones[held]].astype(np.float32)[:, None]
            if self.order == 2:
                product = (dense * weights).T @ dense
            else:
                pairs = dense[:, left] * dense[:, right]
                product = (pairs * weights).T @ (dense if self.order == 3 else pairs)
            total += product.astype(np.int64)
        return torch.from_numpy(total[self.places])

    @cached_property
    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the sets stand in a matrix of positions x positions, pairs x positions or pairs x pairs."""
        listed = self.tuples.T
        if self.order == 2:
            return listed[0], listed[1]
        pair = pair_places(len(self.positions))
        return pair[listed[0], listed[1]], listed[2] if self.order == 3 else pair[listed[2], listed[3]]

    @cached_property
    def _index(self) -> Tensor:
        return torch.from_numpy(self.positions)

    def expected(self, probabilities: Tensor, weights: Tensor, scale: Scale) -> Tensor:
        """Share of the records that hold each set, weighted, as a matrix (see `places`)."""
        return moments(self.order, probabilities.index_select(1, self._index), weights, *scale)

    def shares(self, probabilities: Tensor, weights: Tensor) -> Floats:
        """Share of a mixture's records that hold each of the sets, in the order of `tuples`."""
        full, none = torch.ones(len(weights)), torch.zeros(len(weights))
        return self.expected(probabilities, weights, (full, none))[self.places].double().numpy()


def possible_sets(domain: Domain, positions: NDArray[np.int64], order: int) -> NDArray[np.int64]:
    """(count, order): places within `positions` of every set that can occur."""
    if order == 2:
        listed = np.stack(np.triu_indices(len(positions), 1), axis=1)
    else:
        listed = np.array(list(combinations(range(len(positions)), order)), dtype=np.int64).reshape(-1, order)
    owner = domain.column_of[positions]
    possible = np.ones(len(listed), dtype=np.bool_)
    for a, b in combinations(range(order), 2):
        possible &= owner[listed[:, a]] != owner[listed[:, b]]
    return listed[possible]


def pair_places(size: int) -> NDArray[np.int64]:
    """(size, size): the place of every pair i < j in the order of `triu_indices`."""
    places = np.full((size, size), -1, dtype=np.int64)
    rows, columns = np.triu_indices(size, 1)
    places[rows, columns] = np.arange(len(rows))
    return places


def dense_rows(records: Records, place: NDArray[np.int64], size: int) -> NDArray[np.float32]:
    """(records, size): which of the positions with a place >= 0 each record holds."""
    dense = np.zeros((len(records), size + 1), dtype=np.float32)  # the last column takes the others
    rows = np.repeat(np.arange(len(records)), records.lengths)
    dense[rows, place[records.indices]] = 1
    return dense[:, :size]


def tuple_target(
    measured: Measured[ItemTuples],
    expected: Floats | None,
    lengths: Floats,
    sizes: RecordSizes,
    emphasis: float | Tensor,
    rules: StatisticRules,
) -> Target[ItemTuples]:
    """The counts as a target of a fit, shrunk toward what is expected of them, if anything.

    Args:
        measured: the release.
        expected: of every set, in any unit; None leaves the counts as they are.
        lengths: share of the records that hold n = 0, 1, ... of the positions.
        sizes: what is known of record lengths.
        emphasis: weight in the fit.
        rules: tuned numbers.
    """
    sets = measured.statistic
    values, stds = measured.value.numpy(), np.full(len(measured.value), measured.std)
    if expected is not None:
        values, stds = _shrunk(measured, expected, lengths, sizes.records, rules)
    size = len(sets.positions)
    pairs = size * (size - 1) // 2
    shape = {2: (size, size), 3: (pairs, size), 4: (pairs, pairs)}[sets.order]
    target, variance = np.zeros(shape), np.full(shape, np.inf)
    target[sets.places], variance[sets.places] = values, stds**2
    counts = torch.from_numpy(target).float()
    longest = longest_expected(lengths, size, rules.read)
    return Target(
        statistic=sets,
        values=counts,
        variances=torch.from_numpy(variance).float(),
        size=counts.clamp(min=0),
        scaling=clipped_scaling(sets.order, sets.positions, sets.cap, longest, sets.domain),
        emphasis=emphasis,
    )


def _shrunk(
    measured: Measured[ItemTuples], expected: Floats, lengths: Floats, records: int, rules: StatisticRules
) -> tuple[Floats, Floats]:
    """Counts shrunk toward what is expected of them, up to a factor that brings down-weighting to account."""
    sets, values = measured.statistic, measured.value.numpy()
    weights = clip_steps(len(lengths) - 1, sets.order, sets.cap) * GRID
    total = records * float(
        (lengths * weights) @ np.array([comb(n, sets.order) for n in range(len(lengths))], dtype=np.float64)
    )
    doubt = (measured.std**2 * len(values), (rules.read.total_doubt * total) ** 2)
    total = max(float(values.sum() * doubt[1] + total * doubt[0]) / max(sum(doubt), 1e-9), rules.read.least_total)
    expected = np.maximum(total * expected / max(float(expected.sum()), 1e-12), 1e-6)
    return shrink(values, measured.std, expected, rules.read.shrink)
