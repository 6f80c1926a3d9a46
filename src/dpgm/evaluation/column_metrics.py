"""Raw columns of real and synthetic tables compared: what they look like, and what is off beyond chance."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Floats
from dpgm.data.kinds.base import ColumnKind
from dpgm.evaluation.column_pictures import ColumnPicture, column_picture, shares_of, up_to
from dpgm.evaluation.evidence import needed_evidence
from dpgm.evaluation.marginals import total_variation
from dpgm.evaluation.raw_columns import RawColumn
from dpgm.evaluation.share_gaps import ShareGap

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_FARTHEST = 10  # values farthest out, of both sides together, without which means must differ, too
Moment: TypeAlias = Literal["mean", "deviation"]


@dataclass(frozen=True)
class ColumnSummary:
    """One column of one data set; mean to quantiles leave out missing and special values, and are None without any."""

    rows: int
    missing: float  # share of the rows
    distinct: int
    mean: float | None = None
    deviation: float | None = None
    low: float | None = None
    high: float | None = None
    quantiles: tuple[float, ...] = ()  # at QUANTILES

    @property
    def median(self) -> float | None:
        """The median, if there are values."""
        return self.quantiles[QUANTILES.index(0.5)] if self.quantiles else None


@dataclass(frozen=True)
class MomentGap:
    """A mean or standard deviation that differs beyond chance, by `effect` times its limit."""

    moment: Moment
    real: float
    synthetic: float
    effect: float


@dataclass(frozen=True)
class ColumnComparison:
    """One column of the real and of the synthetic data.

    `mode` is the value whose share differs most among the most frequent real value, the most frequent synthetic value
    and the special values (such as 999 for "unknown"), so that lost and invented peaks are both noticed.
    """

    name: str
    kind: ColumnKind
    real: ColumnSummary
    synthetic: ColumnSummary
    mode: str
    real_mode_share: float  # of the values present
    synthetic_mode_share: float
    distance: float  # Kolmogorov distance of numbers and dates, total variation of categories
    picture: ColumnPicture
    gaps: tuple[ShareGap, ...] = ()  # of the values, and of what follows from this column alone
    moments: tuple[MomentGap, ...] = ()

    @property
    def off(self) -> bool:
        """Whether anything about the column differs beyond chance."""
        return bool(self.gaps or self.moments)


@dataclass(frozen=True)
class MomentRules:
    """Limits of differences of means, in standard deviations, and of standard deviations, as the log of their ratio."""

    mean: float
    deviation: float
    false_alarm: float  # for all columns together


def compare_columns(
    columns: Sequence[RawColumn], gaps: Mapping[str, Sequence[ShareGap]], rules: MomentRules
) -> tuple[ColumnComparison, ...]:
    """Compute every figure of every column.

    Args:
        columns: the raw columns.
        gaps: share gaps of what follows from one column alone, by column.
        rules: limits of means and standard deviations.
    """
    needed = needed_evidence(2 * len(columns), rules.false_alarm)
    return tuple(_compared(column, tuple(gaps.get(column.name, ())), rules, needed) for column in columns)


def _compared(column: RawColumn, gaps: tuple[ShareGap, ...], rules: MomentRules, needed: float) -> ColumnComparison:
    numeric = column.kind != "category"
    real, synthetic = present = column.present()
    plain = [side[~np.isin(side, column.specials)] for side in present]  # neither missing nor special
    both_have_values = all(len(side) for side in plain)
    summaries = [
        _summary(len(side), values, numbers if numeric else ())
        for side, values, numbers in zip(column.sides, present, plain, strict=True)
    ]
    mode, real_share, synthetic_share = _mode(real, synthetic, column.specials)
    return ColumnComparison(
        name=column.name,
        kind=column.kind,
        real=summaries[0],
        synthetic=summaries[1],
        mode=column.text(mode),
        real_mode_share=real_share,
        synthetic_mode_share=synthetic_share,
        distance=kolmogorov(real, synthetic) if numeric else _variation(real, synthetic, len(column.labels)),
        picture=column_picture(column, *(plain if both_have_values else present)),
        gaps=gaps,
        moments=tuple(_moments(plain[0], plain[1], rules, needed)) if numeric and both_have_values else (),
    )


def _moments(real: Floats, synthetic: Floats, rules: MomentRules, needed: float) -> Iterator[MomentGap]:
    """The mean and the standard deviation, if they differ by more than their limits and beyond chance.

    They must differ without the few values that are farthest out as well: of a long tail, any sample may have those.
    """
    sides = _without_farthest(real, synthetic)
    if min(map(len, sides)) < 2 or sides[0].std() == 0:
        return  # of a constant, its share says it all
    means, spreads = [float(side.mean()) for side in sides], [float(side.std()) for side in sides]
    shift = abs(means[1] - means[0])
    variance = sum(spread**2 / len(side) for spread, side in zip(spreads, sides, strict=True))
    if shift**2 > needed * variance and shift > rules.mean * spreads[0]:
        yield MomentGap("mean", float(real.mean()), float(synthetic.mean()), shift / spreads[0] / rules.mean)
    ratio = abs(float(np.log(max(spreads[1], 1e-12 * spreads[0]) / spreads[0])))
    # The larger kurtosis for both sides: a sample may lack the tail of its population.
    kurtosis = max(map(_kurtosis, sides))
    variance = (kurtosis - 1) / 4 * sum(1 / len(side) for side in sides)
    if ratio**2 > needed * variance and ratio > rules.deviation:
        yield MomentGap("deviation", float(real.std()), float(synthetic.std()), ratio / rules.deviation)


def _without_farthest(real: Floats, synthetic: Floats) -> tuple[Floats, Floats]:
    """Both sides without the values that are farthest from the middle of all; of equal ones as many on either side."""
    both = np.concatenate([real, synthetic])
    place = np.concatenate([np.arange(len(side)) / len(side) for side in (real, synthetic)])
    far = np.abs(both - np.median(both))
    kept = np.ones(len(both), dtype=np.bool_)
    kept[np.lexsort((place, -far))[:_FARTHEST]] = False
    return real[kept[: len(real)]], synthetic[kept[len(real) :]]


def _kurtosis(values: Floats) -> float:
    spread = values.std()
    return float((((values - values.mean()) / spread) ** 4).mean()) if spread > 0 else 1.0


def _summary(rows: int, present: NDArray[np.generic], numbers: Floats | tuple[()]) -> ColumnSummary:
    missing, distinct = 1 - len(present) / rows if rows else 0.0, len(np.unique(present))
    if isinstance(numbers, tuple) or not len(numbers):
        return ColumnSummary(rows, missing, distinct)
    mean, deviation, low, high = (float(figure(numbers)) for figure in (np.mean, np.std, np.min, np.max))
    return ColumnSummary(
        rows, missing, distinct, mean, deviation, low, high, tuple(np.quantile(numbers, QUANTILES).tolist())
    )


def _mode(real: Floats, synthetic: Floats, specials: Sequence[float]) -> tuple[float, float, float]:
    """Value, real share and synthetic share of the mode (see `ColumnComparison`)."""
    candidates = []
    for side in (real, synthetic):
        if len(side):
            values, counts = np.unique(side, return_counts=True)
            candidates.append(float(values[counts.argmax()]))
    shares = [
        (value, *((side == value).sum() / max(len(side), 1) for side in (real, synthetic)))
        for value in (*candidates, *specials)
    ]
    value, first, second = max(shares, key=lambda entry: abs(entry[1] - entry[2]))
    return value, float(first), float(second)


def kolmogorov(real: Floats, synthetic: Floats) -> float:
    """The largest difference between the two cumulative distribution functions.

    >>> kolmogorov(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 1.0, 1.0]))
    0.25
    """
    if not len(synthetic):
        return 1.0
    points = np.union1d(real, synthetic)
    return float(np.abs(up_to(real, points) - up_to(synthetic, points)).max())


def _variation(real: NDArray[Any], synthetic: NDArray[Any], count: int) -> float:
    if not len(synthetic):
        return 1.0
    return total_variation(shares_of(real, count), shares_of(synthetic, count))
