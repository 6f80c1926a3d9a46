"""Records as objects of scipy, pandas, polars and pyarrow."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpgm.data.domain import Image
from dpgm.data.records import Records
from dpgm.data.writers import shaped_table
from dpgm.errors import UsageError

if TYPE_CHECKING:
    import pandas
    import polars
    import scipy.sparse

_CHUNK = 65_536


def to_scipy(records: Records) -> "scipy.sparse.csr_array":
    """A scipy CSR matrix of ones, positions as columns."""
    import scipy.sparse

    ones = np.ones(len(records.indices), dtype=np.uint8)
    shape = (len(records), records.width)
    return scipy.sparse.csr_array((ones, records.indices.astype(np.int32), records.indptr), shape=shape)


def to_arrow(records: Records, *, rng: np.random.Generator | None = None) -> pa.Table:
    """A pyarrow table, one column per field; item sets as they came in: lists, one row per item, or 0/1 columns."""
    domain, layout = records.domain, records.domain.layout
    as_lists = layout is None or (layout.shape == "wide" and isinstance(domain.item_set, Image))
    rng = np.random.default_rng() if rng is None else rng
    shape = "basket" if layout is None or as_lists else layout.shape
    return shaped_table(records, shape, layout, rng=rng)


def to_pandas(records: Records, *, rng: np.random.Generator | None = None) -> "pandas.DataFrame":
    """A pandas frame, one column per field; whole numbers with missing values become pandas' Int64."""
    try:
        import pandas
    except ImportError:
        raise UsageError("pandas is not installed; run `pip install pandas`.") from None
    nullable = {pa.int64(): pandas.Int64Dtype(), pa.int32(): pandas.Int32Dtype(), pa.bool_(): pandas.BooleanDtype()}
    stated = dict(records.dtypes)
    table = to_arrow(records, rng=rng)
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        mapper = nullable.get if column.null_count else None
        series = column.to_pandas(types_mapper=mapper)
        dtype = stated.get(name)  # None: the data were no frame of pandas
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


def to_polars(records: Records, *, rng: np.random.Generator | None = None) -> "polars.DataFrame":
    """A polars frame, one column per field."""
    try:
        import polars
    except ImportError:
        raise UsageError("polars is not installed; run `pip install polars`.") from None
    return polars.from_arrow(to_arrow(records, rng=rng))
