"""The second stage of item counts: each item has a scale and an offset chosen by its roughly known frequency.

The statistic is the sum over records of scale_i (x_i - offset_i). Noise is the same on every sum, so rare items are
counted on a larger scale than frequent ones, whose counts tolerate more noise; most of what a record holds is frequent
and then adds little to its norm. Offsets near the frequencies do the same for items that most records hold. With s the
sum of the squares of a record's vector, records of s > `limit` are scaled down by sqrt(limit / s), so the sensitivity
is sqrt(limit). Sums are exact integers: scales and offsets are multiples of 1/16, weights of 1/256.

Tables (`ScaledItems.of_table`): rows hold one value per column and their number is public, so nothing is lost if each
row adds x_i - 1/k for a column of k values. That has a squared norm of about 1 - 1/k per column instead of 1: 11 % less
noise on bank marketing, 7 % on Adult.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import sqrt
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.statistics.bounds import (
    LikelyRecords,
    Popular,
    candidate_limits,
    choose_bound,
    draw_likely,
    normal_nodes,
    offsets_near,
)
from dpgm.statistics.item_counts import ITEMS, ItemCounts, possible_shares
from dpgm.statistics.record_lengths import ReleasedFacts, record_sums
from dpgm.statistics.rules import BoundRules
from dpgm.statistics.shrinkage import shrink_alone
from dpgm.statistics.statistic import (
    FULL_WEIGHT,
    GRID,
    MARGIN,
    STEPS,
    Descriptions,
    Measured,
    ScaleTerms,
    Scaling,
    Target,
    release,
    target_of,
)

SCALED = "scaled item counts"


@dataclass(frozen=True)
class ScaledItems:
    """Sums of scale_i (x_i - offset_i) for all positions; `limit` and s are in steps of 1 / STEPS⁴."""

    words: ClassVar[Descriptions] = {
        SCALED: Measures(
            "profile",
            "records holding each item, rare items on a larger scale, less what most records hold",
            "the bound chosen for what one record adds",
        ),
        ITEMS: Measures(
            "profile",
            "in tables, rows holding each value, less an equal share of the rows",
            "in tables, about sqrt(sum over the columns of 1 - 1/values)",
        ),
    }

    domain: Domain
    scales: tuple[int, ...]  # in steps of 1 / STEPS
    offsets: tuple[int, ...]  # in steps of 1 / STEPS
    limit: int
    name: str = SCALED

    @classmethod
    def choose(cls, profile: Floats, known: ReleasedFacts, noise: float) -> "ScaledItems":
        """Scales, offsets and limit with the smallest expected error of popular items, given a rough profile."""
        rules, tried = known.rules, []
        for power, candidate in product(rules.bound.scale_powers, rules.bound.offset_candidates):
            weights = np.maximum(profile, rules.sanity) ** -power
            scales = np.maximum(np.rint(STEPS * weights / weights.max()), 1).astype(np.int64)
            offsets = offsets_near(profile + candidate * (0.5 - profile))
            free = cls(known.domain, tuple(scales.tolist()), offsets, 1)
            limit, cost = free._choose_limit(profile, known, noise)
            tried.append((cost, replace(free, limit=max(1, round(limit * STEPS**4)))))
        return min(tried, key=lambda found: found[0])[1]

    def _likely(self, profile: Floats, known: ReleasedFacts) -> LikelyRecords:
        scales, offsets = self._numbers
        return draw_likely(offsets, np.arange(self.domain.width), profile, known.whole, known, scales)

    def _choose_limit(self, profile: Floats, known: ReleasedFacts, noise: float) -> tuple[float, float]:
        """The limit on s that balances noise against distortion, and the squared error."""
        rules, records, likely = known.rules, known.records, self._likely(profile, known)
        counts, popularity = records * profile, profile / profile.sum()
        yardstick = np.maximum(counts, rules.sanity * records)
        noise_error = float(popularity @ (1 / (self._numbers[0] * yardstick)))
        popular = Popular(noise_error, float(popularity @ (counts / yardstick)))
        # A few very long records are not worth a larger bound, for which all others pay in noise.
        seen = max(rules.bound.seen, 1 - rules.bound.unseen_records / records)
        sizes = np.minimum(likely.sizes, np.quantile(likely.sizes, seen))
        limits = candidate_limits(sizes, rules.bound)
        weights = (np.sqrt(np.minimum(1.0, limit / sizes)) for limit in limits)
        stds = noise * np.array([sqrt(limit) for limit in limits])
        return choose_bound(limits, stds, weights, likely.shares, popular, rules.bound.scaled_distortion)

    @classmethod
    def of_table(cls, domain: Domain) -> "ScaledItems":
        """Centred counts of the values of a table; no row of at most one value per column is scaled down."""
        offsets, limit = np.zeros(domain.width, dtype=np.int64), 0
        for column in domain.table_columns:
            # One half if a column has one value only, since a row may lack it.
            offset = round(STEPS / max(2, column.stop - column.start))
            offsets[column] = offset
            without = offset**2 * (column.stop - column.start)
            limit += max(without, without + STEPS * (STEPS - 2 * offset))
        return cls(domain, (STEPS,) * domain.width, tuple(offsets.tolist()), STEPS**2 * limit, ITEMS)

    def query(self) -> Query:
        """One number per position; scaling down keeps every record within the norm sqrt(limit)."""
        return Query(self._sum, sqrt(self.limit / STEPS**4), (self.domain.width,), grid=GRID / STEPS**2)

    @cached_property
    def _steps(self) -> tuple[Ints, Ints]:
        """Scales and offsets, in steps of 1 / STEPS."""
        return np.array(self.scales, dtype=np.int64), np.array(self.offsets, dtype=np.int64)

    @cached_property
    def _numbers(self) -> tuple[Floats, Floats]:
        """Scales and offsets as numbers."""
        scales, offsets = self._steps
        return scales / STEPS, offsets / STEPS

    @cached_property
    def empty_size(self) -> int:
        """The s of the empty record."""
        scales, offsets = self._steps
        return int(((scales * offsets) ** 2).sum())

    @cached_property
    def rises(self) -> Ints:
        """By how much each item raises s."""
        scales, offsets = self._steps
        rises: Ints = scales**2 * STEPS * (STEPS - 2 * offsets)
        return rises

    def weight_steps(self, sizes: Ints) -> Ints:
        """Weights of records of the given s, in grid steps, rounded down."""
        shares = np.sqrt(self.limit / np.maximum(sizes, 1)) * MARGIN
        steps = np.where(sizes <= self.limit, FULL_WEIGHT, np.floor(FULL_WEIGHT * shares))
        return steps.astype(np.int64)

    def sizes(self, rows: Records) -> Ints:
        """The s of each record."""
        return record_sums(rows, self.rises.astype(np.float64)) + self.empty_size

    def _sum(self, view: View) -> Tensor:
        # Total weight of the records that hold each item, and of all records.
        holders, everyone = np.zeros(self.domain.width, dtype=np.int64), 0
        for chunk in view.rows.pieces():
            weights = self.weight_steps(self.sizes(chunk))
            spread = np.repeat(weights, chunk.lengths).astype(np.float64)
            holders += np.bincount(chunk.indices, spread, minlength=self.domain.width).astype(np.int64)
            everyone += int(weights.sum())
        scales, offsets = self._steps
        return torch.from_numpy(scales * (STEPS * holders - offsets * everyone))

    @cached_property
    def _on_model(self) -> tuple[Tensor, Tensor]:
        return torch.tensor(self.scales).float() / STEPS, torch.tensor(self.offsets).float() / STEPS

    def scaling(self, rules: BoundRules) -> Scaling:
        """Mean weight of every component's records, and for each item by how much it differs where they hold it."""
        scales, offsets = self._on_model
        rises, empty_size = scales**2 * (1 - 2 * offsets), ((scales * offsets) ** 2).sum()
        grid = torch.linspace(float(rises.min()), float(rises.max()) + 1e-6, rules.grid_points)
        near = (1 - (rises - grid[:, None]).abs() / (grid[1] - grid[0])).clamp(min=0)
        limit = self.limit / STEPS**4

        def weight(s: Tensor) -> Tensor:
            return (limit / s.clamp(min=1e-9)).sqrt().clamp(max=1.0)

        def scale(chances: Tensor) -> ScaleTerms:
            here = chances.device
            s, shares = _size_nodes(empty_size.to(here) + chances @ rises.to(here), chances, rises.to(here))
            mean = (weight(s) * shares).sum(dim=1)
            with_item = torch.stack([(weight(s + rise) * shares).sum(dim=1) for rise in grid], dim=1)
            return mean, (with_item - mean[:, None]) @ near.to(here)

        return scale

    def expected(self, probabilities: Tensor, weights: Tensor, scale: ScaleTerms) -> Tensor:
        """Mean of scale_i (x_i - offset_i), down-weighted like the sums."""
        scales, offsets = (numbers.to(probabilities.device) for numbers in self._on_model)
        mean, difference = scale
        centred = (weights * mean) @ (probabilities - offsets)
        return scales * (centred + weights @ (probabilities * (1 - probabilities) * difference))


