"""Stores for rows while a file is read: `RowStore` for their item codes, `Persons` for the person of each.

Codes are stored in memory, and beyond a stated size in a temporary file that is memory-mapped afterwards. The file has
no name and is readable by its owner alone: it disappears when the process ends, however that happens, and no other
process can open it. It is written by `write`, never through the mapping, so that a full disk raises an error instead
of killing the process.
"""

import mmap
import os
import re
import secrets
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpgm.data.domain import Domain
from dpgm.data.items import digits_only, empty_as_null
from dpgm.data.read.person_ids import person_ids
from dpgm.data.records import Records, concatenate, index_dtype
from dpgm.data.values import Place, as_texts
from dpgm.errors import DiskError, InputError, UsageError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)B?\s*", re.IGNORECASE)
_WRITTEN_AT_ONCE = 1 << 20  # numbers
_POWERS_OF_TEN = np.array([10**power for power in range(1, 19)], dtype=np.int64)


def bytes_of(size: str | int) -> int:
    """A size such as 4GB in bytes.

    >>> bytes_of("1.5GB"), bytes_of("200 MB"), bytes_of(4096)
    (1500000000, 200000000, 4096)
    """
    match = _SIZE.fullmatch(str(size))
    number = 0 if match is None else int(float(match[1]) * _UNITS[match[2].upper()])
    if number < 1:
        raise UsageError(f"`memory` must be a size such as 4GB or 500MB; got {size!r}.")
    return number


@dataclass(frozen=True)
class MemoryLimit:
    """How many bytes of memory rows may take (None: unlimited), and the folder of the temporary file for more."""

    limit: int | None = None
    folder: str | os.PathLike[str] | None = None

    def temporary_file(self) -> BinaryIO:
        """A new file without a name."""
        try:
            return tempfile.TemporaryFile(dir=self.folder)  # type: ignore[return-value]
        except OSError as error:
            raise DiskError(
                f"rows beyond the memory limit cannot be kept in {self.folder or tempfile.gettempdir()}"
                f" ({error.strerror}); name another folder with `cache`."
            ) from None


class RowStore:
    """Rows of codes, appended part by part; read back part by part, or all together as two CSR arrays.

    >>> store = RowStore(np.dtype(np.int16), MemoryLimit(limit=1))
    >>> store.append(np.array([2, 0]), np.array([4, 7], dtype=np.int16))
    >>> store.append(np.array([1]), np.array([3], dtype=np.int16))
    >>> [array.tolist() for array in store.finish()], store.on_disk
    ([[0, 2, 2, 3], [4, 7, 3]], True)
    """

    def __init__(self, dtype: np.dtype[Any], memory_limit: MemoryLimit) -> None:
        self._dtype, self._memory_limit = dtype, memory_limit
        self._parts: list[tuple[NDArray[np.int64], NDArray[Any]]] = []
        self._bytes_in_memory = self._codes_on_disk = 0
        self._rows_on_disk: list[int] = []  # of each part
        self._files: tuple[BinaryIO, BinaryIO] | None = None  # row pointers, codes

    @property
    def on_disk(self) -> bool:
        """Whether rows were moved to disk."""
        return self._files is not None

    def append(self, lengths: NDArray[Any], codes: NDArray[Any]) -> None:
        """Append rows, given as the number of codes of each row and the codes of all rows."""
        lengths, codes = lengths.astype(np.int64, copy=False), codes.astype(self._dtype, copy=False)
        self._parts.append((lengths, codes))
        self._bytes_in_memory += lengths.nbytes + codes.nbytes
        limit = self._memory_limit.limit
        if limit is not None and (self.on_disk or self._bytes_in_memory > limit):
            self._move_to_disk()

    def _move_to_disk(self) -> None:
        if self._files is None:
            self._files = (self._memory_limit.temporary_file(), self._memory_limit.temporary_file())
            for file in self._files:
                weakref.finalize(self, file.close)  # arrays mapped from it stay valid
            _write(self._files[0], np.zeros(1, dtype=np.int64))
        for lengths, codes in self._parts:
            _write(self._files[0], self._codes_on_disk + np.cumsum(lengths))
            _write(self._files[1], codes)
            self._rows_on_disk.append(len(lengths))
            self._codes_on_disk += len(codes)
        self._parts.clear()
        self._bytes_in_memory = 0

    def drain(self) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
        """Yield the parts in order and free each before the next."""
        if self.on_disk:
            pointers, codes = self.finish()
            row = 0
            for rows in self._rows_on_disk:
                ends = pointers[row : row + rows + 1]
                yield np.diff(ends), codes[int(ends[0]) : int(ends[-1])]
                row += rows
            return
        self._parts.reverse()
        while self._parts:
            yield self._parts.pop()

    def finish(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The row pointers and the codes of all rows, in memory or mapped from disk."""
        if self._files is not None:
            return _mapped(self._files[0], np.dtype(np.int64)), _mapped(self._files[1], self._dtype)
        indptr = np.zeros(sum(len(lengths) for lengths, _ in self._parts) + 1, dtype=np.int64)
        codes = np.empty(sum(len(codes) for _, codes in self._parts), dtype=self._dtype)
        row = at = 0
        for lengths, part in self.drain():
            np.cumsum(lengths, out=indptr[row + 1 : row + 1 + len(lengths)])
            indptr[row + 1 : row + 1 + len(lengths)] += at
            codes[at : at + len(part)] = part
            row, at = row + len(lengths), at + len(part)
        return indptr, codes


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DiskError(
            f"the rows beyond the memory limit could not be written ({error.strerror}); name a folder with more room"
            " with `cache`."
        ) from None


def _write(file: BinaryIO, numbers: NDArray[Any]) -> None:
    with _disk_errors():
        for start in range(0, len(numbers), _WRITTEN_AT_ONCE):
            file.write(numbers[start : start + _WRITTEN_AT_ONCE].tobytes())


def _mapped(file: BinaryIO, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The numbers in a file, memory-mapped."""
    with _disk_errors():
        file.flush()
    if not os.fstat(file.fileno()).st_size:
        return np.empty(0, dtype=dtype)
    return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype=dtype)


