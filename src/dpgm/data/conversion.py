"""Records to and from the objects of numpy, scipy, pandas, polars and pyarrow."""

import datetime
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpgm.data.domain import Date, DateTime, Domain, Field, Image, ItemSet, Numeric, ShapedNumber
from dpgm.data.domain_file import DomainLike, as_domain
from dpgm.data.records import Records, concatenate, row_pointers, sort_rows
from dpgm.data.table import TableEncoder
from dpgm.data.values import Place, object_lists, object_texts, seconds_of
from dpgm.data.write.rendering import set_columns, shaped_table
from dpgm.errors import InputError, UsageError
from dpgm.validation import near

if TYPE_CHECKING:
    import pandas
    import polars
    import scipy.sparse

_CHUNK = 65_536


def as_records(data: object, domain: DomainLike | None = None) -> Records:
    """Records from any object in memory: records, or a matrix or table of numpy, scipy, pandas, polars or pyarrow.

    Matrices bring their own shape as domain; tables need one: a `Domain`, a mapping or the path of a domain file.

    >>> as_records(np.array([[0, 1], [1, 1]])).lengths.tolist()
    [1, 2]
    """
    if isinstance(data, Records):
        return data
    domain = as_domain(domain)
    if isinstance(data, np.ndarray):
        _refuse_fractions(data)
        return from_numpy(data, domain)
    data = checked_frame(data)
    package = package_of(data)
    if package == "scipy":
        _refuse_fractions(getattr(data, "data", None))
        return from_scipy(data, domain)
    if package not in ("pandas", "polars", "pyarrow"):
        raise UsageError(
            "records must come from dpgm, numpy, scipy, pandas, polars or pyarrow; put lists or dicts into a frame, and"
            f" read a file with `dpgm.read_records`; got {type(data).__name__}."
        )
    if domain is None:
        raise UsageError(
            "a table needs a public domain; pass `domain=` (`dpgm.load_domain` reads one from a file)."
        )
    return from_arrow(pandas_table(data, domain) if package == "pandas" else arrow_table(data), domain)


def package_of(data: object) -> str:
    """The package that the type of an object comes from, such as `pandas`."""
    return type(data).__module__.partition(".")[0]


def checked_frame(data: object) -> Any:
    """A frame ready to be read: lazy ones collected, batches of pyarrow as tables, a single column refused."""
    package, kind = package_of(data), type(data).__name__
    if package == "polars" and kind == "LazyFrame":
        return data.collect()  # type: ignore[attr-defined]
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if (package in ("pandas", "polars") and kind == "Series") or isinstance(data, (pa.Array, pa.ChunkedArray)):
        raise UsageError("one column is not a frame; give a frame of one column, such as `df[['age']]`.")
    return data


def arrow_table(frame: Any) -> pa.Table:
    """A frame of polars or pyarrow as an Arrow table."""
    if package_of(frame) != "polars":
        return frame
    try:
        return frame.to_arrow()
    except Exception:  # polars raises kinds of its own for columns of Python objects
        raise InputError("a column of the frame holds Python objects; convert it to one type first.") from None


def _has_columns(names: Sequence[object], domain: Domain) -> None:
    """Refuse a frame that lacks a column which the domain names."""
    known = [str(name) for name in names]
    for field in domain.fields:
        if field.name not in known:
            listed = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
            raise InputError(
                f"the frame has no column {field.name!r}, which the domain names{near(field.name, known)}; its columns"
                f" are {listed or 'none'}."
            )


def _refuse_fractions(values: object) -> None:
    """A matrix of an item set holds 0 and 1 (or counts as whole numbers): 0.3 is neither there nor absent."""
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        return
    if not bool((~np.isfinite(values) | (values == 0) | (values == 1)).all()):
        raise InputError(
            "the matrix holds numbers other than 0 and 1; say what is present, such as `matrix > 0`, or give a frame"
            " with a domain that describes its columns."
        )


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
    return shaped_table(records, shape, set_columns(domain, layout), rng=rng)


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


def from_scipy(matrix: Any, domain: Domain | None = None) -> Records:
    """Records from a scipy sparse matrix; stored non-zeros are present."""
    import scipy.sparse

    sparse: bool = scipy.sparse.issparse(matrix)
    if not sparse or matrix.ndim != 2:
        raise InputError("a sparse matrix of two dimensions is needed.")
    csr: Any = matrix.tocsr()
    domain = _columns_domain(csr.shape[1], domain)
    if not np.isfinite(csr.data).all():
        raise InputError("the sparse matrix holds NaN or infinite values; 0 and non-zero are expected.")
    indptr, indices = csr.indptr.astype(np.int64), csr.indices
    if not csr.data.all():
        keep = csr.data != 0
        indptr, indices = row_pointers(keep)[indptr], indices[keep]
    if len(indices) and (indices.min() < 0 or indices.max() >= domain.width):
        raise InputError("the sparse matrix is damaged: a column lies outside its shape.")
    return _one_value_per_column(Records(domain, *sort_rows(indptr, indices, domain.width)))


