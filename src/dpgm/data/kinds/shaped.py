"""`ShapedNumber`: a number or date whose popular values and bins a fit has found; and drawing numbers within bins.

It has popular values (atoms) with positions of their own, bins of about equal weight for the rest, and a fine histogram
within each bin.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from dpgm.arrays import Codes, Floats, Mask
from dpgm.data.arrow import Array, Table
from dpgm.data.kinds.base import Cells, CellStyle, ColumnKind, Field, FieldReader, Recoder, Rng
from dpgm.data.kinds.date import dates_and_texts, refuse_after_unless
from dpgm.data.kinds.numeric import MAX_BINS, numbers_of_booleans
from dpgm.data.kinds.open_number import NumberField, OpenNumber
from dpgm.data.number_format import (
    LARGEST_TICK,
    SECONDS,
    NumberFormat,
    is_pattern,
    is_whole,
    number_format,
)
from dpgm.data.open_columns import CodeColumn, NumberColumn, OpenColumn
from dpgm.data.values import Place, as_written, object_texts
from dpgm.validation import is_number

MAX_CELLS = 100_000


@dataclass(frozen=True)
class ShapedNumber(NumberField):
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

    kind: ClassVar[str] = "shaped"
    is_stated: ClassVar[bool] = False  # only a fit makes it
    may_identify: ClassVar[bool] = True
    may_leave_gaps: ClassVar[bool] = True
    must_be_whole: ClassVar[bool] = False  # numbers are rounded: only what a curator states is checked
    missing_advice: ClassVar[str | None] = (
        "the fit has found too few such rows to model them; to compare the data with a sample, give `dpgm.evaluate`"
        " the frame or the file itself"
    )

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

    # -- in domain files -------------------------------------------------------------------------------------------

    @classmethod
    def keys(cls) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The format is written as `type`, `decimals` and `unit`."""
        required, optional = super().keys()
        return ("type", *(key for key in required if key != "format")), ("decimals", "unit", *optional)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """The field of a mapping in a domain file."""
        parts = {
            key: plain.get(key, default) for key, default in (("type", None), ("decimals", 0), ("unit", "day"))
        }
        rest = {key: value for key, value in plain.items() if key not in parts}
        return super().from_plain(rest | {"format": number_format(plain["name"], *parts.values())})

    def to_plain(self) -> dict[str, Any]:
        """With whole numbers as such: 3 is shorter than 3.0."""
        plain: dict[str, Any] = {}
        for key, value in super().to_plain().items():
            if key == "format":
                plain["type"] = self.format.kind
                plain |= {"decimals": self.format.decimals} if self.format.kind == "decimal" else {}
                plain |= {"unit": self.format.unit} if self.format.kind == "datetime" else {}
            elif isinstance(value, list):
                plain[key] = [int(part) if part == int(part) else part for part in value]
            else:
                plain[key] = value
        return plain

    def check_among(self, others: Mapping[str, Field]) -> None:
        """Check that `after` names a field of dates that has no `after` itself."""
        if self.after is not None:
            base = others.get(self.after)
            good = isinstance(base, ShapedNumber) and base.after is None and base.format.is_temporal
            refuse_after_unless(good, self.name, self.after, others)

    # -- reading, writing, conditions ------------------------------------------------------------------------------

    @property
    def reads_numbers(self) -> bool:  # type: ignore[override]
        """Whether cells are numbers, not dates."""
        return self.after is None and not self.format.is_temporal

    @property
    def compared_as(self) -> ColumnKind | None:  # type: ignore[override]
        """As a number, or as a date."""
        return "number" if self.reads_numbers else "date"

    def reader(self, style: CellStyle, others: Mapping[str, Field]) -> FieldReader:
        """Reads popular values and bins."""

        def read(table: Table, place: Place) -> CodeColumn:
            codes = shaped_codes(self, self.modelled_ticks(others, table, style, place))
            return CodeColumn(np.where(codes < 0, self.width - 1, codes).astype(np.int32))

        return read

    def from_objects(self, values: Sequence[Any], place: Place) -> Array:
        """Numbers, dates and texts."""
        values = numbers_of_booleans(values)
        return object_texts(values, place) if self.pattern is None else dates_and_texts(values, self.pattern, place)

    def drawn(self, cells: Cells, rng: Rng) -> tuple[Floats, Mask]:
        """Ticks, and a mask of missing values."""
        codes, missing = cells.single(self._value_count)
        return draw_shaped(self, codes, rng), missing

    def finished(self, drawn: Mapping[str, Any], others: Mapping[str, Field], rng: Rng) -> Array:
        """Numbers or dates; with `after`, dates at the drawn time after the date of that field."""
        (ticks, missing), format = drawn[self.name], self.format
        if self.after is not None:
            base: Any = others[self.after]
            base_ticks, base_missing = drawn[self.after]
            ticks = dates_after(self, ticks, base_ticks, rng)
            missing, format = missing | base_missing, base.format
        return format.column(ticks, missing)

    def as_written(self, column: Array) -> Array | None:
        """Dates as texts in the pattern."""
        return None if self.pattern is None else as_written(column, self.pattern)

    def position_ranges(self) -> tuple[Floats, Floats] | None:
        """The ends of popular values and bins; None if positions are times since another date."""
        if self.after is not None:
            return None
        edges = np.asarray(self.edges, dtype=np.float64)
        starts = np.asarray(self.starts, dtype=np.int64)
        after = np.append(starts[1:], max(len(edges) - 1, 0))[: len(starts)]
        step = 1.0 if self.format.in_steps else 0.0
        lows = np.concatenate([self.atoms, edges[starts] if len(starts) else []])
        highs = np.concatenate([self.atoms, edges[after] - step if len(starts) else []])
        return lows * self.format.tick_size, highs * self.format.tick_size

    # -- discovery -------------------------------------------------------------------------------------------------

    def recoder(self, column: OpenColumn, fallback: int | None) -> Recoder:
        """Popular values and bins of ticks."""
        absent = self.width - 1 if self.missing else fallback or 0

        def recode(part: NumberColumn) -> CodeColumn:
            codes = shaped_codes(self, part.ticks)
            return CodeColumn(np.where(codes < 0, absent, codes).astype(np.int32))

        return recode

    def lies_within(self, stated: OpenNumber) -> bool:
        """Whether popular values and bins lie within the stated bounds."""
        low, high = stated.bounds
        ends = [value for value in self.atoms if value not in stated.special_ticks]
        ends += [self.edges[0], self.edges[-1] - (1 if self.format.in_steps else 0)] if self.edges else []
        return all((low is None or end >= low) and (high is None or end <= high) for end in ends)

    def described(self) -> str:
        """How many popular values and bins there are."""
        missing = ", may be missing" if self.missing else ""
        return f"numbers, {len(self.atoms)} popular values and {len(self.starts)} bins{missing}"


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


def times_since(field: NumberField, dates: Floats, base: Floats) -> Floats:
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


def _limits(field: NumberField) -> tuple[float, float]:
    low, high = field.date_bounds
    return -math.inf if low is None else low, math.inf if high is None else high
