"""A fit that can be killed at any moment and resumed without spending more than its plan.

The checkpoint folder holds released values only: the plan, a journal, the noisy answers and the trainer's state. Never
rows, assignments, coins, or anything of the noise generator; a resumed fit takes fresh entropy. The public seed that
draws feature maps and initial weights is not secret: the guarantee holds for every value of it. Latent noise comes from
secret words that are never stored.

One process at a time: the folder is locked. With a ledger, charges are written there, too, so that a folder set back
to an older copy cannot spend again; without one that cannot be told.

A charge without its answer is spent all the same. Only the owner may read the folder: the noisy values are safe to
publish, but not for others to choose from.
"""

import fcntl
import hashlib
import hmac
import json
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from dpgm.data.atomic import atomic_file, check_writable, disk_error, remove_leftovers
from dpgm.data.records import Records
from dpgm.errors import ArtefactError, DiskError, UsageError
from dpgm.privacy.release_checks import sha256_of
from dpgm.synthesis.fingerprint import fingerprint
from dpgm.synthesis.journal import History, Journal, damaged, read_history
from dpgm.synthesis.plan import Plan
from dpgm.synthesis.tensors import read_tensors, tensor_bytes

FORMAT = 4  # answers of older versions belong to other questions
HEADER_FILE = "checkpoint.json"
JOURNAL_FILE = "journal.jsonl"
MODEL_FILE = "model.safetensors"
ROOM_FILE = "room"
SPARE_BYTES = 16_384  # for the answer's header, the journal's lines and what a file system rounds up to


