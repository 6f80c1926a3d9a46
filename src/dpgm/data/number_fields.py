"""Fields of numbers and of dates, as users state them (`binned_numbers` has them as they are modelled).

Numbers that come in steps (whole numbers, decimals, dates, times) are kept in *ticks*, whole multiples of the step
since 0 or since 1970: exact, and one code path for all of them. Numbers without a stated step are their own ticks.

A `Numeric` with `bins` is closed: that many equal bins, values uniform within each. Without, and a `Date` or
`DateTime`, it is open: how it is modelled is found privately when a generator is fitted, as a `ShapedNumber`.
"""

import datetime
import math
import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dpgm.data.fields import NOMINAL_VALUES, check_name, names_with_missing
from dpgm.errors import UsageError

MAX_BINS = 100_000
MAX_DECIMALS = 12
_LONGEST_PATTERN = 100
LARGEST_TICK = 2**52  # whole numbers up to it are exact in double precision, and so are their sums of two
DISCOVER: Literal["discover"] = "discover"

Floats: TypeAlias = NDArray[np.float64]
Bound: TypeAlias = float | Literal["discover"]
Scale: TypeAlias = Literal["auto", "linear", "log"]
Unit: TypeAlias = Literal["day", "hour", "minute", "second"]
NumberKind: TypeAlias = Literal["integer", "decimal", "real", "date", "datetime"]

SECONDS: dict[str, int] = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
FIRST_YEAR, LAST_YEAR = 1900, 2099  # between which ranges of dates are found: people alive and their appointments


