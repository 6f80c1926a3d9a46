"""`OpenRecords`, records of an open domain: raw private columns, recoded once values and bins have been discovered.

Numbers are stored as ticks, labels to be discovered as codes of a private vocabulary that exists in memory only.
`closed` maps every record by itself to positions of the closed, public domain.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Categorical, DateTime, Domain, Field, ItemSet, Numeric, ShapedNumber
from dpgm.data.fields import MAX_LABEL_BYTES, MAX_WIDTH, OTHER, Codes
from dpgm.data.number_bins import shaped_codes
from dpgm.data.number_fields import SECONDS, Floats
from dpgm.data.records import Records, index_dtype, row_pointers, take_rows
from dpgm.data.stores import UNLIMITED, MemoryLimit, NumberStore, RowStore
from dpgm.errors import ResourceError, UsageError
from dpgm.validation import counted

if TYPE_CHECKING:
    import pyarrow

    from dpgm.data.values import Place

LOOKUP_LIMIT = 5_000_000  # numbers below this are looked up in an array
_PIECE = 1_000_000  # values of all columns together that are looked at at once
_LABELS_ALLOWED = 16 << 20  # bytes, whatever the memory limit
_LABEL_BYTES = 150  # of a short label in a `Vocabulary`: a text, its number and its entry in the table of a dict


def drop_negative(codes: NDArray[Any], lengths: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Concatenated rows of codes and their lengths, without the codes -1, which stand for dropped labels."""
    keep = codes >= 0
    if keep.all():
        return codes, lengths
    rows = np.repeat(np.arange(len(lengths)), lengths)[keep]
    return codes[keep], np.bincount(rows, minlength=len(lengths))


class Vocabulary:
    """The labels of one field, numbered in order of first occurrence.

    Private: only labels that pass a noisy threshold are ever published. Every label is a text, whatever the type of its
    column, so that no label changes the type of the others. Labels that could not be published (empty, over 1 kB) are
    dropped.
    """

    integers = False

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self._characters = 0
        self._table = np.full(0, -1, dtype=np.int64)  # codes of small numbers, -1 if not seen yet

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def nbytes(self) -> int:
        """About how much memory the labels take."""
        return _LABEL_BYTES * len(self.codes) + self._characters + self._table.nbytes

    @property
    def labels(self) -> list[str]:
        """All labels in order of their codes."""
        return list(self.codes)

    def is_listed(self, label: str) -> bool:
        """Whether a public list has this label: no, there is no list."""
        return False

    def code(self, label: str, place: "Place | None" = None) -> int:
        """The code of a label, added if new; -1 if it cannot be published."""
        known = self.codes.get(label)
        if known is not None:
            return known
        if not label or "\0" in label or len(label.encode("utf-8", "replace")) > MAX_LABEL_BYTES:
            return -1
        if len(self.codes) >= MAX_WIDTH:
            raise ResourceError(
                f"a field to discover holds more than {MAX_WIDTH:,} different values, which is the limit; list its"
                " values in the domain, or leave the column out (kind: ignored)."
            )
        self._characters += len(label)
        return self.codes.setdefault(label, len(self.codes))

    def from_integers(self, values: NDArray[Any], place: "Place") -> Codes:
        """Codes of whole numbers; new ones are added."""
        if not len(values) or values.max() >= LOOKUP_LIMIT:
            distinct, inverse = np.unique(values, return_inverse=True)
            return np.array([self.code(str(label), place) for label in distinct.tolist()], dtype=np.int64)[inverse]
        if values.max() >= len(self._table):
            self._table = np.pad(self._table, (0, int(values.max()) + 1 - len(self._table)), constant_values=-1)
        codes = self._table[values]
        if codes.min() < 0:
            for label in np.unique(values[codes < 0]).tolist():
                self._table[label] = self.code(str(label), place)
            codes = self._table[values]
        return np.asarray(codes)

    def from_texts(self, values: "pyarrow.Array", place: "Place") -> Codes:
        """Codes of texts after trimming white space; new ones are added."""
        import pyarrow.compute as pc

        encoded = pc.utf8_trim_whitespace(values).dictionary_encode()
        codes = np.array([self.code(label, place) for label in encoded.dictionary.to_pylist()], dtype=np.int64)
        indices: NDArray[np.int32] = encoded.indices.to_numpy(zero_copy_only=False)
        return codes[indices]


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """One tick per record, NaN if missing."""

    ticks: Floats

    def take(self, rows: NDArray[np.int64]) -> "NumberColumn":
        """The entries at `rows`."""
        return NumberColumn(self.ticks[rows])

    def part(self, start: int, stop: int) -> "NumberColumn":
        """The entries [start, stop), sharing memory."""
        return NumberColumn(self.ticks[start:stop])


