"""Bins by which numbers are modelled: encoding numbers as bin positions, and drawing numbers within bins.

A closed `Numeric` has equal bins with values uniform within each. A `ShapedNumber`, discovered privately by a fit, has
popular values (atoms) with positions of their own, bins of about equal weight for the rest, and a fine histogram within
each bin.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpgm.data.fields import Codes, Modelled, is_whole
from dpgm.data.number_fields import (
    LARGEST_TICK,
    MAX_BINS,
    SECONDS,
    Date,
    DateTime,
    Floats,
    NumberFormat,
    Numeric,
    is_number,
    is_pattern,
)

MAX_CELLS = 100_000


def bin_of(field: Numeric, values: NDArray[Any]) -> Codes:
    """The bin of every number of a closed field, after clamping to its range."""
    assert field.bins is not None and not isinstance(field.low, str) and not isinstance(field.high, str)  # noqa: PT018
    above = np.clip(values, field.low, field.high) - field.low
    if field.integer:
        whole: Codes = (above.astype(np.int64) * field.bins) // int(field.high - field.low + 1)
        return whole
    bins: Codes = np.floor(above * (field.bins / (field.high - field.low))).astype(np.int64)
    return np.clip(bins, 0, field.bins - 1)


def draw_in_bin(field: Numeric, bins: Codes, rng: np.random.Generator) -> NDArray[Any]:
    """Numbers drawn uniformly within the given bins; whole numbers for an integer field."""
    assert field.bins is not None and not isinstance(field.low, str) and not isinstance(field.high, str)  # noqa: PT018
    if field.integer:
        span = int(field.high - field.low) + 1
        first = -((-bins * span) // field.bins)
        after = -((-(bins + 1) * span) // field.bins)
        return int(field.low) + rng.integers(first, after)
    step = (field.high - field.low) / field.bins
    values = field.low + (bins + rng.random(len(bins))) * step
    middle = field.low + (bins + 0.5) * step
    # Rounding may push a draw over the edge of its bin; the middle is always inside.
    return np.where(bin_of(field, values) == bins, values, middle)


@dataclass(frozen=True)
class ShapedNumber(Modelled):
    """A discovered number or date: popular values, bins for the rest, and a fine histogram within each bin.

    Attributes:
        format: how values are converted to ticks.
        atoms: values (in ticks) with a position of their own, increasing.
        edges: edges of the fine cells in ticks, increasing; cell j is [edges[j], edges[j + 1]). For numbers with a step
            all edges are whole and the last one is one step above the highest value; otherwise it is the highest value.
        weights: relative frequency of each cell within its bin.
        starts: the first cell of every bin.
        clock: relative frequency of each hour of the day, for date-times whose cells are whole days; otherwise empty.
        missing: whether the last position stands for a missing value.
        after: the date field from which this number counts the time.
        low, high: with `after`, the bounds (in ticks) of the date that follows from it, if they were stated.
        pattern: the date format of text files, as in `Date`.

    Positions: atoms, bins, missing.
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
    low: float | None = None
    high: float | None = None
    kind: Literal["shaped"] = "shaped"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("atoms", "edges", "weights", "starts", "clock"):
            self._set(name, tuple(getattr(self, name)))
        if not self._is_histogram():
            raise self._error("its atoms, edges, weights and starts do not make a histogram")

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
            and (not self.format.in_steps or all(map(_is_whole_tick, (*self.atoms, *self.edges))))
            and (self.after is None or (isinstance(self.after, str) and self.format.kind == "integer"))
            and all(bound is None or self._is_date_bound(bound) for bound in self.date_bounds)
            and (self.low is None or self.high is None or self.low <= self.high)
            and (not self.clock or self._clock_is_valid())
            and (self.pattern is None or is_pattern(self.pattern))
        )

    def _is_date_bound(self, bound: object) -> bool:
        return self.after is not None and is_number(bound) and _is_whole_tick(bound)  # type: ignore[arg-type]

    @property
    def date_bounds(self) -> tuple[float | None, float | None]:
        """With `after`, the stated bounds of the dates in ticks."""
        return self.low, self.high

    def _clock_is_valid(self) -> bool:
        good = self.format.kind == "datetime" and self.format.unit != "day" and len(self.clock) == 24
        good = good and all(is_number(weight) and weight >= 0 for weight in self.clock)
        return good and 0 < sum(self.clock) < math.inf

    @property
    def _value_count(self) -> int:
        return len(self.atoms) + len(self.starts)

    @property
    def _value_names(self) -> list[str]:
        text = self.format.text
        names = [f"{self.name}={text(atom)}" for atom in self.atoms]
        for start, stop in pairwise((*self.starts, len(self.weights))):
            last = self.edges[stop] - (1 if self.format.in_steps else 0)
            names.append(f"{self.name} {text(self.edges[start])} to {text(last)}")
        return names


