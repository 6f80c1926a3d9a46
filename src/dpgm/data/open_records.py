"""Records whose domain is still open: raw private columns, to be recoded once values and bins are known.

Numbers are kept as ticks, undiscovered labels as codes over a private vocabulary that lives in memory only. `closed`
turns every record into positions of a closed domain, one by one: a public map, applied to each record alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import (
    MAX_LABEL_BYTES,
    MAX_WIDTH,
    Categorical,
    DateTime,
    Domain,
    Field,
    ItemSet,
    Numeric,
    ShapedNumber,
)
from dpgm.data.fields import OTHER
from dpgm.data.number_bins import shaped_codes
from dpgm.data.number_fields import SECONDS
from dpgm.data.records import Records, row_pointers
from dpgm.errors import ResourceError, UsageError

if TYPE_CHECKING:
    import pyarrow

    from dpgm.data.values import Place

Codes: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

LOOKUP_LIMIT = 5_000_000  # numbers below it are looked up in a table


def kept_codes(codes: NDArray[Any], lengths: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Codes row after row and their number in each row, without those to drop."""
    keep = codes >= 0
    if keep.all():
        return codes, lengths
    rows = np.repeat(np.arange(len(lengths)), lengths)[keep]
    return codes[keep], np.bincount(rows, minlength=len(lengths))


class Vocabulary:
    """Labels of one field as they occur, numbered at first sight. Private: only what passes a threshold ever leaves.

    Every label is a text, from any type of column, so that no label changes the type of the others. Labels
    that could not be published (empty, over 1 kB) are dropped.
    """

    integers = False

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self._table = np.full(0, -1, dtype=np.int64)  # the codes of small numbers

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def labels(self) -> list[str]:
        """All labels, by code."""
        return list(self.codes)

    def lists(self, label: str) -> bool:
        """Whether a public list names this label: there is none."""
        return False

    def code(self, label: str, place: "Place | None" = None) -> int:
        """The number of a label, -1 if it cannot be published."""
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
        """Codes of whole numbers, new ones numbered; small ones are looked up in a table."""
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
        """Codes of texts with the white space around them taken off, new ones numbered."""
        import pyarrow.compute as pc

        encoded = pc.utf8_trim_whitespace(values).dictionary_encode()
        codes = np.array([self.code(label, place) for label in encoded.dictionary.to_pylist()], dtype=np.int64)
        which: NDArray[np.int32] = encoded.indices.to_numpy(zero_copy_only=False)
        return codes[which]


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """Ticks, NaN where missing."""

    ticks: Floats

    def take(self, rows: Any) -> "NumberColumn":
        """The entries at `rows`."""
        return NumberColumn(self.ticks[rows])


@dataclass(frozen=True, eq=False)
class CodeColumn:
    """One code per record, -1 where missing; over a vocabulary, or (None) over the positions of a closed field."""

    codes: NDArray[np.int32]
    vocabulary: Vocabulary | None = None

    def take(self, rows: Any) -> "CodeColumn":
        """The entries at `rows`."""
        return CodeColumn(self.codes[rows], self.vocabulary)


@dataclass(frozen=True, eq=False)
class SetColumn:
    """Distinct codes per record; over a vocabulary, or (None) over the positions of a closed field."""

    indptr: NDArray[np.int64]
    codes: NDArray[np.int32]
    vocabulary: Vocabulary | None = None

    def take(self, rows: Any) -> "SetColumn":
        """The entries at `rows`."""
        chosen = np.arange(len(self.indptr) - 1)[rows]
        starts, lengths = self.indptr[chosen], np.diff(self.indptr)[chosen]
        indptr = row_pointers(lengths)
        where = np.arange(int(indptr[-1])) + np.repeat(starts - indptr[:-1], lengths)
        return SetColumn(indptr, self.codes[where], self.vocabulary)


RawColumn: TypeAlias = NumberColumn | CodeColumn | SetColumn


