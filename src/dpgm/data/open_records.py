"""`OpenRecords`, records of an open domain: raw private columns, recoded once values and bins have been discovered.

Numbers are stored as ticks, labels to be discovered as codes of a private vocabulary that exists in memory only.
`closed` maps every record by itself to positions of the closed, public domain.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain
from dpgm.data.items import natural_labels
from dpgm.data.open_columns import OpenColumn
from dpgm.data.record_store import stored
from dpgm.data.records import Records
from dpgm.data.rows import row_pointers
from dpgm.data.stores import UNLIMITED, MemoryLimit
from dpgm.data.vocabulary import Vocabulary
from dpgm.errors import InputError, ResourceError, UsageError
from dpgm.validation import counted

_PIECE = 1_000_000  # values of all columns together that are looked at at once
_LABELS_ALLOWED = 16 << 20  # bytes, whatever the memory limit


@dataclass(frozen=True, eq=False, repr=False)
class OpenRecords(Records):
    """N records of an open domain, one raw column per field; `indptr` is all zeros, as there are no positions yet.

    Columns that were read with a memory limit are mapped from disk, and so are those that are computed from them.
    """

    columns: tuple[OpenColumn, ...] = ()
    memory_limit: MemoryLimit = UNLIMITED

    @classmethod
    def of(
        cls, domain: Domain, count: int, columns: Sequence[OpenColumn], memory_limit: MemoryLimit = UNLIMITED
    ) -> "OpenRecords":
        """Records from one raw column per field of the domain."""
        nothing, zeros = np.empty(0, dtype=np.int16), np.broadcast_to(np.int64(0), count + 1)
        return cls(domain, zeros, nothing, columns=tuple(columns), memory_limit=memory_limit)

    def __repr__(self) -> str:
        return f"OpenRecords({counted(len(self), 'record')}, {counted(len(self.columns), 'open column')})"

    def check(self) -> None:
        """Raise unless there is one column per field, one entry per record, and no code twice within a record."""
        good = len(self.columns) == len(self.domain.fields) and all(len(one) == len(self) for one in self.columns)
        if not good or not all(column.is_valid for piece in self.pieces() for column in piece.columns):
            raise UsageError("the raw columns do not fit the domain; read the records with `dpgm.read_records`.")

    def rows(self, start: int, stop: int) -> "OpenRecords":
        """Records [start, stop), sharing memory."""
        start, stop, _ = slice(start, stop).indices(len(self))
        stop = max(start, stop)
        return self._with([column.part(start, stop) for column in self.columns], stop - start)

    def pieces(self) -> Iterator["OpenRecords"]:
        """Consecutive parts of about a million values, for sums in bounded memory."""
        codes = sum(column.size for column in self.columns)
        size = max(1, _PIECE * max(len(self), 1) // (len(self) * len(self.columns) + codes + 1))
        for start in range(0, len(self), size):
            yield self.rows(start, start + size)

    def _with(self, columns: Sequence[OpenColumn], count: int, domain: Domain | None = None) -> "OpenRecords":
        return OpenRecords.of(domain or self.domain, count, columns, self.memory_limit)

    def take(self, rows: NDArray[Any]) -> "OpenRecords":
        """The records at `rows` (row numbers in any order, or a mask of N booleans), in that order."""
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        return self._with([column.take(rows) for column in self.columns], len(rows))

    def buffers(self) -> Iterator[NDArray[Any]]:
        """The underlying arrays and labels, for a digest."""
        for column in self.columns:
            yield from column.buffers()

    def in_steps(self, domain: Domain) -> "OpenRecords":
        """These records in the ticks of a domain whose steps (units, decimal places) have been discovered."""
        limit = self.memory_limit.split(len(self.columns))
        columns: list[OpenColumn] = []
        for column, before, after in zip(self.columns, self.domain.fields, domain.fields, strict=True):
            if before != after and (number := after.open_number) is not None:
                store = column.store(limit)
                for start in range(0, len(column), _PIECE):
                    column.part(start, start + _PIECE).mapped(number.in_found_step).append_to(store)
                column = column.finished(store, None)
            columns.append(column)
        return self._with(columns, len(self), domain)

    def with_all_labels(self, name: str) -> Records:
        """These records over all items of the only field that occur, and are public; `name` is that of the file."""
        (field,), (column,) = self.domain.fields, self.columns
        labels = natural_labels([] if column.vocabulary is None else column.vocabulary.labels)
        if not labels:
            raise InputError(f"{name}: no item occurs; give the `domain` with the public list of items.")
        closed = field.with_labels(tuple(sorted(labels)), other=False)  # type: ignore[type-var]
        return self.closed(Domain((closed,)), {})

    def closed(self, domain: Domain, fallbacks: Mapping[str, int]) -> Records:
        """These records as positions of a closed domain.

        Args:
            domain: the closed domain, with the same field names in the same order.
            fallbacks: by name of a field, the position (within the field) of values that are not published and, if the
                field has no position for "missing", of missing ones.
        """
        pairs = zip(self.columns, domain.fields, strict=True)
        recoders = [field.recoder(column, fallbacks.get(field.name)) for column, field in pairs]

        def recoded(piece: OpenRecords) -> Records:
            parts = [recode(column) for column, recode in zip(piece.columns, recoders, strict=True)]
            return records_of(parts, len(piece), domain)

        return stored(map(recoded, self.pieces()), domain, self.memory_limit)


def records_of(columns: Sequence[OpenColumn], count: int, domain: Domain) -> Records:
    """Records from one column per field: raw ones if the domain is open, else in the positions of every field."""
    if domain.is_open:
        return OpenRecords.of(domain, count, columns)
    parts = []
    for column, at in zip(columns, domain.offsets, strict=True):
        codes, lengths = column.positions
        parts.append((codes + at, lengths))
    total = np.zeros(count, dtype=np.int64)
    for _, lengths in parts:
        total += 1 if lengths is None else lengths
    starts = row_pointers(total)[:-1]  # where the next field of each record goes
    flat = np.empty(int(total.sum()), dtype=np.int64)
    for codes, lengths in parts:
        if lengths is None:
            flat[starts] = codes
            starts = starts + 1
        else:
            before = np.cumsum(lengths) - lengths
            flat[np.arange(len(codes)) + np.repeat(starts - before, lengths)] = codes
            starts = starts + lengths
    events = next((column.events for column in columns if column.events is not None), None)
    return replace(Records.from_flat(flat, total, domain), events=events)


def concatenate_open(parts: Sequence[OpenRecords]) -> OpenRecords:
    """The records of all parts, in order; vocabularies are merged."""
    return join_open(parts, parts[0].domain, UNLIMITED)


def join_open(parts: Iterable[OpenRecords], domain: Domain, memory_limit: MemoryLimit) -> OpenRecords:
    """The records of all parts, in order, on disk where they exceed the memory limit; vocabularies are merged."""
    joined: list[_Joined] = []
    count = 0
    for part in parts:
        joined = joined or [_Joined(column, memory_limit.split(len(part.columns))) for column in part.columns]
        for one, column in zip(joined, part.columns, strict=True):
            one.append(column)
        count += len(part)
        _refuse_labels([one.vocabulary for one in joined], memory_limit)
    return OpenRecords.of(domain, count, [one.finish() for one in joined], memory_limit)


def join_records(parts: Iterable[Records], domain: Domain, memory_limit: MemoryLimit) -> Records:
    """The records of all parts, in order, open or closed; on disk where they exceed the memory limit."""
    if domain.is_open:
        return join_open((part for part in parts if isinstance(part, OpenRecords)), domain, memory_limit)
    return stored(parts, domain, memory_limit)


def _refuse_labels(vocabularies: Sequence[Vocabulary | None], memory_limit: MemoryLimit) -> None:
    """Refuse labels that take more memory than rows may: labels stay in memory, unlike rows."""
    if memory_limit.limit is None:
        return
    needed = sum(one.nbytes for one in vocabularies if one is not None)
    if needed > max(memory_limit.limit, _LABELS_ALLOWED):
        raise ResourceError(
            f"the different values of the columns to discover take more than {needed >> 20:,} MB, which is a quarter of"
            " what `memory` leaves; raise it, list the values in the domain, or leave out columns in which nearly"
            " every row has a value of its own (kind: ignored)."
        )


class _Joined:
    """A column that grows part by part."""

    def __init__(self, first: OpenColumn, memory_limit: MemoryLimit) -> None:
        self._column, self._first, self.vocabulary = first, first.vocabulary, first.vocabulary
        self._store = first.store(memory_limit)

    def append(self, column: OpenColumn) -> None:
        """Append a column of the same kind."""
        self._merged(column).append_to(self._store)

    def _merged(self, column: OpenColumn) -> OpenColumn:
        """The column in the codes of a vocabulary with the labels of all parts."""
        if column.vocabulary is self._first is self.vocabulary:
            return column
        assert column.vocabulary is not None
        assert self._first is not None
        if self.vocabulary is self._first:
            self.vocabulary = Vocabulary()
            for label in self._first.labels:
                self.vocabulary.code(label)
        assert self.vocabulary is not None
        code_of = np.array(
            [*map(self.vocabulary.code, column.vocabulary.labels), -1], dtype=np.int32
        )  # the last: -1
        return column.renumbered(code_of)

    def finish(self) -> OpenColumn:
        """The whole column."""
        return self._column.finished(self._store, self.vocabulary)
