"""Whole numbers and texts in a block of lines, parsed as arrays."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow

_DIGITS = b"0123456789"
_LONGEST_CELL = 131_072  # of Python's csv module


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
    if separator != " " and not _one_a_cell(data, starts, lengths, ord(mark)):
        return None
    return _values(data, ends, sizes), lengths


def _one_a_cell(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], mark: int) -> bool:
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
