"""Columns of dates and times as seconds since 1970, whatever type or text holds them. Time zones are left aside.

And which dates never come after which others (`DateOrders`): suggestions for the curator of a table, never a rule by
themselves. Without a rule a synthetic discharge can come before its admission; the curator states it as a public rule
where everybody knows that it holds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpgm.data.columns import as_texts
from dpgm.data.items import Place
from dpgm.errors import InputError

if TYPE_CHECKING:
    import pyarrow

# How dates are written besides ISO's way, tried in this order where a curator looks at a file: years of two digits
# first, which would else be taken for those of the first century.
_SHORT_YEARS = ("%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d-%m-%y", "%d-%b-%y")
_YEARS = ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%d-%b-%Y", "%d %b %Y", "%Y/%m/%d", "%Y%m%d")
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
DATE_PATTERNS = tuple(day + clock for clock in _CLOCKS for day in (*_SHORT_YEARS, *_YEARS))
_FIRST = 20  # texts that tell most patterns apart, before all are read
ISO = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?$"
ENOUGH_ROWS = 20  # rows with both dates, from which an order may be more than chance
_MOST_COLUMNS = 20
_SOON = 0.25  # of the standard deviation of the first date: then the time between says more than the second date
_DAY = 86_400


def seconds_of(
    column: "pyarrow.Array", where: Place, missing: Sequence[str], pattern: str | None = None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Seconds since 1970 (0 where missing), and which are missing.

    Raises:
        InputError: a cell holds no date in the pattern, or in ISO's way of writing.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        column = as_texts(column, where)  # 20200131, in a column of numbers or beside texts
    if pa.types.is_string(column.type):
        column = pc.utf8_trim_whitespace(column)
        absent = pc.is_in(column, value_set=pa.array(missing, type=column.type))
        column = pc.if_else(absent, pa.scalar(None, type=column.type), column)
        parsed = parse_dates(column, pattern)
        bad = (column.is_valid().to_numpy(zero_copy_only=False)) & parsed.is_null().to_numpy(zero_copy_only=False)
        if bad.any():
            form = f"in the pattern {pattern!r}" if pattern else "such as 2020-01-31 or 2020-01-31T12:00:00"
            raise InputError(
                f"{where(int(np.argmax(bad)))}: the value is not a date {form}; correct the file, or state the field's"
                " `pattern`."
            )
        column = parsed
    elif not (pa.types.is_temporal(column.type) or pa.types.is_null(column.type)):
        raise InputError(f"{where(0)}: the column does not hold dates; correct the domain or the file.")
    gone = column.is_null().to_numpy(zero_copy_only=False)
    try:
        if pa.types.is_timestamp(column.type):
            if column.type.tz is not None:
                column = pc.local_timestamp(column)  # what a clock shows there, as in texts
            column = pc.floor_temporal(column, unit="second")  # a cast would cut toward 1970
        seconds = pc.fill_null(column.cast(pa.timestamp("s"), safe=False).cast(pa.int64()), 0)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(f"{where(0)}: the column does not hold dates; correct the domain or the file.") from None
    return seconds.to_numpy(zero_copy_only=False).astype(np.float64), gone


def parse_dates(texts: "pyarrow.Array", pattern: str | None = None) -> "pyarrow.Array":
    """Texts as moments in seconds; null where a text is not a date."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pattern is not None:
        return pc.strptime(texts, format=pattern, unit="s", error_is_null=True)
    plain = pc.fill_null(pc.match_substring_regex(texts, ISO), False)
    day = pc.utf8_slice_codeunits(texts, 0, 10)
    clock = pc.utf8_slice_codeunits(texts, 11, 19)
    full = pc.equal(pc.binary_length(clock), 8)
    short = pc.match_substring_regex(clock, r"^[0-9]{2}:[0-9]{2}")
    clock = pc.if_else(
        pc.and_(full, pc.match_substring_regex(clock, r"^[0-9]{2}:[0-9]{2}:[0-9]{2}$")),
        clock,
        pc.if_else(short, pc.binary_join_element_wise(pc.utf8_slice_codeunits(clock, 0, 5), "00", ":"), "00:00:00"),
    )
    joined = pc.binary_join_element_wise(day, clock, " ")
    joined = pc.if_else(plain, joined, pa.scalar(None, type=pa.string()))
    return pc.strptime(joined, format="%Y-%m-%d %H:%M:%S", unit="s", error_is_null=True)


def fitting_patterns(texts: "pyarrow.Array", patterns: Iterable[str | None]) -> list[str | None]:
    """Those of the patterns (None: ISO's way) in which all texts are dates; none of them may be null."""
    few = texts.slice(0, _FIRST)
    likely = [one for one in patterns if not parse_dates(few, one).null_count]
    return [one for one in likely if not parse_dates(texts, one).null_count]


def as_written(dates: "pyarrow.Array", pattern: str) -> "pyarrow.Array":
    """Dates as texts in the pattern."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.strftime(dates.cast(pa.timestamp("s")), format=pattern)


@dataclass
class DateOrders:
    """Pairs of date columns, and in how many rows the first one was before, with or after the second."""

    before: dict[tuple[str, str], int] = field(default_factory=dict)
    equal: dict[tuple[str, str], int] = field(default_factory=dict)
    gaps: dict[tuple[str, str], float] = field(default_factory=dict)  # sums of the second minus the first
    moments: dict[str, NDArray[np.float64]] = field(default_factory=dict)  # number, sum and sum of squares, in days

    def see(self, seconds: Mapping[str, NDArray[np.float64]]) -> None:
        """Compare the dates of some rows, NaN where one is missing."""
        for pair in permutations(list(seconds)[:_MOST_COLUMNS], 2):
            first, second = seconds[pair[0]], seconds[pair[1]]
            self.before[pair] = self.before.get(pair, 0) + int((first < second).sum())
            self.equal[pair] = self.equal.get(pair, 0) + int((first == second).sum())
            self.gaps[pair] = self.gaps.get(pair, 0.0) + float(np.nansum(second - first)) / _DAY
        for name, dates in seconds.items():
            days = dates[~np.isnan(dates)] / _DAY
            sums = np.array([len(days), days.sum(), (days**2).sum()])
            self.moments[name] = self.moments.get(name, np.zeros(3)) + sums

    def is_close(self, first: str, second: str) -> bool:
        """Whether the second date follows soon: by a fraction of how far the first ones lie apart, on average."""
        rows = self.before[first, second] + self.equal[first, second]
        count, total, squares = self.moments[first]
        spread = max(squares / count - (total / count) ** 2, 0.0) ** 0.5
        return bool(self.gaps[first, second] / rows < _SOON * spread)

    def found(self, columns: tuple[str, ...]) -> list[tuple[str, str]]:
        """Pairs of these columns whose first never comes after the second; none that follows from two others."""
        holds = {
            pair
            for pair, before in self.before.items()
            if set(pair) <= set(columns) and before and not self.before.get((pair[1], pair[0]))
            if before + self.equal[pair] >= ENOUGH_ROWS
        }
        return [
            (first, last)
            for first, last in sorted(holds, key=lambda pair: (columns.index(pair[0]), columns.index(pair[1])))
            if not any((first, middle) in holds and (middle, last) in holds for middle in columns)
        ]


def order_rule(first: str, second: str) -> str:
    """The rule as a domain file states it.

    >>> order_rule("admitted", "day left")
    'admitted <= "day left"'
    """
    return f"{_quoted(first)} <= {_quoted(second)}"


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'
