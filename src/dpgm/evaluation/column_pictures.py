"""What a column looks like in the report: a histogram and, for numbers and dates, a cumulative curve."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Floats
from dpgm.evaluation.raw_columns import RawColumn

_BARS = 24  # bars of a histogram; more would be too thin on a phone
_STEPS = 60  # points of a cumulative curve
_TAIL = 0.005  # share of the rows at either end that is drawn within the outermost bars


@dataclass(frozen=True)
class ColumnPicture:
    """A histogram and, for numbers and dates, a cumulative curve of one column."""

    bars: tuple[str, ...]
    real: Floats  # share of the rows per bar
    synthetic: Floats
    points: Floats
    real_up_to: Floats  # share of the values up to each point
    synthetic_up_to: Floats


def column_picture(column: RawColumn, real: NDArray[Any], synthetic: NDArray[Any]) -> ColumnPicture:
    """The picture of a column with these values, neither missing nor special."""
    if column.kind == "category":
        return _bars_of_labels(column, real, synthetic)
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
    first, second = (shares_of(side, len(names)) for side in codes)
    return ColumnPicture(tuple(names), first, second, points, up_to(real, points), up_to(synthetic, points))


def _bars_of_labels(column: RawColumn, real: NDArray[Any], synthetic: NDArray[Any]) -> ColumnPicture:
    count = len(column.labels)
    shares = [shares_of(side, count) for side in (real, synthetic)]
    top = np.argsort(-np.maximum(*shares), kind="stable")[: _BARS if count <= _BARS else _BARS - 1]
    names = [column.labels[at] for at in top]
    drawn = [side[top] for side in shares]
    if len(top) < count:
        names.append(f"{count - len(top)} others")
        drawn = [np.append(side, share.sum() - side.sum()) for side, share in zip(drawn, shares, strict=True)]
    none = np.empty(0)
    return ColumnPicture(tuple(names), drawn[0], drawn[1], none, none, none)


def _edges(low: float, high: float, *, integers: bool) -> Floats:
    """Edges of equally wide bars; where all values are integers, each bar covers the same number of integers.

    >>> _edges(17.0, 78.0, integers=True)[:3].tolist()
    [17.0, 20.0, 23.0]
    """
    if not integers:
        return np.linspace(low, high, _BARS + 1)
    step = np.ceil((np.floor(high) + 1 - np.floor(low)) / _BARS)
    edges: Floats = np.arange(np.floor(low), np.floor(high) + 1 + step, step)
    return edges


def _curve_points(real: Floats, synthetic: Floats) -> Floats:
    ends = np.array([np.quantile(side, [_TAIL, 1 - _TAIL]) for side in (real, synthetic) if len(side)])
    low, high = ends[:, 0].min(), ends[:, 1].max()
    return np.linspace(low, high if high > low else low + 1.0, _STEPS)


def up_to(values: Floats, points: Floats) -> Floats:
    """The share of the values up to each point."""
    return np.searchsorted(np.sort(values), points, side="right") / max(len(values), 1)


def shares_of(codes: NDArray[np.int64], count: int) -> Floats:
    """The share of every code."""
    return np.bincount(codes, minlength=count) / max(len(codes), 1)
