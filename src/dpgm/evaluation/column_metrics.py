"""Raw columns of real and synthetic tables compared: distributions, correlations, and orders such as start <= end."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from dpgm.data.kinds.base import ColumnKind
from dpgm.errors import UsageError
from dpgm.evaluation.marginals import total_variation
from dpgm.evaluation.raw_columns import RawColumn

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_BARS = 24  # bars of a histogram; more would be too thin on a phone
_LOST_SHARE = 0.01  # share of the real rows above which a missing category is named
_STEPS = 60  # points of a cumulative curve
_TAIL = 0.005  # share of the rows at either end that is drawn within the outermost bars
_ORDER_ERRORS = 0.005  # share of the real rows that may break an order that is taken for a rule: data have errors
# Numbers may mean different things (0/1 and a grade of 1 to 5), and such pairs keep an order because none could break
# it: an order of numbers is credible if values paired at random break it in this share of the rows, ten times the
# errors, and in so many rows that all of them do not keep it by chance (e^-20).
_CHANCE_BREAKS, _CHANCE_ROWS = 0.05, 20
_STEPS_OF_NUMBERS = tuple(
    factor * 10.0**power for power in range(6, -4, -1) for factor in (5, 2.5, 1)
)  # descending
_STEP_ERRORS = 0.005  # share of the real values that need not be multiples of a step
_ROUNDING = 1e-6  # of a step: what doubles and divisions leave
_FIRST_VALUES = 1000  # values that rule out most steps
_WEEKEND = 5  # Saturday and Sunday, in days since Monday; 1970-01-01 was a Thursday
_THURSDAY = 3
_FEW_ROWS = 50  # rows with both values; fewer may keep an order by chance
_MOST_ROWS = 100_000  # orders are checked on this many rows, evenly spread, ...
_MOST_COLUMNS = 100  # ... of this many columns of numbers and as many of dates
_Floats: TypeAlias = NDArray[np.float64]


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
    kurtosis: float | None = None  # 3 for a normal distribution; how uncertain the standard deviation is

    @property
    def present(self) -> int:
        """The number of values that are not missing."""
        return round(self.rows * (1 - self.missing))

    @property
    def median(self) -> float | None:
        """The median, if there are values."""
        return self.quantiles[QUANTILES.index(0.5)] if self.quantiles else None


@dataclass(frozen=True)
class ColumnPicture:
    """A histogram and, for numbers and dates, a cumulative curve of one column."""

    bars: tuple[str, ...]
    real: _Floats  # share of the rows per bar
    synthetic: _Floats
    points: _Floats
    real_up_to: _Floats  # share of the values up to each point
    synthetic_up_to: _Floats


@dataclass(frozen=True)
class SharedProperty:
    """Shares of the real and of the synthetic values with a property, such as being a multiple of `size`."""

    real: float
    synthetic: float
    size: float = 0.0


@dataclass(frozen=True)
class ColumnComparison:
    """One column of the real and of the synthetic data.

    `mode` is the value whose share differs most among the most frequent real value, the most frequent synthetic value
    and the special values (such as 999 for "unknown"), so that lost and invented peaks are both noticed. Shifts are in
    standard deviations of the real column, without special values.
    """

    name: str
    kind: ColumnKind
    real: ColumnSummary
    synthetic: ColumnSummary
    mode: str
    real_mode_share: float  # of the values present
    synthetic_mode_share: float
    distance: float  # Kolmogorov distance of numbers and dates, total variation of categories
    chance_distance: float  # of categories: the distance to expect of a new sample of the real rows; else 0
    median_shift: float | None
    median_mass: float | None  # share of the values between one median and the other
    mean_shift: float | None
    deviation_ratio: float | None
    below: float  # share of the synthetic values below the smallest real value; 0 for categories
    above: float
    step: SharedProperty | None  # the largest step of which nearly all real numbers are multiples
    weekend: SharedProperty | None  # of dates
    clock_distance: float | None  # Kolmogorov distance of the time of day; None for dates without one
    lost: tuple[str, ...]  # categories of at least 1 % of the real rows that are (nearly) missing
    picture: ColumnPicture

    @property
    def mode_gap(self) -> float:
        """Difference in the share of `mode`."""
        return abs(self.real_mode_share - self.synthetic_mode_share)

    @property
    def missing_gap(self) -> float:
        """Difference in the share of missing values."""
        return abs(self.real.missing - self.synthetic.missing)


@dataclass(frozen=True)
class Correlations:
    """Correlations of raw numbers and dates: Pearson's (`real`, `synthetic`), and Spearman's rank correlations."""

    columns: tuple[str, ...]
    real: _Floats
    synthetic: _Floats
    rank_real: _Floats
    rank_synthetic: _Floats
    error: _Floats  # standard error of the difference of two correlations near 0
    mean_difference: float  # of rank correlations, which a few huge values cannot dominate
    largest_difference: float
    worst_pair: tuple[str, str]


@dataclass(frozen=True)
class BrokenOrder:
    """Two columns, both numbers or both dates, the first of which is (nearly) never greater in the real data."""

    first: str
    last: str
    kind: ColumnKind
    real: float  # share of the rows with both values in which the first is greater
    synthetic: float
    error: float  # standard error of the difference of the two shares


def compare_column(column: RawColumn) -> ColumnComparison:
    """Compute every figure of one column."""
    numeric = column.kind != "category"
    real, synthetic = present = column.present()
    plain = [side[~np.isin(side, column.specials)] for side in present]  # neither missing nor special
    both_have_values = all(len(side) for side in plain)
    shifts = _shifts(*plain) if numeric and both_have_values else (None, None, None, None)
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
        distance=_kolmogorov(real, synthetic) if numeric else _variation(real, synthetic, len(column.labels)),
        chance_distance=0.0 if numeric else _chance_variation(real, synthetic, len(column.labels)),
        median_shift=shifts[0],
        median_mass=shifts[1],
        mean_shift=shifts[2],
        deviation_ratio=shifts[3],
        below=float((plain[1] < plain[0].min()).mean()) if numeric and both_have_values else 0.0,
        above=float((plain[1] > plain[0].max()).mean()) if numeric and both_have_values else 0.0,
        step=_step(plain[0], plain[1]) if column.kind == "number" and both_have_values else None,
        weekend=_weekend(real, synthetic) if column.kind == "date" and both_have_values else None,
        clock_distance=_clock_distance(real, synthetic) if column.kind == "date" else None,
        lost=() if numeric else _lost(column.labels, real, synthetic),
        picture=_picture(column, *(plain if both_have_values else present)),
    )


def correlations(columns: Sequence[RawColumn]) -> Correlations:
    """Correlate every pair of columns of numbers or dates; refuses fewer than two such columns."""
    chosen = [column for column in columns if column.kind != "category"]
    if len(chosen) < 2:
        raise UsageError("the data has fewer than two columns of numbers or dates.")
    sides = [np.stack([_without_specials(column, column.sides[at]) for column in chosen]) for at in (0, 1)]
    real, synthetic, rank_real, rank_synthetic = (
        _correlation_matrix(values, ranked=ranked) for ranked in (False, True) for values in sides
    )
    upper = np.triu_indices(len(chosen), 1)
    gaps = np.abs(rank_real - rank_synthetic)[upper]
    worst = int(gaps.argmax())
    names = tuple(column.name for column in chosen)
    pair = (names[upper[0][worst]], names[upper[1][worst]])
    present = [(~np.isnan(values)).astype(np.float64) for values in sides]
    error = np.sqrt(sum(1 / np.maximum(there @ there.T, 1) for there in present))  # by rows with both values
    figures = (float(gaps.mean()), float(gaps.max()))
    return Correlations(names, real, synthetic, rank_real, rank_synthetic, error, *figures, pair)


def broken_orders(columns: Sequence[RawColumn]) -> tuple[BrokenOrder, ...]:
    """Pairs of columns that (nearly) always keep an order in the real data but not in the synthetic data, worst first.

    Only numbers are compared with numbers, and dates with dates, and numbers only if their order could be broken. Two
    columns that are always equal in the real data are listed in one direction only.
    """
    found: dict[tuple[str, str], BrokenOrder] = {}
    for kind in ("number", "date"):
        chosen = [column for column in columns if column.kind == kind][:_MOST_COLUMNS]
        plain = {}
        for column in chosen:
            spread = [side[:: -(-len(side) // _MOST_ROWS) or 1] for side in column.sides]
            plain[column.name] = [_without_specials(column, values) for values in spread]
        for first, last in permutations(plain, 2):
            shares = [_share_greater(a, b) for a, b in zip(plain[first], plain[last], strict=True)]
            if min(rows for _, rows in shares) < _FEW_ROWS or (last, first) in found:
                continue
            (real, rows), (synthetic, synthetic_rows) = shares
            credible = kind == "date" or _can_break(plain[first][0], plain[last][0])
            if real <= _ORDER_ERRORS and synthetic > real and credible:
                error = share_error(real, rows, synthetic, synthetic_rows)
                found[first, last] = BrokenOrder(first, last, kind, real, synthetic, error)
    return tuple(sorted(found.values(), key=lambda order: order.real - order.synthetic))


def _without_specials(column: RawColumn, values: _Floats) -> _Floats:
    """Values of the column, NaN where they are missing or special."""
    return np.where(np.isin(values, column.specials), np.nan, values)


def _share_greater(first: _Floats, last: _Floats) -> tuple[float, int]:
    """Share of the rows with both values in which the first is greater, and the number of these rows."""
    rows = int((~np.isnan(first) & ~np.isnan(last)).sum())
    return float((first > last).sum() / max(rows, 1)), rows


def _can_break(first: _Floats, last: _Floats) -> bool:
    """Whether many rows would break `first <= last` if the values of both columns were paired at random."""
    both = ~np.isnan(first) & ~np.isnan(last)
    if len(np.unique(first[both])) < 3 or len(np.unique(last[both])) < 3:
        return False  # yes and no
    breaks = np.searchsorted(np.sort(last[both]), first[both]).mean()  # of the rows, summed over their pairs
    return bool(breaks >= max(_CHANCE_BREAKS * both.sum(), _CHANCE_ROWS))


def share_error(real: float, real_count: int, synthetic: float, synthetic_count: int) -> float:
    """Standard error of the difference of two shares that are equal in the population."""
    counts = max(real_count, 1), max(synthetic_count, 1)
    pooled = (real * counts[0] + synthetic * counts[1]) / sum(counts)
    return float(np.sqrt(pooled * (1 - pooled) * (1 / counts[0] + 1 / counts[1])))


def _summary(rows: int, present: NDArray[np.generic], numbers: _Floats | tuple[()]) -> ColumnSummary:
    missing, distinct = 1 - len(present) / rows if rows else 0.0, len(np.unique(present))
    if isinstance(numbers, tuple) or not len(numbers):
        return ColumnSummary(rows, missing, distinct)
    mean, deviation, low, high = (float(figure(numbers)) for figure in (np.mean, np.std, np.min, np.max))
    quantiles = tuple(np.quantile(numbers, QUANTILES).tolist())
    kurtosis = float((((numbers - mean) / deviation) ** 4).mean()) if deviation > 0 else 1.0
    return ColumnSummary(rows, missing, distinct, mean, deviation, low, high, quantiles, kurtosis)


def _mode(real: _Floats, synthetic: _Floats, specials: Sequence[float]) -> tuple[float, float, float]:
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


def _shifts(real: _Floats, synthetic: _Floats) -> tuple[float, float, float, float]:
    """Shift of the median in real standard deviations and in mass, shift of the mean, ratio of standard deviations."""
    deviation, synthetic_deviation = float(real.std()), float(synthetic.std())
    # A constant column has no scale of its own.
    scale = deviation if deviation > 0 else max(abs(float(real[0])), 1.0)
    medians = float(np.median(real)), float(np.median(synthetic))
    return (
        abs(medians[1] - medians[0]) / scale,
        max(_off_centre(real, medians[1]), _off_centre(synthetic, medians[0])),
        abs(float(synthetic.mean() - real.mean())) / scale,
        synthetic_deviation / scale if deviation > 0 else 1.0 + synthetic_deviation / scale,
    )


def _off_centre(values: _Floats, point: float) -> float:
    """Share of the values between a point and their median; 0 if the point is a median of the values.

    >>> _off_centre(np.array([0.0, 0.0, 0.0, 1.0, 1.0]), 1.0)
    0.1
    """
    below, up_to = float((values < point).mean()), float((values <= point).mean())
    return round(max(0.0, below - 1 / 2, 1 / 2 - up_to), 12)


def _kolmogorov(real: _Floats, synthetic: _Floats) -> float:
    """The largest difference between the two cumulative distribution functions.

    >>> _kolmogorov(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 1.0, 1.0]))
    0.25
    """
    if not len(synthetic):
        return 1.0
    points = np.union1d(real, synthetic)
    return float(np.abs(_up_to(real, points) - _up_to(synthetic, points)).max())


def _step(real: _Floats, synthetic: _Floats) -> SharedProperty | None:
    """The largest step of which nearly all real numbers are multiples; None if there is none.

    >>> _step(np.array([1200.0, 300.0, 2100.0, 700.0]), np.array([1200.0, 310.0]))
    SharedProperty(real=1.0, synthetic=0.5, size=100.0)
    """
    real, synthetic = (side[:: -(-len(side) // _MOST_ROWS)] for side in (real, synthetic))
    if not real.any():
        return None
    for size in _STEPS_OF_NUMBERS:
        if all(_share_on(values, size) >= 1 - _STEP_ERRORS for values in (real[:_FIRST_VALUES], real)):
            return SharedProperty(_share_on(real, size), _share_on(synthetic, size), size)
    return None


def _share_on(values: _Floats, step: float) -> float:
    """Share of the values that are multiples of a step."""
    multiples = values / step
    return float((np.abs(multiples - np.round(multiples)) < _ROUNDING).mean())


def _weekend(real: _Floats, synthetic: _Floats) -> SharedProperty:
    """Shares of the dates that are Saturdays or Sundays."""
    shares = [float((np.mod(np.floor(side) + _THURSDAY, 7) >= _WEEKEND).mean()) for side in (real, synthetic)]
    return SharedProperty(*shares)


def _clock_distance(real: _Floats, synthetic: _Floats) -> float | None:
    """Kolmogorov distance of the times of day; None if the real dates are whole days."""
    clocks = [np.mod(side, 1.0).round(6) for side in (real, synthetic)]
    return _kolmogorov(*clocks) if (np.mod(real, 1.0) > 0).any() else None


def _variation(real: NDArray[np.int64], synthetic: NDArray[np.int64], count: int) -> float:
    if not len(synthetic):
        return 1.0
    return total_variation(_shares(real, count), _shares(synthetic, count))


def _chance_variation(real: NDArray[np.int64], synthetic: NDArray[np.int64], count: int) -> float:
    """Total variation to expect of two samples of the pooled shares: mean absolute normal deviates."""
    sizes = [max(len(side), 1) for side in (real, synthetic)]
    shares = _shares(np.concatenate([real, synthetic]), count)
    errors = np.sqrt(shares * (1 - shares) * (1 / sizes[0] + 1 / sizes[1]))
    return float(np.sqrt(2 / np.pi) * errors.sum() / 2)


def _lost(labels: Sequence[str], real: NDArray[np.int64], synthetic: NDArray[np.int64]) -> tuple[str, ...]:
    """Categories of at least 1 % of the real rows with less than a tenth of that share in the synthetic data."""
    real_shares, synthetic_shares = (_shares(side, len(labels)) for side in (real, synthetic))
    enough = real_shares * len(synthetic) >= 10  # if fewer are expected, all may be absent by chance
    lost = np.flatnonzero((real_shares >= _LOST_SHARE) & (synthetic_shares < real_shares / 10) & enough)
    return tuple(labels[at] for at in lost[np.argsort(-real_shares[lost], kind="stable")])


def _picture(column: RawColumn, real: NDArray[Any], synthetic: NDArray[Any]) -> ColumnPicture:
    if column.kind == "category":
        count = len(column.labels)
        shares = [_shares(side, count) for side in (real, synthetic)]
        top = np.argsort(-np.maximum(*shares), kind="stable")[: _BARS if count <= _BARS else _BARS - 1]
        names = [column.labels[at] for at in top]
        drawn = [side[top] for side in shares]
        if len(top) < count:
            names.append(f"{count - len(top)} others")
            drawn = [np.append(side, share.sum() - side.sum()) for side, share in zip(drawn, shares, strict=True)]
        none = np.empty(0)
        return ColumnPicture(tuple(names), drawn[0], drawn[1], none, none, none)
    both, points = np.union1d(real, synthetic), _curve_points(real, synthetic)
    if len(both) <= _BARS:
        names = [column.text(value) for value in both]
        codes = [np.searchsorted(both, side) for side in (real, synthetic)]
    else:
        edges = _edges(float(points[0]), float(points[-1]), integers=bool(np.array_equal(both, np.floor(both))))
        texts = [column.text(edge) for edge in edges]
        inner = [f"{low} to {high}" for low, high in pairwise(texts[1:-1])]
        names = [f"below {texts[1]}", *inner, f"{texts[-2]} and more"]
        codes = [np.searchsorted(edges[1:-1], side, side="right") for side in (real, synthetic)]
    first, second = (_shares(side, len(names)) for side in codes)
    return ColumnPicture(tuple(names), first, second, points, _up_to(real, points), _up_to(synthetic, points))


def _edges(low: float, high: float, *, integers: bool) -> _Floats:
    """Edges of equally wide bars; where all values are integers, each bar covers the same number of integers.

    >>> _edges(17.0, 78.0, integers=True)[:3].tolist()
    [17.0, 20.0, 23.0]
    """
    if not integers:
        return np.linspace(low, high, _BARS + 1)
    step = np.ceil((np.floor(high) + 1 - np.floor(low)) / _BARS)
    edges: _Floats = np.arange(np.floor(low), np.floor(high) + 1 + step, step)
    return edges


def _curve_points(real: _Floats, synthetic: _Floats) -> _Floats:
    ends = np.array([np.quantile(side, [_TAIL, 1 - _TAIL]) for side in (real, synthetic) if len(side)])
    low, high = ends[:, 0].min(), ends[:, 1].max()
    return np.linspace(low, high if high > low else low + 1.0, _STEPS)


def _up_to(values: _Floats, points: _Floats) -> _Floats:
    return np.searchsorted(np.sort(values), points, side="right") / max(len(values), 1)


def _shares(codes: NDArray[np.int64], count: int) -> _Floats:
    return np.bincount(codes, minlength=count) / max(len(codes), 1)


def _correlation_matrix(values: _Floats, *, ranked: bool) -> _Floats:
    """Correlations of the rows of a matrix; of each pair of rows, over the entries present in both."""
    present = ~np.isnan(values)
    if present.all():
        return _pearson(values, ranked=ranked)
    matrix = np.eye(len(values))
    for a, b in combinations(range(len(values)), 2):
        both = present[a] & present[b]
        if both.sum() > 1:
            matrix[a, b] = matrix[b, a] = _pearson(values[[a, b]][:, both], ranked=ranked)[0, 1]
    return matrix


def _pearson(values: _Floats, *, ranked: bool) -> _Floats:
    """Pearson's correlations of the rows or of their ranks; 0 where one does not vary."""
    if ranked:
        values = rankdata(values, axis=1)
    centred = values - values.mean(axis=1, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=1))
    scale = np.outer(spread, spread)
    covariance = centred @ centred.T / values.shape[1]
    result: _Floats = np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0)
    np.fill_diagonal(result, 1.0)
    return np.clip(result, -1.0, 1.0)
