"""Opening data files of any format: plain or compressed files, members of zip archives, and pipes.

Compressed data may unpack to a limited size only. Data from a pipe are copied to a temporary file, since readers open a
file more than once (first for its header, then for its rows). That file has no name that others could open, belongs to
the owner alone, and disappears when the process ends, however that happens.
"""

import gzip
import io
import os
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from dpgm.data.urls import is_url, path_of, refuse_settings, scheme_of, server_of, split_table, without_credentials
from dpgm.errors import InputError, ResourceError, UsageError

# Text compresses about ten times; a large file that compresses more than this is taken for a decompression bomb. The
# ratio is that of the bytes read so far, not of the whole file, so that a bomb is stopped early however large it is.
MAX_RATIO = 200
RATIO_FROM = 16 << 20
_IGNORED = ("__MACOSX/",)
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile)
_HEAD = 1 << 16  # bytes by which a format is recognised
_OPEN_FILES = "/proc/self/fd"  # where Linux lists open files, also those without a name


@dataclass(frozen=True)
class Input:
    """A file or folder to read: its path, and the member of a zip archive or the sheet of another file, if named.

    Data from a pipe are a temporary `copy`, which lives as long as this value; `label` is its name in messages, and the
    ending of `alias` says its format, if known. The `format` is stated where an address says it. The `address` of a
    server may hold a password and is never shown. Of a `connection` that somebody opened, the rows are read through it.
    `partitions` are columns with one value, which the folders above the file name.
    """

    path: Path
    member: str | None = None
    sheet: str | None = None
    label: str | None = None
    alias: str | None = None
    copy: Any = field(default=None, repr=False, compare=False)
    format: str | None = None
    address: str | None = field(default=None, repr=False)
    connection: Any = field(default=None, repr=False)
    partitions: tuple[tuple[str, str | None], ...] = ()

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return self.label or (str(self.path) if self.member is None else f"{self.path}::{self.member}")

    def __del__(self) -> None:
        if self.copy is not None:
            self.copy.close()

    @property
    def name(self) -> str:
        """The file name whose ending says the format."""
        return self.alias or os.path.basename(self.member or self.path)

    def refuse_member(self, what: str) -> None:
        """Refuse a member of an archive, for formats that need random access."""
        if self.member is not None:
            raise InputError(f"{self}: {what} are read from the disk; unpack the archive first.")


def spooled(
    stream: IO[bytes],
    label: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    ending_of: Callable[[bytes], str] | None = None,
    sheet: str | None = None,
    partitions: tuple[tuple[str, str | None], ...] = (),
) -> Input:
    """Copy all bytes of a stream to a file that only this process can open.

    Args:
        stream: read to its end.
        label: its name in messages, such as `stdin`.
        folder: the folder of the file; by default that of temporary files.
        sheet: the sheet or table to read in it.
        partitions: columns with one value.
        ending_of: tells from the first bytes which ending a file of this format has; by default none.

    Raises:
        InputError: the stream is empty.
    """
    make = tempfile.TemporaryFile if os.path.isdir(_OPEN_FILES) else tempfile.NamedTemporaryFile
    file: Any = make(dir=folder)  # mode 0600; removed when it is closed
    try:
        shutil.copyfileobj(stream, file, 1 << 20)
        file.flush()
        if not file.tell():
            raise InputError(f"{label}: holds nothing; give a file with records.")
        file.seek(0)
        alias = label if ending_of is None else label + ending_of(_plain(file.read(_HEAD), label))
        path = file.name if isinstance(file.name, str) else f"{_OPEN_FILES}/{file.fileno()}"
        return Input(Path(path), None, sheet, label, alias, file, partitions=partitions)
    except BaseException:
        file.close()
        raise


def _plain(head: bytes, label: str) -> bytes:
    if head.startswith(b"\x1f\x8b"):
        raise InputError(f"{label}: is compressed; unpack it on its way, as with `gunzip -c FILE | dpgm ...`.")
    return head


