"""The checkpoint of a fit, which may be killed at any moment and resumed without spending more than its plan.

The checkpoint folder holds released values only: the plan, a journal, the noisy answers and the trainer's state. It
never holds rows, cluster assignments, sampling coins or the state of the noise generator; a resumed fit takes fresh
entropy. The public seed that draws feature maps and initial weights is not secret: the guarantee holds for every value
of it. Latent noise comes from secret random words that are never stored.

The folder is locked: one process at a time may use it. With a ledger, charges are written there as well, so that a
folder restored from an older copy cannot spend again; without a ledger this cannot be detected.

A charge whose answer was lost is spent all the same. Only the owner may read the folder: the noisy values are safe to
publish, but nobody else should choose among them.
"""

import fcntl
import hashlib
import hmac
import json
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dpgm.data.atomic import atomic_file, check_writable, disk_error, remove_leftovers
from dpgm.data.records import Records
from dpgm.errors import ArtefactError, DiskError, UsageError
from dpgm.kernels import parallel
from dpgm.privacy.untrusted_files import read_bytes
from dpgm.synthesis.fingerprint import rows_fingerprint
from dpgm.synthesis.journal import History, Journal, damaged
from dpgm.synthesis.plan import Plan
from dpgm.synthesis.tensors import MAX_BYTES, read_tensors, tensor_bytes, tensors_of_bytes

CHECKPOINT_FORMAT = 5  # answers of older versions belong to other questions
HEADER_FILE = "checkpoint.json"
JOURNAL_FILE = "journal.jsonl"
MODEL_FILE = "model.safetensors"
MEASUREMENTS_FILE = "measurements.safetensors"
ROOM_FILE = "room"
SEED_BITS = 62
SPARE_BYTES = 16_384  # for the answer's header, the journal's lines and what a file system rounds up to


