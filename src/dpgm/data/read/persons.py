"""Whose rows there are: `Persons` are collected while a stream is read, and then rows are grouped or limited."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpgm.data.items import digits_only, empty_as_null
from dpgm.data.open_records import join_records
from dpgm.data.read.person_ids import person_ids
from dpgm.data.records import Records
from dpgm.data.rows import index_dtype, sort_rows, take_rows
from dpgm.data.stores import UNLIMITED, MemoryLimit, NumberStore, RowStore, disk_errors
from dpgm.data.values import Place, as_texts
from dpgm.errors import InputError

_POWERS_OF_TEN = np.array([10**power for power in range(1, 19)], dtype=np.int64)
_PARTITIONS = 64  # files, each read as a whole: so many times the memory limit, persons may take in all
_SPLIT_AT_ONCE = 1 << 16  # rows
_COUNTED_AT_ONCE = 4_000_000  # rows
_TAKEN_AT_ONCE = 1 << 16  # persons


@dataclass(frozen=True)
class PersonRows:
    """All rows of some persons: their numbers in the file, increasing; the person and the code of each.

    Persons are numbered from 0 in order of first appearance. A code may be several numbers (a structured array).
    """

    rows: NDArray[np.int64]
    persons: NDArray[np.int32]
    count: int
    codes: NDArray[Any]


class Persons:
    """A column of persons with a code per row, added chunk by chunk, and given back person by person.

    To save memory, whole numbers are stored as such (4 or 8 bytes per row) and texts as dictionaries per chunk. Beyond
    the memory limit, rows go to nameless temporary files, all rows of a person to the same one, and `groups` reads one
    file after the other.
    """

    def __init__(self, memory_limit: MemoryLimit = UNLIMITED) -> None:
        self._memory_limit = memory_limit
        self._parts: list[tuple[pa.Array, NDArray[Any]]] = []
        self._code_type: np.dtype[Any] = np.dtype(np.int8)
        self._bytes_in_memory = self._rows_on_disk = 0
        self._files: list[tuple[BinaryIO, Any]] = []  # of each partition, the file and the Arrow stream into it

    @property
    def on_disk(self) -> bool:
        """Whether rows were moved to disk."""
        return bool(self._files)

    def add(self, column: pa.Array, where: Place, codes: NDArray[Any] | None = None) -> None:
        """Add texts or whole numbers, none missing; texts are compared as `person_id` says."""
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if not pa.types.is_integer(column.type) or pa.types.is_uint64(column.type):
            column = empty_as_null(person_ids(as_texts(column, where)))
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise InputError(f"{where(row)}: the person is missing; every row needs one.")
        numbers = _plain_numbers(column)
        persons = column.dictionary_encode() if numbers is None else numbers
        codes = np.zeros(len(persons), dtype=np.int8) if codes is None else codes
        self._code_type = codes.dtype
        self._parts.append((persons, codes))
        self._bytes_in_memory += persons.nbytes + codes.nbytes
        limit = self._memory_limit.limit
        if limit is not None and self._bytes_in_memory > limit:
            self._move_to_disk()

    def groups(self) -> Iterator[PersonRows]:
        """All rows, of every person together; frees them."""
        if not self.on_disk:
            codes = np.concatenate([codes for _, codes in self._parts])
            persons, count = self._numbered()
            yield PersonRows(np.arange(len(persons)), persons, count, codes)
            return
        self._move_to_disk()
        for file, writer in self._files:
            with disk_errors():
                writer.close()
                file.seek(0)
            with pa.ipc.open_stream(file) as stream:
                table = stream.read_all().combine_chunks()
            file.close()
            if not table.num_rows:
                continue
            encoded = _single(table["person"]).dictionary_encode()
            rows, codes = _single(table["row"]).to_numpy(), _from_arrow(_single(table["code"]), self._code_type)
            yield PersonRows(rows, encoded.indices.to_numpy(), len(encoded.dictionary), codes)

    def _numbered(self) -> tuple[NDArray[np.int32], int]:
        """The number of each row's person, and how many persons there are; frees the column."""
        parts = [persons for persons, _ in self._parts]
        self._parts.clear()
        if all(pa.types.is_integer(part.type) for part in parts):
            wide = any(part.type == pa.int64() for part in parts)
            parts = [part.cast(pa.int64()) for part in parts] if wide else parts
            encoded = pa.chunked_array(parts).dictionary_encode()
        else:
            encoded = pa.chunked_array([_as_dictionary(part) for part in parts]).unify_dictionaries()
        parts.clear()
        count = len(encoded.chunk(0).dictionary)
        rows = np.empty(len(encoded), dtype=np.int32)
        at = 0
        for chunk in encoded.chunks:
            rows[at : at + len(chunk)] = chunk.indices.to_numpy(zero_copy_only=False)
            at += len(chunk)
        del encoded, chunk
        pa.default_memory_pool().release_unused()
        return rows, count

    def _move_to_disk(self) -> None:
        """Split the rows in memory by the person's hash, which is secret to this process, and write each share."""
        parts, self._parts, self._bytes_in_memory = self._parts, [], 0
        parts.reverse()
        while parts:
            some = [parts.pop()]
            while parts and sum(len(codes) for _, codes in some) < _SPLIT_AT_ONCE:
                some.append(parts.pop())
            codes = np.concatenate([codes for _, codes in some])
            persons = pa.chunked_array([_as_dictionary(part) for part, _ in some]).unify_dictionaries()
            encoded = pa.concat_arrays(persons.chunks)
            shares = np.array([hash(text) % _PARTITIONS for text in encoded.dictionary.to_pylist()], dtype=np.int8)
            share = shares[encoded.indices.to_numpy()]
            order = np.argsort(share, kind="stable")
            texts = encoded.dictionary.take(encoded.indices.take(pa.array(order)))
            rows = pa.array(self._rows_on_disk + order)
            batch = pa.record_batch([texts, rows, _as_arrow(codes[order])], names=["person", "row", "code"])
            ends = np.searchsorted(share[order], np.arange(_PARTITIONS + 1))
            self._write(batch, ends.tolist())
            self._rows_on_disk += len(codes)

    def _write(self, batch: Any, ends: list[int]) -> None:
        if not self._files:
            for _ in range(_PARTITIONS):
                file = self._memory_limit.temporary_file()
                self._files.append((file, pa.ipc.new_stream(file, batch.schema)))
        with disk_errors():
            for (_, writer), first, last in zip(self._files, ends[:-1], ends[1:], strict=True):
                if last > first:
                    writer.write_batch(batch.slice(first, last - first))


