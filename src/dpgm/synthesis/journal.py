"""The journal of a checkpoint: an append-only file of JSON entries, one per line, each on disk before `append` returns.

Every line has a hash of itself and of the line before it, so that a changed, moved or removed line is detected. A last
line that was cut off while it was written was never acted upon, and is dropped.

The entries of a fit:

    {"charge": NAME, "runs": n}         written before noise is drawn (a release) or before n steps run (training)
    {"answer": NAME, "file": F, "sha256": H}    the noisy value is on disk
    {"steps": n, "file": F, "sha256": H}        the trainer's state after n steps is on disk
    {"sources": [...], "private": b}    the sources of this process's noise, and whether all are private
    {"model": KIND, "architecture": A, "file": F, "sha256": H}    the finished model is on disk
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
from dpgm.privacy.strict_json import LARGEST_WHOLE


@dataclass
class History:
    """The entries of a journal, summed up: charges, answers on disk, sources of noise.

    `private` is whether every process so far used a private source of noise; `steps_done` is the number of training
    steps behind the saved trainer state.
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
        """Add an entry; raises ArithmeticError, ValueError, KeyError or TypeError if it makes no sense."""
        if "charge" in entry:
            self.charged[str(entry["charge"])] += _whole(entry["runs"], at_least=1)  # a charge is never given back
            return
        if "sources" in entry:
            self.sources.update(str(name) for name in entry["sources"])
            self.private = self.private and entry["private"] is True
            return
        file = str(entry["file"])
        if Path(file).name != file or not (file.isprintable() and file.endswith(".safetensors")):
            raise ValueError("not a plain file name")
        self.hashes[file] = str(entry["sha256"])
        if "answer" in entry:
            self.answers[str(entry["answer"])].append(file)
        elif "model" in entry:
            self.model = (str(entry["model"]), dict(entry["architecture"]))
        elif "measurements" not in entry:
            self.trainer, self.steps_done = file, _whole(entry["steps"], at_least=0)


def _whole(value: Any, *, at_least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not at_least <= value <= LARGEST_WHOLE:
        raise ValueError("not a number of runs or steps")
    return value


class Journal:
    """The entries of one file, whose chain of hashes begins with `start`."""

    def __init__(self, path: Path, start: str) -> None:
        self._path = path
        self._last = start

    def append(self, entry: Mapping[str, Any]) -> None:
        """Append an entry and wait until it is on disk.

        Raises:
            DiskError: it could not be written, so what it announces must not happen.
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
                    os.ftruncate(handle, before)  # the next entry must not follow half a line
                    raise
            finally:
                os.close(handle)
            if new:  # a new file survives a crash only if its folder is flushed, too
                flush(self._path.parent)
        except OSError as error:
            raise DiskError(
                f"the checkpoint in {self._path.parent} cannot be written; free some space, then resume the fit."
            ) from error
        self._last = digest

    def read(self, *, mend: bool = True) -> list[dict[str, Any]]:
        """All entries; later calls of `append` continue their chain of hashes.

        Args:
            mend: remove or complete a last line that was cut off; only for the process that has locked the folder.

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
            if not torn:  # only the line break is missing: the entry counts
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
    """Whether a line without a line break is an incomplete entry."""
    try:
        json.JSONDecoder().raw_decode(tail.decode(errors="replace"))
    except ValueError:
        return True
    return False


def _write_all(handle: int, line: bytes) -> None:
    while line:
        line = line[os.write(handle, line) :]
