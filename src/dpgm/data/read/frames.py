"""Frames of pandas, polars and pyarrow as records: whole tables, or one row per person and item.

Kinds of columns come from the domain or from the schema of the frame (its dtypes), never from the values: a column of
Python objects is one of texts, whatever it holds. `draft_frame` alone looks at values, as `dpgm inspect` does, and
keeps none.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from dpgm.data.conversion import arrow_table, as_records, checked_frame, package_of
from dpgm.data.domain import Domain
from dpgm.data.domain_file import DomainLike, as_domain
from dpgm.data.formats import Source
from dpgm.data.inspect.drafting import draft_table
from dpgm.data.items import flat_column, is_list
from dpgm.data.read.columns import Chunk, Columns, is_binary, of_persons, read_columns
from dpgm.data.read.gathering import Persons
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.readers import domain_of_schema, with_private_items, without_list
from dpgm.data.records import Records
from dpgm.data.values import in_column, object_lists, object_texts
from dpgm.errors import InputError, UsageError
from dpgm.validation import near

_FRAMES = ("pandas", "polars", "pyarrow")
_FRAME = "the frame"  # in place of a file's name in messages
_CHUNK = 65_536
_FROM_VALUES = re.compile(r"u?int64|float64|bool|object|str|datetime64\[\w+\]")  # dtypes that pandas infers
_NO_DOMAIN = (
    "a frame needs a public domain: pass `domain=` (`dpgm.Domain.draft` drafts one), or `discover=True` to take"
    " names and types of the columns from the frame and find all values privately."
)


@dataclass(frozen=True)
class FrameRecords:
    """Records of data in memory, what a certificate states of them, and the dtypes that samples come back in."""

    records: Records
    source: Source | None
    dtypes: tuple[tuple[str, str], ...] = ()


def is_frame(data: object) -> bool:
    """Whether this is a table of pandas, polars or pyarrow."""
    return package_of(data) in _FRAMES and (hasattr(data, "columns") or hasattr(data, "column_names"))


def read_frame(
    data: object,
    domain: DomainLike | None = None,
    *,
    person: str | None = None,
    item: str | None = None,
    rows_per_person: int | None = None,
    discover: bool = False,
) -> FrameRecords:
    """Records of anything in memory.

    Args:
        data: records, a matrix, or a frame.
        domain: the public domain; records and matrices may do without.
        person: the column of persons of a frame: with `item` their rows are grouped, without it they must differ.
        item: the column of items: one per row with `person`, a list of them in each row without.
        rows_per_person: rows that a person keeps at most, by a fresh secret choice, instead of one.
        discover: find privately what no domain states; of a frame, names and types of columns are taken as public.
    """
    given, data = as_domain(domain), checked_frame(data)
    if not is_frame(data):
        if person is not None or item is not None or rows_per_person is not None or discover:
            raise UsageError(
                "`person`, `item`, `rows_per_person` and `discover` are for frames of pandas, polars or pyarrow; leave"
                " them out."
            )
        return FrameRecords(as_records(data, given), None)
    if given is None and not discover:
        raise UsageError(_NO_DOMAIN)
    if not len(data):  # type: ignore[arg-type]
        raise InputError("the frame has no rows; give at least one.")
    dtypes = _pandas_dtypes(data)
    named = ReadOptions(person=person, item=item, rows_per_person=rows_per_person)
    if item is not None and person is None and item not in _names(data):
        listed = ", ".join(map(repr, _names(data)[:20]))
        raise UsageError(f"the frame has no column {item!r}{near(item, _names(data))}; it has {listed}.")
    if item is not None and person is not None:
        options = ReadOptions(domain=given, person=person, item=item, discover=discover)
        return FrameRecords(*_long(data, options), dtypes)
    if given is None:
        schema = frame_schema(data)
        if item is not None:  # stated to hold lists: the dtype of a column of objects does not say
            schema = schema.set(schema.get_field_index(item), schema.field(item).with_type(pa.list_(pa.string())))
        given = domain_of_schema(schema, leave_out=() if person is None else (person,))
        if any(not dtype for name, dtype in dtypes if name != person):
            given = replace(given, origin="judged")  # pandas has judged kinds by the values; no program stated them
    elif discover and not given.is_open:
        raise UsageError("the domain leaves nothing to discover; leave out `discover`.")
    field = given.item_set
    if field is not None and field.name not in _names(data):
        return FrameRecords(*_columns_of_items(data, replace(named, domain=given, shape="wide")), dtypes)
    records = as_records(data, given)
    if person is None:
        return FrameRecords(records, None, dtypes)
    columns, persons = _named(data, [person]), Persons()
    columns.required(person, "person")
    for chunk in columns.chunks:
        persons.add(flat_column(chunk.table, person), in_column(chunk.place, person))
    records = of_persons(records, persons, rows_per_person, _FRAME)
    return FrameRecords(records, Source("person", False, "wide", None, rows_per_person or 1), dtypes)


def draft_frame(
    data: object, *, drop: Sequence[str] = (), kinds: Mapping[str, str] | None = None, person: str | None = None
) -> Domain:
    """A draft for the curator of a frame, by the rules of `dpgm inspect`."""
    data = checked_frame(data)
    if not is_frame(data) or not _names(data):
        raise UsageError(
            "a domain is drafted from a frame of pandas, polars or pyarrow that has columns; `dpgm.inspect_file` reads"
            " files."
        )
    columns = _named(data, _names(data), infer=True)
    options = ReadOptions(person=person)
    if person is not None:
        columns.required(person, "person")
    items = [name for name in columns.names if name != person]
    if len(items) > 1 and not drop and not kinds:
        table = next(iter(columns.chunks)).table
        if table.num_rows and all(is_binary(flat_column(table, name)) for name in items):
            return Domain.of_items(items)
    return replace(draft_table(columns, options, drop=drop, kinds=kinds).domain, origin="judged")


def frame_schema(data: Any) -> pa.Schema:
    """Names and types of a frame's columns, as its dtypes say; Python objects are texts."""
    if package_of(data) != "pandas":
        return arrow_table(data).schema
    head = data.iloc[:0]
    kinds = []
    for at, name in enumerate(head.columns):
        series = head.iloc[:, at]
        try:
            kind = pa.string() if _is_untyped(series.dtype) else pa.array(series, from_pandas=True).type
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            kind = pa.null()  # cannot be modelled
        kinds.append((str(name), kind))
    return pa.schema(kinds)


