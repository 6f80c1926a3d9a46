"""JSON lines: an object a row, or a bare list of items a record."""

import json
from collections.abc import Iterator
from typing import Any

from dpgm.data.chunks import Chunk, Columns
from dpgm.data.lines import TextBlock, blocks_of, first_block
from dpgm.data.opening import Input
from dpgm.errors import InputError

_BARE = "items"


def json_columns(source: Input) -> Columns:
    """A file of JSON lines as named columns; the names are those of its first rows."""
    rows, _ = _rows(first_block(source, quoted=False))
    if not rows:
        raise InputError(f"{source}: holds no records; give a file with at least one.")
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    lists = tuple(name for name in names if any(isinstance(row.get(name), list) for row in rows))
    return Columns(str(source), names, lists, _chunks(source, names))


def _refuse(_: str) -> None:
    raise ValueError


def _rows(block: TextBlock) -> tuple[list[dict[str, Any]], list[int]]:
    """The objects of a block and the row that each stands in."""
    rows: list[dict[str, Any]] = []
    kept = []
    for at, line in enumerate(block.rows()):
        if not line.strip():
            continue
        try:
            value = json.loads(line, parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise InputError(
                f"{block.place(at)}: is not a JSON object or list with finite numbers; correct the line."
            ) from None
        if isinstance(value, list):
            value = {_BARE: value}
        if not isinstance(value, dict):
            raise InputError(f"{block.place(at)}: is neither a JSON object nor a list; correct the line.")
        rows.append(value)
        kept.append(at)
    return rows, kept


def _chunks(source: Input, names: tuple[str, ...]) -> Iterator[Chunk]:
    import pyarrow as pa

    for block in blocks_of(source, quoted=False):
        rows, kept = _rows(block)
        if not rows:
            continue

        def place(row: int, block: TextBlock = block, kept: list[int] = kept) -> str:
            return block.place(kept[row])

        columns = {}
        for name in names:
            columns[name] = _column([row.get(name) for row in rows], name, place)
        yield Chunk(pa.table(columns), place)


def _column(values: list[Any], name: str, place: Any) -> Any:
    import pyarrow as pa

    try:
        column = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        raise InputError(
            f"{place(0)} or after, column {name!r}: values must be of one kind (texts, whole numbers of 64 bits, or"
            " lists of these); correct the file."
        ) from None
    if pa.types.is_null(column.type):
        return column
    if pa.types.is_list(column.type) and pa.types.is_null(column.type.value_type):
        return column.cast(pa.list_(pa.int64()))
    return column
