"""Long files of sequences: one row per event of a person, in any order, beside attributes of the person.

A person is made of the own rows alone: the events in order of time, and of every attribute the value of the earliest
row that has one. Of rows at the same time the item decides, and then the value. Without a column of times, the order of
the rows of a person counts.

A second file may have the attributes of persons, one row each. Its rows count as rows of the person before all others,
without an event, and rows of events have no attributes then.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpgm.data.domain import Domain, Field, ItemSequence
from dpgm.data.event_times import times_beside
from dpgm.data.items import (
    empty_as_null,
    flat_column,
    is_list,
    item_codes,
    list_lengths,
    plain_name,
)
from dpgm.data.kinds.base import CellStyle
from dpgm.data.layouts import Layout
from dpgm.data.open_columns import CodeColumn, NumberColumn, OpenColumn
from dpgm.data.open_records import join_records, records_of
from dpgm.data.read.options import NEEDS_DOMAIN, ReadOptions
from dpgm.data.read.persons import PersonRows, Persons, in_file_order
from dpgm.data.records import Records
from dpgm.data.rows import grouped_rows, index_dtype, pieces_of, row_pointers
from dpgm.data.stores import NumberStore
from dpgm.data.stream import Chunk, Readers, RowStream, conversion_of
from dpgm.data.values import TEXTS, Conversion, in_column, item_objects, with_plain_numbers
from dpgm.data.vocabulary import Vocabulary, name_ranks
from dpgm.errors import InputError, UsageError


def read_event_rows(
    stream: RowStream, options: ReadOptions, attributes: RowStream | None = None
) -> tuple[Records, Layout]:
    """Records from rows of events, in the order in which persons first appear; and the layout of the file.

    Args:
        stream: the rows of events.
        options: how they are read; `person`, `item` and perhaps `time` name columns.
        attributes: the attributes of persons, one row each, if they stand apart.
    """
    domain, limit = _domain(stream.name, options), options.memory_limit
    table = _EventTable(domain, options, stream.name, separate=attributes is not None)
    persons = Persons(limit)
    if attributes is not None:
        for chunk in attributes.read(table.columns_of_persons(attributes)):
            table.add_attributes(chunk, attributes, persons)
    for chunk in stream.read(table.columns_of_events(stream)):
        table.add_events(chunk, stream, persons)
    on_disk, first_rows = persons.on_disk, NumberStore(np.int64, limit.split(4))
    records = join_records(table.people(persons, first_rows), domain, limit)
    if on_disk:
        records = in_file_order(records, first_rows, limit)
    return records, Layout("long", options.person, options.item, options.time)


def _domain(file: str, options: ReadOptions) -> Domain:
    """The stated domain, or one of a sequence of items that are still to be found."""
    if options.public_domain is not None:
        return options.public_domain
    if not (options.discover or options.assume_public_items):
        raise UsageError(f"{file}: {NEEDS_DOMAIN}.")
    return Domain((ItemSequence.to_find(plain_name(str(options.item)), options.period),))


@dataclass
class _Attribute:
    """A field of which a person has one value, and how its column is read."""

    field: Field
    read: Any
    vocabulary: Vocabulary | None = None

    @property
    def dtype(self) -> Any:
        """That of its numbers, row by row: ticks, codes of a vocabulary, or positions; -1 or NaN without a value."""
        if self.field.open_number is not None:
            return np.float64
        return np.int32 if self.field.is_open else index_dtype(self.field.width)

    def numbers(self, chunk: Chunk) -> NDArray[Any]:
        """The number of every row."""
        column = self.read(chunk.table, chunk.place)
        self.vocabulary = column.vocabulary
        numbers: NDArray[Any] = column.each.astype(self.dtype)
        if not self.field.is_open and self.field.may_be_missing:
            numbers[numbers == self.field.width - 1] = -1
        return numbers

    def earliest(
        self, numbers: NDArray[Any], starts: NDArray[np.int64], people: NDArray[Any], count: int
    ) -> OpenColumn:
        """The column of `count` persons, with the value of each one's first rows that have one.

        Args:
            numbers: of all rows, by person and time.
            starts: where rows of another person, time or item begin; those in between are told apart by the value.
            people: the person of each of these.
            count: how many persons there are.
        """
        codes = None
        if self.vocabulary is not None:
            numbers, codes = name_ranks(numbers, self.vocabulary)
        is_tick = numbers.dtype == np.float64
        wide = numbers if is_tick else numbers.astype(np.int64)
        none: float = np.inf if is_tick else np.iinfo(np.int64).max
        lowest = np.minimum.reduceat(np.where(np.isnan(wide) if is_tick else wide < 0, none, wide), starts)
        valued = np.flatnonzero(lowest < none)[::-1]  # the last assignment to a person counts
        chosen = np.full(count, np.nan if is_tick else -1, dtype=np.float64 if is_tick else np.int64)
        chosen[people[valued]] = lowest[valued]
        if is_tick:
            return NumberColumn(chosen.astype(np.float64))
        if codes is not None:
            chosen = np.append(codes, -1)[chosen]
        if not self.field.is_open and self.field.may_be_missing:
            chosen[chosen < 0] = self.field.width - 1
        return CodeColumn(chosen.astype(np.int32), self.vocabulary)


class _EventTable:
    """Turns rows of events and of persons into numbers (item, time, attributes), and those into records."""

    def __init__(self, domain: Domain, options: ReadOptions, file: str, *, separate: bool) -> None:
        assert domain.sequence is not None
        self._domain, self._options, self._file, self._separate = domain, options, file, separate
        self._sequence, self._items = domain.sequence, domain.sequence.item_codes()
        self._style = CellStyle(("", *options.missing), options.strip_suffix, options.item_separator)
        others = {field.name: field for field in domain.fields}
        self._attributes = [
            _Attribute(field, field.reader(self._style, others))
            for field in domain.fields
            if field is not self._sequence
        ]
        for one in self._attributes:
            if one.field.is_set:
                raise UsageError(
                    f"{file}: the field {one.field.name!r} holds several values per person, and a long file has one"
                    " sequence only; leave the field out, or give one row per person with lists."
                )
        self._numeric = [one.field.name for one in self._attributes if one.field.reads_numbers]
        item = np.int32 if self._sequence.is_open else index_dtype(self._sequence.width)
        times = [] if options.time is None else [("time", np.float64)]
        self._dtype = np.dtype(
            [("item", item), *times, *((str(at), one.dtype) for at, one in enumerate(self._attributes))]
        )

    def columns_of_persons(self, stream: RowStream) -> Readers:
        """The columns to read of the rows of persons."""
        person = stream.required(self._options.person, "person")
        names = {stream.required(one.field.name, "domain"): one.field for one in self._attributes}
        return {person: TEXTS} | {name: conversion_of(field, stream) for name, field in names.items()}

    def columns_of_events(self, stream: RowStream) -> Readers:
        """The columns to read of the rows of events."""
        options, items = self._options, Conversion(item_objects)
        columns = {stream.required(options.person, "person"): TEXTS}
        if not self._separate:
            columns |= self.columns_of_persons(stream)
        if options.time is not None:
            columns[stream.required(options.time, "time")] = items if stream.typed else TEXTS
        return columns | {stream.required(options.item, "item"): items}

    def add_attributes(self, chunk: Chunk, stream: RowStream, persons: Persons) -> None:
        """Add rows of the file of persons."""
        rows = self._without_event(chunk.table.num_rows)
        self._fill_attributes(rows, chunk, stream)
        self._add(rows, chunk, stream, persons)

    def add_events(self, chunk: Chunk, stream: RowStream, persons: Persons) -> None:
        """Add rows of events; a null or empty item, or an empty list, adds the person without an event."""
        options = self._options
        item = stream.required(options.item, "item")
        time = None if options.time is None else stream.required(options.time, "time")
        chunk = one_event_per_row(chunk, item, time)
        rows = self._without_event(chunk.table.num_rows)
        column = empty_as_null(flat_column(chunk.table, item))
        rows["item"] = item_codes(column, self._items, in_column(chunk.place, item))
        if time is not None:
            column = flat_column(chunk.table, time)
            rows["time"] = self._sequence.times_of(column, in_column(chunk.place, time), self._style)
        if not self._separate:
            self._fill_attributes(rows, chunk, stream)
        self._add(rows, chunk, stream, persons)

    def _without_event(self, count: int) -> NDArray[Any]:
        rows = np.zeros(count, dtype=self._dtype)
        rows["item"] = -1
        if self._options.time is not None:
            rows["time"] = -np.inf
        for at, one in enumerate(self._attributes):
            rows[str(at)] = np.nan if one.dtype is np.float64 else -1
        return rows

    def _fill_attributes(self, rows: NDArray[Any], chunk: Chunk, stream: RowStream) -> None:
        table = with_plain_numbers(
            chunk.table, self._numeric, self._options.number_style, self._options.missing, chunk.place
        )
        chunk = replace(chunk, table=table)
        for at, one in enumerate(self._attributes):
            rows[str(at)] = one.numbers(chunk)

    def _add(self, rows: NDArray[Any], chunk: Chunk, stream: RowStream, persons: Persons) -> None:
        person = stream.required(self._options.person, "person")
        persons.add(flat_column(chunk.table, person), in_column(chunk.place, person), rows)

    def people(self, persons: Persons, first_rows: NumberStore) -> Iterator[Records]:
        """One record per person; the number of each one's first row is added to `first_rows`."""
        for group in persons.groups():
            order, indptr = grouped_rows(group.persons, group.count)
            for first, last in pieces_of(indptr):
                mine = order[indptr[first] : indptr[last]]
                first_rows.append(group.rows[order[indptr[first:last]]])
                yield self._records(group, mine, first, last - first)

    def _records(self, group: PersonRows, mine: NDArray[Any], first: int, count: int) -> Records:
        """The records of persons `first` to `first + count` of a group, whose rows are `mine`."""
        people, rows = group.persons[mine] - first, group.codes[mine]
        times = None if self._options.time is None else np.ascontiguousarray(rows["time"])
        items = np.ascontiguousarray(rows["item"])
        events = self._sequence.column(people, count, items, times, self._items)
        columns: dict[str, OpenColumn] = {self._sequence.name: events}
        if self._attributes:
            turn, starts = self._runs(people, items, times)
            for at, one in enumerate(self._attributes):
                columns[one.field.name] = one.earliest(rows[str(at)][turn], starts, people[turn[starts]], count)
                self._refuse_without_value(one.field, columns[one.field.name])
        return records_of([columns[field.name] for field in self._domain.fields], count, self._domain)

    def _runs(
        self, people: NDArray[Any], items: NDArray[Any], times: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows by person, by time and by item, and where each run of rows begins that are equal in all three."""
        in_turn = np.arange(len(people), dtype=np.float64) if times is None else times
        in_turn = np.where(np.isnan(in_turn), np.inf, in_turn)  # rows without a time come last
        keys = (people, in_turn, self._sequence.ranks(items, self._items))
        turn = np.lexsort(keys[::-1])
        begins = np.zeros(len(turn), dtype=np.bool_)
        begins[0] = True
        for key in keys:
            begins[1:] |= key[turn[1:]] != key[turn[:-1]]
        return turn, np.flatnonzero(begins)

    def _refuse_without_value(self, field: Field, column: OpenColumn) -> None:
        if not field.may_be_missing and bool((column.each == -1).any() or np.isnan(column.each).any()):
            raise InputError(
                f"{self._file}: a person has events and no value of {field.name!r}, as the file of persons lacks the"
                " person; add it there, or give the field `missing: true`."
            )


def one_event_per_row(chunk: Chunk, item: str, time: str | None) -> Chunk:
    """Rows whose items or times are lists, as one row per item; an empty list gives one row without an item."""
    table = chunk.table
    columns = {name: flat_column(table, name) for name in (item, time) if name is not None}
    if not any(is_list(column.type) for column in columns.values()):
        return chunk
    lists = {name: _as_lists(column) for name, column in columns.items()}
    lengths = list_lengths(lists[item])
    repeats = np.maximum(lengths, 1)
    rows, empty = np.repeat(np.arange(len(lengths)), repeats), np.repeat(lengths == 0, repeats)
    items = pc.list_flatten(lists[item]).take(pa.array(np.cumsum(~empty) - 1, mask=empty))
    taken = table.take(pa.array(rows))
    taken = taken.set_column(taken.column_names.index(item), item, items)
    if time is not None:
        times = times_beside(lists[time], lengths, in_column(chunk.place, time))
        taken = taken.set_column(taken.column_names.index(time), time, times)
    return replace(chunk, table=taken, place=lambda row: chunk.place(int(rows[row])))


def _as_lists(column: pa.Array) -> pa.Array:
    """Lists, also if every row has one value or none."""
    if is_list(column.type):
        return column
    ends = row_pointers(column.is_valid().to_numpy(zero_copy_only=False)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), column.drop_null())
