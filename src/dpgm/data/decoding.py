"""Decoding: records as Arrow tables of values, and those as frames of pandas or polars with the original dtypes.

A number is drawn within its bin: uniformly, or from the fine histogram of a discovered field.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpgm.data.domain import Domain
from dpgm.data.events import Events
from dpgm.data.kinds.base import Cells, label_array, list_array
from dpgm.data.layouts import Layout, Shape, TablePart, free_name
from dpgm.data.nested import members_together
from dpgm.data.records import Records
from dpgm.errors import UsageError

if TYPE_CHECKING:
    import pandas
    import polars


def shaped_table(
    records: Records,
    shape: Shape,
    layout: Layout | None,
    *,
    first: int = 0,
    rng: np.random.Generator,
    part: TablePart = "all",
) -> pa.Table:
    """A table of one column per field; for a single item set, lists (basket), one row per item (long) or 0/1 columns.

    Column names come from the layout. In the long shape persons are numbered from `first`, and a person without items
    has one row with a null item. A sequence has lists, or in the long shape one row per event in order.
    """
    field = records.domain.item_set
    person, item = (None, None) if layout is None else (layout.person, layout.item)
    if records.domain.sequence is not None:
        table = decode(records, rng=rng)
        return table if shape != "long" and part == "all" else _event_table(records, table, layout, first, part)
    if field is not None and shape == "wide":
        dense = records.to_dense(np.uint8)
        return pa.table([pa.array(column) for column in dense.T], names=[str(item) for item in field.items])
    if field is not None and shape == "long":
        person, item = person or "person", item or "item"
        codes = np.insert(records.indices.astype(np.int32), records.indptr[:-1][records.lengths == 0], -1)
        persons = np.repeat(np.arange(first, first + len(records)), np.maximum(records.lengths, 1))
        items = label_array(field.items).take(pa.array(codes, mask=codes < 0))
        return pa.table({f"{person}_id" if person == item else person: persons, item: items})
    table = decode(records, rng=rng)
    return table if field is None else table.rename_columns([item or field.name])


def _event_table(records: Records, table: pa.Table, layout: Layout | None, first: int, part: TablePart) -> pa.Table:
    """One row per event beside the other columns, which it repeats; or of these two, one."""
    domain, person = records.domain, "person" if layout is None else layout.person or "person"
    person = free_name(person, [name for name in table.column_names if name != person])
    of_events = (domain.item_column, domain.time_column)
    others = [name for name in table.column_names if name not in (*of_events, person)]
    if part == "persons":
        return table.select(others).add_column(0, person, pa.array(np.arange(first, first + len(records))))
    lengths = np.zeros(0, dtype=np.int64) if records.events is None else records.events.lengths
    rows = np.repeat(np.arange(len(records)), np.maximum(lengths, 1))
    empty = np.repeat(lengths == 0, np.maximum(lengths, 1))
    events = pa.array(np.cumsum(~empty) - 1, mask=empty)
    columns = {person: pa.array(rows + first)}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name in of_events:
            columns[name] = pc.list_flatten(column).take(events)
        elif name in others and part == "all":
            columns[name] = column.take(pa.array(rows))
    return pa.table(columns)


def event_lists_together(table: pa.Table, domain: Domain) -> pa.Table:
    """The table with the lists of items and times as one of structures, where the layout names both as its members."""
    layout = domain.layout
    if layout is None or layout.item is None or layout.time is None or domain.sequence is None:
        return table
    return members_together(table, (layout.item, layout.time))


def decode(records: Records, *, rng: np.random.Generator) -> pa.Table:
    """A table of one column per field and identifier: lists of labels, categories, drawn numbers, fresh identifiers.

    The lists of a sequence's times follow those of its items.
    """
    if records.decoded is not None:
        return records.decoded
    domain, events = records.domain, records.events
    if domain.sequence is not None and events is None:
        if len(records):
            raise UsageError("the records have no events; make them with `Records.of_events`.")
        events = Events.from_lists([], 1, [] if domain.sequence.time else None)
    others = {field.name: field for field in domain.fields}
    rows = np.repeat(np.arange(len(records)), records.lengths)
    drawn = {}
    for field, block in zip(domain.fields, domain.blocks, strict=True):
        inside: Any = slice(None)
        if len(domain.fields) > 1:
            inside = (records.indices >= block.start) & (records.indices < block.stop)
        codes = records.indices[inside].astype(np.int64) - block.start
        drawn[field.name] = field.drawn(Cells(codes, rows[inside], len(records), events), rng)
    columns = {field.name: field.finished(drawn, others, rng) for field in domain.fields}
    for _, unread in domain.unread:
        if unread.in_samples:
            columns[unread.name] = unread.fresh(len(records), rng)
    named = {column.name: columns[column.name] for column in domain.columns if column.name in columns}
    if domain.sequence is None or events is None:
        return pa.table(named)
    ordered = {}
    for name, column in named.items():
        is_sequence = name == domain.sequence.name
        ordered[str(domain.item_column) if is_sequence else name] = column
        if is_sequence and domain.time_column is not None:
            ordered[domain.time_column] = list_array(events.indptr, domain.sequence.times_drawn(events))
    return pa.table(ordered)


def pandas_frame(table: pa.Table, dtypes: Mapping[str, Any]) -> "pandas.DataFrame":
    """A pandas frame whose columns are stored as those of the original frame, where that can hold the values.

    `dtypes` is empty if the data did not come from pandas; an empty dtype means pandas had inferred it from the values.
    The kind of a column is that of the domain: a dtype of another kind (floats of whole numbers) may come from one row.
    """
    try:
        import pandas
    except ImportError:
        raise UsageError("pandas is not installed; run `pip install pandas`.") from None
    nullable = {pa.int64(): pandas.Int64Dtype(), pa.int32(): pandas.Int32Dtype(), pa.bool_(): pandas.BooleanDtype()}
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        series = column.to_pandas(types_mapper=nullable.get if column.null_count else None)
        dtype = dtypes.get(name)
        dtype = dtype if isinstance(dtype, str) else None  # those of polars are objects
        if dtype and not _same_kind(dtype, column.type):
            dtype = ""
        columns[name] = series if dtype is None else _with_dtype(series, dtype or _usual_dtype(column, series))
    frame: pandas.DataFrame = pandas.DataFrame(columns, index=pandas.RangeIndex(table.num_rows))
    return frame


def _same_kind(dtype: str, kind: pa.DataType) -> bool:
    """Whether a dtype of pandas is for values of this Arrow type: truths, whole numbers, numbers, texts or moments.

    Categories may be of any kind.
    """
    import pandas

    types, arrow = pandas.api.types, pa.types
    try:
        found = types.pandas_dtype(dtype)
    except (NotImplementedError, TypeError):  # Arrow types with parameters have no name that pandas reads
        return False
    pairs = (
        (types.is_bool_dtype, arrow.is_boolean),
        (types.is_integer_dtype, arrow.is_integer),
        (types.is_float_dtype, arrow.is_floating),
        (types.is_string_dtype, arrow.is_string),
    )
    return found.name == "category" or all(is_such(found) == holds_such(kind) for is_such, holds_such in pairs)


def _usual_dtype(column: Any, series: Any) -> str:
    """The dtype that pandas usually infers for such values, whatever the original one: 64-bit integers, timestamps."""
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        return "datetime64[us]"
    return {"int32": "int64", "Int32": "Int64"}.get(str(series.dtype), str(series.dtype))


def _with_dtype(series: Any, dtype: str) -> Any:
    """The series in another dtype, or unchanged if that cannot hold its values."""
    if str(series.dtype) == dtype:
        return series
    import pandas

    try:
        if dtype.startswith("datetime64") and "," in dtype:  # with a time zone; values are local times
            zone = pandas.api.types.pandas_dtype(dtype).tz  # type: ignore[union-attr]
            summer = np.ones(len(series), dtype=np.bool_)  # an hour that occurs twice is taken as summer time
            local = pandas.to_datetime(series).dt.tz_localize(zone, ambiguous=summer, nonexistent="shift_forward")
            return local.astype(dtype)
        if pandas.api.types.is_unsigned_integer_dtype(dtype):  # a discovered range may start below 0
            series = series.clip(lower=0)
        converted = series.astype(dtype)
        if pandas.api.types.is_integer_dtype(converted) and not bool((converted == series).fillna(True).all()):
            return series  # the dtype is too narrow, or values have decimal places
        return converted
    except (TypeError, ValueError):  # such as a missing value in an int64 column
        return series


def polars_frame(table: pa.Table, dtypes: Mapping[str, Any], domain: Domain) -> "polars.DataFrame":
    """A polars frame whose columns are stored as those of the original frame, where that can hold the values.

    `dtypes` is empty if the data did not come from polars; an empty dtype may have been inferred from the values. The
    kind of a column is that of the domain.
    """
    try:
        import polars
    except ImportError:
        raise UsageError("polars is not installed; run `pip install polars`.") from None
    usual = {polars.Int32: polars.Int64(), polars.Datetime: polars.Datetime("us")}
    frame: polars.DataFrame = polars.from_arrow(table)
    columns = []
    for series in frame:
        dtype = dtypes.get(series.name, series.dtype)
        if isinstance(dtype, polars.Enum):  # the categories of the original frame are not public
            dtype = polars.Enum(_labels(domain, series.name))
        elif isinstance(dtype, type):  # decimals, whose places are those of the domain
            places = _places(domain, series.name)
            dtype = series.dtype if places is None else dtype(38, places)
        elif not isinstance(dtype, str) and _other_kind(dtype, series.dtype):
            dtype = ""
        if isinstance(dtype, str):  # of pandas, or inferred
            dtype = series.dtype if dtype else usual.get(series.dtype.base_type(), series.dtype)
        columns.append(_with_polars_dtype(series, dtype))
    return polars.DataFrame(columns)


def _labels(domain: Domain, name: str) -> list[str]:
    """The labels that a column of a table may have."""
    return [
        label
        for field in domain.fields
        if field.name == name and field.lists_values and not field.is_set
        for label in field.labels
    ]


def _places(domain: Domain, name: str) -> int | None:
    """The decimal places of a field of numbers; None if there is no such field, or it has any number of places."""
    return next((field.decimal_places for field in domain.fields if field.name == name), None)


def _other_kind(dtype: Any, own: Any) -> bool:
    """Whether two dtypes of polars are for different kinds: truths, whole numbers, numbers, texts or moments."""
    import polars

    if isinstance(dtype, (polars.Categorical, polars.Enum, polars.Decimal)):
        return False
    kinds = [
        (one == polars.Boolean, one.is_integer(), one.is_float(), one == polars.String, one.is_temporal())
        for one in (dtype, own)
    ]
    return kinds[0] != kinds[1]


def _with_polars_dtype(series: Any, dtype: Any) -> Any:
    """The series in another dtype, or unchanged if that cannot hold its values."""
    import polars

    try:
        if isinstance(dtype, polars.Datetime) and dtype.time_zone is not None:  # values are local times
            local = series.cast(polars.Datetime(dtype.time_unit))
            zoned = {"time_zone": dtype.time_zone, "ambiguous": "earliest", "non_existent": "null"}
            later = local.dt.offset_by("1h").dt.replace_time_zone(**zoned)  # for an hour that the clocks skip
            return local.dt.replace_time_zone(**zoned).fill_null(later)
        if isinstance(dtype, (polars.Categorical, polars.Enum)):
            return series.cast(polars.String).cast(dtype)
        if dtype.is_unsigned_integer():  # a discovered range may start below 0
            series = series.clip(lower_bound=0)
        converted = series.cast(dtype)
        loses = dtype.is_integer() and not (converted == series).fill_null(True).all()  # decimal places
        return series if loses else converted
    except (polars.exceptions.PolarsError, TypeError, ValueError):
        return series
