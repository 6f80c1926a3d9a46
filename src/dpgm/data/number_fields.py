"""Field classes for numbers, dates and date-times, as users state them.

Numbers with a step (whole numbers, decimals, dates, date-times) are stored in *ticks*, whole multiples of the step
since 0 or since 1970: exact, and one code path for all of them. The tick of a real number is the number itself.

A `Numeric` with `bins` is closed: equal bins, values uniform within each. A `Numeric` without bins, a `Date` and a
`DateTime` are open: a fit discovers their bins privately and turns them into a `ShapedNumber` (module `number_bins`).
"""

import datetime
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dpgm.data.fields import Modelled, is_whole

MAX_BINS = 100_000
MAX_DECIMALS = 12
_LONGEST_PATTERN = 100
LARGEST_TICK = 2**52  # whole numbers up to this, and sums of two of them, are exact in double precision
DISCOVER: Literal["discover"] = "discover"

Floats: TypeAlias = NDArray[np.float64]
Bound: TypeAlias = float | Literal["discover"]
Scale: TypeAlias = Literal["auto", "linear", "log"]
Unit: TypeAlias = Literal["day", "hour", "minute", "second"]
NumberKind: TypeAlias = Literal["integer", "decimal", "real", "date", "datetime"]

SECONDS: dict[str, int] = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
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

    def text(self, tick: float) -> str:
        """The value of a tick as text."""
        if self.kind == "date":
            return _date_text(tick * 86_400)[:10]
        if self.kind == "datetime":
            return _date_text(tick * SECONDS[self.unit])
        if self.kind == "decimal":
            return f"{tick / 10**self.decimals:.{self.decimals}f}"
        return f"{tick:.0f}" if self.kind == "integer" else f"{tick:g}"


def _date_text(seconds: float) -> str:
    try:
        return str(datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds))
    except OverflowError:
        return f"{seconds:.0f} s"


