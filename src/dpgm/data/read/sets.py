"""Streams of item sets: baskets (lists of items), and the long shape (one row per person and item)."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dpgm.data.domain import Domain, ItemSet
from dpgm.data.items import (
    Items,
    OccurringItems,
    flat_column,
    is_list,
    list_lengths,
    place_of_item,
    plain_name,
    refuse_joined,
    split_lists,
)
from dpgm.data.kinds.base import CellStyle
from dpgm.data.kinds.items import SetField
from dpgm.data.layouts import Layout
from dpgm.data.open_columns import OpenColumn
from dpgm.data.read.options import NEEDS_DOMAIN, ReadOptions
from dpgm.data.read.tables import ShapedRows
from dpgm.data.rows import row_pointers
from dpgm.data.stream import Chunk, RowStream, conversion_of
from dpgm.data.values import TEXTS, Conversion, in_column, item_objects, unsplit_texts
from dpgm.data.vocabulary import Vocabulary
from dpgm.errors import InputError, UsageError


def basket(stream: RowStream, options: ReadOptions) -> ShapedRows:
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


def long(stream: RowStream, options: ReadOptions) -> ShapedRows:
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
