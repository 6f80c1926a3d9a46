"""Public grids over which raw numbers and dates are counted, to discover their range, step and distribution.

The *range* of a number is found by counting numbers per power of two, that of a date by counting dates per year; the
*step* by counting decimal places, or units of time. A counter of such a histogram is called a slot.

The *distribution* is found over the cells of a `Grid`. A number with few possible values has one cell per value;
otherwise cells grow with the size of the number, or are equally wide. For numbers with a step, 0 and both ends of the
range (which also collect all values beyond) have separate cells. Groups of neighbouring cells are counted too, so that
the count of a wide range does not add up the noise of all its cells. Date-times are counted by day and by hour of the
day.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Floats
from dpgm.data.kinds.open_number import OpenNumber
from dpgm.data.number_format import (
    FIRST_YEAR,
    LARGEST_TICK,
    LAST_YEAR,
    MOST_PLACES,
    SECONDS,
    UNITS,
    NumberFormat,
    Scale,
)

MAX_GRID_CELLS = 4096  # a resolution of 0.4 % on a log scale from 1 to 10 million
_ONE_LEVEL = 48  # grids up to this size have no groups: the noise of a sum of cells is small enough
_TWO_LEVELS = 1024  # grids up to this size have one level of groups
_GROUPS = (16, 256)  # numbers of groups per level in larger grids
_FINEST = 1e-4  # share of a real number's range below which the log scale becomes linear
# Powers of two for bounds to be discovered: from 2^-40 to 2^62, of both signs, and 0.
_EXPONENTS = np.arange(-40, 63)
BOUND_SLOTS = 2 * len(_EXPONENTS) + 1
YEARS = LAST_YEAR - FIRST_YEAR + 1
STEP_SLOTS = MOST_PLACES + 2
_ROUNDING = 4 * 2.0**-52  # relative rounding error of sums such as 0.1 + 0.2
HOURS = 24
CLOCK_DAYS = 7  # shortest range in days that is counted by day and hour of the day; others have a fine grid
_FAR_DAYS = 10**6


@dataclass(frozen=True)
class Grid:
    """Cells [edges[j], edges[j + 1]), and levels of groups of neighbouring cells.

    `separate` lists cells that are counted by themselves and belong to no group.
    """

    edges: tuple[float, ...]
    in_steps: bool
    separate: tuple[int, ...] = ()

    @cached_property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.edges) - 1

    @cached_property
    def levels(self) -> tuple[NDArray[np.int64], ...]:
        """First cell of every group, per level from coarse to fine; in the last level every cell is a group."""
        group_counts: tuple[int, ...] = _GROUPS
        if self.cells <= _ONE_LEVEL:
            group_counts = ()
        elif self.cells <= _TWO_LEVELS:
            group_counts = (round(self.cells**0.5),)
        starts = [np.unique(np.arange(count) * self.cells // count) for count in group_counts]
        return (*starts, np.arange(self.cells))

    @property
    def size(self) -> int:
        """Number of counts: separate cells and the groups of all levels."""
        return len(self.separate) + sum(len(level) for level in self.levels)

    def cell_of(self, ticks: Floats) -> NDArray[np.int64]:
        """The cell of every tick; ticks outside the grid belong to the first or last cell."""
        edges = np.array(self.edges)
        return np.clip(np.searchsorted(edges, ticks, side="right") - 1, 0, self.cells - 1)

    def counts(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts of the separate cells, then of every group, level by level."""
        finest = np.bincount(cells, minlength=self.cells).astype(np.int64)
        separate = np.array(self.separate, dtype=np.int64)
        separate_counts = finest[separate]
        finest[separate] = 0
        return np.concatenate([separate_counts, *(np.add.reduceat(finest, starts) for starts in self.levels)])