@dataclass(frozen=True)
class Numeric(Modelled):
    """A number in [low, high]; values outside are clamped.

    With `bins` the field is closed: a softmax output over equal bins, decoded uniformly within the bin. Without, it is
    open: popular values, bins of about equal weight and the distribution within them are found privately, and `low`
    and `high` may be "discover". With `integer`, values are whole numbers from low to high inclusive; otherwise
    `decimals` is the number of decimal places, which may be "discover" together with low and high. `specials` are
    values with a meaning of their own (-1 for "never"); `scale` is the resolution: the same everywhere (linear) or
    finer for small numbers (log). With `missing` the last position stands for a missing value; an open field may be
    missing unless `missing` is False.
    """

    low: Bound
    high: Bound
    bins: int | None = None
    integer: bool = False
    missing: bool | None = None
    decimals: int | Literal["discover"] | None = None
    specials: tuple[float, ...] = ()
    scale: Scale = "auto"
    kind: Literal["numeric"] = "numeric"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("specials", tuple(self.specials))
        stated = [bound for bound in (self.low, self.high) if bound != DISCOVER]
        if len(stated) < 2 and self.bins is not None:
            raise self._error("bins need bounds; leave bins out, or state low and high")
        if not all(is_number(bound) for bound in stated):
            raise self._error("low and high must be finite numbers (or 'discover')")
        bounds = [bound for bound in stated if not isinstance(bound, str)]
        if self.integer and any(bound != int(bound) or abs(bound) > LARGEST_TICK for bound in bounds):
            raise self._error("low and high must be whole numbers for an integer field")
        if len(bounds) == 2 and not (bounds[0] < bounds[1] and math.isfinite(float(bounds[1]) - float(bounds[0]))):
            raise self._error("low must be below high")
        if self.bins is None:
            self._check_open(bounds)
        else:
            self._check_closed(bounds[0], bounds[1], self.bins)

    def _check_closed(self, low: float, high: float, bins: int) -> None:
        if self.decimals is not None or self.specials or self.scale != "auto":
            raise self._error(
                "decimals, specials and scale are for fields whose bins are discovered; leave bins out"
            )
        if self.missing is None:
            self._set("missing", False)
        if not is_whole(bins, 1, MAX_BINS):
            raise self._error(f"bins must be a whole number from 1 to {MAX_BINS:,}")
        if self.integer and bins > high - low + 1:
            raise self._error("an integer field needs at least one whole number per bin")
        if self.integer and (high - low + 1) * bins > 2**62:
            raise self._error("the range is too wide for so many bins; use fewer")

    def _check_open(self, bounds: Sequence[float]) -> None:
        if self.scale not in get_args(Scale):
            raise self._error("scale must be auto, linear or log")
        if not isinstance(self.missing, bool | None):
            raise self._error("missing must be true or false")
        if self.finds_step and bounds:
            raise self._error(
                "decimals are found together with the range; say 'discover' for low and high as well, or state them"
            )
        if not self.finds_step and self.decimals is not None and not is_whole(self.decimals, 0, MAX_DECIMALS):
            raise self._error(f"decimals must be a whole number from 0 to {MAX_DECIMALS} (or 'discover')")
        if self.integer and self.decimals:
            raise self._error("an integer field has no decimals; state one of the two")
        if any(abs(bound) > LARGEST_TICK or abs(self.format.tick(bound)) > LARGEST_TICK for bound in bounds):
            raise self._error("low and high have more digits than can be represented exactly")
        if not all(is_number(special) and abs(special) <= LARGEST_TICK for special in self.specials):
            raise self._error("specials must be finite numbers")
        if self.integer and any(special != int(special) for special in self.specials):
            raise self._error("specials of an integer field must be whole numbers")
        if len(set(self.specials)) < len(self.specials) or len(self.specials) > 100:
            raise self._error("specials must differ, and be at most 100")

    @property
    def finds_step(self) -> bool:
        """Whether the number of decimal places is to be discovered."""
        return self.decimals == DISCOVER

    @property
    def format(self) -> NumberFormat:
        """Integer, decimal or real; real also while the number of decimal places is to be discovered."""
        if self.integer or self.decimals == 0:
            return NumberFormat("integer")
        if self.decimals is None or isinstance(self.decimals, str):
            return NumberFormat("real")
        return NumberFormat("decimal", self.decimals)

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Low and high in ticks; None if to be discovered."""
        low, high = (None if isinstance(bound, str) else self.format.tick(bound) for bound in (self.low, self.high))
        return low, high

    @property
    def special_ticks(self) -> tuple[float, ...]:
        """`specials` in ticks, sorted."""
        return tuple(sorted({self.format.tick(value) for value in self.specials}))

    @property
    def _value_count(self) -> int | None:
        return self.bins

    @property
    def _value_names(self) -> list[str]:
        if self.bins is None or isinstance(self.low, str) or isinstance(self.high, str):
            return []
        step = (self.high - self.low) / self.bins
        edges = [self.low + step * at for at in range(self.bins + 1)]
        return [f"{self.name} {low:g} to {high:g}" for low, high in pairwise(edges)]


class _Moments(Modelled):
    """Base class of dates and date-times, which are open fields with ticks since 1970."""

    low: str
    high: str
    missing: bool | None
    pattern: str | None
    after: str | None
    special_ticks: ClassVar[tuple[float, ...]] = ()
    finds_step: ClassVar[bool] = False
    _example: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        ends = []
        for key in ("low", "high"):
            bound = getattr(self, key)
            if isinstance(bound, datetime.date):  # YAML parses dates
                bound = bound.isoformat()
                self._set(key, bound)
            try:
                ends += [] if bound == DISCOVER else [self._tick(key)]
            except (TypeError, ValueError):
                raise self._error(f"{key} must be a date such as {self._example} (or 'discover')") from None
        if len(ends) == 2 and not ends[0] < ends[1]:
            raise self._error("low must be before high")
        if not isinstance(self.missing, bool | None):
            raise self._error("missing must be true or false")
        if self.after is not None and not isinstance(self.after, str):
            raise self._error("after must be the name of another date")
        if self.pattern is not None and not is_pattern(self.pattern):
            raise self._error("pattern must be written as for strptime, such as %d.%m.%Y")

    @property
    def _step(self) -> int:
        """Seconds per tick."""
        return SECONDS["day"]

    @property
    def date_bounds(self) -> tuple[float | None, float | None]:
        """Low and high of the dates themselves in ticks, also with `after`; None if to be discovered."""
        low, high = (None if getattr(self, key) == DISCOVER else self._tick(key) for key in ("low", "high"))
        return low, high

    def _tick(self, key: Literal["low", "high"]) -> float:
        """A stated bound in ticks; a `high` without a time of day includes that day."""
        text = getattr(self, key)
        seconds = _iso_seconds(text)
        if key == "high" and is_day(text):
            return (seconds + SECONDS["day"]) // self._step - 1
        return seconds // self._step

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Low and high in ticks, None if to be discovered; with `after`, bounds of the time since that date."""
        low, high = self.date_bounds
        if self.after is None:
            return low, high
        return 0.0, None if low is None or high is None else high - low

    @property
    def scale(self) -> Scale:
        """Linear for dates; finer for short times since another date."""
        return "linear" if self.after is None else "auto"


