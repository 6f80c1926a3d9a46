"""Real faults: SIGKILL at random moments, writes that fail, a full disk, damaged and older checkpoints, fits at once.

`python tests/harness/faults.py --out FILE` runs the long form and writes its figures (`make assure RUNS=faults`); the tests run the same
functions with small numbers. Every function returns figures; whatever must be zero is counted in `faults`, with one
sentence each in `told`.

Processes are forked from one that has everything imported, so that a child spends its time on the work under test and
not on imports. They are real processes, and the kills are real SIGKILLs.
"""

import argparse
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

import dpgm
from dpgm.cli.app import load_commands, run
from dpgm.errors import ArtefactError, BudgetError, DiskError, DpgmError
from dpgm.mechanisms.gateway import Gateway
from dpgm.networks.rules import NetworkSettings
from dpgm.privacy.accountant import cost
from dpgm.privacy.calibration import calibrate
from dpgm.privacy.events import Mechanism
from dpgm.privacy.ledger import Ledger
from dpgm.strategy.protocol import PublicFacts
from dpgm.strategy.settings import Config
from dpgm.synthesis.books import Books
from dpgm.synthesis.checkpoint import Checkpoint
from dpgm.synthesis.plan import Plan, choose_settings
from dpgm.synthesis.strategies import strategy_of
from synthesis_data import SETS, some_records, tiny_plan

RECORDS = some_records(SETS, 60)
PLAN = tiny_plan("vae", SETS, len(RECORDS), sampling_rate=0.3)
_open, _write = os.open, os.write  # for the harness itself, whatever fails for others
SENTENCES = ("error[E-BUDGET]", "error[E-ARTEFACT]", "error[E-DISK]")  # what may be said instead of a release


class Figures(Counter):
    """Counts by name; `fault` counts what must never happen."""

    def __init__(self) -> None:
        super().__init__(faults=0)
        self.told: list[str] = []

    def fault(self, sentence: str) -> None:
        self["faults"] += 1
        self.told.append(sentence)


# -- processes ---------------------------------------------------------------------------------------------------


