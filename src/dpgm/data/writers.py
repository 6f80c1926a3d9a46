"""Writing records to files, chunk by chunk; a file appears complete or not at all.

The format follows from the file's ending. Its writer is a context manager that yields a function to append records;
what completes the file comes after the `yield`, so it is skipped after an error.
"""

import gzip
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from dpgm.data.atomic import atomic_file, atomic_folder
from dpgm.data.domain import Domain
from dpgm.data.formats import Format, format_to_write, locate_output
from dpgm.data.formats.base import Append
from dpgm.data.formats.written import Written
from dpgm.data.layouts import Layout, Shape, TablePart, check_shape
from dpgm.data.records import Records
from dpgm.errors import UsageError

_CHUNK = 65_536  # records
_DENSE_CELLS = 20_000_000


class RecordWriter:
    r"""Appends records to a file that appears, complete, when the `with` block ends without an error.

    The format follows the ending, or is the `format` given with a `stream` (such as stdout) to write to instead of a
    file. `shape` is `basket` (default for one item set), `long` or `wide`; without it, item sets are written in the
    shape of `layout`, which also names the columns. Numbers of numeric fields are drawn within their bins from `rng`.
    Persons of the long shape are numbered from `first` on. Of a sequence, `part` is `events` or `persons` to write its
    events, or the other columns with one row per person, alone.

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
        first: int = 0,
        part: TablePart = "all",
    ) -> None:
        self._target = locate_output(path)
        self.path = self._target.path
        self.domain = domain
        self.count, self._first = 0, first
        if part != "all" and (domain.sequence is None or len(domain.fields) == 1):
            raise UsageError(
                "`persons` is for events with attributes of persons, and the domain has none; leave it out."
            )
        named = format_to_write(self._target, format, domain)
        self._format, self._gzip = named.format, named.gzip
        self._stream = stream
        rng = np.random.default_rng() if rng is None else rng
        chosen = _shape_for(self._format, domain, check_shape(shape if part == "all" else "long"), layout)
        if domain.sequence is not None:
            self.domain = replace(domain, layout=layout)
        self._written = Written(self.domain, chosen, layout, rng, part)
        self._force = force
        self._stack = ExitStack()
        self._append: Append | None = None
        if self._format.writes == "folder" and self.path.suffix:
            raise UsageError(
                f"{path}: images are written to a folder, one file each; give a name without an ending."
            )
        if stream is not None and self._format.writes != "stream":
            raise UsageError(f"the format {self._format.name} cannot be written to stdout; name a file.")

    def __enter__(self) -> "RecordWriter":
        with self._stack:
            self._append = self._stack.enter_context(self._writer())
            self._stack = self._stack.pop_all()
        return self

    def write(self, records: Records) -> None:
        """Append records of the writer's domain."""
        if self._append is None:
            raise UsageError("a RecordWriter writes inside its `with` block only.")
        if records.domain is not self.domain and records.domain != self.domain:
            raise UsageError("the records have another domain than the writer.")
        records = replace(records, domain=self.domain)  # whose layout is the one to write
        size = max(1, min(_CHUNK, _DENSE_CELLS // records.width))
        for chunk in records.chunks(size):
            self._append(chunk, self._first + self.count)
            self.count += len(chunk)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Errors reach `atomic_file`, which removes the incomplete file.
        self._stack.__exit__(kind, error, trace)

    def _writer(self) -> AbstractContextManager[Append]:
        """The format's writer, to what becomes the file, or part of it, when the stack is left."""
        if self._stream is not None:
            return self._format.writer(self._packed(self._stream), self._written)
        if self._format.writes == "table":
            return self._format.writer(self._target, self._written)
        if self._format.writes == "folder":  # never replaced: it may hold anything
            return self._format.writer(self._stack.enter_context(atomic_folder(self.path)), self._written)
        temporary = self._stack.enter_context(atomic_file(self.path, force=self._force))
        if self._format.writes == "stream":
            return self._format.writer(self._packed(self._stack.enter_context(temporary.open("wb"))), self._written)
        if self._gzip:
            self._stack.push(lambda kind, *_: _compress(temporary) if kind is None else None)
        return self._format.writer(temporary, self._written)

    def _packed(self, stream: IO[bytes]) -> Any:
        """The stream, or one that compresses: without a name and time, so that equal records give equal files."""
        if not self._gzip:
            return stream
        return self._stack.enter_context(gzip.GzipFile("", "wb", 6, stream, mtime=0))


def write_records(
    records: Records,
    path: str | os.PathLike[str],
    *,
    shape: str | None = None,
    rng: np.random.Generator | None = None,
    force: bool = True,
    persons: str | os.PathLike[str] | None = None,
) -> None:
    """Write records to a file in the format of its ending; the file appears complete or not at all.

    Samples of item sets are written like the file that was fitted, as `dpgm sample` does.

    Args:
        records: The records.
        path: The file; `.parquet`, `.csv`, `.tsv`, `.jsonl`, `.xlsx`, `.dat`, `.npz`, `.npy` or `.idx` (text also
            `.gz`).
        shape: `basket`, `long` or `wide`; by default that of the domain's layout, else `basket` for one item set and
            `wide` otherwise.
        rng: Draws numbers within the bins of numeric fields.
        force: Replace an existing file.
        persons: A second file, for the attributes of persons; the first has their events then.

    Raises:
        DiskError: the file cannot be written.
        UsageError: the format or shape does not suit the domain.
    """
    layout = records.domain.layout
    with record_writers(
        path, records.domain, shape=shape, rng=rng, force=force, layout=layout, persons=persons
    ) as writers:
        for writer in writers:
            writer.write(records)


@contextmanager
def record_writers(
    path: str | os.PathLike[str],
    domain: Domain,
    *,
    persons: str | os.PathLike[str] | None,
    shape: str | None,
    rng: np.random.Generator | None = None,
    force: bool,
    layout: Layout | None,
    stream: IO[bytes] | None = None,
    format: str | None = None,
    first: int = 0,
) -> Iterator[list[RecordWriter]]:
    """The writer of a file; or one of events, and one of persons in a file of their own. Both appear, or none."""
    if persons is not None and {locate_output(one).sheet for one in (path, persons)} != {None}:
        raise UsageError("`persons` is for files; leave it out: one table has all columns.")
    part: TablePart = "all" if persons is None else "events"
    how: dict[str, Any] = {"rng": rng, "force": force, "layout": layout, "first": first}
    with ExitStack() as stack:
        events = RecordWriter(path, domain, shape=shape, stream=stream, format=format, part=part, **how)
        writers = [stack.enter_context(events)]
        if persons is not None:
            writers.append(stack.enter_context(RecordWriter(persons, domain, part="persons", **how)))
        yield writers


def _shape_for(format: Format, domain: Domain, shape: Shape | None, layout: Layout | None) -> Shape:
    shapes: list[Shape] = ["basket", "long", "wide"] if domain.item_set is not None else ["wide"]
    if domain.item_set is None and domain.sequence is not None:
        shapes.append("long")
    if shape is None:
        by_layout = None if layout is None or layout.shape not in shapes else layout.shape
        return (format.only_shape if format.only_shape in shapes else None) or by_layout or shapes[0]
    if shape not in shapes:
        raise UsageError(f"the shape {shape!r} needs a domain of one item set; write this one with shape 'wide'.")
    if format.only_shape not in (None, shape):
        raise UsageError(f"the format {format.name} cannot hold the shape {shape!r}; leave the shape out.")
    return shape


def _compress(path: Path) -> None:
    """Compress a file in place."""
    packed = path.with_name(path.name + ".gz")
    try:
        with (
            open(path, "rb") as source,
            open(packed, "wb") as raw,
            gzip.GzipFile("", "wb", 6, raw, mtime=0) as target,
        ):
            shutil.copyfileobj(source, target)
        os.replace(packed, path)
    finally:
        packed.unlink(missing_ok=True)