@dataclass(frozen=True)
class Date(_Moments):
    """A day from `low` to `high` (ISO texts such as 2020-01-31, or dates); an open field, like `Numeric` without bins.

    `low` and `high` may be "discover": the range of calendar years, between 1900 and 2099, is then found privately.
    `pattern` is the date format of text files, in strptime notation ("%d.%m.%Y"); ISO by default.
    `after` names another date that never comes later than this one. Then the time since that date is modelled, so that
    stays between admission and discharge have realistic lengths; an earlier date counts as the same day.
    """

    low: str
    high: str
    missing: bool | None = None
    pattern: str | None = None
    after: str | None = None
    kind: Literal["date"] = "date"
    _example = "2020-01-31"

    @property
    def format(self) -> NumberFormat:
        """Days since 1970; with `after`, a number of days."""
        return NumberFormat("date" if self.after is None else "integer")


@dataclass(frozen=True)
class DateTime(_Moments):
    """A date-time from `low` to `high` (ISO texts such as 2020-01-31T12:00), in steps of `unit`; open, like `Date`.

    A `high` without a time of day, such as 2020-01-31, includes that day.
    `unit` may be "discover": whether values are whole days, hours, minutes or seconds is then found privately, together
    with `low` and `high`.
    """

    low: str
    high: str
    unit: Unit | Literal["discover"] = "second"
    missing: bool | None = None
    pattern: str | None = None
    after: str | None = None
    kind: Literal["datetime"] = "datetime"
    _example = "2020-01-31T12:00"

    def __post_init__(self) -> None:
        if self.unit not in (*SECONDS, DISCOVER):
            raise self._error(f"unit must be one of {', '.join(SECONDS)} (or 'discover')")
        if self.unit == DISCOVER and (self.after is not None or not self.low == self.high == DISCOVER):
            raise self._error(
                "a unit is found together with the range; say 'discover' for low and high as well and leave out"
                " `after`, or state the unit"
            )
        super().__post_init__()

    @property
    def finds_step(self) -> bool:  # type: ignore[override]
        """Whether the unit is to be discovered."""
        return self.unit == DISCOVER

    @property
    def _step(self) -> int:
        return 1 if self.unit == DISCOVER else SECONDS[self.unit]

    @property
    def format(self) -> NumberFormat:
        """Steps of the unit since 1970 (seconds while the unit is to be discovered); with `after`, a number of them."""
        unit: Unit = "second" if self.unit == "discover" else self.unit
        return NumberFormat("integer") if self.after is not None else NumberFormat("datetime", unit=unit)


OpenNumber: TypeAlias = Numeric | Date | DateTime


def is_number(value: object) -> bool:
    """Whether a value is a number (not a boolean) that fits a finite float."""
    # A comparison, because converting a huge integer to float would raise.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


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


def _iso_seconds(text: str) -> float:
    """Seconds since 1970 of an ISO date or date-time, ignoring its time zone."""
    moment = datetime.datetime.fromisoformat(text).replace(tzinfo=None)
    return (moment - datetime.datetime(1970, 1, 1)).total_seconds()
