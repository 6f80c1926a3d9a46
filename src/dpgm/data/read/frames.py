"""Records from data in memory: matrices, and frames of pandas, polars and pyarrow in any shape.

Kinds of columns come from the domain or from the schema of the frame (its dtypes), never from the values: a column of
Python objects is a column of texts, whatever it contains.
"""

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpgm.data.domain_file import DomainLike, as_domain
from dpgm.data.encoding import TableEncoder
from dpgm.data.items import flat_column, is_list
from dpgm.data.layouts import Layout, Shape, Source
from dpgm.data.person_columns import named_like_persons, person_advice
from dpgm.data.read.arrays import from_matrix
from dpgm.data.read.columns import Chunk, Columns, read_columns
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.pandas_columns import Convert, column_of_field, column_of_items, type_of
from dpgm.data.read.readers import domain_of_schema, read_with_discovery
from dpgm.data.read.storage import Persons, limit_rows_per_person
from dpgm.data.records import Dtypes, Records, concatenate
from dpgm.data.values import in_column, numbered
from dpgm.errors import InputError, PrivacyWarning, UsageError
from dpgm.validation import near

_FRAMES = ("pandas", "polars", "pyarrow")
_DATABASES = ("sqlite3", "sqlalchemy")
_FRAME = "the frame"  # instead of a file name in messages
_CHUNK = 65_536  # rows
# Dtypes that pandas and polars may have inferred from the values; one with a named time zone is taken as stated.
_INFERRED_DTYPE = {
    "pandas": re.compile(
        r"u?int64|UInt64|uint64\[pyarrow\]|float64|complex128|bool|object|str"
        r"|(datetime|timedelta)64\[\w+(, UTC([+-]\d\d:\d\d)?)?\]"
    ),
    "polars": re.compile(
        r"U?Int64|U?Int128|Float64|Boolean|String|Date|Time|Null|Object|(Duration|List|Array|Struct)\b.*"
        r"|Datetime\(time_unit='us', time_zone=(None|'UTC')\)"
    ),
}
_NO_DOMAIN = (
    "a frame needs a public domain: pass `domain=` (`dpgm.Domain.draft` drafts one), or `discover=True` to take"
    " names and types of the columns from the frame and find all values privately."
)


@dataclass(frozen=True)
class FrameRecords:
    """Records of data in memory, what a certificate states about them, and the dtypes of sampled frames."""

    records: Records
    source: Source | None
    dtypes: Dtypes = ()


def as_records(data: object, domain: DomainLike | None = None) -> Records:
    """Records from any object in memory: records, or a matrix or table of numpy, scipy, pandas, polars or pyarrow.

    The domain of a matrix follows from its shape; a table needs a `Domain`, a mapping or the path of a domain file.

    >>> as_records(np.array([[0, 1], [1, 1]])).lengths.tolist()
    [1, 2]
    """
    if isinstance(data, Records):
        return data
    domain, data = as_domain(domain), checked_frame(data)
    package = package_of(data)
    if isinstance(data, np.ndarray) or package == "scipy":
        return from_matrix(data, domain)
    if package not in _FRAMES:
        raise UsageError(
            "records must come from dpgm, numpy, scipy, pandas, polars or pyarrow; put lists or dicts into a frame, and"
            f" read a file with `dpgm.read_records`; got {type(data).__name__}."
        )
    if domain is None:
        raise UsageError(
            "a table needs a public domain; pass `domain=` (`dpgm.load_domain` reads one from a file)."
        )
    known = column_names(data)
    for field in domain.fields:
        if field.name not in known:
            listed = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
            raise InputError(
                f"the frame has no column {field.name!r}, which the domain names{near(field.name, known)}; its columns"
                f" are {listed or 'none'}."
            )
    encoder = TableEncoder(domain)
    fields = {field.name: field for field in domain.fields}
    table = _table(data, list(fields), lambda series, name: column_of_field(series, name, fields[name]))
    return concatenate([encoder.encode(chunk.table, chunk.place) for chunk in _chunks(table)])


