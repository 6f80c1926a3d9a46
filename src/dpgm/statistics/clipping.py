"""Down-weighting of long records in plain counts of items, pairs, triples and quadruples.

A record of n items has C(n, order) sets of `order` items. Records of more than `cap` items are down-weighted, so that
the vector of a record has a norm of at most sqrt(C(cap, order)): the sensitivity. This file holds the weights, the
choice of the cap, and the same down-weighted counts on a model. The moments of a mixture of products are exact: order 1
is w'p, order 2 p'diag(w)p, orders 3 and 4 the products of pairs. Each component's moments are multiplied by the mean
weight that its records would have had.
"""

from functools import lru_cache
from math import comb, floor, sqrt

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.data.domain import Domain
from dpgm.kernels.poisson_binomial import length_distribution
from dpgm.statistics.bounds import choose_bound, popular_sets, set_counts
from dpgm.statistics.record_lengths import ReleasedFacts
from dpgm.statistics.rules import ReadRules
from dpgm.statistics.statistic import FULL_WEIGHT, GRID, ScaleTerms, Scaling


@lru_cache(maxsize=64)
def clip_steps(longest: int, order: int, cap: int) -> Ints:
    """Weights of records of n = 0 .. `longest` items, in grid steps, rounded down.

    All C(n, order) sets together, each with weight min(1, sqrt(C(cap, order) / C(n, order))), have norm at most
    sqrt(C(cap, order)).

    >>> (clip_steps(6, 2, 4) * GRID).round(3).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.773, 0.629]
    """
    bound = comb(cap, order)
    steps = np.full(longest + 1, FULL_WEIGHT, dtype=np.int64)
    for n in range(cap + 1, longest + 1):
        steps[n] = floor(sqrt(bound / comb(n, order)) / GRID)
    steps.flags.writeable = False
    return steps


def clip_bound(order: int, cap: int) -> float:
    """The largest norm of a record's vector after `clip_steps`."""
    return sqrt(comb(cap, order))


def choose_cap(
    order: int, lengths: Floats, profile: Floats, known: ReleasedFacts, noise: float
) -> tuple[int, float]:
    """The cap that balances noise against the distortion by down-weighting, and its squared relative error.

    The error is that of popular sets of `order` items (`popular_sets`).
    """
    mass = lengths * set_counts(order, len(lengths))
    caps = list(range(order, len(lengths)))
    if mass.sum() <= 0 or not caps:
        return order, np.inf
    weights = (clip_steps(len(lengths) - 1, order, cap) * np.float64(GRID) for cap in caps)
    stds = noise * np.array([clip_bound(order, cap) for cap in caps])
    popular, wrong = popular_sets(order, lengths, profile, known), known.rules.bound.distortion[order - 1]
    cap, cost = choose_bound(caps, stds, weights, mass, popular, wrong)
    return int(cap), cost


# -- on a model ----------------------------------------------------------------------------------------------------


def longest_expected(lengths: Floats, size: int, rules: ReadRules) -> int:
    """The longest record, out of `size` positions, that a fit allows for: the longest seen and some room."""
    return int(min(size, len(lengths) + max(rules.room, len(lengths) // 2)))


def clipped_scaling(order: int, positions: Ints, cap: int, longest: int, domain: Domain) -> Scaling:
    """Mean weight, in every component, of records that hold a given set of `order` positions (see `moments`).

    Records that hold more than `cap` of the positions are down-weighted; lengths beyond `longest` are ignored.
    """
    weights = torch.from_numpy(clip_steps(longest, order, cap) * GRID).float()
    chosen = np.zeros(domain.width, dtype=np.bool_)
    chosen[positions] = True
    items = torch.from_numpy(np.flatnonzero(chosen & domain.item_positions))
    columns = [column.start + np.flatnonzero(chosen[column]) for column in domain.table_columns]
    values = [torch.from_numpy(column) for column in columns if len(column)]

    def scale(probabilities: Tensor) -> ScaleTerms:
        # A record's length is a sum of independent zeros and ones: one per item, one per table column.
        here = probabilities.device
        parts = [probabilities[:, items.to(here)]]
        parts += [probabilities[:, column.to(here)].sum(dim=1, keepdim=True).clamp(max=1.0) for column in values]
        chances = torch.cat(parts, dim=1)
        lengths = length_distribution(chances, min(len(weights), chances.shape[1] + 1) - 1)
        lengths = lengths / lengths.sum(dim=1, keepdim=True)
        longer = torch.cat([weights, weights[-1:].expand(order)]).to(lengths.device)
        unlikely = lengths @ longer[order : order + lengths.shape[1]]  # the set comes on top of the n others
        certain = lengths @ longer[: lengths.shape[1]]  # the set is among the n
        return unlikely, (unlikely - certain) / order

    return scale


def moments(order: int, chances: Tensor, weights: Tensor, level: Tensor, slope: Tensor) -> Tensor:
    """Moments of the mixture; a set's share in a component is multiplied by level - slope x (sum of its chances).

    From (k, T) chances: (T,) for order 1, (T, T) for order 2, (pairs, T) for 3, (pairs, pairs) for 4. `level` is the
    mean weight of records that hold a set of unlikely items, `slope` by how much it falls per likely item.
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
