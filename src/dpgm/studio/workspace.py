"""The served folder: projects, ledgers, and the files that may be chosen, each under an id that is no path.

Everything the studio writes lies in one folder, `dpgm-studio`, that only its owner can open. A project is a folder with
the answers of its curator (`project.json`, replaced as a whole) and with what the commands of `dpgm` wrote for it.
Names that people type are never paths.
"""

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from dpgm.data.atomic import atomic_file
from dpgm.data.formats import by_ending
from dpgm.errors import DiskError, UsageError
from dpgm.privacy.certificate import CERTIFICATE_NAME

HOME = "dpgm-studio"
_ID = re.compile("[0-9a-f]{8}")
_MOST_LISTED = 500  # files of the served folder that are shown
_DEPTH = 2  # folders below the served one that are searched


@dataclass(frozen=True)
class Answers:
    """What the curator said in one project; everything starts empty."""

    name: str = ""  # of the project
    made: str = ""  # the day and time it was begun
    file: str = ""  # the data, as a path below the served folder
    made_up: bool = False  # whether the data are simulated, so that nothing is spent on anybody
    several: str = ""  # whether a person may have several rows: "no", "yes" or "unknown"
    person: str = ""  # the column of persons
    rows: str = ""  # what the rows of one person are: "items" or "rows"
    item: str = ""  # the column of items
    rows_per_person: int | None = None  # the most rows of a person that are used
    records: int | None = None  # the public number of people or rows
    reading: Mapping[str, str] = field(default_factory=dict)  # how the file is written
    kinds: Mapping[str, str] = field(default_factory=dict)  # kinds of columns that the curator corrected
    items: str = "found"  # whether items are "found" privately, "stated" in the domain, or those of the "file"
    known: Mapping[str, str] = field(default_factory=dict)  # how the curator knows what is stated of each field
    epsilon: float | None = None  # the budget
    ledger: str = ""  # the id of the ledger that it is charged to
    title: str = ""  # of the certificate
    owner: str = ""  # who answers for the release
    population: str = ""  # whom the data are about
    date: str = ""  # of the release
    looked: bool = False  # whether a comparison with the real data was opened before the last fit


@dataclass(frozen=True)
class Project:
    """One project: its id, its folder and its answers."""

    id: str
    folder: Path
    answers: Answers

    def save(self, **changes: Any) -> "Project":
        """The project with other answers, on disk."""
        changed = replace(self, answers=replace(self.answers, **changes))
        write_json(self.folder / "project.json", asdict(changed.answers))
        return changed

    def path(self, name: str) -> Path:
        """A file of the project by a name of ours."""
        return self.folder / name


