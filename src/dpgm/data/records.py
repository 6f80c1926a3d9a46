"""`Records`, a frozen sparse binary matrix (CSR) with its public domain; and grey values of images in such records."""

import dataclasses
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain, Image
from dpgm.data.events import Events, concatenate_events
from dpgm.data.kinds.image import WHITE
from dpgm.data.rows import index_dtype, is_sorted, pieces_of, row_pointers, sort_rows, take_rows
from dpgm.errors import UsageError
from dpgm.notebook import html_table
from dpgm.validation import counted

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    import scipy.sparse

# The name and dtype of a frame's columns: texts for pandas, dtypes for polars; empty if the values decided it.
Dtypes: TypeAlias = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, eq=False)
class Records:
    """N records as sorted, distinct positions of the domain's binary vector.

    `indptr` (N + 1, int64) and `indices` (int16 or int32) are read-only; slicing shares memory. Synthetic records keep
    the values that were drawn for them (`decoded`), so that every conversion gives the same values. `dtypes` are the
    column dtypes of the frame of pandas (as texts) or polars that the data came from. `events` are the items of the
    domain's sequence in order; None if it has none.

    >>> records = Records.from_lists([[2, 0], [], [1]], Domain.of_items(3))
    >>> len(records), records.lengths.tolist(), records.take(np.array([2, 0])).indices.tolist()
    (3, [2, 0, 1], [1, 0, 2])
    """

    domain: Domain
    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    decoded: "pyarrow.Table | None" = dataclasses.field(default=None, kw_only=True, repr=False)
    dtypes: Dtypes = dataclasses.field(default=(), kw_only=True, repr=False)
    events: Events | None = dataclasses.field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        self.indptr.flags.writeable = False
        self.indices.flags.writeable = False

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __repr__(self) -> str:
        return f"Records({counted(len(self), 'record')}, {counted(self.width, 'position')})"

    def _repr_html_(self) -> str:
        # Only counts and kinds: these may be private records.
        facts = [("records", f"{len(self):,}"), ("positions", f"{self.width:,}")]
        return html_table("Records", [*facts, *((field.name, field.kind) for field in self.domain.columns)])

    @property
    def width(self) -> int:
        """m: the number of positions of the binary vector."""
        return self.domain.width

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of positions that each record has."""
        return np.diff(self.indptr)

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        own = self.indptr.nbytes + self.indices.nbytes
        return own if self.events is None else own + self.events.nbytes

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]], domain: Domain) -> "Records":
        """Records from lists of positions, in any order; duplicates within a row count once."""
        lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
        flat = np.fromiter((at for row in rows for at in row), dtype=np.int64, count=int(lengths.sum()))
        return cls.from_flat(flat, lengths, domain)

    @classmethod
    def from_flat(cls, positions: NDArray[Any], lengths: NDArray[Any], domain: Domain) -> "Records":
        """Records from concatenated rows of positions and the length of each row.

        Positions within a row may come in any order; duplicates count once.
        """
        if len(positions) and (positions.min() < 0 or positions.max() >= domain.width):
            raise UsageError(f"positions must lie in [0, {domain.width}).")
        return cls(domain, *sort_rows(row_pointers(lengths), positions, domain.width))

    @classmethod
    def of_events(cls, events: Events, domain: Domain, attributes: "Records | None" = None) -> "Records":
        """Records of a domain with a sequence, from its events and the positions of the other fields.

        Positions of `attributes` within the sequence do not count; None if the domain has no other fields.
        """
        sequence = domain.sequence
        if sequence is None:
            raise UsageError("the domain has no sequence; give it a field of kind `sequence`.")
        block = domain.blocks[domain.fields.index(sequence)]
        indptr, items = events.sets(block.width)
        positions, lengths = items.astype(np.int64) + block.start, np.diff(indptr)
        if attributes is not None:
            outside = (attributes.indices < block.start) | (attributes.indices >= block.stop)
            row = np.repeat(np.arange(len(attributes)), attributes.lengths)[outside]
            rows = np.concatenate([np.repeat(np.arange(len(events)), lengths), row])
            order = np.argsort(rows, kind="stable")
            positions = np.concatenate([positions, attributes.indices[outside]])[order]
            lengths = lengths + np.bincount(row, minlength=len(events))
        return dataclasses.replace(cls.from_flat(positions, lengths, domain), events=events)

    @classmethod
    def from_dense(cls, matrix: NDArray[np.generic], domain: Domain) -> "Records":
        """Records from a dense (N, m) matrix; non-zero means present."""
        rows, columns = np.nonzero(matrix)
        indptr = row_pointers(np.bincount(rows, minlength=len(matrix)))
        return cls(domain, indptr, columns.astype(index_dtype(domain.width)))

    def check(self) -> None:
        """Raise unless each row has sorted, distinct positions of the domain, as every sensitivity bound assumes.

        The class methods above guarantee it; this is for records built directly from arrays.
        """
        pointers = self.indptr
        good = pointers.ndim == 1 and self.indices.ndim == 1 and len(pointers) > 0 and int(pointers[0]) == 0
        if not good or int(pointers[-1]) != len(self.indices) or bool((pointers[1:] < pointers[:-1]).any()):
            raise UsageError("the records' `indptr` does not cut `indices` into rows; use `Records.from_flat`.")
        for first, last in pieces_of(pointers):
            low = int(pointers[first])
            piece = self.indices[low : int(pointers[last])]
            if len(piece) and (int(piece.min()) < 0 or int(piece.max()) >= self.width):
                raise UsageError(f"positions must lie in [0, {self.width}).")
            if not is_sorted(piece, pointers[first:last] - low):
                raise UsageError("positions within a record must rise and differ; use `Records.from_flat`.")
        self._check_events()

    def _check_events(self) -> None:
        """Raise unless there are events where the domain has a sequence, and their items are those of the records."""
        sequence, events = self.domain.sequence, self.events
        if (sequence is None) != (events is None):
            raise UsageError("records have events if their domain has a sequence, and none otherwise.")
        if sequence is None or events is None:
            return
        events.check(sequence.width, sequence.minutes if sequence.time else None, sequence.max_length)
        if len(events) != len(self):
            raise UsageError("the events must be those of as many people as there are records.")
        block = self.domain.blocks[self.domain.fields.index(sequence)]
        for first, last in pieces_of(self.indptr):
            part = self.rows(first, last)
            inside = (part.indices >= block.start) & (part.indices < block.stop)
            held = np.repeat(np.arange(len(part)), part.lengths)[inside]
            pointers, items = part.events.sets(block.width)  # type: ignore[union-attr]
            same = np.array_equal(np.bincount(held, minlength=len(part)), np.diff(pointers))
            if not same or not np.array_equal(part.indices[inside] - block.start, items):
                raise UsageError("the items of events must be those of the records; use `Records.of_events`.")

    def buffers(self) -> Iterator[NDArray[Any]]:
        """The underlying arrays, for a digest."""
        yield self.indptr
        yield self.indices
        if self.events is not None:
            yield from self.events.buffers()

    def rows(self, start: int, stop: int) -> "Records":
        """Records [start, stop), sharing memory."""
        start, stop, _ = slice(start, stop).indices(len(self))
        stop = max(start, stop)
        pointers = self.indptr[start : stop + 1]
        first, last = int(pointers[0]), int(pointers[-1])
        decoded = None if self.decoded is None else self.decoded.slice(start, stop - start)
        pointers = pointers - first if first else pointers
        events = None if self.events is None else self.events.rows(start, stop)
        indices = self.indices[first:last]
        return Records(self.domain, pointers, indices, decoded=decoded, dtypes=self.dtypes, events=events)

    def take(self, rows: NDArray[Any]) -> "Records":
        """The records at `rows` (row numbers in any order, or a mask of N booleans), in that order."""
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        indptr, indices = take_rows(self.indptr, self.indices, rows)
        decoded = None if self.decoded is None else self.decoded.take(rows)
        events = None if self.events is None else self.events.take(rows)
        return Records(self.domain, indptr, indices, decoded=decoded, dtypes=self.dtypes, events=events)

    def chunks(self, size: int) -> Iterator["Records"]:
        """Consecutive parts of at most `size` records."""
        for start in range(0, len(self), size):
            yield self.rows(start, min(start + size, len(self)))

    def pieces(self) -> Iterator["Records"]:
        """Consecutive parts of about a million positions (at least one record), for sums in bounded memory."""
        for first, last in pieces_of(self.indptr):
            yield self.rows(first, last)

    def to_dense(self, dtype: type[np.generic] = np.float32) -> NDArray[Any]:
        """A dense (N, m) copy, for small data and tests."""
        dense = np.zeros((len(self), self.width), dtype=dtype)
        dense[np.repeat(np.arange(len(self)), self.lengths), self.indices] = 1
        return dense

    def to_scipy(self) -> "scipy.sparse.csr_array":
        """A scipy CSR matrix of ones (uint8), positions as columns."""
        import scipy.sparse

        ones = np.ones(len(self.indices), dtype=np.uint8)
        shape = (len(self), self.width)
        return scipy.sparse.csr_array((ones, self.indices.astype(np.int32), self.indptr), shape=shape)

    def to_arrow(self, *, rng: np.random.Generator | None = None) -> "pyarrow.Table":
        """A pyarrow table, one column per field; item sets as in the input: lists, one row per item, or 0/1 columns."""
        from dpgm.data.decoding import event_lists_together, shaped_table

        layout = self.domain.layout
        shape = "basket" if layout is None else layout.shape
        if shape == "wide" and self.domain.item_set is not None and self.domain.image is not None:
            shape = "basket"
        table = shaped_table(self, shape, layout, rng=np.random.default_rng() if rng is None else rng)
        return event_lists_together(table, self.domain)

    def to_pandas(self, *, rng: np.random.Generator | None = None) -> "pandas.DataFrame":
        """The table of `to_arrow` as a pandas frame; whole numbers with missing values become Int64."""
        from dpgm.data.decoding import pandas_frame

        return pandas_frame(self.to_arrow(rng=rng), dict(self.dtypes))

    def to_polars(self, *, rng: np.random.Generator | None = None) -> "polars.DataFrame":
        """The table of `to_arrow` as a polars frame."""
        from dpgm.data.decoding import polars_frame

        return polars_frame(self.to_arrow(rng=rng), dict(self.dtypes), self.domain)

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        shape: str | None = None,
        persons: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write to a file in the format of its ending, and attributes of persons to another (`dpgm.write_records`)."""
        from dpgm.data.writers import write_records

        write_records(self, path, shape=shape, persons=persons)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Records)
            and self.domain == other.domain
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.indices, other.indices)
            and self.events == other.events
        )

    __hash__ = None  # type: ignore[assignment]


