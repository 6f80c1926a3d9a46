"""`Events`: what people did one after the other, beside the set of items that `Records.indices` hold.

A sequence is an item set with order. The set is in the records, so that item counts, discovery of items and conditions
work as for any set; the order, with repeats and times, is here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.data.rows import index_dtype, pieces_of, row_pointers, sort_rows, take_rows
from dpgm.data.stores import MemoryLimit, NumberStore, RowStore
from dpgm.errors import UsageError


@dataclass(frozen=True, eq=False)
class Events:
    """The events of N people, in order of time within each person.

    Attributes:
        indptr: (N + 1, int64) where the events of every person start.
        codes: (int16 or int32) the number of each event's item within the sequence; an item may come again.
        times: (int32) minutes since the public period began, which never fall within a person; None without times.

    >>> events = Events.from_lists([[4, 1, 4], [], [2]], items=5)
    >>> len(events), events.lengths.tolist(), events.take(np.array([2, 0])).codes.tolist()
    (3, [3, 0, 1], [2, 4, 1, 4])
    """

    indptr: NDArray[np.int64]
    codes: NDArray[Any]
    times: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        for array in self.buffers():
            array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of events of each person."""
        return np.diff(self.indptr)

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        return sum(array.nbytes for array in self.buffers())

    @classmethod
    def from_lists(
        cls, codes: Sequence[Sequence[int]], items: int, times: Sequence[Sequence[int]] | None = None
    ) -> "Events":
        """Events from lists of item numbers below `items`, in order, and of minutes if there are times."""
        lengths = np.fromiter((len(row) for row in codes), dtype=np.int64, count=len(codes))
        flat = np.fromiter((code for row in codes for code in row), dtype=index_dtype(items))
        minutes = None if times is None else np.fromiter((time for row in times for time in row), dtype=np.int32)
        return cls(row_pointers(lengths), flat, minutes)

    def buffers(self) -> Iterator[NDArray[Any]]:
        """The underlying arrays, for a digest."""
        yield self.indptr
        yield self.codes
        if self.times is not None:
            yield self.times

    def rows(self, start: int, stop: int) -> "Events":
        """The events of people [start, stop), sharing memory."""
        start, stop, _ = slice(start, stop).indices(len(self))
        pointers = self.indptr[start : max(start, stop) + 1]
        first, last = int(pointers[0]), int(pointers[-1])
        times = None if self.times is None else self.times[first:last]
        return Events(pointers - first if first else pointers, self.codes[first:last], times)

    def take(self, rows: NDArray[Any]) -> "Events":
        """The events of the people at `rows` (numbers in any order, or a mask), in that order."""
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        indptr, codes = take_rows(self.indptr, self.codes, rows)
        times = None if self.times is None else take_rows(self.indptr, self.times, rows)[1]
        return Events(indptr, codes, times)

    def pieces(self) -> Iterator["Events"]:
        """Consecutive parts of about a million events (at least one person), for sums in bounded memory."""
        for first, last in pieces_of(self.indptr):
            yield self.rows(first, last)

    def people(self) -> NDArray[np.int64]:
        """The row of each event's person."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def first(self, most: int) -> "Events":
        """At most the first `most` events of every person."""
        if not len(self) or int(self.lengths.max()) <= most:
            return self
        rank = np.arange(len(self.codes)) - np.repeat(self.indptr[:-1], self.lengths)
        kept = rank < most
        times = None if self.times is None else self.times[kept]
        return Events(row_pointers(np.minimum(self.lengths, most)), self.codes[kept], times)

    def sets(self, items: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """CSR arrays of the distinct items of every person, sorted."""
        return sort_rows(self.indptr, self.codes, items)

    def check(self, items: int, minutes: int | None = None, most: int | None = None) -> None:
        """Raise unless the arrays are as described above, as every sensitivity bound assumes.

        Args:
            items: how many items the sequence has.
            minutes: how long the period is; None without times.
            most: how many events a person may have.
        """
        pointers = self.indptr
        good = pointers.ndim == 1 and self.codes.ndim == 1 and len(pointers) > 0 and int(pointers[0]) == 0
        if not good or int(pointers[-1]) != len(self.codes) or bool((pointers[1:] < pointers[:-1]).any()):
            raise UsageError("the `indptr` of the events does not cut `codes` into people.")
        if most is not None and len(self) and int(self.lengths.max()) > most:
            raise UsageError(f"a person must not have more than {most} events; use `Events.first`.")
        if (self.times is None) != (minutes is None) or (
            self.times is not None and len(self.times) != len(self.codes)
        ):
            raise UsageError("events have one time each if the sequence has times, and none otherwise.")
        for piece in self.pieces():
            codes, times = piece.codes, piece.times
            if len(codes) and (int(codes.min()) < 0 or int(codes.max()) >= items):
                raise UsageError(f"the item numbers of events must lie in [0, {items}).")
            if times is None or not len(times):
                continue
            if int(times.min()) < 0 or (minutes is not None and int(times.max()) >= minutes):
                raise UsageError(f"the times of events must lie in [0, {minutes}) minutes.")
            same = np.diff(piece.people()) == 0
            if bool((np.diff(times.astype(np.int64))[same] < 0).any()):
                raise UsageError("the times of a person must not fall; sort the events by time.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Events) or (self.times is None) != (other.times is None):
            return False
        return all(np.array_equal(one, two) for one, two in zip(self.buffers(), other.buffers(), strict=True))

    __hash__ = None  # type: ignore[assignment]


def concatenate_events(parts: Sequence[Events]) -> Events:
    """The events of all parts, in order."""
    if not parts:
        raise UsageError("nothing to concatenate; give at least one part.")
    times = [part.times for part in parts]
    joined = (
        None if any(one is None for one in times) else np.concatenate([one for one in times if one is not None])
    )
    lengths = np.concatenate([part.lengths for part in parts])
    return Events(row_pointers(lengths), np.concatenate([part.codes for part in parts]), joined)


def in_order(people: NDArray[Any], times: NDArray[np.float64], ranks: NDArray[Any]) -> NDArray[np.int64]:
    """The numbers of events by person, by time within a person, and by the rank of the item where times are equal.

    Of events that are equal in all three only one is in it. The order in which events are given does not matter.

    >>> in_order(np.array([1, 0, 0, 0, 0]), np.array([0.0, 5.0, 5.0, 5.0, 2.0]), np.array([9, 3, 1, 3, 8])).tolist()
    [4, 2, 1, 0]
    """
    order = np.lexsort((ranks, times, people))
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = False
    for keys in (people, times, ranks):
        in_turn = keys[order]
        is_first[1:] |= in_turn[1:] != in_turn[:-1]
    return order[is_first]


class EventStore:
    """Events, appended part by part, that become one: in memory, or mapped from disk beyond the limit."""

    def __init__(self, dtype: Any, timed: bool, memory_limit: MemoryLimit) -> None:
        half = memory_limit.split(2)
        self._codes = RowStore(np.dtype(dtype), half)
        self._times = NumberStore(np.int32, half) if timed else None

    @property
    def on_disk(self) -> bool:
        """Whether events were moved to disk."""
        return self._codes.on_disk or (self._times is not None and self._times.on_disk)

    def append(self, events: Events) -> None:
        """Append the events of some people."""
        self._codes.append(events.lengths, events.codes)
        if self._times is not None and events.times is not None:
            self._times.append(events.times)

    def finish(self) -> Events:
        """All events."""
        indptr, codes = self._codes.finish()
        return Events(indptr, codes, None if self._times is None else self._times.finish())