def forked(work: Callable[[], int]) -> int:
    """Run `work` in a child process; gives its number."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    return child


def killed_after(child: int, seconds: float) -> int | None:
    """SIGKILL a child after a while; None if it was killed, its exit code if it was faster."""
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    return None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def command(arguments: list[str], said: Path) -> Callable[[], int]:
    """A dpgm command for a child, its stderr in a file."""

    def work() -> int:
        with said.open("w") as told, redirect_stderr(told):
            return run(arguments)

    return work


@contextmanager
def draws_counted(log: Path) -> Iterator[None]:
    """Every draw of noise leaves a line in a file of its own, independent of journal and ledger."""
    draw = Gateway._noisy

    def counted(self, call, query, exact):
        handle = _open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        _write(handle, f"{call.name}\n".encode())
        os.close(handle)
        return draw(self, call, query, exact)

    Gateway._noisy = counted
    try:
        yield
    finally:
        Gateway._noisy = draw


def drawn(log: Path) -> Counter[str]:
    return Counter(log.read_text().split("\n")[:-1]) if log.exists() else Counter()


# -- a fit from the command line -----------------------------------------------------------------------------------


class Fit:
    """One small fit with a ledger, in a folder of its own; called again it resumes."""

    def __init__(self, base: Path, model: str) -> None:
        self.base = base
        base.mkdir()
        RECORDS.write(base / "visits.npz")
        self.plan = small_plan(model)
        (base / "plan.json").write_text(json.dumps(self.plan.to_json()))
        self.out, self.log, self.said = base / "release", base / "draws", base / "said"
        self.ledger = Ledger.create(base / "ledger", 1.5, self.plan.delta)

    def arguments(self) -> list[str]:
        more = ["--resume"] if (self.base / "release.checkpoint" / "checkpoint.json").exists() else []
        files = ["--plan", self.base / "plan.json", "--ledger", self.base / "ledger", "--out", self.out]
        return [str(word) for word in ["fit", self.base / "visits.npz", "--quiet", *files, *more]]

    def run(self) -> int:
        with draws_counted(self.log):
            return os.waitstatus_to_exitcode(os.waitpid(forked(command(self.arguments(), self.said)), 0)[1])

    def run_and_kill(self, seconds: float) -> int | None:
        with draws_counted(self.log):
            return killed_after(forked(command(self.arguments(), self.said)), seconds)

    def check_charges(self, figures: Figures) -> None:
        """Whatever was drawn so far is in the ledger."""
        entries = self.ledger.entries()
        progress = entries[0].progress if entries else {}
        if len(entries) > 1:
            figures.fault(f"{self.base.name}: one fit has {len(entries)} entries in the ledger")
        for name, count in drawn(self.log).items():
            charged = progress.get("step" if name in ("norms", "gradients") else name, 0)
            if count > charged:
                figures.fault(f"{self.base.name}: {name} drew {count} times and is charged {charged} times")

    def check_release(self, figures: Figures) -> None:
        """There is a whole release, or none."""
        if not self.out.exists():
            return
        verification = dpgm.verify(self.out)
        if not verification.ok:
            figures.fault(f"{self.base.name}: a release that does not verify: {verification.failed[0]}")
        planned = {m.name: m.count for m in self.plan.mechanisms}
        if {m.name: m.count for m in verification.certificate.mechanisms} != planned:
            figures.fault(f"{self.base.name}: the certificate lists something else than the plan")

    def finish(self, figures: Figures) -> None:
        """Let it end: in a release, or in a sentence that says why not."""
        written = self.out.exists()
        code = self.run()
        if written and code == 2 and "exists already" in self.said.read_text():
            code = 0  # killed while cleaning up; the next start has done that
        self.check_charges(figures)
        self.check_release(figures)
        said = self.said.read_text()
        if code == 0 and self.out.exists():
            figures["releases"] += 1
            left = [path.name for path in self.base.iterdir() if ".tmp-" in path.name or ".old-" in path.name]
            left += [path.name for path in self.base.glob("release.checkpoint")]
            if left:
                figures.fault(f"{self.base.name}: left behind {left}")
        elif code == 2 and any(sentence in said for sentence in SENTENCES):
            figures["refused with a reason"] += 1
        else:
            figures.fault(f"{self.base.name}: exit {code} without a stated reason: {said[-300:]}")


@cache
def small_plan(model: str) -> Plan:
    """A real plan that takes a second: of networks, few steps."""
    epsilon, delta, records = 1.0, 1e-3, len(RECORDS)
    facts = PublicFacts(SETS, records, epsilon, delta)
    settings = choose_settings(Config(epsilon, delta, model=model), facts)
    if isinstance(settings.family, NetworkSettings):
        settings = replace(settings, family=replace(settings.family, steps=10, cluster_steps=2))
    budget = strategy_of(model).budget(facts, settings.family)
    mechanisms = calibrate(epsilon, delta, budget.spends, budget.training)
    return Plan(epsilon, cost(mechanisms, delta).epsilon, delta, records, SETS.width, settings, mechanisms)


def warm_up(base: Path) -> dict[str, float]:
    """Everything is imported and computed once; gives how long a fit takes after that."""
    load_commands()
    seconds = {}
    for model in ("products", "rbm"):
        fit = Fit(base / f"warm-{model}", model)
        if run(fit.arguments()) != 0:
            raise RuntimeError("a fit without faults must work")
        timed = Fit(base / f"timed-{model}", model)
        begun = time.monotonic()
        if timed.run() != 0:
            raise RuntimeError(timed.said.read_text())
        seconds[model] = time.monotonic() - begun
    return seconds


# -- kills ---------------------------------------------------------------------------------------------------------


def kill_fits(base: Path, kills: int, seconds: dict[str, float], seed: int = 1) -> Figures:
    """SIGKILL at random moments of `dpgm fit`, up to twelve times in one fit, then let it end."""
    figures, rng, number = Figures(), random.Random(seed), 0
    while figures["kills"] < kills:
        number += 1
        model = ("products", "rbm")[number % 2]
        fit = Fit(base / f"fit-{number}", model)
        for _ in range(rng.randint(3, 12)):
            if fit.run_and_kill(rng.uniform(0, 0.9 * seconds[model])) is not None:
                break
            figures["kills"] += 1
            fit.check_charges(figures)
            fit.check_release(figures)
        fit.finish(figures)
        figures["fits"] += 1
        shutil.rmtree(fit.base)
    return figures


def kill_samples(base: Path, kills: int, seed: int = 2) -> Figures:
    """SIGKILL at random moments of `dpgm sample`: the file is whole, or not there."""
    figures, rng = Figures(), random.Random(seed)
    release, out, said = base / "warm-products" / "release", base / "synthetic.csv", base / "said"
    arguments = ["sample", str(release), "--records", "20000", "--out", str(out), "--quiet", "--force"]
    for _ in range(2):  # the second time nothing is loaded any more
        begun = time.monotonic()
        if run(arguments) != 0:
            raise RuntimeError("sampling without faults must work")
    seconds, whole = time.monotonic() - begun, len(out.read_bytes().splitlines())
    out.unlink()
    while figures["kills"] < kills:
        if killed_after(forked(command(arguments, said)), rng.uniform(0, seconds)) is None:
            figures["kills"] += 1
        if out.exists():
            figures["whole files"] += 1
            if len(out.read_bytes().splitlines()) != whole:
                figures.fault("a half-written sample")
            out.unlink()
    if run(arguments) != 0 or len(out.read_bytes().splitlines()) != whole:
        figures.fault("sampling after kills does not give a whole file")
    left = [path.name for path in base.iterdir() if ".tmp-" in path.name]
    if left:
        figures.fault(f"left behind {left}")
    return figures


def kill_ledgers(base: Path, kills: int, seed: int = 3) -> Figures:
    """SIGKILL a process that reserves, starts, charges and commits without end: what it was told is written, is."""
    figures, rng = Figures(), random.Random(seed)
    path, log = base / "killed-ledger", base / "acknowledged"
    Ledger.create(path, 3.0, 1e-6).reserve((Mechanism("counts", 1e4),), 1e-6)  # what it costs is known from here on

    def work() -> int:
        ledger = Ledger.open(path)
        handle = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        while True:
            entry = ledger.reserve((Mechanism("counts", 1e4),), 1e-6)
            os.write(handle, f"{entry.name} reserved\n".encode())
            ledger.start(entry, owner="me")
            os.write(handle, f"{entry.name} started\n".encode())
            ledger.record_progress(entry, {"counts": 1}, owner="me")
            ledger.commit(entry, entry.mechanisms, owner="me", model="aa")
            os.write(handle, f"{entry.name} committed\n".encode())

    order = {"reserved": 0, "started": 1, "committed": 2}
    while figures["kills"] < kills:
        if path.stat().st_size > 400_000:  # a long ledger only makes every step slower
            path.unlink()
            log.unlink(missing_ok=True)
            Ledger.create(path, 3.0, 1e-6)
        figures["kills"] += killed_after(forked(work), rng.uniform(0, 0.25)) is None
        ledger = Ledger(path)
        if ledger.check():
            figures.fault(f"a broken chain: {ledger.check()[0]}")
        states = {entry.name: entry.state for entry in ledger.entries()}
        for line in log.read_text().split("\n")[:-1] if log.exists() else ():
            name, state = line.split()
            if order.get(states.get(name, ""), -1) < order[state]:
                figures.fault(f"{name} was told to be {state} and is not")
    return figures


def kill_checkpoints(base: Path, kills: int, seed: int = 4) -> Figures:
    """SIGKILL a process that charges and saves: what it charged is never forgotten, what it saved is whole."""
    figures, rng = Figures(), random.Random(seed)
    number = 0
    while figures["kills"] < kills:
        number += 1
        folder, log = base / f"checkpoint-{number}", base / f"charged-{number}"

        def work(folder: Path = folder, log: Path = log) -> int:
            fresh = not (folder / "checkpoint.json").exists()
            saved = (Checkpoint.start if fresh else Checkpoint.resume)(folder, PLAN, RECORDS)
            handle = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
            while True:
                saved.charge("item counts")
                os.write(handle, b"item counts\n")
                saved.answer("item counts", torch.full((50,), float(saved.charged["item counts"])))
                saved.charge("step", 2)
                os.write(handle, b"step\nstep\n")
                saved.save_steps(saved.steps_charged, {"value": torch.full((500,), float(saved.steps_charged))})

        for _ in range(5):
            figures["kills"] += killed_after(forked(work), rng.uniform(0.005, 0.15)) is None
            if not (folder / "checkpoint.json").exists():
                continue
            try:
                saved = Checkpoint.resume(folder, PLAN, RECORDS)
            except DpgmError as error:
                figures.fault(f"a killed checkpoint does not open: {error}")
                break
            for name, count in drawn(log).items():
                if saved.charged.get(name, 0) < count:
                    figures.fault(
                        f"{name} was charged {count} times and is known {saved.charged.get(name, 0)} times"
                    )
            state = saved.trainer_state()
            if state is not None and not bool((state["value"] == saved.history.steps_done).all()):
                figures.fault("a trainer's state that is not the one recorded")
            while (answer := saved.replay("item counts")) is not None:
                figures["answers read back"] += 1
                if len(set(answer.tolist())) != 1:
                    figures.fault("an answer that is not the one saved")
            saved.close()
        shutil.rmtree(folder, ignore_errors=True)
    return figures


# -- writes that fail ----------------------------------------------------------------------------------------------


@contextmanager
def failing_write(fatal: int) -> Iterator[list[str]]:
    """The n-th operation that writes fails as on a full disk; gives the names of the operations so far."""
    done: list[str] = []
    saved = {
        name: getattr(os, name)
        for name in ("open", "write", "fsync", "replace", "rename", "mkdir", "posix_fallocate")
    }
    texts = {name: getattr(Path, name) for name in ("write_text", "write_bytes")}

    def count(name: str) -> None:
        done.append(name)
        if len(done) == fatal:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def guarded(name: str) -> Callable:
        def call(*args, **named):
            writes = name != "open" or args[1] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR)
            if writes:
                count(name)
            return saved[name](*args, **named)

        return call

    def half(name: str) -> Callable:
        def call(self, data, *args, **named):
            try:
                count(name)
            except OSError:
                texts[name](self, data[: len(data) // 2], *args, **named)  # as a disk does that fills up
                raise
            return texts[name](self, data, *args, **named)

        return call

    try:
        for name in saved:
            setattr(os, name, guarded(name))
        for name in texts:
            setattr(Path, name, half(name))
        yield done
    finally:
        for name, original in saved.items():
            setattr(os, name, original)
        for name, original in texts.items():
            setattr(Path, name, original)


def fail_every_write_of_a_fit(base: Path, model: str = "products", stride: int = 1) -> Figures:
    """For every n, a fit whose n-th write fails: a sentence and exit 2, then it goes on where it stopped."""
    figures, fatal = Figures(), 1
    while True:
        fit = Fit(base / f"write-{model}-{fatal}", model)
        with draws_counted(fit.log), failing_write(fatal) as done:
            code = command_in_this_process(fit)
        if len(done) < fatal:
            figures["writes of a fit"] = len(done)
            break
        figures["failed writes"] += 1
        if code != 0 and not (code == 2 and any(sentence in fit.said.read_text() for sentence in SENTENCES)):
            figures.fault(f"write {fatal} ({done[fatal - 1]}): exit {code}: {fit.said.read_text()[-300:]}")
        fit.check_charges(figures)
        fit.check_release(figures)
        fit.finish(figures)
        shutil.rmtree(fit.base)
        fatal += stride
    return figures


def command_in_this_process(fit: Fit) -> int:
    """Run a fit here, its stderr in a file that no fault can hit."""
    import io

    said = io.StringIO()
    with redirect_stderr(said):
        code = run(fit.arguments())
    with open(fit.said, "w") as file:
        file.write(said.getvalue())
    return code


def fail_every_write_of_a_checkpoint(base: Path) -> Figures:
    """For every n, the n-th write of charges, answers and states fails: what was charged before it stays known."""
    figures, fatal = Figures(), 1
    while True:
        folder = base / f"writes-{fatal}"
        known: Counter[str] = Counter()
        with failing_write(fatal) as done:
            try:
                saved = Checkpoint.start(folder, PLAN, RECORDS)
                for run_number in range(2):
                    saved.charge("item counts")
                    known["item counts"] += 1
                    saved.answer("item counts", torch.full((5,), float(run_number)))
                    saved.charge("step", 2)
                    known["step"] += 2
                    saved.save_steps(known["step"], {"value": torch.ones(5)})
            except DiskError:
                figures["failed writes"] += 1
            except BaseException as error:
                figures.fault(f"write {fatal} ({done[-1]}): {type(error).__name__}: {error}")
        if len(done) < fatal:
            break
        if (folder / "checkpoint.json").exists():
            again = Checkpoint.resume(folder, PLAN, RECORDS) if _closed(locals().get("saved")) else None
            if again is not None:
                for name, count in known.items():
                    if again.charged.get(name, 0) < count:
                        figures.fault(f"write {fatal}: {name} is charged {again.charged.get(name, 0)}, not {count}")
                again.trainer_state()
                again.charge("item counts")  # and it can be written to again
                again.close()
        shutil.rmtree(folder, ignore_errors=True)
        fatal += 1
    return figures


def _closed(saved: Checkpoint | None) -> bool:
    if saved is not None:
        saved.close()
    return True


# -- a disk that is really full ------------------------------------------------------------------------------------


def can_mount() -> bool:
    """Whether this user may mount a small disk in a name space of its own."""
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        return False
    probe = "d=$(mktemp -d) && mount -t tmpfs -o size=64k tmpfs $d && umount $d && rmdir $d"
    return subprocess.run(["unshare", "-rm", "sh", "-c", probe], capture_output=True).returncode == 0


def full_disks(sizes: list[int]) -> Figures:
    """In a mount name space of its own: fits on disks of so many kilobytes, then more room and --resume."""
    here = [sys.executable, __file__, "--on-small-disks", *map(str, sizes)]
    folders = os.pathsep.join(sys.path)  # where the helpers of the tests are found
    told = os.environ | {"PYTHONPATH": folders}
    done = subprocess.run(["unshare", "-rm", *here], capture_output=True, text=True, timeout=1800, env=told)
    figures = Figures()
    if done.returncode != 0:
        figures.fault(f"the child failed: {done.stderr[-500:]}")
        return figures
    result = json.loads(done.stdout.splitlines()[-1])
    figures.told = result.pop("told")
    figures.update(result)
    return figures


def on_small_disks(sizes: list[int]) -> Figures:
    """Runs as root of a mount name space."""
    figures = Figures()
    load_commands()
    with tempfile.TemporaryDirectory() as folder:
        run(Fit(Path(folder) / "warm", "products").arguments())
        for size in sizes:
            disk = Path(folder) / f"disk-{size}"
            disk.mkdir()
            _mount(disk, "size=4m")
            fit = Fit(disk / "fit", "products")
            fit.said, fit.log = Path(folder) / f"said-{size}", Path(folder) / f"draws-{size}"
            used = sum(block.stat().st_blocks * 512 for block in fit.base.rglob("*")) // 1024
            _mount(disk, f"remount,size={used + size}k")
            code = fit.run()
            said = fit.said.read_text()
            figures["full disks" if code != 0 else "disks with room"] += 1
            if code != 0 and not (code == 2 and any(sentence in said for sentence in SENTENCES)):
                figures.fault(f"{size} kB: exit {code}: {said[-300:]}")
            _mount(disk, "remount,size=4m")
            fit.check_charges(figures)
            fit.check_release(figures)
            fit.finish(figures)
            subprocess.run(["umount", "-l", str(disk)], check=True)
    return figures


def _mount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], check=True)


# -- damaged and older checkpoints ---------------------------------------------------------------------------------


def small_checkpoint(folder: Path, ledger: Ledger, stop: int = 99) -> Books:
    """Books with some charges, answers and steps, made by `stop` events."""
    books = Books.open(PLAN, RECORDS, ledger=ledger, checkpoint=folder)
    saved = books.checkpoint
    assert saved is not None
    events = [
        lambda: saved.note_sources({"a source"}, True),
        lambda: saved.charge("record lengths"),
        lambda: saved.answer("record lengths", torch.ones(2)),
        lambda: saved.charge("item counts"),
        lambda: saved.answer("item counts", torch.ones(2)),
        lambda: saved.charge("step", 2),
        lambda: saved.save_steps(2, {"value": torch.ones(2)}),
        lambda: saved.charge("step", 2),
    ]
    for event in events[:stop]:
        event()
    return books


def read_back(folder: Path, ledger: Ledger) -> dict[str, int]:
    """Resume and read everything; gives what counts as spent then."""
    with Books.open(PLAN, RECORDS, ledger=ledger, checkpoint=folder, resume=True) as books:
        saved = books.checkpoint
        assert saved is not None
        for name in ("record lengths", "item counts"):
            saved.replay(name)
        saved.trainer_state()
        return saved.charged


def damaged_checkpoints(base: Path, stride: int = 1, seed: int = 5, files: str = "*") -> Figures:
    """One bit flipped at every byte of every file, and every file cut short: refused, or nothing is forgotten."""
    figures, rng = Figures(), random.Random(seed)
    ledger = Ledger.create(base / "damaged-ledger", 50, 1e-5)
    with small_checkpoint(base / "sound", ledger) as books:
        spent = books.checkpoint.charged
    copy = base / "copy"
    for name in sorted(path.name for path in (base / "sound").glob(files)):
        data = (base / "sound" / name).read_bytes()
        for place in range(0, len(data), stride):
            flipped = bytearray(data)
            flipped[place] ^= 1 << rng.randrange(8)
            for kind, changed in (("bit flips", bytes(flipped)), ("truncations", data[:place])):
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(base / "sound", copy)
                (copy / name).write_bytes(changed)
                # A ledger of its own for each: resuming writes to it.
                again = shutil.copyfile(base / "damaged-ledger", base / "copied-ledger")
                figures[kind] += 1
                try:
                    known = read_back(copy, Ledger(again))
                except (ArtefactError, BudgetError):
                    figures["refused"] += 1
                except Exception as error:
                    figures.fault(f"{name}, byte {place}, {kind}: {type(error).__name__}: {error}")
                else:
                    figures["resumed"] += 1
                    if kind == "bit flips":
                        figures.fault(f"{name}, byte {place}: a flipped bit was not noticed")
                    if known != spent:
                        figures.fault(f"{name}, byte {place}, {kind}: {known} is charged, not {spent}")
    return figures


def older_checkpoints(base: Path) -> Figures:
    """A folder set back to an older copy, at every event: the ledger's charges stay spent."""
    figures = Figures()
    for stop in range(9):
        ledger = Ledger.create(base / f"older-ledger-{stop}", 50, 1e-5)
        folder = base / f"older-{stop}"
        with small_checkpoint(folder, ledger, stop) as books:
            saved = books.checkpoint
            shutil.copytree(folder, base / "set-aside")
            for name in ("record lengths", "item counts"):
                if saved.charged.get(name, 0) == 0:
                    saved.charge(name)
                    saved.answer(name, torch.ones(2))
            saved.charge("step", 2)
            spent = saved.charged
        shutil.rmtree(folder)
        (base / "set-aside").rename(folder)
        figures["set back"] += 1
        try:
            known = read_back(folder, ledger)
        except (ArtefactError, BudgetError):
            figures["refused"] += 1
        else:
            figures["resumed"] += 1
            if known != spent:
                figures.fault(f"event {stop}: {known} is charged, not {spent}")
    return figures


