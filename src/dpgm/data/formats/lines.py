"""Text files as blocks of whole lines: UTF-8 checked, line ends unified, quoted line breaks respected, lengths limited.

Every text format is read through `blocks_of`, so that errors name a line and never its content, and so that memory
is that of a few blocks for a file of any size. Text in another encoding is converted to UTF-8 while it is read.
"""

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import IO, TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpgm.data.formats.opening import Input, open_bytes
from dpgm.data.read.declared import UTF8
from dpgm.data.values import Place
from dpgm.errors import InputError

if TYPE_CHECKING:
    from dpgm.data.read.options import ReadOptions

BLOCK_BYTES, _SMALL_BLOCK = 4 << 20, 1 << 20  # bytes; the smaller one is for limited memory
MAX_LINE = 32 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")
_NEWLINE, _RETURN, _QUOTE = ord("\n"), ord("\r"), ord('"')
QUOTE_IN_CELL = "there is a quotation mark within a cell; put the whole cell in quotes and double the mark."


@dataclass(frozen=True)
class TextBlock:
    """Whole lines, each ended by a newline; `first_line` is the line number of the first one in the file."""

    text: bytes
    first_line: int
    file: str
    quoted: bool

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Where every row ends: the position of its newline, which is outside of quotes."""
        return _row_ends(np.frombuffer(self.text, dtype=np.uint8), self.quoted)

    def rows(self, first: int = 0, stop: int | None = None) -> list[bytes]:
        """The rows from `first` up to but excluding `stop`, without their newlines."""
        ends = self.ends[first:stop]
        starts = [int(self.ends[first - 1]) + 1 if first else 0, *(ends[:-1] + 1).tolist()]
        return [self.text[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]

    def select(self, condition: Callable[[bytes], bool]) -> tuple[list[bytes], Place]:
        """The rows that meet a condition, and the place of each."""
        rows = self.rows()
        selected = [at for at, row in enumerate(rows) if condition(row)]
        return [rows[at] for at in selected], lambda row: self.place(selected[row])

    def line_of(self, row: int) -> int:
        """The line number in the file at which a row starts."""
        start = int(self.ends[row - 1]) + 1 if row else 0
        return self.first_line + self.text.count(b"\n", 0, start)

    def place(self, row: int) -> str:
        """The file and line of a row, for a message."""
        return f"{self.file}: line {self.line_of(row)}"


def _outside_quotes(data: NDArray[np.uint8], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of the sorted positions that have an even number of quotation marks before them."""
    quotes = np.flatnonzero(data == _QUOTE)
    return positions[np.searchsorted(quotes, positions) % 2 == 0] if len(quotes) else positions


def _row_ends(data: NDArray[np.uint8], quoted: bool) -> NDArray[np.int64]:
    newlines = np.flatnonzero(data == _NEWLINE)
    return _outside_quotes(data, newlines) if quoted else newlines


def _unify_line_ends(data: bytes, quoted: bool) -> bytes:
    """Turn Windows and old Mac line ends into newlines, except within quotes."""
    if b"\r" not in data:
        return data
    if not quoted or b'"' not in data:
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    array = np.frombuffer(data, dtype=np.uint8).copy()
    returns = _outside_quotes(array, np.flatnonzero(array == _RETURN))
    following = array[np.minimum(returns + 1, len(array) - 1)]
    array[returns] = _NEWLINE
    return np.delete(array, returns[following == _NEWLINE]).tobytes()


def _comment_pattern(comment: str) -> re.Pattern[bytes]:
    """Matches a line that starts with the comment text, up to the end of that line."""
    return re.compile(rb"(?:\A|(?<=[\r\n]))(?:%b)?%b[^\r\n]*" % (BYTE_ORDER_MARK, re.escape(comment.encode())))