def ask_table(gateway: Gateway, domain: Domain, records: int, noise: float) -> Measured[ItemCounts]:
    """Release the counts of all values of a table; the offsets times the public number of rows are added back."""
    measured = release(gateway, ScaledItems.of_table(domain), noise)
    shares = torch.tensor(measured.statistic.offsets).to(measured.value) * (records / STEPS)
    return Measured(ItemCounts(domain, len(domain.table_columns)), measured.value + shares, measured.std)


def _size_nodes(mean: Tensor, chances: Tensor, rises: Tensor) -> tuple[Tensor, Tensor]:
    """Quadrature nodes (k, nodes) of s and their weights (nodes,), from its first three moments (Cornish-Fisher)."""
    nodes, shares = normal_nodes(mean.device)
    scatter = chances * (1 - chances)
    spread = (scatter @ rises**2).clamp(min=1e-9).sqrt()
    skew = (scatter * (1 - 2 * chances)) @ rises**3 / spread**3
    s = mean[:, None] + spread[:, None] * (nodes + skew[:, None].clamp(-3, 3) / 6 * (nodes**2 - 1))
    return s, shares


# -- how noisy sums are read ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScaledReading:
    """Noisy sums and what they say."""

    released: Measured[ScaledItems]
    profile: Floats  # share of the records that hold each item
    values: Floats  # posterior means of the sums
    stds: Floats  # and their standard deviations


