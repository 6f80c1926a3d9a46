"""Sums of products of features of two columns, for many pairs of columns at once.

Every column has features: a public vector phi(v) for each of its codes v, made from released numbers. For each pair of
columns i and j the statistic is the sum over the rows of w omega_ij phi_i(v_i) phi_j(v_j)', one number for each pair of
features. Three choices of features:

- `group_features`: codes are joined to groups of about equal weight, and phi is the indicator of the group, less the
  released shares of the groups: a table of groups for each pair;
- the same with a group per code: a table at full resolution;
- `rank_features`: an ordered column has polynomials of its mid-rank, so that a pair has one number or a few: its rank
  correlation. A missing value has rank 0 and an indicator of its own; an unordered column has those of its codes.

With u_i = |phi_i(v_i)|², the products of a row together have the norm sqrt(sum over pairs of omega_ij² u_i u_j). Rows
of a larger norm than `limit` are scaled down to it (the weight w), so the sensitivity is the limit. The limit is low,
and most rows are scaled down: whoever reads the sums computes the same weights on rows of a model (`PairFeatures`), so
that scaling down causes no bias. All is in whole steps: features in 1/64, emphasis omega in 1/4, weights in 1/256.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isqrt, sqrt
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.kernels.pair_kernels import add_pairs, read_pairs
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.statistics.coded_rows import Coding
from dpgm.statistics.statistic import FULL_WEIGHT, GRID, MARGIN, Descriptions

COARSE, FULL, SMOOTH = "coarse pairs", "full pairs", "rank pairs"
FEATURE_STEPS = 64  # features are whole multiples of 1 / FEATURE_STEPS
FOURTHS = 4  # the emphasis of a pair is a whole multiple of 1 / 4
AnyCodes: TypeAlias = NDArray[np.signedinteger[Any]]
_UNIT = FEATURE_STEPS**2 * FOURTHS  # steps of a product of two features with its emphasis


@dataclass(frozen=True, eq=False)
class Features:
    """The features of one column: the group of every code, the last one of rows without a value; phi of each group.

    `phi` is (groups + 1, k) in steps of 1 / FEATURE_STEPS; its last line, of rows without a value, is zero.
    """

    groups: Ints
    phi: Ints

    @cached_property
    def squares(self) -> Ints:
        """|phi|² of every group, in steps of 1 / FEATURE_STEPS²."""
        squares: Ints = (self.phi**2).sum(axis=1)
        return squares


def group_features(groups: Ints, shares: Floats) -> Features:
    """Indicators of the groups of the codes, less the shares of the groups: a row of a common group adds little."""
    count = int(groups.max()) + 1
    joined = np.bincount(groups, shares, minlength=count)
    phi = FEATURE_STEPS * np.eye(count + 1, count, dtype=np.int64) - np.rint(FEATURE_STEPS * joined).astype(
        np.int64
    )
    phi[count] = 0
    return Features(np.append(groups, count), phi)


def rank_features(ranks: Floats, shares: Floats, degree: int) -> Features:
    """Legendre polynomials of a column's ranks in [-1, 1], centred; a code without a rank has an indicator instead."""
    known = ~np.isnan(ranks)
    at = np.where(known, ranks, 0.0)
    powers = [at, 0.5 * (3 * at**2 - 1)][:degree]
    numbers = [np.where(known, one - (one * shares)[known].sum() / shares[known].sum(), 0.0) for one in powers]
    if not known.all():
        numbers.append(np.where(known, 0.0, 1.0) - shares[~known].sum())
    phi = np.rint(FEATURE_STEPS * np.stack(numbers, axis=1)).astype(np.int64)
    return Features(np.arange(len(ranks) + 1), np.vstack([phi, np.zeros_like(phi[:1])]))


