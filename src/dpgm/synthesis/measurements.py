"""The released statistics as a table: every noisy number with its standard error, for whoever wants more than a model.

They left the gateway during the fit, and the certificate accounts for them, so that publishing them costs nothing more.
"""

import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dpgm.arrays import Floats, Ints
from dpgm.data.domain import Domain
from dpgm.data.formats.parquet import survives
from dpgm.errors import ArtefactError
from dpgm.mechanisms.gateway import ReleasedSum
from dpgm.privacy.events import Mechanism

MEASUREMENTS_NAME = "measurements.parquet"
MAX_MEASUREMENTS_BYTES = 1_000_000_000
MOST_NUMBERS = 10_000_000
_WRITTEN: dict[str, Any] = {
    "version": "2.6",
    "compression": "none",
    "store_schema": False,
    "write_statistics": False,
}
_WRITER = re.compile(rb"\(.parquet-cpp-arrow version [0-9.]{1,20}", re.DOTALL)
_TEXT = pa.dictionary(pa.int32(), pa.string())
_COLUMNS = {
    "mechanism": (_TEXT, "the mechanism of the certificate that released the number"),
    "run": (pa.int32(), "which of its runs, from 0"),
    "number": (pa.int32(), "which number of the run, from 0"),
    "value": (pa.float64(), "the noisy number"),
    "standard_error": (pa.float64(), "the standard deviation of its noise"),
    "position": (pa.int32(), "the position of the domain that it counts, if it counts one"),
    "counts": (_TEXT, "what it counts, or which value it is about"),
    "share_of_rows": (pa.float64(), "count = value + share_of_rows x number of records"),
}
_PHYSICAL = {
    name: {_TEXT: "BYTE_ARRAY", pa.int32(): "INT32", pa.float64(): "DOUBLE"}[kind]
    for name, (kind, _) in _COLUMNS.items()
}
SCHEMA = pa.schema([pa.field(name, kind) for name, (kind, _) in _COLUMNS.items()])
COLUMN_MEANINGS: Mapping[str, str] = {name: meaning for name, (_, meaning) in _COLUMNS.items()}


@dataclass(frozen=True, eq=False)
class MeasurementTable:
    """All released statistics of a fit, over all rows; steps of a training are not among them."""

    table: pa.Table = field(default_factory=SCHEMA.empty_table)

    @classmethod
    def of(cls, released: Sequence[ReleasedSum], domain: Domain) -> "MeasurementTable":
        """The table of what left the gateway, in the order in which it did."""
        runs = Counter[str]()
        parts = [SCHEMA.empty_table()]
        for one in released:
            parts.append(_table_of(one, runs[one.name], domain))
            runs[one.name] += 1
        return cls(pa.concat_tables(parts).unify_dictionaries().combine_chunks())

    @cached_property
    def content(self) -> bytes:
        """The table as a Parquet file; the same table has the same bytes."""
        out = io.BytesIO()
        coded = [name for name in SCHEMA.names if name not in ("number", "value", "position")]
        pq.write_table(self.table, out, row_group_size=MOST_NUMBERS, use_dictionary=coded, **_WRITTEN)
        return out.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, domain: Domain) -> "MeasurementTable":
        """The inverse of `content`, for untrusted bytes; raises ArtefactError unless it is what `dpgm` would write."""
        damaged = ArtefactError(f"{MEASUREMENTS_NAME} is damaged or was tampered with")
        try:
            if not survives(lambda: _read(data)):  # damage ends a process, at places where Python cannot catch it
                raise damaged
            read = _read(data)
            if read is None:
                raise damaged
            table = read.combine_chunks()
            positions = table["position"].to_numpy(zero_copy_only=False)
            texts = position_texts(domain)
            if not _inside(table["position"], 0, len(texts) - 1) or not _inside(table["share_of_rows"], 0, 1):
                raise damaged
            # Texts follow from positions: a text of its own could tell anything.
            table = table.set_column(6, SCHEMA.field(6), _texts_at(positions, texts).dictionary_encode())
            found = cls(table.cast(SCHEMA))
            same = _without_writer(found.content) == _without_writer(data)
        except (pa.ArrowException, OSError, ValueError, OverflowError, TypeError) as error:
            raise damaged from error
        if not same:
            raise ArtefactError(f"{MEASUREMENTS_NAME} was changed, or written by another version")
        return found

    def counts(self) -> dict[int, tuple[float, float, float]]:
        """By position: the noisy value, its standard error, and the share of rows to be added; the most exact one."""
        names = ["position", "value", "standard_error", "share_of_rows"]
        table = self.table.select(names).drop_null()
        best: dict[int, tuple[float, float, float]] = {}
        columns = (table[name].to_pylist() for name in names)
        for position, value, error, share in zip(*columns, strict=True):
            if position not in best or error < best[position][1]:
                best[position] = (value, error, share)
        return best

    def smallest_error(self) -> float:
        """The smallest standard error of all numbers; 0 if there are none."""
        return float(pc.min(self.table["standard_error"]).as_py() or 0.0)


