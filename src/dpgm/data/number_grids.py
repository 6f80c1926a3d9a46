"""How numbers are cut into cells: public grids over which they are counted, and bins by which they are modelled.

Grids. A number that can take few values has a cell for each. Else cells grow with the size of the number (or are
equally wide). Where numbers come in steps, the ends of the range (where values beyond it go) and 0 have cells of their
own, which are counted apart. Groups of neighbouring cells are counted as well, so that what lies in a wide range is
known without adding up the noise of all its cells. Moments are counted by days and, apart, by the hour of the day.

Bins. A closed `Numeric` has equal bins, uniform within each. A `ShapedNumber`, found privately by a fit, has popular
values with positions of their own, bins of about equal weight for the rest, and a fine histogram within each bin.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.fields import Modelled, is_whole
from dpgm.data.number_fields import (
    FIRST_YEAR,
    LARGEST_TICK,
    LAST_YEAR,
    MAX_BINS,
    SECONDS,
    Floats,
    NumberFormat,
    Numeric,
    OpenNumber,
    Scale,
    Unit,
    is_number,
    is_pattern,
)

Codes: TypeAlias = NDArray[np.int64]

MAX_CELLS = 100_000
LEAVES = 4096  # fine cells at most: 0.4 % of a number on a log scale from 1 to 10 million
_ONE_LEVEL = 48  # cells up to which nothing is grouped: the noise of their sum is small enough
_TWO_LEVELS = 1024
_GROUPS = (16, 256)  # of larger grids: sixteen groups of sixteen groups
_FINEST = 1e-4  # of the range: numbers without steps are told apart linearly below it, by size above
# Powers of two for bounds that are to be found: from 2^-40 to 2^62, of both signs, and 0.
_EXPONENTS = np.arange(-40, 63)
BOUND_SLOTS = 2 * len(_EXPONENTS) + 1
YEARS = LAST_YEAR - FIRST_YEAR + 1
UNITS: tuple[Unit, ...] = ("day", "hour", "minute", "second")  # steps of moments, from coarse to fine
MOST_PLACES = 6  # after the point that are told apart; numbers with more are taken for reals
STEP_SLOTS = MOST_PLACES + 2
_ROUNDING = 4 * 2.0**-52  # of a number: what arithmetic leaves of 0.1 + 0.2
HOURS = 24
CLOCK_DAYS = (
    7  # days of a range from which moments are days and hours of the day; shorter ones are told apart finely
)
_FAR_DAYS = 10**6


@dataclass(frozen=True)
class Grid:
    """Cells [edges[j], edges[j + 1]) and, level by level from coarse to fine, the first cell of every group.

    The last level is the cells themselves. Cells `apart` are counted on their own, and not within groups.
    """

    edges: tuple[float, ...]
    in_steps: bool
    apart: tuple[int, ...] = ()

    @cached_property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.edges) - 1

    @cached_property
    def levels(self) -> tuple[NDArray[np.int64], ...]:
        """First cell of every group, level by level; the last level is all cells."""
        if self.cells <= _ONE_LEVEL:
            above: list[int] = []
        elif self.cells <= _TWO_LEVELS:
            above = [round(self.cells**0.5)]
        else:
            above = list(_GROUPS)
        starts = [np.unique(np.arange(count) * self.cells // count) for count in above]
        return (*starts, np.arange(self.cells))

    @property
    def size(self) -> int:
        """Counts of cells apart and of all levels together."""
        return len(self.apart) + sum(len(level) for level in self.levels)

    def cell_of(self, ticks: Floats) -> NDArray[np.int64]:
        """The cell of every tick, far ones in the nearer end."""
        edges = np.array(self.edges)
        return np.clip(np.searchsorted(edges, ticks, side="right") - 1, 0, self.cells - 1)

    def counts(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many lie in every cell apart, and in every group of every level, level after level."""
        finest = np.bincount(cells, minlength=self.cells).astype(np.int64)
        apart = np.array(self.apart, dtype=np.int64)
        alone = finest[apart]
        finest[apart] = 0
        return np.concatenate([alone, *(np.add.reduceat(finest, starts) for starts in self.levels)])


