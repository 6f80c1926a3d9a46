"""Records as tables of each shape, and those as lines of text: CSV, FIMI and JSON lines.

Texts that a spreadsheet would run as a formula get a leading apostrophe in CSV (and lose it again on reading).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dpgm.data.domain import Domain, Image, ItemSet, Label, ShapedNumber
from dpgm.data.formats import Layout, Shape
from dpgm.data.items import escape_formula
from dpgm.data.records import Records
from dpgm.data.table import decode, label_array
from dpgm.data.values import as_written

if TYPE_CHECKING:
    import pyarrow

# Records and the number of the first one, to bytes.
Render: TypeAlias = Callable[[Records, int], bytes]
# Also the separators a reader may guess, so that it never sees them outside of quotes.
_QUOTED = ('"', "\n", "\r", "\0", ",", ";", "\t", "|")


@dataclass(frozen=True)
class SetColumns:
    """What the columns of item sets are called: of persons, of items, of lists; or whether CSV has plain `lines`."""

    person: str
    item: str
    lists: str
    lines: bool


def set_columns(domain: Domain, layout: Layout | None) -> SetColumns:
    """The names of columns: those of the layout where it has them."""
    field = domain.item_set
    name = "items" if field is None else field.name
    if layout is None:
        return SetColumns("person", "item", name, lines=True)
    person, item = layout.person or "person", layout.item or "item"
    if person == item:
        person = f"{person}_id"
    return SetColumns(person, item, layout.item or name, lines=layout.shape == "basket" and layout.item is None)


def shaped_table(
    records: Records, shape: Shape, names: SetColumns, *, first: int = 0, rng: np.random.Generator
) -> "pyarrow.Table":
    """One column per field; of an item set alone one column of lists, one row per person and item, or 0/1 columns.

    Persons are numbered from `first`; one without items has a row whose item is null.
    """
    import pyarrow as pa

    field = records.domain.item_set
    if field is not None and shape == "wide":
        dense = records.to_dense(np.uint8)
        return pa.table([pa.array(column) for column in dense.T], names=[str(item) for item in field.items])
    if field is not None and shape == "long":
        empty = records.lengths == 0
        codes = np.insert(records.indices.astype(np.int32), records.indptr[:-1][empty], -1)
        persons = np.repeat(np.arange(first, first + len(records)), np.maximum(records.lengths, 1))
        items = label_array(field.items).take(pa.array(codes, mask=codes < 0))
        return pa.table({names.person: persons, names.item: items})
    table = decode(records, rng=rng)
    return table if field is None else table.rename_columns([names.lists])


def csv_cell(value: object, separator: str) -> str:
    """One cell: numbers as they are, lists as JSON, texts escaped and quoted where needed, nothing where missing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        value = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        return repr(value) if isinstance(value, float) else str(value)
    text = escape_formula(value)
    outer = text != text.strip() or text.startswith("\ufeff")
    if outer or separator in text or any(mark in text for mark in _QUOTED):
        return '"' + text.replace('"', '""') + '"'
    return text


def csv_line(values: Any, separator: str) -> bytes:
    """A line of cells."""
    return (separator.join(csv_cell(value, separator) for value in values) + "\n").encode()


def written_table(table: "pyarrow.Table", domain: Domain) -> "pyarrow.Table":
    """The table with dates as texts where the domain says how they are written."""
    for field in domain.fields:
        if isinstance(field, ShapedNumber) and field.pattern is not None:
            at = table.column_names.index(field.name)
            table = table.set_column(at, field.name, as_written(table.column(at), field.pattern))
    return table


def csv_lines(table: "pyarrow.Table", domain: Domain, separator: str) -> bytes:
    """One line per row; decimals have all their places (1.50)."""
    import pyarrow.compute as pc

    places = {
        field.name: field.format.decimals
        for field in domain.fields
        if isinstance(field, ShapedNumber) and field.format.kind == "decimal"
    }
    columns = [_cells(table.column(name), separator, places.get(name)) for name in table.column_names]
    lines = pc.binary_join_element_wise(*columns, separator)
    if len(columns) == 1:  # a lone empty cell would make a blank line, which readers skip
        lines = pc.if_else(pc.equal(lines, ""), '""', lines)
    return _joined(lines)


def _cells(column: "pyarrow.ChunkedArray", separator: str, places: int | None) -> "pyarrow.Array":
    """The cells of a column, each different value written once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)
    if pa.types.is_integer(column.type):
        return pc.fill_null(column.cast(pa.string()), "")
    if places is not None:
        written = ["" if value is None else f"{value:.{places}f}" for value in column.to_pylist()]
        return pa.array(written, type=pa.string())
    if pa.types.is_nested(column.type) or pa.types.is_floating(column.type):
        return pa.array([csv_cell(value, separator) for value in column.to_pylist()], type=pa.string())
    encoded = column.dictionary_encode()
    cells = [csv_cell(value, separator) for value in encoded.dictionary.to_pylist()]
    return pc.fill_null(pa.array(cells, type=pa.string()).take(encoded.indices), "")


def _joined(lines: Any) -> bytes:
    """Arrow texts as lines."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(lines):
        return b""
    one_list = pa.ListArray.from_arrays(pa.array([0, len(lines)], type=pa.int32()), lines)
    text: bytes = pc.binary_join(one_list, "\n")[0].as_buffer().to_pybytes()
    return text + b"\n"


def json_lines(table: "pyarrow.Table") -> bytes:
    """One object per row."""
    rows = table.to_pylist()
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows).encode()


def render_baskets(field: ItemSet | Image, separator: str, cell: Callable[[Label], str]) -> Render:
    """One line per record: its items, separated."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pa.array([cell(label) for label in field.items], type=pa.string())

    def render(records: Records, _: int) -> bytes:
        items = texts.take(pa.array(records.indices))
        lists = pa.ListArray.from_arrays(pa.array(records.indptr.astype(np.int32)), items)
        return _joined(pc.binary_join(lists, separator))

    return render


def render_binary_csv(separator: str) -> Render:
    """One line per record: 0 or 1 for every position."""

    def render(records: Records, _: int) -> bytes:
        cells = np.full((len(records), 2 * records.width), ord(separator), dtype=np.uint8)
        cells[:, 0::2] = records.to_dense(np.uint8) + ord("0")
        cells[:, -1] = ord("\n")
        return cells.tobytes()

    return render
