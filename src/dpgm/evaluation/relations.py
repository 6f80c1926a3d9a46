"""Signed rank correlations of every pair of ordered traits, real and synthetic, each with its standard error.

Ordered are numbers, dates, times between dates, numbers of items, and whatever has two values. The correlation of a
pair is Spearman's, over the rows that have both values. Its error is taken from the data themselves (the delta method
on the moments of the ranks), so that pairs of rare values are not trusted more than they deserve.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from dpgm.arrays import Floats
from dpgm.evaluation.shares import beyond
from dpgm.evaluation.traits import Trait

_FEWEST = 20  # rows with both values, on either side; fewer say nothing about a relation
_MOST_CELLS = 400_000_000  # products of two ranks that are summed on either side: about two seconds
_FEWEST_ROWS = 5000  # rows that are used however many traits there are


@dataclass(frozen=True)
class RankRelations:
    """Rank correlations of the ordered traits: matrices in the order of `names`, 0 where they cannot be known."""

    names: tuple[str, ...]
    real: Floats
    synthetic: Floats
    error: Floats  # standard error of the difference

    @property
    def comparisons(self) -> int:
        """The number of pairs."""
        return len(self.names) * (len(self.names) - 1) // 2


@dataclass(frozen=True)
class RelationGap:
    """The rank correlation of a pair of traits, and the part of its difference that chance does not explain."""

    first: str
    last: str
    real: float
    synthetic: float
    effect: float


def rank_relations(traits: Sequence[Trait]) -> RankRelations:
    """Correlate the ranks of every pair of ordered traits that share no column."""
    chosen = [trait for trait in traits if trait.values is not None and not trait.alone]
    sides = [_moments([trait.values[at] for trait in chosen if trait.values is not None]) for at in (0, 1)]
    apart = np.array([[not (a.sources & b.sources) for b in chosen] for a in chosen], dtype=bool)
    known = apart.reshape(len(chosen), len(chosen))
    for _, _, rows in sides:
        known = known & (rows >= _FEWEST)
    real, synthetic = (np.where(known, correlation, 0.0) for correlation, _, _ in sides)
    error = np.sqrt(sides[0][1] + sides[1][1])
    return RankRelations(tuple(trait.name for trait in chosen), real, synthetic, np.where(known, error, 1.0))


def relation_gaps(relations: RankRelations, needed: float) -> list[RelationGap]:
    """All pairs whose correlation differs beyond chance, the largest difference first."""
    gaps = np.abs(relations.real - relations.synthetic)
    effects = np.triu(beyond(gaps, (gaps / np.maximum(relations.error, 1e-12)) ** 2, needed), 1)
    found = []
    for a, b in zip(*np.nonzero(effects), strict=True):
        figures = (float(side[a, b]) for side in (relations.real, relations.synthetic, effects))
        found.append(RelationGap(relations.names[a], relations.names[b], *figures))
    return sorted(found, key=lambda gap: -gap.effect)


def _moments(columns: Sequence[Floats]) -> tuple[Floats, Floats, Floats]:
    """Rank correlations of all pairs, their variances, and the numbers of rows with both values."""
    size = len(columns)
    if not size:
        return np.empty((0, 0)), np.empty((0, 0)), np.empty((0, 0))
    step = -(-len(columns[0]) // max(_MOST_CELLS // size**2, _FEWEST_ROWS)) or 1
    scores, present = np.zeros((2, size, len(columns[0][::step])))
    for at, column in enumerate(columns):
        values = column[::step]
        there = ~np.isnan(values)
        present[at] = there
        if there.any():
            ranks = rankdata(values[there])
            scores[at, there] = 2 * (ranks - ranks.mean()) / len(ranks)
    powers = [present, scores, scores**2, scores**3, scores**4]
    rows = present @ present.T

    def mean(a: int, b: int) -> Floats:
        result: Floats = powers[a] @ powers[b].T / np.maximum(rows, 1)
        return result

    raw = {(a, b): mean(a, b) for a in range(5) for b in range(5 - a) if a >= b}
    raw |= {(b, a): value.T for (a, b), value in raw.items()}
    return *_correlation(raw, rows), rows


def _correlation(raw: dict[tuple[int, int], Floats], rows: Floats) -> tuple[Floats, Floats]:
    """Correlations and their variances from the raw moments of all pairs, up to the fourth order."""
    x, y = raw[1, 0], raw[0, 1]

    def central(a: int, b: int) -> Floats:
        total = np.zeros_like(x)
        for i in range(a + 1):
            for j in range(b + 1):
                total += _BINOMIAL[a][i] * _BINOMIAL[b][j] * raw[i, j] * (-x) ** (a - i) * (-y) ** (b - j)
        return total

    spread = [np.maximum(central(2, 0), 0), np.maximum(central(0, 2), 0)]
    varies = (spread[0] > 1e-12) & (spread[1] > 1e-12)
    sx, sy = (np.sqrt(np.where(varies, side, 1.0)) for side in spread)
    r = np.where(varies, np.clip(central(1, 1) / (sx * sy), -1.0, 1.0), 0.0)
    # Variance of u v - r (u^2 + v^2) / 2 with u and v in standard units, whose mean is 0.
    uv, u4, v4 = central(2, 2) / (sx * sy) ** 2, central(4, 0) / sx**4, central(0, 4) / sy**4
    u3v, uv3 = central(3, 1) / (sx**3 * sy), central(1, 3) / (sx * sy**3)
    variance = uv - r * (u3v + uv3) + r**2 / 4 * (u4 + v4 + 2 * uv)
    # A sample in which one value depends on the other exactly still comes from a population that may be less strict.
    least = (1 - r**2) ** 2 + 1 / np.maximum(rows, 1)
    return r, np.where(varies, np.maximum(variance, least), 1.0) / np.maximum(rows, 1)


_BINOMIAL = ((1,), (1, 1), (1, 2, 1), (1, 3, 3, 1), (1, 4, 6, 4, 1))