def from_numpy(matrix: NDArray[Any], domain: Domain | None = None) -> Records:
    """Records from a dense (N, m) matrix of numbers; non-zero is present."""
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise InputError("a matrix of numbers with two dimensions is needed.")
    domain = _columns_domain(matrix.shape[1], domain)
    if matrix.dtype.kind == "f" and not np.isfinite(matrix).all():
        raise InputError("the matrix holds NaN or infinite values; 0 and non-zero are expected.")
    return _one_value_per_column(Records.from_dense(matrix, domain))


def _one_value_per_column(records: Records) -> Records:
    """Refuse rows with no value or two of a table column: bounds on what a record adds rest on there being one."""
    rows = np.repeat(np.arange(len(records)), records.lengths)
    for column in records.domain.table_columns:
        inside = (records.indices >= column.start) & (records.indices < column.stop)
        wrong = np.bincount(rows[inside], minlength=len(records)) != 1
        if wrong.any():
            raise InputError(
                f"row {int(np.argmax(wrong)) + 1}: positions {column.start} to {column.stop - 1} are one column of the"
                " domain, so exactly one of them must be 1; correct the matrix."
            )
    return records


def from_arrow(table: pa.Table, domain: Domain) -> Records:
    """Records from a pyarrow table with one column per field (item sets as lists)."""
    _has_columns(table.column_names, domain)
    encoder = TableEncoder(domain)
    parts = [
        encoder.encode(table.slice(start, _CHUNK), lambda row, start=start: f"row {start + row + 1}")  # type: ignore[misc]
        for start in range(0, max(table.num_rows, 1), _CHUNK)
    ]
    return concatenate(parts)


def pandas_table(frame: Any, domain: Domain) -> pa.Table:
    """The columns of a pandas frame that the domain names, as an Arrow table (item sets as lists).

    Columns of objects are read value by value, so that a value of another type changes no other row.
    """
    names = [str(name) for name in frame.columns]  # names may be numbers
    _has_columns(names, domain)
    columns = {}
    for field in domain.fields:
        if names.count(field.name) > 1:
            raise InputError(f"two columns of the frame are named {field.name!r}; names must differ.")
        columns[field.name] = _pandas_column(frame.iloc[:, names.index(field.name)], field)
    return pa.table(columns)


def _pandas_column(series: "pandas.Series[Any]", field: Field) -> pa.Array:
    def place(row: int) -> str:
        return f"row {row + 1}, column {field.name!r}"

    try:
        if isinstance(field, (ItemSet, Image)):
            return object_lists([_listed(value) for value in series.tolist()], place)
        if series.dtype == object:
            return pa.array(series, type=pa.string(), from_pandas=True)  # texts alone: the quick way
        return pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, UnicodeError):
        values = series.astype(object).tolist()
        if isinstance(field, (Numeric, ShapedNumber)):  # as a column of booleans alone is read
            values = [int(value) if isinstance(value, (bool, np.bool_)) else value for value in values]
        if isinstance(field, (Date, DateTime, ShapedNumber)) and field.pattern is not None:
            return _dates_beside_texts(values, field.pattern, place)
        return object_texts(values, place)


def _dates_beside_texts(values: Sequence[Any], pattern: str, place: Place) -> pa.Array:
    """Dates as they are, as in a column of dates alone, and texts by the pattern that they are written in."""
    texts, nothing = object_texts(values, place), pa.scalar(None, type=pa.string())
    is_date = np.array([isinstance(value, datetime.date) for value in values], dtype=np.bool_)
    dates, no_date = seconds_of(pc.if_else(is_date, texts, nothing), place, ("",))
    written, no_text = seconds_of(pc.if_else(is_date, nothing, texts), place, ("",), pattern)
    seconds = np.where(is_date, dates, written).astype(np.int64)
    return pa.array(seconds, mask=np.where(is_date, no_date, no_text)).cast(pa.timestamp("s"))


def _listed(value: Any) -> Any:
    """A list of items, also where it is written as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else None
    except (ValueError, RecursionError):
        return value  # refused as no list, by its row


def _columns_domain(columns: int, domain: Domain | None) -> Domain:
    if domain is None:
        if columns < 1:
            raise InputError("the matrix has no columns; a record needs at least one position.")
        return Domain.of_items(columns)
    if domain.is_open:
        raise InputError(
            "a matrix needs a domain that leaves nothing open; give a frame with one column per field."
        )
    if domain.width != columns:
        raise InputError(
            f"the matrix has {columns} columns but the domain has {domain.width} positions; correct the domain."
        )
    return domain
