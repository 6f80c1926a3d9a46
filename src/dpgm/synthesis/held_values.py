"""Which records hold which of the values to be discovered, counted column by column in bounded memory.

A number may have as many values as there are records. They are not numbered: each record adds a pair of a value and
what it adds to it, and sorted pairs give the sums. Pairs are kept on disk where the records are, and sorted there.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TypeAlias, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.open_columns import NumberColumn, OpenColumn
from dpgm.data.open_records import OpenRecords
from dpgm.data.stores import NumberStore
from dpgm.mechanisms.randomness import Randomness
from dpgm.mechanisms.threshold import Value, weighted

Bounds: TypeAlias = dict[str, tuple[float, float]]  # low and high in ticks, by field name
_SUMMED_AT_ONCE = 1 << 20  # pairs


class HeldValues:
    """The values that records hold, of the fields to be discovered; numbers within `ranges` only (see `Held`)."""

    def __init__(self, records: OpenRecords, domain: Domain, ranges: Bounds) -> None:
        self._records = records
        self._names = [field.name for field in domain.fields]
        self._ranges = [ranges.get(name) for name in self._names]

    def sums(self, cap: int, randomness: Randomness) -> tuple[Sequence[Value], Tensor]:
        """The vocabulary, and the exact sums of its values in steps; a record adds to `cap` of its values at most."""
        columns, limit = self._records.columns, self._records.memory_limit.split(3 * len(self._names))
        labels = [_labels(column) for column in columns]
        totals = [np.zeros(len(known), dtype=np.int64) for known in labels]
        pairs = [NumberStore(np.complex128, limit) for _ in columns]
        for piece in self._records.pieces():
            held = [column.held(bounds) for column, bounds in zip(piece.columns, self._ranges, strict=True)]
            weights = _weights([rows for rows, _ in held], len(piece), cap, randomness)
            for column, (_, values), weight, total, store in zip(
                columns, held, weights, totals, pairs, strict=True
            ):
                if isinstance(column, NumberColumn):
                    store.append(values[weight > 0] + 1j * weight[weight > 0])
                else:  # whole numbers far below 2^53: the floating-point sums are exact
                    total += np.bincount(values, weight, minlength=len(total)).astype(np.int64)
        vocabulary, sums = ValueSequence(), NumberStore(np.int64, limit)
        for name, column, known, total, store in zip(self._names, columns, labels, totals, pairs, strict=True):
            if isinstance(column, NumberColumn):
                numbers = NumberStore(np.float64, limit)
                for distinct, added in _sums_of(store):
                    numbers.append(distinct)
                    sums.append(added)
                vocabulary.add(name, numbers.finish())
            else:
                vocabulary.add(name, known)
                sums.append(total)
        return vocabulary, torch.from_numpy(sums.finish())


class ValueSequence(Sequence[Value]):
    """The values of all fields as one sequence: labels, or numbers in an array that may be mapped from disk."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, Sequence[str] | NDArray[np.float64]]] = []
        self._starts: list[int] = []
        self._count = 0

    def add(self, name: str, values: Sequence[str] | NDArray[np.float64]) -> None:
        """Append the values of a field."""
        self._parts.append((name, values))
        self._starts.append(self._count)
        self._count += len(values)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Value: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Value]: ...

    def __getitem__(self, at: int | slice) -> Value | Sequence[Value]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        if not 0 <= at < len(self):
            raise IndexError(at)
        part = bisect_right(self._starts, at) - 1
        name, values = self._parts[part]
        value = values[at - self._starts[part]]
        if isinstance(value, str):
            return name, value
        return name, int(value) if value == int(value) else float(value)


def _labels(column: OpenColumn) -> Sequence[str]:
    """The labels to be discovered of a column."""
    return () if column.vocabulary is None else column.vocabulary.labels


def _weights(
    rows: Sequence[NDArray[np.int64]], count: int, cap: int, randomness: Randomness
) -> list[NDArray[np.float64]]:
    """What every value of every column adds, in steps; 0 for those that fall out of a long record."""
    row = np.concatenate(rows)
    in_order = np.arange(len(row)) if sum(len(part) > 0 for part in rows) < 2 else np.argsort(row, kind="stable")
    indptr = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(row, minlength=count), out=indptr[1:])
    kept, weights = weighted(indptr, in_order, cap, randomness)
    of_value = np.zeros(len(row))
    of_value[kept] = weights
    return np.split(of_value, np.cumsum([len(part) for part in rows])[:-1])


def _sums_of(store: NumberStore) -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """Distinct values in increasing order, and the sum of each, from pairs of a value and what it adds."""
    pairs = store.finish()
    pairs.sort()  # by the value first; in place, so that pairs on disk take no memory
    value, total = np.empty(0), np.empty(0, dtype=np.int64)  # the last value so far, which may go on
    for start in range(0, len(pairs), _SUMMED_AT_ONCE):
        part = pairs[start : start + _SUMMED_AT_ONCE]
        numbers = np.concatenate((value, part.real))
        added = np.concatenate((total, part.imag.astype(np.int64)))
        firsts = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
        numbers, added = numbers[firsts], np.add.reduceat(added, firsts)
        yield numbers[:-1], added[:-1]
        value, total = numbers[-1:], added[-1:]
    yield value, total
