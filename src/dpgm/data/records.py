"""Records: a frozen sparse binary matrix (CSR) with its public domain."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain
from dpgm.errors import UsageError


def index_dtype(width: int) -> type[np.int16] | type[np.int32]:
    """The smallest of int16 and int32 that holds every position of a domain."""
    return np.int16 if width <= np.iinfo(np.int16).max else np.int32


@dataclass(frozen=True, eq=False)
class Records:
    """N records as sorted, distinct positions of the domain's binary vector.

    `indptr` (N + 1, int64) and `indices` (int16 or int32) are read-only; slicing shares memory.
    """

    domain: Domain
    indptr: NDArray[np.int64]
    indices: NDArray[Any]

    def __post_init__(self) -> None:
        self.indptr.flags.writeable = False
        self.indices.flags.writeable = False

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def width(self) -> int:
        """m: positions of the binary vector."""
        return self.domain.width

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Ones of every record."""
        return np.diff(self.indptr)

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]], domain: Domain) -> "Records":
        """Records from lists of positions; duplicates within a row count once."""
        distinct = [np.unique(np.asarray(row, dtype=np.int64)) for row in rows]
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in distinct], out=indptr[1:])
        joined = np.concatenate(distinct) if distinct else np.empty(0, dtype=np.int64)
        if len(joined) and (joined.min() < 0 or joined.max() >= domain.width):
            raise UsageError(f"positions must lie in [0, {domain.width}).")
        return cls(domain, indptr, joined.astype(index_dtype(domain.width)))

    @classmethod
    def from_dense(cls, matrix: NDArray[np.generic], domain: Domain) -> "Records":
        """Records from a dense (N, m) matrix; non-zero means present."""
        rows, columns = np.nonzero(matrix)
        indptr = np.zeros(len(matrix) + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=len(matrix)), out=indptr[1:])
        return cls(domain, indptr, columns.astype(index_dtype(domain.width)))

    def rows(self, start: int, stop: int) -> "Records":
        """Records [start, stop), sharing memory."""
        start, stop, _ = slice(start, stop).indices(len(self))
        stop = max(start, stop)
        pointers = self.indptr[start : stop + 1]
        return Records(self.domain, pointers - pointers[0], self.indices[pointers[0] : pointers[-1]])

    def take(self, rows: NDArray[np.integer]) -> "Records":
        """The records at `rows`, in that order."""
        starts = self.indptr[rows]
        lengths = self.indptr[rows + 1] - starts
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(lengths, out=indptr[1:])
        where = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], lengths)
        return Records(self.domain, indptr, self.indices[where])

    def chunks(self, size: int) -> Iterator["Records"]:
        """Consecutive row ranges of at most `size` records."""
        for start in range(0, len(self), size):
            yield self.rows(start, min(start + size, len(self)))

    def to_dense(self, dtype: type[np.generic] = np.float32) -> NDArray[np.generic]:
        """A dense (N, m) copy; for small data and tests."""
        dense = np.zeros((len(self), self.width), dtype=dtype)
        dense[np.repeat(np.arange(len(self)), self.lengths), self.indices] = 1
        return dense

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Records)
            and self.domain == other.domain
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.indices, other.indices)
        )

    __hash__ = None  # type: ignore[assignment]


def concatenate(parts: Sequence[Records]) -> Records:
    """The records of all parts, in order; they must share one domain."""
    domain = parts[0].domain
    if any(part.domain != domain for part in parts):
        raise UsageError("records of different domains cannot be concatenated.")
    lengths = np.concatenate([part.lengths for part in parts])
    indptr = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=indptr[1:])
    return Records(domain, indptr, np.concatenate([part.indices for part in parts]))
