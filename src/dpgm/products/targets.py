"""Targets of the fit: moments, centred moments and record lengths, as measured and as a mixture predicts them.

The moments of a mixture of products are exact: order 1 is w'p, order 2 p'diag(w)p, orders 3 and 4 the products of
pairs. Long records were down-weighted when the statistics were measured, so the model predicts the same
down-weighted statistic: each component's moments are scaled by the mean weight its records would have had.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.products.length_law import length_law
from dpgm.products.rules import RULES

Scale: TypeAlias = tuple[Tensor, Tensor]  # of every component's moments: a level and a slope


class Target(Protocol):
    """Measured numbers, and the same numbers of a mixture of products."""

    @property
    def values(self) -> Tensor:
        """What should be shown, as counts."""
        ...

    @property
    def variances(self) -> Tensor:
        """Of the values; infinite where nothing was measured."""
        ...

    @property
    def size(self) -> Tensor:
        """The counts that relative errors are relative to."""
        ...

    @property
    def tolerance(self) -> float:
        """Relative errors below this do not matter."""
        ...

    @property
    def emphasis(self) -> float | Tensor:
        """Weight of these numbers in the fit, of all alike or of each."""
        ...

    def scaling(self, domain: Domain) -> Callable[[Tensor], Scale]:
        """How down-weighting of records scales the moments of components with given probabilities (k, m)."""
        ...

    def predicted(self, probabilities: Tensor, weights: Tensor, scale: Scale) -> Tensor:
        """What the mixture shows, as shares of the records; differentiable."""
        ...


@dataclass(frozen=True)
class MomentTarget:
    """What the model should show for the sets of `order` positions out of `positions`.

    `values` and `variances` are (T,) for order 1, (T, T) for order 2, (pairs, T) for order 3, (pairs, pairs) for
    order 4; an infinite variance means "not measured". `kept` is the weight of a record with n = 0, 1, ... of
    the positions.
    """

    order: int
    positions: Tensor
    kept: Tensor
    values: Tensor
    variances: Tensor
    emphasis: float | Tensor = 1.0
    tolerance: float = RULES.fit.descent.tolerance  # relative errors below this do not matter

    @property
    def size(self) -> Tensor:
        """The counts themselves."""
        return self.values.clamp(min=0)

    def scaling(self, domain: Domain) -> Callable[[Tensor], Scale]:
        """Mean weight, in every component, of records that hold a given set (see `moments`)."""
        units = _units(domain, self.positions)
        return lambda probabilities: _retention(self, units(probabilities))

    def predicted(self, probabilities: Tensor, weights: Tensor, scale: Scale) -> Tensor:
        """Share of the records that hold each set, weighted."""
        return moments(self.order, probabilities.index_select(1, self.positions), weights, *scale)


@dataclass(frozen=True)
class ScaledItemTarget:
    """Sums of scale_i (x_i - offset_i) over records of weight min(1, sqrt(limit / s)), for all positions.

    s is the sum of scale_i² (x_i - offset_i)².
    """

    scales: Tensor
    offsets: Tensor
    limit: float
    values: Tensor
    variances: Tensor
    size: Tensor
    emphasis: float = 1.0
    tolerance: float = RULES.fit.descent.tolerance

    def scaling(self, domain: Domain) -> Callable[[Tensor], Scale]:
        """Mean weight of every component's records, and by how much that of records that hold an item differs."""
        rises, nothing = self.scales**2 * (1 - 2 * self.offsets), ((self.scales * self.offsets) ** 2).sum()
        grid = torch.linspace(float(rises.min()), float(rises.max()) + 1e-6, RULES.bound.grid_points)
        near = (1 - (rises - grid[:, None]).abs() / (grid[1] - grid[0])).clamp(min=0)

        def scale(chances: Tensor) -> Scale:
            s, shares = _skewed(nothing + chances @ rises, chances, rises)
            mean = (self._weight(s) * shares).sum(dim=1)
            with_item = torch.stack([(self._weight(s + rise) * shares).sum(dim=1) for rise in grid], dim=1)
            return mean, (with_item - mean[:, None]) @ near

        return scale

    def _weight(self, s: Tensor) -> Tensor:
        return (self.limit / s.clamp(min=1e-9)).sqrt().clamp(max=1.0)

    def predicted(self, probabilities: Tensor, weights: Tensor, scale: Scale) -> Tensor:
        """Mean of each sum over the records, weighted."""
        mean, difference = scale
        off = (weights * mean) @ (probabilities - self.offsets)
        return self.scales * (off + weights @ (probabilities * (1 - probabilities) * difference))