def why_not_of(found: MeasurementTable, mechanisms: Sequence[Mechanism]) -> str | None:
    """Why a table cannot be that of a release with these mechanisms; None if it can."""
    expected = {(one.name, run) for one in mechanisms if one.sample is None for run in range(one.count)}
    table = found.table
    if any(table[name].null_count for name in ("mechanism", "run", "number", "value", "standard_error")):
        return "a number is missing"
    columns = {name: table[name].to_numpy() for name in ("run", "number", "value", "standard_error")}
    error = columns["standard_error"]
    if not (np.isfinite(columns["value"]).all() and np.isfinite(error).all() and (error >= 0).all()):
        return "a number is not finite"
    seen: set[tuple[str, int]] = set()
    for start, stop, name, run in _runs(table, columns["run"]):
        if (name, run) not in expected or (name, run) in seen:
            return f"the mechanism {str(name)[:60]!r} is not one of the certificate, or ran less often"
        if not np.array_equal(columns["number"][start:stop], np.arange(stop - start)):
            return "its numbers are not in order"
        if (error[start:stop] != error[start]).any():
            return "the numbers of a run have several standard errors"
        seen.add((name, run))
    return None


def _runs(table: pa.Table, run: Ints) -> list[tuple[int, int, str, int]]:
    """Where every run of a mechanism starts and stops."""
    names = table["mechanism"].combine_chunks()
    codes = names.indices.to_numpy() if len(table) else np.empty(0, dtype=np.int64)
    change = np.flatnonzero((np.diff(codes) != 0) | (np.diff(run) != 0)) + 1
    bounds = [0, *change.tolist(), len(table)] if len(table) else []
    return [
        (start, stop, names.dictionary[int(codes[start])].as_py(), int(run[start]))
        for start, stop in pairwise(bounds)
    ]


def position_texts(domain: Domain) -> list[str]:
    """What every position of a domain stands for, such as `sex=f`."""
    return [name for one in domain.fields for name in one.position_names]


def _texts_at(positions: Floats, texts: Sequence[str]) -> pa.Array:
    known = ~np.isnan(positions) if positions.dtype.kind == "f" else np.ones(len(positions), dtype=np.bool_)
    taken = np.where(known, positions, 0).astype(np.int64)
    return pa.array(texts or [""], pa.string()).take(pa.array(taken, mask=~known))


def _places(domain: Domain) -> dict[tuple[str, str], int]:
    """The position of every label of every field."""
    pairs = ((one, start) for one, start in zip(domain.fields, domain.offsets, strict=True) if one.has_labels)
    return {(one.name, str(label)): start + at for one, start in pairs for at, label in enumerate(one.labels)}


def _table_of(one: ReleasedSum, run: int, domain: Domain) -> pa.Table:
    texts = position_texts(domain)
    values = one.value.double().flatten().numpy()
    size = len(values)
    positions = np.full(size, -1, dtype=np.int64)
    shares = np.zeros(size)
    if one.counts is not None:
        positions, shares = one.counts.positions, one.counts.shares
    elif one.labels:
        place = _places(domain)
        positions = np.array([place.get((name, str(label)), -1) for name, label in one.labels], dtype=np.int64)
    unknown = positions < 0
    columns: dict[str, Any] = {
        "mechanism": pa.DictionaryArray.from_arrays(np.zeros(size, dtype=np.int32), [one.name]),
        "run": np.full(size, run, dtype=np.int32),
        "number": np.arange(size, dtype=np.int32),
        "value": values,
        "standard_error": np.full(size, one.std),
        "position": pa.array(positions.astype(np.int32), mask=unknown),
        "counts": _texts_at(np.where(unknown, np.nan, positions), texts).dictionary_encode(),
        "share_of_rows": pa.array(
            shares, mask=unknown if one.counts is not None else np.ones(size, dtype=np.bool_)
        ),
    }
    return pa.table(columns).cast(SCHEMA)


def _read(data: bytes) -> pa.Table | None:
    """The table of a file; None unless it is one that is not large in memory."""
    if not _is_plain(pq.read_metadata(io.BytesIO(data))):
        return None
    file = pq.ParquetFile(io.BytesIO(data), read_dictionary=["mechanism", "counts"])
    return file.read(use_threads=False)


def _is_plain(metadata: Any) -> bool:
    """Whether a file is one uncompressed group of these columns and not too many rows: it cannot be large in memory."""
    if metadata.num_row_groups > 1 or metadata.num_rows > MOST_NUMBERS or metadata.metadata:
        return False
    columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    if [(one.path, one.physical_type) for one in columns] != list(_PHYSICAL.items()):
        return False
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    return all(chunk.compression == "UNCOMPRESSED" for chunk in chunks)


def _inside(column: pa.ChunkedArray, low: float, high: float) -> bool:
    values = column.drop_null().to_numpy()
    return not len(values) or bool(((values >= low) & (values <= high)).all())


def _without_writer(data: bytes) -> bytes:
    """A Parquet file without the version of the library that wrote it, and the length that it adds to."""
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    if not 0 < footer < len(data):
        raise ValueError("it has no footer")
    return data[:footer] + _WRITER.sub(b"", data[footer:-8], count=1) + data[-4:]
