"""Files that nobody vouches for: no link is followed, nothing is read above a size, and no file is read twice.

Whoever made a folder may still write into it while it is being checked. So `ReleaseFolder` reads each file once, and
whatever is checked, hashed, parsed or used later are those bytes.
"""

import hashlib
import os
import stat
from itertools import islice
from pathlib import Path

from dpgm.errors import ArtefactError

_MOST_NAMES = 100  # files of a folder that are listed; a release has five


class ReleaseFolder:
    """The files of a folder, each read at most once: a file that is replaced later changes nothing here."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._bytes: dict[str, bytes] = {}
        if not os.path.isdir(self.path):  # unlike `Path.is_dir`, also for names that no file can have
            raise ArtefactError(f"{self.path} is not a release folder.")
        try:
            with os.scandir(self.path) as entries:
                self.names = frozenset(entry.name for entry in islice(entries, _MOST_NAMES))
        except OSError as error:
            raise ArtefactError(f"{self.path} cannot be read: {error.strerror}.") from None

    def read(self, name: str, at_most: int) -> bytes:
        """The bytes of one file, the same ones each time; raises ArtefactError."""
        if name not in self._bytes:
            self._bytes[name] = read_bytes(self.path / name, at_most)
        return self._bytes[name]

    def text(self, name: str, at_most: int) -> str:
        """The same bytes as text; raises ArtefactError."""
        try:
            return self.read(name, at_most).decode("utf-8")
        except UnicodeDecodeError:
            raise ArtefactError(f"{self.path / name} is not UTF-8 text.") from None

    def sha256(self, name: str, at_most: int) -> str:
        """SHA-256 of the same bytes; raises ArtefactError."""
        return hashlib.sha256(self.read(name, at_most)).hexdigest()


def read_bytes(path: Path, at_most: int) -> bytes:
    """The bytes of a regular file of at most so many; a larger one is refused before it is read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise ArtefactError(f"{path} is not a regular file.")
            if found.st_size > at_most:
                raise ArtefactError(f"{path} is larger than {at_most} bytes, so dpgm has not written it.")
            with os.fdopen(handle, "rb", closefd=False) as stream:
                return stream.read(found.st_size)  # not `at_most`: so much would be allocated
        finally:
            os.close(handle)
    except ArtefactError:
        raise
    except MemoryError:
        raise ArtefactError(f"{path} is larger than the memory of this machine.") from None
    except OSError as error:
        raise ArtefactError(f"{path} cannot be read: {error.strerror}.") from None
