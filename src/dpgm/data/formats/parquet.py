"""Parquet files, read in batches; the footer is checked before any data are unpacked."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dpgm.data.formats.base import Append, Guess
from dpgm.data.formats.hive import with_partitions
from dpgm.data.formats.opening import Input
from dpgm.data.formats.typed import Typed
from dpgm.data.formats.written import Written
from dpgm.data.nested import with_members
from dpgm.data.stream import Chunk, Readers, RowStream
from dpgm.data.values import is_text, numbered
from dpgm.errors import InputError, ResourceError

if TYPE_CHECKING:
    from dpgm.data.read.options import ReadOptions

_BATCH, _SMALL_BATCH = 65_536, 8_192  # rows; the small batch is for limited memory
_MAX_ROWS = 2**40
_MAX_UNPACKED = 1 << 38
_MAX_RATIO = 2000
_RATIO_FROM = 4 << 30
_MANY_VALUES = 50_000_000  # in one column; repeated values take next to no space in the file
_UNBUFFERED: dict[str, Any] = {"pre_buffer": False, "buffer_size": 1 << 20}
_MAX_TEXT = 1 << 30  # bytes of text in one batch; a repeated long text is stored once in the file


class Parquet(Typed):
    """Tables with types."""

    packed: ClassVar[bool] = True
    writes = "stream"

    def begins(self, head: bytes) -> bool:
        """By the mark of Parquet."""
        return head.startswith(b"PAR1")

    def stream(self, source: Input, options: "ReadOptions", draft: Guess | None = None) -> RowStream:
        """All rows."""
        return self.stream_of_parts(source, options, None)

    def parts(self, source: Input) -> list[int]:
        """The number of rows of every row group."""
        _, metadata, _ = _open(source)
        return [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]

    def stream_of_parts(self, source: Input, options: "ReadOptions", parts: Sequence[int] | None) -> RowStream:
        """The rows of some row groups."""
        source.refuse_member("Parquet files")
        opened, metadata, schema = _open(source)

        def rows(readers: Readers) -> Iterator[Chunk]:
            # Flat texts are read dictionary-encoded, so that their size can be checked before they are decoded.
            texts = [entry.name for entry in schema if is_text(entry.type) and "." not in entry.name]
            file = pq.ParquetFile(opened, metadata=metadata, read_dictionary=texts, **_UNBUFFERED)
            size = _BATCH if options.memory is None else _SMALL_BATCH
            return _chunks(file, source, list(readers), parts, size)

        stream = with_partitions(with_members(RowStream(str(source), schema, rows, typed=True)), source)
        if not stream.names:
            raise InputError(f"{source}: holds no plain column; flatten its nested columns first.")
        return stream

    @contextmanager
    def writer(self, target: IO[bytes], written: Written) -> Iterator[Append]:
        """One row group per chunk."""
        schema = written.together(written.empty).schema
        with pq.ParquetWriter(target, schema, compression="zstd") as writer:
            yield lambda records, first: writer.write_table(written.together(written.table(records, first)))


def _decode_texts(batch: Any, source: Input) -> Any:
    """Decode dictionary-encoded texts; refuses a batch in which they would be too long."""
    columns = []
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and is_text(column.type.value_type):
            total = pc.sum(pc.binary_length(column.dictionary).take(column.indices)).as_py() or 0
            if total > _MAX_TEXT:
                raise ResourceError(f"{source}: would unpack to {total >> 30:,} GB of text; leave out long texts.")
            column = column.dictionary_decode()
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _open(source: Input) -> tuple[Any, Any, pa.Schema]:
    """The open file, its footer, which was checked, and its schema."""
    try:
        opened = pa.OSFile(os.fspath(source))
        file = pq.ParquetFile(opened, **_UNBUFFERED)
    except (pa.ArrowException, OSError, ValueError, MemoryError):
        raise InputError(
            f"{source}: is not a readable Parquet file (cut short, damaged or encrypted); write it again."
        ) from None
    try:
        schema = file.schema_arrow
    except (pa.ArrowException, ValueError):
        raise InputError(f"{source}: its Parquet schema cannot be read; write it again.") from None
    _check_footer(file.metadata, source)
    return opened, file.metadata, schema


def _footer_is_readable(metadata: Any) -> bool:
    """Whether the footer's column metadata can be read; tried in a child process, since damage there kills the process.

    On contradictory sizes, Arrow throws a C++ exception at a place where Python cannot catch it.
    """

    def read() -> None:
        for at in range(metadata.num_row_groups):
            group = metadata.row_group(at)
            for column in range(group.num_columns):
                group.column(column)

    return survives(read)


def survives(read: Callable[[], object]) -> bool:
    """Whether a child process lives through a read; exceptions that Python can catch are left to the reader."""
    if not hasattr(os, "fork"):
        return True
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # silences the library's message
            read()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _check_footer(metadata: Any, source: Input) -> None:
    if not _footer_is_readable(metadata):
        raise InputError(f"{source}: its footer is damaged; write the file again.")
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    unpacked, rows = sum(group.total_byte_size for group in groups), sum(group.num_rows for group in groups)
    if not 0 <= metadata.num_rows <= _MAX_ROWS or rows != metadata.num_rows:
        raise InputError(f"{source}: its footer claims an impossible number of rows; write the file again.")
    size = source.path.stat().st_size
    values = max(rows, *(group.column(at).num_values for group in groups for at in range(group.num_columns)), 0)
    if values > _MANY_VALUES and values > _MAX_RATIO * size:
        raise ResourceError(f"{source}: would unpack to {values:,} values; split it.")
    if unpacked > _MAX_UNPACKED or (unpacked > _RATIO_FROM and unpacked > _MAX_RATIO * size):
        raise ResourceError(f"{source}: would unpack to {unpacked >> 30:,} GB; split it, or keep fewer columns.")


def _chunks(
    file: Any, source: Input, columns: list[str], groups: Sequence[int] | None, size: int
) -> Iterator[Chunk]:
    start = sum(file.metadata.row_group(at).num_rows for at in range(groups[0])) if groups else 0
    batches = file.iter_batches(batch_size=size, columns=columns, row_groups=groups, use_threads=False)
    while True:
        try:
            batch = next(batches, None)
            if batch is not None:
                batch.validate(full=True)  # that texts are UTF-8, and lists within their values
        except MemoryError:
            raise ResourceError(f"{source}: there is too little memory to read it; give `memory`.") from None
        except (pa.ArrowException, OSError, ValueError):
            raise InputError(
                f"{source}: row {start + 1} or after: the Parquet data are damaged; write the file again."
            ) from None
        if batch is None:
            return
        rows = range(start + 1, start + 1 + batch.num_rows)
        yield Chunk(pa.Table.from_batches([_decode_texts(batch, source)]), numbered(f"{source}: row", rows))
        start += batch.num_rows