def read_scaled(scaled: Measured[ScaledItems], pilot: Floats, known: ReleasedFacts) -> ScaledReading:
    """Estimate item frequencies from the scaled counts; the pilot predicts how far records were scaled down."""
    statistic, records, rules = scaled.statistic, known.records, known.rules
    scales, offsets = statistic._numbers
    likely = statistic._likely(pilot, known)
    rises, limit = statistic.rises / STEPS**4, statistic.limit / STEPS**4
    empty_size = statistic.empty_size / STEPS**4

    def weight(sizes: Floats) -> Floats:
        weights: Floats = np.sqrt(np.minimum(1.0, limit / np.maximum(sizes, 1e-9)))
        return weights

    # The s of a record without one of its n items.
    others = empty_size + (likely.sizes - empty_size) * (1 - 1 / np.maximum(likely.lengths, 1))
    grid = np.linspace(rises.min(), rises.max() + 1e-6, rules.bound.grid_points)
    mean_weights = [likely.shares @ weight(others + rise) for rise in grid]
    retained = np.maximum(np.interp(rises, grid, mean_weights), rules.read.least_weight)
    subtracted = offsets * records * float(weight(likely.sizes).mean())
    counts, stds = shrink_alone(scaled.value.numpy() / scales + subtracted, scaled.std / scales, rules.read.shrink)
    profile = possible_shares(counts / (retained * records), stds / retained, known)
    return ScaledReading(scaled, profile, scales * (counts - subtracted), scales * stds)


def scaled_target(scaled: ScaledReading, known: ReleasedFacts, emphasis: float) -> Target[ScaledItems]:
    """The shrunk sums as a target of a fit."""
    statistic = scaled.released.statistic
    counts = (known.records * scaled.profile).astype(np.float32)
    size = np.array(statistic.scales, dtype=np.float32) / STEPS * counts
    scaling = statistic.scaling(known.rules.bound)
    return target_of(statistic, scaled.values, scaled.stds, scaling, emphasis, size)
