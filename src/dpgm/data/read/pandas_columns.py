"""Pandas columns as Arrow columns: Arrow never infers a type from Python objects.

A column whose dtype fixes how every value is stored (numbers, booleans, times, texts) is converted as it stands. Any
other (Python objects, categories, intervals) is converted value by value, so that a value of another type changes no
other row. Each category that occurs is converted once, by the same code as an object.
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa

from dpgm.data.values import (
    Conversion,
    Place,
    ValueReader,
    in_column,
    numbered,
)
from dpgm.errors import InputError

_NULLABLE = re.compile("U?Int(8|16|32|64)|Float(32|64)|boolean")  # pandas' own dtypes with missing values
_NUMPY_KINDS = "biufmM"  # booleans, numbers, durations and times; not complex numbers and objects
_WIDEST = 8  # bytes; Arrow has no longer floats


def has_fixed_type(dtype: Any) -> bool:
    """Whether all values of a dtype are stored as one type."""
    import pandas

    if isinstance(dtype, np.dtype):
        return dtype.kind in _NUMPY_KINDS and dtype.itemsize <= _WIDEST
    if isinstance(dtype, (pandas.StringDtype, pandas.DatetimeTZDtype, pandas.ArrowDtype)):
        return True
    return _NULLABLE.fullmatch(str(dtype)) is not None and type(dtype).__module__.partition(".")[0] == "pandas"


def type_of(series: Any) -> pa.DataType:
    """The Arrow type by the dtype alone: text for objects and categories, null for what cannot be modelled."""
    import pandas

    dtype = series.dtype.subtype if isinstance(series.dtype, pandas.SparseDtype) else series.dtype
    if isinstance(dtype, pandas.CategoricalDtype) or str(dtype) == "object":
        return pa.string()
    return pa.array(pandas.Series([], dtype=dtype), from_pandas=True).type if has_fixed_type(dtype) else pa.null()


def converted(series: Any, name: str, how: Conversion) -> Any:
    """The column: by its dtype if that fixes how values are stored, otherwise value by value."""
    column = _column(series, name, how)
    # Without a value the dtype says nothing: a gap is read the same in a column of times and in one of objects.
    return column if how.always or how.keeps_type or column.null_count < len(column) else pa.nulls(len(column))


def _column(series: Any, name: str, how: Conversion) -> Any:
    import pandas

    place = in_column(numbered("row", range(1, len(series) + 2)), name)
    if isinstance(series.dtype, pandas.SparseDtype):
        series = series.sparse.to_dense()
    if isinstance(series.dtype, pandas.CategoricalDtype):
        return _categories(series, place, how.read)
    if not how.always and has_fixed_type(series.dtype):
        try:
            column = pa.array(series, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, UnicodeError):
            pass  # a value that Arrow cannot store, such as half of a surrogate pair, is refused with its row
        else:
            # As pandas converts short floats to long ones, once one row more makes a column longer floats or objects
            narrow = pa.types.is_float16(column.type) or pa.types.is_float32(column.type)
            return column.cast(pa.float64()) if narrow else column
    try:
        values = _python_values(series)
    except (OverflowError, ValueError):
        raise InputError(f"{place(0)} or after: a date lies beyond the year 9999; correct it.") from None
    return how.read(values, place)


def _categories(series: Any, place: Place, read: ValueReader) -> Any:
    """A column of categories; those that no row has are not looked at."""
    codes = series.cat.codes.to_numpy()
    categories = series.cat.categories
    used = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(categories)))
    values = _python_values(categories.take(used))
    column = read(values, lambda at: place(int(np.argmax(codes == used[at])) if len(used) else 0))
    position = np.full(len(categories) + 1, -1, dtype=np.int64)  # the last is that of the code -1, for missing
    position[used] = np.arange(len(used))
    return column.take(pa.array(position[codes], mask=codes < 0))


# -- values --------------------------------------------------------------------------------------------------------


def _python_values(values: Any) -> list[Any]:
    """The values of a pandas column or index: times of numpy as in a column of times, intervals as their texts."""
    import pandas

    objects: list[Any] = values.astype(object).tolist()
    if {np.datetime64, np.timedelta64, pandas.Interval}.isdisjoint(map(type, objects)):
        return objects
    return [
        _interval_text(value)
        if isinstance(value, pandas.Interval)
        else _python_time(value)
        if isinstance(value, (np.datetime64, np.timedelta64))
        else value
        for value in objects
    ]


def _interval_text(interval: Any) -> str:
    """An interval such as (0, 30]; ends that are whole are written so, because one gap makes floats of all ends."""
    ends = [
        f"{end:.0f}" if isinstance(end, (float, np.floating)) and float(end).is_integer() else str(end)
        for end in (interval.left, interval.right)
    ]
    return f"{'[' if interval.closed_left else '('}{', '.join(ends)}{']' if interval.closed_right else ')'}"


def _python_time(value: Any) -> Any:
    import pandas

    if np.isnat(value):
        return None
    try:
        return pandas.Timestamp(value) if isinstance(value, np.datetime64) else value
    except ValueError:  # beyond what pandas can hold; refused later, with its row
        return value
