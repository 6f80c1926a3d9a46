"""Two-stage item counts, the second stage: scales and offsets chosen by a pilot release, and how counts are read."""

from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from dpgm.products.bounds import choose_scaled_limit, draw_likely
from dpgm.products.noisy_items import Reading, possible_shares
from dpgm.products.rules import ProductRules
from dpgm.products.shrinkage import shrink_alone
from dpgm.products.targets import ScaledItemTarget
from dpgm.statistics.enumerated_sets import STEPS, offsets_near
from dpgm.statistics.scaled_items import ScaledItems
from dpgm.statistics.statistic import Measured

Floats: TypeAlias = NDArray[np.float64]


def scaled_items(profile: Floats, reading: Reading, records: int, noise: float, rules: ProductRules) -> ScaledItems:
    """Scales, offsets and bound that promise the smallest error of popular items.

    Args:
        profile: share of the records that hold each item, roughly.
        reading: the lengths.
        records: the public number of records.
        noise: multiplier.
        rules: tuned numbers.
    """
    domain = reading.domain
    tried = []
    for power, candidate in product(rules.bound.scale_powers, rules.bound.offset_candidates):
        weights = np.maximum(profile, rules.budget.sanity) ** -power
        scales = np.maximum(np.rint(STEPS * weights / weights.max()), 1).astype(np.int64)
        offsets = offsets_near(profile + candidate * (0.5 - profile))
        likely = draw_likely(
            np.array(offsets) / STEPS,
            np.arange(domain.width),
            profile,
            reading.whole,
            domain,
            rules.bound,
            scales / STEPS,
        )
        limit, cost = choose_scaled_limit(likely, scales / STEPS, profile, records, noise, rules)
        tried.append((cost, ScaledItems(domain, tuple(scales.tolist()), offsets, max(1, round(limit * STEPS**4)))))
    return min(tried, key=lambda found: found[0])[1]


@dataclass(frozen=True)
class ScaledReading:
    """Shares of the records that hold each item; posterior means and deviations of the sums themselves."""

    released: Measured[ScaledItems]
    profile: Floats
    values: Floats
    stds: Floats


def read_scaled(
    scaled: Measured[ScaledItems], pilot: Floats, reading: Reading, records: int, rules: ProductRules
) -> ScaledReading:
    """Item frequencies from the scaled counts.

    Args:
        scaled: the release.
        pilot: share of the records that hold each item by the pilot release; it tells which records to expect.
        reading: the lengths.
        records: the public number of records.
        rules: tuned numbers.
    """
    statistic = scaled.statistic
    scales, offsets = np.array(statistic.scales) / STEPS, np.array(statistic.offsets) / STEPS
    everything = np.arange(statistic.domain.width)
    likely = draw_likely(offsets, everything, pilot, reading.whole, statistic.domain, rules.bound, scales)
    rises, nothing, limit = statistic.rises / STEPS**4, statistic.nothing / STEPS**4, statistic.limit / STEPS**4

    def weight(sizes: Floats) -> Floats:
        weights: Floats = np.sqrt(np.minimum(1.0, limit / np.maximum(sizes, 1e-9)))
        return weights

    # An item that is found in a record of n is one of the n.
    others = nothing + (likely.sizes - nothing) * (1 - 1 / np.maximum(likely.lengths, 1))
    grid = np.linspace(rises.min(), rises.max() + 1e-6, rules.bound.grid_points)
    mean_weights = [likely.shares @ weight(others + rise) for rise in grid]
    kept = np.maximum(np.interp(rises, grid, mean_weights), rules.read.least_weight)
    beyond = offsets * records * float(weight(likely.sizes).mean())
    counts, stds = shrink_alone(scaled.value.numpy() / scales + beyond, scaled.std / scales, rules.read.shrink)
    profile = possible_shares(counts / (kept * records), stds / kept, records, rules.read)
    return ScaledReading(scaled, profile, scales * (counts - beyond), scales * stds)


def scaled_target(found: ScaledReading, records: int, emphasis: float, rules: ProductRules) -> ScaledItemTarget:
    """The scaled counts as a target of the fit."""
    statistic = found.released.statistic
    scales, offsets = (
        torch.tensor(of, dtype=torch.float32) / STEPS for of in (statistic.scales, statistic.offsets)
    )
    return ScaledItemTarget(
        scales=scales,
        offsets=offsets,
        limit=statistic.limit / STEPS**4,
        values=torch.from_numpy(found.values).float(),
        variances=torch.from_numpy(found.stds**2).float(),
        size=scales * torch.from_numpy(records * found.profile).float(),
        emphasis=emphasis,
        tolerance=rules.fit.descent.tolerance,
    )
