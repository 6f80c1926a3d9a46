"""Centred sums of pairs of positions, for dense records: rows of a table, long baskets from a short list.

For positions i and j, the sum over records of (x_i - offset_i)(x_j - offset_j), with offsets near their frequencies.
Given the frequencies it is as informative as the count of records that hold both, but a record that holds what most
records hold adds next to nothing, so there is less noise. With s the sum of (x_i - offset_i)² over the chosen
positions, a record's vector has a norm below s / sqrt(2) (`centred_bound`: the sensitivity); records of s > `limit` are
scaled down by limit / s. Sums are exact integers: offsets are multiples of 1/16, weights of 1/256.
"""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.kernels.devices import matrix_precision
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.statistics.bounds import (
    candidate_limits,
    choose_bound,
    draw_likely,
    normal_nodes,
    offsets_near,
    popular_sets,
)
from dpgm.statistics.item_tuples import CENTRED, CENTRED_BOUND, NAMES, dense_rows, places_of, possible_sets
from dpgm.statistics.record_lengths import ReleasedFacts, record_sums
from dpgm.statistics.rules import BoundRules
from dpgm.statistics.shrinkage import shrink_signed
from dpgm.statistics.statistic import (
    FULL_WEIGHT,
    GRID,
    STEPS,
    Descriptions,
    Measured,
    ScaleTerms,
    Scaling,
    Target,
    target_of,
)

_CHUNK = 1 << 14  # 2^14 rows of weights up to 256 stay below 2^24, where float32 sums are exact