def read_frame(
    data: object,
    domain: DomainLike | None = None,
    *,
    person: str | None = None,
    item: str | None = None,
    time: str | None = None,
    period: str | None = None,
    persons: object = None,
    rows_per_person: int | None = None,
    discover: bool = False,
) -> FrameRecords:
    """Records of data in memory, and how they were read.

    Args:
        data: records, a matrix, or a frame.
        domain: the public domain; optional for records and matrices.
        person: a frame's column of persons: with `item`, rows are grouped by it; without, its values must differ.
        item: the column of items: with `person`, one item per row; without, a list of items per row.
        time: the column of times, by which items are a sequence: one time per row, or a list of times where items are.
        period: the public period of the times, such as 2024-03-01..2024-03-31, where no domain has it.
        persons: a frame with the attributes of persons, one row each, if the other frame has their events only.
        rows_per_person: keep at most this many rows per person, chosen at random in secret, instead of one.
        discover: find privately what the domain does not state; names and types of a frame's columns are public.
    """
    domain, data = as_domain(domain), checked_frame(data)
    if not is_frame(data):
        stated = (person, item, time, persons, rows_per_person)
        if discover or any(one is not None for one in stated):
            raise UsageError(
                "`person`, `item`, `time`, `persons`, `rows_per_person` and `discover` are for frames of pandas, polars"
                " or pyarrow; leave them out."
            )
        return FrameRecords(as_records(data, domain), None)
    if domain is None and not discover:
        raise UsageError(_NO_DOMAIN)
    if not len(data):  # type: ignore[arg-type]
        raise InputError("the frame has no rows; give at least one.")
    names, dtypes = column_names(data), _dtypes(data)
    like_persons = named_like_persons((name for name in names if name != item), domain)
    if person is None and like_persons:
        warnings.warn(f"the frame: {person_advice(like_persons)}.", PrivacyWarning, stacklevel=3)
    ordered = ReadOptions(domain, person=person, item=item, time=time, period=period, discover=discover)
    if ordered.reads_events:
        return FrameRecords(*_events(data, ordered, persons), dtypes)
    if persons is not None:
        raise UsageError("`persons` has attributes of persons for a sequence; give a domain with one.")
    options = ReadOptions(person=person, item=item, rows_per_person=rows_per_person)
    if item is not None and person is None and item not in names:
        raise UsageError(
            f"the frame has no column {item!r}{near(item, names)}; it has {', '.join(map(repr, names[:20]))}."
        )
    if item is not None and person is not None:
        options = replace(options, domain=domain, discover=discover)
        return FrameRecords(*_long(data, options), dtypes)
    if domain is None:
        schema = frame_schema(data)
        if item is not None:  # holds lists, which the dtype of a column of Python objects does not say
            schema = schema.set(schema.get_field_index(item), schema.field(item).with_type(pa.list_(pa.string())))
        domain = domain_of_schema(schema, person=person)
        domain = replace(domain, origin="judged")  # whoever made the frame may have inferred dtypes from the values
    elif discover and not domain.is_open:
        raise UsageError("the domain leaves nothing to discover; leave out `discover`.")
    field = domain.item_set
    if field is not None and field.name not in names:  # one 0/1 column per item
        if domain.is_open:
            raise InputError(f"the frame has no column {field.name!r}, which the domain names.")
        columns = replace(frame_columns(data, names), lists=())
        return FrameRecords(*read_columns(columns, replace(options, domain=domain, shape="wide")), dtypes)
    records = as_records(data, domain)
    if person is None:
        return FrameRecords(records, None, dtypes)
    columns, persons = frame_columns(data, [person]), Persons()
    columns.required(person, "person")
    for chunk in columns.chunks:
        persons.add(flat_column(chunk.table, person), in_column(chunk.place, person))
    records = limit_rows_per_person(records, persons, rows_per_person, _FRAME)
    return FrameRecords(records, Source("person", False, "wide", None, rows_per_person or 1), dtypes)


