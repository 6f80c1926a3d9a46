"""How numbers and dates are converted to ticks, and what a number, a pattern and a day are.

Numbers with a step (whole numbers, decimals, dates, date-times) are stored in *ticks*, whole multiples of the step
since 0 or since 1970: exact, and one code path for all of them. The tick of a real number is the number itself.
"""

import datetime
import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Floats
from dpgm.data.arrow import Array, pa
from dpgm.errors import UsageError

MAX_DECIMALS = 12
_LONGEST_PATTERN = 100
LARGEST_TICK = 2**52  # whole numbers up to this, and sums of two of them, are exact in double precision
DISCOVER: Literal["discover"] = "discover"

Bound: TypeAlias = float | Literal["discover"]
Scale: TypeAlias = Literal["auto", "linear", "log"]
Unit: TypeAlias = Literal["day", "hour", "minute", "second"]
NumberKind: TypeAlias = Literal["integer", "decimal", "real", "date", "datetime"]

SECONDS: dict[str, int] = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
UNITS: tuple[Unit, ...] = ("day", "hour", "minute", "second")  # from coarse to fine
MOST_PLACES = 6  # decimal places that are distinguished; numbers with more count as reals
FIRST_YEAR, LAST_YEAR = 1900, 2099  # discovered date ranges lie in between: living people and their appointments


@dataclass(frozen=True)
class NumberFormat:
    """How the values of a field are converted to ticks."""

    kind: NumberKind
    decimals: int = 0
    unit: Unit = "day"

    @property
    def in_steps(self) -> bool:
        """Whether values have a step, so that ticks are whole numbers."""
        return self.kind != "real"

    def tick(self, value: float) -> float:
        """The tick of a number (not for dates)."""
        return float(round(value * 10**self.decimals)) if self.in_steps else float(value)

    def ticks(self, values: Floats) -> Floats:
        """Ticks of numbers, clipped to the range in which doubles are exact."""
        if not self.in_steps:
            return values
        clipped = np.clip(values, -LARGEST_TICK, LARGEST_TICK)  # before scaling, which could overflow
        return np.clip(np.rint(clipped * 10.0**self.decimals), -LARGEST_TICK, LARGEST_TICK)

    @property
    def tick_size(self) -> float:
        """What one tick is in the units of conditions: numbers, and days for dates."""
        if self.kind == "decimal":
            return float(10.0**-self.decimals)
        return SECONDS[self.unit] / SECONDS["day"] if self.kind == "datetime" else 1.0

    @property
    def is_whole(self) -> bool:
        """Whether values are whole numbers (not dates)."""
        return self.kind == "integer"

    @property
    def is_temporal(self) -> bool:
        """Whether ticks count from 1970: dates and date-times."""
        return self.kind in ("date", "datetime")

    def column(self, ticks: Floats, missing: NDArray[np.bool_]) -> Array:
        """Numbers, dates or timestamps from their ticks."""
        if self.kind == "real":
            return pa.array(ticks, mask=missing)
        if self.kind == "decimal":
            return pa.array(ticks / 10.0**self.decimals, mask=missing)
        integers = ticks.astype(np.int64)
        if self.kind == "integer":
            return pa.array(integers, mask=missing)
        if self.kind == "date":
            return pa.array(integers.astype(np.int32), type=pa.int32(), mask=missing).cast(pa.date32())
        return pa.array(integers * SECONDS[self.unit], mask=missing).cast(pa.timestamp("s"))

    def text(self, tick: float) -> str:
        """The value of a tick as text."""
        if self.kind == "date":
            return _date_text(tick * 86_400)[:10]
        if self.kind == "datetime":
            return _date_text(tick * SECONDS[self.unit])
        if self.kind == "decimal":
            return f"{tick / 10**self.decimals:.{self.decimals}f}"
        return f"{tick:.0f}" if self.kind == "integer" else f"{tick:g}"


def range_in_places(low: float, high: float, places: int) -> tuple[float, float]:
    """A range between powers of two, exclusive at its outer ends, in ticks of `places` decimal places.

    >>> range_in_places(0.5, 4.0, 1), range_in_places(-2.0, 0.0, 0)
    ((5.0, 39.0), (-1.0, 0.0))
    """
    scale = 10.0**places
    first = np.ceil(low * scale) if low >= 0 else np.floor(low * scale) + 1
    last = np.ceil(high * scale) - 1 if high > 0 else np.floor(high * scale)
    first, last = np.clip([first, last], -LARGEST_TICK, LARGEST_TICK).tolist()
    return first, max(last, first + 1)


def _date_text(seconds: float) -> str:
    try:
        return str(datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds))
    except OverflowError:
        return f"{seconds:.0f} s"


def plain_number(text: str) -> float | None:
    """A text as a finite number, or a date in days since 1970; None if it is neither."""
    try:
        number = float(text)
        return number if math.isfinite(number) else None
    except ValueError:
        pass
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is not None:
        return None
    return (moment - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1)


def is_whole(value: object, low: int, high: int | None = None) -> bool:
    """Whether a value is an integer (not a boolean) from `low` to `high`."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and low <= value and (high is None or value <= high)  # type: ignore[operator]


def is_pattern(pattern: object) -> bool:
    """Whether a value is a plausible strptime pattern."""
    return isinstance(pattern, str) and "%" in pattern and len(pattern) <= _LONGEST_PATTERN and "\0" not in pattern


def is_day(text: str) -> bool:
    """Whether an ISO text is a date without a time of day."""
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def iso_seconds(text: str) -> float:
    """Seconds since 1970 of an ISO date or date-time, ignoring its time zone."""
    moment = datetime.datetime.fromisoformat(text).replace(tzinfo=None)
    return (moment - datetime.datetime(1970, 1, 1)).total_seconds()


def number_format(name: object, kind: Any, decimals: Any, unit: Any) -> NumberFormat:
    """The format of a discovered number as a domain file states it; raises UsageError if it is not known."""
    known = kind in get_args(NumberKind) and unit in get_args(Unit)
    if not known or not is_whole(decimals, 0, MAX_DECIMALS):
        raise UsageError(f"field {str(name)[:60]!r}: its type, decimals or unit is not known; update dpgm.")
    return NumberFormat(kind, decimals if kind == "decimal" else 0, unit if kind == "datetime" else "day")
