"""Records to and from the objects of numpy, scipy, pandas, polars and pyarrow."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain, Field, Image, ItemSet
from dpgm.data.records import Records, concatenate, sort_rows
from dpgm.data.table import TableEncoder, decode
from dpgm.data.values import object_lists, object_texts
from dpgm.errors import InputError, UsageError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    import scipy.sparse

_CHUNK = 65_536


def as_records(data: object, domain: Domain | None = None) -> Records:
    """Records from any object in memory: records, or a matrix or table of numpy, scipy, pandas, polars or pyarrow.

    Matrices bring their own shape as domain; tables need one.

    >>> as_records(np.array([[0, 1], [1, 1]])).lengths.tolist()
    [1, 2]
    """
    if isinstance(data, Records):
        return data
    if isinstance(data, np.ndarray):
        return from_numpy(data, domain)
    package = type(data).__module__.partition(".")[0]
    if package == "scipy":
        return from_scipy(data, domain)
    if package not in ("pandas", "polars", "pyarrow"):
        raise UsageError("records must come from dpgm, numpy, scipy, pandas, polars or pyarrow.")
    if domain is None:
        raise UsageError(
            "a table needs a public domain; pass `domain=` (`dpgm.load_domain` reads one from a file)."
        )
    table: Any = data
    if package == "pandas":
        return from_pandas(table, domain)
    if package == "polars":
        return from_polars(table, domain)
    return from_arrow(table, domain)


def to_scipy(records: Records) -> "scipy.sparse.csr_array":
    """A scipy CSR matrix of ones, positions as columns."""
    import scipy.sparse

    ones = np.ones(len(records.indices), dtype=np.uint8)
    shape = (len(records), records.width)
    return scipy.sparse.csr_array((ones, records.indices.astype(np.int32), records.indptr), shape=shape)


def to_arrow(records: Records, *, rng: np.random.Generator | None = None) -> "pyarrow.Table":
    """A pyarrow table, one column a field."""
    return decode(records, rng=np.random.default_rng() if rng is None else rng)


def to_pandas(records: Records, *, rng: np.random.Generator | None = None) -> "pandas.DataFrame":
    """A pandas frame, one column a field; whole numbers with missing values become pandas' Int64."""
    try:
        import pandas
    except ImportError:
        raise UsageError("pandas is not installed; run `pip install 'dpgm[frames]'`.") from None
    import pyarrow as pa

    nullable = {pa.int64(): pandas.Int64Dtype(), pa.int32(): pandas.Int32Dtype()}
    table = to_arrow(records, rng=rng)
    with_gaps = {field.type for field, column in zip(table.schema, table.columns, strict=True) if column.null_count}
    mapper = {kind: dtype for kind, dtype in nullable.items() if kind in with_gaps}
    frame: pandas.DataFrame = table.to_pandas(types_mapper=mapper.get)
    return frame


def to_polars(records: Records, *, rng: np.random.Generator | None = None) -> "polars.DataFrame":
    """A polars frame, one column a field."""
    try:
        import polars
    except ImportError:
        raise UsageError("polars is not installed; run `pip install 'dpgm[frames]'`.") from None
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
        kept = np.zeros(len(keep) + 1, dtype=np.int64)
        np.cumsum(keep, out=kept[1:])
        indptr, indices = kept[indptr], indices[keep]
    if len(indices) and (indices.min() < 0 or indices.max() >= domain.width):
        raise InputError("the sparse matrix is damaged: a column lies outside its shape.")
    return Records(domain, *sort_rows(indptr, indices, domain.width))


def from_numpy(matrix: NDArray[Any], domain: Domain | None = None) -> Records:
    """Records from a dense (N, m) matrix of numbers; non-zero is present."""
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise InputError("a matrix of numbers with two dimensions is needed.")
    domain = _columns_domain(matrix.shape[1], domain)
    if matrix.dtype.kind == "f" and not np.isfinite(matrix).all():
        raise InputError("the matrix holds NaN or infinite values; 0 and non-zero are expected.")
    return Records.from_dense(matrix, domain)


def from_arrow(table: "pyarrow.Table", domain: Domain, *, missing: Sequence[str] = ()) -> Records:
    """Records from a pyarrow table with one column a field (item sets as lists)."""
    encoder = TableEncoder(domain, missing)
    parts = [
        encoder.encode(table.slice(start, _CHUNK), lambda row, start=start: f"row {start + row + 1}")  # type: ignore[misc]
        for start in range(0, max(table.num_rows, 1), _CHUNK)
    ]
    return concatenate(parts)


def from_pandas(frame: "pandas.DataFrame", domain: Domain, *, missing: Sequence[str] = ()) -> Records:
    """Records from a pandas frame with one column per field (item sets as lists).

    Columns of objects are read value by value, so that a value of another type changes no other row.
    """
    import pyarrow as pa

    columns = {}
    for field in domain.fields:
        held = list(frame.columns).count(field.name)
        if held > 1:
            raise InputError(f"two columns of the frame are named {field.name!r}; names must differ.")
        if held:
            columns[field.name] = _pandas_column(frame[field.name], field)
    if len(frame) and not columns:
        raise InputError(f"the frame has no column {domain.fields[0].name!r}, which the domain names.")
    return from_arrow(pa.table(columns), domain, missing=missing)


def _pandas_column(series: "pandas.Series[Any]", field: Field) -> "pyarrow.Array":
    import pyarrow as pa

    def place(row: int) -> str:
        return f"row {row + 1}, column {field.name!r}"

    try:
        if isinstance(field, (ItemSet, Image)):
            return object_lists([_listed(value) for value in series.tolist()], place)
        if series.dtype == object:
            return pa.array(series, type=pa.string(), from_pandas=True)  # texts alone: the quick way
        return pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return object_texts(series.astype(object).tolist(), place)


def _listed(value: Any) -> Any:
    """A list of items, also where it is written as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else None
    except (ValueError, RecursionError):
        return value  # refused as no list, by its row


def from_polars(frame: "polars.DataFrame", domain: Domain, *, missing: Sequence[str] = ()) -> Records:
    """Records from a polars frame with one column per field (item sets as lists)."""
    try:
        table = frame.to_arrow()
    except Exception:  # polars raises kinds of its own for columns of Python objects
        raise InputError("a column of the frame holds Python objects; convert it to one type first.") from None
    return from_arrow(table, domain, missing=missing)


def _columns_domain(columns: int, domain: Domain | None) -> Domain:
    if domain is None:
        if columns < 1:
            raise InputError("the matrix has no columns; a record needs at least one position.")
        return Domain.of_items(columns)
    if domain.width != columns:
        raise InputError(
            f"the matrix has {columns} columns but the domain has {domain.width} positions; correct the domain."
        )
    return domain
