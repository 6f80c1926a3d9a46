"""Columns as a kind of field reads them, before values and bins are known: ticks, codes, sets of codes, or events.

Codes are those of a private `Vocabulary`, or (without one) positions of a closed field.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Codes, Floats
from dpgm.data.events import Events, EventStore
from dpgm.data.labels import MAX_WIDTH
from dpgm.data.rows import take_rows
from dpgm.data.stores import MemoryLimit, NumberStore, RowStore
from dpgm.data.vocabulary import Vocabulary

Positions: TypeAlias = tuple[Codes, NDArray[np.int64] | None]  # one per record; or any number, and how many of each
_Store: TypeAlias = NumberStore | RowStore | EventStore


class OpenColumn(ABC):
    """One column of records of an open domain; `vocabulary` numbers its labels if they are to be discovered."""

    vocabulary: Vocabulary | None = None
    events: Events | None = None  # of a sequence

    @property
    @abstractmethod
    def positions(self) -> Positions:
        """The codes as positions of a closed field."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, rows: NDArray[np.int64]) -> "OpenColumn":
        """The entries at `rows`."""

    @abstractmethod
    def part(self, start: int, stop: int) -> "OpenColumn":
        """The entries [start, stop), sharing memory."""

    @abstractmethod
    def held(self, bounds: tuple[float, float] | None) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Rows and values to be discovered: codes of labels, or ticks within `bounds`; empty if there are none."""

    @abstractmethod
    def buffers(self) -> Iterator[NDArray[Any]]:
        """The underlying arrays, for a digest."""

    @abstractmethod
    def store(self, limit: MemoryLimit) -> _Store:
        """An empty store for columns like this one, part by part."""

    @abstractmethod
    def append_to(self, store: Any) -> None:
        """Append this part."""

    @abstractmethod
    def finished(self, store: Any, vocabulary: Vocabulary | None) -> "OpenColumn":
        """The column that all parts of a store make."""

    def renumbered(self, code_of: NDArray[np.int32]) -> "OpenColumn":
        """The same labels with other codes; the last entry of `code_of` is -1."""
        return self

    def mapped(self, function: Callable[[Floats], Floats]) -> "OpenColumn":
        """A function of the ticks, where there are any."""
        return self

    @property
    def each(self) -> NDArray[Any]:
        """One number per record: its tick (NaN if missing), or its code (-1 if missing)."""
        raise AssertionError("records have any number of values here")

    @property
    def size(self) -> int:
        """How many values there are besides one per record."""
        return 0

    @property
    def is_valid(self) -> bool:
        """Whether no record has a code twice."""
        return True


@dataclass(frozen=True, eq=False)
class NumberColumn(OpenColumn):
    """One tick per record, NaN if missing."""

    ticks: Floats

    def __len__(self) -> int:
        return len(self.ticks)

    @property
    def positions(self) -> Positions:
        """None: ticks become positions only once bins are known."""
        raise AssertionError("numbers of an open field have no positions yet")

    @property
    def each(self) -> NDArray[Any]:
        """The ticks."""
        return self.ticks

    def take(self, rows: NDArray[np.int64]) -> "NumberColumn":
        """The entries at `rows`."""
        return NumberColumn(self.ticks[rows])

    def part(self, start: int, stop: int) -> "NumberColumn":
        """The entries [start, stop), sharing memory."""
        return NumberColumn(self.ticks[start:stop])

    def held(self, bounds: tuple[float, float] | None) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The ticks within `bounds`; none without."""
        if bounds is None:
            return np.empty(0, dtype=np.int64), np.empty(0)
        rows = np.flatnonzero((self.ticks >= bounds[0]) & (self.ticks <= bounds[1]))  # false where missing
        return rows, self.ticks[rows]

    def buffers(self) -> Iterator[NDArray[Any]]:
        """The ticks."""
        yield self.ticks

    def store(self, limit: MemoryLimit) -> NumberStore:
        """A store of ticks."""
        return NumberStore(np.float64, limit)

    def append_to(self, store: NumberStore) -> None:
        """Append the ticks."""
        store.append(self.ticks)

    def finished(self, store: NumberStore, vocabulary: Vocabulary | None) -> "NumberColumn":
        """The whole column."""
        return NumberColumn(store.finish())

    def mapped(self, function: Callable[[Floats], Floats]) -> "NumberColumn":
        """A function of the ticks."""
        return NumberColumn(function(self.ticks))


