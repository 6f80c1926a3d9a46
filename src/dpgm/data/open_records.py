"""`OpenRecords`, records of an open domain: raw private columns, recoded once values and bins have been discovered.

Numbers are stored as ticks, labels to be discovered as codes of a private vocabulary that exists in memory only.
`closed` maps every record by itself to positions of the closed, public domain.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Categorical, DateTime, Domain, Field, ItemSet, Numeric, ShapedNumber
from dpgm.data.fields import MAX_LABEL_BYTES, MAX_WIDTH, OTHER, Codes
from dpgm.data.number_bins import shaped_codes
from dpgm.data.number_fields import SECONDS, Floats
from dpgm.data.records import Records, row_pointers, take_rows
from dpgm.errors import ResourceError, UsageError
from dpgm.validation import counted

if TYPE_CHECKING:
    import pyarrow

    from dpgm.data.values import Place

LOOKUP_LIMIT = 5_000_000  # numbers below this are looked up in an array


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
        self._table = np.full(0, -1, dtype=np.int64)  # codes of small numbers, -1 if not seen yet

    def __len__(self) -> int:
        return len(self.codes)

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


@dataclass(frozen=True, eq=False)
class CodeColumn:
    """One code per record, -1 if missing: of a vocabulary, or (without one) a position of a closed field."""

    codes: NDArray[np.int32]
    vocabulary: Vocabulary | None = None

    def take(self, rows: NDArray[np.int64]) -> "CodeColumn":
        """The entries at `rows`."""
        return CodeColumn(self.codes[rows], self.vocabulary)


@dataclass(frozen=True, eq=False)
class SetColumn:
    """Distinct codes per record: of a vocabulary, or (without one) positions of a closed field."""

    indptr: NDArray[np.int64]
    codes: NDArray[np.int32]
    vocabulary: Vocabulary | None = None

    def take(self, rows: NDArray[np.int64]) -> "SetColumn":
        """The entries at `rows`."""
        return SetColumn(*take_rows(self.indptr, self.codes, rows), self.vocabulary)


RawColumn: TypeAlias = NumberColumn | CodeColumn | SetColumn


@dataclass(frozen=True, eq=False, repr=False)
class OpenRecords(Records):
    """N records of an open domain, one raw column per field; `indptr` is all zeros, as there are no positions yet."""

    columns: tuple[RawColumn, ...] = ()

    @classmethod
    def of(cls, domain: Domain, count: int, columns: Sequence[RawColumn]) -> "OpenRecords":
        """Records from one raw column per field of the domain."""
        nothing = np.empty(0, dtype=np.int16)
        return cls(domain, np.zeros(count + 1, dtype=np.int64), nothing, columns=tuple(columns))

    @classmethod
    def of_sets(cls, records: Records, domain: Domain) -> "OpenRecords":
        """Records of one item set whose items are to be discovered, from records over all items that occur."""
        (field,) = domain.fields
        occurring = records.domain.fields[0]
        if not isinstance(field, ItemSet) or not isinstance(occurring, ItemSet):
            raise UsageError("items can be discovered only where the domain is one item set.")
        vocabulary = Vocabulary()
        code_of = np.array([vocabulary.code(str(label)) for label in occurring.items], dtype=np.int32)
        codes, lengths = drop_negative(code_of[records.indices], records.lengths)
        return cls.of(domain, len(records), (SetColumn(row_pointers(lengths), codes, vocabulary),))

    def __repr__(self) -> str:
        return f"OpenRecords({counted(len(self), 'record')}, {counted(len(self.columns), 'open column')})"

    def check(self) -> None:
        """Raise unless there is one column per field, one entry per record, and no code twice within a record."""
        good = len(self.columns) == len(self.domain.fields)
        for column in self.columns:
            if isinstance(column, SetColumn):
                rows = np.repeat(np.arange(len(self)), np.diff(column.indptr))
                keys = rows * MAX_WIDTH + column.codes
                good = good and len(column.indptr) == len(self.indptr) and len(np.unique(keys)) == len(keys)
                good = good and (not len(column.codes) or int(column.codes.min()) >= 0)
            else:
                entries = column.ticks if isinstance(column, NumberColumn) else column.codes
                good = good and len(entries) == len(self)
        if not good:
            raise UsageError("the raw columns do not fit the domain; read the records with `dpgm.read_records`.")

    def rows(self, start: int, stop: int) -> "OpenRecords":
        """Records [start, stop)."""
        start, stop, _ = slice(start, stop).indices(len(self))
        return self.take(np.arange(start, max(start, stop)))

    def take(self, rows: NDArray[Any]) -> "OpenRecords":
        """The records at `rows` (row numbers in any order, or a mask of N booleans), in that order."""
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        return OpenRecords.of(self.domain, len(rows), [column.take(rows) for column in self.columns])

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
        columns: list[RawColumn] = []
        for column, before, after in zip(self.columns, self.domain.fields, domain.fields, strict=True):
            if isinstance(column, NumberColumn) and before != after:
                column = NumberColumn(_in_steps(column.ticks, after))
            columns.append(column)
        return OpenRecords.of(domain, len(self), columns)

    def closed(self, domain: Domain, fallbacks: Mapping[str, int]) -> Records:
        """These records as positions of a closed domain.

        Args:
            domain: the closed domain, with the same field names in the same order.
            fallbacks: by name of a field, the position (within the field) of values that are not published and, if the
                field has no position for "missing", of missing ones.
        """
        parts: list[tuple[Codes, NDArray[np.int64] | None]] = []
        for column, field, offset in zip(self.columns, domain.fields, domain.offsets, strict=True):
            if isinstance(column, SetColumn):
                codes, lengths = drop_negative(_closed_codes(column, field), np.diff(column.indptr))
                parts.append((codes + offset, lengths))
                continue
            if isinstance(column, NumberColumn):
                assert isinstance(field, ShapedNumber)
                codes = shaped_codes(field, column.ticks)
            else:
                codes = _closed_codes(column, field)
                if field.name in fallbacks:
                    codes = np.where((codes < 0) & (column.codes >= 0), fallbacks[field.name], codes)
            has_missing = getattr(field, "missing", False)
            fallback = field.width - 1 if has_missing else fallbacks.get(field.name, 0)
            parts.append((np.where(codes < 0, fallback, codes) + offset, None))
        return join_fields(parts, len(self), domain)


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
    columns: list[RawColumn] = []
    for pieces in zip(*(part.columns for part in parts), strict=True):
        if isinstance(pieces[0], NumberColumn):
            columns.append(NumberColumn(np.concatenate([piece.ticks for piece in pieces])))
            continue
        vocabulary, codes = _merged_codes(pieces)
        if isinstance(pieces[0], SetColumn):
            lengths = np.concatenate([np.diff(piece.indptr) for piece in pieces])
            columns.append(SetColumn(row_pointers(lengths), codes, vocabulary))
        else:
            columns.append(CodeColumn(codes, vocabulary))
    return OpenRecords.of(parts[0].domain, sum(len(part) for part in parts), columns)


def _merged_codes(pieces: Sequence[Any]) -> tuple[Vocabulary | None, NDArray[np.int32]]:
    """A vocabulary with the labels of all pieces, and their codes in it."""
    shared = pieces[0].vocabulary
    if all(piece.vocabulary is shared for piece in pieces):
        return shared, np.concatenate([piece.codes for piece in pieces])
    merged, parts = Vocabulary(), []
    for piece in pieces:
        labels = piece.vocabulary.labels
        code_of = np.array([*(merged.code(label) for label in labels), -1], dtype=np.int32)  # the last for code -1
        parts.append(code_of[piece.codes])
    return merged, np.concatenate(parts)


def _in_steps(values: Floats, field: Field) -> Floats:
    """Ticks in a field's discovered step, from plain numbers or from seconds."""
    if isinstance(field, DateTime):
        return np.floor(values / SECONDS[field.format.unit])
    assert isinstance(field, Numeric)
    return field.format.ticks(values)


def _closed_codes(column: CodeColumn | SetColumn, field: Field) -> Codes:
    """Positions within a closed field; -1 if the value is missing, or neither published nor counted as "other"."""
    if column.vocabulary is None:
        return column.codes.astype(np.int64)
    assert isinstance(field, (ItemSet, Categorical))
    published = field.items if isinstance(field, ItemSet) else field.values
    known = {str(label): at for at, label in enumerate(published)}
    unlisted = known[OTHER] if isinstance(field, Categorical) and field.other else -1
    positions = [*(known.get(label, unlisted) for label in column.vocabulary.labels), -1]  # the last for code -1
    return np.array(positions, dtype=np.int64)[column.codes]
