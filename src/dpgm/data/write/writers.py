"""Writing records, chunk by chunk, in the format of the file's ending; the file appears whole or not at all."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np

from dpgm.data.atomic import atomic_file
from dpgm.data.domain import Domain, Image, Label
from dpgm.data.formats import FileFormat, Layout, Shape, check_shape, format_of
from dpgm.data.records import Records
from dpgm.data.write.rendering import (
    Render,
    csv_cell,
    render_baskets,
    render_binary_csv,
    render_binary_json,
    render_json,
    render_long_csv,
    render_long_json,
    render_table_csv,
)
from dpgm.data.write.sinks import MatrixSink, NpzSink, ParquetSink, SetColumns, Sink, TextSink
from dpgm.errors import UsageError

_CHUNK = 65_536
_DENSE_CELLS = 20_000_000
_ONE_SHAPE: dict[str, Shape] = {"fimi": "basket", "npz": "wide", "npy": "wide", "idx": "wide"}
_SEEKING = ("npz", "npy", "idx")  # formats that are completed at their beginning


class RecordWriter:
    r"""Appends records to a file that appears, complete, when the `with` block ends without an error.

    The format follows the ending, or is the `format` given with a `stream` (such as stdout) to write to instead of a
    file. `shape` is `basket` (default for one item set), `long` or `wide`; without it, item sets are written as their
    `layout` says, which also names the columns. Numbers of numeric fields are drawn within their bins from `rng`.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "visits.dat")
    >>> with RecordWriter(path, Domain.of_items(4)) as writer:
    ...     writer.write(Records.from_lists([[0, 3], [1]], Domain.of_items(4)))
    >>> with open(path) as file:
    ...     file.read()
    '0 3\n1\n'
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        domain: Domain,
        *,
        shape: str | None = None,
        rng: np.random.Generator | None = None,
        force: bool = True,
        layout: Layout | None = None,
        stream: IO[bytes] | None = None,
        format: str | None = None,
    ) -> None:
        self.path = Path(path)
        self.domain = domain
        self.count = 0
        self._format = format_of(path, format)
        self._stream = stream
        self._shape = _shape_for(self._format, domain, check_shape(shape), layout)
        self._columns = _columns(domain, layout)
        self._rng = np.random.default_rng() if rng is None else rng
        self._force = force
        self._stack = ExitStack()
        self._sink: Sink | None = None
        _check_fits(self.path, self._format, domain)
        if stream is not None and self._format.name in _SEEKING:
            raise UsageError(f"the format {self._format.name} cannot be written to stdout; name a file.")

    def __enter__(self) -> "RecordWriter":
        with self._stack:
            if self._stream is not None:
                self._sink = self._text_or_parquet(self._stream)
            else:
                self._sink = self._open(self._stack.enter_context(atomic_file(self.path, force=self._force)))
            self._stack = self._stack.pop_all()
        return self

    def write(self, records: Records) -> None:
        """Append records of the writer's domain."""
        if self._sink is None:
            raise UsageError("a RecordWriter writes inside its `with` block only.")
        if records.domain is not self.domain and records.domain != self.domain:
            raise UsageError("the records have another domain than the writer.")
        size = max(1, min(_CHUNK, _DENSE_CELLS // records.width))
        for chunk in records.chunks(size):
            self._sink.write(chunk, self.count)
            self.count += len(chunk)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            # Handed on to `atomic_file`, which removes the half-written file.
            self._stack.__exit__(kind, error, trace)
            return
        assert self._sink is not None
        try:
            self._sink.close(self.count)
        except BaseException:
            self._stack.__exit__(*sys.exc_info())
            raise
        self._stack.__exit__(None, None, None)

    def _open(self, temporary: Path) -> Sink:
        name = self._format.name
        if name == "npz":
            return NpzSink(temporary, self.domain)
        if name in ("npy", "idx"):
            zipped = self._format.gzip
            return MatrixSink(temporary, self.domain, idx=name == "idx", zipped=zipped, stack=self._stack)
        return self._text_or_parquet(self._stack.enter_context(open(temporary, "wb")))

    def _text_or_parquet(self, raw: IO[bytes]) -> Sink:
        if self._format.name == "parquet":
            return ParquetSink(raw, self.domain, self._shape, self._columns, self._rng, self._stack)
        header, render = _text_format(self._format, self.domain, self._shape, self._columns, self._rng)
        return TextSink(raw, header, render, self._format.gzip, self._stack)


def write_records(
    records: Records,
    path: str | os.PathLike[str],
    *,
    shape: str | None = None,
    rng: np.random.Generator | None = None,
    force: bool = True,
) -> None:
    """Write records to a file in the format of its ending; the file appears whole or not at all.

    Args:
        records: What to write.
        path: The file; `.parquet`, `.csv`, `.tsv`, `.jsonl`, `.dat`, `.npz`, `.npy` or `.idx` (text also `.gz`).
        shape: `basket` (default for one item set), `long` or `wide` (default otherwise).
        rng: Draws numbers within the bins of numeric fields.
        force: Replace an existing file.

    Raises:
        DiskError: the file cannot be written.
        UsageError: the format or shape does not suit the domain.
    """
    with RecordWriter(path, records.domain, shape=shape, rng=rng, force=force) as writer:
        writer.write(records)


def _columns(domain: Domain, layout: Layout | None) -> SetColumns:
    """The names of columns: those of the layout where it has them."""
    field = domain.item_set
    name = "items" if field is None else field.name
    if layout is None:
        return SetColumns("person", "item", name, lines=True)
    person, item = layout.person or "person", layout.item or "item"
    if person == item:
        person = f"{person}_id"
    return SetColumns(person, item, layout.item or name, lines=layout.shape == "basket" and layout.item is None)


def _shape_for(format: FileFormat, domain: Domain, shape: Shape | None, layout: Layout | None) -> Shape:
    single = domain.item_set is not None
    only = _ONE_SHAPE.get(format.name)
    if shape is None:
        if not single:
            return "wide"
        return only or ("basket" if layout is None else layout.shape)
    if shape != "wide" and not single:
        raise UsageError(f"the shape {shape!r} needs a domain of one item set; write this one with shape 'wide'.")
    only = only or shape
    if shape != only:
        raise UsageError(f"the format {format.name} cannot hold the shape {shape!r}; leave the shape out.")
    return shape


def _check_fits(path: Path, format: FileFormat, domain: Domain) -> None:
    field = domain.item_set
    if format.name in ("msweb", "msnbc", "json", "xlsx"):
        raise UsageError(
            f"{path}: the format {format.name} can only be read; write .csv, .parquet, .jsonl or .dat."
        )
    if format.name == "fimi" and (field is None or not isinstance(field.items[0], int)):
        raise UsageError(f"{path}: FIMI files hold item numbers only; write .csv, .jsonl or .parquet.")
    if format.name == "idx" and not isinstance(field, Image):
        raise UsageError(f"{path}: idx files hold images only; write .csv, .jsonl or .parquet.")


def _text_format(
    format: FileFormat, domain: Domain, shape: Shape, names: SetColumns, rng: np.random.Generator
) -> tuple[bytes, Render]:
    field = domain.item_set
    if format.name == "fimi":
        assert field is not None
        return b"", render_baskets(field, " ", str)
    if format.name == "jsonl":
        if field is not None and shape == "long":
            return b"", render_long_json(field, names.person, names.item)
        if field is not None and shape == "wide":
            return b"", render_binary_json(field)
        return b"", render_json(domain, rng, None if field is None else names.lists)
    separator = "\t" if format.name == "tsv" else ","
    if field is None:
        columns: list[Label] = [one.name for one in domain.columns if one.kind != "ignored"]
        render = render_table_csv(domain, separator, rng)
    elif shape == "basket" and names.lines:
        return b"", render_baskets(field, separator, lambda label: csv_cell(label, separator))
    elif shape == "basket":
        columns = [names.lists]
        render = render_table_csv(domain, separator, rng)
    elif shape == "long":
        columns = [names.person, names.item]
        render = render_long_csv(field, separator)
    else:
        columns = list(field.items)
        render = render_binary_csv(separator)
    return (separator.join(csv_cell(name, separator) for name in columns) + "\n").encode(), render