def _as_arrow(codes: NDArray[Any]) -> pa.Array:
    """Numbers, or several per row as bytes."""
    if codes.dtype.names is None:
        return pa.array(codes)
    width, data = codes.dtype.itemsize, pa.py_buffer(np.ascontiguousarray(codes))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(codes), [None, data])


def _from_arrow(column: pa.Array, code_type: np.dtype[Any]) -> NDArray[Any]:
    """The inverse of `_as_arrow`."""
    if code_type.names is None:
        codes: NDArray[Any] = column.to_numpy()
        return codes
    data = column.buffers()[1]
    return np.frombuffer(data, code_type, count=len(column), offset=column.offset * code_type.itemsize)


def in_file_order(records: Records, first_rows: NumberStore, memory_limit: MemoryLimit) -> Records:
    """The records of persons in order of the row in which each first appears."""
    order = NumberStore(np.complex128, memory_limit.split(4))
    rows = first_rows.finish()
    for start in range(0, len(rows), _SPLIT_AT_ONCE):
        part = rows[start : start + _SPLIT_AT_ONCE]
        order.append(part + 1j * np.arange(start, start + len(part)))
    sorted_rows = order.finish()
    sorted_rows.sort()  # mapped from disk, this takes no memory
    starts = range(0, len(records), _TAKEN_AT_ONCE)
    parts = (records.take(sorted_rows[at : at + _TAKEN_AT_ONCE].imag.astype(np.int64)) for at in starts)
    return join_records(parts, records.domain, memory_limit)


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _as_dictionary(persons: pa.Array) -> pa.Array:
    """Persons as texts with a dictionary, also if they are numbers."""
    return persons.cast(pa.string()).dictionary_encode() if pa.types.is_integer(persons.type) else persons


