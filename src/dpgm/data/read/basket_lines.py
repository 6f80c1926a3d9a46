"""Text with one record per line, its items separated: FIMI files and comma-separated baskets.

Blocks of plain numbers or plain texts are parsed as arrays (`integer_tokens`, `text_tokens`); a block that holds
anything else is read line by line, which can name the line at fault.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import MAX_WIDTH
from dpgm.data.formats import Layout, Source
from dpgm.data.items import kept_codes, parse_integers, refuse_joined, refuse_negative, split_lists
from dpgm.data.read.delimited import cells_of
from dpgm.data.read.gathering import BasketGatherer
from dpgm.data.read.lines import TextBlock, blocks_of
from dpgm.data.read.opening import Input
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.shapes import goal_for
from dpgm.data.records import Records
from dpgm.data.values import Place
from dpgm.errors import InputError, UsageError

if TYPE_CHECKING:
    import pyarrow

_MARKS = (b'"', b",", b";", b"|", b"\t")
_DIGITS = b"0123456789"
_LONGEST_CELL = 131_072  # of Python's csv module
_Tokens: TypeAlias = tuple[Any, NDArray[np.int64]]  # numbers or Arrow texts, and how many are in each line


def read_basket_lines(
    source: Input, options: ReadOptions, separator: str, *, integers: bool
) -> tuple[Records, Source]:
    """One record per line, its items separated; a blank line is a record without items.

    With `integers` items are always numbers (FIMI); else they are texts, and `01` is not `1` unless
    the domain lists numbers.
    """
    if options.person is not None or options.item is not None:
        raise UsageError(f"{source}: lines of items have no columns; leave out --person and --item.")
    gatherer = BasketGatherer(goal_for(options, str(source)), options.room)
    for block in blocks_of(source, quoted=not integers, encoding=options.encoding, skip_lines=options.skip_lines):
        add_basket_block(gatherer, block, separator, integers=integers, options=options)
    records = gatherer.finish(str(source))
    if not len(records):
        raise InputError(f"{source}: holds no records; give a file with at least one.")
    return records, Source("row", options.domain is None, "basket", Layout("basket"))


def add_basket_block(
    gatherer: BasketGatherer, block: TextBlock, separator: str, *, integers: bool, options: ReadOptions
) -> None:
    """Append the lines of a block: as arrays where they are plain, else cell by cell; with the same result."""
    text = block.text
    rows: list[bytes] | None = None
    place_of_row: Place = block.place
    if options.comment is not None:
        text, rows, place_of_row = _without_comments(block, options.comment)
    items = gatherer.goal.items
    numbers = (integers or items.integers) and options.item_separator is None
    tokens: _Tokens | None = integer_tokens(text, separator) if numbers else None
    if tokens is None and not integers:
        tokens = text_tokens(text, separator)
    if tokens is None:
        tokens = _tokens_of_rows(block.rows() if rows is None else rows, separator, block.quoted, place_of_row)
    cells, lengths = tokens
    if options.item_separator:
        cells, lengths = _split_again(cells, lengths, options.item_separator)
    if len(lengths) and lengths.max() > MAX_WIDTH:
        raise InputError(
            f"{place_of_row(int(lengths.argmax()))}: has more than {MAX_WIDTH:,} items; correct the file."
        )
    ends = np.cumsum(lengths)

    def place(at: int) -> str:
        return place_of_row(int(np.searchsorted(ends, at, side="right")))

    if integers and not isinstance(cells, np.ndarray):
        cells = parse_integers(cells, place)
        refuse_negative(cells < 0, place)
    if isinstance(cells, np.ndarray):
        codes = items.from_integers(cells, place)
    else:
        marked = any(mark in text for mark in _MARKS if mark != separator.encode())
        if marked and options.item_separator is None and not items.integers:
            refuse_joined(cells, items, place)
        codes = items.from_texts(cells, place)
    gatherer.add(*kept_codes(codes, lengths))


def _without_comments(block: TextBlock, comment: str) -> tuple[bytes, list[bytes], Place]:
    """The text and the rows of a block that are no comments, and the place of each."""
    rows = block.rows()
    kept = [at for at, row in enumerate(rows) if not row.startswith(comment.encode())]
    chosen = [rows[at] for at in kept]
    return b"".join(row + b"\n" for row in chosen), chosen, lambda row: block.place(kept[row])


def _tokens_of_rows(rows: list[bytes], separator: str, quoted: bool, place: Place) -> _Tokens:
    """All cells and how many are in each row, read one by one."""
    import pyarrow as pa

    lists = [_items_of(row, separator, quoted, at, place) for at, row in enumerate(rows)]
    lengths = np.fromiter((len(row) for row in lists), dtype=np.int64, count=len(lists))
    return pa.array([cell for row in lists for cell in row], type=pa.string()), lengths


def _split_again(
    cells: "pyarrow.Array", lengths: NDArray[np.int64], separator: str
) -> "tuple[pyarrow.Array, NDArray[np.int64]]":
    """The items of cells that hold several, and how many there are in each line."""
    import pyarrow.compute as pc

    lists = split_lists(cells, separator, lambda at: "")
    items = lists.flatten()
    row_of = np.repeat(np.arange(len(lengths)), lengths)
    several = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    present = items.is_valid().to_numpy(zero_copy_only=False)
    rows = np.repeat(row_of, several)[present]
    return items.drop_null(), np.bincount(rows, minlength=len(lengths))


def _items_of(row: bytes, separator: str, quoted: bool, at: int, place: Place) -> list[str]:
    if not row.strip():
        return []
    if not quoted:
        return row.decode().split() if separator == " " else row.decode().split(separator)
    cells = cells_of(row, separator, lambda: place(at))
    if not all(cells):
        raise InputError(f"{place(at)}: an item is empty; correct the file.")
    return cells


def integer_tokens(text: bytes, separator: str) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    r"""All numbers of the text and how many are in each line; nothing if it holds anything but plain numbers.

    >>> integer_tokens(b"1,20\n\n3\n", ",")
    (array([ 1, 20,  3]), array([2, 0, 1]))
    """
    mark = separator.encode()
    if len(mark) != 1 or text.translate(None, _DIGITS + b" \n" + mark):
        return None
    data = np.frombuffer(text, dtype=np.uint8)
    digit = data >= ord("0") if mark < b"0" else (data >= ord("0")) & (data <= ord("9"))
    edges = np.diff(digit.view(np.int8), prepend=np.int8(0), append=np.int8(0))
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    lines = np.flatnonzero(data == ord("\n"))
    lengths = np.diff(np.searchsorted(starts, lines), prepend=0)
    sizes = ends - starts
    if len(sizes) and sizes.max() > 18:
        return None  # may overflow: the careful path names the line
    if separator != " " and not _one_per_cell(data, starts, lengths, ord(mark)):
        return None
    return _values(data, ends, sizes), lengths


def _one_per_cell(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], mark: int
) -> bool:
    """Whether every cell between separators holds exactly one number, judged by their counts.

    Two numbers in a cell and none in another could cancel out within a file, but not within every prefix: each
    separator must have exactly as many numbers before it as there were separators and lines with numbers.
    """
    marks = np.flatnonzero(data == mark)
    if len(marks) != len(starts) - int(np.count_nonzero(lengths)):
        return False
    before = np.searchsorted(starts, marks)
    line_of = np.searchsorted(np.cumsum(lengths), before - 1, side="right")
    filled_lines = np.cumsum(lengths > 0)
    expected = np.arange(1, len(marks) + 1) + filled_lines[np.minimum(line_of, len(lengths) - 1)] - 1
    return bool(np.array_equal(before, expected))


def _values(data: NDArray[np.uint8], ends: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    values = np.zeros(len(ends), dtype=np.int64)
    scale = 1
    for place in range(int(sizes.max()) if len(sizes) else 0):
        longer = np.flatnonzero(sizes > place) if place else slice(None)
        values[longer] += (data[ends[longer] - 1 - place].astype(np.int64) - ord("0")) * scale
        scale *= 10
    return values


def text_tokens(text: bytes, separator: str) -> "tuple[pyarrow.Array, NDArray[np.int64]] | None":
    r"""All cells of the text and how many are in each line; nothing if it holds quotes or spaces, or an empty cell.

    >>> cells, lengths = text_tokens(b"a,01\n\nb\n", ",")
    >>> cells.to_pylist(), lengths.tolist()
    (['a', '01', 'b'], [2, 0, 1])
    """
    import pyarrow as pa

    mark = separator.encode()
    if len(mark) != 1 or mark == b" " or b'"' in text or len(text) >= 2**31:
        return None
    # A blank line is a record without items: it must hold no cell, so it may hold no white space either.
    if b"\n " in text or b"\n\t" in text or text.startswith((b" ", b"\t")) or b"\v" in text or b"\f" in text:
        return None
    data = np.frombuffer(text, dtype=np.uint8)
    newline = data == ord("\n")
    ends = np.flatnonzero((data == mark[0]) | newline)
    sizes = np.diff(ends, prepend=-1) - 1
    closes = newline[ends]
    opens = np.concatenate(([True], closes[:-1]))
    blank = closes & opens & (sizes == 0)
    if (sizes[~blank] == 0).any() or sizes.max() > _LONGEST_CELL:
        return None  # the careful path names the line
    lines = np.flatnonzero(closes)
    lengths = np.diff(lines, prepend=-1) - blank[lines]
    offsets = np.zeros(int(lengths.sum()) + 1, dtype=np.int32)
    np.cumsum(sizes[~blank], out=offsets[1:])
    cells = text.translate(None, mark + b"\n")
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(cells)), lengths