@dataclass(frozen=True)
class CentredTarget:
    """Sums of (x_i - offset_i)(x_j - offset_j) over records of weight min(1, limit / s), as (T, T) matrices.

    s is the sum of (x_i - offset_i)² over the positions.
    """

    positions: Tensor
    owners: Tensor  # the number of each position's item or table column
    offsets: Tensor
    limit: float
    values: Tensor
    variances: Tensor
    size: Tensor
    emphasis: float | Tensor = 1.0
    tolerance: float = RULES.fit.descent.tolerance

    def scaling(self, domain: Domain) -> Callable[[Tensor], Scale]:
        """Mean weight of every component's records, and how it falls as s grows; s taken as normal."""
        nodes = torch.linspace(-4, 4, 33)
        shares = torch.softmax(-(nodes**2) / 2, dim=0)

        def scale(probabilities: Tensor) -> Scale:
            chances, rise = probabilities.index_select(1, self.positions), 1 - 2 * self.offsets
            mean = (self.offsets**2).sum() + chances @ rise
            joint = _column_sums(chances * rise, self.owners)
            spread = (chances @ rise**2 - (joint**2).sum(dim=1)).clamp(min=1e-6).sqrt()
            s = (mean[:, None] + spread[:, None] * nodes).clamp(min=RULES.bound.least_size)
            weight = (self.limit / s).clamp(max=1.0) * shares
            return weight.sum(dim=1), (weight * nodes).sum(dim=1) / spread

        return scale

    def predicted(self, probabilities: Tensor, weights: Tensor, scale: Scale) -> Tensor:
        """Mean of each centred product over the records, weighted: to first order in how s depends on i and j."""
        chances, rise = probabilities.index_select(1, self.positions), 1 - 2 * self.offsets
        level, slope = (weights * scale[0])[:, None], (weights * scale[1])[:, None]
        off = chances - self.offsets
        # Of x_i and s, which grows by rise_i where x_i = 1, less what other values of the column would have added.
        covariance = chances * (rise - _column_sums(chances * rise, self.owners).index_select(1, self.owners))
        half = (0.5 * level * off + slope * covariance).T @ off
        return half + half.T


@dataclass(frozen=True)
class LengthTarget:
    """Counts of records by groups of lengths: `groups[n]` is the group of length n = 0 .. longest.

    A length is the number of items among `positions`.
    """

    positions: Tensor
    groups: Tensor
    values: Tensor
    variances: Tensor
    emphasis: float = 1.0
    tolerance: float = RULES.fit.descent.tolerance

    @property
    def size(self) -> Tensor:
        """The counts themselves."""
        return self.values

    def scaling(self, domain: Domain) -> Callable[[Tensor], Scale]:
        """All records weigh alike."""
        return lambda probabilities: (probabilities.new_ones(()), probabilities.new_zeros(()))

    def predicted(self, probabilities: Tensor, weights: Tensor, scale: Scale) -> Tensor:
        """Share of the records in each group."""
        law = length_law(probabilities.index_select(1, self.positions), len(self.groups) - 1)
        return torch.zeros(len(self.values)).index_add(0, self.groups, weights @ law)


def moments(order: int, chances: Tensor, weights: Tensor, level: Tensor, slope: Tensor) -> Tensor:
    """Moments of the mixture, each set's share in a component scaled by level - slope x (sum of its chances).

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
    left, right = torch.triu_indices(chances.shape[1], chances.shape[1], 1)
    first, second = chances.index_select(1, left), chances.index_select(1, right)
    pairs, sums = first * second, first + second
    if order == 3:
        return (pairs * (level - slope * sums)).T @ chances - (pairs * slope).T @ chances**2
    half = (pairs * (0.5 * level - slope * sums)).T @ pairs
    return half + half.T


def _retention(target: MomentTarget, chances: Tensor) -> tuple[Tensor, Tensor]:
    """Mean weight, in every component, of records that hold a given set (see `moments`)."""
    law = length_law(chances, min(len(target.kept), chances.shape[1] + 1) - 1)
    law = law / law.sum(dim=1, keepdim=True)
    kept = torch.cat([target.kept, target.kept[-1:].expand(target.order)])
    others = law @ kept[target.order : target.order + law.shape[1]]  # the set comes on top of n other ones
    members = law @ kept[: law.shape[1]]  # the set is among the n
    return others, (others - members) / target.order


def _skewed(mean: Tensor, chances: Tensor, rises: Tensor) -> tuple[Tensor, Tensor]:
    """(k, nodes) values of s and their shares (nodes,), from its first three moments (Cornish and Fisher)."""
    nodes = torch.linspace(-4, 4, 33)
    scatter = chances * (1 - chances)
    spread = (scatter @ rises**2).clamp(min=1e-9).sqrt()
    skew = (scatter * (1 - 2 * chances)) @ rises**3 / spread**3
    s = mean[:, None] + spread[:, None] * (nodes + skew[:, None].clamp(-3, 3) / 6 * (nodes**2 - 1))
    return s, torch.softmax(-(nodes**2) / 2, dim=0)


def _column_sums(values: Tensor, owners: Tensor) -> Tensor:
    """(k, T) summed over the positions of each item or column; as wide as before, at the end zeros."""
    return torch.zeros_like(values).index_add(1, owners, values)


def _units(domain: Domain, positions: Tensor) -> Callable[[Tensor], Tensor]:
    """Chances of the independent zero-one units among `positions`: an item each, a table column together."""
    chosen = np.zeros(domain.width, dtype=np.bool_)
    chosen[positions.numpy()] = True
    index = torch.from_numpy(np.flatnonzero(chosen & domain.item_positions))
    columns = [column.start + np.flatnonzero(chosen[column]) for column in domain.table_columns]
    joint = [torch.from_numpy(column) for column in columns if len(column)]

    def chances(probabilities: Tensor) -> Tensor:
        parts = [probabilities[:, index]]
        parts += [probabilities[:, column].sum(dim=1, keepdim=True).clamp(max=1.0) for column in joint]
        return torch.cat(parts, dim=1)

    return chances