def mid_ranks(order: Floats, shares: Floats) -> Floats:
    """The rank in [-1, 1] of every code: the middle of its share of the rows, by `order`; NaN where that is NaN.

    >>> mid_ranks(np.array([2.0, 1.0, np.nan]), np.array([0.25, 0.25, 0.5]))
    array([ 0.5, -0.5,  nan])
    """
    ranks = np.full(len(order), np.nan)
    known = np.flatnonzero(~np.isnan(order))
    known = known[np.argsort(order[known], kind="stable")]
    if len(known):
        own = shares[known] / max(float(shares[known].sum()), 1e-12)
        ranks[known] = 2 * (np.cumsum(own) - 0.5 * own) - 1
    return ranks


@dataclass(frozen=True, eq=False)
class PairBlocks:
    """Sums of products of features, for the pairs of columns (P, 2), whose emphasis is in steps of 1 / FOURTHS."""

    words: ClassVar[Descriptions] = {
        COARSE: Measures(
            "measure",
            "for pairs of columns, a table of groups of their values, centred",
            "the bound on a row's norm",
        ),
        FULL: Measures(
            "measure",
            "for the strongest pairs of columns, a table of all their values, centred",
            "the bound on a row's norm",
        ),
        SMOOTH: Measures(
            "measure",
            "for pairs of columns, products of ranks: their rank correlations",
            "the bound on a row's norm",
        ),
    }

    coding: Coding
    features: tuple[Features, ...]
    pairs: Ints
    emphasis: Ints
    limit: int  # on the squared norm, in steps
    name: str = COARSE

    def query(self) -> Query:
        """One number per pair of features; scaling down keeps every row within the norm of the limit."""
        return Query(self._sum, sqrt(self.limit) / _UNIT, (self.width,), grid=GRID / _UNIT)

    @cached_property
    def width(self) -> int:
        """How many numbers there are."""
        return sum(self.features[i].phi.shape[1] * self.features[j].phi.shape[1] for i, j in self.pairs.tolist())

    @cached_property
    def layout(self) -> "PairLayout":
        """Where the tables of the groups are."""
        return PairLayout(tuple(len(one.phi) for one in self.features), self.pairs)

    def groups(self, codes: Ints) -> Ints:
        """(n, columns): the groups of codes."""
        return np.stack([one.groups[own] for one, own in zip(self.features, codes.T, strict=True)], axis=1)

    def squared_norms(self, groups: Ints) -> Floats:
        """The squared norm of the products of every row, in steps; whole numbers far below 2^53, so exact."""
        squares = np.stack([one.squares[own] for one, own in zip(self.features, groups.T, strict=True)], axis=1)
        squares = squares.astype(np.float64)
        between = np.zeros((len(self.features), len(self.features)))
        between[self.pairs[:, 0], self.pairs[:, 1]] = self.emphasis.astype(np.float64) ** 2
        norms: Floats = ((squares @ between) * squares).sum(axis=1)
        return norms

    def weight_steps(self, groups: Ints) -> Ints:
        """The weights of rows in grid steps, rounded down."""
        norms = self.squared_norms(groups)
        scaled = np.floor(FULL_WEIGHT * MARGIN * np.sqrt(self.limit / np.maximum(norms, 1.0)))
        return np.where(norms <= self.limit, FULL_WEIGHT, scaled).astype(np.int64)

    def row_weights(self, groups: Ints) -> Floats:
        """The weights of rows."""
        return self.weight_steps(groups).astype(np.float64) * GRID

    def _sum(self, view: View) -> Tensor:
        tables = self.layout.zeros(np.int64)
        for chunk in view.rows.pieces():
            groups = self.groups(self.coding.codes(chunk))
            self.layout.add(groups, self.weight_steps(groups), tables)
        phis = [one.phi for one in self.features]
        sums = [omega * part for omega, part in zip(self.emphasis, self.layout.project(tables, phis), strict=True)]
        return torch.from_numpy(np.concatenate([part.ravel() for part in sums]))


def limit_at(blocks: PairBlocks, likely: Ints, quantile: float) -> int:
    """The squared norm, in steps, that the given share of likely rows does not exceed; at least one step."""
    return max(1, isqrt(int(np.quantile(blocks.squared_norms(blocks.groups(likely)), quantile))) ** 2)