def grid_of(
    low: float, high: float, format: NumberFormat, scale: Scale, specials: Sequence[float] = (), day: int = 0
) -> Grid:
    """The grid of a number in [low, high] (ticks).

    `specials` have cells of their own, for which nothing is counted; `day` is the ticks of a day, where all borders
    shall lie at midnight.
    """
    if not format.in_steps:
        edges = _curve(low, high, scale, _FINEST * (high - low))
        edges[0], edges[-1] = low, high
        inner = [0.0] if low < 0 < high else []
        return Grid(tuple(np.unique([*edges, *inner]).tolist()), False)
    if day:
        days = np.unique(np.rint(np.linspace(low // day, high // day + 1, LEAVES + 1))) * day
        return Grid(tuple(np.clip(days, low, high + 1).tolist()), True)
    dates = format.kind in ("date", "datetime")  # no day is special
    alone = [] if dates else sorted({low, high, *([0.0] if low <= 0 <= high else [])} - set(specials))
    if high - low + 1 <= LEAVES:
        edges = np.arange(low, high + 2)
    else:
        inside = [*alone, *(value for value in specials if low <= value <= high)]
        edges = np.clip(np.rint(_curve(low, high + 1, scale, 1.0)), low, high + 1)
        edges = np.unique([*edges, *inside, *(value + 1 for value in inside)])
    grouped = len(edges) - 1 > _ONE_LEVEL
    apart = np.searchsorted(edges, alone).astype(np.int64) if grouped else np.empty(0, dtype=np.int64)
    return Grid(tuple(edges.tolist()), True, tuple(apart.tolist()))


def _curve(low: float, high: float, scale: Scale, unit: float) -> Floats:
    """LEAVES + 1 borders from low to high: equally far apart, or by sign(x) log(1 + |x| / unit)."""
    if scale == "linear":
        return np.linspace(low, high, LEAVES + 1)
    ends = [np.sign(x) * np.log1p(abs(x) / unit) for x in (low, high)]
    points = np.linspace(ends[0], ends[1], LEAVES + 1)
    curve: Floats = np.sign(points) * unit * np.expm1(np.abs(points))
    return curve


def needs_atoms(field: OpenNumber, low: float | None, high: float | None) -> bool:
    """Whether exact values that many people share have to be looked for: not where every value has its own cell."""
    if not field.format.in_steps or low is None or high is None:
        return True
    return high - low + 1 > LEAVES


def bound_slot(ticks: Floats) -> NDArray[np.int64]:
    """The power of two below every number, by sign: slots 0 .. BOUND_SLOTS - 1 rise with the number."""
    size = np.abs(ticks)
    with np.errstate(divide="ignore"):
        power = np.floor(np.log2(np.where(size > 0, size, 1.0))).astype(np.int64)
    place = np.clip(power, _EXPONENTS[0], _EXPONENTS[-1]) - _EXPONENTS[0]
    middle = len(_EXPONENTS)
    return np.where(size == 0, middle, np.where(ticks > 0, middle + 1 + place, middle - 1 - place))


def places_slot(values: Floats) -> NDArray[np.int64]:
    """How many places after the point every number has, up to rounding; one slot more for all with many.

    >>> places_slot(np.array([5.0, 0.25, 0.1 + 0.2, 1 / 3])).tolist()
    [0, 2, 1, 7]
    """
    slots = np.full(len(values), MOST_PLACES + 1, dtype=np.int64)
    for places in range(MOST_PLACES, -1, -1):
        scaled = np.clip(values, -LARGEST_TICK, LARGEST_TICK) * 10.0**places
        slots[np.abs(scaled - np.rint(scaled)) <= _ROUNDING * np.abs(scaled)] = places
    return slots


def unit_slot(seconds: Floats) -> NDArray[np.int64]:
    """The coarsest of `UNITS` that every moment is a whole number of."""
    slots = np.full(len(seconds), len(UNITS) - 1, dtype=np.int64)
    for at in range(len(UNITS) - 2, -1, -1):
        slots[np.mod(seconds, SECONDS[UNITS[at]]) == 0] = at
    return slots


def year_slot(ticks: Floats, step: int) -> NDArray[np.int64]:
    """The calendar year of every date (ticks of `step` seconds), far ones in the nearer end, as a slot from 0 on."""
    seconds = np.clip(ticks, -LARGEST_TICK / step, LARGEST_TICK / step) * step
    days = np.clip(np.floor(seconds / 86_400), -_FAR_DAYS, _FAR_DAYS)
    years = days.astype(np.int64).astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970
    slots: NDArray[np.int64] = np.clip(years, FIRST_YEAR, LAST_YEAR) - FIRST_YEAR
    return slots


def clock_day(format: NumberFormat, low: float, high: float) -> int:
    """Ticks of a day, if a range of moments is so long that hours of the day are modelled on their own; else 0."""
    if format.kind != "datetime" or format.unit == "day":
        return 0
    day = SECONDS["day"] // SECONDS[format.unit]
    return day if high - low + 1 >= CLOCK_DAYS * day else 0


def hour_slot(ticks: Floats, day: int) -> NDArray[np.int64]:
    """The hour of the day, of which `day` ticks make one."""
    return np.floor(np.mod(ticks, day) * HOURS / day).astype(np.int64)


def year_range(first: int, last: int, step: int) -> tuple[float, float]:
    """The first and the last tick (of `step` seconds) of calendar years given by their slots."""
    ends = [np.datetime64(f"{FIRST_YEAR + at}-01-01", "s").astype(np.int64) for at in (first, last + 1)]
    return float(ends[0] // step), float(ends[1] // step - 1)


def bound_exponent(slot: int) -> int:
    """The exponent of the power of two of a slot other than that of 0."""
    return int(_EXPONENTS[abs(slot - len(_EXPONENTS)) - 1])


def slot_range(slot: int, in_steps: bool) -> tuple[float, float]:
    """The lowest and the highest number of a slot."""
    if slot == len(_EXPONENTS):
        return 0.0, 0.0
    middle, power = len(_EXPONENTS), bound_exponent(slot)
    if in_steps and power < 0:  # no whole number lies there, but noise may point at it
        return 0.0, 0.0
    low, high = 2.0**power, 2.0 ** (power + 1) - (1 if in_steps else 0)
    low, high = min(low, float(LARGEST_TICK)), min(max(high, low), float(LARGEST_TICK))
    return (low, high) if slot > middle else (-high, -low)


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
