"""Streams in the wide shape: tables of one column per field, or of one 0/1 column per item, and matrices."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from dpgm.data.domain import Domain
from dpgm.data.encoding import TableEncoder
from dpgm.data.items import KnownItems, flat_column, is_list, list_lengths, natural_labels, plain_name
from dpgm.data.kinds.items import SetField
from dpgm.data.labels import INDEX
from dpgm.data.layouts import Layout, Shape
from dpgm.data.open_columns import OpenColumn, SetColumn
from dpgm.data.presence import present_cells, present_in
from dpgm.data.read.options import ReadOptions
from dpgm.data.rows import row_pointers, sort_rows
from dpgm.data.stream import POSITION_COLUMN, Chunk, Readers, RowStream, conversion_of
from dpgm.data.values import LISTS, TEXTS, Conversion, in_column, item_objects
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


def wide(stream: RowStream, options: ReadOptions) -> ShapedRows:
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
        no_header = "" if stream.typed else ", or say that the file has no header with `header=False`"
        raise InputError(
            f"{stream.name}: the domain names the column {absent[0]!r}, which the {stream.noun} does not have{listed};"
            f" correct the domain or the {stream.noun}{no_header}."
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
