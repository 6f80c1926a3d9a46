"""Gathering the chunks of a file into records, in each shape, within little more memory than they need."""

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain
from dpgm.data.formats import Layout, Shape, Source
from dpgm.data.items import (
    Codes,
    Items,
    KnownItems,
    OccurringItems,
    digits_only,
    empty_as_null,
    flat_column,
    item_codes,
)
from dpgm.data.read.columns import Chunk, Columns, required_column
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.row_store import EVERYTHING, Room, RowStore
from dpgm.data.records import Records, concatenate, index_dtype, row_pointers, sort_rows
from dpgm.data.values import Place, as_texts, in_column
from dpgm.errors import InputError

if TYPE_CHECKING:
    import pyarrow

_PIECE = 4_000_000
_POWERS = np.array([10**power for power in range(1, 19)], dtype=np.int64)


class ItemGoal:
    """Which items are read, and the domain they make: a public one, or the items that occur."""

    def __init__(self, domain: Domain | None, name: str = "items") -> None:
        self._domain, self._name = domain, name
        self._occurring = OccurringItems() if domain is None else None
        self.width = None if domain is None else domain.width  # None until all items are seen
        if domain is not None:
            field = domain.fields[0]
            self.items: Items = KnownItems(field.items)  # type: ignore[union-attr]
            self.code_dtype: type[np.signedinteger[Any]] = index_dtype(domain.width)
        else:
            assert self._occurring is not None
            self.items, self.code_dtype = self._occurring, np.int32

    def finish(self, file: str) -> tuple[Domain, NDArray[np.int64] | None]:
        """The domain, and the position of every code where they differ."""
        if self._domain is not None:
            return self._domain, None
        assert self._occurring is not None
        labels, position = self._occurring.finish()
        if not labels:
            raise InputError(f"{file}: no item occurs; give --domain FILE with the public list of items.")
        return Domain.of_items(labels, self._name), position


class BasketGatherer:
    """One record per row, its items as codes row after row."""

    def __init__(self, goal: ItemGoal, room: Room = EVERYTHING) -> None:
        self.goal, self._room = goal, room
        self._store = RowStore(np.dtype(goal.code_dtype), room)

    def add(self, codes: Codes, lengths: NDArray[np.int64]) -> None:
        """Append rows."""
        if self.goal.width is not None:  # codes are positions
            lengths, codes = _sorted_rows(lengths, codes, self.goal.width)
        self._store.append(lengths, codes)

    def finish(self, file: str) -> Records:
        """All rows as records."""
        domain, position = self.goal.finish(file)
        if position is None:
            return Records(domain, *self._store.finish())
        ordered = RowStore(np.dtype(index_dtype(domain.width)), self._room)
        for lengths, codes in self._store.drain():
            ordered.append(*_sorted_rows(lengths, position[codes], domain.width))
        return Records(domain, *ordered.finish())


