"""An append-only, hash-chained list of JSON documents in one SQLite file.

Every row carries the hash of the row before it, so that an edit or a deletion shows. One writer at a time: what a
writer reads and what it appends are one transaction, on disk before it returns.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from dpgm.errors import ArtefactError, DiskError, UsageError

Document: TypeAlias = dict[str, Any]
Row: TypeAlias = tuple[int, str, str, str]  # number, hash of the row before, document, hash
_WAIT_SECONDS = 120.0
# Locks are not reliable there, and two writers at once could both believe they are alone.
_NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "afs", "ncp", "9p", "fuse.sshfs", "fuse.s3fs", "glusterfs", "ceph")
_SCHEMA = """
CREATE TABLE ledger (sequence INTEGER PRIMARY KEY, previous TEXT NOT NULL, document TEXT NOT NULL, hash TEXT NOT NULL)
"""


class Chain:
    """The documents of one file, in order."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, first: Document) -> "Chain":
        """A new file with its first document; an existing one is never overwritten."""
        refuse_network(path)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            raise UsageError(f"{path} exists already; a ledger is never overwritten.") from None
        except OSError as error:
            raise DiskError(f"{path} cannot be created: {error.strerror}.") from None
        with closing(_connect(path)) as connection, _transaction(connection, path):
            connection.execute(_SCHEMA)
            _append(connection, 0, "", first)
        return cls(path)

    def documents(self) -> list[Document]:
        """All documents."""
        return self._parsed(self._rows())

    @contextmanager
    def writing(self) -> Iterator[tuple[list[Document], Callable[[Document], None]]]:
        """All documents, and how to append one to them, in one transaction."""
        with closing(_connect(self.path)) as connection, _transaction(connection, self.path):
            rows = _read(connection, self.path)
            yield self._parsed(rows), lambda document: _append(connection, rows[-1][0], rows[-1][3], document)

    def head(self) -> tuple[int, str]:
        """Number and hash of the last document."""
        sequence, _, _, digest = self._rows()[-1]
        return sequence, digest

    def check(self) -> tuple[dict[int, str], str]:
        """The hashes up to the first fault, and what the fault is, if any."""
        previous = ""
        hashes: dict[int, str] = {}
        for place, (sequence, before, document, digest) in enumerate(self._rows(), start=1):
            if sequence != place:
                return hashes, f"entry {place} is missing"
            if before != previous or digest != _hash(previous, document):
                return hashes, f"entry {sequence} does not match its hash"
            hashes[sequence] = previous = digest
        return hashes, ""

    def _rows(self) -> list[Row]:
        with closing(_connect(self.path)) as connection:
            return _read(connection, self.path)

    def _parsed(self, rows: list[Row]) -> list[Document]:
        if not rows:
            raise ArtefactError(f"{self.path} is an empty ledger.")
        try:
            documents = [json.loads(document) for _, _, document, _ in rows]
        except (ValueError, TypeError, RecursionError):
            raise ArtefactError(f"{self.path} holds an entry that is not JSON; the ledger is damaged.") from None
        if not all(isinstance(document, dict) for document in documents):
            raise ArtefactError(f"{self.path} holds an entry that is not an object; the ledger is damaged.")
        return documents


def _append(connection: sqlite3.Connection, sequence: int, previous: str, document: Document) -> None:
    """One more document, after the one of that number and hash."""
    text = json.dumps(document, sort_keys=True)
    row = (sequence + 1, previous, text, _hash(previous, text))
    connection.execute("INSERT INTO ledger VALUES (?, ?, ?, ?)", row)


def _hash(previous: str, document: str) -> str:
    return hashlib.sha256(f"{previous}\n{document}".encode()).hexdigest()


def _connect(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode=rw", uri=True, timeout=_WAIT_SECONDS, isolation_level=None
        )
        connection.execute("PRAGMA synchronous=FULL")
        return connection
    except sqlite3.Error as error:
        raise ArtefactError(f"{path} cannot be opened as a ledger: {error}.") from None


def _read(connection: sqlite3.Connection, path: Path) -> list[Row]:
    try:
        return connection.execute(
            "SELECT sequence, previous, document, hash FROM ledger ORDER BY sequence"
        ).fetchall()
    except sqlite3.Error as error:
        raise ArtefactError(f"{path} cannot be read as a ledger: {error}.") from None


@contextmanager
def _transaction(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """One writer at a time: the check and the entry it allows are one step."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise DiskError(f"{path} cannot be written: {error}.") from None


def refuse_network(path: Path) -> None:
    """Refuse a file system without reliable locks, as far as the machine says."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return
    place = str(path.resolve())
    home = max(
        (mount for mount in mounts if place == mount[0] or place.startswith(mount[0].rstrip("/") + "/")),
        key=lambda mount: len(mount[0]),
        default=None,
    )
    if home is not None and home[1].startswith(_NETWORK_FILE_SYSTEMS):
        raise UsageError(f"{path} is on a network file system ({home[1]}); put the ledger on a local disk.")
