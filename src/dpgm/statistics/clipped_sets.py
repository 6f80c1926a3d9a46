"""Counts of sets of items, long records down-weighted: what item counts and counts of larger sets have in common.

The moments of a mixture of products are exact: order 1 is w'p, order 2 p'diag(w)p, orders 3 and 4 the products of
pairs. Long records were down-weighted when the counts were measured, so the model is asked for the same down-weighted
counts: each component's moments are scaled by the mean weight its records would have had.
"""

from collections.abc import Callable
from functools import lru_cache
from math import comb, floor, sqrt

import numpy as np
import torch
from torch import Tensor

from dpgm.compute.poisson_binomial import length_distribution
from dpgm.data.domain import Domain
from dpgm.statistics.bounds import choose_bound, popular_sets
from dpgm.statistics.rules import ReadRules, StatisticRules
from dpgm.statistics.statistic import GRID, Floats, Ints, Scale


@lru_cache(maxsize=64)
def _steps(longest: int, order: int, cap: int) -> Ints:
    bound = comb(cap, order)
    steps = np.full(longest + 1, round(1 / GRID), dtype=np.int64)
    for n in range(cap + 1, longest + 1):
        steps[n] = floor(sqrt(bound / comb(n, order)) / GRID)
    steps.flags.writeable = False
    return steps


def clip_steps(longest: int, order: int, cap: int) -> Ints:
    """Weight of a record of n = 0 .. `longest` items, in grid steps, rounded down.

    A record of n items has C(n, order) sets of `order` items; all of them together, each weighted by
    min(1, sqrt(C(cap, order) / C(n, order))), have norm at most sqrt(C(cap, order)).

    >>> (clip_steps(6, 2, 4) * GRID).round(3).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.773, 0.629]
    """
    return _steps(longest, order, cap)


def clip_bound(order: int, cap: int) -> float:
    """The norm that `clip_steps` keeps every record within."""
    return sqrt(comb(cap, order))


def choose_cap(
    order: int, lengths: Floats, profile: Floats, records: int, noise: float, rules: StatisticRules
) -> tuple[int, float]:
    """The bound on a record's items that balances noise against what down-weighting distorts, and its cost.

    Both are relative errors of a popular set of `order` items, rare ones taken as frequent enough to matter.

    Args:
        order: items in a set.
        lengths: share of the records that hold n = 0, 1, ... of the positions.
        profile: share of the records that hold each position.
        records: the public number of records.
        noise: multiplier.
        rules: tuned numbers.
    """
    sets = np.array([comb(n, order) for n in range(len(lengths))], dtype=np.float64)
    caps = list(range(order, len(lengths)))
    if (lengths * sets).sum() <= 0 or not caps:
        return order, np.inf
    candidates = [clip_steps(len(lengths) - 1, order, cap) * GRID for cap in caps]
    retained = np.array(
        [float((lengths * sets * weights).sum() / (lengths * sets).sum()) for weights in candidates]
    )
    popular = popular_sets(order, lengths, profile, records, rules)
    stds = noise * np.array([clip_bound(order, cap) for cap in caps])
    cap, cost = choose_bound(caps, popular.noise(stds, retained), popular.distortion(order, retained, rules.bound))
    return int(cap), cost


def longest_expected(lengths: Floats, size: int, rules: ReadRules) -> int:
    """Longest record the fit reckons with, out of `size` positions: what was seen, and some room."""
    return int(min(size, len(lengths) + max(rules.room, len(lengths) // 2)))


def clipped_scaling(
    order: int, positions: Ints, cap: int, longest: int, domain: Domain
) -> Callable[[Tensor], Scale]:
    """Mean weight, in every component, of records that hold a given set of positions (see `moments`).

    Args:
        order: positions in a set.
        positions: those whose sets are counted.
        cap: the bound on how many of them a record holds before it is down-weighted.
        longest: how many of them a record holds at most, for practical purposes.
        domain: the public domain.
    """
    weights = torch.from_numpy(clip_steps(longest, order, cap) * GRID).float()
    units = _units(domain, positions)

    def scale(probabilities: Tensor) -> Scale:
        chances = units(probabilities)
        lengths = length_distribution(chances, min(len(weights), chances.shape[1] + 1) - 1)
        lengths = lengths / lengths.sum(dim=1, keepdim=True)
        longer = torch.cat([weights, weights[-1:].expand(order)]).to(lengths.device)
        others = lengths @ longer[order : order + lengths.shape[1]]  # the set comes on top of n other ones
        members = lengths @ longer[: lengths.shape[1]]  # the set is among the n
        return others, (others - members) / order

    return scale


def moments(order: int, chances: Tensor, weights: Tensor, level: Tensor, slope: Tensor) -> Tensor:
    """Moments of the mixture, each set's share in a component scaled by level - slope x (sum of its chances).

    (T,) for order 1, (T, T) for order 2, (pairs, T) for order 3, (pairs, pairs) for order 4.

    Args:
        order: 1 to 4.
        chances: (k, T) probabilities of the positions.
        weights: (k,).
        level: (k,) mean weight of records that hold a set of unlikely items.
        slope: (k,) by how much it is smaller per likely item of the set.
    """
    level, slope = (weights * level)[:, None], (weights * slope)[:, None]
    if order == 1:
        return (chances * (level - slope * chances)).sum(dim=0)
    if order == 2:
        half = (chances * (0.5 * level - slope * chances)).T @ chances
        return half + half.T
    left, right = torch.triu_indices(chances.shape[1], chances.shape[1], 1, device=chances.device)
    first, second = chances.index_select(1, left), chances.index_select(1, right)
    pairs, sums = first * second, first + second
    if order == 3:
        return (pairs * (level - slope * sums)).T @ chances - (pairs * slope).T @ chances**2
    half = (pairs * (0.5 * level - slope * sums)).T @ pairs
    return half + half.T


def _units(domain: Domain, positions: Ints) -> Callable[[Tensor], Tensor]:
    """Chances of the independent zero-one units among `positions`: an item each, a table column together."""
    chosen = np.zeros(domain.width, dtype=np.bool_)
    chosen[positions] = True
    index = torch.from_numpy(np.flatnonzero(chosen & domain.item_positions))
    columns = [column.start + np.flatnonzero(chosen[column]) for column in domain.table_columns]
    joint = [torch.from_numpy(column) for column in columns if len(column)]

    def chances(probabilities: Tensor) -> Tensor:
        here = probabilities.device
        parts = [probabilities[:, index.to(here)]]
        parts += [probabilities[:, column.to(here)].sum(dim=1, keepdim=True).clamp(max=1.0) for column in joint]
        return torch.cat(parts, dim=1)

    return chances