def _sorted_rows(
    lengths: NDArray[np.int64], codes: NDArray[Any], width: int
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Rows with their positions sorted and distinct, as lengths and positions."""
    indptr, positions = sort_rows(row_pointers(lengths), codes, width)
    return np.diff(indptr), positions


def join_records(parts: Iterator[Records], domain: Domain, room: Room) -> Records:
    """The records of all parts, in order, within the memory that there is room for."""
    if domain.is_open:
        return concatenate(list(parts))
    store = RowStore(np.dtype(index_dtype(domain.width)), room)
    for part in parts:
        store.append(part.lengths, part.indices)
    return Records(domain, *store.finish())


class LongGatherer:
    """One row per person and item, a person's rows anywhere in the file; records in order of first appearance."""

    def __init__(self, goal: ItemGoal) -> None:
        self.goal = goal
        self._persons: list[pyarrow.Array] = []
        self._codes: list[NDArray[Any]] = []

    def add(
        self,
        persons: "pyarrow.Array",
        items: "pyarrow.Array",
        place: Place,
        present: NDArray[np.bool_] | None = None,
    ) -> None:
        """Append rows; a null or empty item, or one that is not `present`, tells only that the person exists."""
        persons = checked_persons(persons, place)
        items = empty_as_null(items)
        codes = item_codes(items, self.goal.items, place)
        if present is not None:
            codes[~present] = -1
        # Numbers are kept as they are (4 or 8 bytes per row) and numbered at the end; texts are numbered by chunk.
        numbers = plain_numbers(persons)
        self._persons.append(persons.dictionary_encode() if numbers is None else numbers)
        self._codes.append(codes.astype(self.goal.code_dtype))

    def finish(self, file: str) -> Records:
        """The rows of each person as one record."""
        domain, position = self.goal.finish(file)
        rows, count = _number_persons(self._persons)
        codes = np.concatenate(self._codes) if self._codes else np.empty(0, dtype=np.int32)
        self._codes.clear()
        if len(codes) and codes.min() < 0:
            known = codes >= 0
            rows, codes = rows[known], codes[known]
        if position is not None:
            codes = position.astype(index_dtype(domain.width))[codes]
        indptr = np.zeros(count + 1, dtype=np.int64)
        for start in range(0, len(rows), _PIECE):  # by pieces: bincount makes a copy of 64 bits
            indptr[1:] += np.bincount(rows[start : start + _PIECE], minlength=count)
        np.cumsum(indptr[1:], out=indptr[1:])
        if not bool(np.all(rows[1:] >= rows[:-1])):
            codes = _by_row(rows, codes, count, domain.width)
        return Records(domain, *sort_rows(indptr, codes, domain.width))


def _number_persons(persons: list["pyarrow.Array"]) -> tuple[NDArray[np.int32], int]:
    """The person of every row, numbered by first appearance, and how many there are; empties the list."""
    import pyarrow as pa

    if not persons:
        return np.empty(0, dtype=np.int32), 0
    if all(pa.types.is_integer(part.type) for part in persons):
        if any(part.type == pa.int64() for part in persons):
            persons[:] = [part.cast(pa.int64()) for part in persons]
        encoded = pa.chunked_array(persons).dictionary_encode()
    else:
        texts = [
            part.cast(pa.string()).dictionary_encode() if pa.types.is_integer(part.type) else part
            for part in persons
        ]
        encoded = pa.chunked_array(texts).unify_dictionaries()
    persons.clear()
    count = len(encoded.chunk(0).dictionary)
    rows = np.empty(len(encoded), dtype=np.int32)
    at = 0
    for chunk in encoded.chunks:
        rows[at : at + len(chunk)] = chunk.indices.to_numpy(zero_copy_only=False)
        at += len(chunk)
    del encoded, chunk
    pa.default_memory_pool().release_unused()
    return rows, count


def plain_numbers(persons: "pyarrow.Array") -> "pyarrow.Array | None":
    """Persons as numbers, if all are whole numbers written plainly (no leading zeros), so that none merge."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(persons.type):
        return None if pa.types.is_uint64(persons.type) else _narrow(persons.cast(pa.int64()))
    if not digits_only(persons):
        return None
    try:
        numbers = persons.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    values = numbers.to_numpy(zero_copy_only=False)
    lengths = pc.binary_length(persons).to_numpy(zero_copy_only=False)
    if len(values) and values.min() < 0:
        return None
    plain = np.searchsorted(_POWERS, values, side="right") + 1
    return _narrow(numbers) if np.array_equal(plain, lengths) else None


def _narrow(numbers: "pyarrow.Array") -> "pyarrow.Array":
    """32 bits where they suffice."""
    import pyarrow as pa

    values = numbers.to_numpy(zero_copy_only=False)
    small = not len(values) or (values.min() >= -(2**31) and values.max() < 2**31)
    return numbers.cast(pa.int32()) if small else numbers


def _by_row(rows: NDArray[Any], codes: NDArray[Any], count: int, width: int) -> NDArray[Any]:
    """Codes ordered by row: a counting sort, in time linear in the rows."""
    from scipy.sparse import csr_array

    # The transpose of a matrix with one entry per column: scipy's conversion is a counting sort by row.
    entries = np.arange(len(rows) + 1, dtype=np.int64 if len(rows) >= 2**31 else np.int32)
    by_entry = csr_array((codes, rows.astype(entries.dtype, copy=False), entries), shape=(len(rows), count))
    ordered: NDArray[Any] = by_entry.tocsc().data
    return ordered


class People:
    """The person column of a shape with one record per row, where the user names one.

    Persons must differ, or keep at most `most` of their rows.
    """

    def __init__(self, file: str, name: str | None, most: int | None = None) -> None:
        self._file, self._name, self._most = file, name, most
        self._persons: list[pyarrow.Array] = []

    def add(self, chunk: Chunk) -> None:
        """Note the persons of a chunk."""
        if self._name is not None:
            place = in_column(chunk.place, self._name)
            persons = checked_persons(flat_column(chunk.table, self._name), place)
            self._persons.append(as_texts(persons, place).dictionary_encode())  # chunks may differ in type

    def finish(
        self,
        records: Records,
        shape: Shape,
        *,
        items_assumed_public: bool = False,
        layout: Layout | None = None,
    ) -> tuple[Records, Source]:
        """The records of all chunks that are kept, and how they were read; raises if a person may not occur twice."""
        if self._name is None:
            return records, Source("row", items_assumed_public, shape, layout)
        persons, _ = _number_persons(self._persons)
        if self._most is None:
            self._check_distinct(persons)
            return records, Source("person", items_assumed_public, shape, layout)
        kept = records.take(chosen_rows(persons, self._most))
        return kept, Source("person", items_assumed_public, shape, layout, self._most)

    def _check_distinct(self, persons: NDArray[np.int32]) -> None:
        first = np.unique(persons, return_index=True)[1]
        if len(first) < len(persons):
            repeated = np.ones(len(persons), dtype=bool)
            repeated[first] = False
            raise InputError(
                f"{self._file}: record {int(np.argmax(repeated)) + 1}: the person occurs in an earlier row as well; a"
                " record is a person: merge their rows, use the long shape, or say --rows-per-person K to keep K of"
                " them."
            )


def people_of(columns: Columns, options: ReadOptions) -> People:
    """The persons of a file, as far as the user names their column."""
    if options.person is not None:
        required_column(columns, options.person, "person")
    return People(columns.file, options.person, options.rows_per_person)


def chosen_rows(persons: NDArray[np.int32], most: int) -> NDArray[np.bool_]:
    """Which rows are kept: `most` of every person at most, the first by a fresh secret order.

    The order belongs to rows: one person more or less changes nothing for the rows of others.
    """
    keys = np.frombuffer(secrets.token_bytes(8 * len(persons)), dtype=np.uint64)
    order = np.lexsort((keys, persons))
    counts = np.bincount(persons)
    rank = np.arange(len(persons)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = np.zeros(len(persons), dtype=np.bool_)
    kept[order[rank < most]] = True
    return kept


def checked_persons(persons: "pyarrow.Array", place: Place) -> "pyarrow.Array":
    """A column of persons: texts or whole numbers, none missing; white space around a text is ignored."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = pa.types
    if kinds.is_dictionary(persons.type):
        persons = persons.dictionary_decode()
    if not kinds.is_integer(persons.type):
        persons = empty_as_null(pc.utf8_trim_whitespace(as_texts(persons, place)))
    if persons.null_count:
        row = int(np.argmax(persons.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(f"{place(row)}: the person is missing; every row needs one.")
    return persons