@dataclass(frozen=True)
class PairLayout:
    """Tables of groups of one pair after the other, in one flat array."""

    sizes: tuple[int, ...]  # groups of every column
    pairs: Ints

    @cached_property
    def _places(self) -> tuple[Ints, Ints, Ints]:
        """Where each table starts, the length of its rows, and the number of all cells."""
        rows, strides = (np.array(self.sizes, dtype=np.int64)[self.pairs[:, at]] for at in (0, 1))
        ends = np.cumsum(rows * strides)
        return ends - rows * strides, strides, ends[-1:]

    def zeros(self, kind: type[np.generic]) -> np.ndarray:
        """Empty tables."""
        ends = self._places[2]
        return np.zeros(int(ends[0]) if len(ends) else 0, dtype=kind)

    def add(self, groups: AnyCodes, weights: np.ndarray, tables: np.ndarray) -> None:
        """Add the weight of every row to its cell of every table."""
        starts, strides, _ = self._places
        add_pairs(groups, self.pairs, starts, strides, weights, tables)

    def read(self, groups: AnyCodes, tables: Floats) -> Floats:
        """For every row, the sum of its cells."""
        starts, strides, _ = self._places
        return read_pairs(groups, self.pairs, starts, strides, tables)

    def table(self, tables: np.ndarray, pair: int) -> np.ndarray:
        """A view of the table of one pair."""
        starts, strides, _ = self._places
        rows, stride = self.sizes[self.pairs[pair, 0]], int(strides[pair])
        return tables[int(starts[pair]) : int(starts[pair]) + rows * stride].reshape(rows, stride)

    def project(self, tables: np.ndarray, phis: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For every pair, phi_i' table phi_j."""
        return [phis[i].T @ self.table(tables, at) @ phis[j] for at, (i, j) in enumerate(self.pairs.tolist())]


class PairFeatures:
    """The same products on rows of a pool, scaled down in the same way (`tilting.tilt.PoolFeatures`)."""

    def __init__(self, blocks: PairBlocks, codes: Ints) -> None:
        self._layout, self._pairs = blocks.layout, blocks.pairs.tolist()
        groups = blocks.groups(codes)
        self._groups, self._weights = np.ascontiguousarray(groups.astype(np.int32)), blocks.row_weights(groups)
        self._phis = [one.phi / FEATURE_STEPS for one in blocks.features]
        self._emphasis = (blocks.emphasis / FOURTHS).tolist()

    def energies(self, theta: Tensor) -> Tensor:
        """(n,): the parameters times what every row adds."""
        return torch.from_numpy(self._weights * self._layout.read(self._groups, self.tables(theta)))

    def sums(self, weights: Tensor) -> Tensor:
        """The sums over the rows with the given weights."""
        return self._added(weights, 1)

    def squares(self, weights: Tensor) -> Tensor:
        """The sums of squares over the rows with the given weights."""
        return self._added(weights, 2)

    def _added(self, weights: Tensor, power: int) -> Tensor:
        tables = self._layout.zeros(np.float64)
        self._layout.add(self._groups, weights.numpy() * self._weights**power, tables)
        parts = self._layout.project(tables, [one**power for one in self._phis])
        pairs = zip(self._emphasis, parts, strict=True)
        return torch.from_numpy(np.concatenate([omega**power * part.ravel() for omega, part in pairs]))

    def tables(self, theta: Tensor) -> Floats:
        """The energy of every cell of every pair before scaling down, flat."""
        numbers, tables, at = theta.numpy(), self._layout.zeros(np.float64), 0
        for pair, (i, j) in enumerate(self._pairs):
            first, second = self._phis[i], self._phis[j]
            size = first.shape[1] * second.shape[1]
            own = self._emphasis[pair] * numbers[at : at + size].reshape(first.shape[1], second.shape[1])
            self._layout.table(tables, pair)[:] = first @ own @ second.T
            at += size
        return tables
