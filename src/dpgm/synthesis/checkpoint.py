"""A fit that can be killed at any moment and resumed without spending more than its plan.

The checkpoint folder holds released values only: the plan, a journal, the noisy answers and the trainer's state. Never
rows, assignments, coins, or anything of the noise generator; a resumed fit takes fresh entropy. The public seed that
draws feature maps, initial weights and latent noise is not secret: the guarantee holds for every value of it, under
zero-out adjacency (latent noise is numbered by row).

The journal is append-only, one JSON line an entry, each fsynced:

    {"charge": NAME, "runs": n}         written before noise is drawn (a release) or before n steps run (training)
    {"answer": NAME, "file": F, "sha256": H}    the noisy value is safely on disk
    {"steps": n, "file": F}             the trainer's state after n steps is safely on disk
    {"sources": [...], "private": b}    where this process takes its noise from

One process at a time: the folder is locked. With a ledger, charges are written there, too, so that a folder set back
to an older copy cannot spend again; without one that cannot be told.

A charge without its answer is spent all the same. A torn last line was never acted upon and is dropped.
"""

import fcntl
import hashlib
import hmac
import json
import os
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.atomic import atomic_file, check_writable
from dpgm.data.records import Records
from dpgm.errors import ArtefactError, DiskError, UsageError
from dpgm.mechanisms.gateway import Call, Gateway
from dpgm.mechanisms.query import Query
from dpgm.synthesis.fingerprint import fingerprint
from dpgm.synthesis.plan import Plan
from dpgm.synthesis.tensors import read_tensors, write_tensors

FORMAT = 3  # answers of older versions belong to other questions


@dataclass
class _History:
    charged: Counter[str] = field(default_factory=Counter)
    answers: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    hashes: dict[str, str] = field(default_factory=dict)
    trainer: str | None = None
    steps_done: int = 0
    sources: set[str] = field(default_factory=set)
    private: bool = True


