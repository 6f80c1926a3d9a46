"""The section on raw columns: figures of each, real beside synthetic, with a histogram and a cumulative curve."""

from dataclasses import dataclass
from html import escape

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from dpgm.evaluation.column_metrics import ColumnComparison
from dpgm.evaluation.evaluate import Evaluation
from dpgm.evaluation.raw_columns import value_text
from dpgm.evaluation.verdict import column_faults, columns_off, percent, share_text

OPEN_CARDS = 8  # columns shown at once; the others unfold
_NAMED_BARS = 7  # categories shown by name
_WIDTH, _HEIGHT = 240, 100  # of a picture, in its own units


@dataclass(frozen=True)
class Figure:
    """One figure of a column on both sides."""

    label: str
    real: str
    synthetic: str


@dataclass(frozen=True)
class NamedBar:
    """One category with the widths of its two bars."""

    name: str
    real: str
    synthetic: str
    real_width: str
    synthetic_width: str


@dataclass(frozen=True)
class Card:
    """One column, ready to be laid out."""

    name: str
    kind: str
    faults: tuple[str, ...]
    distance: str
    distance_name: str
    figures: tuple[Figure, ...]
    bars: tuple[NamedBar, ...]
    others: int  # categories that are not named
    histogram: Markup | None
    curve: Markup | None
    low: str
    high: str


def cards(evaluation: Evaluation) -> tuple[Card, ...]:
    """A card per column: those that are off first, the worst at the top."""
    off = columns_off(evaluation)
    return tuple(_card(column) for column in (*off, *(c for c in evaluation.columns if c not in off)))


def _card(column: ColumnComparison) -> Card:
    numeric = column.kind != "category"
    picture = column.picture
    drawn = numeric and len(picture.points) > 0
    bars = () if numeric else _named_bars(column)
    return Card(
        name=column.name,
        kind={"number": "numbers", "date": "dates", "category": "categories"}[column.kind],
        faults=column_faults(column),
        distance=percent(column.distance),
        distance_name="Kolmogorov distance" if numeric else "total variation",
        figures=_figures(column),
        bars=bars,
        others=0 if numeric else max(0, len(picture.bars) - len(bars)),
        histogram=Markup(_histogram(column)) if drawn else None,
        curve=Markup(_curve(column)) if drawn else None,
        low=value_text(column.kind, float(picture.points[0])) if drawn else "",
        high=value_text(column.kind, float(picture.points[-1])) if drawn else "",
    )


def _figures(column: ColumnComparison) -> tuple[Figure, ...]:
    real, synthetic = column.real, column.synthetic
    figures = []
    if column.kind != "category":
        for label, at in (("median", 2), ("5 % lie below", 0), ("95 % lie below", 4)):
            sides = [
                value_text(column.kind, side.quantiles[at]) if side.quantiles else "–" for side in (real, synthetic)
            ]
            figures.append(Figure(label, *sides))
        figures.insert(
            1, Figure("mean", value_text(column.kind, real.mean), value_text(column.kind, synthetic.mean))
        )
        ranges = [
            "–"
            if side.low is None
            else f"{value_text(column.kind, side.low)} to {value_text(column.kind, side.high)}"
            for side in (real, synthetic)
        ]
        figures.append(Figure("range", *ranges))
    shares = (share_text(column.real_mode_share), share_text(column.synthetic_mode_share))
    figures.append(Figure(f"share of {column.mode}", *shares))
    if real.missing or synthetic.missing:
        figures.append(Figure("missing", share_text(real.missing), share_text(synthetic.missing)))
    figures.append(Figure("different values", f"{real.distinct:,}", f"{synthetic.distinct:,}"))
    return tuple(figures)


def _named_bars(column: ColumnComparison) -> tuple[NamedBar, ...]:
    picture = column.picture
    tallest = max(float(picture.real.max(initial=0)), float(picture.synthetic.max(initial=0)), 1e-9)
    return tuple(
        NamedBar(
            name,
            share_text(float(ours)),
            share_text(float(theirs)),
            f"{100 * float(ours) / tallest:.1f}",
            f"{100 * float(theirs) / tallest:.1f}",
        )
        for name, ours, theirs in list(zip(picture.bars, picture.real, picture.synthetic, strict=True))[
            :_NAMED_BARS
        ]
    )


def _histogram(column: ColumnComparison) -> str:
    picture = column.picture
    count = len(picture.bars)
    tallest = max(float(picture.real.max()), float(picture.synthetic.max()), 1e-9)
    room = _WIDTH / count
    parts = []
    for at, (name, real, synthetic) in enumerate(zip(picture.bars, picture.real, picture.synthetic, strict=True)):
        title = f"{name}: real {share_text(float(real))}, synthetic {share_text(float(synthetic))}"
        rects = ""
        for place, (kind, share) in enumerate((("ink", real), ("ours", synthetic))):
            height = _HEIGHT * float(share) / tallest
            left = at * room + room * (0.06 + 0.44 * place)
            rects += (
                f'<rect class="{kind}" x="{left:.2f}" y="{_HEIGHT - height:.2f}" width="{room * 0.42:.2f}"'
                f' height="{height:.2f}"/>'
            )
        parts.append(f"<g><title>{escape(title)}</title>{rects}</g>")
    label = (
        f"histogram of {column.name}, real beside synthetic; the tallest bar is {share_text(tallest)} of the rows"
    )
    return _svg("hist", label, "".join(parts))


def _curve(column: ColumnComparison) -> str:
    picture = column.picture
    lines = "".join(
        f'<polyline class="{kind}" points="{_steps(shares)}"/>'
        for kind, shares in (("ink", picture.real_up_to), ("ours", picture.synthetic_up_to))
    )
    label = f"share of values of {column.name} up to each value; largest gap {percent(column.distance)}"
    return _svg("curve", label, lines)


def _steps(shares: NDArray[np.float64]) -> str:
    last = max(len(shares) - 1, 1)
    return " ".join(
        f"{_WIDTH * at / last:.1f},{_HEIGHT * (1 - float(share)):.1f}" for at, share in enumerate(shares)
    )


def _svg(kind: str, label: str, inner: str) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 -2 {_WIDTH} {_HEIGHT + 4}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{inner}</svg>'
    )
