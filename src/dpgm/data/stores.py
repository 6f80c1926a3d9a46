"""Stores for the rows of a file: `NumberStore` for one column of numbers, `RowStore` for rows of codes.

Numbers are stored in memory, and beyond a stated size in a temporary file that is memory-mapped afterwards. The file
has no name and is readable by its owner alone: it disappears when the process ends, however that happens, and no other
process can open it. It is written by `write`, and the mapping changes only what has been written, so that a full disk
raises an error instead of killing the process.
"""

import mmap
import os
import re
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dpgm.errors import DiskError, UsageError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)B?\s*", re.IGNORECASE)
# Bytes of anonymous memory of a process with its libraries (190 MB) and of the part of a file that it has at hand; rows
# and the fit come on top. A fit of 2,000 rows x 8 columns without a mixture took 264 MB.
PROCESS_BYTES = 300_000_000
_WRITTEN_AT_ONCE = 1 << 20  # numbers


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


def rows_share(memory: int) -> int:
    """How many of the bytes that a process may take are for rows: a quarter of what its libraries leave.

    Copies of the rows, made while they are joined, sorted and counted, and the fit take the rest.
    """
    return max(0, memory - PROCESS_BYTES) // 4


def size_text(size: float) -> str:
    """A number of bytes for messages.

    >>> size_text(1_540_000_000), size_text(728_000_000)
    ('1.5 GB', '728 MB')
    """
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


@dataclass(frozen=True)
class MemoryLimit:
    """How many bytes of memory rows may take (None: unlimited), and the folder of the temporary file for more."""

    limit: int | None = None
    folder: str | os.PathLike[str] | None = None

    def split(self, stores: int) -> "MemoryLimit":
        """The limit of each of several stores that together stay within this one."""
        return self if self.limit is None else MemoryLimit(self.limit // max(stores, 1), self.folder)

    def temporary_file(self) -> BinaryIO:
        """A new file without a name."""
        try:
            return tempfile.TemporaryFile(dir=self.folder)  # type: ignore[return-value]
        except OSError as error:
            raise DiskError(
                f"rows beyond the memory limit cannot be kept in {self.folder or tempfile.gettempdir()}"
                f" ({error.strerror}); name another folder with `cache`."
            ) from None


UNLIMITED = MemoryLimit()


class NumberStore:
    """Numbers, appended part by part, that become one array: in memory, or mapped from disk beyond the limit.

    >>> store = NumberStore(np.dtype(np.int64), MemoryLimit(limit=1))
    >>> store.append(np.array([3, 1]))
    >>> store.append(np.array([2]))
    >>> store.finish().tolist(), store.on_disk
    ([3, 1, 2], True)
    """

    def __init__(self, dtype: Any, memory_limit: MemoryLimit) -> None:
        self._dtype, self._memory_limit = np.dtype(dtype), memory_limit
        self._parts: list[NDArray[Any]] = []
        self._bytes_in_memory = self._count = 0
        self._file: BinaryIO | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def on_disk(self) -> bool:
        """Whether numbers were moved to disk."""
        return self._file is not None

    def append(self, numbers: NDArray[Any]) -> None:
        """Append numbers, which are kept as they are and must not change any more."""
        numbers = numbers.astype(self._dtype, copy=False)
        self._parts.append(numbers)
        self._bytes_in_memory += numbers.nbytes
        self._count += len(numbers)
        limit = self._memory_limit.limit
        if limit is not None and (self.on_disk or self._bytes_in_memory > limit):
            self._move_to_disk()

    def _move_to_disk(self) -> None:
        if self._file is None:
            self._file = self._memory_limit.temporary_file()
            weakref.finalize(self, self._file.close)  # arrays mapped from it stay valid
        for part in self._parts:
            for start in range(0, len(part), _WRITTEN_AT_ONCE):
                with disk_errors():
                    self._file.write(part[start : start + _WRITTEN_AT_ONCE].tobytes())
        self._parts.clear()
        self._bytes_in_memory = 0

    def finish(self) -> NDArray[Any]:
        """All numbers in one array; from disk, the array may be changed as well, but the file only once."""
        if self._file is not None:
            with disk_errors():
                self._file.flush()
            if not self._count:
                return np.empty(0, dtype=self._dtype)
            return np.frombuffer(mmap.mmap(self._file.fileno(), 0), dtype=self._dtype)
        if len(self._parts) == 1:
            return self._parts.pop()
        numbers = np.empty(self._count, dtype=self._dtype)
        at = 0
        self._parts.reverse()
        while self._parts:  # each is freed before the next is copied
            part = self._parts.pop()
            numbers[at : at + len(part)] = part
            at += len(part)
        return numbers


class RowStore:
    """Rows of codes, appended part by part; read back part by part, or all together as two CSR arrays.

    >>> store = RowStore(np.dtype(np.int16), MemoryLimit(limit=1))
    >>> store.append(np.array([2, 0]), np.array([4, 7], dtype=np.int16))
    >>> store.append(np.array([1]), np.array([3], dtype=np.int16))
    >>> [array.tolist() for array in store.finish()], store.on_disk
    ([[0, 2, 2, 3], [4, 7, 3]], True)
    """

    def __init__(self, dtype: np.dtype[Any], memory_limit: MemoryLimit) -> None:
        half = memory_limit.split(2)
        self._pointers, self._codes = NumberStore(np.int64, half), NumberStore(dtype, half)
        self._rows: list[int] = []  # of each part

    @property
    def on_disk(self) -> bool:
        """Whether rows were moved to disk."""
        return self._codes.on_disk or self._pointers.on_disk

    def append(self, lengths: NDArray[Any], codes: NDArray[Any]) -> None:
        """Append rows, given as the number of codes of each row and the codes of all rows."""
        if not self._rows:
            self._pointers.append(np.zeros(1, dtype=np.int64))
        self._pointers.append(len(self._codes) + np.cumsum(lengths, dtype=np.int64))
        self._codes.append(codes)
        self._rows.append(len(lengths))

    def drain(self) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
        """Yield the parts in order."""
        pointers, codes = self.finish()
        row = 0
        for rows in self._rows:
            ends = pointers[row : row + rows + 1]
            yield np.diff(ends), codes[int(ends[0]) : int(ends[-1])]
            row += rows

    def finish(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The row pointers and the codes of all rows, in memory or mapped from disk."""
        return self._pointers.finish() if self._rows else np.zeros(1, dtype=np.int64), self._codes.finish()


@contextmanager
def disk_errors() -> Iterator[None]:
    """Turn errors of a full or broken disk into one sentence."""
    try:
        yield
    except OSError as error:
        raise DiskError(
            f"the rows beyond the memory limit could not be written ({error.strerror}); name a folder with more room"
            " with `cache`."
        ) from None
