"""Converting Arrow columns of any type to texts, numbers or dates, each value independently of its neighbours.

As a text, a whole number has no decimal places whatever its type (5, 5.0 and a decimal 5.00 are all `5`): a column of
integers reads the same if a gap or a fraction in another row turned it into doubles. Numbers may be written with a
decimal comma, thousands separators or signs such as €, if the options say so. Dates are seconds since 1970; time zones
are ignored.
"""

import datetime
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import NoneType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.arrow import Array, DataType, Table, pa, pc
from dpgm.data.rows import row_pointers
from dpgm.errors import InputError, UsageError

Place: TypeAlias = Callable[[int], str]  # from a row number to the place that messages name
ValueReader: TypeAlias = Callable[[Sequence[Any], Place], Array]  # makes a column of Python values


@dataclass(frozen=True)
class Conversion:
    """How Python values become a column, each by itself.

    Attributes:
        read: converts the values of a column without a type.
        always: converts those of a column that has a type, too.
        keeps_type: whether a column without any value keeps its type.
    """

    read: ValueReader
    always: bool = False
    keeps_type: bool = False


_INT64 = 2.0**63
_PANDAS_MISSING = ("NAType", "NaTType")  # types of pandas' missing values
_BLANK = "[ \t\u00a0\u202f]"  # users who state a space also mean no-break spaces
_LONGEST_SIGN = 20
_BEYOND = "a date lies beyond the year 9999, or before the year 1; correct the file."
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years 1 to 9999, since 1970
_NOT_FINITE = "the value is not a finite number; correct the file."
# Date formats besides ISO, in the order in which `inspect` tries them: two-digit years first, because they would
# otherwise be read as years of the first century.
_SHORT_YEARS = ("%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d-%m-%y", "%d-%b-%y")
_YEARS = ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%d-%b-%Y", "%d %b %Y", "%Y/%m/%d", "%Y%m%d")
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
DATE_PATTERNS = tuple(day + clock for clock in _CLOCKS for day in (*_SHORT_YEARS, *_YEARS))
# ISO formats that must be stated for samples to use them, because the default is 2020-01-31 12:00:00.
ISO_PATTERNS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M")
_FIRST = 20  # texts that rule out most patterns, before all texts are tried
_ZONE = "(Z|[+-][0-9]{2}:?[0-9]{2}(:[0-9]{2})?)?"  # offsets of old dates have seconds
ISO = rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([T ][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}(\.[0-9]{{1,9}})?)?)?{_ZONE}$"


def numbered_row(row: int) -> str:
    """The place of a row in messages, for tables that are not read from a file."""
    return f"row {row + 1}"


def numbered(prefix: str, numbers: Sequence[int]) -> Place:
    """Places such as `x.xlsx: row 7`, from a prefix and the number of each row."""
    return lambda row: f"{prefix} {numbers[row]}"


def in_column(place: Place, name: str | int) -> Place:
    """Places that also name the column."""
    return lambda row: f"{place(row)}, column {name!r}"


def refuse_first(bad: NDArray[np.bool_], where: Place, message: str) -> None:
    """Raise an InputError with the place of the first row that is `bad`, if any is."""
    if bad.any():
        raise InputError(f"{where(int(np.argmax(bad)))}: {message}")


def refuse_rows(bad: NDArray[np.bool_], place: Place, message: str) -> None:
    """Raise an InputError with the place of the first row of which any cell is `bad`."""
    if bad.any():
        refuse_first(np.asarray(bad.any(axis=1)), place, message)


# -- texts ---------------------------------------------------------------------------------------------------------


