"""How often each item occurs, counted on scales and from offsets that suit it, once its frequency is roughly known.

The sum over records of scale_i (x_i - offset_i). Noise is the same on every sum, so rare items are best counted on a
larger scale than frequent ones, whose counts can bear more noise: most of what a record holds is frequent and then
weighs little. Offsets near the frequencies do the same for items that most records hold. With s the sum of the squares
over a record, records of s > `limit` are scaled down by sqrt(limit / s), so a record's vector has a norm of at most
sqrt(limit). All is done in whole numbers: scales and offsets are multiples of 1/16, weights of 1/256.

Rows of a table hold one value of every column, and their number is public: their counts say as much when each row adds
x_i less an equal share 1/k of a column of k values, and a row's numbers then have a squared norm of about 1 - 1/k per
column instead of 1 (`ScaledItems.of_table`). Bank marketing: 11 % less noise, Adult: 7 %.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import sqrt
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.statistics.bounds import LikelyRecords, Popular, candidate_limits, choose_bound, draw_likely, offsets_near
from dpgm.statistics.item_counts import ITEMS, ItemCounts, possible_shares
from dpgm.statistics.record_lengths import Known, sums_held
from dpgm.statistics.rules import BoundRules
from dpgm.statistics.shrinkage import shrink_alone
from dpgm.statistics.statistic import (
    FULL_WEIGHT,
    GRID,
    MARGIN,
    STEPS,
    Floats,
    Ints,
    Measured,
    Scale,
    Scaling,
    Target,
    Words,
    ask,
    target_of,
)

SCALED = "scaled item counts"


@dataclass(frozen=True)
class ScaledItems:
    """Sums of scale_i (x_i - offset_i) for all positions; `limit` in steps of 1 / STEPS⁴, as s is."""

    words: ClassVar[Words] = {
        SCALED: Measures(
            "profile",
            "records holding each item, rare items on a larger scale, less what most records hold",
            "the bound",
        ),
        ITEMS: Measures(
            "profile",
            "of tables, rows holding each value, less an equal share of the rows",
            "tables: a bound, about sqrt(sum over the columns of 1 - 1/values)",
        ),
    }

    domain: Domain
    scales: tuple[int, ...]  # in steps of 1 / STEPS
    offsets: tuple[int, ...]  # in steps of 1 / STEPS
    limit: int
    name: str = SCALED

    @classmethod
    def choose(cls, profile: Floats, known: Known, noise: float) -> "ScaledItems":
        """Scales, offsets and bound that promise the smallest error of popular items, of roughly known frequencies."""
        rules, tried = known.rules, []
        for power, candidate in product(rules.bound.scale_powers, rules.bound.offset_candidates):
            weights = np.maximum(profile, rules.sanity) ** -power
            scales = np.maximum(np.rint(STEPS * weights / weights.max()), 1).astype(np.int64)
            offsets = offsets_near(profile + candidate * (0.5 - profile))
            free = cls(known.domain, tuple(scales.tolist()), offsets, 1)
            limit, cost = free._choose_limit(profile, known, noise)
            tried.append((cost, replace(free, limit=max(1, round(limit * STEPS**4)))))
        return min(tried, key=lambda found: found[0])[1]

    def _likely(self, profile: Floats, known: Known) -> LikelyRecords:
        scales, offsets = self._numbers
        return draw_likely(offsets, np.arange(self.domain.width), profile, known.whole, known, scales)

    def _choose_limit(self, profile: Floats, known: Known, noise: float) -> tuple[float, float]:
        """The limit of s that balances noise against distortion, and its cost."""
        rules, records, likely = known.rules, known.records, self._likely(profile, known)
        counts, popularity = records * profile, profile / profile.sum()
        yardstick = np.maximum(counts, rules.sanity * records)
        noisy = float(popularity @ (1 / (self._numbers[0] * yardstick)))
        popular = Popular(noisy, float(popularity @ (counts / yardstick)))
        # Of many records the longest are seen too; few of them are not worth a bound that all pay for.
        seen = max(rules.bound.seen, 1 - rules.bound.unseen_records / records)
        sizes = np.minimum(likely.sizes, np.quantile(likely.sizes, seen))
        limits = candidate_limits(sizes, rules.bound)
        weights = (np.sqrt(np.minimum(1.0, limit / sizes)) for limit in limits)
        stds = noise * np.array([sqrt(limit) for limit in limits])
        return choose_bound(limits, stds, weights, likely.shares, popular, rules.bound.scaled_distortion)

    @classmethod
    def of_table(cls, domain: Domain) -> "ScaledItems":
        """Counts of the values of table columns from equal shares; rows of one value per column, or none, are whole."""
        offsets, limit = np.zeros(domain.width, dtype=np.int64), 0
        for column in domain.table_columns:
            # One half where a column has one value, which a row may lack.
            offset = round(STEPS / max(2, column.stop - column.start))
            offsets[column] = offset
            gap = offset**2 * (column.stop - column.start)
            limit += max(gap, gap + STEPS * (STEPS - 2 * offset))
        return cls(domain, (STEPS,) * domain.width, tuple(offsets.tolist()), STEPS**2 * limit, ITEMS)

    def query(self) -> Query:
        """One number per position; no record has a larger norm than sqrt(limit)."""
        return Query(self._sum, sqrt(self.limit / STEPS**4), (self.domain.width,), grid=GRID / STEPS**2)

    @cached_property
    def _numbers(self) -> tuple[Floats, Floats]:
        """Scales and offsets."""
        return np.array(self.scales) / STEPS, np.array(self.offsets) / STEPS

    @cached_property
    def nothing(self) -> int:
        """The s of the empty record."""
        return int(((np.array(self.scales) * np.array(self.offsets)) ** 2).sum())

    @cached_property
    def rises(self) -> Ints:
        """By how much every item adds to s."""
        scales, offsets = np.array(self.scales, dtype=np.int64), np.array(self.offsets, dtype=np.int64)
        rises: Ints = scales**2 * STEPS * (STEPS - 2 * offsets)
        return rises

    def weight_steps(self, sizes: Ints) -> Ints:
        """Weight of records of the given s, in grid steps, rounded down."""
        shares = np.sqrt(self.limit / np.maximum(sizes, 1)) * MARGIN
        steps = np.where(sizes <= self.limit, FULL_WEIGHT, np.floor(FULL_WEIGHT * shares))
        return steps.astype(np.int64)

    def sizes(self, rows: Records) -> Ints:
        """The s of every record."""
        return sums_held(rows, self.rises.astype(np.float64)) + self.nothing

    def _sum(self, view: View) -> Tensor:
        held, none = np.zeros(self.domain.width, dtype=np.int64), 0
        for chunk in view.rows.pieces():
            weights = self.weight_steps(self.sizes(chunk))
            spread = np.repeat(weights, chunk.lengths).astype(np.float64)
            held += np.bincount(chunk.indices, spread, minlength=self.domain.width).astype(np.int64)
            none += int(weights.sum())
        scales, offsets = np.array(self.scales, dtype=np.int64), np.array(self.offsets, dtype=np.int64)
        return torch.from_numpy(scales * (STEPS * held - offsets * none))

    @cached_property
    def _on_model(self) -> tuple[Tensor, Tensor]:
        scales, offsets = (torch.tensor(of, dtype=torch.float32) / STEPS for of in (self.scales, self.offsets))
        return scales, offsets

    def scaling(self, rules: BoundRules) -> Scaling:
        """Mean weight of every component's records, and by how much that of records that hold an item differs."""
        scales, offsets = self._on_model
        rises, nothing = scales**2 * (1 - 2 * offsets), ((scales * offsets) ** 2).sum()
        grid = torch.linspace(float(rises.min()), float(rises.max()) + 1e-6, rules.grid_points)
        near = (1 - (rises - grid[:, None]).abs() / (grid[1] - grid[0])).clamp(min=0)
        limit = self.limit / STEPS**4

        def weight(s: Tensor) -> Tensor:
            return (limit / s.clamp(min=1e-9)).sqrt().clamp(max=1.0)

        def scale(chances: Tensor) -> Scale:
            here = chances.device
            s, shares = _skewed(nothing.to(here) + chances @ rises.to(here), chances, rises.to(here))
            mean = (weight(s) * shares).sum(dim=1)
            with_item = torch.stack([(weight(s + rise) * shares).sum(dim=1) for rise in grid], dim=1)
            return mean, (with_item - mean[:, None]) @ near.to(here)

        return scale

    def expected(self, probabilities: Tensor, weights: Tensor, scale: Scale) -> Tensor:
        """Mean of each sum over the records, weighted."""
        scales, offsets = (numbers.to(probabilities.device) for numbers in self._on_model)
        mean, difference = scale
        off = (weights * mean) @ (probabilities - offsets)
        return scales * (off + weights @ (probabilities * (1 - probabilities) * difference))