@dataclass(frozen=True, eq=False)
class CodeColumn:
    """One code per record, -1 if missing: of a vocabulary, or (without one) a position of a closed field."""

    codes: NDArray[np.int32]
    vocabulary: Vocabulary | None = None

    def take(self, rows: NDArray[np.int64]) -> "CodeColumn":
        """The entries at `rows`."""
        return CodeColumn(self.codes[rows], self.vocabulary)

    def part(self, start: int, stop: int) -> "CodeColumn":
        """The entries [start, stop), sharing memory."""
        return CodeColumn(self.codes[start:stop], self.vocabulary)


@dataclass(frozen=True, eq=False)
class SetColumn:
    """Distinct codes per record: of a vocabulary, or (without one) positions of a closed field."""

    indptr: NDArray[np.int64]
    codes: NDArray[np.int32]
    vocabulary: Vocabulary | None = None

    def take(self, rows: NDArray[np.int64]) -> "SetColumn":
        """The entries at `rows`."""
        return SetColumn(*take_rows(self.indptr, self.codes, rows), self.vocabulary)

    def part(self, start: int, stop: int) -> "SetColumn":
        """The entries [start, stop), sharing the codes."""
        ends = self.indptr[start : stop + 1]
        return SetColumn(ends - ends[0], self.codes[int(ends[0]) : int(ends[-1])], self.vocabulary)


RawColumn: TypeAlias = NumberColumn | CodeColumn | SetColumn


