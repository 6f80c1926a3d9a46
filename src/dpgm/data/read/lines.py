"""Text in blocks of whole lines: UTF-8 checked, line ends made one, quoted line breaks respected, lengths capped.

Every text format reads through here, so that a fault is named by its line and never by its content, and memory
stays that of a few blocks for any file. Text in another encoding is turned into UTF-8 as it is read; only
encodings in which a character has the same meaning at any position: with the others, such as those that shift between
alphabets, one row could change how the next is read.
"""

import codecs
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import IO

import numpy as np
from numpy.typing import NDArray

from dpgm.data.read.opening import Input, open_bytes
from dpgm.data.values import Place
from dpgm.errors import InputError, UsageError

BLOCK = 4 << 20
MAX_LINE = 32 << 20
MARK = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")
_NEWLINE, _RETURN, _QUOTE = ord("\n"), ord("\r"), ord('"')
UTF8 = "utf-8"
ENCODINGS = (
    *(UTF8, "utf-16", "utf-16-le", "utf-16-be", "ascii", "latin-1"),
    *(f"iso-8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16)),
    *(f"cp{page}" for page in (437, 850, 852, 866, 1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258)),
    *("mac-roman", "koi8-r", "koi8-u", "gbk", "gb18030", "big5", "shift-jis", "cp932", "euc-jp", "euc-kr", "cp949"),
)
_KNOWN = {codecs.lookup(name).name: name for name in ENCODINGS}


@dataclass(frozen=True)
class TextBlock:
    """Whole lines, each ended by a newline; `first_line` is the number of the first in the file."""

    text: bytes
    first_line: int
    file: str
    quoted: bool

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Where every row ends: its newline, outside of quotes."""
        return _row_ends(np.frombuffer(self.text, dtype=np.uint8), self.quoted)

    def rows(self, first: int = 0, stop: int | None = None) -> list[bytes]:
        """The rows, or those from `first` to before `stop`, without their newlines."""
        ends = self.ends[first:stop]
        starts = [int(self.ends[first - 1]) + 1 if first else 0, *(ends[:-1] + 1).tolist()]
        return [self.text[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]

    def kept(self, keep: Callable[[bytes], bool]) -> tuple[list[bytes], Place]:
        """The rows to keep, and the place of each."""
        rows = self.rows()
        kept = [at for at, row in enumerate(rows) if keep(row)]
        return [rows[at] for at in kept], lambda row: self.place(kept[row])

    def line_of(self, row: int) -> int:
        """The line in the file at which a row starts."""
        start = int(self.ends[row - 1]) + 1 if row else 0
        return self.first_line + self.text.count(b"\n", 0, start)

    def place(self, row: int) -> str:
        """Where a row is, for a message."""
        return f"{self.file}: line {self.line_of(row)}"


def _row_ends(data: NDArray[np.uint8], quoted: bool) -> NDArray[np.int64]:
    ends = np.flatnonzero(data == _NEWLINE)
    if quoted:
        quotes = np.flatnonzero(data == _QUOTE)
        if len(quotes):
            ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return ends


def _one_line_end(data: bytes, quoted: bool) -> bytes:
    """Windows and old Mac line ends become newlines, except within quotes."""
    if b"\r" not in data:
        return data
    if not quoted or b'"' not in data:
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    array = np.frombuffer(data, dtype=np.uint8).copy()
    returns = np.flatnonzero(array == _RETURN)
    outside = returns[np.searchsorted(np.flatnonzero(array == _QUOTE), returns) % 2 == 0]
    before_newline = outside[
        (outside + 1 < len(array)) & (array[np.minimum(outside + 1, len(array) - 1)] == _NEWLINE)
    ]
    array[outside] = _NEWLINE
    return np.delete(array, before_newline).tobytes()


def _comment_lines(comment: str) -> re.Pattern[bytes]:
    """What starts like a comment line, up to the end of that line."""
    return re.compile(rb"(?:\A|(?<=[\r\n]))(?:%b)?%b[^\r\n]*" % (MARK, re.escape(comment.encode())))


def _without_marks_in_comments(data: bytes, commented: re.Pattern[bytes]) -> bytes:
    """Text with apostrophes for the quotation marks of comments; it begins where a row does.

    A mark in a comment opens no cell: the rows from there to the next mark would go with the comment.
    """
    pieces, at, quotes = [], 0, 0
    for match in commented.finditer(data):
        quotes += data.count(b'"', at, match.start())
        line = match[0].replace(b'"', b"'") if quotes % 2 == 0 else match[0]  # else it is part of a quoted cell
        quotes += line.count(b'"')
        pieces += [data[at : match.start()], line]
        at = match.end()
    return b"".join([*pieces, data[at:]]) if pieces else data


def _without_marks(text: bytes, ends: NDArray[np.int64]) -> bytes:
    """Text without a byte order mark at the start of a row, be it the first one or any other."""
    if MARK not in text:
        return text
    data = np.frombuffer(text + b"\n\n", dtype=np.uint8)
    starts = np.concatenate(([0], ends[:-1] + 1))
    marked = starts[(data[starts] == MARK[0]) & (data[starts + 1] == MARK[1]) & (data[starts + 2] == MARK[2])]
    return np.delete(data[:-2], (marked[:, None] + np.arange(len(MARK))).ravel()).tobytes()


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
            f"{file}: line {line}: is not UTF-8 text; save the file as UTF-8, or state its --encoding, such as cp1252."
        ) from None


def blocks_of(
    source: Input, *, quoted: bool, encoding: str = UTF8, skip_lines: int = 0, comment: str | None = None
) -> Iterator[TextBlock]:
    """The text of an input in blocks of whole rows; with `quoted`, a line break within double quotes ends no row.

    The first `skip_lines` lines are left out; lines keep their numbers in messages. A line that starts with `comment`
    where a row does is a row, whatever quotation marks it holds.
    """
    file, carry, first_line = str(source), b"", 1 + skip_lines
    commented = _comment_lines(comment) if comment is not None and quoted else None
    with open_bytes(source) as stream:
        pieces: Iterator[bytes] = filter(None, _as_utf8(stream, encoding, file))
        if skip_lines:
            pieces = filter(None, chain([_below(pieces, skip_lines, file)], pieces))
        for raw in chain(pieces, [b""]):  # the last is the end
            data = carry + raw
            if not raw and data and data[-1:] not in (b"\n", b"\r"):
                data += b"\n"
            pending = b""
            if raw and data.endswith(b"\r"):  # its newline may come with the next block
                data, pending = data[:-1], b"\r"
            if commented is not None:
                data = _without_marks_in_comments(data, commented)
            data = _one_line_end(data, quoted)
            ends = _row_ends(np.frombuffer(data, dtype=np.uint8), quoted)
            cut = int(ends[-1]) + 1 if len(ends) else 0
            text, carry = data[:cut], data[cut:] + pending
            if text:
                _check_text(text, first_line, file)
                text = _without_marks(text, ends)
                yield TextBlock(text, first_line, file, quoted)
                first_line += text.count(b"\n")
            if not raw and carry:
                raise InputError(
                    f"{file}: line {first_line}: a quote is opened and never closed; correct the file."
                )
            if len(carry) > MAX_LINE:
                _check_text(carry[:BLOCK].rsplit(b"\n", 1)[0], first_line, file)
                raise InputError(
                    f"{file}: line {first_line}: the line, or a quoted cell that starts in it, is longer than"
                    f" {MAX_LINE >> 20} MB; correct the file."
                )


def _as_utf8(stream: IO[bytes], encoding: str, file: str) -> Iterator[bytes]:
    """The text of a stream as UTF-8, piece by piece."""
    decoder, line = codecs.getincrementaldecoder(encoding)("strict"), 1
    for at, raw in enumerate(chain(iter(partial(stream.read, BLOCK), b""), [b""])):
        if encoding == UTF8:
            if at == 0 and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise InputError(f"{file}: line 1: the text is UTF-16; save it as UTF-8, or say --encoding utf-16.")
            yield raw
            continue
        try:
            text = decoder.decode(raw, final=not raw).encode()
        except UnicodeError as error:
            line += raw.count(b"\n", 0, error.start if isinstance(error, UnicodeDecodeError) else 0)
            raise InputError(
                f"{file}: line {line} or near it: is not {encoding} text; correct --encoding."
            ) from None
        line += text.count(b"\n")
        yield text


def _below(pieces: Iterator[bytes], count: int, file: str) -> bytes:
    """The text below the first `count` lines, in the piece in which they end."""
    data, at, left = b"", 0, count
    for piece in chain(pieces, [b""]):
        data, at = data[at:] + piece, 0
        # A line end at the end of a piece may go on in the next.
        while left and (end := _LINE_END.search(data, at)) and (end.end() < len(data) or not piece):
            at, left = end.end(), left - 1
        if not left or not piece or len(data) - at > MAX_LINE:
            break
    if left:
        raise InputError(f"{file}: ends at line {count - left + 1}; leave out fewer lines with --skip-lines.")
    return data[at:]


def first_block(
    source: Input, *, quoted: bool, encoding: str = UTF8, skip_lines: int = 0, comment: str | None = None
) -> TextBlock:
    """The first block alone, to see what the file holds."""
    blocks = blocks_of(source, quoted=quoted, encoding=encoding, skip_lines=skip_lines, comment=comment)
    block = next(blocks, None)
    if block is None:
        raise InputError(f"{source}: the file is empty; give a file with records.")
    return block


def checked_encoding(name: str) -> str:
    """The encoding by the name used here, from any spelling of it.

    >>> checked_encoding("Windows-1252"), checked_encoding("UTF8")
    ('cp1252', 'utf-8')
    """
    try:
        return _KNOWN[codecs.lookup(name).name]
    except (LookupError, KeyError, ValueError):
        raise UsageError(
            f"`encoding` must be one of {', '.join(ENCODINGS)}; save the file as UTF-8 if it is another."
        ) from None
