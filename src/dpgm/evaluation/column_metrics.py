"""How close single columns are, and how pairs of them are tied, measured on raw values."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpgm.errors import UsageError
from dpgm.evaluation.raw_columns import ColumnKind, RawColumn, plain_values, present_values, values_as_text

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_BARS = 24  # of a histogram; more are too thin on a phone
_STEPS = 60  # points of a cumulative curve
_OUTER = 0.005  # share of the rows at either end that is drawn in the last bar rather than given room of its own


@dataclass(frozen=True)
class ColumnSummary:
    """One column on one side. Numbers describe the values present, but for special ones; None where there are none."""

    missing: float  # share of the rows
    distinct: int
    mean: float | None
    deviation: float | None
    low: float | None
    high: float | None
    quantiles: tuple[float, ...]  # at QUANTILES


@dataclass(frozen=True)
class ColumnPicture:
    """Shares of the rows by bar, and for numbers the share of values up to each point."""

    bars: tuple[str, ...]
    real: NDArray[np.float64]
    synthetic: NDArray[np.float64]
    points: NDArray[np.float64]
    real_up_to: NDArray[np.float64]
    synthetic_up_to: NDArray[np.float64]


@dataclass(frozen=True)
class ColumnComparison:
    """One column, real beside synthetic.

    `mode` is the value whose share differs most, of the most frequent value of either side and of special values: a
    lost peak and an invented one are both seen. Shifts are in standard deviations of the real column; special values
    (999 for "unknown") are not part of them.
    """

    name: str
    kind: ColumnKind
    real: ColumnSummary
    synthetic: ColumnSummary
    mode: str
    real_mode_share: float  # of the values present
    synthetic_mode_share: float
    distance: float  # Kolmogorov distance of numbers and dates, total variation of categories
    median_shift: float | None
    mean_shift: float | None
    deviation_ratio: float | None
    clock_distance: float | None  # Kolmogorov distance of the time of day, where dates have one
    lost: tuple[str, ...]  # categories of at least 1 % of the real rows that hardly ever occur
    picture: ColumnPicture

    @property
    def mode_gap(self) -> float:
        """Difference in the share of the most frequent value."""
        return abs(self.real_mode_share - self.synthetic_mode_share)

    @property
    def missing_gap(self) -> float:
        """Difference in the share of missing values."""
        return abs(self.real.missing - self.synthetic.missing)


@dataclass(frozen=True)
class Correlations:
    """Correlations of numbers (and dates) on raw values: Pearson's, and of ranks (Spearman's)."""

    columns: tuple[str, ...]
    real: NDArray[np.float64]
    synthetic: NDArray[np.float64]
    rank_real: NDArray[np.float64]
    rank_synthetic: NDArray[np.float64]
    mean_difference: float  # of ranks: a few huge values cannot rule it
    largest_difference: float
    worst_pair: tuple[str, str]


def compare_column(column: RawColumn) -> ColumnComparison:
    """Every figure of one column."""
    real, synthetic = present_values(column, "real"), present_values(column, "synthetic")
    numeric = column.kind != "category"
    value, first, second = _mode(real, synthetic, column.specials)
    plain = [plain_values(column, side) for side in (real, synthetic)]
    ours = _summary(column.real, real, plain[0], numeric)
    theirs = _summary(column.synthetic, synthetic, plain[1], numeric)
    drawn = plain if len(plain[0]) and len(plain[1]) else [real, synthetic]
    shifts: tuple[float | None, float | None, float | None] = (None, None, None)
    if numeric and len(plain[0]) and len(plain[1]):
        shifts = _shifts(plain[0], plain[1])
    return ColumnComparison(
        name=column.name,
        kind=column.kind,
        real=ours,
        synthetic=theirs,
        mode=values_as_text(column, value),
        real_mode_share=first,
        synthetic_mode_share=second,
        distance=_kolmogorov(real, synthetic) if numeric else _variation(real, synthetic, len(column.labels)),
        median_shift=shifts[0],
        mean_shift=shifts[1],
        deviation_ratio=shifts[2],
        clock_distance=_clock_distance(real, synthetic) if column.kind == "date" else None,
        lost=() if numeric else _lost(column, real, synthetic),
        picture=_picture(column, drawn[0], drawn[1]),
    )


def correlations(columns: Sequence[RawColumn]) -> Correlations:
    """Correlations of every pair of numbers or dates.

    Raises:
        UsageError: fewer than two such columns.
    """
    chosen = [column for column in columns if column.kind != "category"]
    if len(chosen) < 2:
        raise UsageError("the data has fewer than two columns of numbers or dates.")
    matrices = []
    for ranked in (False, True):
        for side in ("real", "synthetic"):
            values = [_without_specials(column, side) for column in chosen]
            matrices.append(_correlation_matrix(values, ranked=ranked))
    real, synthetic, rank_real, rank_synthetic = matrices
    upper = np.triu_indices(len(chosen), 1)
    gaps = np.abs(rank_real - rank_synthetic)[upper]
    worst = int(gaps.argmax())
    names = tuple(column.name for column in chosen)
    return Correlations(
        names,
        real,
        synthetic,
        rank_real,
        rank_synthetic,
        float(gaps.mean()),
        float(gaps.max()),
        (names[upper[0][worst]], names[upper[1][worst]]),
    )


def _without_specials(column: RawColumn, side: str) -> NDArray[np.float64]:
    """Numbers of one side, NaN where missing or special."""
    values = column.real if side == "real" else column.synthetic
    return np.where(np.isin(values, column.specials), np.nan, values) if column.specials else values


def _summary(
    values: NDArray[np.generic], present: NDArray[np.generic], plain: NDArray[np.generic], numeric: bool
) -> ColumnSummary:
    missing = 1 - len(present) / len(values) if len(values) else 0.0
    distinct = len(np.unique(present))
    if not numeric or not len(plain):
        return ColumnSummary(missing, distinct, None, None, None, None, ())
    numbers = plain.astype(np.float64)
    return ColumnSummary(
        missing,
        distinct,
        float(numbers.mean()),
        float(numbers.std()),
        float(numbers.min()),
        float(numbers.max()),
        tuple(np.quantile(numbers, QUANTILES).tolist()),
    )


def _mode(
    real: NDArray[np.generic], synthetic: NDArray[np.generic], specials: Sequence[float]
) -> tuple[float, float, float]:
    """Of the most frequent values of both sides and special ones, that whose shares differ most, with both shares."""
    candidates = []
    for side in (real, synthetic):
        if len(side):
            values, counts = np.unique(side, return_counts=True)
            candidates.append(float(values[counts.argmax()]))
    candidates += specials
    shares = [(value, _share_of(value, real), _share_of(value, synthetic)) for value in candidates]
    return max(shares, key=lambda entry: abs(entry[1] - entry[2]))


def _share_of(value: float, values: NDArray[np.generic]) -> float:
    return float(np.mean(values == value)) if len(values) else 0.0


def _shifts(real: NDArray[np.generic], synthetic: NDArray[np.generic]) -> tuple[float, float, float]:
    ours, theirs = real.astype(np.float64), synthetic.astype(np.float64)
    deviation = float(ours.std())
    scale = (
        deviation if deviation > 0 else max(abs(float(ours[0])), 1.0)
    )  # a constant column has no scale of its own
    return (
        abs(float(np.median(theirs) - np.median(ours))) / scale,
        abs(float(theirs.mean() - ours.mean())) / scale,
        float(theirs.std()) / scale if deviation > 0 else 1.0 + float(theirs.std()) / scale,
    )


def _kolmogorov(real: NDArray[np.generic], synthetic: NDArray[np.generic]) -> float:
    """The largest difference between the shares of values up to any point.

    >>> _kolmogorov(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 1.0, 1.0]))
    0.25
    """
    if not len(synthetic):
        return 1.0
    points = np.union1d(real, synthetic)
    return float(np.abs(_up_to(real, points) - _up_to(synthetic, points)).max())


def _clock_distance(real: NDArray[np.generic], synthetic: NDArray[np.generic]) -> float | None:
    """How far the times of day differ; None where the real dates are whole days."""
    ours, theirs = np.mod(real.astype(np.float64), 1.0), np.mod(synthetic.astype(np.float64), 1.0)
    return _kolmogorov(np.round(ours, 6), np.round(theirs, 6)) if (ours > 0).any() else None


def _variation(real: NDArray[np.generic], synthetic: NDArray[np.generic], count: int) -> float:
    if not len(synthetic):
        return 1.0
    return float(np.abs(_shares(real, count) - _shares(synthetic, count)).sum() / 2)


def _lost(column: RawColumn, real: NDArray[np.generic], synthetic: NDArray[np.generic]) -> tuple[str, ...]:
    """Categories of at least 1 % of the real rows with less than a tenth of their share on the synthetic side."""
    if not len(synthetic):
        return ()
    ours, theirs = (_shares(side, len(column.labels)) for side in (real, synthetic))
    expected = ours * len(synthetic) >= 10  # fewer may be absent by chance
    lost = np.flatnonzero((ours >= 0.01) & (theirs < ours / 10) & expected)
    return tuple(column.labels[at] for at in lost[np.argsort(-ours[lost], kind="stable")])


def _picture(column: RawColumn, real: NDArray[np.generic], synthetic: NDArray[np.generic]) -> ColumnPicture:
    empty = np.empty(0)
    if column.kind == "category":
        count = len(column.labels)
        shares = [_shares(side, count) for side in (real, synthetic)]
        order = np.argsort(-np.maximum(shares[0], shares[1]), kind="stable")
        top = order[: _BARS if count <= _BARS else _BARS - 1]
        names = [column.labels[at] for at in top]
        drawn = [side[top] for side in shares]
        if len(top) < count:
            names.append(f"{count - len(top)} others")
            drawn = [np.append(side[top], side.sum() - side[top].sum()) for side in shares]
        return ColumnPicture(tuple(names), drawn[0], drawn[1], empty, empty, empty)
    ours, theirs = real.astype(np.float64), synthetic.astype(np.float64)
    both = np.union1d(ours, theirs)
    points = _points(ours, theirs)
    up_to = [_up_to(side, points) for side in (ours, theirs)]
    if len(both) <= _BARS:
        shares = [_shares(np.searchsorted(both, side), len(both)) for side in (ours, theirs)]
        names = [values_as_text(column, float(value)) for value in both]
    else:
        edges = _edges(float(points[0]), float(points[-1]), integers=bool(np.array_equal(both, np.floor(both))))
        count = len(edges) - 1
        shares = []
        for side in (ours, theirs):
            at = np.clip(np.searchsorted(edges, side, side="right") - 1, 0, count - 1)
            shares.append(_shares(at, count))
        texts = [values_as_text(column, float(edge)) for edge in edges]
        names = [f"{texts[at]} to {texts[at + 1]}" for at in range(count)]
        names[0], names[-1] = f"below {texts[1]}", f"{texts[-2]} and more"
    return ColumnPicture(tuple(names), shares[0], shares[1], points, up_to[0], up_to[1])


def _edges(low: float, high: float, *, integers: bool) -> NDArray[np.float64]:
    """Edges of equal bars; between whole numbers a bar holds as many of them as the next.

    >>> _edges(17.0, 78.0, integers=True)[:3].tolist()
    [17.0, 20.0, 23.0]
    """
    if not integers:
        return np.linspace(low, high, _BARS + 1)
    step = np.ceil((np.floor(high) + 1 - np.floor(low)) / _BARS)
    edges: NDArray[np.float64] = np.arange(np.floor(low), np.floor(high) + 1 + step, step)
    return edges


def _points(real: NDArray[np.float64], synthetic: NDArray[np.float64]) -> NDArray[np.float64]:
    ends = [np.quantile(side, [_OUTER, 1 - _OUTER]) for side in (real, synthetic) if len(side)]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    points: NDArray[np.float64] = np.linspace(low, high if high > low else low + 1.0, _STEPS)
    return points


def _up_to(values: NDArray[np.generic], points: NDArray[np.generic]) -> NDArray[np.float64]:
    if not len(values):
        return np.zeros(len(points))
    shares: NDArray[np.float64] = np.searchsorted(np.sort(values), points, side="right") / len(values)
    return shares


def _shares(codes: NDArray[np.generic], count: int) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = np.bincount(codes.astype(np.int64), minlength=count) / max(len(codes), 1)
    return shares


def _correlation_matrix(values: Sequence[NDArray[np.float64]], *, ranked: bool) -> NDArray[np.float64]:
    size = len(values)
    matrix = np.eye(size)
    if not any(np.isnan(column).any() for column in values):
        stacked = np.stack([_ranks(column) if ranked else column for column in values])
        return _tidy(stacked)
    for a in range(size):
        for b in range(a):
            both = ~np.isnan(values[a]) & ~np.isnan(values[b])
            pair = [values[at][both] for at in (a, b)]
            stacked = np.stack([_ranks(column) if ranked else column for column in pair])
            matrix[a, b] = matrix[b, a] = _tidy(stacked)[0, 1] if both.sum() > 1 else 0.0
    return matrix


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 0, ties in the middle."""
    distinct, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts + 1) / 2
    ranks: NDArray[np.float64] = middle[inverse.reshape(-1)] if len(distinct) else values
    return ranks


def _tidy(stacked: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pearson's correlations; 0 where a column does not vary."""
    centred = stacked - stacked.mean(axis=1, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=1))
    scale = np.outer(spread, spread)
    covariance = centred @ centred.T / stacked.shape[1]
    result: NDArray[np.float64] = np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0)
    np.fill_diagonal(result, 1.0)
    return np.clip(result, -1.0, 1.0)