def _is_whole_tick(tick: float) -> bool:
    return tick == int(tick) and abs(tick) <= 2 * LARGEST_TICK


def shaped_codes(field: ShapedNumber, ticks: Floats) -> Codes:
    """The position of every value: its atom, otherwise its bin after clamping; -1 if it is missing."""
    if field.after is not None:
        ticks = _known_times(field, ticks)
    missing = np.isnan(ticks)
    values = np.where(missing, 0.0, ticks)
    codes = np.zeros(len(values), dtype=np.int64)
    atoms = np.array(field.atoms)
    if field.starts:
        edges = np.array(field.edges)
        bin_edges = edges[np.array(field.starts)]
        values = np.clip(values, edges[0], edges[-1] - (1 if field.format.in_steps else 0))
        codes = len(atoms) + np.clip(np.searchsorted(bin_edges, values, side="right") - 1, 0, len(bin_edges) - 1)
    elif len(atoms) > 1:
        codes = np.searchsorted((atoms[1:] + atoms[:-1]) / 2, values, side="right").astype(np.int64)
    if len(atoms) and field.starts:
        # First clamped, then as given, because a special value may lie beyond the bounds.
        for exact in (values, np.where(missing, 0.0, ticks)):
            at = np.minimum(np.searchsorted(atoms, exact), len(atoms) - 1)
            codes = np.where(atoms[at] == exact, at, codes)
    return np.where(missing, -1, codes)


def draw_shaped(field: ShapedNumber, positions: Codes, rng: np.random.Generator) -> Floats:
    """A value (in ticks) for every position: the atom, or a draw from the fine histogram of the bin.

    Draws are stratified: the draws of one bin are spread evenly over its histogram. Each follows the histogram, and
    together they reproduce it, without the sampling error of independent draws.
    """
    atoms, edges = np.array(field.atoms), np.array(field.edges)
    ticks = np.zeros(len(positions))
    on_atom = positions < len(atoms)
    ticks[on_atom] = atoms[positions[on_atom]] if len(atoms) else 0.0
    rows = np.flatnonzero(~on_atom)
    if not len(rows):
        return ticks
    starts = np.array([*field.starts, len(field.weights)])
    cells, within = _draw_cells(_cell_weights(field), starts, positions[rows] - len(atoms), rng)
    low, high = edges[cells], edges[cells + 1]
    drawn = low + within * (high - low)
    if field.clock:
        ticks[rows] = np.clip(_with_drawn_hours(field, np.floor(drawn), rng), low, high - 1)
    elif field.format.in_steps:
        ticks[rows] = np.clip(np.floor(drawn), low, high - 1)
    else:
        ticks[rows] = np.clip(drawn, low, np.nextafter(high, low))
    return ticks


def _with_drawn_hours(field: ShapedNumber, ticks: Floats, rng: np.random.Generator) -> Floats:
    """The same days, at times of day drawn from `clock`."""
    day = SECONDS["day"] // SECONDS[field.format.unit]
    one_bin = np.zeros(len(ticks), dtype=np.int64)
    hours, within = _draw_cells(np.array(field.clock), np.array([0, len(field.clock)]), one_bin, rng)
    length = day / len(field.clock)
    clock = np.clip(np.floor((hours + within) * length), hours * length, (hours + 1) * length - 1)
    moved: Floats = np.floor(ticks / day) * day + clock
    return moved


def _cell_weights(field: ShapedNumber) -> Floats:
    """Weights of the fine cells; in a bin without weight, the widths of its cells, except the cells of atoms."""
    weights, edges = np.array(field.weights, dtype=np.float64), np.array(field.edges)
    widths = np.diff(edges)
    if field.format.in_steps:
        widths = np.where((widths == 1) & np.isin(edges[:-1], field.atoms), 0.0, widths)
    bin_of_cell = np.repeat(np.arange(len(field.starts)), np.diff([*field.starts, len(weights)]))
    for fallback in (widths, 1.0):
        empty = np.bincount(bin_of_cell, weights) <= 0
        weights = np.where(empty[bin_of_cell], fallback, weights)
    return weights