def is_text(kind: DataType) -> bool:
    """Whether a column of this type holds texts."""
    kinds = pa.types
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def plain_column(column: Array) -> Array:
    """The column without dictionary encoding, with texts of type string."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.string()) if is_text(column.type) else column


def float_text(value: float) -> str:
    """A finite number as text.

    >>> float_text(5.0), float_text(1e16), float_text(0.5), float_text(-0.0)
    ('5', '10000000000000000', '0.5', '0')
    """
    return str(int(value)) if value == math.floor(value) and abs(value) < _INT64 else repr(value)


def decimal_text(value: Decimal) -> str:
    """A finite decimal as text.

    >>> decimal_text(Decimal("5.00")), decimal_text(Decimal("1.50"))
    ('5', '1.5')
    """
    return str(int(value)) if value == value.to_integral_value() else format(value.normalize(), "f")


def is_missing(value: Any) -> bool:
    """Whether a Python value stands for a missing one: None, NaN, NA, NaT."""
    if isinstance(value, (float, np.floating)):
        return math.isnan(value)
    return value is None or type(value).__name__ in _PANDAS_MISSING


def is_sequence(value: Any) -> bool:
    """Whether a Python value is a list of items, in one of the forms that frames have."""
    return isinstance(value, (list, tuple, set, frozenset)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def scalar_text(value: Any) -> str | None:
    """A Python value from JSON or a frame as text; None if it is missing.

    Raises:
        TypeError: it is not a text, number, boolean or date.
        ValueError: it is infinite, or not valid Unicode.
    """
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, str):
        value.encode()
        return value
    if value is None or type(value).__name__ in _PANDAS_MISSING:
        return None
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        if math.isinf(value):
            raise ValueError
        return None if math.isnan(value) else float_text(float(value))
    if isinstance(value, Decimal):
        if value.is_infinite():
            raise ValueError
        return None if value.is_nan() else decimal_text(value)
    if isinstance(value, (datetime.date, datetime.time)):
        if isinstance(value, datetime.date) and not 1 <= value.year <= datetime.MAXYEAR:  # as pandas has it
            raise ValueError
        return str(value)
    raise TypeError


def as_texts(column: Array, where: Place) -> Array:
    """A column of texts, numbers, booleans or dates as texts."""
    kinds, column = pa.types, plain_column(column)
    kind = column.type
    if kinds.is_string(kind):
        return column
    if kinds.is_floating(kind):
        return _float_texts(column, where)
    if kinds.is_decimal(kind) or kinds.is_date(kind) or kinds.is_timestamp(kind) or kinds.is_time(kind):
        encoded = column.dictionary_encode()
        try:  # by way of Python values, so that the text does not depend on the column's unit
            texts = [scalar_text(value) for value in encoded.dictionary.to_pylist()]
        except (ValueError, OverflowError):
            raise InputError(f"{where(0)} or after: {_BEYOND}") from None
        return pa.array(texts, type=pa.string()).take(encoded.indices)
    if not (kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_null(kind)):
        raise InputError(f"{where(0)}: the column must hold texts, numbers or dates; choose another column.")
    return column.cast(pa.string())


def _float_texts(column: Array, where: Place) -> Array:
    """A column of floating-point numbers as texts; raises if one is not finite."""
    present = column.is_valid().to_numpy(zero_copy_only=False)
    values = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
    refuse_first(~np.isfinite(values), where, _NOT_FINITE)
    is_integer = (values == np.floor(values)) & (np.abs(values).astype(np.float64) < _INT64)
    texts = pa.array(np.where(is_integer, values, 0).astype(np.int64)).cast(pa.string())
    if not is_integer.all():
        distinct, which = np.unique(values[~is_integer], return_inverse=True)
        # str gives the shortest text that reads back as the same number, in 32 or 64 bits.
        fractions = pa.array([str(value) for value in distinct], type=pa.string())
        at = np.zeros(len(values), dtype=np.int64)
        at[~is_integer] = which
        texts = pc.if_else(pa.array(is_integer), texts, fractions.take(pa.array(at)))
    return texts if present.all() else pc.if_else(pa.array(present), texts, pa.scalar(None, type=pa.string()))


def object_texts(values: Sequence[Any], where: Place) -> Array:
    """Python values of mixed types as a column of texts."""
    if (column := _typed_column(values)) is not None:
        return column.cast(pa.string())
    texts = []
    for row, value in enumerate(values):
        try:
            texts.append(scalar_text(value))
        except (TypeError, ValueError):
            raise InputError(
                f"{where(row)}: the value must be a text, a finite number or a boolean; correct it (a column of"
                " lists is an item set: the domain says so, or `item` names it)."
            ) from None
    return pa.array(texts, type=pa.string())


TEXTS = Conversion(object_texts)


def object_lists(rows: Sequence[Any], where: Place) -> Array:
    """Python lists of items of mixed types as lists of integers or of texts; None is an empty list.

    Lists of integers stay integers, which is faster; the items 5 and `5` are the same.
    """
    flat: list[Any] = []
    lengths = []
    for row, items in enumerate(rows):
        if is_missing(items):
            lengths.append(0)
        elif is_sequence(items):
            flat.extend(items)
            lengths.append(len(items))
        else:
            raise InputError(f"{where(row)}: must hold a list of items; correct the file, or choose another shape.")
    offsets = row_pointers(np.array(lengths, dtype=np.int64))
    values = _typed_column(flat)
    if values is None:
        texts = []
        for at, value in enumerate(flat):
            try:
                texts.append(_item_text(value))
            except (TypeError, ValueError):
                row = int(np.searchsorted(offsets, at, side="right")) - 1
                raise InputError(
                    f"{where(row)}: an item must be a text or a whole number that is not negative; correct the file."
                ) from None
        values = pa.array(texts, type=pa.string())
    return pa.LargeListArray.from_arrays(pa.array(offsets), values)


LISTS = Conversion(object_lists)


def item_objects(values: Sequence[Any], place: Place) -> Array:
    """Python values that are an item each, or a list of items."""
    if set(map(type, values)) <= {str, NoneType}:
        return object_texts(values, place)  # faster
    lists = [value if is_sequence(value) else [] if is_missing(value) else [value] for value in values]
    return object_lists(lists, place)


def unsplit_texts(values: Sequence[Any], place: Place) -> Array:
    """Python values that are texts of several items; a list among them would change the type of the whole column."""
    for row, value in enumerate(values):
        if is_sequence(value):
            raise InputError(
                f"{place(row)}: is a list, but `item_separator` says that texts are split into items; leave one out."
            )
    return object_texts(values, place)


def _typed_column(values: Sequence[Any]) -> Array | None:
    """A fast path for values that are all texts, or all integers (and None); None if they are anything else."""
    kinds = set(map(type, values)) - {NoneType}
    try:
        return pa.array(values, type={str: pa.string(), int: pa.int64()}[kinds.pop()]) if len(kinds) == 1 else None
    except (KeyError, OverflowError, UnicodeError, pa.ArrowException):
        return None


def _item_text(value: Any) -> str | None:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError
    text = scalar_text(value)
    if text is not None and text.startswith("-") and not isinstance(value, (str, bytes)):  # a negative number
        raise ValueError
    return text


# -- numbers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NumberStyle:
    """How a text file writes numbers: decimal mark, thousands separator, and signs before or after (€, %)."""

    decimal: str = "."
    thousands: str | None = None
    signs: Sequence[str] = ()

    def __post_init__(self) -> None:
        mark = self.thousands
        if self.decimal not in (".", ","):
            raise UsageError("`decimal` must be the point or the comma.")
        if mark is not None and (len(mark) != 1 or mark.isalnum() or mark in '+-"' + self.decimal):
            raise UsageError(
                "`thousands` must be one character that is not a digit, letter, sign or the decimal mark."
            )
        if isinstance(self.signs, str) or not all(isinstance(sign, str) for sign in self.signs):
            raise UsageError(
                "`strip_from_numbers` must be a list of texts that stand beside numbers, such as € or %."
            )
        for sign in self.signs:
            numeric = any(one.isdigit() or one in "+-.," for one in sign.strip())
            if not sign.strip() or numeric or len(sign) > _LONGEST_SIGN:
                raise UsageError(
                    f"`strip_from_numbers` takes signs of at most {_LONGEST_SIGN} characters, without digits, points,"
                    " commas, plus and minus."
                )
        object.__setattr__(self, "signs", tuple(sign.strip() for sign in self.signs))

    @property
    def is_plain(self) -> bool:
        """Whether numbers have a decimal point and neither separators nor signs."""
        return self == NumberStyle()


PLAIN_NUMBERS = NumberStyle()


def with_plain_numbers(
    table: Table, names: Iterable[str], style: NumberStyle, missing: Sequence[str], place: Place
) -> Table:
    """The table with the numbers of some text columns rewritten with a decimal point only; `missing` texts stay.

    Raises:
        InputError: a text is not a number in this style, such as 1.5 if the decimal mark is the comma.
    """
    if style.is_plain:
        return table
    chosen, columns = set(names), []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name in chosen and pa.types.is_string(column.type):
            column = plain_texts(column.combine_chunks(), style, ("", *missing), in_column(place, name))
        columns.append(column)
    return pa.table(columns, names=table.column_names)


def plain_texts(column: Array, style: NumberStyle, missing: Sequence[str], where: Place) -> Array:
    """Numbers rewritten with a decimal point only; raises InputError if a text is not a number in this style."""
    mark, text = re.escape(style.decimal), pc.utf8_trim_whitespace(column)
    integer_part, separator = "[0-9]+", ""
    if style.thousands is not None:
        separator = _BLANK if style.thousands == " " else f"[{re.escape(style.thousands)}]"
        integer_part = f"([0-9]{{1,3}}({separator}[0-9]{{3}})+|[0-9]+)"
    bare = without_signs(text, style.signs)
    is_number = pc.match_substring_regex(
        bare, f"^[+-]?({integer_part}({mark}[0-9]*)?|{mark}[0-9]+)([eE][+-]?[0-9]+)?$"
    )
    absent = pc.is_in(text, value_set=pa.array(missing, type=text.type))
    readable = pc.fill_null(pc.or_(is_number, absent), True).to_numpy(zero_copy_only=False)
    message = (
        "the value is not a number written with the marks of `decimal`, `thousands` and `strip_from_numbers`; correct"
        " them or the file."
    )
    refuse_first(~readable, where, message)
    plain = bare if style.thousands is None else pc.replace_substring_regex(bare, separator, "")
    return pc.if_else(absent, text, pc.replace_substring(plain, style.decimal, "."))


def without_signs(text: Array, signs: Sequence[str]) -> Array:
    """Texts without one of the signs before (-€ 5, € -5) and after (5 %) the number."""
    if not signs:
        return text
    any_sign = "|".join(re.escape(sign) for sign in sorted(signs, key=len, reverse=True))
    text = pc.replace_substring_regex(text, f"^([+-]?){_BLANK}*(?:{any_sign}){_BLANK}*", r"\1")
    return pc.replace_substring_regex(text, f"{_BLANK}*(?:{any_sign})$", "")


def written_numbers(column: Array) -> NDArray[np.bool_]:
    """Mask of the texts that are numbers with a decimal point, or null."""
    plain = pc.match_substring_regex(column, r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$")
    numbers: NDArray[np.bool_] = pc.fill_null(plain, True).to_numpy(zero_copy_only=False)
    return numbers


def _present_texts(column: Array, missing: Sequence[str]) -> Array:
    """Trimmed texts; null if a text stands for a missing value."""
    column = pc.utf8_trim_whitespace(column)
    absent = pc.is_in(column, value_set=pa.array(missing, type=column.type))
    return pc.if_else(absent, pa.scalar(None, type=column.type), column)


def floats(column: Array, where: Place, missing: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The finite numbers of a column (0 if missing), and a mask of the missing ones."""
    kinds, column = pa.types, plain_column(column)
    if kinds.is_string(column.type):
        column = _present_texts(column, missing)
        message = (
            "the value is not a finite number written with digits and '.'; correct the file, or say which texts mean"
            " a missing value (`missing`) or how numbers are written (`decimal`)."
        )
        refuse_first(~written_numbers(column), where, message)
        column = pc.utf8_ltrim(column, "+")
    elif kinds.is_boolean(column.type):
        column = column.cast(pa.uint8())
    elif not (
        kinds.is_integer(column.type)
        or kinds.is_floating(column.type)
        or kinds.is_decimal(column.type)
        or kinds.is_null(column.type)
    ):
        raise InputError(f"{where(0)}: the column does not hold numbers; correct the domain or the file.")
    absent = column.is_null().to_numpy(zero_copy_only=False)
    values = pc.fill_null(column.cast(pa.float64(), safe=False), 0.0).to_numpy(zero_copy_only=False)
    refuse_first(~np.isfinite(values), where, _NOT_FINITE)
    return values, absent


