"""Text in another encoding than UTF-8, turned into UTF-8 as it is read.

Only encodings in which a character means the same wherever it stands: with the others, such as those that shift between
alphabets, one row could change how the next is read.
"""

import codecs
import io
from typing import IO

from dpgm.errors import InputError, UsageError

UTF8 = "utf-8"
ENCODINGS = (
    *(UTF8, "utf-16", "utf-16-le", "utf-16-be", "ascii", "latin-1"),
    *(f"iso-8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16)),
    *(f"cp{page}" for page in (437, 850, 852, 866, 1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258)),
    *("mac-roman", "koi8-r", "koi8-u", "gbk", "gb18030", "big5", "shift-jis", "cp932", "euc-jp", "euc-kr", "cp949"),
)
_KNOWN = {codecs.lookup(name).name: name for name in ENCODINGS}
_PIECE = 1 << 20


def checked_encoding(name: str) -> str:
    """The encoding by the name used here, whatever its spelling.

    >>> checked_encoding("Windows-1252"), checked_encoding("UTF8")
    ('cp1252', 'utf-8')
    """
    try:
        return _KNOWN[codecs.lookup(name).name]
    except (LookupError, KeyError, ValueError):
        raise UsageError(
            f"`encoding` must be one of {', '.join(ENCODINGS)}; save the file as UTF-8 if it is another."
        ) from None


class AsUtf8(io.RawIOBase):
    """A stream of text in some encoding, as UTF-8."""

    def __init__(self, stream: IO[bytes], encoding: str, file: str) -> None:
        self._stream, self._encoding, self._file = stream, encoding, file
        self._decoder = codecs.getincrementaldecoder(encoding)("strict")
        self._ready, self._lines, self._ended = b"", 1, False

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        """Some bytes of UTF-8; 0 at the end."""
        while not self._ready and not self._ended:
            raw = self._stream.read(_PIECE)
            self._ended = not raw
            try:
                self._ready = self._decoder.decode(raw, final=self._ended).encode()
            except UnicodeError as error:
                end = error.start if isinstance(error, UnicodeDecodeError) else 0
                line = self._lines + raw.count(b"\n", 0, end)
                raise InputError(
                    f"{self._file}: line {line} or near it: is not {self._encoding} text; correct --encoding."
                ) from None
            self._lines += self._ready.count(b"\n")
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
