"""Every trait within every group of rows: the values of every category, ranges of ordered ones, rows without a value.

What is off in two traits is not said again of three (`triple_gaps.py`), and what is off in all rows is not held against
the groups.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from dpgm.arrays import Codes, Floats
from dpgm.evaluation.evidence import clear, needed_each
from dpgm.evaluation.share_gaps import Gaps, ShareGap, ShareTable, gap_of, largest
from dpgm.evaluation.traits import Trait

_SMALLEST_SHARE, _SMALLEST_ROWS = 0.005, 100  # a group is judged from here on, whichever is less ...
_FEWEST = 10  # ... but never with fewer rows of both data sets than twice this: nothing is clear in them
_MOST_VISITS = 400_000_000  # rows times pairs of traits, on either side: a few seconds
_FEWEST_ROWS = 5000  # rows that are used however many traits there are
_AS_CLEAR = (
    1.25  # how much more is made of what occurs in synthetic rows only: it needs no figures to be understood
)
MOST_TRAITS = 250  # traits that are paired; all pairs of more would take minutes


def least_rows(rows: int) -> float:
    """How many rows a group needs on average of both sides, if there are so many rows."""
    return max(_FEWEST, min(_SMALLEST_ROWS, _SMALLEST_SHARE * rows))


def compare_groups(
    traits: Sequence[Trait], drift: Mapping[str, Floats], limit: float, false_alarm: float
) -> tuple[Gaps, Gaps]:
    """Compare every trait in the groups of every other.

    Args:
        traits: what to compare.
        drift: how far the shares of all rows are off, by trait.
        limit: an effect that is worth mentioning: smaller ones are not kept.
        false_alarm: probability that anything is found in two samples of one population.

    Returns:
        Of every pair of traits at most one gap; those of what occurs in synthetic rows only come apart.
    """
    pairs = [(a, b) for a, b in combinations(range(len(traits)), 2) if apart(traits[a], traits[b])]
    if not pairs:
        return Gaps(), Gaps()
    rows = [len(side) for side in traits[0].cells]
    step = -(-max(rows) // max(_MOST_VISITS // len(pairs), _FEWEST_ROWS)) or 1
    thin = [[side[::step] for side in trait.cells] for trait in traits]
    least = least_rows(min(len(side) for side in thin[0]))
    # Pairs of columns share half of the probability of a false alarm, though pairs of items may be far more.
    plain = sum(_is_plain(traits[a], traits[b]) for a, b in pairs)
    found: tuple[list[ShareGap], list[ShareGap]] = [], []
    comparisons = 0
    for a, b in pairs:
        first, last = traits[a], traits[b]
        comparisons += first.groups * last.comparisons + last.groups * first.comparisons
        alike = 2 * (plain if _is_plain(first, last) else len(pairs) - plain)
        joint = [_joint(x, y, first.width, last.width) for x, y in zip(thin[a], thin[b], strict=True)]
        both = [
            _gaps(
                sides,
                by,
                trait,
                drift[trait.name],
                limit,
                needed_each(trait.among, alike * by.groups, false_alarm / 2),
                least,
            )
            for sides, by, trait in ((joint, first, last), ([side.T for side in joint], last, first))
        ]
        if known := [gap for gaps in both for gap in gaps if gap is not None]:
            worst = max(known, key=lambda gap: (_AS_CLEAR if gap.impossible else 1.0) * gap.surely)
            found[worst.impossible].append(worst)
    return largest(found[0], comparisons), largest(found[1], comparisons)


def apart(first: Trait, last: Trait) -> bool:
    """Whether two traits are made of different columns."""
    return not {*first.columns} & {*last.columns}


def _is_plain(first: Trait, last: Trait) -> bool:
    return first.aspect == last.aspect == "values"


def _joint(x: Codes, y: Codes, width: int, other_width: int) -> Codes:
    return np.bincount(x * other_width + y, minlength=width * other_width).reshape(width, other_width)


def _gaps(
    joint: Sequence[Codes],
    by: Trait,
    trait: Trait,
    drifted: Floats,
    limit: float,
    needed: Floats,
    least: float,
) -> Iterator[ShareGap | None]:
    """The largest gap of a trait in the groups of another, and the largest of what no real row has."""
    table = ShareTable.of(_grouped(joint[0], by.group_of), _grouped(joint[1], by.group_of), trait)
    size = np.minimum(np.abs(table.signed), np.abs(table.signed - drifted))
    rows = table.real_of[:, :1] + table.synthetic_of[:, :1]
    effects = clear(np.where(rows >= 2 * least, size, 0.0), table.evidence(), needed)
    effects = np.where(effects > limit, effects, 0.0)
    none_real = (table.real == 0) | (table.real == table.real_of) & (np.arange(effects.shape[1]) >= trait.width)
    for kind in (~none_real, none_real):
        here = np.where(kind, effects, 0.0)
        yield gap_of(table, here, needed, trait, by) if here.any() else None


def _grouped(counts: Codes, group_of: Codes) -> Codes:
    """Rows of counts summed over the cells of each group; groups are neighbours."""
    starts = np.flatnonzero(np.diff(group_of, prepend=-1))
    result: Codes = np.add.reduceat(counts, starts, axis=0)
    return result
