"""Records from a stream, in one of three shapes: basket (lists of items), long (person and item) or wide.

Wide means one column per field, or one 0/1 column per item. Matrices are wide, too, with a column per position. Each
shape says which columns it needs and encodes chunk by chunk; what becomes of persons is the same for all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpgm.data.domain import Domain, ItemSet
from dpgm.data.encoding import TableEncoder
from dpgm.data.items import (
    Items,
    KnownItems,
    OccurringItems,
    flat_column,
    is_list,
    list_lengths,
    natural_labels,
    place_of_item,
    plain_name,
    refuse_joined,
    split_lists,
)
from dpgm.data.kinds.base import CellStyle
from dpgm.data.kinds.items import SetField
from dpgm.data.labels import INDEX
from dpgm.data.layouts import Layout, Shape, Source
from dpgm.data.open_columns import OpenColumn, SetColumn
from dpgm.data.open_records import OpenRecords, join_records, records_of
from dpgm.data.person_columns import named_like_persons
from dpgm.data.presence import present_cells, present_in
from dpgm.data.read.event_rows import read_event_rows
from dpgm.data.read.options import NEEDS_DOMAIN, ReadOptions
from dpgm.data.read.persons import Persons, limit_rows, rows_of_persons
from dpgm.data.records import Records
from dpgm.data.rows import row_pointers, sort_rows
from dpgm.data.stream import POSITION_COLUMN, Chunk, Readers, RowStream, conversion_of
from dpgm.data.values import LISTS, TEXTS, Conversion, in_column, item_objects, required_floats, unsplit_texts
from dpgm.data.vocabulary import Vocabulary
from dpgm.errors import InputError, UsageError
from dpgm.validation import near

Encode: TypeAlias = Callable[[Chunk], Sequence[OpenColumn]]


@dataclass(frozen=True)
class ShapedRows:
    """How a stream of one shape is read.

    Attributes:
        domain: that of the rows; its values may be open.
        columns: the columns to read.
        encode: turns a chunk into one column per field of the domain.
        layout: what samples need to be written in the same way.
    """

    domain: Domain
    columns: Readers
    encode: Encode
    layout: Layout | None = None


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
        shaped = (_wide if options.reads_events else _SHAPES[shape])(stream, options)
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
    return records, Source(unit, assumed, shape, layout, most, like_persons)


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


# -- sets of items ---------------------------------------------------------------------------------------------------


def _basket(stream: RowStream, options: ReadOptions) -> ShapedRows:
    """One record per row, its items as a list."""
    name = _column_of_lists(stream, options)
    field, items = _item_set(stream, options, name)
    read = field.cells_reader(CellStyle(item_separator=options.item_separator), items, single=True)
    are_texts = stream.lines and options.item_separator is None and not items.integers

    def encode(chunk: Chunk) -> Sequence[OpenColumn]:
        cells = flat_column(chunk.table, name)
        where = chunk.place if stream.lines else in_column(chunk.place, name)
        if are_texts and not pa.types.is_integer(cells.type.value_type):
            refuse_joined(cells.flatten(), items, place_of_item(list_lengths(cells), where))
        return [read(cells, where)]

    layout = Layout("basket", item=None if stream.lines else options.item or field.name)
    return ShapedRows(
        options.public_domain or Domain((field,)), {name: conversion_of(field, stream)}, encode, layout
    )


def _column_of_lists(stream: RowStream, options: ReadOptions) -> str:
    name, field = options.item, options.item_set
    if name is None and field is not None and field.name in stream.names:
        name = field.name
    others = stream.lists if len(stream.lists) == 1 else [one for one in stream.names if one != options.person]
    if name is None and len(others) == 1:
        name = others[0]
    if name is None:
        raise UsageError(f"{stream.name}: which column holds the lists of items? Say so with `item`.")
    return stream.required(name, "item")


def _long(stream: RowStream, options: ReadOptions) -> ShapedRows:
    """One row per person and item, or list of items; a null or empty item adds the person alone."""
    stream.required(options.person, "person")
    name = stream.required(options.item, "item")
    columns = {name: Conversion(item_objects if options.item_separator is None else unsplit_texts)}
    if options.count is not None:
        columns[stream.required(options.count, "count")] = TEXTS
    field, items = _item_set(stream, options, name)
    read = field.cells_reader(CellStyle(), items)

    def encode(chunk: Chunk) -> Sequence[OpenColumn]:
        cells, where = flat_column(chunk.table, name), in_column(chunk.place, name)
        if not is_list(cells.type):
            cells = split_lists(cells, options.item_separator, where) if options.item_separator else _single(cells)
        return [read(cells, where)]

    has_names = options.header is not False  # else columns are referred to by their numbers
    layout = Layout("long", options.person, options.item) if has_names else Layout("long")
    return ShapedRows(options.public_domain or Domain((field,)), columns, encode, layout)


def _single(cells: pa.Array) -> pa.Array:
    """Lists of one item, or of none where it is null or an empty text."""
    present = cells.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_string(cells.type):
        present &= pc.fill_null(pc.not_equal(cells, ""), False).to_numpy(zero_copy_only=False)
    values = cells if present.all() else cells.filter(pa.array(present))
    return pa.LargeListArray.from_arrays(row_pointers(present), values)


def _item_set(stream: RowStream, options: ReadOptions, column: str) -> tuple[SetField, Items]:
    """The item set of the domain, or one whose items are to be found; and its items, listed or as they occur."""
    domain = options.public_domain
    if domain is None:
        if not options.assume_public_items and not options.discover:
            raise UsageError(f"{stream.name}: {NEEDS_DOMAIN}.")
        field = ItemSet(plain_name(column), discover=True, separator=options.item_separator or None)
        return field, OccurringItems() if options.assume_public_items else Vocabulary()
    if domain.item_set is None:
        raise InputError(
            f"{stream.name}: the domain has {len(domain.fields)} fields, but baskets and the long shape hold one"
            " item set; give a domain of one item set, or `shape='wide'`."
        )
    return domain.item_set, domain.item_set.known_items()


# -- wide ------------------------------------------------------------------------------------------------------------


def _wide(stream: RowStream, options: ReadOptions) -> ShapedRows:
    """A matrix of positions, a table of one column per field, or one of a 0/1 column per item."""
    if stream.names == (POSITION_COLUMN,):
        return _matrix(stream, options)
    if options.reads_events:
        return _with_sequence(stream, options)
    domain, field = options.table_domain or stream.domain, options.item_set
    if field is not None and field.name == options.item:  # the only field has a column
        domain = options.public_domain
    return _binary(stream, options) if domain is None else _table(stream, domain, options)


def _with_sequence(stream: RowStream, options: ReadOptions) -> ShapedRows:
    """A table of which one column has the lists of events, perhaps under another name, and one their times."""
    domain = options.public_domain
    if domain is None or domain.sequence is None:
        raise UsageError(f"{stream.name}: lists of events need a `domain` with a field of kind `sequence`.")
    item = stream.names[0] if stream.lines else stream.required(options.item or domain.sequence.name, "item")
    shape: Shape = "basket" if options.table_domain is None else "wide"
    shaped = _table(stream, domain, options, {domain.sequence.name: item})
    return replace(shaped, layout=Layout(shape, item=None if stream.lines else item, time=options.time))


def _table(
    stream: RowStream, domain: Domain, options: ReadOptions, called: Mapping[str, str] | None = None
) -> ShapedRows:
    """One column per field; `called` has the names of columns that are not called as their field."""
    column_of = {field.name: (called or {}).get(field.name, field.name) for field in domain.fields}
    absent = [name for name, column in column_of.items() if column not in stream.names]
    if absent:
        is_header = stream.certain or 2 * len(absent) <= len(domain.fields)  # no record holds half of the names
        meant = near(absent[0], stream.names) if is_header else ""
        listed = f"{meant}; the columns are {stream.listed()}" if stream.certain else meant
        raise InputError(
            f"{stream.name}: the domain names the column {absent[0]!r}, which the {stream.noun} does not have{listed};"
            f" correct the domain or the {stream.noun}, or say that the file has no header with `header=False`."
        )
    encoder = TableEncoder(
        domain,
        options.missing,
        options.strip_suffix,
        options.item_separator,
        options.time,
        threshold=options.threshold,
        numbers=options.number_style,
    )
    columns = {column_of[field.name]: conversion_of(field, stream) for field in domain.fields}
    if options.time is not None:
        columns[stream.required(options.time, "time")] = Conversion(item_objects) if stream.typed else LISTS
    names = {column: name for name, column in column_of.items()}

    def encode(chunk: Chunk) -> Sequence[OpenColumn]:
        table = chunk.table
        if called:
            table = table.select(list(columns)).rename_columns([names.get(one, one) for one in columns])
        return encoder.columns(table, chunk.place)

    return ShapedRows(domain, columns, encode)


def _binary(stream: RowStream, options: ReadOptions) -> ShapedRows:
    """One 0/1 column per item."""
    listed = options.item_set is not None and INDEX in options.item_set.items
    left_out = {options.person} | (set() if listed else {INDEX})
    names = [name for name in stream.names if name not in left_out]
    domain = options.public_domain or Domain.of_items(natural_labels([plain_name(name) for name in names]))
    positions = [*range(len(names))]
    if options.item_set is not None:
        positions = _positions_of(names, options.item_set, stream.name)
    may_name = stream.certain or options.domain is not None  # else messages give the number of the column

    def encode(chunk: Chunk) -> Sequence[OpenColumn]:
        rows, found = [], []
        for number, (name, position) in enumerate(zip(names, positions, strict=True), start=1):
            if position >= 0:
                where = in_column(chunk.place, name if may_name else number)
                here = np.flatnonzero(present_in(flat_column(chunk.table, name), options.threshold, where))
                rows.append(here)
                found.append(np.full(len(here), position, dtype=np.int32))
        row, at = np.concatenate(rows), np.concatenate(found)
        indptr = row_pointers(np.bincount(row, minlength=chunk.table.num_rows))
        return [SetColumn(*sort_rows(indptr, at[np.argsort(row, kind="stable")], domain.width))]

    return ShapedRows(domain, dict.fromkeys(names, TEXTS), encode, Layout("wide"))


def _positions_of(names: list[str], field: SetField, file: str) -> list[int]:
    """The position of every column in the domain, -1 for unknown columns; refuses an item without a column."""
    if isinstance(field.items[0], int):
        table = {str(label): at for at, label in enumerate(field.items)}
        positions = [table.get(name.strip(), -1) for name in names]
    else:
        positions = KnownItems(field.items).from_texts(pa.array(names, pa.string()), lambda row: file).tolist()
    lacking = set(range(field.width)) - set(positions)
    if lacking:
        raise InputError(
            f"{file}: the domain's item {field.items[min(lacking)]!r} has no column in the file; correct the domain or"
            " the file."
        )
    return positions


def _matrix(stream: RowStream, options: ReadOptions) -> ShapedRows:
    """Positions of a domain as a tensor or a list per row; each table column must have one of its own."""
    domain = stream.domain
    assert domain is not None

    def encode(chunk: Chunk) -> Sequence[OpenColumn]:
        column = flat_column(chunk.table, POSITION_COLUMN)
        if is_list(column.type):
            indptr = row_pointers(list_lengths(column))
            positions = column.flatten().to_numpy(zero_copy_only=False)
        else:
            rows, positions = np.nonzero(present_cells(column.to_numpy_ndarray(), options.threshold, chunk.place))
            indptr = row_pointers(np.bincount(rows, minlength=len(column)))
        indptr, positions = sort_rows(indptr, positions, domain.width)
        return _split(indptr, positions, domain, chunk)

    return ShapedRows(domain, {POSITION_COLUMN: TEXTS}, encode)


def _split(indptr: Any, positions: Any, domain: Domain, chunk: Chunk) -> Sequence[OpenColumn]:
    """The columns of the fields, from positions of the whole domain."""
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    columns = []
    for block in domain.blocks:
        inside = (positions >= block.start) & (positions < block.stop)
        lengths = np.bincount(rows[inside], minlength=len(indptr) - 1)
        if block.softmax and (lengths != 1).any():
            raise InputError(
                f"{chunk.place(int(np.argmax(lengths != 1)))}: positions {block.start} to {block.stop - 1} are one"
                " column of the domain, so exactly one of them must be 1; correct the matrix."
            )
        columns.append(SetColumn(row_pointers(lengths), (positions[inside] - block.start).astype(np.int32)))
    return columns


_SHAPES: dict[Shape, Callable[[RowStream, ReadOptions], ShapedRows]] = {
    "basket": _basket,
    "long": _long,
    "wide": _wide,
}
