"""`RecordStore`: records of a closed domain, appended part by part; on disk beyond the memory limit."""

from collections.abc import Iterable

import numpy as np

from dpgm.data.domain import Domain
from dpgm.data.events import EventStore
from dpgm.data.records import Records
from dpgm.data.rows import index_dtype
from dpgm.data.stores import MemoryLimit, RowStore


class RecordStore:
    """Records, appended part by part, that become one: in memory, or mapped from disk beyond the limit."""

    def __init__(self, domain: Domain, memory_limit: MemoryLimit) -> None:
        self._domain, sequence = domain, domain.sequence
        limit = memory_limit if sequence is None else memory_limit.split(2)
        self._rows = RowStore(np.dtype(index_dtype(domain.width)), limit)
        self._events = None
        if sequence is not None:
            self._events = EventStore(np.dtype(index_dtype(sequence.width)), sequence.time, limit)

    def append(self, records: Records) -> None:
        """Append records of the domain."""
        self._rows.append(records.lengths, records.indices)
        if self._events is not None and records.events is not None:
            self._events.append(records.events)

    def finish(self) -> Records:
        """All records."""
        events = None if self._events is None else self._events.finish()
        return Records(self._domain, *self._rows.finish(), events=events)


def stored(parts: Iterable[Records], domain: Domain, memory_limit: MemoryLimit) -> Records:
    """The records of all parts, in order."""
    store = RecordStore(domain, memory_limit)
    for part in parts:
        store.append(part)
    return store.finish()