@dataclass(frozen=True, eq=False)
class CodeColumn(OpenColumn):
    """One code per record, -1 if missing."""

    codes: NDArray[np.int32]
    vocabulary: Vocabulary | None = None

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def positions(self) -> Positions:
        """The codes, one per record."""
        return self.codes.astype(np.int64), None

    @property
    def each(self) -> NDArray[Any]:
        """The codes."""
        return self.codes

    def take(self, rows: NDArray[np.int64]) -> "CodeColumn":
        """The entries at `rows`."""
        return CodeColumn(self.codes[rows], self.vocabulary)

    def part(self, start: int, stop: int) -> "CodeColumn":
        """The entries [start, stop), sharing memory."""
        return CodeColumn(self.codes[start:stop], self.vocabulary)

    def held(self, bounds: tuple[float, float] | None) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The codes of labels to be discovered."""
        rows = np.flatnonzero(self.codes >= 0) if self.vocabulary is not None else np.empty(0, dtype=np.int64)
        return rows, self.codes[rows].astype(np.int64)

    def buffers(self) -> Iterator[NDArray[Any]]:
        """The codes and the labels."""
        yield self.codes
        yield from _bytes_of(self.vocabulary)

    def store(self, limit: MemoryLimit) -> NumberStore:
        """A store of codes."""
        return NumberStore(np.int32, limit)

    def append_to(self, store: NumberStore) -> None:
        """Append the codes."""
        store.append(self.codes)

    def finished(self, store: NumberStore, vocabulary: Vocabulary | None) -> "CodeColumn":
        """The whole column."""
        return CodeColumn(store.finish(), vocabulary)

    def renumbered(self, code_of: NDArray[np.int32]) -> "CodeColumn":
        """The same labels with other codes."""
        return CodeColumn(code_of[self.codes], self.vocabulary)


@dataclass(frozen=True, eq=False)
class SetColumn(OpenColumn):
    """Distinct codes per record."""

    indptr: NDArray[np.int64]
    codes: NDArray[np.int32]
    vocabulary: Vocabulary | None = None

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def positions(self) -> Positions:
        """The codes of all records, and how many each record has."""
        return self.codes.astype(np.int64), np.diff(self.indptr)

    def take(self, rows: NDArray[np.int64]) -> "SetColumn":
        """The entries at `rows`."""
        return SetColumn(*take_rows(self.indptr, self.codes, rows), self.vocabulary)

    def part(self, start: int, stop: int) -> "SetColumn":
        """The entries [start, stop), sharing the codes."""
        ends = self.indptr[start : stop + 1]
        return SetColumn(ends - ends[0], self.codes[int(ends[0]) : int(ends[-1])], self.vocabulary)

    def held(self, bounds: tuple[float, float] | None) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The codes of labels to be discovered."""
        if self.vocabulary is None:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        return np.repeat(np.arange(len(self)), np.diff(self.indptr)), self.codes.astype(np.int64)

    def buffers(self) -> Iterator[NDArray[Any]]:
        """The rows, the codes and the labels."""
        yield self.indptr
        yield self.codes
        yield from _bytes_of(self.vocabulary)

    def store(self, limit: MemoryLimit) -> RowStore:
        """A store of rows."""
        return RowStore(np.dtype(np.int32), limit)

    def append_to(self, store: RowStore) -> None:
        """Append the rows."""
        store.append(np.diff(self.indptr), self.codes)

    def finished(self, store: RowStore, vocabulary: Vocabulary | None) -> "SetColumn":
        """The whole column."""
        return SetColumn(*store.finish(), vocabulary)

    def renumbered(self, code_of: NDArray[np.int32]) -> "SetColumn":
        """The same labels with other codes."""
        return SetColumn(self.indptr, code_of[self.codes], self.vocabulary)

    @property
    def size(self) -> int:
        """The number of codes of all records."""
        return len(self.codes)

    @property
    def is_valid(self) -> bool:
        """Whether no record has a code twice."""
        if not len(self.codes):
            return True
        rows = np.repeat(np.arange(len(self)), np.diff(self.indptr))
        keys = np.sort(rows * MAX_WIDTH + self.codes)
        return int(self.codes.min()) >= 0 and not bool((keys[1:] == keys[:-1]).any())


@dataclass(frozen=True, eq=False)
class EventColumn(OpenColumn):
    """The events of every record, in order; their distinct codes are its positions."""

    events: Events
    vocabulary: Vocabulary | None = None

    def __len__(self) -> int:
        return len(self.events)

    @property
    def _sets(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        return self.events.sets(1 + int(self.events.codes.max(initial=0)))

    @property
    def positions(self) -> Positions:
        """The distinct codes of all records, and how many each record has."""
        indptr, codes = self._sets
        return codes.astype(np.int64), np.diff(indptr)

    def take(self, rows: NDArray[np.int64]) -> "EventColumn":
        """The entries at `rows`."""
        return EventColumn(self.events.take(rows), self.vocabulary)

    def part(self, start: int, stop: int) -> "EventColumn":
        """The entries [start, stop), sharing memory."""
        return EventColumn(self.events.rows(start, stop), self.vocabulary)

    def held(self, bounds: tuple[float, float] | None) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The distinct codes of labels to be discovered."""
        if self.vocabulary is None:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        indptr, codes = self._sets
        return np.repeat(np.arange(len(self)), np.diff(indptr)), codes.astype(np.int64)

    def buffers(self) -> Iterator[NDArray[Any]]:
        """The events and the labels."""
        yield from self.events.buffers()
        yield from _bytes_of(self.vocabulary)

    def store(self, limit: MemoryLimit) -> EventStore:
        """A store of events."""
        return EventStore(self.events.codes.dtype, self.events.times is not None, limit)

    def append_to(self, store: EventStore) -> None:
        """Append the events."""
        store.append(self.events)

    def finished(self, store: EventStore, vocabulary: Vocabulary | None) -> "EventColumn":
        """The whole column."""
        return EventColumn(store.finish(), vocabulary)

    def renumbered(self, code_of: NDArray[np.int32]) -> "EventColumn":
        """The same labels with other codes."""
        return EventColumn(replace(self.events, codes=code_of[self.events.codes]), self.vocabulary)

    @property
    def size(self) -> int:
        """The number of events of all records."""
        return len(self.events.codes)


def _bytes_of(vocabulary: Vocabulary | None) -> Iterator[NDArray[Any]]:
    if vocabulary is not None:
        yield np.frombuffer("\0".join(vocabulary.labels).encode("utf-8", "replace"), dtype=np.uint8)
