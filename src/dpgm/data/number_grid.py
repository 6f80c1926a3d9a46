"""Public grids over which numbers are counted: fine cells, and groups of cells above them.

A number that can take few values has a cell for each. Else cells grow with the size of the number (or are equally
wide). Where numbers come in steps, the ends of the range (where values beyond it go) and 0 have cells of their own,
which are counted apart. Groups of neighbouring cells are counted as well, so that what lies in a wide range is known
without adding up the noise of all its cells. Moments are counted by days and, apart, by the hour of the day.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.number_fields import FIRST_YEAR, LARGEST_TICK, LAST_YEAR, SECONDS, NumberFormat, OpenNumber, Scale

Floats: TypeAlias = NDArray[np.float64]

LEAVES = 4096  # fine cells at most: 0.4 % of a number on a log scale from 1 to 10 million
_ONE_LEVEL = 48  # cells up to which nothing is grouped: the noise of their sum is small enough
_TWO_LEVELS = 1024
_GROUPS = (16, 256)  # of larger grids: sixteen groups of sixteen groups
_FINEST = 1e-4  # of the range: numbers without steps are told apart linearly below it, by size above
# Powers of two for bounds that are to be found: from 2^-40 to 2^62, of both signs, and 0.
_EXPONENTS = np.arange(-40, 63)
BOUND_SLOTS = 2 * len(_EXPONENTS) + 1
YEARS = LAST_YEAR - FIRST_YEAR + 1
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

    Args:
        low: the lowest tick.
        high: the highest tick.
        format: what ticks stand for.
        scale: how finely small and large numbers are told apart.
        specials: values that have cells of their own, for which nothing is counted.
        day: ticks of a day, where all borders shall lie at midnight; else 0.
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


def year_slot(ticks: Floats, step: int, apart: bool) -> NDArray[np.int64]:
    """The calendar year of every date (ticks of `step` seconds), far ones in the nearer end, as a slot from 0 on.

    With `apart`, dates with a clock time have slots of their own, after those of whole days.
    """
    seconds = np.clip(ticks, -LARGEST_TICK / step, LARGEST_TICK / step) * step
    days = np.clip(np.floor(seconds / 86_400), -_FAR_DAYS, _FAR_DAYS)
    years = days.astype(np.int64).astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970
    slots = np.clip(years, FIRST_YEAR, LAST_YEAR) - FIRST_YEAR
    return slots + np.where(seconds % 86_400 != 0, YEARS, 0) if apart else slots


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