def grid_of(
    low: float, high: float, format: NumberFormat, scale: Scale, specials: Sequence[float] = (), day: int = 0
) -> Grid:
    """The grid of a number in [low, high] (ticks).

    `specials` get cells of their own, whose counts stay zero because special values are counted elsewhere. A `day` (in
    ticks) other than 0 puts all edges at midnight.
    """
    if not format.in_steps:
        edges = _scaled_edges(low, high, scale, _FINEST * (high - low))
        edges[0], edges[-1] = low, high
        inner = [0.0] if low < 0 < high else []
        return Grid(tuple(np.unique([*edges, *inner]).tolist()), False)
    if day:
        days = np.unique(np.rint(np.linspace(low // day, high // day + 1, MAX_GRID_CELLS + 1))) * day
        return Grid(tuple(np.clip(days, low, high + 1).tolist()), True)
    separate: list[float] = []
    if format.kind not in ("date", "datetime"):  # no day of a date range is special
        separate = sorted({low, high, *([0.0] if low <= 0 <= high else [])} - set(specials))
    if high - low + 1 <= MAX_GRID_CELLS:
        edges = np.arange(low, high + 2)
    else:
        own_cell = [*separate, *(value for value in specials if low <= value <= high)]
        edges = np.clip(np.rint(_scaled_edges(low, high + 1, scale, 1.0)), low, high + 1)
        edges = np.unique([*edges, *own_cell, *(value + 1 for value in own_cell)])
    if len(edges) - 1 <= _ONE_LEVEL:
        separate = []
    return Grid(tuple(edges.tolist()), True, tuple(np.searchsorted(edges, separate).tolist()))


def _scaled_edges(low: float, high: float, scale: Scale, unit: float) -> Floats:
    """Edges from low to high: equally spaced in x, or in sign(x) log(1 + |x| / unit)."""
    if scale == "linear":
        return np.linspace(low, high, MAX_GRID_CELLS + 1)
    ends = [np.sign(x) * np.log1p(abs(x) / unit) for x in (low, high)]
    points = np.linspace(ends[0], ends[1], MAX_GRID_CELLS + 1)
    edges: Floats = np.sign(points) * unit * np.expm1(np.abs(points))
    return edges


def needs_atoms(field: OpenNumber, low: float | None, high: float | None) -> bool:
    """Whether popular exact values must be searched for: only if not every value has its own cell."""
    if not field.format.in_steps or low is None or high is None:
        return True
    return high - low + 1 > MAX_GRID_CELLS


def bound_slot(ticks: Floats) -> NDArray[np.int64]:
    """The slot of every number by its sign and the power of two below it; slots increase with the number."""
    size = np.abs(ticks)
    with np.errstate(divide="ignore"):
        power = np.floor(np.log2(np.where(size > 0, size, 1.0))).astype(np.int64)
    distance = np.clip(power, _EXPONENTS[0], _EXPONENTS[-1]) - _EXPONENTS[0] + 1
    zero = len(_EXPONENTS)
    return np.where(size == 0, zero, np.where(ticks > 0, zero + distance, zero - distance))


def places_slot(values: Floats) -> NDArray[np.int64]:
    """The number of decimal places of every number, up to rounding; `MOST_PLACES` + 1 if it has more.

    >>> places_slot(np.array([5.0, 0.25, 0.1 + 0.2, 1 / 3])).tolist()
    [0, 2, 1, 7]
    """
    slots = np.full(len(values), MOST_PLACES + 1, dtype=np.int64)
    for places in range(MOST_PLACES, -1, -1):
        scaled = np.clip(values, -LARGEST_TICK, LARGEST_TICK) * 10.0**places
        slots[np.abs(scaled - np.rint(scaled)) <= _ROUNDING * np.abs(scaled)] = places
    return slots


def unit_slot(seconds: Floats) -> NDArray[np.int64]:
    """Index of the coarsest of `UNITS` that divides each number of seconds."""
    slots = np.full(len(seconds), len(UNITS) - 1, dtype=np.int64)
    for at in range(len(UNITS) - 2, -1, -1):
        slots[np.mod(seconds, SECONDS[UNITS[at]]) == 0] = at
    return slots


def year_slot(ticks: Floats, step: int) -> NDArray[np.int64]:
    """The calendar year of every date (ticks of `step` seconds) since `FIRST_YEAR`, clipped to the known years."""
    seconds = np.clip(ticks, -LARGEST_TICK / step, LARGEST_TICK / step) * step
    days = np.clip(np.floor(seconds / 86_400), -_FAR_DAYS, _FAR_DAYS)
    years = days.astype(np.int64).astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970
    slots: NDArray[np.int64] = np.clip(years, FIRST_YEAR, LAST_YEAR) - FIRST_YEAR
    return slots


def clock_day(format: NumberFormat, low: float, high: float) -> int:
    """Ticks per day if the range is long enough to model days and hours separately; otherwise 0."""
    if format.kind != "datetime" or format.unit == "day":
        return 0
    day = SECONDS["day"] // SECONDS[format.unit]
    return day if high - low + 1 >= CLOCK_DAYS * day else 0


def hour_slot(ticks: Floats, day: int) -> NDArray[np.int64]:
    """The hour of the day of every tick, with `day` ticks per day."""
    return np.floor(np.mod(ticks, day) * HOURS / day).astype(np.int64)


def year_range(first: int, last: int, step: int) -> tuple[float, float]:
    """The first and last tick (of `step` seconds) of a range of year slots."""
    ends = [np.datetime64(f"{FIRST_YEAR + at}-01-01", "s").astype(np.int64) for at in (first, last + 1)]
    return float(ends[0] // step), float(ends[1] // step - 1)


def bound_exponent(slot: int) -> int:
    """The exponent of the power of two of a slot (not the slot of 0)."""
    return int(_EXPONENTS[abs(slot - len(_EXPONENTS)) - 1])


def slot_range(slot: int, in_steps: bool) -> tuple[float, float]:
    """The lowest and the highest number of a slot."""
    zero = len(_EXPONENTS)
    if slot == zero:
        return 0.0, 0.0
    power = bound_exponent(slot)
    if in_steps and power < 0:  # no whole number lies there, but noise may select this slot
        return 0.0, 0.0
    low, high = 2.0**power, 2.0 ** (power + 1) - (1 if in_steps else 0)
    low, high = min(low, float(LARGEST_TICK)), min(max(high, low), float(LARGEST_TICK))
    return (low, high) if slot > zero else (-high, -low)
