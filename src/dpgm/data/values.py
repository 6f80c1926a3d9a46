"""Values as texts, one by one: how a value is written depends on that value alone, never on its neighbours.

A whole number is written with digits whatever type holds it (5, 5.0 and a decimal 5.00 are all `5`), so that a
column that became one of doubles because another row has a gap or a fraction reads as it did before.
"""

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgm.data.items import Place
from dpgm.data.records import row_pointers
from dpgm.errors import InputError

if TYPE_CHECKING:
    import pyarrow

_INT64 = 2.0**63
_GAPS = ("NAType", "NaTType")  # what pandas puts where a value is missing


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


def _float_texts(column: "pyarrow.Array", where: Place) -> "pyarrow.Array":
    """A column of floating numbers as texts; a value that is not finite is refused."""
    import pyarrow as pa
    import pyarrow.compute as pc

    present = column.is_valid().to_numpy(zero_copy_only=False)
    values = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
    finite = np.isfinite(values)
    if not finite.all():
        raise InputError(f"{where(int(np.argmin(finite)))}: the value is not a finite number; correct the file.")
    is_integer = (values == np.floor(values)) & (np.abs(values) < _INT64)
    texts = pa.array(np.where(is_integer, values, 0).astype(np.int64)).cast(pa.string())
    if not is_integer.all():
        distinct, which = np.unique(values[~is_integer], return_inverse=True)
        # str of a 32-bit number is its own shortest form; of a 64-bit one it is Python's
        written = pa.array([str(value) for value in distinct], type=pa.string())
        at = np.zeros(len(values), dtype=np.int64)
        at[~is_integer] = which
        texts = pc.if_else(pa.array(is_integer), texts, written.take(pa.array(at)))
    return texts if present.all() else pc.if_else(pa.array(present), texts, pa.scalar(None, type=pa.string()))


def _decimal_texts(column: "pyarrow.Array") -> "pyarrow.Array":
    """A column of decimals as texts."""
    import pyarrow as pa

    encoded = column.dictionary_encode()
    written = [None if value is None else decimal_text(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(written, type=pa.string()).take(encoded.indices)


def _moment_texts(column: "pyarrow.Array", where: Place) -> "pyarrow.Array":
    """A column of days, moments or times of day as texts: as Python writes each, whatever unit the column has."""
    import pyarrow as pa

    encoded = column.dictionary_encode()
    try:
        written = [None if value is None else str(value) for value in encoded.dictionary.to_pylist()]
    except (ValueError, OverflowError):
        raise InputError(f"{where(0)} or after: a date lies beyond the year 9999; correct the file.") from None
    return pa.array(written, type=pa.string()).take(encoded.indices)


def as_texts(column: "pyarrow.Array", where: Place) -> "pyarrow.Array":
    """A column of texts, numbers, booleans or dates as texts, value by value."""
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    if kinds.is_string(column.type):
        return column
    if kinds.is_floating(column.type):
        return _float_texts(column, where)
    if kinds.is_decimal(column.type):
        return _decimal_texts(column)
    if kinds.is_date(column.type) or kinds.is_timestamp(column.type) or kinds.is_time(column.type):
        return _moment_texts(column, where)
    plain = kinds.is_integer(column.type) or kinds.is_boolean(column.type) or kinds.is_null(column.type)
    if not plain and not kinds.is_large_string(column.type) and not kinds.is_string_view(column.type):
        raise InputError(f"{where(0)}: the column must hold texts, numbers or dates; choose another column.")
    return column.cast(pa.string())


def scalar_text(value: Any) -> str | None:
    """One value of a JSON object or of a frame as text; None where it is missing.

    Raises:
        TypeError: it is not a text, number, boolean or date.
        ValueError: it is infinite, or not valid Unicode.
    """
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, str):
        value.encode()
        return value
    if value is None or type(value).__name__ in _GAPS:
        return None
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        if math.isnan(value):
            return None
        if math.isinf(value):
            raise ValueError
        return float_text(float(value))
    if isinstance(value, Decimal):
        if value.is_nan():
            return None
        if not value.is_finite():
            raise ValueError
        return decimal_text(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return str(value)
    raise TypeError


def object_texts(values: Sequence[Any], where: Place) -> "pyarrow.Array":
    """Values of any kinds side by side as texts, one by one."""
    import pyarrow as pa

    texts = []
    for row, value in enumerate(values):
        try:
            texts.append(scalar_text(value))
        except (TypeError, ValueError):
            raise InputError(
                f"{where(row)}: the value must be a text, a finite number or a boolean; correct it (a column of"
                " lists is an item set: the domain says so, or `item=` names it)."
            ) from None
    return pa.array(texts, type=pa.string())


def object_lists(rows: Sequence[Any], where: Place) -> "pyarrow.Array":
    """Lists of items of any kinds as lists of whole numbers or of texts; None is an empty list.

    Whole numbers alone stay numbers, which is faster and means the same: items know `5` and 5 as one.
    """
    import pyarrow as pa

    flat: list[Any] = []
    lengths = []
    for row, items in enumerate(rows):
        if items is None or type(items).__name__ in _GAPS or (isinstance(items, float) and math.isnan(items)):
            lengths.append(0)
        elif isinstance(items, (list, tuple, set, frozenset, np.ndarray)):
            flat.extend(items)
            lengths.append(len(items))
        else:
            raise InputError(f"{where(row)}: must hold a list of items; correct the file, or choose another shape.")
    offsets = row_pointers(np.array(lengths, dtype=np.int64))
    values = None
    if set(map(type, flat)) == {int}:
        try:
            values = pa.array(flat, type=pa.int64())
        except OverflowError:
            values = None
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


def _item_text(value: Any) -> str | None:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError
    if isinstance(value, (int, float, np.number)) and value < 0:
        raise ValueError
    return scalar_text(value)