def _is_untyped(dtype: Any) -> bool:
    """Whether a dtype of pandas leaves open what the values are: objects, and categories of them."""
    return str(dtype) in ("object", "category")


def _names(data: Any) -> list[str]:
    return [str(name) for name in (data.column_names if hasattr(data, "column_names") else data.columns)]


def _pandas_dtypes(data: Any) -> tuple[tuple[str, str], ...]:
    """The dtypes that samples come back in; empty where pandas has taken the dtype from the values.

    One gap makes floats of whole numbers and one odd value objects of anything: samples in that dtype would tell of it.
    """
    if package_of(data) != "pandas":
        return ()
    return tuple(
        (str(name), "" if _FROM_VALUES.fullmatch(str(dtype)) else str(dtype))
        for name, dtype in zip(data.columns, data.dtypes, strict=True)
    )


def _named(data: Any, names: Sequence[str], *, infer: bool = False) -> Columns:
    """Columns of a frame; with `infer` Python objects become what they look like (for drafts alone)."""
    known = _names(data)
    for at, name in enumerate(known):
        if name in known[:at]:
            raise InputError(f"two columns of the frame are named {name!r}; names must differ.")
    chosen = [name for name in names if name in known]
    if package_of(data) == "pandas":
        table = pa.table({name: _plain(data.iloc[:, known.index(name)], name, infer) for name in chosen})
    else:
        table = arrow_table(data).select(chosen)
        table = pa.table({name: _decoded(table.column(name)) for name in chosen})

    def chunks() -> Iterator[Chunk]:
        for start in range(0, max(table.num_rows, 1), _CHUNK):
            yield Chunk(table.slice(start, _CHUNK), lambda row, start=start: f"row {start + row + 1}")  # type: ignore[misc]

    kinds = {entry.name: entry.type for entry in table.schema}
    return Columns(
        _FRAME,
        tuple(known),
        tuple(name for name, kind in kinds.items() if is_list(kind)),
        list(chunks()),
        truths=tuple(name for name, kind in kinds.items() if pa.types.is_boolean(kind)),
        schema=table.schema,
    )


def _plain(series: Any, name: str, infer: bool) -> Any:
    """A pandas column as Arrow, objects value by value."""

    def place(row: int) -> str:
        return f"row {row + 1}, column {name!r}"

    if str(series.dtype) == "category":
        series = series.astype(object)
    try:
        if series.dtype == object and not infer:
            return pa.array(series, type=pa.string(), from_pandas=True)
        return _decoded(pa.chunked_array([pa.array(series, from_pandas=True)]))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, UnicodeError):
        values = series.astype(object).tolist()
        if infer and any(isinstance(value, (list, tuple, set, frozenset)) for value in values):
            return object_lists(values, place)
        return object_texts(values, place)


def _decoded(column: Any) -> Any:
    """A column with its categories written out."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _long(data: Any, options: ReadOptions) -> tuple[Records, Source]:
    """One row per person and item, with the items that a domain lists or that are found privately."""
    columns = _named(data, [name for name in (options.person, options.item) if name is not None])
    occurring = without_list(options)
    read = read_columns(columns, occurring)
    return read if occurring is options else with_private_items(*read, options)


def long_records(data: object, person: str, item: str) -> Records:
    """Records of a long frame with the items that occur in it: for comparisons, never for a fit."""
    data = checked_frame(data)
    if not is_frame(data):
        raise UsageError("`person` and `item` are for frames of pandas, polars or pyarrow, and for files.")
    return _long(data, ReadOptions(person=person, item=item, assume_public_items=True))[0]


def _columns_of_items(data: Any, options: ReadOptions) -> tuple[Records, Source]:
    """A frame with one 0/1 column per item."""
    domain = options.public_domain
    assert domain is not None
    if domain.is_open:
        raise InputError(f"the frame has no column {domain.fields[0].name!r}, which the domain names.")
    return read_columns(replace(_named(data, _names(data)), lists=()), options)
