"""Tables of columns, chunk by chunk, read in one of three shapes.

Parquet, CSV and JSON lines all come here as Arrow tables with a way to name a row's place in the file.
"""

from dataclasses import replace
from itertools import chain

from dpgm.data.chunks import Chunk, Columns, in_column, need, people_of, plain_name
from dpgm.data.columns import flat_column, set_codes
from dpgm.data.formats import Shape, set_field
from dpgm.data.gathering import BasketGatherer, ItemGoal, LongGatherer
from dpgm.data.records import Records
from dpgm.data.source import NEEDS_DOMAIN, Reading, Source
from dpgm.data.wide import is_binary, numbers, read_wide
from dpgm.errors import InputError, UsageError


def read_columns(columns: Columns, reading: Reading) -> tuple[Records, Source]:
    """Records from named columns, in the shape that was asked for or is clear."""
    chunks = iter(columns.chunks)
    first = next(chunks, None)
    if first is None or first.table.num_rows == 0:
        raise InputError(f"{columns.file}: holds no records; give a file with at least one.")
    columns = replace(columns, chunks=chain([first], chunks))
    shape = reading.shape or _detect(columns, first, reading)
    for at, name in enumerate(columns.names):
        if name in columns.names[:at]:
            raise InputError(
                f"{columns.file}: columns {columns.names.index(name) + 1} and {at + 1} have the same name; names must"
                " differ: correct them, or say --no-header if the first line holds no names."
            )
    if shape == "long":
        return _read_long(columns, reading)
    if shape == "basket":
        return _read_baskets(columns, reading)
    return read_wide(columns, first, reading)


def _detect(columns: Columns, first: Chunk, reading: Reading) -> Shape:
    if reading.person is not None and reading.item is not None and reading.item not in columns.lists:
        return "long"
    domain = reading.domain
    if domain is not None and set_field(domain) is None:
        return "wide"
    if len(columns.lists) == 1 or reading.item in columns.lists:
        return "basket"
    if domain is not None:
        labels = {str(label) for label in set_field(domain).items}  # type: ignore[union-attr]
        matched = [name for name in columns.names if plain_name(name).strip() in labels or name in labels]
        if len(matched) >= len(labels) and all(is_binary(first, name, reading.threshold) for name in matched):
            return "wide"
    elif all(is_binary(first, name) for name in columns.names if name != reading.person):
        return "wide"
    raise UsageError(
        f"{columns.file}: the shape is not clear; say `--shape long` with --person and --item (one row a person and"
        " item), `--shape basket` (one row a record, a list of items), or `--shape wide` (one column a field, with"
        " --domain)."
    )


def goal_for(reading: Reading, file: str, name: str = "items") -> ItemGoal:
    """Which items count; refuses where the list would come from the file undeclared."""
    if reading.domain is not None:
        if set_field(reading.domain) is None:
            raise InputError(
                f"{file}: the domain has {len(reading.domain.fields)} fields, but baskets and the long shape hold one"
                " item set; give a domain of one item set, or `--shape wide`."
            )
        return ItemGoal(reading.domain)
    if not reading.assume_public_items:
        raise UsageError(f"{file}: {NEEDS_DOMAIN}.")
    return ItemGoal(None, name)


def _read_long(columns: Columns, reading: Reading) -> tuple[Records, Source]:
    person, item = need(columns, reading.person, "person"), need(columns, reading.item, "item")
    count = None if reading.count is None else need(columns, reading.count, "count")
    gatherer = LongGatherer(goal_for(reading, columns.file, plain_name(item)))
    for chunk in columns.chunks:
        persons, items = flat_column(chunk.table, person), flat_column(chunk.table, item)
        present = None
        if count is not None:
            present = numbers(flat_column(chunk.table, count), in_column(chunk.place, count)) > 0
        gatherer.add(persons, items, in_column(chunk.place, item), present)
    records = gatherer.finish(columns.file)
    return records, Source("person", reading.domain is None, "long")


def _read_baskets(columns: Columns, reading: Reading) -> tuple[Records, Source]:
    name = reading.item
    field = set_field(reading.domain) if reading.domain is not None else None
    if name is None and field is not None and field.name in columns.names:
        name = field.name
    if name is None and len(columns.lists) == 1:
        name = columns.lists[0]
    if name is None:
        raise UsageError(f"{columns.file}: which column holds the lists of items? Say so with --item COLUMN.")
    need(columns, name, "item")
    gatherer = BasketGatherer(goal_for(reading, columns.file, name))
    people = people_of(columns, reading)
    for chunk in columns.chunks:
        gatherer.add(*set_codes(flat_column(chunk.table, name), gatherer.goal.items, in_column(chunk.place, name)))
        people.see(chunk)
    records = gatherer.finish(columns.file)
    return records, Source(people.unit(), reading.domain is None, "basket")
