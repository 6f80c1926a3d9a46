"""Tables of columns, chunk by chunk, read in one of three shapes.

Parquet, CSV and JSON lines all come here as Arrow tables with a way to name a row's place in the file.
"""

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgm.data.chunks import Columns, need, people_of, plain_name
from dpgm.data.columns import cell_lists, flat_column, is_list, refuse_joined_cells, set_codes, split_lists
from dpgm.data.formats import set_field
from dpgm.data.gathering import BasketGatherer, ItemGoal, LongGatherer
from dpgm.data.items import in_column
from dpgm.data.options import NEEDS_DOMAIN, ReadOptions
from dpgm.data.records import Records
from dpgm.data.source import Layout, Shape, Source
from dpgm.data.wide import numbers, read_wide
from dpgm.errors import InputError, UsageError

if TYPE_CHECKING:
    import pyarrow


def read_columns(columns: Columns, options: ReadOptions) -> tuple[Records, Source]:
    """Records from named columns, in the shape that was asked for or is clear."""
    chunks = iter(columns.chunks)
    first = next(chunks, None)
    if first is None or first.table.num_rows == 0:
        raise InputError(f"{columns.file}: holds no records; give a file with at least one.")
    columns = replace(columns, chunks=chain([first], chunks))
    shape = options.shape or columns.shape or _shape_of(columns, options)
    for at, name in enumerate(columns.names):
        if name in columns.names[:at]:
            raise InputError(
                f"{columns.file}: columns {columns.names.index(name) + 1} and {at + 1} have the same name; names must"
                " differ: correct them, or say --no-header if the first line holds no names."
            )
    if shape == "long":
        return _read_long(columns, options)
    if shape == "basket":
        return _read_baskets(columns, options)
    return read_wide(columns, options)


def _shape_of(columns: Columns, options: ReadOptions) -> Shape:
    """The shape, from the options, the domain and the schema: no row is looked at."""
    if options.item in columns.lists:
        return "basket"
    if options.stated_shape is not None:
        return options.stated_shape
    if len(columns.lists) == 1:
        return "basket"
    names = [name for name in columns.names if name != options.person]
    domain = options.public_domain
    if domain is not None:
        labels = {str(label) for label in set_field(domain).items}  # type: ignore[union-attr]
        matched = [name for name in names if plain_name(name).strip() in labels or name in labels]
        if columns.certain and len(matched) >= len(labels):
            return "wide"
    elif set(names) <= set(columns.truths):
        return "wide"
    raise UsageError(
        f"{columns.file}: the shape is not clear; say `--shape long` with --person and --item (one row per person and"
        " item), `--shape basket` (one row per record, a list of items), or, for a table, draft its domain with `dpgm"
        " inspect FILE --draft-domain domain.yaml`, read it and give it with --domain."
    )


def goal_for(options: ReadOptions, file: str, name: str = "items") -> ItemGoal:
    """Which items count; refuses where the list would come from the file undeclared."""
    domain = options.public_domain
    if domain is not None:
        if set_field(domain) is None:
            raise InputError(
                f"{file}: the domain has {len(domain.fields)} fields, but baskets and the long shape hold one"
                " item set; give a domain of one item set, or `--shape wide`."
            )
        return ItemGoal(domain)
    if not options.assume_public_items:
        raise UsageError(f"{file}: {NEEDS_DOMAIN}.")
    return ItemGoal(None, name)


def _read_long(columns: Columns, options: ReadOptions) -> tuple[Records, Source]:
    person, item = need(columns, options.person, "person"), need(columns, options.item, "item")
    count = None if options.count is None else need(columns, options.count, "count")
    gatherer = LongGatherer(goal_for(options, columns.file, plain_name(item)))
    for chunk in columns.chunks:
        persons, items = flat_column(chunk.table, person), flat_column(chunk.table, item)
        where, present = in_column(chunk.place, item), None
        if count is not None:
            present = numbers(flat_column(chunk.table, count), in_column(chunk.place, count)) > 0
        if options.item_separator and not is_list(items.type):
            items = split_lists(items, options.item_separator, where)
        if is_list(items.type):
            persons, items, rows = _one_item_per_row(persons, items)
            present = None if present is None else present[rows]
            where = _at_rows(where, rows)
        gatherer.add(persons, items, where, present)
    records = gatherer.finish(columns.file)
    named = options.header is not False  # the numbers of columns without names are not names
    layout = Layout("long", options.person, options.item) if named else Layout("long")
    return records, Source("person", options.domain is None, "long", layout)


def _one_item_per_row(
    persons: "pyarrow.Array", lists: "pyarrow.Array"
) -> tuple["pyarrow.Array", "pyarrow.Array", Any]:
    """Persons beside each item of their lists, and the row each comes from; an empty list leaves one null item."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    several = np.maximum(lengths, 1)
    rows = np.repeat(np.arange(len(lengths)), several)
    empty = np.repeat(lengths == 0, several)
    values = pc.list_flatten(lists)
    at = np.cumsum(~empty) - 1
    items = values.take(pa.array(at, mask=empty))
    return persons.take(pa.array(rows)), items, rows


def _at_rows(where: Any, rows: Any) -> Any:
    return lambda at: where(int(rows[at]))


def _read_baskets(columns: Columns, options: ReadOptions) -> tuple[Records, Source]:
    name = options.item
    field = set_field(options.public_domain) if options.public_domain is not None else None
    if name is None and field is not None and field.name in columns.names:
        name = field.name
    if name is None and len(columns.lists) == 1:
        name = columns.lists[0]
    others = [one for one in columns.names if one != options.person]
    if name is None and len(others) == 1:
        name = others[0]
    if name is None:
        raise UsageError(f"{columns.file}: which column holds the lists of items? Say so with --item COLUMN.")
    need(columns, name, "item")
    gatherer = BasketGatherer(goal_for(options, columns.file, plain_name(name)), options.room)
    people = people_of(columns, options)
    for chunk in columns.chunks:
        column, where = flat_column(chunk.table, name), in_column(chunk.place, name)
        if not is_list(column.type):
            if options.item_separator is None:
                refuse_joined_cells(column, gatherer.goal.items, where)
            column = cell_lists(column, options.item_separator, where)
        gatherer.add(*set_codes(column, gatherer.goal.items, where))
        people.see(chunk)
    records = gatherer.finish(columns.file)
    layout = Layout("basket", item=options.item or records.domain.fields[0].name)
    return people.limited(records, "basket", items_assumed_public=options.domain is None, layout=layout)
