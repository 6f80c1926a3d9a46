"""Combinations of two values that no real row has, counted over all values of two columns together.

Each combination may be too rare to tell from chance: one wrong town in a hundred rows of every postcode. Combinations
are looked up in one half of the real rows; the other half says how many new real rows have combinations that are not
in it, and the synthetic rows should have as many.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from dpgm.arrays import Codes, Mask
from dpgm.evaluation.evidence import angles, clear, deviances, needed_evidence, surely
from dpgm.evaluation.raw_columns import RawColumn
from dpgm.evaluation.trait_makers import judged_rows
from dpgm.evaluation.traits import Trait

_BLOCKS = 20  # of neighbouring rows, which may belong together; every second one is of the first half
_FEWEST_CELLS = 3  # values of either column; of yes and no, groups of rows say it
_MOST_ROWS = 20_000  # rows that are used of either side


@dataclass(frozen=True)
class UnseenPair:
    """Two columns whose synthetic combinations are new more (or less) often than those of real rows.

    Attributes:
        names: the columns.
        real: share of one half of the real rows with a combination that the other half lacks.
        synthetic: share of the synthetic rows with a combination that this other half lacks.
        effect: difference of the arcsine square roots of the two shares.
        surely: the part of the effect that chance does not explain.
    """

    names: tuple[str, str]
    real: float
    synthetic: float
    effect: float
    surely: float


def compare_unseen(
    traits: Sequence[Trait],
    columns: Sequence[RawColumn],
    known: Container[frozenset[str]],
    limit: float,
    false_alarm: float,
) -> tuple[UnseenPair, ...]:
    """The pairs of columns that differ beyond chance, worst first.

    Args:
        traits: what was compared; only columns are, not what follows from them.
        columns: the raw columns: traits merge rare categories, which may be decided by other columns all the same.
        known: names of traits, alone or in pairs, that are off already.
        limit: an effect that is worth mentioning.
        false_alarm: probability that anything is found in two samples of one population.
    """
    chosen = [trait for trait in traits if trait.aspect == "values" and trait.width >= _FEWEST_CELLS]
    chosen = [trait for trait in chosen if frozenset([trait.name]) not in known]
    merged = {one.name: judged_rows(one).sides for one in columns if one.kind == "category"}
    sides = {trait.name: merged.get(trait.name, trait.cells) for trait in chosen}
    pairs = [pair for pair in combinations(sides, 2) if frozenset(pair) not in known]
    needed = needed_evidence(len(pairs), false_alarm)
    found = [gap for pair in pairs if (gap := _compared(pair, sides, limit, needed)) is not None]
    return tuple(sorted(found, key=lambda gap: -gap.surely))


def _compared(
    names: tuple[str, str], sides: Mapping[str, tuple[Codes, Codes]], limit: float, needed: float
) -> UnseenPair | None:
    first, last = (sides[name] for name in names)
    width = max(int(side.max(initial=0)) for side in last) + 2  # -1 is missing
    real, synthetic = (
        (x.astype(np.int64) * width + y)[:: -(-len(x) // _MOST_ROWS) or 1] for x, y in zip(first, last, strict=True)
    )
    looked_up = _first_half(len(real))
    unseen = [~np.isin(codes, real[looked_up]) for codes in (real[~looked_up], synthetic)]
    counts, of = ([np.array([float(figure(side))]) for side in unseen] for figure in (np.sum, len))
    evidence = deviances(counts[0], of[0], counts[1], of[1])
    effect = clear(np.abs(angles(counts[1], of[1]) - angles(counts[0], of[0])), evidence, needed)
    if effect[0] <= limit:
        return None
    share, other = (float(count[0] / rows[0]) for count, rows in zip(counts, of, strict=True))
    sure = float(surely(effect, evidence, needed)[0])
    return UnseenPair(names, share, other, float(effect[0]), sure)


def _first_half(rows: int) -> Mask:
    result: Mask = np.arange(rows) * _BLOCKS // max(rows, 1) % 2 == 0
    return result
