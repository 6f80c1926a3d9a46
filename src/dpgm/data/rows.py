"""Rows of a sparse matrix (CSR): where every row starts, and the positions of all rows one after the other."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Positions gathered or sorted at once, so that temporaries stay far smaller than the records.
_PIECE = 1_000_000


def index_dtype(width: int) -> type[np.int16] | type[np.int32]:
    """The smallest of int16 and int32 that holds every position of a domain."""
    return np.int16 if width <= np.iinfo(np.int16).max else np.int32


def row_pointers(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """CSR row pointers from row lengths: where every row starts in a flat array, and where the last one ends.

    >>> row_pointers(np.array([2, 0, 1])).tolist()
    [0, 2, 2, 3]
    """
    pointers = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=pointers[1:])
    return pointers


def pieces_of(indptr: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Row ranges of about `_PIECE` positions (at least one row)."""
    first, rows = 0, len(indptr) - 1
    while first < rows:
        last = int(np.searchsorted(indptr, indptr[first] + _PIECE, side="right")) - 1
        last = min(max(last, first + 1), rows)
        yield first, last
        first = last


def take_rows(
    indptr: NDArray[np.int64], values: NDArray[Any], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """CSR arrays of some rows of a CSR matrix, in the given order."""
    starts = indptr[rows]
    lengths = indptr[rows + 1] - starts
    pointers = row_pointers(lengths)
    taken = np.empty(int(pointers[-1]), dtype=values.dtype)
    shifts = starts - pointers[:-1]
    for first, last in pieces_of(pointers):
        low, high = int(pointers[first]), int(pointers[last])
        where = np.arange(low, high)
        where += np.repeat(shifts[first:last], lengths[first:last])
        np.take(values, where, out=taken[low:high], mode="clip")
    return pointers, taken


def sort_rows(
    indptr: NDArray[np.int64], positions: NDArray[Any], width: int
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """CSR arrays with each row's positions sorted and distinct, in the domain's integer type."""
    counts = np.diff(indptr)
    parts = []
    for first, last in pieces_of(indptr):
        low = int(indptr[first])
        piece = positions[low : int(indptr[last])]
        if is_sorted(piece, indptr[first:last] - low):
            parts.append(piece.astype(index_dtype(width)))
            continue
        row = np.repeat(np.arange(last - first, dtype=np.int64), counts[first:last])
        row, column = np.divmod(sorted_distinct(row * width + piece), width)
        counts[first:last] = np.bincount(row, minlength=last - first)
        parts.append(column.astype(index_dtype(width)))
    return row_pointers(counts), np.concatenate(parts) if parts else np.empty(0, dtype=index_dtype(width))


def grouped_rows(groups: NDArray[Any], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of each of `count` groups, concatenated, and row pointers; linear time (counting sort).

    >>> [array.tolist() for array in grouped_rows(np.array([1, 0, 1, 0]), 2)]
    [[1, 3, 0, 2], [0, 2, 4]]
    """
    indptr = np.zeros(count + 1, dtype=np.int64)
    for start in range(0, len(groups), _PIECE):  # bincount copies its input to 64 bits
        indptr[1:] += np.bincount(groups[start : start + _PIECE], minlength=count)
    np.cumsum(indptr[1:], out=indptr[1:])
    rows: Any = np.arange(len(groups), dtype=np.int64)
    if bool(np.all(groups[1:] >= groups[:-1])):
        return rows, indptr
    from scipy.sparse import csr_array

    # A matrix with one entry per row; its conversion to CSC is a counting sort by column.
    entries = np.arange(len(groups) + 1, dtype=np.int64 if len(groups) >= 2**31 else np.int32)
    matrix = csr_array((rows, groups.astype(entries.dtype, copy=False), entries), shape=(len(groups), count))
    grouped: NDArray[np.int64] = matrix.tocsc().data
    return grouped, indptr


def is_sorted(positions: NDArray[Any], starts: NDArray[np.int64]) -> bool:
    """Whether positions increase strictly within each of the concatenated rows that begin at `starts`."""
    increasing = positions[1:] > positions[:-1]
    increasing[starts[(starts > 0) & (starts < len(positions))] - 1] = True  # a new row may start with any position
    return bool(increasing.all())


def sorted_distinct(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The distinct keys in increasing order, many times faster than `np.unique`, which hashes."""
    keys = np.sort(keys)
    is_first = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    return keys[is_first]