@dataclass(frozen=True)
class NumberFormat:
    """How ticks and values of a field belong together."""

    kind: NumberKind
    decimals: int = 0
    unit: Unit = "day"

    @property
    def in_steps(self) -> bool:
        """Whether values come in steps, so that ticks are whole numbers."""
        return self.kind != "real"

    def tick(self, value: float) -> float:
        """The tick of a number (not of dates)."""
        return float(round(value * 10**self.decimals)) if self.in_steps else float(value)

    def ticks(self, values: Floats) -> Floats:
        """Ticks of numbers, far ones brought to where doubles are exact."""
        if not self.in_steps:
            return values
        near = np.clip(values, -LARGEST_TICK, LARGEST_TICK)  # first, or a far value's overflow would be warned of
        return np.clip(np.rint(near * 10.0**self.decimals), -LARGEST_TICK, LARGEST_TICK) if self.decimals else near

    def text(self, tick: float) -> str:
        """A tick as people write the value."""
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
class Numeric:
    """A number in [low, high]; values outside are brought to the nearer end.

    With `bins` the field is closed: that many equal bins, a softmax output, decoded uniformly within the bin. Without,
    it is open: popular values, bins of about equal weight and the shape within them are found privately; `low` and
    `high` may be "discover", too. With `integer` both ends are whole numbers that can occur; `decimals` is the number
    of places otherwise. `specials` are values with a meaning of their own (-1 for "never"), `scale` says how finely
    small and large numbers are told apart. With `missing` the last position stands for a missing value; an open field
    may be missing unless `missing` is False.
    """

    name: str
    low: Bound
    high: Bound
    bins: int | None = None
    integer: bool = False
    missing: bool | None = None
    decimals: int | None = None
    specials: tuple[float, ...] = ()
    scale: Scale = "auto"
    kind: Literal["numeric"] = "numeric"

    def __post_init__(self) -> None:
        check_name(self.name)
        object.__setattr__(self, "specials", tuple(self.specials))
        for bound in (self.low, self.high):
            if bound == DISCOVER:
                if self.bins is not None:
                    raise UsageError(
                        f"field {self.name!r}: bins need bounds; leave `bins` out, or state low and high."
                    )
            elif not is_number(bound):
                raise UsageError(f"field {self.name!r}: low and high must be finite numbers (or `discover`).")
        if self.integer:
            self._check_integer()
        low, high = self.low, self.high
        if not isinstance(low, str) and not isinstance(high, str):
            if not low < high or not math.isfinite(float(high) - float(low)):
                raise UsageError(f"field {self.name!r}: low must be below high.")
            if self.bins is not None:
                self._check_closed(low, high, self.bins)
        if self.bins is None:
            self._check_open()

    def _check_closed(self, low: float, high: float, bins: int) -> None:
        if self.decimals is not None or self.specials or self.scale != "auto":
            raise UsageError(
                f"field {self.name!r}: decimals, specials and scale belong to fields whose bins are found; leave"
                " `bins` out."
            )
        if self.missing is None:
            object.__setattr__(self, "missing", False)
        if isinstance(bins, bool) or not isinstance(bins, int) or not 1 <= bins <= MAX_BINS:
            raise UsageError(f"field {self.name!r}: bins must be a whole number from 1 to {MAX_BINS:,}.")
        if self.integer:
            if bins > high - low + 1:
                raise UsageError(f"field {self.name!r}: an integer field needs at least one whole number per bin.")
            if (high - low + 1) * bins > 2**62:
                raise UsageError(f"field {self.name!r}: the range is too wide for so many bins; use fewer.")

    def _check_open(self) -> None:
        if self.scale not in get_args(Scale):
            raise UsageError(f"field {self.name!r}: scale must be auto, linear or log.")
        if self.missing is not None and not isinstance(self.missing, bool):
            raise UsageError(f"field {self.name!r}: missing must be true or false.")
        if self.decimals is not None:
            is_integer = isinstance(self.decimals, int) and not isinstance(self.decimals, bool)
            if not is_integer or not 0 <= self.decimals <= MAX_DECIMALS:
                raise UsageError(f"field {self.name!r}: decimals must be a whole number from 0 to {MAX_DECIMALS}.")
            if self.integer and self.decimals:
                raise UsageError(f"field {self.name!r}: an integer field has no decimals; state one of the two.")
        bounds = [bound for bound in (self.low, self.high) if not isinstance(bound, str)]
        if any(abs(bound) > LARGEST_TICK or abs(self.format.tick(bound)) > LARGEST_TICK for bound in bounds):
            raise UsageError(f"field {self.name!r}: low and high have more digits than can be kept exactly.")
        for special in self.specials:
            if not is_number(special) or abs(special) > LARGEST_TICK:
                raise UsageError(f"field {self.name!r}: specials must be finite numbers.")
            if self.integer and special != int(special):
                raise UsageError(f"field {self.name!r}: specials of an integer field must be whole numbers.")
        if len(set(self.specials)) < len(self.specials) or len(self.specials) > 100:
            raise UsageError(f"field {self.name!r}: specials must differ, and be at most 100.")

    def _check_integer(self) -> None:
        for bound in (self.low, self.high):
            if not isinstance(bound, str) and (bound != int(bound) or abs(bound) > LARGEST_TICK):
                raise UsageError(f"field {self.name!r}: low and high must be whole numbers for an integer field.")

    @property
    def is_open(self) -> bool:
        """Whether the bins are still to be found."""
        return self.bins is None

    @property
    def format(self) -> NumberFormat:
        """Whole numbers, decimals or reals."""
        if self.integer or self.decimals == 0:
            return NumberFormat("integer")
        return NumberFormat("real") if self.decimals is None else NumberFormat("decimal", self.decimals)

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Low and high in ticks; None where they are to be found."""
        low, high = (None if isinstance(bound, str) else self.format.tick(bound) for bound in (self.low, self.high))
        return low, high

    @property
    def special_ticks(self) -> tuple[float, ...]:
        """Values with a meaning of their own, in ticks."""
        return tuple(sorted({self.format.tick(value) for value in self.specials}))

    @property
    def width(self) -> int:
        """Positions this field takes in the binary vector."""
        return (NOMINAL_VALUES if self.bins is None else self.bins) + bool(self.missing is not False)

    @property
    def position_names(self) -> list[str]:
        """A readable name per position."""
        if self.bins is None or isinstance(self.low, str) or isinstance(self.high, str):
            return []
        step = (self.high - self.low) / self.bins
        edges = [self.low + step * at for at in range(self.bins + 1)]
        names = [f"{self.name} {low:g} to {high:g}" for low, high in pairwise(edges)]
        return names_with_missing(self.name, names, self.missing)


class _Moments:
    """What dates and date-times have in common: they are open, and whole steps since 1970."""

    low: str
    high: str
    missing: bool | None
    after: str | None
    is_open: ClassVar[bool] = True
    special_ticks: ClassVar[tuple[float, ...]] = ()

    @property
    def _step(self) -> int:
        """Seconds of one tick."""
        return SECONDS["day"]

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Low and high in ticks, None where they are to be found; of the time since another date, from 0 on."""
        low, high = (
            None if bound == DISCOVER else _iso_seconds(bound) // self._step for bound in (self.low, self.high)
        )
        if self.after is None:
            return low, high
        return 0.0, None if low is None or high is None else high - low

    @property
    def scale(self) -> Scale:
        """Dates are equally fine everywhere; times since another date are finer where they are short."""
        return "linear" if self.after is None else "auto"

    @property
    def width(self) -> int:
        """Positions this field takes in the binary vector."""
        return NOMINAL_VALUES + bool(self.missing is not False)

    @property
    def position_names(self) -> list[str]:
        """None yet."""
        return []


