"""Delimited text (CSV, TSV) as text columns, named by a header line (`headers`), the domain or numbers; or as lines.

Every block of whole lines is parsed by `pyarrow.csv` with all columns as text. The blocks are our own: `pyarrow.csv` by
itself knows no comment lines and no encodings, and gives no line number for a cell that is wrong.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import IO, TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from dpgm.data.domain import Domain
from dpgm.data.formats.base import Append, Format, Guess
from dpgm.data.formats.headers import Header, header_of
from dpgm.data.formats.item_lines import line_stream, write_item_lines
from dpgm.data.formats.lines import (
    BYTE_ORDER_MARK,
    QUOTE_IN_CELL,
    TextBlock,
    blocks_of,
    has_content,
)
from dpgm.data.formats.opening import Input
from dpgm.data.formats.written import Written, csv_cell, csv_line, lines_of
from dpgm.data.labels import INDEX
from dpgm.data.layouts import Shape
from dpgm.data.records import Records
from dpgm.data.stream import Chunk, Readers, RowStream
from dpgm.data.values import Place
from dpgm.errors import InputError
from dpgm.validation import counted

if TYPE_CHECKING:
    from dpgm.data.read.options import ReadOptions

_ROWS_AT_ONCE = 1000  # in the search for the first row


@dataclass(frozen=True)
class Delimited(Format):
    """Cells with a separator between them, unless the file is written with another."""

    separator: str = ","

    has = frozenset({"columns", "lines", "written numbers"})
    writes = "stream"

    def begins(self, head: bytes) -> bool:
        """By a first line with the separator and without a comma; anything else is taken for a CSV."""
        first = next((line for line in head.splitlines() if line.strip()), b"")
        return self.separator.encode() in first and b"," not in first

    def stream(self, source: Input, options: "ReadOptions", draft: Guess | None = None) -> RowStream:
        """Text columns; of baskets without a header, one column of lists."""
        if options.holds_lines_of_items:
            return line_stream(source, options, options.separator or self.separator)
        blocks = blocks_of(source, options, quoted=True)
        block, first, place = _first_row(blocks, source, options)
        header = header_of(first, place, options, self.separator, draft)

        def rows(readers: Readers) -> Iterator[Chunk]:
            return _chunks(chain([block], blocks), options, header, list(readers))

        schema = pa.schema([(name, pa.string()) for name in header.names])
        shape: Shape | None = None if options.stated_shape is not None or header.is_there else "wide"
        return RowStream(str(source), schema, rows, certain=header.certain, shape=shape)

    def guess(self, source: Input, options: "ReadOptions") -> Guess:
        """Whether the file holds baskets, a column of lists, 0/1 columns or a table."""
        from dpgm.data.formats.first_rows import guess_delimited

        return guess_delimited(source, options, self.separator)

    @contextmanager
    def writer(self, target: IO[bytes], written: Written) -> Iterator[Append]:
        """Lines of items, 0 and 1, or one line per row below the names of the columns."""
        field, separator = written.domain.item_set, self.separator
        if field is not None and written.has_lines:
            yield write_item_lines(target, field, separator, csv_cell)
        elif field is not None and written.is_binary:
            target.write(csv_line(field.items, separator))
            yield lambda records, _: target.write(_zeros_and_ones(records, separator))
        else:
            target.write(csv_line(written.schema.names, separator))
            yield lambda records, first: target.write(
                _lines(written.cells(records, first), written.domain, separator)
            )


def _first_row(blocks: Iterator[TextBlock], source: Input, options: "ReadOptions") -> tuple[TextBlock, bytes, str]:
    """The first row that is neither blank nor a comment, the block that it begins in, and its place."""
    for block in blocks:
        for start in range(0, len(block.ends), _ROWS_AT_ONCE):
            for at, row in enumerate(block.rows(start, start + _ROWS_AT_ONCE), start):
                if has_content(row, options.comment):
                    return block, row, block.place(at)
    raise InputError(f"{source}: holds no records; give a file with at least one.")


def _chunks(
    blocks: Iterator[TextBlock], options: "ReadOptions", header: Header, needed: list[str]
) -> Iterator[Chunk]:
    is_first = header.is_there
    for block in blocks:
        text, count = block.text, len(block.ends)
        place: Place = block.place
        if b"\n\n" in text or text.startswith(b"\n") or options.comment is not None:
            rows, place = block.select(lambda row: has_content(row, options.comment))
            text, count = b"".join(row + b"\n" for row in rows), len(rows)
            first_length = len(rows[0]) + 1 if rows else 0
            del rows
        else:
            first_length = int(block.ends[0]) + 1
        if is_first and text:
            is_first, text, count, place = False, text[first_length:], count - 1, _after_header(place)
        if text:
            yield Chunk(_parse(text, count, header.names, needed, header.separator, place), place)


def _after_header(place: Place) -> Place:
    return lambda row: place(row + 1)


def _parse(
    text: bytes, rows: int, names: tuple[str, ...], needed: list[str], separator: str, place: Place
) -> pa.Table:
    """The columns `needed` of `rows` rows of text, all as texts."""
    ragged: list[tuple[int, int]] = []

    def note_ragged(row: object) -> str:
        ragged.append((row.number, row.actual_columns))  # type: ignore[attr-defined]
        return "skip"

    if text.startswith(BYTE_ORDER_MARK):
        text = BYTE_ORDER_MARK + text  # the parser drops one at the start of its input
    # Numbers stand for names: names in the file may repeat, which is refused later with a better message.
    keys = {name: str(at) for at, name in enumerate(names)}
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(text),
            pyarrow.csv.ReadOptions(
                use_threads=False, block_size=len(text) + 1, column_names=[str(at) for at in range(len(names))]
            ),
            pyarrow.csv.ParseOptions(
                delimiter=separator,
                newlines_in_values=True,
                ignore_empty_lines=False,
                invalid_row_handler=note_ragged,
            ),
            pyarrow.csv.ConvertOptions(
                column_types={key: pa.string() for key in keys.values()},
                include_columns=[keys[name] for name in needed],
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )
    except pa.ArrowInvalid:
        raise InputError(
            f"{place(0)} or after: the text cannot be read as rows of cells; check its quotes."
        ) from None
    if table.num_rows + len(ragged) != rows:
        raise InputError(f"{place(0)} or after: {QUOTE_IN_CELL}")
    if ragged:
        number, cells = ragged[0]
        advice = "say `shape='basket'` if rows are lists of items"
        if cells == len(names) + 1:
            advice += f"; if rows begin with a number or name of their own, name that column {INDEX} in the header"
        elif cells == len(names) - 1 and names[0] == INDEX:
            advice = f"take {INDEX} out of the domain if the file has no such column"
        raise InputError(
            f"{place(number - 1)}: has {counted(cells, 'cell')} where {len(names)} are expected; correct the row, or"
            f" {advice}."
        )
    return table.rename_columns(needed)


# -- writing ---------------------------------------------------------------------------------------------------------


def _lines(table: pa.Table, domain: Domain, separator: str) -> bytes:
    """One line per row; decimal numbers have all their places (1.50)."""
    places = {field.name: field.decimal_places or None for field in domain.fields}
    columns = [_cells(table.column(name), places.get(name)) for name in table.column_names]
    lines = pc.binary_join_element_wise(*columns, separator)
    if len(columns) == 1:  # an empty cell would make a blank line, which readers skip
        lines = pc.if_else(pc.equal(lines, ""), '""', lines)
    return lines_of(lines)


def _cells(column: pa.ChunkedArray, places: int | None) -> pa.Array:
    """The cells of a column; texts, dates and booleans are formatted once per distinct value."""
    column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)
    if pa.types.is_integer(column.type):
        return pc.fill_null(column.cast(pa.string()), "")
    if places is not None:
        cells = ["" if value is None else f"{value:.{places}f}" for value in column.to_pylist()]
        return pa.array(cells, type=pa.string())
    if pa.types.is_nested(column.type) or pa.types.is_floating(column.type):
        return pa.array([csv_cell(value) for value in column.to_pylist()], type=pa.string())
    encoded = column.dictionary_encode()
    cells = [csv_cell(value) for value in encoded.dictionary.to_pylist()]
    return pc.fill_null(pa.array(cells, type=pa.string()).take(encoded.indices), "")


def _zeros_and_ones(records: Records, separator: str) -> bytes:
    """One line per record, with 0 or 1 for every position."""
    cells = np.full((len(records), 2 * records.width), ord(separator), dtype=np.uint8)
    cells[:, 0::2] = records.to_dense(np.uint8) + ord("0")
    cells[:, -1] = ord("\n")
    return cells.tobytes()