def _without_quotes_in_comments(data: bytes, pattern: re.Pattern[bytes], first_line: int, file: str) -> bytes:
    """Replace the quotation marks of comment lines by apostrophes; `data` begins at the start of a row.

    Otherwise a single quotation mark in a comment would open a quoted cell, and the rows up to the next quotation mark
    would be dropped with the comment. Nor may it close a quote that a row left open: that row would take all rows
    before the comment along.
    """
    pieces, at, quotes = [], 0, 0
    for match in pattern.finditer(data):
        quotes += data.count(b'"', at, match.start())
        inside_cell = quotes % 2 == 1  # then the line is part of a quoted cell and no comment
        if inside_cell and b'"' in match[0]:
            line = first_line + len(_LINE_END.findall(data, 0, match.start()))
            raise InputError(
                f"{file}: line {line}: is a comment with a quotation mark, and a quote is still open there; close that "
                "quote, or take the mark out of the comment."
            )
        pieces += [data[at : match.start()], match[0] if inside_cell else match[0].replace(b'"', b"'")]
        at = match.end()
    return b"".join([*pieces, data[at:]]) if pieces else data


def _without_byte_order_marks(text: bytes, ends: NDArray[np.int64]) -> bytes:
    """Remove the byte order mark at the start of any row: files that were joined have several."""
    if BYTE_ORDER_MARK not in text:
        return text
    data = np.frombuffer(text + b"\n\n", dtype=np.uint8)  # so that three bytes follow every start
    starts = np.concatenate(([0], ends[:-1] + 1))
    first_bytes = starts[:, None] + np.arange(len(BYTE_ORDER_MARK))
    marked = (data[first_bytes] == np.frombuffer(BYTE_ORDER_MARK, dtype=np.uint8)).all(axis=1)
    return np.delete(data[:-2], first_bytes[marked].ravel()).tobytes()


def _check_text(text: bytes, first_line: int, file: str) -> None:
    if b"\0" in text:
        line = first_line + text.count(b"\n", 0, text.index(b"\0"))
        raise InputError(f"{file}: line {line}: holds a NUL byte; the file is not plain text: save it as UTF-8.")
    if text.isascii():
        return
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + text.count(b"\n", 0, error.start)
        raise InputError(
            f"{file}: line {line}: is not UTF-8 text; save the file as UTF-8, or state its `encoding`, such as cp1252."
        ) from None


def blocks_of(source: Input, options: "ReadOptions", *, quoted: bool) -> Iterator[TextBlock]:
    """The text of an input in blocks of whole rows; with `quoted`, a line break within double quotes ends no row.

    Of the options, `encoding`, `skip_lines` and `comment` matter here. Skipped lines still count in the line numbers
    of messages. Comment lines are rows of their own: the quotation marks in them open no quoted cell.
    """
    file, carry, first_line = str(source), b"", 1 + options.skip_lines
    comments = _comment_pattern(options.comment) if options.comment is not None and quoted else None
    with open_bytes(source) as stream:
        pieces: Iterator[bytes] = filter(None, _as_utf8(stream, options, file))
        if options.skip_lines:
            pieces = filter(None, chain([_after_lines(pieces, options.skip_lines, file)], pieces))
        for raw in chain(pieces, [b""]):  # the empty piece marks the end
            data = carry + raw
            if not raw and data and data[-1:] not in (b"\n", b"\r"):
                data += b"\n"
            pending = b""
            if raw and data.endswith(b"\r"):  # its newline may come with the next piece
                data, pending = data[:-1], b"\r"
            if comments is not None:
                data = _without_quotes_in_comments(data, comments, first_line, file)
            data = _unify_line_ends(data, quoted)
            ends = _row_ends(np.frombuffer(data, dtype=np.uint8), quoted)
            cut = int(ends[-1]) + 1 if len(ends) else 0
            text, carry = data[:cut], data[cut:] + pending
            if text:
                _check_text(text, first_line, file)
                text = _without_byte_order_marks(text, ends)
                yield TextBlock(text, first_line, file, quoted)
                first_line += text.count(b"\n")
            if not raw and carry:
                raise InputError(
                    f"{file}: line {first_line}: a quote is opened and never closed; correct the file."
                )
            if len(carry) > MAX_LINE:
                _check_text(carry[:BLOCK_BYTES].rsplit(b"\n", 1)[0], first_line, file)
                raise InputError(
                    f"{file}: line {first_line}: the line, or a quoted cell that starts in it, is longer than"
                    f" {MAX_LINE >> 20} MB; correct the file."
                )


