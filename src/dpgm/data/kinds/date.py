"""`Date` and `DateTime`: a day, or a day and a time, per row."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from dpgm.arrays import Floats
from dpgm.data.arrow import Array, DataType, pa, pc
from dpgm.data.kinds.base import Column, ColumnKind, Field
from dpgm.data.kinds.open_number import OpenNumber
from dpgm.data.number_format import (
    DISCOVER,
    SECONDS,
    UNITS,
    NumberFormat,
    Scale,
    Unit,
    is_day,
    is_pattern,
    iso_seconds,
)
from dpgm.data.values import Place, object_texts, seconds_of
from dpgm.errors import UsageError
from dpgm.validation import near

if TYPE_CHECKING:
    from dpgm.data.inspect.seen import Seen
    from dpgm.data.kinds.shaped import ShapedNumber


class _Moments(OpenNumber):
    """Base class of dates and date-times, which are open fields with ticks since 1970."""

    compared_as: ClassVar[ColumnKind | None] = "date"
    low: str
    high: str
    missing: bool | None
    pattern: str | None
    after: str | None
    _example: ClassVar[str]
    _what: ClassVar[str]

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
        seconds = iso_seconds(text)
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

    def check_among(self, others: Mapping[str, Field]) -> None:
        """Check that `after` names a date field of the same kind and unit that has no `after` itself."""
        if self.after is not None:
            base = others.get(self.after)
            good = isinstance(base, type(self)) and base.after is None and base.time_unit == self.time_unit
            refuse_after_unless(good, self.name, self.after, others)

    @property
    def time_unit(self) -> str:
        """The unit of the dates."""
        return "day"

    def from_objects(self, values: Sequence[Any], place: Place) -> Array:
        """Dates, and texts by the pattern."""
        return object_texts(values, place) if self.pattern is None else dates_and_texts(values, self.pattern, place)

    def completed(self, shaped: "ShapedNumber") -> "ShapedNumber":
        """With `after`, the bounds of the dates, and the pattern."""
        low, high = (None, None) if self.after is None else self.date_bounds
        return replace(shaped, after=self.after, pattern=self.pattern, low=low, high=high)

    def described(self) -> str:
        """Its range."""
        is_open = DISCOVER in (self.low, self.high)
        span = ", range to be found" if is_open else f" from {self.low} to {self.high}"
        return f"{self._what}{span}"


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

    kind: ClassVar[str] = "date"
    draft_kinds: ClassVar[tuple[str, ...]] = ("date",)
    _example: ClassVar[str] = "2020-01-31"

    @property
    def format(self) -> NumberFormat:
        """Days since 1970; with `after`, a number of days."""
        return NumberFormat("date" if self.after is None else "integer")

    _what: ClassVar[str] = "dates"

    @classmethod
    def of_type(cls, name: str, kind: DataType) -> Column | None:
        """Days."""
        return cls(name, DISCOVER, DISCOVER) if pa.types.is_date(kind) else None

    @classmethod
    def recognised(cls, seen: "Seen") -> tuple[str, str] | None:
        """Days; they are dates even if written with a time: spreadsheets write 00:00 after a date."""
        return ("date", seen.reason_for_dates("dates")) if seen.looks == "dates" else None

    @classmethod
    def drafted(cls, seen: "Seen", word: str) -> "Date":
        """With its range left open."""
        return cls(seen.name, DISCOVER, DISCOVER, pattern=seen.pattern)


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

    kind: ClassVar[str] = "datetime"
    draft_kinds: ClassVar[tuple[str, ...]] = ("datetime",)
    _example: ClassVar[str] = "2020-01-31T12:00"

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
    def finds_step(self) -> bool:
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

    _what: ClassVar[str] = "times"

    @property
    def time_unit(self) -> str:
        """The unit of the times."""
        return self.unit

    def in_found_step(self, values: Floats) -> Floats:
        """Ticks in the unit that was found, from seconds."""
        return np.floor(values / SECONDS[self.format.unit])

    def possible_steps(self) -> tuple[Self, ...]:
        """The field with each unit that discovery could find."""
        return tuple(replace(self, unit=unit) for unit in UNITS) if self.finds_step else (self,)

    def range_in_found_step(self, low: float, high: float) -> tuple[float, float]:
        """A range of seconds in the unit."""
        return low // self._step, high // self._step

    @classmethod
    def of_type(cls, name: str, kind: DataType) -> Column | None:
        """Times."""
        return cls(name, DISCOVER, DISCOVER, unit=DISCOVER) if pa.types.is_timestamp(kind) else None

    @classmethod
    def recognised(cls, seen: "Seen") -> tuple[str, str] | None:
        """Times."""
        what = "dates with a time of day"
        return ("datetime", seen.reason_for_dates(what)) if seen.looks == "times" else None

    @classmethod
    def drafted(cls, seen: "Seen", word: str) -> "DateTime":
        """With its range left open."""
        unit: Unit = "minute" if seen.unit == "day" else seen.unit
        return cls(seen.name, DISCOVER, DISCOVER, unit=unit, pattern=seen.pattern)


def refuse_after_unless(good: bool, name: str, after: str, others: Mapping[str, Field]) -> None:
    """Raise unless `after` suits the other fields."""
    if not good:
        raise UsageError(
            f"field {name!r}: `after` must name another field of the same kind (and unit) that has no `after`"
            f" itself{near(after, others)}."
        )


def dates_and_texts(values: Sequence[Any], pattern: str, place: Place) -> Array:
    """Times from a mixed column: date objects unchanged, as in a column of dates, and texts by their pattern."""
    texts, nothing = object_texts(values, place), pa.scalar(None, type=pa.string())
    is_date = np.array([isinstance(value, datetime.date) for value in values], dtype=np.bool_)
    dates, no_date = seconds_of(pc.if_else(is_date, texts, nothing), place, ("",))
    written, no_text = seconds_of(pc.if_else(is_date, nothing, texts), place, ("",), pattern)
    seconds = np.where(is_date, dates, written).astype(np.int64)
    return pa.array(seconds, mask=np.where(is_date, no_date, no_text)).cast(pa.timestamp("s"))