@dataclass(frozen=True, eq=False, repr=False)
class OpenRecords(Records):
    """N records of an open domain, one raw column per field. `indptr` counts records; there are no positions yet."""

    columns: tuple[RawColumn, ...] = ()

    @classmethod
    def of(cls, domain: Domain, count: int, columns: Sequence[RawColumn]) -> "OpenRecords":
        """Records from one raw column per field of the domain."""
        nothing = np.empty(0, dtype=np.int16)
        return cls(domain, np.zeros(count + 1, dtype=np.int64), nothing, columns=tuple(columns))

    @classmethod
    def of_sets(cls, records: Records, domain: Domain) -> "OpenRecords":
        """Records of one item set whose items are to be discovered, from records over the items that occur."""
        (field,) = domain.fields
        occurring = records.domain.fields[0]
        if not isinstance(field, ItemSet) or not isinstance(occurring, ItemSet):
            raise UsageError("items can be discovered only where the domain is one item set.")
        vocabulary = Vocabulary()
        place = np.array([vocabulary.code(str(label)) for label in occurring.items], dtype=np.int32)
        codes, lengths = kept_codes(place[records.indices], records.lengths)
        return cls.of(domain, len(records), (SetColumn(row_pointers(lengths), codes, vocabulary),))

    def __repr__(self) -> str:
        return f"OpenRecords({len(self):,} records, {len(self.columns)} open columns)"

    def check(self) -> None:
        """Refuse columns that do not belong to the domain, have another length or a set with a code twice."""
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
        """The records at `rows` (numbers in any order, or a mask of N booleans), in that order."""
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        return OpenRecords.of(self.domain, len(rows), [column.take(rows) for column in self.columns])

    def buffers(self) -> Iterator[NDArray[Any]]:
        """The arrays behind the records, for a digest; labels included."""
        for column in self.columns:
            for part in vars(column).values():
                if isinstance(part, Vocabulary):
                    yield np.frombuffer("\0".join(part.labels).encode("utf-8", "replace"), dtype=np.uint8)
                elif part is not None:
                    yield part

    def in_steps(self, domain: Domain) -> "OpenRecords":
        """These records in the ticks of a domain that states steps (units, places) which their own leaves open."""
        columns = [
            NumberColumn(_in_steps(column.ticks, after))
            if isinstance(column, NumberColumn) and before != after
            else column
            for column, before, after in zip(self.columns, self.domain.fields, domain.fields, strict=True)
        ]
        return OpenRecords.of(domain, len(self), columns)

    def closed(self, domain: Domain, instead: Mapping[str, int]) -> Records:
        """These records as positions of a closed domain.

        Args:
            domain: the closed domain, field by field of the same names.
            instead: by name of a field, the position (within it) of a value that has none of its own: missing values
                where the closed field knows none.
        """
        parts: list[tuple[Codes, NDArray[np.int64] | None]] = []
        for column, field, offset in zip(self.columns, domain.fields, domain.offsets, strict=True):
            if isinstance(column, SetColumn):
                codes, lengths = kept_codes(_closed_codes(column, field), np.diff(column.indptr))
                parts.append((codes + offset, lengths))
                continue
            if isinstance(column, NumberColumn):
                assert isinstance(field, ShapedNumber)
                codes = shaped_codes(field, column.ticks)
            else:
                codes = _closed_codes(column, field)
            missing = getattr(field, "missing", False)
            fallback = field.width - 1 if missing else instead.get(field.name, 0)
            parts.append((np.where(codes < 0, fallback, codes) + offset, None))
        return join_fields(parts, len(self), domain)


def join_fields(parts: Sequence[tuple[Codes, NDArray[np.int64] | None]], count: int, domain: Domain) -> Records:
    """Records from the positions of every field: one per record, or (with lengths) several."""
    total = np.zeros(count, dtype=np.int64)
    for _, several in parts:
        total += 1 if several is None else several
    starts = np.zeros(count, dtype=np.int64)
    np.cumsum(total[:-1], out=starts[1:])
    flat = np.empty(int(total.sum()), dtype=np.int64)
    for codes, several in parts:
        if several is None:
            flat[starts] = codes
            starts = starts + 1
        else:
            before = np.cumsum(several) - several
            flat[np.arange(len(codes)) + np.repeat(starts - before, several)] = codes
            starts = starts + several
    return Records.from_flat(flat, total, domain)


def concatenate_open(parts: Sequence[OpenRecords]) -> OpenRecords:
    """The records of all parts, in order; vocabularies are merged."""
    columns: list[RawColumn] = []
    for several in zip(*(part.columns for part in parts), strict=True):
        first = several[0]
        if isinstance(first, NumberColumn):
            columns.append(NumberColumn(np.concatenate([column.ticks for column in several])))
            continue
        vocabulary, codes = _merged(several)
        if isinstance(first, SetColumn):
            lengths = np.concatenate([np.diff(column.indptr) for column in several])
            columns.append(SetColumn(row_pointers(lengths), codes, vocabulary))
        else:
            columns.append(CodeColumn(codes, vocabulary))
    return OpenRecords.of(parts[0].domain, sum(len(part) for part in parts), columns)


def _merged(several: Sequence[Any]) -> tuple[Vocabulary | None, NDArray[np.int32]]:
    shared = several[0].vocabulary
    if all(column.vocabulary is shared for column in several):
        return shared, np.concatenate([column.codes for column in several])
    merged, parts = Vocabulary(), []
    for column in several:
        place = np.array([*(merged.code(label) for label in column.vocabulary.labels), -1], dtype=np.int32)
        parts.append(place[column.codes])
    return merged, np.concatenate(parts)


def _in_steps(values: Floats, field: Field) -> Floats:
    """Ticks of numbers that were kept as they are, or of moments that were kept in seconds."""
    if isinstance(field, DateTime):
        return np.floor(values / SECONDS[field.format.unit])
    assert isinstance(field, Numeric)
    return field.format.ticks(values)


def _closed_codes(column: CodeColumn | SetColumn, field: Field) -> Codes:
    """Positions within a closed field, -1 where a value has none: it is missing, or neither published nor "other"."""
    if column.vocabulary is None:
        return column.codes.astype(np.int64)
    assert isinstance(field, (ItemSet, Categorical))
    published = field.items if isinstance(field, ItemSet) else field.values
    known = {str(label): at for at, label in enumerate(published)}
    unlisted = known[OTHER] if isinstance(field, Categorical) and field.other else -1
    places = [*(known.get(label, unlisted) for label in column.vocabulary.labels), -1]  # the last for the code -1
    return np.array(places, dtype=np.int64)[column.codes]
