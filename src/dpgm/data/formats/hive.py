"""Folders of Parquet files in folders named after values, such as `year=2024/ward=heart/part-0.parquet`.

The values become columns of texts: that they look like numbers may be due to the rows, so a domain says what they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from dpgm.data.formats.opening import Input, listing
from dpgm.data.stream import Chunk, Readers, RowStream
from dpgm.errors import InputError

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def partitions_of(folders: Sequence[str]) -> tuple[tuple[str, str | None], ...]:
    """Names and values of columns, from the names of folders.

    >>> partitions_of(("year=2024", "ward=ear%2Fnose"))
    (('year', '2024'), ('ward', 'ear/nose'))
    """
    named = (folder.partition("=") for folder in folders)
    return tuple((unquote(name), None if value == _NO_VALUE else unquote(value)) for name, _, value in named)


def parts_in(folder: Path, above: tuple[str, ...] = ()) -> list[Input]:
    """The Parquet files of a folder and of those in it that are named after values, in the order of their names."""
    found: list[Input] = []
    for one in listing(folder):
        if one.is_dir() and "=" in one.name.strip("="):
            found += parts_in(one, (*above, one.name))
        elif one.name.endswith(".parquet"):
            found.append(Input(one, partitions=partitions_of(above)))
    return found


def with_partitions(stream: RowStream, source: Input) -> RowStream:
    """The stream, with a column for each folder that the file is in."""
    values = dict(source.partitions)
    if not values:
        return stream
    if taken := [name for name in values if name in stream.schema.names]:
        raise InputError(f"{source}: {taken[0]!r} is a column and the name of its folder; rename one of them.")
    schema = stream.schema
    for name in values:
        schema = schema.append(pa.field(name, pa.string()))

    def rows(readers: Readers) -> Iterator[Chunk]:
        own = {name: how for name, how in readers.items() if name not in values}
        spare = {stream.names[0]: readers[next(iter(readers))]} if readers and not own else {}  # it has the rows
        for chunk in stream.rows(own | spare):
            columns = {
                name: pa.array([values[name]] * chunk.table.num_rows, pa.string())
                if name in values
                else chunk.table.column(name)
                for name in readers
            }
            yield replace(chunk, table=pa.table(columns))

    return replace(stream, schema=schema, rows=rows)