@dataclass(frozen=True)
class CentredPairs:
    """Centred sums of all pairs out of `chosen`, in the order of `tuples`."""

    words: ClassVar[Descriptions] = {NAMES[2]: Measures("measure", CENTRED, CENTRED_BOUND)}

    domain: Domain
    chosen: tuple[int, ...]  # in increasing order
    offsets: tuple[int, ...]  # one per chosen position, in steps of 1 / STEPS
    limit: int  # on s, in steps of 1 / STEPS²
    name: str = NAMES[2]
    device: str = "cpu"  # where pairs are counted; the sums are exact, the same everywhere

    @classmethod
    def choose(
        cls, chosen: Ints, lengths: Floats, profile: Floats, known: ReleasedFacts, noise: float
    ) -> tuple["CentredPairs", float]:
        """Offsets and limit for pairs of chosen positions (increasing), and the squared error as in `choose_cap`."""
        rules, offsets = known.rules.bound, offsets_near(profile[chosen])
        items = lengths[known.domain.columns_within(chosen) :]  # lengths without the table columns
        likely = draw_likely(np.array(offsets) / STEPS, chosen, profile, items, known).sizes
        # Lengths that appear only because of noise can be extreme and would dominate sums of squares.
        likely = np.minimum(likely, np.quantile(likely, rules.seen))
        limits = candidate_limits(likely, rules)
        weights = (np.minimum(1.0, limit / likely) for limit in limits)
        groups = _group_count(known.domain, chosen)
        stds = noise * np.array([centred_bound(limit, groups) for limit in limits])
        popular = popular_sets(2, lengths, profile[chosen], known)
        limit, cost = choose_bound(limits, stds, weights, likely**2, popular, rules.distortion[1])
        return cls(known.domain, tuple(chosen.tolist()), offsets, max(1, round(limit * STEPS**2))), cost

    @cached_property
    def positions(self) -> Ints:
        """The chosen positions."""
        return np.array(self.chosen, dtype=np.int64)

    @cached_property
    def tuples(self) -> Ints:
        """(count, 2): every pair that can occur, as indices into `positions`."""
        return possible_sets(self.domain, self.positions, 2)

    def query(self) -> Query:
        """One number per pair; scaling down keeps every record within the norm of one at the limit."""
        bound = centred_bound(self.limit / STEPS**2, _group_count(self.domain, self.positions))
        return Query(self._sum, bound, (len(self.tuples),), grid=GRID / STEPS**2)

    def weight_steps(self, sizes: Ints) -> Ints:
        """Weights of records of the given s (in steps), in grid steps, rounded down."""
        steps: Ints = np.minimum(FULL_WEIGHT, FULL_WEIGHT * self.limit // np.maximum(sizes, 1))
        return steps

    def sizes(self, rows: Records) -> Ints:
        """The s of each record, in steps."""
        offsets = np.array(self.offsets, dtype=np.int64)
        rise = np.zeros(self.domain.width)
        rise[self.positions] = STEPS**2 - 2 * STEPS * offsets
        return record_sums(rows, rise) + int((offsets**2).sum())

    def _sum(self, view: View) -> Tensor:
        size, place = len(self.positions), places_of(self.positions, self.domain)
        # Total weight of records that hold both positions, one position, or anything.
        both = np.zeros((size, size), dtype=np.int64)
        one = np.zeros(size, dtype=np.int64)
        everyone = 0
        for chunk in view.rows.chunks(_CHUNK):
            weights = self.weight_steps(self.sizes(chunk))
            dense = dense_rows(chunk, place, size, self.device)
            weighted = dense * torch.from_numpy(weights.astype(np.float32)).to(self.device)[:, None]
            with matrix_precision("highest"):
                both += (weighted.T @ dense).cpu().numpy().astype(np.int64)
            one += weighted.sum(dim=0, dtype=torch.float64).cpu().numpy().astype(np.int64)
            everyone += int(weights.sum())
        i, j = self.tuples.T
        offsets = np.array(self.offsets, dtype=np.int64)
        # (16 x_i - a)(16 x_j - b), multiplied out
        sums = STEPS**2 * both[i, j] - STEPS * (offsets[j] * one[i] + offsets[i] * one[j])
        return torch.from_numpy(sums + offsets[i] * offsets[j] * everyone)

    @cached_property
    def _numbers(self) -> tuple[Tensor, Tensor, Tensor]:
        """Positions, the number of each one's item or table column, and offsets."""
        owners = np.unique(self.domain.column_of[self.positions], return_inverse=True)[1]
        offsets = torch.from_numpy(np.array(self.offsets) / STEPS).float()
        return torch.from_numpy(self.positions), torch.from_numpy(owners), offsets

    def _on_model(self, probabilities: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Probabilities of the positions, by how much each raises s, the offsets, and the owners."""
        positions, owners, offsets = (numbers.to(probabilities.device) for numbers in self._numbers)
        return probabilities.index_select(1, positions), 1 - 2 * offsets, offsets, owners

    def scaling(self, rules: BoundRules) -> Scaling:
        """Mean weight of every component's records, and its derivative by s, with s taken as normal."""
        limit = self.limit / STEPS**2

        def scale(probabilities: Tensor) -> ScaleTerms:
            nodes, shares = normal_nodes(probabilities.device)
            chances, rise, offsets, owners = self._on_model(probabilities)
            mean = (offsets**2).sum() + chances @ rise
            joint = _column_sums(chances * rise, owners)
            spread = (chances @ rise**2 - (joint**2).sum(dim=1)).clamp(min=1e-6).sqrt()
            s = (mean[:, None] + spread[:, None] * nodes).clamp(min=rules.least_size)
            weight = (limit / s).clamp(max=1.0) * shares
            return weight.sum(dim=1), (weight * nodes).sum(dim=1) / spread

        return scale

    def expected(self, probabilities: Tensor, weights: Tensor, scale: ScaleTerms) -> Tensor:
        """Mean of each centred product, down-weighted like the sums, as a matrix of positions x positions.

        To first order in the dependence of s on i and j.
        """
        chances, rise, offsets, owners = self._on_model(probabilities)
        level, slope = (weights * scale[0])[:, None], (weights * scale[1])[:, None]
        off = chances - offsets
        # Covariance of x_i and s: x_i = 1 adds rise_i, but not what another value of the same column would have added.
        covariance = chances * (rise - _column_sums(chances * rise, owners).index_select(1, owners))
        half = (0.5 * level * off + slope * covariance).T @ off
        return half + half.T


def _column_sums(values: Tensor, owners: Tensor) -> Tensor:
    """(k, T) sums over the positions of each item or column, padded with zeros to the same width."""
    return torch.zeros_like(values).index_add(1, owners, values)


def _group_count(domain: Domain, positions: Ints) -> int:
    """Number of items and table columns that the positions belong to; at least the two of a pair."""
    return max(2, len(np.unique(domain.column_of[positions])))


def centred_bound(limit: float, groups: int) -> float:
    """The largest norm of a record after scaling by limit / s; the positions belong to k = `groups` items and columns.

    Two values of one table column are no pair. With y_i = x_i - offset_i and s_g the sum of y² over the positions of a
    group, the squares (y_i y_j)² of all pairs add up to (s² - sum of s_g²) / 2. Since s_1² + ... + s_k² is at least
    s² / k, that is at most s² (1 - 1 / k) / 2.
    """
    return limit * sqrt((1 - 1 / groups) / 2)


def centred_target(
    measured: Measured[CentredPairs],
    profile: Floats,
    known: ReleasedFacts,
    emphasis: float | Tensor,
    *,
    shrunk: bool,
) -> Target[CentredPairs]:
    """The sums as a target of a fit; with `shrunk`, shrunk toward those of independent items, which are near 0."""
    sets, records = measured.statistic, known.records
    chances, offsets = profile[sets.positions], np.array(sets.offsets) / STEPS
    i, j = sets.tuples.T
    values, stds = measured.value.numpy(), np.full(len(i), measured.std)
    if shrunk:
        off, spread = chances - offsets, np.sqrt(chances * (1 - chances))
        values, stds = shrink_signed(
            values,
            measured.std,
            records * off[i] * off[j],
            records * spread[i] * spread[j],
            known.rules.read.shrink,
        )
    shape = (len(chances), len(chances))
    sums, deviations = np.zeros(shape), np.full(shape, np.inf)
    sums[i, j], deviations[i, j] = values, stds
    size = records * np.outer(chances, chances)
    return target_of(sets, sums, deviations, sets.scaling(known.rules.bound), emphasis, size)