def _long(data: Any, options: ReadOptions) -> tuple[Records, Source]:
    """Records of a frame whose rows hold one item, or a list of items, of a person."""
    person, item = str(options.person), str(options.item)
    columns = frame_columns(data, [person, item], item=item)
    columns.required(person, "person")
    columns.required(item, "item")
    options = replace(options, shape="long")
    records, source = read_with_discovery(options, lambda options: read_columns(columns, options))
    if is_list(frame_schema(data).field(item).type):  # samples hold lists as well
        source = replace(source, layout=Layout("basket", item=item))
    return records, source


def _events(data: Any, options: ReadOptions, persons: object) -> tuple[Records, Source]:
    """Records of a frame with one event per row, or with lists of events."""
    stated = options.public_domain
    fields = {} if stated is None else {field.name: field for field in stated.fields}
    lists = {options.item, options.time} if options.stated_shape == "long" else {options.time}

    def convert(series: Any, name: str) -> Any:
        if name in lists or name == options.item:
            return column_of_items(series, name)
        return column_of_field(series, name, fields.get(name))

    def columns_of(frame: Any, names: Sequence[str | None]) -> Columns:
        return frame_columns(frame, [name for name in names if name is not None], convert=convert)

    attributes = None
    if persons is not None:
        frame = checked_frame(persons)
        names = [name for name, field in fields.items() if field is not stated.sequence]  # type: ignore[union-attr]
        attributes = columns_of(frame, [options.person, *names])
        options = replace(options, persons=_FRAME)
    own = [stated.fields[0].name] if options.item is None and stated is not None else []
    columns = columns_of(data, [options.person, options.item, options.time, *own, *options.field_columns])
    options = replace(options, shape=options.stated_shape or "basket")
    records, source = read_columns(columns, options, attributes)
    if source.shape == "long" and options.item in columns.lists:  # samples hold lists as well
        shape: Shape = "basket" if len(records.domain.fields) == 1 else "wide"
        schema = frame_schema(data)
        if is_list(schema.field(options.item).type):
            source = replace(source, layout=Layout(shape, item=options.item, time=options.time))
    return records, source


def long_records(data: object, person: str, item: str) -> Records:
    """Records of a frame with items or lists of items of persons, with all that occur: for evaluation, not for a fit.

    Without a column `person`, as samples that hold lists are, every row is a person.
    """
    data = checked_frame(data)
    if not is_frame(data):
        raise UsageError("`person` and `item` are for frames of pandas, polars or pyarrow, and for files.")
    names = column_names(data)
    if person not in names and names == [item]:
        columns = frame_columns(data, names, item=item)
        return read_columns(columns, ReadOptions(shape="basket", item=item, assume_public_items=True))[0]
    return _long(data, ReadOptions(person=person, item=item, assume_public_items=True))[0]


# -- what a frame is -----------------------------------------------------------------------------------------------


def package_of(data: object) -> str:
    """The package that the type of an object comes from, such as `pandas`."""
    return type(data).__module__.partition(".")[0]


def is_frame(data: object) -> bool:
    """Whether this is a table of pandas, polars or pyarrow."""
    return package_of(data) in _FRAMES and (hasattr(data, "columns") or hasattr(data, "column_names"))


def checked_frame(data: object) -> Any:
    """A frame ready to be read: a lazy frame is collected, a record batch made a table, a single column refused."""
    package, kind = package_of(data), type(data).__name__
    if package == "polars" and kind == "LazyFrame":
        return data.collect()  # type: ignore[attr-defined]
    if package in _DATABASES:
        raise UsageError(
            "a connection to a database is no frame; read a table from it and give that, such as"
            " `pandas.read_sql('SELECT * FROM visits', connection)`."
        )
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if (package in ("pandas", "polars") and kind == "Series") or isinstance(data, (pa.Array, pa.ChunkedArray)):
        raise UsageError("one column is not a frame; give a frame of one column, such as `df[['age']]`.")
    return data


def column_names(data: Any) -> list[str]:
    """The names of a frame's columns, as texts."""
    return [str(name) for name in (data.column_names if hasattr(data, "column_names") else data.columns)]


