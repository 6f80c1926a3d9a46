"""Lines of items, one record per line: FIMI files, and comma-separated baskets (`delimited`).

Blocks of plain text are split by array operations (`plain_cells`); any other block is split line by line, which can
name the line at fault.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpgm.data.domain import Domain
from dpgm.data.formats.base import NO_EVENTS, Append, Format, Guess
from dpgm.data.formats.lines import TextBlock, blocks_of, cells_of
from dpgm.data.formats.opening import Input
from dpgm.data.formats.written import Written, lines_of
from dpgm.data.items import list_lengths, parse_integers, place_of_item, split_lists
from dpgm.data.kinds.items import SetField
from dpgm.data.labels import MAX_WIDTH, Label
from dpgm.data.rows import row_pointers
from dpgm.data.stream import Chunk, Readers, RowStream
from dpgm.data.values import Place
from dpgm.errors import InputError

if TYPE_CHECKING:
    from dpgm.data.read.options import ReadOptions

_NAME = "items"
_DIGITS = b"0123456789"
_LONGEST_CELL = 131_072  # of Python's csv module
_Cells: TypeAlias = tuple[pa.Array, NDArray[np.int64]]  # the texts of all lines, and their number per line


class ItemLines(Format):
    """Item numbers with spaces between them (FIMI); a blank line is a record without items."""

    has = frozenset({"lines", "written numbers"})
    only_shape = "basket"
    writes = "stream"

    def stream(self, source: Input, options: "ReadOptions", draft: Guess | None = None) -> RowStream:
        """A column of lists of whole numbers."""
        return line_stream(source, options, " ", integers=True)

    def misfit(self, domain: Domain) -> str | None:
        """Texts, and times."""
        field = domain.item_set
        if domain.time_column is not None:
            return NO_EVENTS.format(self.name)
        if field is None or not isinstance(field.items[0], int):
            return "FIMI files hold item numbers only; write .csv, .jsonl or .parquet."
        return None

    @contextmanager
    def writer(self, target: IO[bytes], written: Written) -> Iterator[Append]:
        """One line per record."""
        assert written.domain.item_set is not None
        yield write_item_lines(target, written.domain.item_set, " ", str)


def line_stream(source: Input, options: "ReadOptions", separator: str, *, integers: bool = False) -> RowStream:
    """One record per line, its items separated; a blank line is a record without items.

    With `integers` items are always numbers; else they are texts, and `01` is not `1` unless the domain lists numbers.
    """

    def rows(readers: Readers) -> Iterator[Chunk]:
        return _chunks(blocks_of(source, options, quoted=not integers), options, separator, integers)

    item = pa.int64() if integers else pa.string()
    return RowStream(str(source), pa.schema([(_NAME, pa.large_list(item))]), rows, lines=True)


def write_item_lines(target: IO[bytes], field: SetField, separator: str, cell: Callable[[Label], str]) -> Append:
    """Appends one line of items per record."""
    texts = pa.array([cell(label) for label in field.items], type=pa.string())

    def append(records: Any, _: int) -> None:
        events = records.events
        indptr, codes = (records.indptr, records.indices) if events is None else (events.indptr, events.codes)
        lists = pa.ListArray.from_arrays(pa.array(indptr.astype(np.int32)), texts.take(pa.array(codes)))
        target.write(lines_of(pc.binary_join(lists, separator)))

    return append


def _chunks(blocks: Iterable[TextBlock], options: "ReadOptions", separator: str, integers: bool) -> Iterator[Chunk]:
    comment = None if options.comment is None else options.comment.encode()
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
        if integers:
            cells = pa.array(parse_integers(cells, place_of_item(lengths, place)))
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