class Workspace:
    """The served folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.home = self.root / HOME
        self._key = secrets.token_bytes(16)
        self._lock: int | None = None

    def open(self, address: str) -> None:
        """Make the studio's folder, and take it for this server alone; empties the folder of half-finished uploads.

        Raises:
            UsageError: another server has it open, at the address that the message names.
            DiskError: nothing can be written here.
        """
        try:
            for folder in (self.home, self.home / "projects", self.home / "ledgers"):
                folder.mkdir(mode=0o700, exist_ok=True)
            self._lock = os.open(self.home / "server.lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise DiskError(f"{self.root}: the studio cannot write here ({error.strerror}).") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            where = os.read(self._lock, 200).decode("ascii", "replace") or "another address"
            raise UsageError(f"{self.root} is open in a studio already, at {where}; use that one.") from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, address.encode("ascii"), 0)
        self.clear_temporary()

    def clear_temporary(self) -> Path:
        """An empty folder for uploads on their way."""
        temporary = self.home / "tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(mode=0o700, exist_ok=True)
        return temporary

    def projects(self) -> list[Project]:
        """All projects, the newest first."""
        ids = [path.name for path in (self.home / "projects").iterdir() if _ID.fullmatch(path.name)]
        found = [project for project in map(self._project, ids) if project is not None]
        return sorted(found, key=lambda project: project.answers.made, reverse=True)

    def project(self, id: str) -> Project:
        """One project."""
        found = self._project(id)
        if found is None:
            raise UsageError("there is no such project; see the list of projects.")
        return found

    def new_project(self, name: str, **answers: Any) -> Project:
        """A project with no answers yet."""
        id = secrets.token_hex(4)
        folder = self.home / "projects" / id
        folder.mkdir(mode=0o700)
        made = time.strftime("%Y-%m-%d %H:%M:%S")
        return Project(id, folder, Answers()).save(name=plain(name) or "Untitled", made=made, **answers)

    def _project(self, id: str) -> Project | None:
        folder = self.home / "projects" / id
        values = read_json(folder / "project.json") if _ID.fullmatch(id) else None
        if values is None:
            return None
        known = {one.name for one in fields(Answers)}
        return Project(id, folder, Answers(**{name: value for name, value in values.items() if name in known}))

    def ledgers(self) -> dict[str, str]:
        """The names of all ledgers by their ids."""
        found = {}
        for path in sorted((self.home / "ledgers").glob("*.json")):
            values = read_json(path)
            if _ID.fullmatch(path.stem) and values is not None and self.ledger(path.stem).is_file():
                found[path.stem] = str(values.get("name", ""))
        return found

    def ledger(self, id: str) -> Path:
        """The file of a ledger."""
        if not _ID.fullmatch(id):
            raise UsageError("there is no such ledger; choose one of the list.")
        return self.home / "ledgers" / f"{id}.ledger"

    def new_ledger(self, name: str) -> tuple[str, Path]:
        """The id and the file of a new ledger, which the caller creates."""
        id = secrets.token_hex(4)
        write_json(self.home / "ledgers" / f"{id}.json", {"name": plain(name) or "Untitled"})
        return id, self.ledger(id)

    def data_files(self) -> dict[str, Path]:
        """Files that may hold data, by their ids; nothing is opened."""
        found = {}
        for path in self._files():
            if by_ending(path) is None:
                continue
            found[self._id_of(path)] = path.relative_to(self.root)
            if len(found) == _MOST_LISTED:
                break
        return found

    def releases(self) -> dict[str, Path]:
        """Release folders, those of the projects included, by their ids."""
        own = [project.path("release") for project in self.projects()]
        folders = [path.parent for path in self._files() if path.name == CERTIFICATE_NAME]
        made = [path for path in own if (path / CERTIFICATE_NAME).is_file()]
        return {self._id_of(path): path.relative_to(self.root) for path in (*folders, *made)}

    def _id_of(self, path: Path) -> str:
        return hashlib.blake2b(os.fsencode(path), key=self._key, digest_size=8).hexdigest()

    def _files(self) -> Iterator[Path]:
        """Regular files near the top; links are not followed, wherever they lead."""
        folders = [(self.root, 0)]
        while folders:
            folder, depth = folders.pop(0)
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in entries:
                if entry.name.startswith(".") or entry.name == HOME:
                    continue
                if entry.is_dir(follow_symlinks=False) and depth < _DEPTH:
                    folders.append((Path(entry.path), depth + 1))
                elif entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)

    def checked(self, file: str) -> Path:
        """A file that was chosen earlier, if it is still one of this folder and no link on the way to it."""
        path = self.root / file
        place = self.root
        for part in Path(file).parts:
            place = place / part
            if part == ".." or place.is_symlink():
                raise UsageError("the data file is no longer where it was; choose it again.")
        if not path.is_file() or not stat.S_ISREG(path.lstat().st_mode):
            raise UsageError("the data file is no longer where it was; choose it again.")
        return path


def plain(text: str) -> str:
    """A name that somebody typed, on one line, without control or direction characters."""
    return "".join(character for character in " ".join(text.split()) if character.isprintable())[:160]


def write_json(path: Path, values: Any) -> None:
    """Write a small file whole, readable by its owner alone."""
    with atomic_file(path, private=True) as temporary:
        temporary.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", "utf-8")


def read_json(path: Path) -> Any | None:
    """The values of a small file of ours; None if it is not there."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