def _plain_numbers(persons: pa.Array) -> pa.Array | None:
    """Persons as integers of 32 or 64 bits, if all are integers without leading zeros (01 and 1 must not merge)."""
    if not pa.types.is_integer(persons.type) and not digits_only(persons):
        return None
    try:
        numbers = persons.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    values = numbers.to_numpy(zero_copy_only=False)
    if not pa.types.is_integer(persons.type):
        digits = np.searchsorted(_POWERS_OF_TEN, values, side="right") + 1
        lengths = pc.binary_length(persons).to_numpy(zero_copy_only=False)
        if values.min() < 0 or not np.array_equal(digits, lengths):
            return None
    small = not len(values) or (values.min() >= -(2**31) and values.max() < 2**31)
    return numbers.cast(pa.int32()) if small else numbers


def limit_rows(persons: Persons, rows: int, most: int | None, name: str) -> NDArray[np.bool_] | None:
    """A mask that keeps at most `most` rows of every person, chosen at random; None if that is all.

    Without a limit, two rows of one person are refused.
    """
    kept = np.zeros(rows, dtype=np.bool_)
    for group in persons.groups():
        if most is None:
            kept[group.rows[np.unique(group.persons, return_index=True)[1]]] = True
        else:
            kept[group.rows] = _sample_rows(group.persons, most)
    if kept.all():
        return None
    if most is None:
        raise InputError(
            f"{name}: record {int(np.argmin(kept)) + 1}: the person occurs in an earlier row as well; a"
            " record is a person: merge their rows, use the long shape, or say `rows_per_person=K` to keep K of"
            " them."
        )
    return kept


def _sample_rows(persons: NDArray[np.int32], most: int) -> NDArray[np.bool_]:
    """A mask that keeps at most `most` random rows of every person: those with the lowest of fresh secret keys.

    Keys are drawn per row: one person more or less changes nothing for the rows of others.
    """
    keys = np.frombuffer(secrets.token_bytes(8 * len(persons)), dtype=np.uint64)
    order = np.lexsort((keys, persons))
    counts = np.bincount(persons)
    rank = np.arange(len(persons)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = np.zeros(len(persons), dtype=np.bool_)
    kept[order[rank < most]] = True
    return kept


# -- rows grouped by person ------------------------------------------------------------------------------------------


def rows_of_persons(persons: Persons, width: int, limit: MemoryLimit) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """CSR arrays of one row per person with the codes below `width` of all rows, in the order of first appearance."""
    groups = RowStore(np.dtype(index_dtype(width)), limit.split(2))
    first_rows = NumberStore(np.complex128, limit.split(4))  # the row of each, and its number among the groups
    whole = not persons.on_disk
    for group in persons.groups():
        rows, codes = group.persons, group.codes
        first = group.rows[np.unique(rows, return_index=True)[1]] if not whole else None
        if codes.min() < 0:
            known = codes >= 0
            rows, codes = rows[known], codes[known]
        indptr, codes = _group_by_row(rows, codes, group.count, width)
        if first is None:
            return indptr, codes
        first_rows.append(first + 1j * np.arange(len(first_rows), len(first_rows) + group.count))
        groups.append(np.diff(indptr), codes)
    order, (indptr, codes) = first_rows.finish(), groups.finish()
    order.sort()  # by the first row; mapped from disk, this takes no memory
    ordered = RowStore(np.dtype(index_dtype(width)), limit.split(2))
    for start in range(0, len(order), _TAKEN_AT_ONCE):
        pointers, taken = take_rows(indptr, codes, order[start : start + _TAKEN_AT_ONCE].imag.astype(np.int64))
        ordered.append(np.diff(pointers), taken)
    return ordered.finish()


def _group_by_row(
    rows: NDArray[np.int32], codes: NDArray[Any], count: int, width: int
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """CSR arrays of `count` rows, from codes in any order and the row of each; linear time (counting sort)."""
    indptr = np.zeros(count + 1, dtype=np.int64)
    for start in range(0, len(rows), _COUNTED_AT_ONCE):  # bincount copies its input to 64 bits
        indptr[1:] += np.bincount(rows[start : start + _COUNTED_AT_ONCE], minlength=count)
    np.cumsum(indptr[1:], out=indptr[1:])
    if not bool(np.all(rows[1:] >= rows[:-1])):
        from scipy.sparse import csr_array

        # A matrix with one entry per row; its conversion to CSC is a counting sort by column.
        entries = np.arange(len(rows) + 1, dtype=np.int64 if len(rows) >= 2**31 else np.int32)
        by_entry = csr_array((codes, rows.astype(entries.dtype, copy=False), entries), shape=(len(rows), count))
        codes = by_entry.tocsc().data
    return sort_rows(indptr, codes, width)