class Checkpoint:
    """A folder in which a fit records what it charged and what came back."""

    def __init__(
        self, folder: Path, header: Mapping[str, Any], journal: Journal, history: History, lock: int
    ) -> None:
        self.folder = folder
        self.header = header
        self._lock = lock  # held until this object goes: two processes on one folder would spend twice
        self.before_charge: Callable[[Mapping[str, int]], None] = lambda charged: None
        self.public_seed = int(header["public_seed"])
        self.ledger_entry: str | None = header["ledger_entry"]
        self.journal = journal
        self.history = history
        self._replayed: Counter[str] = Counter()

    # -- opening ------------------------------------------------------------------------------------------

    @classmethod
    def start(cls, folder: Path, plan: Plan, records: Records, ledger_entry: str | None = None) -> "Checkpoint":
        """A new checkpoint in an empty or missing folder."""
        _prepare(folder)
        lock = _take_lock(folder)
        header: dict[str, Any] = {
            "format": FORMAT,
            "plan": plan.to_json(),
            "public_seed": secrets.randbits(62),
            "fingerprint": fingerprint(records),
            "ledger_entry": ledger_entry,
        }
        digest = _header_digest(header)
        try:
            with atomic_file(folder / HEADER_FILE, private=True) as path:
                path.write_text(json.dumps(header | {"sha256": digest}), "utf-8")
        except BaseException:
            os.close(lock)
            raise
        return cls(folder, header, Journal(folder / JOURNAL_FILE, digest), History(), lock)

    @classmethod
    def resume(cls, folder: Path, plan: Plan, records: Records) -> "Checkpoint":
        """Continue an earlier fit of the same plan on the same data."""
        header = _read_header(folder)
        if header["plan"] != plan.to_json():
            raise ArtefactError(f"the checkpoint in {folder} belongs to another plan; give the same options.")
        stored, now = header["fingerprint"], fingerprint(records)
        if stored is not None and now is not None and not hmac.compare_digest(stored, now):
            raise ArtefactError(f"the checkpoint in {folder} belongs to other data; give the same file.")
        lock = _take_lock(folder)
        try:
            for leftover in folder.glob("*.tmp-*"):
                leftover.unlink(missing_ok=True)
            journal = Journal(folder / JOURNAL_FILE, header["sha256"])
            history = read_history(journal, folder)
            _refuse_older_journal(folder, history)
        except BaseException:
            os.close(lock)
            raise
        return cls(folder, header, journal, history, lock)

    @staticmethod
    def saved_plan(folder: Path) -> Plan:
        """The plan an earlier fit in this folder was made with."""
        try:
            return Plan.from_json(_read_header(folder)["plan"])
        except UsageError as error:
            raise damaged(folder) from error

    @staticmethod
    def charges_in(folder: Path) -> dict[str, int]:
        """What the fit in this folder has charged so far, read without opening it; empty where there is none."""
        try:
            header = _read_header(folder)
            journal = Journal(folder / JOURNAL_FILE, header["sha256"])
            return dict(read_history(journal, folder, mend=False).charged)
        except ArtefactError:
            return {}

    def hand_over_lock(self) -> int:
        """The lock of the folder, which this object holds no more."""
        lock, self._lock = self._lock, -1
        return lock

    def close(self) -> None:
        """Let another process have the folder."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def remove(self) -> None:
        """Remove the folder: its release is written, or nothing was ever charged."""
        self.close()
        remove_checkpoint(self.folder)

    # -- what was spent ----------------------------------------------------------------------------------

    @property
    def lost(self) -> dict[str, int]:
        """Full-data releases that were charged but whose answer never reached the disk."""
        answers = self.history.answers
        return {
            name: runs - len(answers[name])
            for name, runs in self.history.charged.items()
            if name != "step" and runs > len(answers[name])
        }

    @property
    def steps_charged(self) -> int:
        """Training steps spent, whether or not their result survived."""
        return self.history.charged["step"]

    def complete(self, plan: Plan) -> bool:
        """Whether everything the plan pays for was charged, so that a resumed fit runs no mechanism again."""
        steps = (m.count for m in plan.mechanisms if m.sample is not None)
        return self.steps_charged >= max(steps, default=0) and all(
            self.history.charged[m.name] >= m.count for m in plan.mechanisms if m.sample is None
        )

    def trainer_state(self) -> dict[str, Tensor] | None:
        """The state of the last completed block of steps."""
        return None if self.history.trainer is None else self._read(self.history.trainer)

    def model(self) -> tuple[str, dict[str, Any], dict[str, Tensor]] | None:
        """Kind, architecture and tensors of the finished model, if the fit got that far."""
        return None if self.history.model is None else (*self.history.model, self._read(MODEL_FILE))

    @property
    def charged(self) -> dict[str, int]:
        """Runs of each mechanism that are spent; `step` counts training steps."""
        return dict(self.history.charged)

    def raise_to(self, charged: Mapping[str, int]) -> None:
        """Count what a ledger saw charged and this folder does not know: it is spent, and its result is lost."""
        for name, runs in charged.items():
            if runs > self.history.charged[name]:
                self.journal.append({"charge": name, "runs": runs - self.history.charged[name]})
                self.history.charged[name] = runs

    # -- recording ----------------------------------------------------------------------------------------

    def note_sources(self, names: Collection[str], private: bool) -> None:
        """Write down where noise is taken from, when that changes."""
        if not self.history.sources.issuperset(names) or (self.history.private and not private):
            self.history.sources.update(names)
            self.history.private = self.history.private and private
            self.journal.append({"sources": sorted(self.history.sources), "private": self.history.private})

    def charge(self, name: str, runs: int = 1) -> None:
        """Write down a spending before it happens."""
        self.before_charge({**self.history.charged, name: self.history.charged[name] + runs})
        self.journal.append({"charge": name, "runs": runs})
        self.history.charged[name] += runs

    def make_room(self, size: int) -> None:
        """Set disk space aside before a charge, so that its answer is not lost on a disk that fills up meanwhile."""
        path = self.folder / ROOM_FILE
        try:
            handle = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
            try:
                os.posix_fallocate(handle, 0, size + SPARE_BYTES)
            finally:
                os.close(handle)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise disk_error(self.folder, error) from error

    def answer(self, name: str, noisy: Tensor) -> None:
        """Save a noisy value."""
        (self.folder / ROOM_FILE).unlink(missing_ok=True)
        file = _answer_file(name, self.history.charged[name])
        digest = self._write(file, {"value": noisy})
        self.journal.append({"answer": name, "file": file, "sha256": digest})
        self.history.answers[name].append(file)
        self._replayed[name] = len(self.history.answers[name])

    def save_steps(self, steps: int, state: Mapping[str, Tensor]) -> None:
        """Save the trainer after `steps` steps; the previous state stays until the new one is recorded."""
        before = self.history.trainer
        file = f"trainer-{steps}.safetensors"
        digest = self._write(file, state)
        self.journal.append({"steps": steps, "file": file, "sha256": digest})
        self.history.trainer, self.history.steps_done = file, steps
        if before is not None and before != file:
            (self.folder / before).unlink(missing_ok=True)

    def save_model(self, kind: str, architecture: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Save the finished model, so that a release that cannot be written now can be written later."""
        digest = self._write(MODEL_FILE, tensors)
        self.journal.append(
            {"model": kind, "architecture": dict(architecture), "file": MODEL_FILE, "sha256": digest}
        )
        self.history.model = (kind, dict(architecture))

    def replay(self, name: str) -> Tensor | None:
        """The next recorded answer of that name, or None when there is none left."""
        at = self._replayed[name]
        if at >= len(self.history.answers[name]):
            return None
        self._replayed[name] = at + 1
        file = self.history.answers[name][at]
        tensors = self._read(file)
        if set(tensors) != {"value"}:
            raise ArtefactError(f"{file} of the checkpoint is damaged; start again in another folder.")
        return tensors["value"]

    def _write(self, file: str, tensors: Mapping[str, Tensor]) -> str:
        data = tensor_bytes(tensors)
        with atomic_file(self.folder / file, private=True) as path:
            path.write_bytes(data)
        self.history.hashes[file] = hashlib.sha256(data).hexdigest()
        return self.history.hashes[file]

    def _read(self, file: str) -> dict[str, Tensor]:
        path = self.folder / file
        tensors = read_tensors(path)
        if sha256_of(path) != self.history.hashes[file]:
            raise ArtefactError(f"{file} of the checkpoint is damaged; start again in another folder.")
        return tensors


