"""Numbers as they are modelled: which position a value takes, and which value is drawn for a position.

A closed `Numeric` has equal bins, uniform within each. A `ShapedNumber`, found privately by a fit, has popular values
with positions of their own, bins of about equal weight for the rest, and a fine histogram within each bin.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.fields import Modelled, is_whole
from dpgm.data.number_fields import (
    LARGEST_TICK,
    MAX_BINS,
    SECONDS,
    Floats,
    NumberFormat,
    Numeric,
    is_number,
    is_pattern,
)

MAX_CELLS = 100_000

Codes: TypeAlias = NDArray[np.int64]


def bin_of(field: Numeric, values: NDArray[Any]) -> Codes:
    """The bin of every number, clamped to the closed field's range."""
    assert field.bins is not None and not isinstance(field.low, str) and not isinstance(field.high, str)  # noqa: PT018
    above = np.clip(values, field.low, field.high) - field.low
    if field.integer:
        whole: Codes = (above.astype(np.int64) * field.bins) // int(field.high - field.low + 1)
        return whole
    bins: Codes = np.floor(above * (field.bins / (field.high - field.low))).astype(np.int64)
    return np.clip(bins, 0, field.bins - 1)


def draw_in_bin(field: Numeric, bins: Codes, rng: np.random.Generator) -> NDArray[Any]:
    """A number of every bin, uniformly; whole numbers for an integer field."""
    assert field.bins is not None and not isinstance(field.low, str) and not isinstance(field.high, str)  # noqa: PT018
    if field.integer:
        span = int(field.high - field.low) + 1
        first = -((-bins * span) // field.bins)
        after = -((-(bins + 1) * span) // field.bins)
        return int(field.low) + rng.integers(first, after)
    step = (field.high - field.low) / field.bins
    values = field.low + (bins + rng.random(len(bins))) * step
    middle = field.low + (bins + 0.5) * step
    # Rounding may push a draw over the edge of its bin; the middle never is.
    return np.where(bin_of(field, values) == bins, values, middle)


@dataclass(frozen=True)
class ShapedNumber(Modelled):
    """A number as it is modelled: popular values on their own, bins for the rest, and a shape within each bin.

    Attributes:
        format: what a tick means.
        atoms: values (in ticks) with a position of their own, rising.
        edges: borders of fine cells in ticks, rising; cell j holds [edges[j], edges[j + 1]). For numbers in steps all
            borders are whole and the last one is one step above the highest value; else the last is the highest value.
        weights: how often values of each cell occur, in relation to the other cells of its bin.
        starts: the first cell of every bin.
        clock: how often each hour of the day occurs, for moments whose cells are whole days; else nothing.
        missing: the last position stands for a missing value.
        after: the field of dates since which the number counts.
        pattern: how a text file writes a date, as `Date` has it.

    Positions: the atoms, the bins, missing.
    """

    format: NumberFormat
    atoms: tuple[float, ...]
    edges: tuple[float, ...]
    weights: tuple[float, ...]
    starts: tuple[int, ...]
    clock: tuple[float, ...] = ()
    missing: bool = False
    after: str | None = None
    pattern: str | None = None
    kind: Literal["shaped"] = "shaped"

    def __post_init__(self) -> None:
        super().__post_init__()
        for entry in ("atoms", "edges", "weights", "starts", "clock"):
            self._set(entry, tuple(getattr(self, entry)))
        if not self._is_histogram():
            raise self._wrong("its atoms, edges, weights and starts do not make a histogram")

    def _is_histogram(self) -> bool:
        cells = max(0, len(self.edges) - 1)
        return (
            len(self.edges) <= MAX_CELLS
            and len(self.atoms) <= MAX_BINS
            and bool(self.atoms or self.starts)
            and isinstance(self.missing, bool)
            and all(map(is_number, (*self.atoms, *self.edges, *self.weights)))
            and all(is_whole(start, 0, cells - 1) for start in self.starts)
            and len(self.weights) == cells
            and min(self.weights, default=0) >= 0
            and (cells == 0 if not self.starts else self.starts[0] == 0)
            and all(low < high for some in (self.atoms, self.edges, self.starts) for low, high in pairwise(some))
            and (not self.format.in_steps or all(map(_is_step, (*self.atoms, *self.edges))))
            and (self.after is None or (isinstance(self.after, str) and self.format.kind == "integer"))
            and (not self.clock or self._has_hours())
            and (self.pattern is None or is_pattern(self.pattern))
        )

    def _has_hours(self) -> bool:
        good = self.format.kind == "datetime" and self.format.unit != "day" and len(self.clock) == 24
        good = good and all(is_number(weight) and weight >= 0 for weight in self.clock)
        return good and 0 < sum(self.clock) < math.inf

    @property
    def _values(self) -> int:
        return len(self.atoms) + len(self.starts)

    @property
    def _names(self) -> list[str]:
        text = self.format.text
        names = [f"{self.name}={text(atom)}" for atom in self.atoms]
        for first, after in pairwise((*self.starts, len(self.weights))):
            last = self.edges[after] - (1 if self.format.in_steps else 0)
            names.append(f"{self.name} {text(self.edges[first])} to {text(last)}")
        return names


def _is_step(tick: float) -> bool:
    return tick == int(tick) and abs(tick) <= 2 * LARGEST_TICK


def shaped_codes(field: ShapedNumber, ticks: Floats) -> Codes:
    """The position of every value: its atom, else its bin; -1 where missing. Values outside go to the nearer end."""
    missing = np.isnan(ticks)
    values = np.where(missing, 0.0, ticks)
    codes = np.zeros(len(values), dtype=np.int64)
    atoms = np.array(field.atoms)
    if field.starts:
        edges = np.array(field.edges)
        borders = edges[np.array(field.starts)]
        values = np.clip(values, edges[0], edges[-1] - (1 if field.format.in_steps else 0))
        codes = len(atoms) + np.clip(np.searchsorted(borders, values, side="right") - 1, 0, len(borders) - 1)
    elif len(atoms) > 1:
        codes = np.searchsorted((atoms[1:] + atoms[:-1]) / 2, values, side="right").astype(np.int64)
    if len(atoms) and field.starts:
        # Clipped to the bounds, then unclipped: a special value may lie beyond the bounds.
        for exact in (values, np.where(missing, 0.0, ticks)):
            at = np.minimum(np.searchsorted(atoms, exact), len(atoms) - 1)
            codes = np.where(atoms[at] == exact, at, codes)
    return np.where(missing, -1, codes)


def draw_shaped(field: ShapedNumber, positions: Codes, rng: np.random.Generator) -> Floats:
    """A value (in ticks) of every position: the atom, or drawn from the fine histogram of the bin.

    Draws of one bin are spread evenly over its histogram: each follows it, and together they show it, where independent
    ones would add chance errors to counts that the generator has met.
    """
    atoms, edges = np.array(field.atoms), np.array(field.edges)
    ticks = np.zeros(len(positions))
    on_atom = positions < len(atoms)
    ticks[on_atom] = atoms[positions[on_atom]] if len(atoms) else 0.0
    rows = np.flatnonzero(~on_atom)
    if not len(rows):
        return ticks
    cells, within = _drawn_cells(field, positions[rows] - len(atoms), rng)
    low, high = edges[cells], edges[cells + 1]
    drawn = low + within * (high - low)
    if field.clock:
        ticks[rows] = np.clip(_at_hours(field, np.floor(drawn), rng), low, high - 1)
    elif field.format.in_steps:
        ticks[rows] = np.clip(np.floor(drawn), low, high - 1)
    else:
        ticks[rows] = np.clip(drawn, low, np.nextafter(high, low))
    return ticks


def _at_hours(field: ShapedNumber, ticks: Floats, rng: np.random.Generator) -> Floats:
    """The same days, at hours as often as they occur."""
    day = SECONDS["day"] // SECONDS[field.format.unit]
    upto = np.concatenate([[0.0], np.cumsum(field.clock)])
    points = _spread(np.zeros(len(ticks), dtype=np.int64), rng) * upto[-1]
    hours = np.clip(np.searchsorted(upto, points, side="right") - 1, 0, len(field.clock) - 1)
    within = np.clip((points - upto[hours]) / np.maximum(np.array(field.clock)[hours], 1e-300), 0.0, 1.0)
    length = day / len(field.clock)
    clock = np.clip(np.floor((hours + within) * length), hours * length, (hours + 1) * length - 1)
    moved: Floats = np.floor(ticks / day) * day + clock
    return moved


def _drawn_cells(field: ShapedNumber, bins: Codes, rng: np.random.Generator) -> tuple[Codes, Floats]:
    """A cell of every bin and how far into it; by weight, or by width where a bin has none (but for an atom's cell)."""
    weights, edges = np.array(field.weights, dtype=np.float64), np.array(field.edges)
    starts = np.array([*field.starts, len(weights)])
    widths = np.diff(edges)
    if field.format.in_steps:
        widths = np.where((widths == 1) & np.isin(edges[:-1], field.atoms), 0.0, widths)
    owner = np.repeat(np.arange(len(field.starts)), np.diff(starts))
    empty = np.bincount(owner, weights) <= 0
    weights = np.where(empty[owner], widths, weights)
    weights = np.where((np.bincount(owner, weights) <= 0)[owner], 1.0, weights)
    upto = np.concatenate([[0.0], np.cumsum(weights)])
    first, last = upto[starts[bins]], upto[starts[bins + 1]]
    points = first + _spread(bins, rng) * (last - first)
    cells = np.searchsorted(upto, points, side="right") - 1
    # rounding may point past the last cell, or at one without weight
    cells = np.clip(cells, starts[bins], starts[bins + 1] - 1)
    heaviest = np.array([low + int(np.argmax(weights[low:high])) for low, high in pairwise(starts.tolist())])
    cells = np.where(weights[cells] > 0, cells, heaviest[bins])
    return cells, np.clip((points - upto[cells]) / weights[cells], 0.0, 1.0)


def _spread(bins: Codes, rng: np.random.Generator) -> Floats:
    """A number in [0, 1) for every entry: uniform for each, and those of one bin one in each of as many equal parts."""
    shuffled = rng.permutation(len(bins))
    order = shuffled[np.argsort(bins[shuffled], kind="stable")]
    counts = np.bincount(bins)
    part = np.arange(len(bins)) - np.repeat(np.cumsum(counts) - counts, counts)
    spread = np.empty(len(bins))
    spread[order] = (part + rng.random(len(bins))) / np.repeat(counts, counts)
    return spread
