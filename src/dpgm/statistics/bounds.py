"""Chooses how far long records are scaled down: the bound that balances noise against distortion.

A larger bound distorts long records less but needs more noise. Both errors are estimated as relative errors of popular
sets of items, from lengths and frequencies that were released before.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.statistics.record_lengths import ReleasedFacts
from dpgm.statistics.rules import BoundRules
from dpgm.statistics.statistic import STEPS


class Popular(NamedTuple):
    """Mean relative errors of popular sets."""

    noise: float  # caused by noise of standard deviation 1
    distortion: float  # if the counts were completely wrong


def choose_bound(
    candidates: Sequence[float],
    stds: Floats,
    weights: Iterable[Floats],
    mass: Floats,
    popular: Popular,
    wrong: float,
) -> tuple[float, float]:
    """The candidate with the smallest squared error, noise² + distortion², and that error; the first of equal ones.

    Args:
        candidates: bounds to choose from.
        stds: standard deviation of the noise, for each candidate.
        weights: weights of records of every kind, for each candidate.
        mass: share of what is counted that is found in records of every kind.
        popular: mean relative errors of popular sets.
        wrong: relative error of the correction for what is cut.
    """
    retained = np.array([float((mass * weight).sum() / mass.sum()) for weight in weights])
    noise = stds / retained * popular.noise
    distortion = wrong * (1 - retained) / retained * popular.distortion
    costs = np.nan_to_num(noise**2 + distortion**2, nan=np.inf)
    best = int(np.argmin(costs))
    return candidates[best], float(costs[best])


def set_counts(order: int, lengths: int) -> Floats:
    """C(n, order) for n = 0 .. lengths - 1: the number of sets of `order` items in a record of n items."""
    return np.array([comb(n, order) for n in range(lengths)], dtype=np.float64)


def popular_sets(order: int, lengths: Floats, profile: Floats, known: ReleasedFacts) -> Popular:
    """Errors of sets of `order` items drawn by popularity, given the lengths and the frequencies of positions."""
    count, records = known.rules.bound.popular_sets, known.records
    draws = np.random.default_rng(0).choice(len(profile), size=(count, order), p=profile / profile.sum())
    sets = (lengths * set_counts(order, len(lengths))).sum()
    lift = sets * np.prod(np.arange(1, order + 1)) / max(profile.sum(), 1e-12) ** order
    expected = np.minimum(records * lift * profile[draws].prod(axis=1), records * profile[draws].min(axis=1))
    yardstick = np.maximum(expected, known.rules.sanity * records)
    return Popular(float((1 / yardstick).mean()), float((expected / yardstick).mean()))


# -- centred statistics: records are scaled down by s, the sum of scale_i² (x_i - offset_i)² -----------------------


@dataclass(frozen=True)
class LikelyRecords:
    """Random records with independent items and columns: their s and their numbers of items."""

    sizes: Floats
    lengths: Ints

    @property
    def shares(self) -> Floats:
        """Probability that an occurrence of an item is in each record: proportional to its length."""
        counted = self.lengths if self.lengths.any() else np.ones(len(self.lengths))
        shares: Floats = counted / counted.sum()
        return shares


def draw_likely(
    offsets: Floats,
    chosen: Ints,
    profile: Floats,
    lengths: Floats,
    known: ReleasedFacts,
    scales: Floats | float = 1.0,
) -> LikelyRecords:
    """Random records from what was released; `lengths` counts the chosen items, not the table columns."""
    domain, rules = known.domain, known.rules.bound
    count = rules.likely_records
    draws = np.random.default_rng(0)
    sizes = np.full(count, float(((scales * offsets) ** 2).sum()))
    item_counts = np.zeros(count, dtype=np.int64)
    rise = np.zeros(domain.width)  # how much s grows if a record holds a position
    rise[chosen] = np.square(scales) * (1 - 2 * offsets)
    for column in domain.table_columns:
        chances = profile[column]
        sizes += draws.choice(rise[column], count, p=chances / chances.sum())
    items = chosen[domain.item_positions[chosen]]
    if len(items) and lengths[1:].sum() > 0:
        item_counts = draws.choice(len(lengths), count, p=lengths / lengths.sum())
        sizes += _random_sums(rise[items], profile[items], item_counts, draws, rules.distinct_items)
    return LikelyRecords(np.maximum(sizes, rules.least_size), item_counts)


def _random_sums(rise: Floats, chances: Floats, lengths: Ints, draws: np.random.Generator, distinct: int) -> Floats:
    """Sums of `rise` over `lengths` random items each; up to `distinct` items are drawn without repetition."""
    count = len(lengths)
    if len(rise) > distinct:
        drawn = draws.choice(len(rise), int(lengths.sum()), p=chances / chances.sum())
        return np.bincount(np.repeat(np.arange(count), lengths), rise[drawn], minlength=count).astype(np.float64)
    keys = np.log(chances) - np.log1p(-chances) + draws.gumbel(size=(count, len(rise)))
    running = np.cumsum(rise[np.argsort(-keys, axis=1)], axis=1)
    last = np.minimum(lengths, len(rise)) - 1
    sums: Floats = np.where(last >= 0, running[np.arange(count), last], 0.0)
    return sums


def candidate_limits(sizes: Floats, rules: BoundRules) -> list[float]:
    """Candidate bounds: quantiles of the sizes of likely records."""
    limits = np.unique(np.quantile(sizes, np.linspace(rules.first_quantile, 1, rules.candidates)))
    return [float(limit) for limit in limits]


def normal_nodes(device: torch.device) -> tuple[Tensor, Tensor]:
    """Quadrature nodes and weights for the mean of a function of a standard normal number."""
    nodes = torch.linspace(-4, 4, 33, device=device)
    return nodes, torch.softmax(-(nodes**2) / 2, dim=0)


def offsets_near(frequencies: Floats) -> tuple[int, ...]:
    """The frequencies rounded to steps of 1 / STEPS."""
    return tuple(int(step) for step in np.clip(np.rint(STEPS * frequencies), 0, STEPS))