def check_regular(path: Path) -> int:
    """The size of a file; refuses one that does not exist, is not a regular file, is empty or cannot be read."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise InputError(f"{without_credentials(str(path))}: there is no such file; check the path.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({(error.strerror or 'fault').lower()}).") from None
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"{path}: is a folder; give one file.")
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: is not a plain file (a pipe or device); save the data to a file first.")
    if status.st_size == 0:
        raise InputError(f"{path}: the file is empty; give a file with records.")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: no permission to read it.")
    return status.st_size


def listing(folder: Path) -> list[Path]:
    """What a folder holds, by name."""
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: cannot be listed ({(error.strerror or 'fault').lower()}).") from None


def locate(path: str | os.PathLike[str], member: str | None = None) -> Input:
    """The file or folder to read, with a member or sheet; `archive.zip::member` names a member as well."""
    if isinstance(path, Input):
        return path
    text = os.fspath(path)
    if is_url(text) and not os.path.exists(text):
        database = at_database(text, member)
        if database is None:
            raise UsageError(
                f"{without_credentials(text)}: only rows are read from such places; copy it here first."
            )
        if database.address is None:
            check_regular(database.path)
        return database
    if os.path.isdir(text):
        return Input(Path(text))
    if not os.path.exists(text):
        refuse_settings(text)
    if member is None and "::" in text and not os.path.exists(text):
        text, member = text.split("::", 1)
    file = Path(text)
    check_regular(file)
    return Input(file, _choose_member(file, member)) if is_zip(file) else Input(file, sheet=member)


def at_database(url: str, member: str | None = None) -> Input | None:
    """The database at an address, and the table that is named after it; None for other addresses."""
    url, table = split_table(url) if member is None else (url, member)
    if (path := path_of(url)) is not None:
        return Input(Path(path), sheet=table, format=scheme_of(url))
    if (label := server_of(url)) is not None:
        return Input(Path(label), sheet=table, label=label, format="postgresql", address=url)
    return None


def is_zip(path: Path) -> bool:
    """Whether a file is a zip archive of data files, by its ending."""
    return path.suffix.lower() == ".zip"


def _choose_member(file: Path, member: str | None) -> str:
    members = zip_members(file, f"{file}: the zip archive is damaged or cut short; get it again.")
    plain = [one for one in members if not one.is_dir() and not one.filename.startswith(_IGNORED)]
    for one in plain:
        if ".." in one.filename.replace("\\", "/").split("/") or one.filename.startswith(("/", "\\")):
            raise InputError(f"{file}: names a file outside of the archive; get it from a source you trust.")
    listed = ", ".join(ascii(one.filename) for one in plain[:20]) or "none"
    if member is None and len(plain) != 1:
        raise InputError(f"{file}: holds {len(plain)} files ({listed}); choose one with `member`.")
    matching = [one for one in plain if member in (None, one.filename)]
    matching = matching or [one for one in plain if os.path.basename(one.filename) == member]
    if len(matching) != 1:
        raise InputError(f"{file}: has no single member of the name asked for; it holds {listed}.")
    if matching[0].flag_bits & 1:
        raise InputError(f"{file}: the member is encrypted; unpack it first.")
    if matching[0].file_size == 0:
        raise InputError(f"{file}: the member is empty; give a file with records.")
    return matching[0].filename


def zip_members(file: Path | IO[bytes], fault: str) -> list[zipfile.ZipInfo]:
    """The members that a zip file lists; `fault` is the message if it cannot be opened."""
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        raise InputError(fault) from None


class _GuardedStream(io.RawIOBase):
    """A stream of unpacked bytes that raises an `InputError` if the file is damaged or unpacks to too much.

    `packed_size` returns how many packed bytes were read so far.
    """

    def __init__(self, stream: IO[bytes], source: Input, packed_size: Callable[[], int]) -> None:
        self._stream, self._source, self._packed_size = stream, source, packed_size
        self._unpacked_size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        try:
            data = self._stream.read(len(buffer))
        except _DAMAGED:
            raise InputError(f"{self._source}: the file is damaged or cut short; get it again.") from None
        except (OSError, RuntimeError, NotImplementedError):
            raise InputError(
                f"{self._source}: cannot be read to its end; check the disk or get it again."
            ) from None
        self._unpacked_size += len(data)
        if self._unpacked_size > max(RATIO_FROM, MAX_RATIO * max(1, self._packed_size())):
            raise InputError(
                f"{self._source}: unpacks to over {MAX_RATIO} times its size; unpack it yourself if you trust it."
            )
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def open_bytes(source: Input) -> Iterator[IO[bytes]]:
    """The bytes of an input, unpacked if it is gzip or within a zip."""
    size = check_regular(source.path)
    with ExitStack() as stack:
        raw: IO[bytes] = stack.enter_context(open(source.path, "rb"))
        stream, start = raw, 0
        if source.member is not None:
            try:
                archive = stack.enter_context(zipfile.ZipFile(raw))
                start = archive.getinfo(source.member).header_offset
                stream = stack.enter_context(archive.open(source.member))
            except (zipfile.BadZipFile, KeyError, OSError, RuntimeError, NotImplementedError):
                raise InputError(f"{source}: the zip archive is damaged or cut short; get it again.") from None
        if source.name.lower().endswith(".gz"):
            unpacking: Any = gzip.GzipFile(fileobj=stream)
            stream = stack.enter_context(unpacking)
        guarded = _GuardedStream(stream, source, lambda: raw.tell() - start)
        yield io.BufferedReader(guarded, 1 << 20)
        if os.fstat(raw.fileno()).st_size != size:
            raise InputError(f"{source}: the file changed while it was read; run again when it is complete.")


def read_all(stream: IO[bytes], source: Input, limit: int) -> bytes:
    """All bytes that are left; refuses more than `limit`."""
    pieces, total = [], 0
    while piece := stream.read(1 << 24):
        pieces.append(piece)
        total += len(piece)
        if total > limit:
            raise ResourceError(f"{source}: unpacks to more than {limit >> 30} GB; split it.")
    return b"".join(pieces)
