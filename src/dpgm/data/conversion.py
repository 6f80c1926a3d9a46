"""Arrow tables as frames of pandas, in the dtypes that their source had."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpgm.errors import UsageError

if TYPE_CHECKING:
    import pandas


def pandas_frame(table: pa.Table, dtypes: Mapping[str, str]) -> "pandas.DataFrame":
    """A pandas frame; `dtypes` are those stated by column, the empty text where pandas took one from the values."""
    try:
        import pandas
    except ImportError:
        raise UsageError("pandas is not installed; run `pip install pandas`.") from None
    nullable = {pa.int64(): pandas.Int64Dtype(), pa.int32(): pandas.Int32Dtype(), pa.bool_(): pandas.BooleanDtype()}
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        series = column.to_pandas(types_mapper=nullable.get if column.null_count else None)
        dtype = dtypes.get(name)  # None: the data were no frame of pandas
        columns[name] = series if dtype is None else _with_dtype(series, dtype or _usual_dtype(column, series))
    frame: pandas.DataFrame = pandas.DataFrame(columns, index=pandas.RangeIndex(table.num_rows))
    return frame


def _usual_dtype(column: Any, series: Any) -> str:
    """The usual dtype of such values in pandas, independent of the original: whole numbers of 64 bits, moments."""
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        return "datetime64[us]"
    return {"int32": "int64", "Int32": "Int64"}.get(str(series.dtype), str(series.dtype))


def _with_dtype(series: Any, dtype: str) -> Any:
    """A column of a sample in the dtype that was stated, where that can hold it."""
    if str(series.dtype) == dtype:
        return series
    import pandas

    try:
        if dtype.startswith("datetime64") and "," in dtype:  # moments are kept as clocks show them
            zone = pandas.api.types.pandas_dtype(dtype).tz  # type: ignore[union-attr]
            summer = np.ones(len(series), dtype=np.bool_)  # of an hour that comes twice
            there = pandas.to_datetime(series).dt.tz_localize(zone, ambiguous=summer, nonexistent="shift_forward")
            return there.astype(dtype)
        if pandas.api.types.is_unsigned_integer_dtype(dtype):  # a range that was found may begin below 0
            series = series.clip(lower=0)
        made = series.astype(dtype)
        if pandas.api.types.is_integer_dtype(made) and not bool((made == series).fillna(True).all()):
            return series  # too narrow, or the domain has places after the point
        return made
    except (TypeError, ValueError):  # such as a missing value among int64
        return series
