"""When events happened: seconds by the local clock, or any numbers that rise with time; each value read by itself.

A time with an offset, such as 08:15+01:00, or of a column with a time zone, is what the clock of the stated zone shows
then. Without a stated zone, and for times without an offset, it is what is written. Where only the order of events
counts, times with an offset are those of UTC.
"""

import datetime
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.arrow import Array, pa, pc
from dpgm.data.items import list_lengths
from dpgm.data.values import ISO, Place, floats, plain_column, refuse_first, seconds_of, written_numbers

Times: TypeAlias = NDArray[np.float64]  # NaN where a time is missing
_FRACTION = r"(?P<found>\.[0-9]{1,9})(?:Z|[+-][0-9:]{4,9})?$"
_OFFSET = r"(?P<found>Z|[+-][0-9]{2}:?[0-9]{2}(?::[0-9]{2})?)$"


def clock_times(
    column: Array, where: Place, missing: Sequence[str], pattern: str | None = None, zone: str | None = None
) -> Times:
    """Seconds since 1970 by the local clock, with fractions.

    Raises:
        InputError: a value is not a date in the pattern, or in an ISO format if there is no pattern.
    """
    kinds, column = pa.types, plain_column(column)
    if kinds.is_timestamp(column.type):
        if column.type.tz is not None:
            zoned = column if zone is None else column.cast(pa.timestamp(column.type.unit, tz=zone))
            column = pc.local_timestamp(zoned)
        fraction: Any = pc.fill_null(pc.subsecond(column), 0.0).to_numpy(zero_copy_only=False)
        seconds, absent = seconds_of(column, where, missing)
        return np.where(absent, np.nan, seconds + fraction)
    seconds, absent = seconds_of(column, where, missing, pattern)
    if kinds.is_string(column.type) and pattern is None:
        trimmed = pc.utf8_trim_whitespace(column)
        if zone is not None:
            seconds = _by_clock_of(zone, seconds, _each(trimmed, _OFFSET, _offset_seconds, otherwise=np.nan))
        seconds = seconds + _each(trimmed, _FRACTION, float)  # after that, so that equal times stay equal
    return np.where(absent, np.nan, seconds)


def running_times(column: Array, where: Place, missing: Sequence[str]) -> Times:
    """Numbers, and dates and times as seconds, of which nothing but the order counts.

    Raises:
        InputError: a value is neither a number nor a date in an ISO format.
    """
    kinds, column = pa.types, plain_column(column)
    if kinds.is_integer(column.type) or kinds.is_floating(column.type) or kinds.is_decimal(column.type):
        numbers, absent = floats(column, where, missing)
        return np.where(absent, np.nan, numbers)
    if not kinds.is_string(column.type):
        return clock_times(column, where, missing, zone="UTC")
    trimmed = pc.utf8_trim_whitespace(column)
    absent = pc.fill_null(pc.is_in(trimmed, value_set=pa.array(missing, pa.string())), True)
    absent = absent.to_numpy(zero_copy_only=False) | column.is_null().to_numpy(zero_copy_only=False)
    dated = pc.fill_null(pc.match_substring_regex(trimmed, ISO), False).to_numpy(zero_copy_only=False)
    message = "the time of an event must be a date such as 2020-01-31T12:00:00 or a number; correct the file."
    refuse_first(~(absent | dated | written_numbers(trimmed)), where, message)
    nothing = pa.scalar(None, type=pa.string())
    dates = clock_times(pc.if_else(pa.array(dated & ~absent), trimmed, nothing), where, missing, zone="UTC")
    numbers, _ = floats(pc.if_else(pa.array(~dated & ~absent), trimmed, nothing), where, missing)
    return np.where(absent, np.nan, np.where(dated, dates, numbers))


def times_beside(times: Array, lengths: NDArray[np.int64], where: Place) -> Array:
    """The time of every item, from a column of lists of times and the lengths of the lists of items.

    Where a row has items and no times at all, they are missing. A row without items has one time: its first.
    """
    own, repeats = list_lengths(times), np.maximum(lengths, 1)
    message = "the list of times is not as long as that of the items; correct the file."
    refuse_first((own != lengths) & (own > 0) & (lengths > 0), where, message)
    shifts = (np.cumsum(own) - own) - (np.cumsum(repeats) - repeats)
    at = np.arange(int(repeats.sum())) + np.repeat(shifts, repeats)
    return pc.list_flatten(times).take(pa.array(at, mask=np.repeat(own == 0, repeats)))


def _each(texts: Array, pattern: str, read: Any, otherwise: float = 0.0) -> Times:
    """What is read of the part of every text that matches, once for each that occurs; `otherwise` where none does."""
    found = pc.struct_field(pc.extract_regex(texts, pattern), "found").dictionary_encode()
    values = np.array([*(read(text) if text else otherwise for text in found.dictionary.to_pylist()), otherwise])
    each: Times = values[pc.fill_null(found.indices, len(values) - 1).to_numpy(zero_copy_only=False)]
    return each


def _offset_seconds(text: str) -> float:
    if text == "Z":
        return 0.0
    return datetime.datetime.strptime(text, "%z").utcoffset().total_seconds()  # type: ignore[union-attr]


def _by_clock_of(zone: str, seconds: Times, offsets: Times) -> Times:
    """The times with an offset (not NaN) as the clock of a zone shows them; whole seconds."""
    rows = np.flatnonzero(~np.isnan(offsets))
    moments = (seconds[rows] - offsets[rows]).astype(np.int64)
    local = pc.local_timestamp(pa.array(moments).cast(pa.timestamp("s", tz=zone)))
    seconds = seconds.copy()
    seconds[rows] = local.cast(pa.int64()).to_numpy()
    return seconds