class Checkpoint:
    """A folder in which a fit records what it charged and what came back."""

    def __init__(self, folder: Path, header: Mapping[str, Any], history: _History, lock: int) -> None:
        self.folder = folder
        self._lock = lock  # held until this object goes: two processes on one folder would spend twice
        self.before_charge: Callable[[Mapping[str, int]], None] = lambda charged: None
        self.public_seed = int(header["public_seed"])
        self.ledger_entry: str | None = header.get("ledger_entry")
        self._history = history
        self._replayed: Counter[str] = Counter()

    # -- opening ------------------------------------------------------------------------------------------

    @classmethod
    def start(cls, folder: Path, plan: Plan, records: Records, ledger_entry: str | None = None) -> "Checkpoint":
        """A new checkpoint in an empty or missing folder."""
        cls.prepare(folder)
        lock = _take_lock(folder)
        header: dict[str, Any] = {
            "format": FORMAT,
            "plan": plan.to_json(),
            "public_seed": secrets.randbits(62),
            "fingerprint": fingerprint(records),
            "ledger_entry": ledger_entry,
        }
        with atomic_file(folder / "checkpoint.json") as path:
            path.write_text(json.dumps(header), "utf-8")
        return cls(folder, header, _History(), lock)

    @staticmethod
    def prepare(folder: Path) -> None:
        """Make the folder, or refuse it, before anything is charged."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise UsageError(f"the checkpoint folder {folder} is not empty; use --resume or another folder.")
        except OSError as error:
            raise DiskError(f"the checkpoint folder {folder} cannot be made; choose another place.") from error
        check_writable(folder / "checkpoint.json")

    @classmethod
    def resume(cls, folder: Path, plan: Plan, records: Records) -> "Checkpoint":
        """Continue an earlier fit of the same plan on the same data."""
        try:
            header = json.loads((folder / "checkpoint.json").read_text("utf-8"))
            same_plan = header["plan"] == plan.to_json()
            told, now = header["fingerprint"], fingerprint(records)
            same_data = told is None or now is None or hmac.compare_digest(told, now)
            sound = header["format"] == FORMAT and int(header["public_seed"]) in range(2**62)
        except FileNotFoundError as error:
            raise ArtefactError(f"{folder} holds no checkpoint; run without --resume to start one.") from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArtefactError(f"the checkpoint in {folder} is damaged; start again in another folder.") from error
        if not sound:
            raise ArtefactError(
                f"the checkpoint in {folder} is damaged or of another version of dpgm; start again in another folder."
            )
        if not same_plan:
            raise ArtefactError(f"the checkpoint in {folder} belongs to another plan; give the same options.")
        if not same_data:
            raise ArtefactError(f"the checkpoint in {folder} belongs to other data; give the same file.")
        lock = _take_lock(folder)
        try:
            for leftover in folder.glob("*.tmp-*"):
                leftover.unlink(missing_ok=True)
            history = _read_journal(folder)
            _refuse_older_journal(folder, history)
        except BaseException:
            os.close(lock)
            raise
        return cls(folder, header, history, lock)

    @staticmethod
    def saved_plan(folder: Path) -> Plan:
        """The plan an earlier fit in this folder was made with."""
        try:
            return Plan.from_json(json.loads((folder / "checkpoint.json").read_text("utf-8"))["plan"])
        except FileNotFoundError as error:
            raise ArtefactError(f"{folder} holds no checkpoint; run without --resume to start one.") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ArtefactError(f"the checkpoint in {folder} is damaged; start again in another folder.") from error

    def close(self) -> None:
        """Let another process have the folder."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    # -- what was spent ----------------------------------------------------------------------------------

    @property
    def lost(self) -> dict[str, int]:
        """Full-data releases that were charged but whose answer never reached the disk."""
        answers = self._history.answers
        return {
            name: runs - len(answers[name])
            for name, runs in self._history.charged.items()
            if name != "step" and runs > len(answers[name])
        }

    @property
    def steps_charged(self) -> int:
        """Training steps spent, whether or not their result survived."""
        return self._history.charged["step"]

    @property
    def steps_done(self) -> int:
        """Training steps in the saved trainer state."""
        return self._history.steps_done

    def complete(self, plan: Plan) -> bool:
        """Whether everything the plan pays for was charged, so that a resumed fit runs no mechanism again."""
        steps = (m.count for m in plan.mechanisms if m.sample is not None)
        return self.steps_charged >= max(steps, default=0) and all(
            self._history.charged[m.name] >= m.count for m in plan.mechanisms if m.sample is None
        )

    def trainer_state(self) -> dict[str, Tensor] | None:
        """The state of the last completed block of steps."""
        return None if self._history.trainer is None else read_tensors(self.folder / self._history.trainer)

    @property
    def sources(self) -> frozenset[str]:
        """Where the noise of all processes of this fit came from."""
        return frozenset(self._history.sources)

    @property
    def private(self) -> bool:
        """Whether every process of this fit took its noise from a private source."""
        return self._history.private

    def raise_to(self, charged: Mapping[str, int]) -> None:
        """Count what a ledger saw charged and this folder does not know: it is spent, and its result is lost."""
        for name, runs in charged.items():
            if runs > self._history.charged[name]:
                self._append({"charge": name, "runs": runs - self._history.charged[name]})
                self._history.charged[name] = runs

    # -- recording ----------------------------------------------------------------------------------------

    def note_sources(self, names: Collection[str], private: bool) -> None:
        """Write down where noise is taken from, when that changes."""
        if not self._history.sources.issuperset(names) or (self._history.private and not private):
            self._history.sources.update(names)
            self._history.private = self._history.private and private
            self._append({"sources": sorted(self._history.sources), "private": self._history.private})

    def charge(self, name: str, runs: int = 1) -> None:
        """Write down a spending before it happens."""
        self.before_charge({**self._history.charged, name: self._history.charged[name] + runs})
        self._append({"charge": name, "runs": runs})
        self._history.charged[name] += runs

    def answer(self, name: str, noisy: Tensor) -> None:
        """Save a noisy value."""
        file = _answer_file(name, self._history.charged[name])
        write_tensors(self.folder / file, {"value": noisy})
        self._append({"answer": name, "file": file, "sha256": _sha256(self.folder / file)})
        self._history.hashes[file] = _sha256(self.folder / file)
        self._history.answers[name].append(file)
        self._replayed[name] = len(self._history.answers[name])

    def save_steps(self, steps: int, state: Mapping[str, Tensor]) -> None:
        """Save the trainer after `steps` steps; the previous state stays until the new one is recorded."""
        before = self._history.trainer
        file = f"trainer-{steps}.safetensors"
        write_tensors(self.folder / file, dict(state))
        self._append({"steps": steps, "file": file})
        self._history.trainer, self._history.steps_done = file, steps
        if before is not None and before != file:
            (self.folder / before).unlink(missing_ok=True)

    def replay(self, name: str) -> Tensor | None:
        """The next recorded answer of that name, or None when there is none left."""
        at = self._replayed[name]
        if at >= len(self._history.answers[name]):
            return None
        self._replayed[name] = at + 1
        file = self._history.answers[name][at]
        tensors = read_tensors(self.folder / file)
        if set(tensors) != {"value"} or _sha256(self.folder / file) != self._history.hashes[file]:
            raise ArtefactError(f"{file} of the checkpoint is damaged; start again in another folder.")
        return tensors["value"]

    def _append(self, entry: Mapping[str, Any]) -> None:
        path = self.folder / "journal.jsonl"
        try:
            new = not path.exists()
            with path.open("ab") as journal:
                journal.write(json.dumps(entry).encode() + b"\n")
                journal.flush()
                os.fsync(journal.fileno())
            if new:  # the name of a new file is safe only when its folder is
                os.fsync(self._lock)
        except OSError as error:
            raise DiskError(
                f"the checkpoint in {self.folder} cannot be written; free some space and --resume."
            ) from error


