"""Records: a frozen sparse binary matrix (CSR) with its public domain; and what it holds of images, as grey values."""

import dataclasses
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain, Image
from dpgm.errors import UsageError
from dpgm.notebook import html_table

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    import scipy.sparse

# Ones gathered or sorted at once: keeps temporaries far below the size of the records.
_PIECE = 1_000_000
WHITE = 255  # the largest value of a pixel in files of bytes


def index_dtype(width: int) -> type[np.int16] | type[np.int32]:
    """The smallest of int16 and int32 that holds every position of a domain."""
    return np.int16 if width <= np.iinfo(np.int16).max else np.int32


def row_pointers(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Where every row starts in a flat array (and the last one ends), from the number of entries in each.

    >>> row_pointers(np.array([2, 0, 1])).tolist()
    [0, 2, 2, 3]
    """
    pointers = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=pointers[1:])
    return pointers


@dataclass(frozen=True, eq=False)
class Records:
    """N records as sorted, distinct positions of the domain's binary vector.

    `indptr` (N + 1, int64) and `indices` (int16 or int32) are read-only; slicing shares memory. Synthetic records keep
    the values that were drawn for them (`decoded`), so that they are the same each time they are looked at.

    >>> records = Records.from_lists([[2, 0], [], [1]], Domain.of_items(3))
    >>> len(records), records.lengths.tolist(), records.take(np.array([2, 0])).indices.tolist()
    (3, [2, 0, 1], [1, 0, 2])
    """

    domain: Domain
    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    # Values drawn before, and the dtypes of pandas' columns as they were stated.
    decoded: "pyarrow.Table | None" = dataclasses.field(default=None, kw_only=True, repr=False)
    dtypes: tuple[tuple[str, str], ...] = dataclasses.field(default=(), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        self.indptr.flags.writeable = False
        self.indices.flags.writeable = False

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __repr__(self) -> str:
        return f"Records({len(self):,} records, {self.width:,} positions)"

    def _repr_html_(self) -> str:
        # Counts and kinds alone: these may be people's own records.
        facts = [("records", f"{len(self):,}"), ("positions", f"{self.width:,}")]
        return html_table("Records", [*facts, *((field.name, field.kind) for field in self.domain.columns)])

    @property
    def width(self) -> int:
        """m: positions of the binary vector."""
        return self.domain.width

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Ones of every record."""
        return np.diff(self.indptr)

    @property
    def nbytes(self) -> int:
        """Memory of the two arrays."""
        return self.indptr.nbytes + self.indices.nbytes

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]], domain: Domain) -> "Records":
        """Records from lists of positions; duplicates within a row count once."""
        lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
        flat = np.fromiter((at for row in rows for at in row), dtype=np.int64, count=int(lengths.sum()))
        return cls.from_flat(flat, lengths, domain)

    @classmethod
    def from_flat(cls, positions: NDArray[Any], lengths: NDArray[Any], domain: Domain) -> "Records":
        """Records from all positions row after row and the number in each row.

        Within a row positions may come in any order and more than once.
        """
        if len(positions) and (positions.min() < 0 or positions.max() >= domain.width):
            raise UsageError(f"positions must lie in [0, {domain.width}).")
        return cls(domain, *sort_rows(row_pointers(lengths), positions, domain.width))

    @classmethod
    def from_dense(cls, matrix: NDArray[np.generic], domain: Domain) -> "Records":
        """Records from a dense (N, m) matrix; non-zero means present."""
        rows, columns = np.nonzero(matrix)
        indptr = row_pointers(np.bincount(rows, minlength=len(matrix)))
        return cls(domain, indptr, columns.astype(index_dtype(domain.width)))

    def check(self) -> None:
        """Refuse arrays that are not sorted, distinct positions of the domain, as every bound on a record assumes.

        The constructors see to it; this is for records put together by hand.
        """
        pointers = self.indptr
        good = pointers.ndim == 1 and self.indices.ndim == 1 and len(pointers) > 0 and int(pointers[0]) == 0
        if not good or int(pointers[-1]) != len(self.indices) or bool((pointers[1:] < pointers[:-1]).any()):
            raise UsageError("the records' `indptr` does not cut `indices` into rows; use `Records.from_flat`.")
        for first, last in _pieces(pointers):
            low, high = int(pointers[first]), int(pointers[last])
            piece = self.indices[low:high]
            if len(piece) and (int(piece.min()) < 0 or int(piece.max()) >= self.width):
                raise UsageError(f"positions must lie in [0, {self.width}).")
            rising = piece[1:] > piece[:-1]
            starts = pointers[first + 1 : last] - low
            rising[starts[(starts > 0) & (starts < high - low)] - 1] = True  # a new row may start anywhere
            if not rising.all():
                raise UsageError("positions within a record must rise and differ; use `Records.from_flat`.")

    def buffers(self) -> Iterator[NDArray[Any]]:
        """The arrays behind the records, for a digest of them."""
        yield self.indptr
        yield self.indices

    def rows(self, start: int, stop: int) -> "Records":
        """Records [start, stop), sharing memory."""
        start, stop, _ = slice(start, stop).indices(len(self))
        stop = max(start, stop)
        pointers = self.indptr[start : stop + 1]
        first, last = int(pointers[0]), int(pointers[-1])
        decoded = None if self.decoded is None else self.decoded.slice(start, stop - start)
        pointers = pointers - first if first else pointers
        return Records(self.domain, pointers, self.indices[first:last], decoded=decoded, dtypes=self.dtypes)

    def take(self, rows: NDArray[Any]) -> "Records":
        """The records at `rows` (numbers in any order, or a mask of N booleans), in that order."""
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        starts = self.indptr[rows]
        lengths = self.indptr[rows + 1] - starts
        indptr = row_pointers(lengths)
        indices = np.empty(int(indptr[-1]), dtype=self.indices.dtype)
        shifts = starts - indptr[:-1]
        for first, last in _pieces(indptr):
            low, high = int(indptr[first]), int(indptr[last])
            where = np.arange(low, high)
            where += np.repeat(shifts[first:last], lengths[first:last])
            np.take(self.indices, where, out=indices[low:high], mode="clip")
        decoded = None if self.decoded is None else self.decoded.take(rows)
        return Records(self.domain, indptr, indices, decoded=decoded, dtypes=self.dtypes)

    def chunks(self, size: int) -> Iterator["Records"]:
        """Consecutive row ranges of at most `size` records."""
        for start in range(0, len(self), size):
            yield self.rows(start, min(start + size, len(self)))

    def pieces(self) -> Iterator["Records"]:
        """Consecutive row ranges of about a million ones (at least a record): for sums in bounded memory."""
        for first, last in _pieces(self.indptr):
            yield self.rows(first, last)

    def to_dense(self, dtype: type[np.generic] = np.float32) -> NDArray[Any]:
        """A dense (N, m) copy; for small data and tests."""
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
        """A pyarrow table, one column per field; item sets as they came in: lists, one row per item, or 0/1 columns."""
        from dpgm.data.writers import shaped_table

        layout = self.domain.layout
        as_lists = layout is None or (layout.shape == "wide" and isinstance(self.domain.item_set, Image))
        shape = "basket" if layout is None or as_lists else layout.shape
        return shaped_table(self, shape, layout, rng=np.random.default_rng() if rng is None else rng)

    def to_pandas(self, *, rng: np.random.Generator | None = None) -> "pandas.DataFrame":
        """A pandas frame, as `to_arrow` has it; whole numbers with missing values become pandas' Int64."""
        from dpgm.data.conversion import pandas_frame

        return pandas_frame(self.to_arrow(rng=rng), dict(self.dtypes))

    def to_polars(self, *, rng: np.random.Generator | None = None) -> "polars.DataFrame":
        """A polars frame, as `to_arrow` has it."""
        try:
            import polars
        except ImportError:
            raise UsageError("polars is not installed; run `pip install polars`.") from None
        frame: polars.DataFrame = polars.from_arrow(self.to_arrow(rng=rng))
        return frame

    def write(self, path: str | os.PathLike[str], *, shape: str | None = None) -> None:
        """Write to a file in the format of its ending (see `dpgm.write_records`)."""
        from dpgm.data.writers import write_records

        write_records(self, path, shape=shape)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Records)
            and self.domain == other.domain
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.indices, other.indices)
        )

    __hash__ = None  # type: ignore[assignment]