# -- at once -------------------------------------------------------------------------------------------------------


def reservations_at_once(base: Path, repeats: int) -> Figures:
    """Fifty processes reserve a tenth of the budget at once: exactly ten succeed."""
    figures = Figures()
    plan = _tenth(base)
    for number in range(repeats):
        path = base / f"at-once-{number}"
        Ledger.create(path, 3.0, 1e-6)
        go = base / f"go-{number}"

        def work(path: Path = path, go: Path = go) -> int:
            ledger = Ledger.open(path)
            while not go.exists():
                time.sleep(0.001)
            try:
                ledger.reserve(plan, 1e-6)
            except BudgetError:
                return 1
            return 0

        children = [forked(work) for _ in range(50)]
        go.touch()
        codes = Counter(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
        figures["repeats"] += 1
        if codes != {0: 10, 1: 40}:
            figures.fault(f"repeat {number}: {dict(codes)}")
        if Ledger.open(path).totals().spent > 1 + 1e-6:
            figures.fault(f"repeat {number}: more than the cap is reserved")
        path.unlink()
    return figures


def _tenth(base: Path) -> tuple[Mechanism, ...]:
    probe = Ledger.create(base / "probe", 3.0, 1e-6)
    probe.reserve((Mechanism("counts", 10.0),), 1e-6)
    tenth = (Mechanism("counts", 10.0 * (10 * probe.totals().spent) ** 0.5 * (1 + 1e-9)),)
    Ledger.create(base / "probe-2", 3.0, 1e-6).reserve(tenth, 1e-6)  # its cost is known to every child
    return tenth


# -- the long form -------------------------------------------------------------------------------------------------


def summed(parts: dict[str, dict[str, int]]) -> dict[str, object]:
    """All figures, and the two that matter."""
    return {
        "kills": sum(figures.get("kills", 0) for figures in parts.values()),
        "faults": sum(figures["faults"] for figures in parts.values()),
        "parts": parts,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument(
        "--kills", type=int, nargs=4, default=[260, 60, 100, 100], help="fit, sample, ledger, checkpoint"
    )
    parser.add_argument("--repeats", type=int, default=200, help="of fifty reservations at once")
    parser.add_argument("--only", nargs="+", help="these parts only; the other figures in --out stay")
    parser.add_argument("--on-small-disks", type=int, nargs="+", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.on_small_disks:
        figures = on_small_disks(chosen.on_small_disks)
        print(json.dumps(dict(figures) | {"told": figures.told}))
        return 0
    results: dict[str, dict[str, int]] = {}
    if chosen.only and chosen.out is not None and chosen.out.exists():
        results = json.loads(chosen.out.read_text("utf-8"))["parts"]
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        seconds = warm_up(base)
        fits, samples, ledgers, checkpoints = chosen.kills
        parts: dict[str, Callable[[], Figures]] = {
            "kills of fit": lambda: kill_fits(base, fits, seconds),
            "kills of sample": lambda: kill_samples(base, samples),
            "kills of the ledger": lambda: kill_ledgers(base, ledgers),
            "kills of a checkpoint": lambda: kill_checkpoints(base, checkpoints),
            "the n-th write of a fit fails": lambda: fail_every_write_of_a_fit(base),
            "the n-th write of a checkpoint fails": lambda: fail_every_write_of_a_checkpoint(base),
            "damaged checkpoints": lambda: damaged_checkpoints(base),
            "older checkpoints": lambda: older_checkpoints(base),
            "fifty reservations at once": lambda: reservations_at_once(base, chosen.repeats),
        }
        if can_mount():
            parts["full disks (tmpfs)"] = lambda: full_disks(list(range(4, 100, 4)))
        else:
            print("full disks (tmpfs): skipped, this user may not mount one")
        for name in (name for name in parts if not chosen.only or name in chosen.only):
            begun = time.monotonic()
            figures = parts[name]()
            results[name] = dict(figures)
            listed = ", ".join(f"{count} {what}" for what, count in figures.items())
            print(f"{name:38} {listed} ({time.monotonic() - begun:.0f} s)", flush=True)
            for sentence in figures.told[:5]:
                print(f"    {sentence}", flush=True)
            if chosen.out is not None:
                chosen.out.parent.mkdir(parents=True, exist_ok=True)
                chosen.out.write_text(json.dumps(summed(results), indent=1) + "\n", "utf-8")
    summary = summed(results)
    print(f"{summary['kills']} kills, {summary['faults']} faults")
    return 1 if summary["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
