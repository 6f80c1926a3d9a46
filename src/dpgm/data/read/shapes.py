"""Records from a stream, in one of three shapes: basket (lists of items), long (person and item) or wide.

Each shape says which columns it needs and encodes chunk by chunk (`sets`, `tables`); what becomes of persons is the
same for all. Rows of events have a module of their own (`event_rows`).
"""

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
import pyarrow as pa

from dpgm.data.items import flat_column, plain_name
from dpgm.data.layouts import Layout, Shape, Source
from dpgm.data.open_columns import SetColumn
from dpgm.data.open_records import OpenRecords, join_records, records_of
from dpgm.data.person_columns import named_like_persons
from dpgm.data.read.event_rows import read_event_rows
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.persons import Persons, limit_rows, rows_of_persons
from dpgm.data.read.sets import basket, long
from dpgm.data.read.tables import ShapedRows, wide
from dpgm.data.records import Records
from dpgm.data.stream import RowStream
from dpgm.data.values import TEXTS, in_column, required_floats
from dpgm.errors import UsageError

_SHAPES: dict[Shape, Callable[[RowStream, ReadOptions], ShapedRows]] = {
    "basket": basket,
    "long": long,
    "wide": wide,
}


def read_stream(
    stream: RowStream, options: ReadOptions, attributes: RowStream | None = None
) -> tuple[Records, Source]:
    """Records in the shape that is stated or implied, and how they were read; open if values are to be discovered.

    `attributes` are rows of persons, where a sequence has them apart from its events.
    """
    _refuse_contradictions(options)
    shape = shape_of(stream, options)
    stream.refuse_repeated()
    if attributes is not None and not (shape == "long" and options.reads_events):
        raise UsageError(
            f"{stream.name}: `persons` belongs to long files of a sequence; give `person`, `item` and a domain with a"
            " field of kind `sequence` as well."
        )
    layout: Layout | None
    most, taken = 1, options.public_domain is None and stream.domain_from_rows
    if shape == "long" and options.reads_events:
        records, layout = read_event_rows(stream, options, attributes)
    else:
        shaped = (wide if options.reads_events else _SHAPES[shape])(stream, options)
        layout = shaped.layout
        if shape == "long":
            records = _of_persons(stream, shaped, options)
        else:
            records, most = _of_rows(stream, shaped, options)
    unit: Literal["person", "row"] = "row" if options.person is None else "person"
    assumed = options.assume_public_items and (taken or (options.public_domain is None and records.domain.is_open))
    if assumed and isinstance(records, OpenRecords):
        records = records.with_all_labels(stream.name)
    like_persons = _like_persons(stream, shape, options) if unit == "row" else ()
    vouched = stream.vouched or (attributes is not None and attributes.vouched)
    return records, Source(unit, assumed, shape, layout, most, like_persons, vouched)


def _refuse_contradictions(options: ReadOptions) -> None:
    domain = options.public_domain
    if options.discover and domain is not None and not domain.is_open:
        raise UsageError(
            "the domain leaves nothing to discover; leave out `discover`, or say `discover: true` in it."
        )
    if options.discover and domain is None and options.assume_public_items:
        raise UsageError("items are discovered or assumed public, not both; leave out one of the two options.")


def _of_rows(stream: RowStream, shaped: ShapedRows, options: ReadOptions) -> tuple[Records, int]:
    """One record per row, and how many rows of a person there may be."""
    person, limit = options.person, options.memory_limit
    persons = None if person is None else Persons(limit)
    columns = dict(shaped.columns)
    if person is not None:
        columns[stream.required(person, "person")] = TEXTS

    def parts() -> Iterator[Records]:
        for chunk in stream.read(columns):
            yield records_of(shaped.encode(chunk), chunk.table.num_rows, shaped.domain)
            if persons is not None and person is not None:
                persons.add(flat_column(chunk.table, person), in_column(chunk.place, person))

    records = join_records(parts(), shaped.domain, limit)
    if persons is None:
        return records, 1
    kept = limit_rows(persons, len(records), options.rows_per_person, stream.name)
    if kept is not None:
        ends = np.cumsum([len(piece) for piece in records.pieces()])
        pieces = zip(records.pieces(), np.split(kept, ends[:-1]), strict=True)
        records = join_records((piece.take(mask) for piece, mask in pieces), records.domain, limit)
    return records, options.rows_per_person or 1


def _of_persons(stream: RowStream, shaped: ShapedRows, options: ReadOptions) -> Records:
    """One record of all rows of a person, in the order in which persons first appear."""
    person, count = stream.required(options.person, "person"), options.count
    persons, items = Persons(options.memory_limit), None
    for chunk in stream.read({person: TEXTS} | dict(shaped.columns)):
        (items,) = shaped.encode(chunk)
        assert isinstance(items, SetColumn)
        who, lengths = flat_column(chunk.table, person), np.diff(items.indptr)
        codes = items.codes
        if count is not None:
            counted = required_floats(flat_column(chunk.table, count), in_column(chunk.place, count)) > 0
            codes = np.where(np.repeat(counted, lengths), codes, -1)
        rows = np.repeat(np.arange(len(lengths)), np.maximum(lengths, 1))
        if len(rows) > len(codes):  # a row without items counts with the code -1
            codes = np.insert(codes, items.indptr[:-1][lengths == 0], -1)
        persons.add(
            who.take(pa.array(rows)) if len(rows) > len(who) else who, in_column(chunk.place, person), codes
        )
    assert items is not None
    domain, vocabulary = shaped.domain, items.vocabulary
    width = domain.width if vocabulary is None else max(len(vocabulary), 1)
    indptr, codes = rows_of_persons(persons, width, options.memory_limit)
    if vocabulary is None:
        return Records(domain, indptr, codes)
    return OpenRecords.of(domain, len(indptr) - 1, (SetColumn(indptr, codes, vocabulary),), options.memory_limit)


def _like_persons(stream: RowStream, shape: Shape, options: ReadOptions) -> tuple[str, ...]:
    """Columns that are named like identifiers of persons; columns of items are none."""
    are_items = stream.lines or stream.domain is not None or (shape == "wide" and options.table_domain is None)
    if are_items or not stream.certain:
        return ()
    names = (name for name in stream.names if name != options.item)
    return named_like_persons(names, options.public_domain)


def shape_of(stream: RowStream, options: ReadOptions) -> Shape:
    """The shape, from the options, the domain and the schema; rows are not examined."""
    if stream.lines:
        return "basket"
    if stream.domain is not None:
        return "wide"
    if options.shape is not None:
        return options.shape  # type: ignore[return-value]
    if stream.shape is not None:
        return stream.shape
    if options.item in stream.lists:
        return "basket"
    if options.stated_shape is not None:
        return options.stated_shape
    if len(stream.lists) == 1:
        return "basket"
    names = [name for name in stream.names if name != options.person]
    if options.item_set is not None:
        labels = {str(label) for label in options.item_set.items}
        matched = [name for name in names if plain_name(name).strip() in labels or name in labels]
        if stream.certain and len(matched) >= len(labels):
            return "wide"
    elif set(names) <= set(stream.booleans):
        return "wide"
    raise UsageError(
        f"{stream.name}: the shape is not clear; say `shape='long'` with `person` and `item` (one row per person and"
        " item), `shape='basket'` (one row per record, a list of items), or, for a table, draft its domain with `dpgm"
        " inspect FILE --draft-domain domain.yaml`, read it and give it as `domain`."
    )