def _pieces(indptr: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Row ranges of about `_PIECE` ones (at least a row)."""
    first, rows = 0, len(indptr) - 1
    while first < rows:
        last = int(np.searchsorted(indptr, indptr[first] + _PIECE, side="right")) - 1
        last = min(max(last, first + 1), rows)
        yield first, last
        first = last


def sort_rows(
    indptr: NDArray[np.int64], positions: NDArray[Any], width: int
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """CSR arrays with each row's positions sorted and distinct, in the domain's integer type."""
    counts = np.diff(indptr)
    parts = []
    for first, last in _pieces(indptr):
        low, high = int(indptr[first]), int(indptr[last])
        piece = positions[low:high]
        inner = np.ones(high - low, dtype=bool)
        starts = indptr[first:last] - low
        inner[starts[starts < high - low]] = False
        if bool(np.all((piece[1:] > piece[:-1]) | ~inner[1:])):
            parts.append(piece.astype(index_dtype(width)))
            continue
        row = np.repeat(np.arange(last - first, dtype=np.int64), counts[first:last])
        keys = row * width + piece
        keys.sort()
        fresh = np.ones(len(keys), dtype=bool)
        np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
        row, column = np.divmod(keys[fresh], width)
        counts[first:last] = np.bincount(row, minlength=last - first)
        parts.append(column.astype(index_dtype(width)))
    return row_pointers(counts), np.concatenate(parts) if parts else np.empty(0, dtype=index_dtype(width))


def concatenate(parts: Sequence[Records]) -> Records:
    """The records of all parts, in order; they must share one domain."""
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
    return Records(domain, indptr, np.concatenate([part.indices for part in parts]), decoded=decoded)


def grey_levels(records: Records, image: Image) -> NDArray[np.int64]:
    """(n, pixels): the grey level of every pixel, 0 .. levels - 1: how many of its positions are filled."""
    start = records.domain.offsets[records.domain.fields.index(image)]
    positions = records.indices.astype(np.int64) - start
    inside = (positions >= 0) & (positions < image.width)
    rows = np.repeat(np.arange(len(records)), records.lengths)[inside]
    cells = rows * image.pixels + positions[inside] % image.pixels
    return np.bincount(cells, minlength=len(records) * image.pixels).reshape(len(records), image.pixels)


def grey_values(records: Records, image: Image) -> NDArray[np.float32]:
    """(n, height, columns): grey values in [0, 1]; of a binary image zeros and ones."""
    values = (grey_levels(records, image) / (image.levels - 1)).astype(np.float32)
    return values.reshape(-1, image.height, image.columns)


def level_bits(levels: NDArray[Any], image: Image) -> NDArray[np.bool_]:
    """(n, width): the positions that grey levels (n, pixels) fill."""
    return np.concatenate([levels > t for t in range(image.levels - 1)], axis=1)


def nearest_levels(values: NDArray[Any], image: Image) -> NDArray[np.int64]:
    """The grey level nearest to each value of 0 .. 255."""
    return np.rint(np.asarray(values, dtype=np.float64) * ((image.levels - 1) / WHITE)).astype(np.int64)


def byte_values(records: Records, image: Image) -> NDArray[np.uint8]:
    """(n, pixels): grey values as bytes, 255 for the highest level."""
    values: NDArray[np.float64] = np.rint(grey_levels(records, image) * (WHITE / (image.levels - 1)))
    return values.astype(np.uint8)