def join_records(parts: Iterator[Records], domain: Domain, memory_limit: MemoryLimit) -> Records:
    """The records of all parts, in order; on disk where they exceed the memory limit."""
    if domain.is_open:
        return concatenate(list(parts))
    store = RowStore(np.dtype(index_dtype(domain.width)), memory_limit)
    for part in parts:
        store.append(part.lengths, part.indices)
    return Records(domain, *store.finish())


class Persons:
    """A column of persons, added chunk by chunk; at the end persons are numbered in order of first appearance.

    To save memory, whole numbers are stored as such (4 or 8 bytes per row) and texts as dictionaries per chunk.
    """

    def __init__(self) -> None:
        self._parts: list[pa.Array] = []

    def add(self, column: pa.Array, where: Place) -> None:
        """Add texts or whole numbers, none missing; texts are compared as `person_id` says."""
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if not pa.types.is_integer(column.type) or pa.types.is_uint64(column.type):
            column = empty_as_null(person_ids(as_texts(column, where)))
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise InputError(f"{where(row)}: the person is missing; every row needs one.")
        numbers = _plain_numbers(column)
        self._parts.append(column.dictionary_encode() if numbers is None else numbers)

    def finish(self) -> tuple[NDArray[np.int32], int]:
        """The number of each row's person, and how many persons there are; frees the column."""
        parts, self._parts = self._parts, []
        if all(pa.types.is_integer(part.type) for part in parts):
            wide = any(part.type == pa.int64() for part in parts)
            parts = [part.cast(pa.int64()) for part in parts] if wide else parts
            encoded = pa.chunked_array(parts).dictionary_encode()
        else:
            texts = [
                part.cast(pa.string()).dictionary_encode() if pa.types.is_integer(part.type) else part
                for part in parts
            ]
            encoded = pa.chunked_array(texts).unify_dictionaries()
            texts.clear()
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


def limit_rows_per_person(records: Records, persons: Persons, most: int | None, file: str) -> Records:
    """At most `most` rows of every person, chosen at random; without a limit, two rows of one person are refused."""
    rows, _ = persons.finish()
    if most is not None:
        return records.take(_sample_rows(rows, most))
    first = np.unique(rows, return_index=True)[1]
    if len(first) < len(rows):
        repeated = np.ones(len(rows), dtype=bool)
        repeated[first] = False
        raise InputError(
            f"{file}: record {int(np.argmax(repeated)) + 1}: the person occurs in an earlier row as well; a"
            " record is a person: merge their rows, use the long shape, or say `rows_per_person=K` to keep K of"
            " them."
        )
    return records


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
