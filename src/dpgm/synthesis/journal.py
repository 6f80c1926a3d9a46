"""The journal of a checkpoint: an append-only list of JSON entries, one per line, each on disk before `append` returns.

Every line carries a hash of itself and of the line before it, so that a line that was changed, moved or taken out is
noticed. A last line that was cut off while it was written was never acted upon, and is dropped.

Of a fit it holds:

    {"charge": NAME, "runs": n}         written before noise is drawn (a release) or before n steps run (training)
    {"answer": NAME, "file": F, "sha256": H}    the noisy value is safely on disk
    {"steps": n, "file": F, "sha256": H}        the trainer's state after n steps is safely on disk
    {"sources": [...], "private": b}    where this process takes its noise from
    {"model": KIND, "architecture": A, "file": F, "sha256": H}    the finished model is safely on disk
"""

import hashlib
import json
import os
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpgm.data.atomic import flush
from dpgm.errors import ArtefactError, DiskError


@dataclass
class History:
    """What the entries say: what was charged, which results are on disk, and where the noise came from.

    `private` is whether every process so far took its noise from a private source; `steps_done` are the training steps
    of the saved trainer state.
    """

    charged: Counter[str] = field(default_factory=Counter)
    answers: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    hashes: dict[str, str] = field(default_factory=dict)
    trainer: str | None = None
    steps_done: int = 0
    sources: set[str] = field(default_factory=set)
    private: bool = True
    model: tuple[str, dict[str, Any]] | None = None

    def add(self, entry: Mapping[str, Any]) -> None:
        """One more entry; raises ArithmeticError, ValueError, KeyError or TypeError where it makes no sense."""
        if "charge" in entry:
            if int(entry["runs"]) < 1:
                raise ValueError("a charge is never given back")
            self.charged[str(entry["charge"])] += int(entry["runs"])
            return
        if "sources" in entry:
            self.sources.update(str(name) for name in entry["sources"])
            self.private = self.private and entry["private"] is True
            return
        file = str(entry["file"])
        if Path(file).name != file:
            raise ValueError("not a plain file name")
        self.hashes[file] = str(entry["sha256"])
        if "answer" in entry:
            self.answers[str(entry["answer"])].append(file)
        elif "model" in entry:
            self.model = (str(entry["model"]), dict(entry["architecture"]))
        else:
            self.trainer, self.steps_done = file, int(entry["steps"])


class Journal:
    """The entries of one file, whose chain of hashes begins with `start`."""

    def __init__(self, path: Path, start: str) -> None:
        self._path = path
        self._last = start

    def append(self, entry: Mapping[str, Any]) -> None:
        """One more entry, safely on disk.

        Raises:
            DiskError: it could not be written; what it announces must not happen.
        """
        digest = _digest(self._last, entry)
        line = json.dumps({**entry, "hash": digest}).encode() + b"\n"
        try:
            new = not self._path.exists()
            handle = os.open(self._path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
            try:
                before = os.fstat(handle).st_size
                try:
                    _write_all(handle, line)
                    os.fsync(handle)
                except OSError:
                    os.ftruncate(handle, before)  # half a line must not stand before the next one
                    raise
            finally:
                os.close(handle)
            if new:  # the name of a new file is safe only when its folder is
                flush(self._path.parent)
        except OSError as error:
            raise DiskError(
                f"the checkpoint in {self._path.parent} cannot be written; free some space, then resume the fit."
            ) from error
        self._last = digest

    def read(self, *, mend: bool = True) -> list[dict[str, Any]]:
        """All entries; from here on the journal is appended to.

        Args:
            mend: put the end of a line that was cut off in order; only for the process that holds the folder.

        Raises:
            ArtefactError: an entry is damaged.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ArtefactError(
                f"the journal in {self._path.parent} cannot be read; check its permissions."
            ) from error
        *lines, tail = data.split(b"\n")
        entries = [self._checked(line) for line in lines]
        if tail:
            torn = _is_torn(tail)
            if not torn:  # the whole entry is there and only the end of the line is not: it counts
                entries.append(self._checked(tail))
            if mend:
                self._end_at(len(data) - len(tail) if torn else len(data), end_line=not torn)
        return entries

    def _checked(self, line: bytes) -> dict[str, Any]:
        try:
            entry = json.loads(line)
            stored = entry.pop("hash")
            if stored != _digest(self._last, entry):
                raise ValueError("the hash does not match")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ArtefactError(
                f"the journal in {self._path.parent} is damaged; start again in another folder."
            ) from error
        self._last = stored
        return dict(entry)

    def _end_at(self, size: int, *, end_line: bool) -> None:
        try:
            with self._path.open("r+b") as journal:
                journal.truncate(size)
                if end_line:
                    journal.seek(size)
                    journal.write(b"\n")
                journal.flush()
                os.fsync(journal.fileno())
        except OSError as error:
            raise DiskError(f"the journal in {self._path.parent} cannot be written; free some space.") from error


def damaged(folder: Path) -> ArtefactError:
    """The error of a checkpoint that cannot be read."""
    return ArtefactError(f"the checkpoint in {folder} is damaged; start again in another folder.")


def _digest(previous: str, entry: Mapping[str, Any]) -> str:
    return hashlib.sha256(f"{previous}\n{json.dumps(entry, sort_keys=True)}".encode()).hexdigest()


def _is_torn(tail: bytes) -> bool:
    """Whether a line without an end is the beginning of an entry, rather than a whole one."""
    try:
        json.JSONDecoder().raw_decode(tail.decode(errors="replace"))
    except ValueError:
        return True
    return False


def _write_all(handle: int, line: bytes) -> None:
    while line:
        line = line[os.write(handle, line) :]
