"""Tables of columns, chunk by chunk, read in one of three shapes: baskets, long, or wide.

Parquet, CSV, Excel and JSON lines all come here as Arrow tables with a way to name a row's place in the file. Wide is
one column per field, or one 0/1 column per item.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgm.data.domain import Domain, Image, ItemSet, Numeric, ShapedNumber
from dpgm.data.formats import Layout, Shape, Source
from dpgm.data.items import (
    KnownItems,
    cell_lists,
    flat_column,
    is_list,
    list_lengths,
    natural_labels,
    plain_name,
    set_codes,
    split_lists,
)
from dpgm.data.read.columns import Chunk, Columns, listed_names, required_column
from dpgm.data.read.gathering import BasketGatherer, ItemGoal, LongGatherer, join_records, people_of
from dpgm.data.read.options import NEEDS_DOMAIN, ReadOptions
from dpgm.data.records import Records
from dpgm.data.table import TableEncoder
from dpgm.data.values import Place, floats, in_column, required_floats, with_plain_numbers, written_numbers
from dpgm.errors import InputError, UsageError
from dpgm.validation import near

if TYPE_CHECKING:
    import pyarrow

_ONES = ("1", "true", "True", "TRUE")
_ZEROS = ("0", "false", "False", "FALSE")


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
    return _read_wide(columns, options)


def _shape_of(columns: Columns, options: ReadOptions) -> Shape:
    """The shape, from the options, the domain and the schema: no row is looked at."""
    if options.item in columns.lists:
        return "basket"
    if options.stated_shape is not None:
        return options.stated_shape
    if len(columns.lists) == 1:
        return "basket"
    names = [name for name in columns.names if name != options.person]
    if options.item_set is not None:
        labels = {str(label) for label in options.item_set.items}
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
        if domain.item_set is None:
            raise InputError(
                f"{file}: the domain has {len(domain.fields)} fields, but baskets and the long shape hold one"
                " item set; give a domain of one item set, or `--shape wide`."
            )
        return ItemGoal(domain)
    if not options.assume_public_items:
        raise UsageError(f"{file}: {NEEDS_DOMAIN}.")
    return ItemGoal(None, name)


def _read_long(columns: Columns, options: ReadOptions) -> tuple[Records, Source]:
    person = required_column(columns, options.person, "person")
    item = required_column(columns, options.item, "item")
    count = None if options.count is None else required_column(columns, options.count, "count")
    gatherer = LongGatherer(goal_for(options, columns.file, plain_name(item)))
    for chunk in columns.chunks:
        persons, items = flat_column(chunk.table, person), flat_column(chunk.table, item)
        where, present = in_column(chunk.place, item), None
        if count is not None:
            present = required_floats(flat_column(chunk.table, count), in_column(chunk.place, count)) > 0
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

    lengths = list_lengths(lists)
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
    field = options.item_set
    if name is None and field is not None and field.name in columns.names:
        name = field.name
    if name is None and len(columns.lists) == 1:
        name = columns.lists[0]
    others = [one for one in columns.names if one != options.person]
    if name is None and len(others) == 1:
        name = others[0]
    if name is None:
        raise UsageError(f"{columns.file}: which column holds the lists of items? Say so with --item COLUMN.")
    required_column(columns, name, "item")
    gatherer = BasketGatherer(goal_for(options, columns.file, plain_name(name)), options.room)
    people = people_of(columns, options)
    for chunk in columns.chunks:
        column, where = flat_column(chunk.table, name), in_column(chunk.place, name)
        if not is_list(column.type):
            column = cell_lists(column, options.item_separator, where, gatherer.goal.items)
        gatherer.add(*set_codes(column, gatherer.goal.items, where))
        people.add(chunk)
    records = gatherer.finish(columns.file)
    layout = Layout("basket", item=options.item or records.domain.fields[0].name)
    return people.finish(records, "basket", items_assumed_public=options.domain is None, layout=layout)


def is_binary(column: "pyarrow.Array", threshold: float | None = None) -> bool:
    """Whether a column tells presence: 0 and 1, or numbers where there is a threshold."""
    try:
        _binary(column, threshold, lambda row: "")
    except InputError:
        return False
    return True


def _read_wide(columns: Columns, options: ReadOptions) -> tuple[Records, Source]:
    """A table of one column per field, or of one 0/1 column per item."""
    people = people_of(columns, options)
    domain = options.public_domain
    if domain is not None and domain.item_set is None:
        absent = [field.name for field in domain.fields if field.name not in columns.names]
        if absent:
            listed = ""
            if columns.certain:
                listed = f"{near(absent[0], columns.names)}; the columns are {listed_names(columns)}"
            raise InputError(
                f"{columns.file}: the domain names the column {absent[0]!r}, which the file does not have{listed};"
                " correct the domain or the file, or say that the file has no header with --no-header."
            )
        numeric = [field.name for field in domain.fields if isinstance(field, (Numeric, ShapedNumber))]
        encoder = TableEncoder(domain, options.missing, options.strip_suffix, options.item_separator)

        def encoded() -> Iterator[Records]:
            for chunk in columns.chunks:
                table = with_plain_numbers(chunk.table, numeric, options.number_style, options.missing, chunk.place)
                yield encoder.encode(table, chunk.place)
                people.add(chunk)

        return people.finish(join_records(encoded(), domain, options.room), "wide")
    names = [name for name in columns.names if name != options.person]
    if domain is None:
        domain = Domain.of_items(natural_labels([plain_name(name) for name in names]), "items")
        positions = np.arange(len(names))
    else:
        positions = _match(columns.file, names, domain.item_set)
    known = domain
    safe_names = names if columns.certain or options.domain is not None else None

    def read() -> Iterator[Records]:
        for chunk in columns.chunks:
            yield _binary_records(chunk, names, positions, known, options.threshold, safe_names)
            people.add(chunk)

    return people.finish(join_records(read(), domain, options.room), "wide", layout=Layout("wide"))


def _match(file: str, names: list[str], field: ItemSet | Image | None) -> Any:
    """The position of every column, -1 for columns the domain does not know; every item needs a column."""
    import pyarrow as pa

    assert field is not None
    if isinstance(field.items[0], int):
        table = {str(label): at for at, label in enumerate(field.items)}
        positions = np.array([table.get(name.strip(), -1) for name in names], dtype=np.int64)
    else:
        positions = KnownItems(field.items).from_texts(pa.array(names, type=pa.string()), lambda row: file)
    if len(set(positions[positions >= 0].tolist())) < field.width:
        lacking = next(at for at in range(field.width) if at not in set(positions.tolist()))
        raise InputError(
            f"{file}: the domain's item {field.items[lacking]!r} has no column in the file; correct the domain or"
            " the file."
        )
    return positions


def _binary_records(
    chunk: Chunk,
    names: list[str],
    positions: Any,
    domain: Domain,
    threshold: float | None,
    safe_names: list[str] | None,
) -> Records:
    """The rows of a chunk; `safe_names` are the names that a message may repeat (else it gives the column's number)."""
    rows, columns = [], []
    for number, (name, position) in enumerate(zip(names, positions.tolist(), strict=True), start=1):
        if position >= 0:
            where = in_column(chunk.place, number if safe_names is None else name)
            present = _binary(flat_column(chunk.table, name), threshold, where)
            here = np.flatnonzero(present)
            rows.append(here)
            columns.append(np.full(len(here), position, dtype=np.int32))
    row, at = np.concatenate(rows), np.concatenate(columns)
    order = np.argsort(row, kind="stable")
    return Records.from_flat(at[order], np.bincount(row, minlength=chunk.table.num_rows), domain)


def _binary(column: "pyarrow.Array", threshold: float | None, where: Place) -> Any:
    """Which rows are present: 1 of 0 and 1, or above a threshold."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_boolean(column.type) and not column.null_count:
        return column.to_numpy(zero_copy_only=False)
    if threshold is not None:
        return required_floats(column, where) > threshold
    if pa.types.is_string(column.type):
        column = pc.utf8_trim_whitespace(column)
        ones = pc.is_in(column, value_set=pa.array(_ONES))
        zeros = pc.is_in(column, value_set=pa.array(_ZEROS))
        if pc.all(pc.or_(ones, zeros)).as_py():
            return ones.to_numpy(zero_copy_only=False)
        other = ~written_numbers(column) & ~pc.or_(ones, zeros).to_numpy(zero_copy_only=False)
        column = pc.if_else(ones, "1", pc.if_else(zeros, "0", pc.if_else(pa.array(other), "", column)))
    values, missing = floats(column, where, ("",))
    valid = ~missing & ((values == 0) | (values == 1))
    if not valid.all():
        raise InputError(
            f"{where(int(np.argmin(valid)))}: the value is neither 0 nor 1; describe the columns with --domain FILE"
            " (`dpgm inspect` drafts one), or give --threshold if a number above it means present."
        )
    return values == 1
