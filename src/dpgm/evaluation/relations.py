"""Signed rank correlations of every pair of ordered traits, in all rows and within groups of rows.

Ordered are numbers, dates, times between dates, numbers of items, and whatever has two values. The correlation of a
pair is Spearman's, over the rows that have both values. Its error is taken from the data themselves (the delta method
on the moments of the ranks), so that pairs of rare values are not trusted more than they deserve.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from dpgm.arrays import Floats
from dpgm.evaluation.evidence import clear, needed_evidence, surely
from dpgm.evaluation.traits import Trait, TraitPart

_FEWEST = 20  # rows with both values, on either side; fewer say nothing about a relation
_FEWEST_VARYING = 20  # rows that differ from the most frequent value, about: fewer may all be one coincidence
_FEWEST_OF_GROUP = 100  # rows with both values within a group
_MOST_CELLS = 400_000_000  # products of two ranks that are summed on either side: about two seconds
_FEWEST_ROWS = 5000  # rows that are used however many traits there are
_KEPT = 100  # gaps that are kept
_TIE = 1e-6  # of effects that chance may nearly explain, the largest comes first


@dataclass(frozen=True)
class RelationGap:
    """A rank correlation that differs beyond chance, in all rows or in a group of them.

    Attributes:
        names: the two traits.
        within: the values of the group; None for all rows.
        real: the correlation in the real rows.
        synthetic: in the synthetic rows.
        real_rows: real rows of the group.
        share: the group's share of the real rows.
        effect: how far they differ (see `relation_effect`).
        surely: the part that chance does not explain.
    """

    names: tuple[str, str]
    within: TraitPart | None
    real: float
    synthetic: float
    real_rows: int
    share: float
    effect: float
    surely: float


@dataclass(frozen=True)
class RankRelations:
    """Rank correlations of the ordered traits in all rows, 0 where they cannot be known, and what is off.

    Attributes:
        names: the traits, in the order of the matrices.
        real: correlations of the real rows.
        synthetic: of the synthetic rows.
        error: standard error of their difference.
        gaps: pairs that differ beyond chance, largest first.
        group_gaps: pairs that differ so within a group of rows, and not as much in all rows.
    """

    names: tuple[str, ...]
    real: Floats
    synthetic: Floats
    error: Floats
    gaps: tuple[RelationGap, ...] = ()
    group_gaps: tuple[RelationGap, ...] = ()

    @property
    def comparisons(self) -> int:
        """The number of pairs."""
        return len(self.names) * (len(self.names) - 1) // 2


@dataclass(frozen=True)
class _Ranks:
    """Ranks of one side, scaled to -1 to 1, 0 where missing; and where there are values, (traits, rows)."""

    scores: Floats
    present: Floats

    def of(self, traits: NDArray[np.bool_]) -> "_Ranks":
        return _Ranks(self.scores[traits], self.present[traits])

    def take(self, rows: NDArray[np.bool_]) -> "_Ranks":
        return _Ranks(self.scores[:, rows], self.present[:, rows])


def relation_effect(real: Floats, synthetic: Floats) -> Floats:
    """How far correlations differ: their difference or, if both are strong, half of that of their angles.

    So .999 and .97 differ by .1: what one trait leaves open of the other has become fifty times as much.

    >>> relation_effect(np.array([0.1, 0.999]), np.array([0.3, 0.97])).round(2).tolist()
    [0.2, 0.1]
    """
    angle = np.abs(np.arcsin(real) - np.arcsin(synthetic)) / 2
    result: Floats = np.maximum(np.abs(real - synthetic), angle)
    return result


def rank_relations(traits: Sequence[Trait], limit: float, false_alarm: float) -> RankRelations:
    """Correlate the ranks of every pair of ordered traits that share no column.

    Args:
        traits: all traits; those without an order are groups of rows only.
        limit: an effect that is worth mentioning.
        false_alarm: probability that any pair differs in two samples of one population; the same of groups.
    """
    chosen = [trait for trait in traits if trait.values is not None]
    names = tuple(trait.name for trait in chosen)
    if len(chosen) < 2:
        empty = np.zeros((len(chosen), len(chosen)))
        return RankRelations(names, empty, empty, empty + 1)
    rows = max(len(side) for side in traits[0].cells)
    step = -(-rows // max(_MOST_CELLS // len(chosen) ** 2, _FEWEST_ROWS)) or 1
    sides = [_ranks(chosen, at, step) for at in (0, 1)]
    real, synthetic, error = _compare(sides, _apart(chosen), _FEWEST)
    pairs = len(chosen) * (len(chosen) - 1) // 2
    gaps = list(_gaps(names, real, synthetic, error, limit, needed_evidence(pairs, false_alarm)))
    drift = np.zeros(real.shape)
    for gap in gaps:
        a, b = (names.index(name) for name in gap.names)
        drift[a, b] = drift[b, a] = gap.synthetic - gap.real
    # Traits of two values are compared within groups as shares already.
    many = np.array([trait.in_order > 2 for trait in chosen])
    within = list(
        _within_groups(
            traits,
            [trait for trait in chosen if trait.in_order > 2],
            [side.of(many) for side in sides],
            drift[np.ix_(many, many)],
            limit,
            false_alarm,
            step,
        )
    )
    return RankRelations(names, real, synthetic, error, _largest(gaps), _largest(within))


def _apart(traits: Sequence[Trait]) -> NDArray[np.bool_]:
    """Which pairs of traits share no column."""
    return np.array([[not {*a.columns} & {*b.columns} for b in traits] for a in traits])


def _largest(gaps: Sequence[RelationGap]) -> tuple[RelationGap, ...]:
    return tuple(sorted(gaps, key=lambda gap: (-gap.surely, -gap.effect))[:_KEPT])


def _ranks(traits: Sequence[Trait], side: int, step: int) -> _Ranks:
    rows = len(traits[0].cells[side][::step])
    scores, present = np.zeros((2, len(traits), rows))
    for at, trait in enumerate(traits):
        assert trait.values is not None
        values = trait.values[side][::step]
        there = ~np.isnan(values)
        present[at] = there
        if there.any():
            ranks = rankdata(values[there])
            scores[at, there] = 2 * (ranks - ranks.mean()) / len(ranks)
    return _Ranks(scores, present)


def _compare(sides: Sequence[_Ranks], apart: NDArray[np.bool_], fewest: int) -> tuple[Floats, Floats, Floats]:
    """Correlations of both sides, 0 where they cannot be known, and standard errors of their differences."""
    (real, variance, rows), (synthetic, other_variance, other_rows) = (_moments(side) for side in sides)
    known = apart & (rows >= fewest) & (other_rows >= fewest)
    error = np.where(known, np.sqrt(variance + other_variance), 1.0)
    return np.where(known, real, 0.0), np.where(known, synthetic, 0.0), error


def _gaps(
    names: Sequence[str], real: Floats, synthetic: Floats, error: Floats, limit: float, needed: float
) -> Iterator[RelationGap]:
    evidence = ((real - synthetic) / np.maximum(error, 1e-12)) ** 2
    effects = clear(relation_effect(real, synthetic), evidence, needed)
    sure = surely(effects, evidence, needed)
    for a, b in zip(*np.nonzero(np.triu(effects, 1) > limit), strict=True):
        figures = (float(matrix[a, b]) for matrix in (effects, sure))
        yield RelationGap((names[a], names[b]), None, float(real[a, b]), float(synthetic[a, b]), 0, 1.0, *figures)


def _within_groups(
    groupings: Sequence[Trait],
    traits: Sequence[Trait],
    sides: Sequence[_Ranks],
    drift: Floats,
    limit: float,
    false_alarm: float,
    step: int,
) -> Iterator[RelationGap]:
    """The worst pair of every group of rows; what is off in all rows is said again of groups that are far worse."""
    if len(traits) < 2:
        return
    apart = _apart(traits)
    groups = sum(trait.groups for trait in groupings)
    needed = needed_evidence(groups * len(traits) * (len(traits) - 1) / 2, false_alarm)
    at_place = {trait.name: at for at, trait in enumerate(traits)}
    for by in groupings:
        own = np.array([bool({*by.columns} & {*trait.columns}) for trait in traits])
        if by.name in at_place:
            own |= drift[at_place[by.name]] != 0  # then groups of it hold other rows
        free = apart & ~own[:, None] & ~own[None, :]
        group_of = [by.group_of[cells[::step]] for cells in by.cells]
        worst: RelationGap | None = None
        for group in range(by.groups):
            inside = [codes == group for codes in group_of]
            rows = [int(side.sum()) for side in inside]
            if min(rows) < _FEWEST_OF_GROUP or not free.any():
                continue
            parts = [side.take(at) for side, at in zip(sides, inside, strict=True)]
            real, synthetic, error = _compare(parts, free, _FEWEST_OF_GROUP)
            evidence = ((real - synthetic) / np.maximum(error, 1e-12)) ** 2
            # What is off in all rows is said of these, unless it is far worse in the group.
            beyond = np.abs(synthetic - real - drift)
            size = np.where(beyond > np.abs(drift), np.minimum(relation_effect(real, synthetic), beyond), 0.0)
            effects = np.triu(clear(size, evidence, needed), 1)
            if effects.max() <= limit:
                continue
            sure = surely(effects, evidence, needed)
            a, b = (int(at) for at in np.unravel_index(int((sure + _TIE * effects).argmax()), effects.shape))
            if worst is None or (sure[a, b], effects[a, b]) > (worst.surely, worst.effect):
                figures = (float(real[a, b]), float(synthetic[a, b]), rows[0] * step, rows[0] / len(inside[0]))
                last = (float(effects[a, b]), float(sure[a, b]))
                worst = RelationGap((traits[a].name, traits[b].name), by.group(group), *figures, *last)
        if worst is not None:
            yield worst


def _moments(side: _Ranks) -> tuple[Floats, Floats, Floats]:
    """Rank correlations of all pairs, their variances, and the rows with both values, 0 if these hardly vary."""
    squares = side.scores * side.scores
    powers = [side.present, side.scores, squares, squares * side.scores, squares * squares]
    rows = side.present @ side.present.T

    def mean(a: int, b: int) -> Floats:
        result: Floats = powers[a] @ powers[b].T / np.maximum(rows, 1)
        return result

    raw = {(a, b): mean(a, b) for a in range(5) for b in range(5 - a) if a >= b}
    raw |= {(b, a): value.T for (a, b), value in raw.items()}
    r, variance, varying = _correlation(raw, rows)
    return r, variance, np.where(varying >= _FEWEST_VARYING, rows, 0.0)


def _correlation(raw: dict[tuple[int, int], Floats], rows: Floats) -> tuple[Floats, Floats, Floats]:
    """Correlations, their variances and the rows that vary, from raw moments up to the fourth order."""
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
    variance = np.where(varies, np.maximum(variance, least), 1.0) / np.maximum(rows, 1)
    # Of a trait of two values, of which k rows have the rarer one, the fourth moment is about rows / k.
    varying = np.where(varies, rows / np.maximum(np.maximum(u4, v4), 1e-12), 0.0)
    return r, variance, varying


_BINOMIAL = ((1,), (1, 1), (1, 2, 1), (1, 3, 3, 1), (1, 4, 6, 4, 1))