def without_column(data: Any, name: str) -> Any:
    """A frame without a column; anything else unchanged."""
    if not is_frame(data) or name not in column_names(data):
        return data
    if package_of(data) == "pandas":
        return data.iloc[:, [at for at, one in enumerate(column_names(data)) if one != name]]
    return data.drop(name) if package_of(data) == "polars" else data.drop_columns([name])


def frame_schema(data: Any) -> pa.Schema:
    """Names and types of a frame's columns by its dtypes; Python objects and categories are texts."""
    if package_of(data) != "pandas":
        return arrow_table(data.head(0) if package_of(data) == "polars" else data).schema
    return pa.schema([(str(name), type_of(data.iloc[:, at])) for at, name in enumerate(data.columns)])


def _dtypes(data: Any) -> Dtypes:
    """The dtypes of sampled frames, those of polars as objects; empty for a dtype that packages infer from values.

    One missing value turns whole numbers into floats, and one odd value turns anything into objects: samples of that
    dtype would reveal it. Other dtypes are public: a program that lets values decide even their widths is told so in
    docs/frames.md.
    """
    package = package_of(data)
    if package == "pyarrow":
        return ()
    return tuple(
        (name, _stated_dtype(dtype, package)) for name, dtype in zip(column_names(data), data.dtypes, strict=True)
    )


def _stated_dtype(dtype: Any, package: str) -> Any:
    if _INFERRED_DTYPE[package].fullmatch(str(dtype)):
        return ""
    if package == "pandas":
        return str(dtype)
    # Of decimals as polars infers them, the places after the point are those of the longest value: the type alone.
    return type(dtype) if str(dtype).startswith("Decimal(precision=38,") else dtype


# -- its columns as Arrow ------------------------------------------------------------------------------------------


def arrow_table(frame: Any, names: Sequence[str] | None = None) -> pa.Table:
    """A frame of polars or pyarrow, or the named columns of it, as an Arrow table."""
    if package_of(frame) != "polars":
        return frame if names is None else frame.select(names)
    chosen = frame.columns if names is None else names
    try:  # column by column, because polars takes some names for patterns of names
        return pa.table({name: frame.get_column(name).to_arrow() for name in chosen})
    except Exception:  # polars raises errors of its own for types that Arrow does not have
        raise InputError("a column of the frame has a type that Arrow does not have; convert it first.") from None


def frame_columns(
    data: Any, names: Sequence[str], *, item: str | None = None, convert: Convert = column_of_field
) -> Columns:
    """Some columns of a frame, categories decoded; `item` may hold lists, and pandas columns are read by `convert`."""
    known = column_names(data)
    _refuse_repeated(known, known)
    table = _table(
        data,
        [name for name in dict.fromkeys(names) if name in known],
        lambda series, name: (column_of_items if name == item else convert)(series, name),
    )
    table = pa.table({name: _decoded(table.column(name)) for name in table.column_names})
    kinds = {entry.name: entry.type for entry in table.schema}
    return Columns(
        _FRAME,
        tuple(known),
        tuple(name for name, kind in kinds.items() if is_list(kind)),
        _chunks(table),
        booleans=tuple(name for name, kind in kinds.items() if pa.types.is_boolean(kind)),
        schema=table.schema,
    )


def _refuse_repeated(names: Sequence[str], known: list[str]) -> None:
    counts = Counter(known)
    for name in names:
        if counts[name] > 1:
            raise InputError(f"two columns of the frame are named {name!r}; names must differ.")


def _chunks(table: pa.Table) -> list[Chunk]:
    rows, starts = range(1, table.num_rows + 2), range(0, max(table.num_rows, 1), _CHUNK)
    return [Chunk(table.slice(start, _CHUNK), numbered("row", rows[start:])) for start in starts]


def _table(data: Any, names: list[str], convert: Convert) -> pa.Table:
    """Some columns of a frame as an Arrow table; those of pandas are read by `convert`."""
    known = column_names(data)
    _refuse_repeated(names, known)
    if package_of(data) != "pandas":
        return arrow_table(data, names)
    return pa.table({name: convert(data.iloc[:, known.index(name)], name) for name in names})


def _decoded(column: Any) -> Any:
    """A column with its categories decoded."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