class CheckpointedGateway(Gateway):
    """A live gateway that answers from the checkpoint what an earlier process already released."""

    def __init__(self, records: Records, *, checkpoint: Checkpoint, **options: Any) -> None:
        super().__init__(records, **options)
        self._checkpoint = checkpoint

    def assert_complete(self, *, fewer: Sequence[str] = ()) -> None:
        """As for a live gateway; a run whose partner was lost in a crash is charged unused."""
        for entry in self._allowance.values() if self._allowance is not None and self._checkpoint.lost else ():
            unused = entry.count - self._runs_of(entry.name)
            if entry.count > 1 and unused:
                self._checkpoint.charge(entry.name, unused)
                self._spent[(entry.name, entry.noise, entry.sampling_rate, entry.sample, entry.delta)] += unused
        super().assert_complete(fewer=fewer)

    def _answer(self, call: Call, query: Query, rows: NDArray[np.int64] | None) -> Tensor:
        self._checkpoint.note_sources(self.randomness.names_used or {self.randomness.name}, self.randomness.private)
        if call.sample is not None:
            return super()._answer(call, query, rows)  # steps are charged by the block, before they run
        recorded = self._checkpoint.replay(call.name)
        if recorded is not None:
            if not query.fits(recorded):
                raise ArtefactError("the checkpoint was made on another device; resume it on the same kind.")
            return recorded
        exact = self._exact(query, rows)
        # Nothing has left the process yet: the charge precedes the noise, so a value that ever existed is charged.
        self._checkpoint.charge(call.name)
        noisy = self._noisy(call, query, exact)
        self._checkpoint.answer(call.name, noisy)
        return noisy


def _take_lock(folder: Path) -> int:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise UsageError(f"another fit is running in {folder}; wait for it or use another folder.") from error
    return handle


def _read_journal(folder: Path) -> _History:
    history = _History()
    path = folder / "journal.jsonl"
    if not path.exists():
        return history
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ArtefactError(f"the journal in {folder} cannot be read; check its permissions.") from error
    if lines[-1]:  # torn by a crash: the entry was never acted upon; cut it so that appending stays sound
        with path.open("r+b") as journal:
            journal.truncate(path.stat().st_size - len(lines[-1]))
            os.fsync(journal.fileno())
    try:
        for line in lines[:-1]:
            entry = json.loads(line)
            if "charge" in entry:
                if int(entry["runs"]) < 1:
                    raise ValueError("a charge is never given back")
                history.charged[str(entry["charge"])] += int(entry["runs"])
            elif "answer" in entry:
                history.answers[str(entry["answer"])].append(_plain_name(entry["file"]))
                history.hashes[entry["file"]] = str(entry["sha256"])
            elif "sources" in entry:
                history.sources.update(str(name) for name in entry["sources"])
                history.private = history.private and entry["private"] is True
            else:
                history.trainer, history.steps_done = _plain_name(entry["file"]), int(entry["steps"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtefactError(f"the journal in {folder} is damaged; start again in another folder.") from error
    return history


def _refuse_older_journal(folder: Path, history: _History) -> None:
    """A result on disk whose charge the journal does not know: the journal is an older copy, and would spend twice."""
    known = {_answer_file(name, run + 1) for name, runs in history.charged.items() for run in range(runs)}
    steps = history.charged["step"]
    newer = [path.name for path in folder.glob("answer-*.safetensors") if path.name not in known]
    newer += [path.name for path in folder.glob("trainer-*.safetensors") if int(path.stem[8:] or 0) > steps]
    if newer:
        raise ArtefactError(
            f"the journal in {folder} is older than the results beside it; restore the newest copy, or fit again in "
            "another folder."
        )


def _answer_file(name: str, run: int) -> str:
    return f"answer-{name.replace(' ', '-')}-{run}.safetensors"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _plain_name(value: object) -> str:
    name = str(value)
    if Path(name).name != name:
        raise ValueError("not a plain file name")
    return name
