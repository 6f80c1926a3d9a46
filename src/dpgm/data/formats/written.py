"""Records as tables and cells on their way into a file: `Written` is what every format is given to write.

Texts that a spreadsheet would run as a formula get a leading apostrophe in cells, which is removed on reading.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from dpgm.data.decoding import event_lists_together, shaped_table
from dpgm.data.domain import Domain, Field
from dpgm.data.items import escape_formula
from dpgm.data.layouts import Layout, Shape, TablePart
from dpgm.data.records import Records

# Cells with these characters are quoted: also all separators that a reader may guess.
_QUOTED = ('"', "\n", "\r", "\0", ",", ";", "\t", "|")


@dataclass(frozen=True)
class Written:
    """The domain of the records to be written, and their shape.

    Attributes:
        domain: that of all records.
        shape: that of item sets.
        layout: how item sets were laid out in the file that was fitted, if known.
        rng: draws numbers within their bins.
        part: which columns of events and persons.
    """

    domain: Domain
    shape: Shape
    layout: Layout | None
    rng: np.random.Generator
    part: TablePart = "all"

    @property
    def has_lines(self) -> bool:
        """Whether text files hold lines of items, without names of columns."""
        nameless = self.layout is None or (self.layout.shape == "basket" and self.layout.item is None)
        is_set = self.domain.item_set is not None and self.domain.time_column is None
        return is_set and self.shape == "basket" and nameless

    @property
    def is_binary(self) -> bool:
        """Whether there is one 0/1 column per item."""
        return self.domain.item_set is not None and self.shape == "wide" and self.domain.sequence is None

    @cached_property
    def empty(self) -> pa.Table:
        """A table without rows."""
        return self.table(Records.from_lists([], self.domain), 0)

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns of `table`."""
        return self.empty.schema

    def together(self, table: pa.Table) -> pa.Table:
        """The table with items and their times as one list of structures, where their names say so."""
        return event_lists_together(table, self.domain)

    def table(self, records: Records, first: int) -> pa.Table:
        """Records as a table of the shape; `first` is the number of the first one."""
        return shaped_table(records, self.shape, self.layout, first=first, rng=self.rng, part=self.part)

    def texts(self, records: Records, first: int) -> pa.Table:
        """The table with the columns that text files write in their own way, such as dates in a pattern."""
        table = self.table(records, first)
        for at, name in enumerate(table.column_names):
            field = self._field(name, table)
            if field is not None and (written := field.as_written(table.column(at))) is not None:
                table = table.set_column(at, name, written)
            if (sequence := self.domain.sequence) is not None and name == self.domain.time_column:
                table = table.set_column(at, name, sequence.times_as_written(table.column(at)))
        return table

    def cells(self, records: Records, first: int) -> pa.Table:
        """The table of texts with lists as cells, where the domain states what is between items (else JSON lists)."""
        table = self.texts(records, first)
        for at, name in enumerate(table.column_names):
            field = self.domain.sequence if name == self.domain.time_column else self._field(name, table)
            if field is None or not pa.types.is_nested(table.schema.field(at).type):
                continue
            if (cells := field.as_cells(table.column(at))) is not None:
                table = table.set_column(at, name, cells)
        return table

    def _field(self, name: str, table: pa.Table) -> Field | None:
        """The field of a column; the layout may name that of the only item set otherwise, and it is the last column."""
        sequence = self.domain.sequence
        if sequence is not None and name == self.domain.item_column:
            return sequence
        if self.domain.item_set is not None and sequence is None:
            return self.domain.item_set if name == table.column_names[-1] else None
        return next((field for field in self.domain.fields if field.name == name), None)


def csv_cell(value: object) -> str:
    """A value as a CSV cell: lists as JSON, texts escaped and quoted if needed, empty if missing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    value = plain_cell(value)
    if not isinstance(value, str):
        return repr(value) if isinstance(value, float) else str(value)
    would_be_stripped = value != value.strip() or value.startswith("\ufeff")
    if would_be_stripped or any(mark in value for mark in _QUOTED):
        return '"' + value.replace('"', '""') + '"'
    return value


def plain_cell(value: Any) -> Any:
    """A value for a cell of text or of a sheet: lists as JSON, texts escaped."""
    if isinstance(value, list):
        value = json.dumps(value, ensure_ascii=False)
    return escape_formula(value) if isinstance(value, str) else value


def csv_line(values: Iterable[object], separator: str) -> bytes:
    """Cells as a line."""
    return (separator.join(map(csv_cell, values)) + "\n").encode()


def lines_of(lines: Any) -> bytes:
    """An Arrow array of texts as lines."""
    import pyarrow.compute as pc

    if not len(lines):
        return b""
    one_list = pa.ListArray.from_arrays(pa.array([0, len(lines)], type=pa.int32()), lines)
    text: bytes = pc.binary_join(one_list, "\n")[0].as_buffer().to_pybytes()
    return text + b"\n"
