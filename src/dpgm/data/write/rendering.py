"""Records as lines of text: CSV, FIMI and JSON lines, in each shape.

Texts that a spreadsheet would run as a formula get a leading apostrophe in CSV (and lose it again on reading).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain, Image, ItemSet, Label, ShapedNumber
from dpgm.data.items import escape_formula
from dpgm.data.records import Records
from dpgm.data.table import decode
from dpgm.data.values import as_written

# Records and the number of the first one, to bytes.
Render: TypeAlias = Callable[[Records, int], bytes]
# Also the separators a reader may guess, so that it never sees them outside of quotes.
_QUOTED = ('"', "\n", "\r", "\0", ",", ";", "\t", "|")


def csv_cell(value: object, separator: str) -> str:
    """One cell: numbers as they are, texts escaped and quoted where needed, nothing for a missing value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value) if isinstance(value, float) else str(value)
    text = escape_formula(value)
    outer = text != text.strip() or text.startswith("\ufeff")
    if outer or separator in text or any(mark in text for mark in _QUOTED):
        return '"' + text.replace('"', '""') + '"'
    return text


@dataclass(frozen=True)
class _Written:
    """A number as it is to be written."""

    text: str

    def __str__(self) -> str:
        return self.text


def _plain_cell(value: object, places: int | None) -> object:
    """A value of a table, lists as JSON, and decimal numbers with all their places (1.50)."""
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    if places is not None and isinstance(value, float):
        return _Written(f"{value:.{places}f}")
    return value


def _rows_of_codes(records: Records) -> list[NDArray[Any]]:
    return np.split(records.indices, records.indptr[1:-1]) if len(records) else []


def _joined(lines: Any) -> bytes:
    """Arrow texts as lines."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(lines):
        return b""
    one_list = pa.ListArray.from_arrays(pa.array([0, len(lines)], type=pa.int32()), lines)
    text: bytes = pc.binary_join(one_list, "\n")[0].as_buffer().to_pybytes()
    return text + b"\n"


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


def render_long_csv(field: ItemSet | Image, separator: str) -> Render:
    """One line per person and item; a person without items has one line with an empty item."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pa.array([*(csv_cell(label, separator) for label in field.items), ""], type=pa.string())

    def render(records: Records, first: int) -> bytes:
        lengths = records.lengths
        persons = np.repeat(np.arange(first, first + len(records)), np.maximum(lengths, 1))
        codes = np.insert(records.indices.astype(np.int32), records.indptr[:-1][lengths == 0], field.width)
        return _joined(
            pc.binary_join_element_wise(pa.array(persons).cast(pa.string()), texts.take(pa.array(codes)), separator)
        )

    return render


def render_binary_csv(separator: str) -> Render:
    """One line per record: 0 or 1 for every position."""

    def render(records: Records, _: int) -> bytes:
        cells = np.full((len(records), 2 * records.width), ord(separator), dtype=np.uint8)
        cells[:, 0::2] = records.to_dense(np.uint8) + ord("0")
        cells[:, -1] = ord("\n")
        return cells.tobytes()

    return render


def _as_text(records: Records, rng: np.random.Generator) -> Any:
    """The decoded table, dates as texts where the domain says how they are written."""
    table = decode(records, rng=rng)
    for field in records.domain.fields:
        if isinstance(field, ShapedNumber) and field.pattern is not None:
            at = table.column_names.index(field.name)
            table = table.set_column(at, field.name, as_written(table.column(at), field.pattern))
    return table


def render_table_csv(domain: Domain, separator: str, rng: np.random.Generator) -> Render:
    """One line per record, one cell per field; item sets are JSON lists in a cell, decimals have all their places."""
    decimals = {
        field.name: field.format.decimals
        for field in domain.fields
        if isinstance(field, ShapedNumber) and field.format.kind == "decimal"
    }

    def render(records: Records, _: int) -> bytes:
        columns = []
        table = _as_text(records, rng)
        for name, column in zip(table.column_names, table.columns, strict=True):
            places = decimals.get(name)
            cells = [_plain_cell(value, places) for value in column.to_pylist()]
            columns.append([csv_cell(value, separator) for value in cells])
        # A lone empty cell would make a blank line, which readers skip.
        lines = [separator.join(row) or '""' for row in zip(*columns, strict=True)]
        return ("\n".join(lines) + "\n").encode() if lines else b""

    return render


def _json_lines(rows: Sequence[object]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows).encode()


def render_json(domain: Domain, rng: np.random.Generator, name: str | None = None) -> Render:
    """One object per record, one member per field; `name` is what the member of an item set is called."""

    def render(records: Records, _: int) -> bytes:
        table = _as_text(records, rng)
        return _json_lines((table if name is None else table.rename_columns([name])).to_pylist())

    return render


def render_long_json(field: ItemSet | Image, person: str, item: str) -> Render:
    """One object per person and item; a person without items has one object with a null item."""

    def render(records: Records, first: int) -> bytes:
        rows: list[object] = []
        for number, codes in enumerate(_rows_of_codes(records), start=first):
            rows += [{person: number, item: field.items[code]} for code in codes] or [{person: number, item: None}]
        return _json_lines(rows)

    return render


def render_binary_json(field: ItemSet | Image) -> Render:
    """One object per record: 0 or 1 for every item."""
    names = [str(label) for label in field.items]

    def render(records: Records, _: int) -> bytes:
        return _json_lines([dict(zip(names, row, strict=True)) for row in records.to_dense(np.uint8).tolist()])

    return render
