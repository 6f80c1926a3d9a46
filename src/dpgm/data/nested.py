"""Lists of structures, such as trips with a station and a time each, as one column of lists per member, and back.

A member is called as its column and itself, with a dot in between: `trips.station`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dpgm.data.arrow import DataType, Table, pa, pc
from dpgm.data.items import is_list
from dpgm.data.kinds.base import list_array
from dpgm.data.stream import Chunk, Readers, RowStream
from dpgm.data.values import TEXTS


def with_members(stream: RowStream) -> RowStream:
    """The stream, with a column of lists for each member of its lists of structures."""
    parents = {entry.name: entry.type for entry in stream.schema if _holds_structures(entry.type)}
    members = {
        f"{name}.{member.name}": (name, pa.list_(member.type))
        for name, kind in parents.items()
        for member in kind.value_type
    }
    taken = [name for name in members if name in stream.schema.names]
    members = {name: found for name, found in members.items() if name not in taken and is_list(found[1])}
    if not members:
        return stream
    fields = [entry for entry in stream.schema if entry.name not in parents]
    schema = pa.schema([*fields, *(pa.field(name, kind) for name, (_, kind) in members.items())])

    def rows(readers: Readers) -> Iterator[Chunk]:
        own = {name: how for name, how in readers.items() if name not in members}
        needed = own | {members[name][0]: TEXTS for name in readers if name in members}
        for chunk in stream.rows(needed):
            table = chunk.table
            columns = {
                name: _member(table.column(members[name][0]), name) if name in members else table.column(name)
                for name in readers
            }
            yield replace(chunk, table=pa.table(columns))

    return replace(stream, schema=schema, rows=rows)


def _holds_structures(kind: DataType) -> bool:
    is_any_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(is_any_list and pa.types.is_struct(kind.value_type))


def _member(column: Any, name: str) -> Any:
    """The lists of one member; no list is an empty one."""
    column = column.combine_chunks()
    lists = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array([0, *lengths.cumsum()], pa.int64()).to_numpy()
    return list_array(offsets, pc.struct_field(pc.list_flatten(lists), name.rpartition(".")[2]))


def member_of(row: Mapping[str, Any], name: str) -> Any:
    """A member of a JSON object, or a list of one member of each object in a list."""
    if name in row or "." not in name:
        return row.get(name)
    parent, _, member = name.rpartition(".")
    inner = row.get(parent)
    if not isinstance(inner, list):
        return inner
    return [one.get(member) if isinstance(one, dict) else one for one in inner]


def has_member(row: Mapping[str, Any], name: str) -> bool:
    """Whether a JSON object has what `member_of` takes."""
    return name in row or (isinstance(row.get(name.rpartition(".")[0]), list) and "." in name)


def members_together(table: Table, names: tuple[str | None, ...]) -> Table:
    """The table with the named columns of lists as one column of lists of structures, if their names say so."""
    parents = {name.rpartition(".")[0] for name in names if name is not None}
    if len(parents) != 1 or not (parent := parents.pop()) or parent in table.column_names:
        return table
    own = [name for name in names if name is not None]
    if any(name not in table.column_names or not pa.types.is_nested(table.column(name).type) for name in own):
        return table
    lists = [table.column(name).combine_chunks() for name in own]
    lists = [pa.concat_arrays(one.chunks) if isinstance(one, pa.ChunkedArray) else one for one in lists]
    lengths = pc.list_value_length(lists[0]).to_numpy(zero_copy_only=False)
    offsets = pa.array([0, *lengths.cumsum()], pa.int64()).to_numpy()
    members = pa.StructArray.from_arrays(
        [one.flatten() for one in lists], [name.rpartition(".")[2] for name in own]
    )
    at = table.column_names.index(own[0])
    return table.set_column(at, parent, list_array(offsets, members)).drop_columns(own[1:])