@dataclass(frozen=True, eq=False, repr=False)
class OpenRecords(Records):
    """N records of an open domain, one raw column per field; `indptr` is all zeros, as there are no positions yet.

    Columns that were read with a memory limit are mapped from disk, and so are those that are computed from them.
    """

    columns: tuple[RawColumn, ...] = ()
    memory_limit: MemoryLimit = UNLIMITED

    @classmethod
    def of(
        cls, domain: Domain, count: int, columns: Sequence[RawColumn], memory_limit: MemoryLimit = UNLIMITED
    ) -> "OpenRecords":
        """Records from one raw column per field of the domain."""
        nothing, zeros = np.empty(0, dtype=np.int16), np.broadcast_to(np.int64(0), count + 1)
        return cls(domain, zeros, nothing, columns=tuple(columns), memory_limit=memory_limit)

    @classmethod
    def of_sets(cls, records: Records, domain: Domain, memory_limit: MemoryLimit = UNLIMITED) -> "OpenRecords":
        """Records of one item set whose items are to be discovered, from records over all items that occur."""
        (field,) = domain.fields
        occurring = records.domain.fields[0]
        if not isinstance(field, ItemSet) or not isinstance(occurring, ItemSet):
            raise UsageError("items can be discovered only where the domain is one item set.")
        vocabulary = Vocabulary()
        code_of = np.array([vocabulary.code(str(label)) for label in occurring.items], dtype=np.int32)
        parts = ((piece, *drop_negative(code_of[piece.indices], piece.lengths)) for piece in records.pieces())
        sets = (
            cls.of(domain, len(piece), (SetColumn(row_pointers(lengths), codes, vocabulary),))
            for piece, codes, lengths in parts
        )
        return join_open(sets, domain, memory_limit)

    def __repr__(self) -> str:
        return f"OpenRecords({counted(len(self), 'record')}, {counted(len(self.columns), 'open column')})"

    def check(self) -> None:
        """Raise unless there is one column per field, one entry per record, and no code twice within a record."""
        sizes = [
            len(column.ticks if isinstance(column, NumberColumn) else column.codes)
            if not isinstance(column, SetColumn)
            else len(column.indptr) - 1
            for column in self.columns
        ]
        good = len(sizes) == len(self.domain.fields) and all(size == len(self) for size in sizes)
        if not good or not all(_are_sets(piece) for piece in self.pieces()):
            raise UsageError("the raw columns do not fit the domain; read the records with `dpgm.read_records`.")

    def rows(self, start: int, stop: int) -> "OpenRecords":
        """Records [start, stop), sharing memory."""
        start, stop, _ = slice(start, stop).indices(len(self))
        stop = max(start, stop)
        return self._with([column.part(start, stop) for column in self.columns], stop - start)

    def pieces(self) -> Iterator["OpenRecords"]:
        """Consecutive parts of about a million values, for sums in bounded memory."""
        codes = sum(len(column.codes) for column in self.columns if isinstance(column, SetColumn))
        size = max(1, _PIECE * max(len(self), 1) // (len(self) * len(self.columns) + codes + 1))
        for start in range(0, len(self), size):
            yield self.rows(start, start + size)

    def _with(self, columns: Sequence[RawColumn], count: int, domain: Domain | None = None) -> "OpenRecords":
        return OpenRecords.of(domain or self.domain, count, columns, self.memory_limit)

    def take(self, rows: NDArray[Any]) -> "OpenRecords":
        """The records at `rows` (row numbers in any order, or a mask of N booleans), in that order."""
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        return self._with([column.take(rows) for column in self.columns], len(rows))

    def buffers(self) -> Iterator[NDArray[Any]]:
        """The underlying arrays and labels, for a digest."""
        for column in self.columns:
            for part in vars(column).values():
                if isinstance(part, Vocabulary):
                    yield np.frombuffer("\0".join(part.labels).encode("utf-8", "replace"), dtype=np.uint8)
                elif part is not None:
                    yield part

    def in_steps(self, domain: Domain) -> "OpenRecords":
        """These records in the ticks of a domain whose steps (units, decimal places) have been discovered."""
        limit = self.memory_limit.split(len(self.columns))
        columns: list[RawColumn] = []
        for column, before, after in zip(self.columns, self.domain.fields, domain.fields, strict=True):
            if isinstance(column, NumberColumn) and before != after:
                store = NumberStore(np.float64, limit)
                for start in range(0, len(column.ticks), _PIECE):
                    store.append(_in_steps(column.ticks[start : start + _PIECE], after))
                column = NumberColumn(store.finish())
            columns.append(column)
        return self._with(columns, len(self), domain)

    def closed(self, domain: Domain, fallbacks: Mapping[str, int]) -> Records:
        """These records as positions of a closed domain.

        Args:
            domain: the closed domain, with the same field names in the same order.
            fallbacks: by name of a field, the position (within the field) of values that are not published and, if the
                field has no position for "missing", of missing ones.
        """
        positions = [_closed_positions(*pair) for pair in zip(self.columns, domain.fields, strict=True)]
        store = RowStore(np.dtype(index_dtype(domain.width)), self.memory_limit)
        for piece in self.pieces():
            records = piece._closed(domain, fallbacks, positions)
            store.append(records.lengths, records.indices)
        return Records(domain, *store.finish())

    def _closed(self, domain: Domain, fallbacks: Mapping[str, int], positions: Sequence[Codes | None]) -> Records:
        parts: list[tuple[Codes, NDArray[np.int64] | None]] = []
        fields = zip(self.columns, domain.fields, domain.offsets, positions, strict=True)
        for column, field, offset, position_of in fields:
            if isinstance(column, SetColumn):
                codes, lengths = drop_negative(_looked_up(column, position_of), np.diff(column.indptr))
                parts.append((codes + offset, lengths))
                continue
            if isinstance(column, NumberColumn):
                assert isinstance(field, ShapedNumber)
                codes = shaped_codes(field, column.ticks)
            else:
                codes = _looked_up(column, position_of)
                if field.name in fallbacks:
                    codes = np.where((codes < 0) & (column.codes >= 0), fallbacks[field.name], codes)
            has_missing = getattr(field, "missing", False)
            fallback = field.width - 1 if has_missing else fallbacks.get(field.name, 0)
            parts.append((np.where(codes < 0, fallback, codes) + offset, None))
        return join_fields(parts, len(self), domain)


def _are_sets(piece: OpenRecords) -> bool:
    """Whether no record has a code twice in a column of sets."""
    for column in piece.columns:
        if isinstance(column, SetColumn) and len(column.codes):
            rows = np.repeat(np.arange(len(piece)), np.diff(column.indptr))
            keys = np.sort(rows * MAX_WIDTH + column.codes)
            if int(column.codes.min()) < 0 or bool((keys[1:] == keys[:-1]).any()):
                return False
    return True


def join_fields(parts: Sequence[tuple[Codes, NDArray[np.int64] | None]], count: int, domain: Domain) -> Records:
    """Records from the positions of every field: one per record, or (with lengths) any number per record."""
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
    return Records.from_flat(flat, total, domain)


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
    """A raw column that grows part by part."""

    def __init__(self, first: RawColumn, memory_limit: MemoryLimit) -> None:
        self._first = self.vocabulary = None if isinstance(first, NumberColumn) else first.vocabulary
        self._numbers = NumberStore(np.float64 if isinstance(first, NumberColumn) else np.int32, memory_limit)
        self._sets = RowStore(np.dtype(np.int32), memory_limit)

    def append(self, column: RawColumn) -> None:
        """Append a column of the same kind."""
        if isinstance(column, NumberColumn):
            self._numbers.append(column.ticks)
        elif isinstance(column, CodeColumn):
            self._numbers.append(self._merged(column))
        else:
            self._sets.append(np.diff(column.indptr), self._merged(column))
        self._kind = type(column)

    def _merged(self, column: CodeColumn | SetColumn) -> NDArray[np.int32]:
        """The codes in a vocabulary with the labels of all parts."""
        if column.vocabulary is self._first is self.vocabulary:
            return column.codes
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
        return code_of[column.codes]

    def finish(self) -> RawColumn:
        """The whole column."""
        if self._kind is SetColumn:
            return SetColumn(*self._sets.finish(), self.vocabulary)
        if self._kind is CodeColumn:
            return CodeColumn(self._numbers.finish(), self.vocabulary)
        return NumberColumn(self._numbers.finish())


def _in_steps(values: Floats, field: Field) -> Floats:
    """Ticks in a field's discovered step, from plain numbers or from seconds."""
    if isinstance(field, DateTime):
        return np.floor(values / SECONDS[field.format.unit])
    assert isinstance(field, Numeric)
    return field.format.ticks(values)


def _closed_positions(column: RawColumn, field: Field) -> Codes | None:
    """The position within a closed field of every label of a column, -1 if neither published nor "other"; last, -1."""
    if isinstance(column, NumberColumn) or column.vocabulary is None:
        return None
    assert isinstance(field, (ItemSet, Categorical))
    published = field.items if isinstance(field, ItemSet) else field.values
    known = {str(label): at for at, label in enumerate(published)}
    unlisted = known[OTHER] if isinstance(field, Categorical) and field.other else -1
    return np.array([*(known.get(label, unlisted) for label in column.vocabulary.codes), -1], dtype=np.int64)


def _looked_up(column: CodeColumn | SetColumn, position_of: Codes | None) -> Codes:
    """Positions within a closed field; -1 if the value is missing or has none."""
    return column.codes.astype(np.int64) if position_of is None else position_of[column.codes]