def _as_utf8(stream: IO[bytes], options: "ReadOptions", file: str) -> Iterator[bytes]:
    """The text of a stream converted to UTF-8, piece by piece."""
    encoding, size = options.encoding, BLOCK_BYTES if options.memory is None else _SMALL_BLOCK
    decoder, line = codecs.getincrementaldecoder(encoding)("strict"), 1
    for at, raw in enumerate(chain(iter(partial(stream.read, size), b""), [b""])):
        if encoding == UTF8:
            if at == 0 and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise InputError(
                    f"{file}: line 1: the text is UTF-16; save it as UTF-8, or say `encoding='utf-16'`."
                )
            yield raw
            continue
        try:
            text = decoder.decode(raw, final=not raw).encode()
        except UnicodeError as error:
            line += raw.count(b"\n", 0, error.start if isinstance(error, UnicodeDecodeError) else 0)
            raise InputError(
                f"{file}: line {line} or near it: is not {encoding} text; correct `encoding`."
            ) from None
        line += text.count(b"\n")
        yield text


def _after_lines(pieces: Iterator[bytes], count: int, file: str) -> bytes:
    """Skip the first `count` lines; returns the rest of the piece in which they end."""
    data, at, left = b"", 0, count
    for piece in chain(pieces, [b""]):
        data, at = data[at:] + piece, 0
        # A carriage return at the end of a piece may be followed by a newline in the next.
        while left and (end := _LINE_END.search(data, at)) and (end.end() < len(data) or not piece):
            at, left = end.end(), left - 1
        if not left or not piece or len(data) - at > MAX_LINE:
            break
    if left:
        raise InputError(f"{file}: ends at line {count - left + 1}; leave out fewer lines with `skip_lines`.")
    return data[at:]


def first_block(source: Input, options: "ReadOptions", *, quoted: bool) -> TextBlock:
    """The first block, for inspection."""
    block = next(blocks_of(source, options, quoted=quoted), None)
    if block is None:
        raise InputError(f"{source}: the file is empty; give a file with records.")
    return block


# -- cells of a row --------------------------------------------------------------------------------------------------


def has_content(row: bytes, comment: str | None) -> bool:
    """Whether a row is neither blank nor a comment."""
    return bool(row) and not (comment is not None and row.startswith(comment.encode()))


def split_cells(row: bytes, separator: str) -> list[str]:
    """The cells of one row.

    A row ends at a line break outside of quotes, so that a row with a single quotation mark within a cell extends to
    the next such row. It is refused: only its first line would be read, and the others lost.

    Raises:
        csv.Error: the text is more than one row of cells (`QUOTE_IN_CELL`), or a cell is too long.
    """
    rows = csv.reader(io.StringIO(row.decode(), newline=""), delimiter=separator)
    cells = next(rows, [])
    if next(rows, None) is not None:
        raise csv.Error(QUOTE_IN_CELL)
    return cells


def cells_of(row: bytes, separator: str, where: Callable[[], str]) -> list[str]:
    """The cells of one row; `where` gives its place for the message if it cannot be read."""
    try:
        return split_cells(row, separator)
    except csv.Error as error:
        too_long = "a cell is longer than 128 kB; correct the file."
        raise InputError(f"{where()}: {QUOTE_IN_CELL if str(error) == QUOTE_IN_CELL else too_long}") from None
