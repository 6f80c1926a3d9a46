"""Data from a pipe, kept in a private temporary file for as long as they are needed.

Readers open a file more than once (to look at its header, and then at its rows), which a pipe does not allow. The file
has no name that others could open, belongs to the owner alone, and goes with the process, however that ends.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from typing import IO, Any

from dpgm.errors import InputError

_HEAD = 1 << 16  # bytes by which a format is told
_MAGIC = ((b"PAR1", ".parquet"), (b"PK\x03\x04", ".xlsx"), (b"\x93NUMPY", ".npy"))
_HANDLES = "/proc/self/fd"  # where Linux shows open files, those without a name as well


@dataclass(frozen=True)
class Spooled:
    """A copy of what a stream held: a path for as long as this value lives.

    `label` is how messages call it; the ending of `name` tells the format, if it has one.
    """

    label: str
    name: str
    file: Any = field(repr=False)

    def __fspath__(self) -> str:
        return self.file.name if isinstance(self.file.name, str) else f"{_HANDLES}/{self.file.fileno()}"

    def __str__(self) -> str:
        return self.label

    def __del__(self) -> None:
        self.file.close()


def spooled(
    stream: IO[bytes], label: str, *, look: bool = False, folder: str | os.PathLike[str] | None = None
) -> Spooled:
    """All bytes of a stream in a file that only this process can open.

    Args:
        stream: read to its end.
        label: how messages call it, such as `stdin`.
        look: find out the format from the first bytes: for a curator who looks at the data, never for a fit.
        folder: where the file is kept; by default that of temporary files.

    Raises:
        InputError: the stream holds nothing.
    """
    make = tempfile.TemporaryFile if os.path.isdir(_HANDLES) else tempfile.NamedTemporaryFile
    file: Any = make(dir=folder)  # mode 0600; removed when it is closed
    try:
        shutil.copyfileobj(stream, file, 1 << 20)
        file.flush()
        if not file.tell():
            raise InputError(f"{label}: holds nothing; pipe a file with records into the command.")
        file.seek(0)
        return Spooled(label, label + (_ending_of(file.read(_HEAD), label) if look else ""), file)
    except BaseException:
        file.close()
        raise


def _ending_of(head: bytes, label: str) -> str:
    """The ending that a file would have which begins like this.

    >>> _ending_of(b"age,sex", "stdin"), _ending_of(b'{"age": 5}', "stdin"), _ending_of(b"[[1, 2],", "stdin")
    ('.csv', '.jsonl', '.json')
    """
    for magic, ending in _MAGIC:
        if head.startswith(magic):
            return ending
    if head.startswith(b"\x1f\x8b"):
        raise InputError(f"{label}: is compressed; unpack it on its way, as with `gunzip -c FILE | dpgm ...`.")
    lines = [line.strip() for line in head.splitlines() if line.strip()]
    first = lines[0] if lines else b""
    if first.startswith(b"{") or (first.startswith(b"[") and first.endswith(b"]") and len(lines) > 1):
        return ".jsonl"
    if first.startswith(b"["):
        return ".json"
    return ".tsv" if b"\t" in first and b"," not in first else ".csv"