def ask_table(gateway: Gateway, domain: Domain, records: int, noise: float) -> Measured[ItemCounts]:
    """Release the counts of all values of a table; the equal shares of the public number of rows are added again."""
    measured = ask(gateway, ScaledItems.of_table(domain), noise)
    shares = torch.tensor(measured.statistic.offsets).to(measured.value) * (records / STEPS)
    return Measured(ItemCounts(domain, len(domain.table_columns)), measured.value + shares, measured.std)


def _skewed(mean: Tensor, chances: Tensor, rises: Tensor) -> tuple[Tensor, Tensor]:
    """(k, nodes) values of s and their shares (nodes,), from its first three moments (Cornish and Fisher)."""
    nodes = torch.linspace(-4, 4, 33, device=mean.device)
    scatter = chances * (1 - chances)
    spread = (scatter @ rises**2).clamp(min=1e-9).sqrt()
    skew = (scatter * (1 - 2 * chances)) @ rises**3 / spread**3
    s = mean[:, None] + spread[:, None] * (nodes + skew[:, None].clamp(-3, 3) / 6 * (nodes**2 - 1))
    return s, torch.softmax(-(nodes**2) / 2, dim=0)


@dataclass(frozen=True)
class ScaledReading:
    """Shares of the records that hold each item; posterior means and deviations of the sums themselves."""

    released: Measured[ScaledItems]
    profile: Floats
    values: Floats
    stds: Floats


