"""Rows that are being read: kept in memory, and beyond a stated size in a nameless file that is mapped afterwards.

The file is opened without a name (or loses it at once), readable by its owner alone: it is gone when the process ends,
however that happens, and no other process can open it. It is written by `write`, never through a mapping, so that a
full disk is an error and not the end of the process.
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

# The share of the memory limit that rows may take: joining them needs as much again, the fit's own work the rest.
ROWS_SHARE = 0.25
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)B?\s*", re.IGNORECASE)
_READ = 1 << 20  # numbers of a file that are looked at in one go


def bytes_of(size: str | int) -> int:
    """A size as people write it, in bytes.

    >>> bytes_of("1.5GB"), bytes_of("200 MB"), bytes_of(4096)
    (1500000000, 200000000, 4096)
    """
    match = _SIZE.fullmatch(str(size))
    number = 0 if match is None else int(float(match[1]) * _UNITS[match[2].upper()])
    if number < 1:
        raise UsageError(f"`memory` must be a size such as 4GB or 500MB; got {size!r}.")
    return number


@dataclass(frozen=True)
class Room:
    """How much memory rows may take (None: all there is), and the folder of the file for more."""

    limit: int | None = None
    folder: str | None = None

    @classmethod
    def within(cls, memory: str | int | None, folder: str | os.PathLike[str] | None = None) -> "Room":
        """What a limit on the memory of the whole process leaves for rows."""
        limit = None if memory is None else int(ROWS_SHARE * bytes_of(memory))
        return cls(limit, None if folder is None else os.fspath(folder))

    def file(self) -> BinaryIO:
        """A new file without a name."""
        try:
            return tempfile.TemporaryFile(dir=self.folder)  # type: ignore[return-value]
        except OSError as error:
            raise DiskError(
                f"rows beyond the memory limit cannot be kept in {self.folder or tempfile.gettempdir()}"
                f" ({error.strerror}); name another folder with --cache."
            ) from None


EVERYTHING = Room()


class RowStore:
    """Rows as lists of codes, appended part by part; read back part by part, or at the end as two CSR arrays.

    >>> store = RowStore(np.dtype(np.int16), Room(limit=1))
    >>> store.append(np.array([2, 0]), np.array([4, 7], dtype=np.int16))
    >>> store.append(np.array([1]), np.array([3], dtype=np.int16))
    >>> [array.tolist() for array in store.finish()], store.on_disk
    ([[0, 2, 2, 3], [4, 7, 3]], True)
    """

    def __init__(self, dtype: np.dtype[Any], room: Room) -> None:
        self._dtype, self._room = dtype, room
        self._parts: list[tuple[NDArray[np.int64], NDArray[Any]]] = []
        self._held, self._rows, self._codes = 0, 0, 0
        self._sizes: list[tuple[int, int]] = []  # rows and codes of every part on the disk
        self._files: tuple[BinaryIO, BinaryIO] | None = None

    @property
    def on_disk(self) -> bool:
        """Whether rows went to the disk."""
        return self._files is not None

    def append(self, lengths: NDArray[Any], codes: NDArray[Any]) -> None:
        """Append rows: how many codes each has, and the codes row after row."""
        lengths, codes = lengths.astype(np.int64, copy=False), codes.astype(self._dtype, copy=False)
        self._parts.append((lengths, codes))
        self._held += lengths.nbytes + codes.nbytes
        limit = self._room.limit
        if limit is not None and (self.on_disk or self._held > limit):
            self._write()

    def _write(self) -> None:
        """Move the parts in memory to the disk."""
        if self._files is None:
            self._files = (self._room.file(), self._room.file())
            for file in self._files:
                weakref.finalize(self, file.close)  # what was mapped stays mapped
            _put(self._files[0], np.zeros(1, dtype=np.int64))
        for lengths, codes in self._parts:
            ends = self._codes + np.cumsum(lengths)
            _put(self._files[0], ends)
            _put(self._files[1], codes)
            self._sizes.append((len(lengths), len(codes)))
            self._rows, self._codes = self._rows + len(lengths), self._codes + len(codes)
        self._parts.clear()
        self._held = 0

    def drain(self) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
        """The parts in order; each is freed as the next is asked for."""
        if self._files is not None:
            pointers, codes = self._mapped()
            row = 0
            for rows, _ in self._sizes:
                ends = pointers[row : row + rows + 1]
                yield np.diff(ends), codes[int(ends[0]) : int(ends[-1])]
                row += rows
            return
        self._parts.reverse()
        while self._parts:
            yield self._parts.pop()

    def finish(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """`indptr` and the codes of all rows, in memory or mapped from the disk."""
        if self._files is not None:
            return self._mapped()
        indptr = np.zeros(sum(len(lengths) for lengths, _ in self._parts) + 1, dtype=np.int64)
        codes = np.empty(sum(len(codes) for _, codes in self._parts), dtype=self._dtype)
        row = at = 0
        for lengths, part in self.drain():
            np.cumsum(lengths, out=indptr[row + 1 : row + 1 + len(lengths)])
            indptr[row + 1 : row + 1 + len(lengths)] += at
            codes[at : at + len(part)] = part
            row, at = row + len(lengths), at + len(part)
        return indptr, codes

    def _mapped(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        assert self._files is not None
        return _mapped(self._files[0], np.dtype(np.int64)), _mapped(self._files[1], self._dtype)


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DiskError(
            f"the rows beyond the memory limit could not be written ({error.strerror}); name a folder with more room"
            " with --cache."
        ) from None


def _put(file: BinaryIO, numbers: NDArray[Any]) -> None:
    with _disk_errors():
        for start in range(0, len(numbers), _READ):
            file.write(numbers[start : start + _READ].tobytes())


def _mapped(file: BinaryIO, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The numbers in a file, read from it as they are looked at."""
    with _disk_errors():
        file.flush()
    if not os.fstat(file.fileno()).st_size:
        return np.empty(0, dtype=dtype)
    return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype=dtype)