def _draw_cells(weights: Floats, starts: Codes, bins: Codes, rng: np.random.Generator) -> tuple[Codes, Floats]:
    """For every bin a cell drawn by weight, and a relative position in [0, 1] within the cell.

    `starts` holds the first cell of every bin and the total number of cells.
    """
    cumulative = np.concatenate([[0.0], np.cumsum(weights)])
    first, last = cumulative[starts[bins]], cumulative[starts[bins + 1]]
    points = first + _stratified(bins, rng) * (last - first)
    cells = np.searchsorted(cumulative, points, side="right") - 1
    # Rounding may point past the last cell, or at one without weight.
    cells = np.clip(cells, starts[bins], starts[bins + 1] - 1)
    heaviest = np.array([low + int(np.argmax(weights[low:high])) for low, high in pairwise(starts.tolist())])
    cells = np.where(weights[cells] > 0, cells, heaviest[bins])
    return cells, np.clip((points - cumulative[cells]) / weights[cells], 0.0, 1.0)


def _stratified(bins: Codes, rng: np.random.Generator) -> Floats:
    """Stratified uniform numbers in [0, 1): of the n entries of one bin, one lies in each interval of length 1/n."""
    shuffled = rng.permutation(len(bins))
    order = shuffled[np.argsort(bins[shuffled], kind="stable")]
    counts = np.bincount(bins)
    interval = np.arange(len(bins)) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers = np.empty(len(bins))
    numbers[order] = (interval + rng.random(len(bins))) / np.repeat(counts, counts)
    return numbers


# -- dates after other dates ---------------------------------------------------------------------------------------


def times_since(field: Date | DateTime | ShapedNumber, dates: Floats, base: Floats) -> Floats:
    """The times in ticks from the dates `base` to `dates`, which are clamped to their stated bounds.

    Many records may have the last day that is possible (people who are still members), after any time. They are counted
    as the longest time of all: a time t up to the upper bound is returned as longest + 1 + t.
    """
    low, high = _limits(field)
    times = np.clip(dates, low, high) - base
    longest = high - low
    if not math.isfinite(longest):
        return times
    return np.where(dates >= high, longest + 1 + np.maximum(times, 0.0), np.minimum(times, longest - 1))


def _known_times(field: ShapedNumber, times: Floats) -> Floats:
    """Times up to the upper bound as the longest time if that is modelled, else as they are."""
    low, high = _limits(field)
    longest = high - low
    with_weight = field.edges[-1] - 1 == longest and field.weights[-1] > 0 if field.edges else False
    up_to_bound = longest if longest in field.atoms or with_weight else times - longest - 1
    return np.where(times > longest, up_to_bound, times)


def dates_after(field: ShapedNumber, times: Floats, base: Floats, rng: np.random.Generator) -> Floats:
    """Dates in ticks, the drawn times after the dates `base`, within the stated bounds.

    The longest time leads to the upper bound (see `times_since`). A time that leads out of the bounds is drawn again
    from its bin, as far as that is possible, or from the nearest bin that is; clamping would pile records up.
    """
    low, high = _limits(field)
    dates = np.where(times >= high - low, high, base + times)
    rows = np.flatnonzero((dates < low) | (dates > high))
    if len(rows) and field.starts:
        edges, starts = np.array(field.edges), np.array([*field.starts, len(field.weights)])
        first, last = low - base[rows], high - base[rows]  # the possible times
        bins = np.searchsorted(edges[starts[:-1]], np.clip(times[rows], first, last), side="right") - 1
        bins = np.maximum(bins, 0)
        ends = np.maximum(edges[starts[bins]], first), np.minimum(edges[starts[bins + 1]], last + 1)
        cumulative = np.concatenate([[0.0], np.cumsum(_cell_weights(field))])
        below, above = (np.interp(end, edges, cumulative) for end in ends)
        again = np.floor(np.interp(below + rng.random(len(rows)) * (above - below), cumulative, edges))
        dates[rows] = np.where(above > below, base[rows] + again, dates[rows])
    return np.clip(dates, low, high)


def _limits(field: Date | DateTime | ShapedNumber) -> tuple[float, float]:
    low, high = field.date_bounds
    return -math.inf if low is None else low, math.inf if high is None else high