def read_scaled(scaled: Measured[ScaledItems], pilot: Floats, known: Known) -> ScaledReading:
    """Item frequencies from the scaled counts; those of the pilot release tell which records to expect."""
    statistic, records, rules = scaled.statistic, known.records, known.rules
    scales, offsets = statistic._numbers
    likely = statistic._likely(pilot, known)
    rises, nothing, limit = statistic.rises / STEPS**4, statistic.nothing / STEPS**4, statistic.limit / STEPS**4

    def weight(sizes: Floats) -> Floats:
        weights: Floats = np.sqrt(np.minimum(1.0, limit / np.maximum(sizes, 1e-9)))
        return weights

    # An item that is found in a record of n is one of the n.
    others = nothing + (likely.sizes - nothing) * (1 - 1 / np.maximum(likely.lengths, 1))
    grid = np.linspace(rises.min(), rises.max() + 1e-6, rules.bound.grid_points)
    mean_weights = [likely.shares @ weight(others + rise) for rise in grid]
    retained = np.maximum(np.interp(rises, grid, mean_weights), rules.read.least_weight)
    beyond = offsets * records * float(weight(likely.sizes).mean())
    counts, stds = shrink_alone(scaled.value.numpy() / scales + beyond, scaled.std / scales, rules.read.shrink)
    profile = possible_shares(counts / (retained * records), stds / retained, known)
    return ScaledReading(scaled, profile, scales * (counts - beyond), scales * stds)


def scaled_target(found: ScaledReading, known: Known, emphasis: float) -> Target[ScaledItems]:
    """The scaled counts as a target of a fit."""
    statistic = found.released.statistic
    size = np.array(statistic.scales, dtype=np.float32) / STEPS * (known.records * found.profile).astype(np.float32)
    scaling = statistic.scaling(known.rules.bound)
    return target_of(statistic, found.values, found.stds, scaling, emphasis, size)
