"""Shares of rows compared: of the values of a trait, and of its values up to a point, in all rows or in groups."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Codes, Floats
from dpgm.evaluation.evidence import angles, clear, deviances, needed_each, surely
from dpgm.evaluation.traits import Trait, TraitPart

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class ShareGap:
    """A share of rows that differs beyond chance.

    Attributes:
        what: the rows that are counted, ...
        within: ... among the rows with all of these values; none: all rows.
        real: their share among the real rows of the group.
        synthetic: the same of the synthetic rows.
        real_rows: real rows of the group.
        synthetic_rows: synthetic rows of the group.
        share: the group's share of all real rows.
        effect: difference of the arcsine square roots of the two shares.
        surely: the part of the effect that chance does not explain.
        columns: the columns that the counted trait is made of.
        medians: of the counted trait in the group, if it has an order.
    """

    what: TraitPart
    within: tuple[TraitPart, ...]
    real: float
    synthetic: float
    real_rows: int
    synthetic_rows: int
    share: float
    effect: float
    surely: float
    columns: tuple[str, ...] = ()
    medians: tuple[float, float] | None = None

    @property
    def impossible(self) -> bool:
        """Whether no real row of the group has what some synthetic rows have."""
        return bool(self.within) and self.real == 0

    @property
    def traits(self) -> frozenset[str]:
        """The names of all traits concerned."""
        return frozenset([self.what.trait, *(cells.trait for cells in self.within)])


@dataclass(frozen=True)
class Gaps:
    """Share gaps of one family of comparisons, largest first; `count` may be more than are kept."""

    kept: tuple[ShareGap, ...] = ()
    count: int = 0
    comparisons: int = 0


_KEPT = 200  # gaps of a family that are kept
# Part of the limit: a value that no real row has, or a gap where none has one, may break what reads them.
_NONE_REAL = 1 / 3
_TIE = 1e-6  # of effects that chance may nearly explain, the largest comes first


def largest(gaps: Sequence[ShareGap], comparisons: int) -> Gaps:
    """The gaps in order, and no more of them than anyone reads."""
    in_order = sorted(gaps, key=lambda gap: (-gap.surely, -gap.effect))
    return Gaps(tuple(in_order[:_KEPT]), len(gaps), comparisons)


@dataclass(frozen=True)
class ShareTable:
    """One trait in groups of rows: shares of its cells, then of the values up to each cell in order.

    Attributes:
        real: counts of real rows, (groups, cells and cuts).
        synthetic: the same of synthetic rows.
        real_of: of how many real rows they are a share.
        synthetic_of: of how many synthetic rows.
    """

    real: Floats
    synthetic: Floats
    real_of: Floats
    synthetic_of: Floats
    signed: Floats = field(init=False)

    def __post_init__(self) -> None:
        signed = angles(self.synthetic, self.synthetic_of) - angles(self.real, self.real_of)
        known = (self.real_of > 0) & (self.synthetic_of > 0)
        object.__setattr__(self, "signed", np.where(known, signed, 0.0))

    @classmethod
    def of(cls, real: Codes, synthetic: Codes, trait: Trait) -> "ShareTable":
        """From the rows of each group in each cell."""
        (first, first_of), (last, last_of) = (_with_cuts(side, trait) for side in (real, synthetic))
        return cls(first, last, first_of, last_of)

    def evidence(self) -> Floats:
        """The deviance of every share."""
        return deviances(self.real, self.real_of, self.synthetic, self.synthetic_of)


def _with_cuts(counts: Codes, trait: Trait) -> tuple[Floats, Floats]:
    """Counts of cells and, after them, of all cells in order up to each; and the rows that each is a share of.

    Missing values are a share of all rows, others of the rows with a value, values up to a point of those in order.
    """
    cells = counts.astype(np.float64)
    inside = cells[:, : trait.in_order]
    cuts = np.cumsum(inside, axis=1)[:, :-1]
    of = np.tile(cells.sum(axis=1, keepdims=True), cells.shape[1])
    if trait.missing is not None:
        of[:, : trait.missing] -= cells[:, trait.missing :]
    of_cuts = np.broadcast_to(inside.sum(axis=1, keepdims=True), cuts.shape)
    return np.concatenate([cells, cuts], axis=1), np.concatenate([of, of_cuts], axis=1)


def compare_alone(traits: Sequence[Trait], limit: float, false_alarm: float) -> tuple[Gaps, dict[str, Floats]]:
    """Every trait in all rows: its gaps, and by its name how far every share has drifted (0 where that is no gap).

    A trait has at most two gaps: that of missing values, and the largest of all others.
    """
    found: list[ShareGap] = []
    drift = {}
    for trait in traits:
        table = ShareTable.of(trait.counts[0][None, :], trait.counts[1][None, :], trait)
        needed = needed_each(trait.among, len(traits), false_alarm)
        effects = clear(np.abs(table.signed), table.evidence(), needed)
        limits = np.where(_of_no_real_row(table, trait), _NONE_REAL * limit, limit)
        effects = np.where(effects > limits, effects, 0.0)
        drift[trait.name] = np.where(effects > 0, table.signed, 0.0)[0]
        is_missing = np.arange(effects.shape[1]) == (-1 if trait.missing is None else trait.missing)
        for kind in (is_missing, ~is_missing):
            if (found_here := np.where(kind, effects, 0.0)).any():
                found.append(gap_of(table, found_here, needed, trait))
    return largest(found, sum(trait.comparisons for trait in traits)), drift


def _of_no_real_row(table: ShareTable, trait: Trait) -> Flags:
    """Single values, and missing ones, that no real row has."""
    single = np.zeros(table.real.shape, dtype=np.bool_)
    if trait.aspect == "values":
        single[0, : trait.width] = True
        single[0, : trait.in_order] = trait.lows == trait.highs
    result: Flags = single & (table.real == 0)
    return result


def gap_of(
    table: ShareTable,
    effects: Floats,
    needed: Floats,
    trait: Trait,
    by: Trait | None = None,
) -> ShareGap:
    """The largest effect of a table.

    Args:
        table: the shares.
        effects: the clear effects, 0 for shares that are not to be named.
        needed: the evidence that was needed of each.
        trait: the trait that is counted.
        by: the trait that the groups are of.
    """
    sure = surely(effects, table.evidence(), needed)
    worst = int((sure + _TIE * effects).argmax())
    effect, certain = float(effects.ravel()[worst]), float(sure.ravel()[worst])
    group, at = (int(i) for i in np.unravel_index(worst, effects.shape))
    if trait.width == 2 and not trait.in_order and not trait.has_missing:
        at = 1  # the share of the other value says the same: "yes" reads better than "no"
    real, synthetic = (float(side[group, at]) for side in (table.real, table.synthetic))
    real_of, synthetic_of = (float(side[group, at]) for side in (table.real_of, table.synthetic_of))
    what = trait.cells_of(at, at) if at < trait.width else trait.up_to(at - trait.width)
    if (
        at >= trait.width and real / max(real_of, 1) > 1 / 2 and trait.aspect != "rounding"
    ):  # the rarer half is named
        what, real, synthetic = trait.above(at - trait.width), real_of - real, synthetic_of - synthetic
    inside = [np.ones(len(side), dtype=bool) for side in trait.cells]
    if by is not None:
        inside = [by.group_of[side] == group for side in by.cells]
    rows = [int(side.sum()) for side in inside]
    return ShareGap(
        what=what,
        within=() if by is None else (by.group(group),),
        real=real / max(real_of, 1),
        synthetic=synthetic / max(synthetic_of, 1),
        real_rows=rows[0],
        synthetic_rows=rows[1],
        share=rows[0] / max(len(inside[0]), 1),
        effect=effect,
        surely=certain,
        columns=trait.columns,
        medians=_medians(trait, inside),
    )


def _medians(trait: Trait, inside: Sequence[Flags]) -> tuple[float, float] | None:
    if trait.values is None or trait.kind == "category":
        return None
    found = [values[rows & ~np.isnan(values)] for values, rows in zip(trait.values, inside, strict=True)]
    if not all(map(len, found)):
        return None
    return float(np.median(found[0])), float(np.median(found[1]))
