"""Every trait within every group of rows: shares of its cells, of the values up to a point, and of missing values.

The groups are the values of every categorical column, popular values and ranges of ordered ones, rows without a value,
rows whose list holds an item; and all rows. What is found in two columns, or in one alone, is not said again of three.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Codes, Floats
from dpgm.data.kinds.base import ColumnKind
from dpgm.evaluation.shares import angles, beyond, deviances, needed_evidence
from dpgm.evaluation.traits import Trait

Outcome: TypeAlias = Literal["value", "missing", "up_to"]
_SMALLEST_SHARE, _SMALLEST_ROWS = 0.005, 100  # a group is judged from here on, whichever is less ...
_FEWEST = 20  # ... but never with fewer real rows
_MOST_VISITS = 400_000_000  # rows times pairs of traits, on either side: a few seconds
_FEWEST_ROWS = 5000  # rows that are used however many traits there are
_KEPT = 200  # gaps that are kept, largest first
_FEATURES = 48  # yes-or-no features, of which every three are compared
_ROWS_OF_THREE = 20_000  # rows in which every three features are compared


@dataclass(frozen=True)
class GroupGap:
    """A share within a group that differs beyond chance.

    Attributes:
        group: the rows in words; empty for all rows.
        traits: what decides which rows these are.
        trait: what differs in these rows.
        text: the rows counted, in words: "age up to 17", "bill = 0", "weight missing".
        outcome: whether a value, missing values, or all values up to a point are counted.
        share: the group's share of the real rows.
        real_rows: real rows of the group.
        real: the share of them that is counted.
        synthetic: that share of the group's synthetic rows.
        synthetic_rows: synthetic rows of the group.
        effect: the part of the difference that chance does not explain.
        medians: the medians of the trait in the group, if it has an order.
        kind: how values of the trait are written.
        columns: the columns that the trait is made of.
    """

    group: str
    traits: tuple[str, ...]
    trait: str
    text: str
    outcome: Outcome
    share: float
    real_rows: int
    real: float
    synthetic: float
    synthetic_rows: int
    effect: float
    medians: tuple[float, float] | None = None
    kind: ColumnKind = "category"
    columns: tuple[str, ...] = ()

    @property
    def impossible(self) -> bool:
        """Whether no real row of the group has what some synthetic rows have."""
        return bool(self.traits) and self.real == 0

    @property
    def impossible_rows(self) -> int:
        """Synthetic rows that no real row resembles."""
        return round(self.synthetic_rows * self.synthetic)


@dataclass(frozen=True)
class Groups:
    """The gaps of all groups, largest first, and how much evidence each had to exceed."""

    comparisons: int
    needed: float
    alone: tuple[GroupGap, ...]  # in all rows, at most one for each trait
    pairs: tuple[GroupGap, ...]  # within groups of one trait, at most one for each pair of traits
    triples: tuple[GroupGap, ...]  # within groups of two traits


@dataclass(frozen=True)
class _Table:
    """Counts of one trait within groups: shares of its cells, then of the values up to each cell in order."""

    counts: tuple[Floats, Floats]  # (groups, outcomes) of both sides
    of: tuple[Floats, Floats]


def compare_groups(traits: Sequence[Trait], limit: float, false_alarm: float, other_comparisons: int = 0) -> Groups:
    """Compare every trait in all rows, in every group of another trait, and in groups of two traits.

    Args:
        traits: what to compare.
        limit: an effect that is worth mentioning: smaller ones are not kept.
        false_alarm: probability that anything is found in two samples of one population.
        other_comparisons: comparisons elsewhere that share this probability.
    """
    paired = [trait for trait in traits if not trait.alone]
    features = _features(paired)
    outcomes = sum(_outcomes(trait) for trait in traits)
    groups = sum(int(trait.group_of.max(initial=-1)) + 1 for trait in paired)
    comparisons = outcomes * (1 + groups) + 2 * len(features) ** 3 + other_comparisons
    needed = needed_evidence(comparisons, false_alarm)
    alone, drift = [], {}
    for trait in traits:
        table = _all_rows(trait)
        effects, angle = _effects(table, needed)
        # What is off in all rows is not held against the groups: only the difference from it is.
        drift[trait.name] = np.where(effects > limit, angle, 0.0)[0]
        if effects.max(initial=0.0) > limit:
            alone.append(_gap(table, effects, trait, None))
    pairs = list(_pair_gaps(paired, drift, limit, needed))
    off = {frozenset([*gap.traits, gap.trait]) for gap in pairs} | {frozenset([gap.trait]) for gap in alone}
    triples = list(_triple_gaps(paired, features, off, limit, needed))
    return Groups(
        comparisons, needed, *(tuple(sorted(gaps, key=_by_effect)[:_KEPT]) for gaps in (alone, pairs, triples))
    )


def _by_effect(gap: GroupGap) -> float:
    return -gap.effect


def _outcomes(trait: Trait) -> int:
    return trait.width + max(trait.in_order - 1, 0)


def _cells_and_cuts(counts: Codes, trait: Trait) -> tuple[Floats, Floats]:
    """Counts per group and cell as counts of outcomes, and the rows that each is a share of."""
    cells = counts.astype(np.float64)
    inside = cells[:, : trait.in_order]
    cuts = np.cumsum(inside, axis=1)[:, :-1]
    of = np.broadcast_to(cells.sum(axis=1, keepdims=True), cells.shape)
    of_cuts = np.broadcast_to(inside.sum(axis=1, keepdims=True), cuts.shape)
    return np.concatenate([cells, cuts], axis=1), np.concatenate([of, of_cuts], axis=1)


def _table(counts: Sequence[Codes], trait: Trait) -> _Table:
    (real, real_of), (synthetic, synthetic_of) = (_cells_and_cuts(side, trait) for side in counts)
    return _Table((real, synthetic), (real_of, synthetic_of))


def _all_rows(trait: Trait) -> _Table:
    return _table([side[None, :] for side in trait.counts], trait)


def _effects(table: _Table, needed: float, drift: Floats | None = None) -> tuple[Floats, Floats]:
    """Effects beyond chance, and the signed differences of angles."""
    (real, synthetic), (real_of, synthetic_of) = table.counts, table.of
    signed = angles(synthetic, synthetic_of) - angles(real, real_of)
    signed = np.where((real_of > 0) & (synthetic_of > 0), signed, 0.0)
    size = np.abs(signed) if drift is None else np.minimum(np.abs(signed), np.abs(signed - drift))
    return beyond(size, deviances(real, real_of, synthetic, synthetic_of), needed), signed


def _gap(table: _Table, effects: Floats, trait: Trait, by: Trait | None) -> GroupGap:
    """The largest effect of a table, in words and numbers."""
    group, outcome = (int(at) for at in np.unravel_index(int(effects.argmax()), effects.shape))
    if trait.width == 2 and not trait.in_order:
        outcome = 1  # the share of the other value says the same: "yes" reads better than "no"
    shares = [
        float(c[group, outcome] / max(of[group, outcome], 1)) for c, of in zip(table.counts, table.of, strict=True)
    ]
    text, kind = _outcome_text(trait, outcome, shares)
    if kind == "above":
        shares, kind = [1 - share for share in shares], "up_to"
    inside = [np.ones(len(side), dtype=bool) for side in trait.cells]
    if by is not None:
        inside = [by.group_of[side] == group for side in by.cells]
    rows = [int(side.sum()) for side in inside]
    return GroupGap(
        group="" if by is None else by.group_text(group),
        traits=() if by is None else (by.name,),
        trait=trait.name,
        text=text,
        outcome=kind,  # type: ignore[arg-type]
        share=rows[0] / max(len(inside[0]), 1),
        real_rows=rows[0],
        real=shares[0],
        synthetic=shares[1],
        synthetic_rows=rows[1],
        effect=float(effects[group, outcome]),
        medians=_medians(trait, inside),
        kind=trait.kind,
        columns=tuple(sorted(trait.sources)),
    )


def _outcome_text(trait: Trait, outcome: int, shares: Sequence[float]) -> tuple[str, str]:
    if outcome >= trait.width:
        cell = outcome - trait.width
        return (trait.above(cell), "above") if shares[0] > shares[1] else (trait.up_to(cell), "up_to")
    return trait.cell_text(outcome), "missing" if outcome == trait.missing else "value"


def _medians(trait: Trait, inside: Sequence[NDArray[np.bool_]]) -> tuple[float, float] | None:
    if trait.values is None or trait.kind == "category":
        return None
    found = []
    for values, rows in zip(trait.values, inside, strict=True):
        there = values[rows & ~np.isnan(values)]
        if not len(there):
            return None
        found.append(float(np.median(there)))
    return found[0], found[1]


def _pair_gaps(
    traits: Sequence[Trait], drift: dict[str, Floats], limit: float, needed: float
) -> Iterator[GroupGap]:
    """The largest gap of every pair of traits, of the one within groups of the other or the other way round."""
    if not traits:
        return
    step = _step(max(map(len, traits[0].cells)), len(traits) ** 2)
    thin = [[side[::step] for side in trait.cells] for trait in traits]
    least = _least_rows(len(thin[0][0]))
    for a, b in combinations(range(len(traits)), 2):
        first, last = traits[a], traits[b]
        if first.sources & last.sources:
            continue
        joint = [
            np.bincount(x * last.width + y, minlength=first.width * last.width).reshape(first.width, last.width)
            for x, y in zip(thin[a], thin[b], strict=True)
        ]
        best: tuple[float, _Table, Floats, Trait, Trait] | None = None
        for by, trait, counts in ((first, last, joint), (last, first, [side.T for side in joint])):
            table = _table([_grouped(side, by.group_of) for side in counts], trait)
            large = table.of[0][:, :1] >= least
            effects, _ = _effects(table, needed, drift[trait.name])
            effects = np.where(large, effects, 0.0)
            worst = float(effects.max(initial=0.0))
            if worst > limit and (best is None or worst > best[0]):
                best = worst, table, effects, trait, by
        if best is not None:
            yield _gap(*best[1:])


def _step(rows: int, pairs: int) -> int:
    """Every how manieth row is used, so that all pairs of traits take a few seconds."""
    return -(-rows // max(_MOST_VISITS // max(pairs, 1), _FEWEST_ROWS)) or 1


def _least_rows(rows: int) -> float:
    return max(_FEWEST, min(_SMALLEST_ROWS, _SMALLEST_SHARE * rows))


def _grouped(counts: Codes, group_of: Codes) -> Codes:
    """Rows of counts summed over the cells of each group; groups are neighbours."""
    starts = np.flatnonzero(np.diff(group_of, prepend=-1))
    result: Codes = np.add.reduceat(counts, starts, axis=0)
    return result


@dataclass(frozen=True)
class _Feature:
    """A yes-or-no property of rows: a cell of a trait, or its values up to a cell."""

    trait: Trait
    low: int
    high: int

    def rows(self, side: int, step: int) -> NDArray[np.bool_]:
        cells = self.trait.cells[side][::step]
        return (cells >= self.low) & (cells <= self.high)

    def text(self, held: bool = True) -> str:
        """The rows that have the feature, or those that do not, in words."""
        if self.high > self.low or (self.low == 0 and self.trait.in_order > 1):
            return self.trait.up_to(self.high) if held else self.trait.above(self.high)
        if not held and self.trait.width == 2:
            return self.trait.cell_text(1 - self.low)
        text = self.trait.cell_text(self.low)
        if held:
            return text
        return (
            f"{self.trait.name} present"
            if self.low == self.trait.missing
            else text.replace(" = ", " other than ", 1)
        )


def _features(traits: Sequence[Trait]) -> list[_Feature]:
    """Features of as many traits as possible, first the most balanced one of each, evenly spread over the traits."""
    found: list[list[_Feature]] = []
    for trait in traits:
        counts = trait.counts[0] + trait.counts[1]
        total = max(int(counts.sum()), 1)
        options = [_Feature(trait, cell, cell) for cell in range(trait.in_order, trait.width)]
        sizes = [int(counts[option.low]) for option in options]
        upto = np.cumsum(counts[: trait.in_order])
        if trait.in_order > 1:
            half = int(np.abs(upto[:-1] - upto[-1] / 2).argmin())
            options.append(_Feature(trait, 0, half))
            sizes.append(int(upto[half]))
            popular = int(counts[: trait.in_order].argmax())
            if popular > 0:
                options.append(_Feature(trait, popular, popular))
                sizes.append(int(counts[popular]))
        if trait.width == 2:
            options, sizes = options[:1], sizes[:1]
        balance = [abs(size / total - 1 / 2) for size in sizes]
        order = np.argsort(balance, kind="stable")
        found.append([options[at] for at in order if balance[at] < 1 / 2 - _SMALLEST_SHARE])
    ranked = [one for place in range(3) for options in found for one in options[place : place + 1]]
    firsts = sum(bool(options) for options in found)
    if firsts > _FEATURES:
        return [ranked[at] for at in np.linspace(0, firsts - 1, _FEATURES).round().astype(int)]
    return ranked[:_FEATURES]


def _triple_gaps(
    traits: Sequence[Trait], features: Sequence[_Feature], off: set[frozenset[str]], limit: float, needed: float
) -> Iterator[GroupGap]:
    """Shares of a feature within groups of two others; not where two of the three traits are off already."""
    if len(features) < 3:
        return
    size = len(features)
    steps = [-(-len(side) // _ROWS_OF_THREE) or 1 for side in traits[0].cells]
    held = [np.stack([f.rows(at, steps[at]) for f in features]).astype(np.float32) for at in (0, 1)]
    names = [feature.trait.name for feature in features]
    paired = np.array([[bool(a.trait.sources & b.trait.sources) for b in features] for a in features])
    known = np.array([[frozenset([a, b]) in off or frozenset([a]) in off for b in names] for a in names])
    passed = paired | known | known.T
    least = _least_rows(held[0].shape[1])
    drift = _drift(held)
    for i in range(size):
        tables = [_three(side, i) for side in held]
        for without_i, without_j in ((0, 0), (0, 1), (1, 0), (1, 1)):
            (real, real_of), (synthetic, synthetic_of) = (
                _group_of_two(one, without_i, without_j) for one in tables
            )
            table = _Table((real, synthetic), (real_of, synthetic_of))
            effects, signed = _effects(table, needed)
            # What the pairs of features say already is no interaction of three.
            expected = [drift[2], drift[without_i][i][None, :], drift[without_j]]
            size_alone = np.min([np.abs(signed), *(np.abs(signed - one) for one in expected)], axis=0)
            effects *= np.divide(size_alone, np.abs(signed), out=np.zeros_like(signed), where=signed != 0)
            skip = passed | passed[i][:, None] | passed[i][None, :] | (real_of < least)
            skip[: i + 1] = True  # every pair of groups once
            effects = np.where(skip, 0.0, effects)
            for j, k in zip(*np.nonzero(effects > limit), strict=True):
                texts = features[i].text(not without_i), features[j].text(not without_j)
                shares = float(real[j, k] / real_of[j, k]), float(synthetic[j, k] / synthetic_of[j, k])
                rows = int(real_of[j, k]), int(synthetic_of[j, k])
                yield GroupGap(
                    " and ".join(texts), (names[i], names[j]), names[k], features[k].text(), "value",
                    rows[0] / held[0].shape[1], rows[0], shares[0], shares[1], rows[1], float(effects[j, k]),
                )  # fmt: skip


def _drift(held: Sequence[NDArray[np.float32]]) -> list[Floats]:
    """Differences of angles of feature k among rows with feature j, among those without, and among all, (j, k)."""
    found: list[list[Floats]] = [[], [], []]
    for side in held:
        joint = (side @ side.T).astype(np.float64)
        single = np.diag(joint)
        found[0].append(angles(joint, single[:, None]))
        found[1].append(angles(single[None, :] - joint, side.shape[1] - single[:, None]))
        found[2].append(angles(single[None, :], np.full((1, 1), float(side.shape[1]))))
    return [synthetic - real for real, synthetic in found]


def _three(held: NDArray[np.float32], i: int) -> NDArray[np.float64]:
    """Rows with feature j and k, among those with and among those without feature i."""
    inside = held[:, held[i] > 0]
    with_i = (inside @ inside.T).astype(np.float64)
    without_i = (held @ held.T).astype(np.float64) - with_i
    return np.stack([with_i, without_i, np.full_like(with_i, held.shape[1]), np.full_like(with_i, inside.shape[1])])


def _group_of_two(table: NDArray[np.float64], within: int, not_j: int) -> tuple[Floats, Floats]:
    """Rows with feature k, and all rows, of the group (i or not i) and (j or not j)."""
    joint = table[within]
    rows = table[3][0, 0] if within == 0 else table[2][0, 0] - table[3][0, 0]
    single = np.diag(joint)
    if not_j:
        counts, of = single[None, :] - joint, rows - single
    else:
        counts, of = joint, single
    return counts, np.broadcast_to(of[:, None], joint.shape)
