"""Targets of a fit with given values, of records that were not down-weighted."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.statistics.clipping import clipped_scaling
from dpgm.statistics.item_counts import ItemCounts
from dpgm.statistics.item_tuples import ItemTuples
from dpgm.statistics.record_lengths import LengthGroups
from dpgm.statistics.statistic import Target, unscaled


def item_counts(domain: Domain, values: Tensor, variances: Tensor, emphasis: float = 1.0) -> Target[ItemCounts]:
    """Records that hold each position."""
    width = domain.width
    items = ItemCounts(domain, cap=width)
    scaling = clipped_scaling(1, np.arange(width), width, width, domain)
    return Target(items, values, variances, values, scaling, emphasis)


def pair_counts(domain: Domain, values: Tensor, variances: Tensor) -> Target[ItemTuples]:
    """Records that hold each pair of positions, as a matrix."""
    width = domain.width
    pairs = ItemTuples(domain, tuple(range(width)), 2, cap=width)
    return Target(pairs, values, variances, values, clipped_scaling(2, pairs.positions, width, width, domain))


def length_counts(positions: Sequence[int], values: Tensor, variances: Tensor) -> Target[LengthGroups]:
    """Records that hold 0, 1, ... of the positions."""
    groups = LengthGroups(tuple(positions), tuple(range(len(values))))
    return Target(groups, values, variances, values.clamp(min=torch.zeros(())), unscaled)