def remove_checkpoint(folder: Path) -> None:
    """Remove a checkpoint folder that is needed no more; renamed first, so that half of one never looks like one."""
    doomed = folder.with_name(f"{folder.name}.tmp-{secrets.token_hex(6)}")
    try:
        os.rename(folder, doomed)
    except OSError:
        return
    shutil.rmtree(doomed, ignore_errors=True)


def _take_lock(folder: Path) -> int:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise UsageError(f"another fit is running in {folder}; wait for it or use another folder.") from error
    return handle


def check_folder(folder: Path, *, resume: bool) -> None:
    """Refuse a folder that no fit can be started or resumed in; called before the data is read."""
    if resume:
        _read_header(folder)
    else:
        _refuse_used(folder)


def _refuse_used(folder: Path) -> None:
    if (folder / HEADER_FILE).exists():
        spent = "what it measured is spent" if Checkpoint.charges_in(folder) else "nothing is spent"
        raise UsageError(
            f"an earlier fit stopped in {folder}, and {spent}; add --resume to go on with it at no further cost, or "
            "remove the folder to start anew, which is charged again."
        )
    remove_leftovers(folder / HEADER_FILE)  # of a fit that was killed before it had a checkpoint
    try:
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"the checkpoint folder {folder} is not empty; use another folder.")
    except OSError as error:
        raise DiskError(f"the checkpoint folder {folder} cannot be made; choose another place.") from error


def _prepare(folder: Path) -> None:
    """Make the folder, for its owner alone, or refuse it before anything is charged."""
    _refuse_used(folder)
    remove_leftovers(folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise DiskError(f"the checkpoint folder {folder} cannot be made; choose another place.") from error
    check_writable(folder / HEADER_FILE)


def _read_header(folder: Path) -> dict[str, Any]:
    try:
        header = json.loads((folder / HEADER_FILE).read_text("utf-8"))
        if header["format"] != FORMAT:
            raise ArtefactError(
                f"the checkpoint in {folder} is damaged or of another version of dpgm; start again in another folder."
            )
        stored = header["sha256"]
        if stored != _header_digest({name: value for name, value in header.items() if name != "sha256"}):
            raise ValueError("the hash does not match")
    except FileNotFoundError as error:
        raise ArtefactError(f"{folder} holds no checkpoint; run without --resume to start one.") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, ArtefactError):
            raise
        raise damaged(folder) from error
    return dict(header)


def _header_digest(header: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


def _refuse_older_journal(folder: Path, history: History) -> None:
    """A result on disk whose charge the journal does not know: the journal is an older copy, and would spend twice."""
    known = {_answer_file(name, run + 1) for name, runs in history.charged.items() for run in range(runs)}
    steps = history.charged["step"]
    newer = [path.name for path in folder.glob("answer-*.safetensors") if path.name not in known]
    for path in folder.glob("trainer-*.safetensors"):
        done = path.stem.removeprefix("trainer-")
        if not done.isdecimal() or int(done) > steps:
            newer.append(path.name)
    if newer:
        raise ArtefactError(
            f"the journal in {folder} is older than the results beside it; restore the newest copy, or fit again in "
            "another folder."
        )


def _answer_file(name: str, run: int) -> str:
    return f"answer-{name.replace(' ', '-')}-{run}.safetensors"
