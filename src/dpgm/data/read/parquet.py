"""Parquet files as named columns, streamed; what the footer claims is checked before anything is unpacked."""

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dpgm.data.items import is_list
from dpgm.data.read.columns import Chunk, Columns
from dpgm.data.read.opening import Input
from dpgm.data.read.options import ReadOptions
from dpgm.data.values import numbered
from dpgm.errors import InputError, ResourceError

_BATCH, _SMALL_BATCH = 65_536, 8_192  # rows at once; where memory is limited
_MAX_ROWS = 2**40
_MAX_UNPACKED = 1 << 38
_MAX_RATIO = 2000
_RATIO_FROM = 4 << 30
_MANY_VALUES = 50_000_000  # of one column: repeated values take next to no space in the file
_MAX_TEXT = 1 << 30  # bytes of text in one batch: long texts repeat by number in the file


def row_groups(source: Input) -> list[int]:
    """The number of rows of every row group."""
    with _open(source) as file:
        _check_footer(file.metadata, source)
        return [file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)]


def parquet_columns(source: Input, options: ReadOptions, groups: list[int] | None = None) -> Columns:
    """A Parquet file, or some of its row groups, as named columns."""
    source.refuse_member("Parquet files")
    with _open(source) as file:
        schema = _schema(file, source)
        _check_footer(file.metadata, source)
    kinds = pa.types
    lists = tuple(field.name for field in schema if is_list(field.type))
    truths = tuple(field.name for field in schema if kinds.is_boolean(field.type))
    nested = [field.name for field in schema if kinds.is_struct(field.type) or kinds.is_map(field.type)]
    names = tuple(field.name for field in schema if field.name not in nested)
    if not names:
        raise InputError(f"{source}: holds no plain column; flatten its nested columns first.")
    size = _BATCH if options.memory is None else _SMALL_BATCH
    chunks = _chunks(source, options.columns_to_read(names, lists), groups, size)
    return Columns(str(source), names, lists, chunks, truths=truths, schema=schema)


def _text_columns(source: Input) -> list[str]:
    """Flat columns of texts, which are read as numbers of distinct texts before they are written out."""
    with _open(source) as file:
        kinds = {field.name: field.type for field in _schema(file, source)}
    plain = [name for name, kind in kinds.items() if pa.types.is_string(kind) or pa.types.is_large_string(kind)]
    return [name for name in plain if "." not in name]


def _with_texts(batch: Any, source: Input) -> Any:
    """The batch with its columns of distinct texts written out, if they are not too long for that."""
    columns = []
    for column in batch.columns:
        kind = column.type
        if pa.types.is_dictionary(kind) and (
            pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type)
        ):
            lengths = pc.binary_length(column.dictionary)
            total = pc.sum(lengths.take(column.indices)).as_py() or 0
            if total > _MAX_TEXT:
                raise ResourceError(f"{source}: would unpack to {total >> 30:,} GB of text; leave out long texts.")
            column = column.dictionary_decode()
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _open(source: Input, texts: list[str] | None = None) -> Any:
    try:
        return pq.ParquetFile(
            source.path, memory_map=False, pre_buffer=False, buffer_size=1 << 20, read_dictionary=texts
        )
    except (pa.ArrowException, OSError, ValueError, MemoryError):
        raise InputError(
            f"{source}: is not a readable Parquet file (cut short, damaged or encrypted); write it again."
        ) from None


def _schema(file: Any, source: Input) -> Any:
    try:
        return file.schema_arrow
    except (pa.ArrowException, ValueError):
        raise InputError(f"{source}: its Parquet schema cannot be read; write it again.") from None


def _survives(metadata: Any) -> bool:
    """Whether what the footer says of every column can be read; tried in a child, since damage there ends the process.

    Arrow throws an exception of C++ on sizes that contradict each other, at a place where Python cannot catch it.
    """
    if not hasattr(os, "fork"):
        return True
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the last words of the library
            for at in range(metadata.num_row_groups):
                group = metadata.row_group(at)
                for column in range(group.num_columns):
                    group.column(column)
        finally:
            os._exit(0)  # what Python can catch is reported by the reader
    return os.waitpid(child, 0)[1] == 0


def _check_footer(metadata: Any, source: Input) -> None:
    if not _survives(metadata):
        raise InputError(f"{source}: its footer is damaged; write the file again.")
    unpacked = sum(metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups))
    rows = sum(metadata.row_group(at).num_rows for at in range(metadata.num_row_groups))
    if metadata.num_rows < 0 or metadata.num_rows > _MAX_ROWS or rows != metadata.num_rows:
        raise InputError(f"{source}: its footer claims an impossible number of rows; write the file again.")
    size = source.path.stat().st_size
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    values = max((group.column(at).num_values for group in groups for at in range(group.num_columns)), default=0)
    if max(values, rows) > _MANY_VALUES and max(values, rows) > _MAX_RATIO * size:
        raise ResourceError(f"{source}: would unpack to {max(values, rows):,} values; split it.")
    if unpacked > _MAX_UNPACKED or (unpacked > _RATIO_FROM and unpacked > _MAX_RATIO * size):
        raise ResourceError(f"{source}: would unpack to {unpacked >> 30:,} GB; split it, or keep fewer columns.")


def _chunks(source: Input, columns: list[str], groups: list[int] | None, size: int) -> Iterator[Chunk]:
    start = 0
    with _open(source, _text_columns(source)) as file:
        if groups:
            start = sum(file.metadata.row_group(at).num_rows for at in range(groups[0]))
        batches = file.iter_batches(batch_size=size, columns=columns, row_groups=groups, use_threads=False)
        while True:
            try:
                batch = next(batches, None)
                if batch is not None:
                    batch.validate(full=True)  # texts are UTF-8, lists lie within their values
            except MemoryError:
                raise ResourceError(f"{source}: there is too little memory to read it; give --memory.") from None
            except (pa.ArrowException, OSError, ValueError):
                raise InputError(
                    f"{source}: row {start + 1} or after: the Parquet data are damaged; write the file again."
                ) from None
            if batch is None:
                return
            rows = range(start + 1, start + 1 + batch.num_rows)
            yield Chunk(pa.Table.from_batches([_with_texts(batch, source)]), numbered(f"{source}: row", rows))
            start += batch.num_rows
