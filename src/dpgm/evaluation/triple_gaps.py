"""Interactions of three traits: yes-or-no features of rows, and every feature within groups of two others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Floats
from dpgm.evaluation.evidence import angles, clear, deviances, needed_evidence, surely
from dpgm.evaluation.group_gaps import apart, least_rows
from dpgm.evaluation.share_gaps import Gaps, ShareGap, largest
from dpgm.evaluation.traits import Trait, TraitPart

_FEATURES = 72  # features of which every three are compared: two or three of 30 columns, one of 72
_MOST_ROWS = 20_000  # rows in which they are compared
_RAREST = 0.01  # share of the rows below which a feature says little about others
_SIDES = ((0, 0), (0, 1), (1, 0), (1, 1))  # of two features: held, not held


@dataclass(frozen=True, eq=False)
class _Feature:
    """A yes-or-no property of rows: a cell of a trait, or its values up to a cell."""

    trait: Trait
    low: int
    high: int

    def rows(self, side: int, step: int) -> NDArray[np.float32]:
        """1 for every row that has it, 0 for the others."""
        cells = self.trait.cells[side][::step]
        return ((cells >= self.low) & (cells <= self.high)).astype(np.float32)

    def cells(self, held: int = 0) -> TraitPart:
        """The values of the rows that have the feature (0), or of those that do not (1)."""
        if self.low < self.high or (self.low == 0 and self.trait.in_order > 1):
            return self.trait.above(self.high) if held else self.trait.up_to(self.high)
        return self.trait.all_but(self.low) if held else self.trait.cells_of(self.low, self.low)


@dataclass(frozen=True)
class _Counts:
    """Rows of one side with features j and k, (j, k), among all rows and among those with a third feature."""

    rows: float
    rows_inside: float
    joint: Floats
    joint_inside: Floats

    def group(self, without_i: int, without_j: int) -> tuple[Floats, Floats]:
        """Rows with feature k among those with (or without) i and j, and all these rows."""
        joint = self.joint - self.joint_inside if without_i else self.joint_inside
        rows = self.rows - self.rows_inside if without_i else self.rows_inside
        single = np.diag(joint)
        counts, of = (single[None, :] - joint, rows - single) if without_j else (joint, single)
        return counts, np.broadcast_to(of[:, None], joint.shape)


def compare_triples(traits: Sequence[Trait], known: Sequence[ShareGap], limit: float, false_alarm: float) -> Gaps:
    """Compare every feature within groups of two others.

    Args:
        traits: what to compare.
        known: gaps of one and of two traits, which are not said again of three.
        limit: an effect that is worth mentioning.
        false_alarm: probability that anything is found in two samples of one population.
    """
    features = _features(traits)
    size = len(features)
    if size < 3:
        return Gaps()
    steps = [-(-len(side) // _MOST_ROWS) or 1 for side in traits[0].cells]
    held = [np.stack([feature.rows(at, steps[at]) for feature in features]) for at in (0, 1)]
    skipped = _skipped(features, known)
    least = 2 * least_rows(min(side.shape[1] for side in held))
    comparisons = len(_SIDES) * int((~skipped).sum()) * size // 2
    needed = needed_evidence(comparisons, false_alarm)
    joints = [side @ side.T for side in held]
    drift = _pair_drift(joints, [side.shape[1] for side in held])
    found: dict[frozenset[str], ShareGap] = {}
    for i in range(size):
        counts = [_counts(side, joint, i) for side, joint in zip(held, joints, strict=True)]
        skip = skipped | skipped[i][:, None] | skipped[i][None, :]
        skip[: i + 1] = True  # every pair of groups once
        for sides in _SIDES:
            for gap in _gaps_of_three(features, i, sides, counts, drift, skip, limit, needed, least):
                best = found.get(gap.traits)
                if best is None or (gap.surely, gap.effect) > (best.surely, best.effect):
                    found[gap.traits] = gap
    return largest([*found.values()], comparisons)


def _gaps_of_three(
    features: Sequence[_Feature],
    i: int,
    sides: tuple[int, int],
    counts: Sequence[_Counts],
    drift: Sequence[Floats],
    skip: NDArray[np.bool_],
    limit: float,
    needed: float,
    least: float,
) -> Iterator[ShareGap]:
    (real, real_of), (synthetic, synthetic_of) = (side.group(*sides) for side in counts)
    signed = angles(synthetic, synthetic_of) - angles(real, real_of)
    # What single features and pairs of them are off by is no interaction of three.
    expected = (0.0, drift[2], drift[sides[0]][i][None, :], drift[sides[1]])
    size = np.min([np.abs(signed - one) for one in expected], axis=0)
    evidence = deviances(real, real_of, synthetic, synthetic_of)
    effects = clear(np.where(skip | (real_of + synthetic_of < least), 0.0, size), evidence, needed)
    sure = surely(effects, evidence, needed)
    for j, k in zip(*np.nonzero(effects > limit), strict=True):
        yield ShareGap(
            what=features[k].cells(),
            within=(features[i].cells(sides[0]), features[j].cells(sides[1])),
            real=float(real[j, k] / max(real_of[j, k], 1)),
            synthetic=float(synthetic[j, k] / max(synthetic_of[j, k], 1)),
            real_rows=int(real_of[j, k]),
            synthetic_rows=int(synthetic_of[j, k]),
            share=float(real_of[j, k] / counts[0].rows),
            effect=float(effects[j, k]),
            surely=float(sure[j, k]),
            columns=features[k].trait.columns,
        )


def _counts(held: NDArray[np.float32], joint: NDArray[np.float32], i: int) -> _Counts:
    inside = held[:, held[i] > 0]
    return _Counts(held.shape[1], inside.shape[1], joint.astype(np.float64), (inside @ inside.T).astype(np.float64))


def _pair_drift(joints: Sequence[NDArray[np.float32]], rows: Sequence[int]) -> list[Floats]:
    """Differences of the angle of feature k among rows with feature j, among those without, and among all, (j, k)."""
    found: list[list[Floats]] = [[], [], []]
    for side, count in zip(joints, rows, strict=True):
        joint = side.astype(np.float64)
        single = np.diag(joint)
        found[0].append(angles(joint, single[:, None]))
        found[1].append(angles(single[None, :] - joint, count - single[:, None]))
        found[2].append(angles(single[None, :], np.full((1, 1), float(count))))
    return [synthetic - real for real, synthetic in found]


def _skipped(features: Sequence[_Feature], known: Sequence[ShareGap]) -> NDArray[np.bool_]:
    """Pairs of features that share a column or are off by themselves."""
    off = {gap.traits for gap in known}
    skipped = np.zeros((len(features), len(features)), dtype=np.bool_)
    for at, first in enumerate(features):
        for other, last in enumerate(features):
            names = first.trait.name, last.trait.name
            said = any(frozenset(one) in off for one in (names, names[:1], names[1:]))
            skipped[at, other] = said or not apart(first.trait, last.trait)
    return skipped


def _features(traits: Sequence[Trait]) -> list[_Feature]:
    """Features of as many traits as possible, first the most balanced one of each, evenly spread over the traits."""
    found = [options for trait in traits if (options := _features_of(trait))]
    if len(found) > _FEATURES:
        return [found[at][0] for at in np.linspace(0, len(found) - 1, _FEATURES).round().astype(int)]
    most = max(map(len, found), default=0)
    return [one for place in range(most) for options in found for one in options[place : place + 1]][:_FEATURES]


def _features_of(trait: Trait) -> list[_Feature]:
    """The cells of a trait that are not in order, halves, and the most popular value, the most balanced first."""
    counts = trait.counts[0] + trait.counts[1]
    options = {_Feature(trait, cell, cell): int(counts[cell]) for cell in range(trait.in_order, trait.width)}
    if trait.in_order > 1:
        upto = np.cumsum(counts[: trait.in_order])
        half = int(np.abs(upto[:-1] - upto[-1] / 2).argmin())
        options[_Feature(trait, 0, half)] = int(upto[half])
        popular = int(counts[: trait.in_order].argmax())
        if popular:
            options[_Feature(trait, popular, popular)] = int(counts[popular])
    shares = {option: size / max(counts.sum(), 1) for option, size in options.items()}
    balanced = sorted(shares, key=lambda option: abs(shares[option] - 1 / 2))
    if trait.width == 2:
        balanced = balanced[:1]
    return [option for option in balanced if _RAREST < shares[option] < 1 - _RAREST]