class Checkpoint:
    """A folder in which a fit records its charges and the noisy answers.

    If several processes fit together, the first one owns the folder. All of them run the same program on the same
    released values, so they call the same methods in the same order: the first one writes, and broadcasts whatever it
    reads to the others, which need no access to its disk and have no journal.
    """

    def __init__(
        self,
        folder: Path,
        header: Mapping[str, Any],
        journal: Journal | None,
        entries: Iterable[Mapping[str, Any]] = (),
        lock: int = -1,
    ) -> None:
        self.folder = folder
        self.public_seed = int(header["public_seed"])
        self.ledger_entry: str | None = header["ledger_entry"]
        self.before_charge: Callable[[Mapping[str, int]], None] = lambda charged: None
        self._journal = journal
        self._entries = list(entries)
        self._lock = lock  # kept until `close`: two processes on one folder would spend twice
        self.history = _history(folder, self._entries)
        self._replayed: Counter[str] = Counter()

    # -- opening ------------------------------------------------------------------------------------------

    @classmethod
    def start(
        cls,
        folder: Path,
        plan: Plan,
        records: Records,
        ledger_entry: str | None = None,
        *,
        digest: str | None = None,
    ) -> "Checkpoint":
        """A new checkpoint in an empty or missing folder; `digest` is the fingerprint of the rows if it is known."""
        _prepare(folder)
        header: dict[str, Any] = {
            "format": CHECKPOINT_FORMAT,
            "plan": plan.to_json(),
            "public_seed": secrets.randbits(SEED_BITS),
            "fingerprint": (rows_fingerprint(records) if digest is None else digest) or None,
            "ledger_entry": ledger_entry,
        }
        sha256 = _header_digest(header)
        with _locked(folder) as lock, atomic_file(folder / HEADER_FILE, private=True) as path:
            path.write_text(json.dumps(header | {"sha256": sha256}), "utf-8")
        return cls(folder, header, Journal(folder / JOURNAL_FILE, sha256), lock=lock)

    @classmethod
    def resume(cls, folder: Path, plan: Plan, records: Records, *, digest: str | None = None) -> "Checkpoint":
        """The checkpoint of an earlier fit of the same plan on the same data; `digest` as for `start`."""
        header = _read_header(folder)
        if header["plan"] != plan.to_json():
            raise ArtefactError(f"the checkpoint in {folder} belongs to another plan; give the same options.")
        stored, now = header["fingerprint"], rows_fingerprint(records) if digest is None else digest
        if stored is not None and now and not hmac.compare_digest(stored, now):
            raise ArtefactError(f"the checkpoint in {folder} belongs to other data; give the same file.")
        with _locked(folder) as lock:
            for leftover in folder.glob("*.tmp-*"):
                leftover.unlink(missing_ok=True)
            journal = Journal(folder / JOURNAL_FILE, header["sha256"])
            saved = cls(folder, header, journal, journal.read(), lock)
            _refuse_older_journal(folder, saved.history)
        return saved

    def share(self) -> None:
        """Send header and journal to the other processes, which call `follow` (collective)."""
        header = {"public_seed": self.public_seed, "ledger_entry": self.ledger_entry}
        parallel.bytes_from_first(json.dumps([header, self._entries]).encode())

    @classmethod
    def follow(cls) -> "Checkpoint":
        """The checkpoint of any process but the first, from what the first one shares (collective)."""
        header, entries = json.loads(parallel.bytes_from_first(b""))
        return cls(Path(), header, None, entries)

    @staticmethod
    def saved_plan(folder: Path) -> Plan:
        """The plan of the earlier fit in this folder."""
        try:
            return Plan.from_json(_read_header(folder)["plan"])
        except UsageError as error:
            raise damaged(folder) from error

    @staticmethod
    def charges_in(folder: Path) -> dict[str, int]:
        """Runs that the fit in this folder has charged, read without locking it; empty if there is no fit."""
        try:
            journal = Journal(folder / JOURNAL_FILE, _read_header(folder)["sha256"])
            return dict(_history(folder, journal.read(mend=False)).charged)
        except ArtefactError:
            return {}

    def close(self) -> None:
        """Release the lock of the folder."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def remove(self) -> None:
        """Remove the folder, once the release is written or if nothing was charged."""
        self.close()
        if self._journal is not None:
            remove_checkpoint(self.folder)

    # -- charges -----------------------------------------------------------------------------------------

    @property
    def charged(self) -> dict[str, int]:
        """Number of runs charged per mechanism; `step` counts training steps."""
        return dict(self.history.charged)

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
        """Whether everything the plan pays for was charged, so that a resumed fit runs no mechanism."""
        charged = self.history.charged
        return all(charged["step" if m.sample is not None else m.name] >= m.count for m in plan.mechanisms)

    @property
    def finished(self) -> bool:
        """Whether the model is on disk, so that no further query is allowed."""
        return self.history.model is not None

    # -- answers -------------------------------------------------------------------------------------------

    def trainer_state(self) -> dict[str, Tensor] | None:
        """The trainer's state after the last completed block of steps."""
        return None if self.history.trainer is None else self._read(self.history.trainer)

    def model(self) -> tuple[str, dict[str, Any], dict[str, Tensor]] | None:
        """Kind, architecture and tensors of the finished model; None if there is none yet."""
        return None if self.history.model is None else (*self.history.model, self._read(MODEL_FILE))

    def replay(self, name: str) -> Tensor | None:
        """The next recorded answer of a mechanism; None if all have been replayed."""
        at = self._replayed[name]
        if at >= len(self.history.answers[name]):
            return None
        self._replayed[name] = at + 1
        file = self.history.answers[name][at]
        tensors = self._read(file)
        if set(tensors) != {"value"}:
            raise _damaged_file(file)
        return tensors["value"]

    # -- recording ----------------------------------------------------------------------------------------

    def note_sources(self, names: Collection[str], private: bool) -> None:
        """Record the sources of noise if they have changed."""
        known = self.history
        if not known.sources.issuperset(names) or (known.private and not private):
            self._record({"sources": sorted(known.sources.union(names)), "private": known.private and private})

    def charge(self, name: str, runs: int = 1) -> None:
        """Record runs of a mechanism before they happen."""
        self.before_charge({**self.history.charged, name: self.history.charged[name] + runs})
        self._record({"charge": name, "runs": runs})

    def raise_to(self, charged: Mapping[str, int]) -> None:
        """Count charges that are in the ledger and not in this folder: they are spent, and their answers are lost."""
        for name, runs in charged.items():
            if runs > self.history.charged[name]:
                self._record({"charge": name, "runs": runs - self.history.charged[name]})

    def make_room(self, size: int) -> None:
        """Reserve disk space before a charge, so that its answer is not lost if the disk fills up meanwhile."""
        if self._journal is None:
            return
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
        self._save(
            {"answer": name}, f"{_answer_prefix(name)}-{self.history.charged[name]}.safetensors", {"value": noisy}
        )
        self._replayed[name] = len(self.history.answers[name])

    def save_steps(self, steps: int, state: Mapping[str, Tensor]) -> None:
        """Save the trainer after `steps` steps; the previous state stays until the new one is recorded."""
        before, file = self.history.trainer, f"trainer-{steps}.safetensors"
        self._save({"steps": steps}, file, state)
        if before is not None and before != file and self._journal is not None:
            (self.folder / before).unlink(missing_ok=True)

    def save_model(self, kind: str, architecture: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Save the finished model, so that a release that cannot be written now can be written later."""
        self._save({"model": kind, "architecture": dict(architecture)}, MODEL_FILE, tensors)

    def save_measurements(self, table: bytes) -> None:
        """Save the table of released statistics, before the model with which the fit is finished."""
        whole = torch.frombuffer(bytearray(table), dtype=torch.uint8)
        self._save({"measurements": len(table)}, MEASUREMENTS_FILE, {"table": whole})

    def measurements(self) -> bytes:
        """The table of released statistics of a finished fit."""
        tensors = self._read(MEASUREMENTS_FILE)
        if set(tensors) != {"table"}:
            raise _damaged_file(MEASUREMENTS_FILE)
        return tensors["table"].numpy().tobytes()

    def _save(self, entry: Mapping[str, Any], file: str, tensors: Mapping[str, Tensor]) -> None:
        """Write a file, and then the journal entry that refers to it."""
        digest = ""
        if self._journal is not None:
            data = tensor_bytes(tensors)
            digest = hashlib.sha256(data).hexdigest()
            (self.folder / ROOM_FILE).unlink(missing_ok=True)
            with atomic_file(self.folder / file, private=True) as path:
                path.write_bytes(data)
        self._record({**entry, "file": file, "sha256": digest})

    def _record(self, entry: Mapping[str, Any]) -> None:
        if self._journal is not None:
            self._journal.append(entry)
        self._entries.append(entry)
        self.history.add(entry)

    def _read(self, file: str) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        if self._journal is not None:
            data = read_bytes(self.folder / file, MAX_BYTES)
            if hashlib.sha256(data).hexdigest() != self.history.hashes.get(file):
                raise _damaged_file(file)
            tensors = read_tensors(data, file)
        if not parallel.is_parallel():
            return tensors
        return tensors_of_bytes(parallel.bytes_from_first(tensor_bytes(tensors)))


def _history(folder: Path, entries: Iterable[Mapping[str, Any]]) -> History:
    """The history of a fit, from the entries of its journal; raises ArtefactError if an entry makes no sense."""
    history = History()
    try:
        for entry in entries:
            history.add(entry)
    except (ArithmeticError, ValueError, KeyError, TypeError) as error:
        raise damaged(folder) from error
    return history


def _damaged_file(file: str) -> ArtefactError:
    return ArtefactError(f"{file} of the checkpoint is damaged; start again in another folder.")


def remove_checkpoint(folder: Path) -> None:
    """Remove a checkpoint folder, renamed first so that a half-removed one is not mistaken for a checkpoint."""
    doomed = folder.with_name(f"{folder.name}.tmp-{secrets.token_hex(6)}")
    try:
        os.rename(folder, doomed)
    except OSError:
        return
    shutil.rmtree(doomed, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Lock a folder; the lock outlives the block unless an error ends it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"another fit is running in {folder}; wait for it or use another folder.") from error
        yield handle
    except BaseException:
        os.close(handle)
        raise


def check_folder(folder: Path, *, resume: bool) -> None:
    """Refuse a folder in which no fit can be started or resumed; called before the data are read."""
    if resume:
        _read_header(folder)
    else:
        _refuse_used(folder)


def _refuse_used(folder: Path) -> None:
    if (folder / HEADER_FILE).exists():
        spent = "what it measured is spent" if Checkpoint.charges_in(folder) else "nothing is spent"
        raise UsageError(
            f"an earlier fit stopped in {folder}, and {spent}; add `resume=True` to continue it at no further cost, or "
            "remove the folder to start over, which is charged again."
        )
    remove_leftovers(folder / HEADER_FILE)  # if a fit was killed while it wrote the header
    try:
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"the checkpoint folder {folder} is not empty; use another folder.")
    except OSError as error:
        raise DiskError(f"the checkpoint folder {folder} cannot be made; choose another place.") from error


def _prepare(folder: Path) -> None:
    """Make the folder, readable by its owner only, or refuse it before anything is charged."""
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
        header: dict[str, Any] = json.loads((folder / HEADER_FILE).read_text("utf-8"))
        other_version = header["format"] != CHECKPOINT_FORMAT
        valid = other_version or _is_valid_header(header)
    except FileNotFoundError as error:
        raise ArtefactError(f"{folder} holds no checkpoint; run without `resume` to start one.") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged(folder) from error
    if other_version:
        raise ArtefactError(
            f"the checkpoint in {folder} is damaged or of another version of dpgm; start again in another folder."
        )
    if not valid:
        raise damaged(folder)
    return header


def _is_valid_header(header: dict[str, Any]) -> bool:
    texts = isinstance(header["fingerprint"], str | None) and isinstance(header["ledger_entry"], str | None)
    seed = header["public_seed"]
    digest = _header_digest({name: value for name, value in header.items() if name != "sha256"})
    return header["sha256"] == digest and texts and type(seed) is int and 0 <= seed < 2**SEED_BITS


def _header_digest(header: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


def _refuse_older_journal(folder: Path, history: History) -> None:
    """Refuse a journal that lacks the charge of an answer on disk: it is an older copy, and would spend twice."""
    charged = {_answer_prefix(name): runs for name, runs in history.charged.items()}
    charged["trainer"] = history.charged["step"]
    for path in (*folder.glob("answer-*.safetensors"), *folder.glob("trainer-*.safetensors")):
        prefix, _, run = path.stem.rpartition("-")
        if not run.isdecimal() or int(run) > charged.get(prefix, 0):
            raise ArtefactError(
                f"the journal in {folder} is older than the results beside it; restore the newest copy, or fit again "
                "in another folder."
            )


def _answer_prefix(name: str) -> str:
    """The beginning of the names of a mechanism's answer files; the number of the run follows."""
    return f"answer-{name.replace(' ', '-')}"