@dataclass(frozen=True)
class Date(_Moments):
    """A day from `low` to `high` (ISO texts such as 2020-01-31, or dates); open, as a `Numeric` without bins is.

    `low` and `high` may be "discover": the calendar years between 1900 and 2099 that dates lie in are found privately.
    `pattern` says how a text file writes it, in the notation of strptime ("%d.%m.%Y"); by default as ISO dates are.
    `after` names another date that this one never comes before: then the time since is modelled, so that a discharge
    comes as long after its admission as discharges do (an earlier one counts as the same day).
    """

    name: str
    low: str
    high: str
    missing: bool | None = None
    pattern: str | None = None
    after: str | None = None
    kind: Literal["date"] = "date"

    def __post_init__(self) -> None:
        check_name(self.name)
        _check_dates(self, "2020-01-31")

    @property
    def format(self) -> NumberFormat:
        """Days; a number of them where the time since another date is modelled."""
        return NumberFormat("date" if self.after is None else "integer")


@dataclass(frozen=True)
class DateTime(_Moments):
    """A moment from `low` to `high` (ISO texts such as 2020-01-31T12:00), in steps of `unit`; open, as a `Date` is.

    `unit` may be "discover": whether moments have clock times (to the second) or are whole days is found privately,
    together with `low` and `high`.
    """

    name: str
    low: str
    high: str
    unit: Unit | Literal["discover"] = "second"
    missing: bool | None = None
    pattern: str | None = None
    after: str | None = None
    kind: Literal["datetime"] = "datetime"

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.unit not in (*SECONDS, DISCOVER):
            raise UsageError(f"field {self.name!r}: unit must be one of {', '.join(SECONDS)} (or `discover`).")
        if self.unit == DISCOVER and (self.after is not None or not self.low == self.high == DISCOVER):
            raise UsageError(
                f"field {self.name!r}: a unit is found together with the range; say `discover` for low and high as well"
                " and leave out `after`, or state the unit."
            )
        _check_dates(self, "2020-01-31T12:00")

    @property
    def _step(self) -> int:
        return 1 if self.unit == DISCOVER else SECONDS[self.unit]

    @property
    def format(self) -> NumberFormat:
        """Steps of the unit (seconds where it is to be found); a number of them since another moment."""
        unit: Unit = "second" if self.unit == "discover" else self.unit
        return NumberFormat("integer") if self.after is not None else NumberFormat("datetime", unit=unit)


OpenNumber: TypeAlias = Numeric | Date | DateTime


def is_number(value: object) -> bool:
    """Whether a value is a finite number, not a boolean."""
    # Compared, since a whole number may be too large for a float.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def is_pattern(pattern: object) -> bool:
    """Whether something is a pattern of dates, as for strptime."""
    return isinstance(pattern, str) and "%" in pattern and len(pattern) <= _LONGEST_PATTERN and "\0" not in pattern


def _iso_seconds(text: str) -> float:
    """Seconds since 1970 of an ISO date or time, without its time zone."""
    moment = datetime.datetime.fromisoformat(text).replace(tzinfo=None)
    return (moment - datetime.datetime(1970, 1, 1)).total_seconds()


def _check_dates(field: Any, example: str) -> None:
    for key in ("low", "high"):
        bound = getattr(field, key)
        if isinstance(bound, datetime.date):  # YAML reads dates as such
            bound = bound.isoformat()
            object.__setattr__(field, key, bound)
        if bound == DISCOVER:
            continue
        try:
            _iso_seconds(bound)
        except (TypeError, ValueError):
            raise UsageError(
                f"field {field.name!r}: {key} must be a date such as {example} (or `discover`)."
            ) from None
    ends = [_iso_seconds(bound) // field._step for bound in (field.low, field.high) if bound != DISCOVER]
    if len(ends) == 2 and not ends[0] < ends[1]:
        raise UsageError(f"field {field.name!r}: low must be before high.")
    if field.missing is not None and not isinstance(field.missing, bool):
        raise UsageError(f"field {field.name!r}: missing must be true or false.")
    if field.after is not None and not isinstance(field.after, str):
        raise UsageError(f"field {field.name!r}: after must be the name of another date.")
    if field.pattern is not None and not is_pattern(field.pattern):
        raise UsageError(f"field {field.name!r}: pattern must be written as for strptime, such as %d.%m.%Y.")