def concatenate(parts: Sequence[Records]) -> Records:
    """The records of all parts, in order; all parts must have the same domain."""
    if not parts:
        raise UsageError("nothing to concatenate; give at least one part.")
    domain = parts[0].domain
    if any(part.domain is not domain and part.domain != domain for part in parts):
        raise UsageError("records of different domains cannot be concatenated.")
    if domain.is_open:
        from dpgm.data.open_records import OpenRecords, concatenate_open

        return concatenate_open([part for part in parts if isinstance(part, OpenRecords)])
    indptr = row_pointers(np.concatenate([part.lengths for part in parts]))
    tables = [part.decoded for part in parts]
    decoded = None
    if all(table is not None for table in tables):
        import pyarrow as pa

        decoded = pa.concat_tables(tables)
    joined = [part.events for part in parts if part.events is not None]
    events = concatenate_events(joined) if len(joined) == len(parts) else None
    return Records(domain, indptr, np.concatenate([part.indices for part in parts]), decoded=decoded, events=events)


def grey_levels(records: Records, image: Image) -> NDArray[np.int64]:
    """(n, pixels): grey levels 0 .. levels - 1, the number of positions that are set for each pixel."""
    start = records.domain.offsets[records.domain.fields.index(image)]
    positions = records.indices.astype(np.int64) - start
    inside = (positions >= 0) & (positions < image.width)
    rows = np.repeat(np.arange(len(records)), records.lengths)[inside]
    cells = rows * image.pixels + positions[inside] % image.pixels
    return np.bincount(cells, minlength=len(records) * image.pixels).reshape(len(records), image.pixels)


def grey_values(records: Records, image: Image) -> NDArray[np.float32]:
    """(n, height, columns): grey values in [0, 1]."""
    values = (grey_levels(records, image) / (image.levels - 1)).astype(np.float32)
    return values.reshape(-1, image.height, image.columns)


def pixel_values(records: Records, image: Image, white: int = WHITE) -> NDArray[Any]:
    """(n, pixels): grey values from 0 to `white`, the highest level, as bytes if they fit."""
    values: NDArray[np.float64] = np.rint(grey_levels(records, image) * (white / (image.levels - 1)))
    return values.astype(np.uint8 if white <= WHITE else np.uint16)