def required_floats(column: Array, where: Place) -> NDArray[np.float64]:
    """The finite numbers of a column; raises if one is missing."""
    values, absent = floats(column, where, ("",))
    refuse_first(absent, where, "the value is missing; correct the file.")
    return values


# -- dates ---------------------------------------------------------------------------------------------------------


def seconds_of(
    column: Array, where: Place, missing: Sequence[str], pattern: str | None = None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Seconds since 1970 (0 if missing), and a mask of the missing values.

    Raises:
        InputError: a value is not a date in the pattern, or in an ISO format if there is no pattern.
    """
    kinds, column = pa.types, plain_column(column)
    if kinds.is_integer(column.type) or kinds.is_floating(column.type):
        column = as_texts(column, where)  # such as 20200131
    if kinds.is_string(column.type):
        texts = _present_texts(column, missing)
        column = parse_dates(texts, pattern)
        bad = pc.and_(texts.is_valid(), column.is_null()).to_numpy(zero_copy_only=False)
        form = f"in the pattern {pattern!r}" if pattern else "such as 2020-01-31 or 2020-01-31T12:00:00"
        message = f"the value is not a date {form}; correct the file, or state the field's `pattern`."
        refuse_first(bad, where, message)
    no_dates = f"{where(0)}: the column does not hold dates; correct the domain or the file."
    if not (kinds.is_temporal(column.type) or kinds.is_null(column.type)):
        raise InputError(no_dates)
    absent = column.is_null().to_numpy(zero_copy_only=False)
    try:
        if kinds.is_timestamp(column.type):
            if column.type.tz is not None:
                column = pc.local_timestamp(column)  # local time, as texts have it
            column = pc.floor_temporal(column, unit="second")  # a cast would round toward 1970
        seconds = pc.fill_null(column.cast(pa.timestamp("s"), safe=False).cast(pa.int64()), 0)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(no_dates) from None
    found = seconds.to_numpy(zero_copy_only=False)
    refuse_first((found < _FIRST_SECOND) | (found > _LAST_SECOND), where, _BEYOND)
    return found.astype(np.float64), absent


def parse_dates(texts: Array, pattern: str | None = None) -> Array:
    """Texts as timestamps in seconds, by a pattern or in an ISO format; null if a text is not a date."""
    if pattern is not None:
        return pc.strptime(texts, format=pattern, unit="s", error_is_null=True)
    is_iso = pc.fill_null(pc.match_substring_regex(texts, ISO), False)
    day = pc.utf8_slice_codeunits(texts, 0, 10)
    clock = pc.utf8_slice_codeunits(texts, 11, 19)
    full = pc.match_substring_regex(clock, r"^[0-9]{2}:[0-9]{2}:[0-9]{2}$")
    short = pc.match_substring_regex(clock, r"^[0-9]{2}:[0-9]{2}")
    minutes = pc.binary_join_element_wise(pc.utf8_slice_codeunits(clock, 0, 5), "00", ":")
    clock = pc.if_else(full, clock, pc.if_else(short, minutes, "00:00:00"))
    joined = pc.binary_join_element_wise(day, clock, " ")
    joined = pc.if_else(is_iso, joined, pa.scalar(None, type=pa.string()))
    return pc.strptime(joined, format="%Y-%m-%d %H:%M:%S", unit="s", error_is_null=True)


def fitting_patterns(texts: Array, patterns: Iterable[str | None]) -> list[str | None]:
    """The patterns (None for ISO) by which all texts are dates; the texts must not be null."""
    for part in (texts.slice(0, _FIRST), texts):
        patterns = [pattern for pattern in patterns if not parse_dates(part, pattern).null_count]
    return list(patterns)


def as_written(dates: Array, pattern: str) -> Array:
    """Dates as texts in the pattern."""
    return pc.strftime(dates.cast(pa.timestamp("s")), format=pattern)
