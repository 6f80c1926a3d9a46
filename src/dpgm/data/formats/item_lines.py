"""Text files with one record per line, as a column of item lists: FIMI and comma-separated baskets.

Blocks of plain text are split by array operations (`plain_cells`); any other block is split line by line, which can
name the line at fault.
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpgm.data.formats.delimited import cells_of
from dpgm.data.formats.lines import TextBlock, blocks_of
from dpgm.data.formats.opening import Input
from dpgm.data.items import list_lengths, parse_integers, place_of_item, refuse_joined, split_lists
from dpgm.data.labels import MAX_WIDTH
from dpgm.data.read.columns import Chunk, Columns, items_of
from dpgm.data.read.options import ReadOptions
from dpgm.data.rows import row_pointers
from dpgm.data.values import Place
from dpgm.errors import InputError

_NAME = "items"
_LIKELY_SEPARATORS = (b'"', b",", b";", b"|", b"\t")
_DIGITS = b"0123456789"
_LONGEST_CELL = 131_072  # of Python's csv module
_Cells: TypeAlias = tuple[pa.Array, NDArray[np.int64]]  # the texts of all lines, and their number per line


def line_columns(source: Input, options: ReadOptions, separator: str, *, integers: bool) -> Columns:
    """One record per line, its items separated; a blank line is a record without items.

    With `integers` items are always numbers (FIMI); else they are texts, and `01` is not `1` unless
    the domain lists numbers.
    """
    blocks = blocks_of(source, options, quoted=not integers)
    chunks = _chunks(blocks, str(source), options, separator, integers)
    return Columns(str(source), (_NAME,), (_NAME,), chunks, lines=True)


def _chunks(
    blocks: Iterable[TextBlock], file: str, options: ReadOptions, separator: str, integers: bool
) -> Iterator[Chunk]:
    items = items_of(file, options)
    comment = None if options.comment is None else options.comment.encode()
    other_separators = [one for one in _LIKELY_SEPARATORS if one != separator.encode()]
    for block in blocks:
        text, rows = block.text, None
        place: Place = block.place
        if comment is not None:
            rows, place = block.select(lambda row: not row.startswith(comment))
            text = b"".join(row + b"\n" for row in rows)
        if not text:
            continue
        split = plain_cells(text, separator) if integers or separator != " " else None
        if split is None:
            split = _cells_of_rows(block.rows() if rows is None else rows, separator, block.quoted, place)
        cells, lengths = split
        if options.item_separator:
            cells, lengths = _split_cells(cells, lengths, options.item_separator)
        if lengths.max() > MAX_WIDTH:
            raise InputError(
                f"{place(int(lengths.argmax()))}: has more than {MAX_WIDTH:,} items; correct the file."
            )
        where = place_of_item(lengths, place)
        if integers:
            cells = pa.array(parse_integers(cells, where))
        elif options.item_separator is None and not items.integers and any(one in text for one in other_separators):
            refuse_joined(cells, items, where)
        yield Chunk(pa.table({_NAME: pa.LargeListArray.from_arrays(row_pointers(lengths), cells)}), place)


def plain_cells(text: bytes, separator: str) -> "_Cells | None":
    r"""The cells of a text; None if it is not plain: with quotes, empty cells, or lines that begin with white space.

    Cells separated by spaces (FIMI) must consist of digits.

    >>> cells, lengths = plain_cells(b"a,01\n\nb\n", ",")
    >>> cells.to_pylist(), lengths.tolist()
    (['a', '01', 'b'], [2, 0, 1])
    """
    mark = separator.encode()
    if separator == " ":
        plain = not text.translate(None, _DIGITS + b" \n")
    else:
        # A line of white space alone is a record without items, but would be read as a cell here.
        maybe_blank = b"\n " in text or b"\n\t" in text or text.startswith((b" ", b"\t"))
        plain = len(mark) == 1 and not maybe_blank and not any(one in text for one in (b'"', b"\v", b"\f"))
    if not plain:
        return None
    data = np.frombuffer(text, dtype=np.uint8)
    newline = data == ord("\n")
    ends = np.flatnonzero((data == mark[0]) | newline)
    sizes = np.diff(ends, prepend=-1) - 1
    filled = sizes > 0
    closes = newline[ends]
    if separator != " " and not filled.all():
        opens = np.concatenate(([True], closes[:-1]))
        if not (filled | (closes & opens)).all():
            return None  # an empty cell: reading line by line names the line
    if sizes.max() > _LONGEST_CELL:
        return None
    offsets = np.zeros(int(np.count_nonzero(filled)) + 1, dtype=np.int32)
    np.cumsum(sizes[filled], out=offsets[1:])
    lengths = np.diff(np.cumsum(filled)[closes], prepend=0)
    cells = text.translate(None, mark + b"\n")
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(cells)), lengths


def _cells_of_rows(rows: list[bytes], separator: str, quoted: bool, place: Place) -> _Cells:
    """The cells of all rows, split row by row."""
    lists = [_cells(row, separator, quoted, at, place) for at, row in enumerate(rows)]
    lengths = np.fromiter((len(row) for row in lists), dtype=np.int64, count=len(lists))
    return pa.array([cell for row in lists for cell in row], type=pa.string()), lengths


def _cells(row: bytes, separator: str, quoted: bool, at: int, place: Place) -> list[str]:
    if not row.strip():
        return []
    if not quoted:
        return row.decode().split()
    cells = cells_of(row, separator, lambda: place(at))
    if not all(cells):
        raise InputError(f"{place(at)}: an item is empty; correct the file.")
    return cells


def _split_cells(cells: pa.Array, lengths: NDArray[np.int64], separator: str) -> _Cells:
    """Split cells that hold several items."""
    lists = split_lists(cells, separator, lambda at: "")
    items = lists.flatten()
    rows = np.repeat(np.repeat(np.arange(len(lengths)), lengths), list_lengths(lists))
    present = items.is_valid().to_numpy(zero_copy_only=False)
    return items.drop_null(), np.bincount(rows[present], minlength=len(lengths))
