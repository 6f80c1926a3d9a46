"""Commands of `dpgm` as child processes: the command line is the worker, so a fault of the studio cannot harm a fit.

A run is described by one small file beside its outputs, so that it is found again after the server was restarted. A
fit holds the other end of a pipe of the server: when the server is gone, it finishes what it is at and stops, to be
resumed.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from dpgm.errors import UsageError
from dpgm.studio.commands import in_words_of_the_form
from dpgm.studio.workspace import Project, Workspace, read_json, write_json

_TAIL = 4000  # characters of a log that are looked at
INTERRUPTED = 130


class State(StrEnum):
    """How a run stands."""

    NONE = "none"
    RUNNING = "running"
    STOPPING = "stopping"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    FINISHED = "finished"


@dataclass(frozen=True)
class RunState:
    """One run, as the files tell it."""

    state: State
    command: str = ""
    stages: tuple[tuple[str, int, int], ...] = ()  # name, done, total, in the order in which they began
    message: str = ""  # why it failed

    @property
    def is_alive(self) -> bool:
        """Whether its process is there."""
        return self.state in (State.RUNNING, State.STOPPING)


class Runs:
    """The processes of this server, and what earlier ones left."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._children: dict[Path, subprocess.Popen[bytes]] = {}

    def start(
        self, project: Project, kind: str, words: Sequence[str], *, once: str = "", leash: bool = False
    ) -> None:
        """Start a command of a project.

        Args:
            project: whose folder holds what it leaves behind.
            kind: the name of the run; a project has one of each.
            words: the command after `dpgm`, with paths below the served folder.
            once: an id of the form that was sent; the same form starts nothing twice.
            leash: the command ends when the server does.

        Raises:
            UsageError: such a run is under way.
        """
        path = project.path(f"{kind}.json")
        if once and (read_json(path) or {}).get("once") == once:
            raise UsageError("this was started already, in another tab or by a second press; nothing runs twice.")
        if self.state(project, kind).is_alive:
            raise UsageError("this is running already; wait for it, or stop it first.")
        for name in (f"{kind}.events", f"{kind}.out", f"{kind}.log"):
            with suppress(FileNotFoundError):
                project.path(name).unlink()
        with _private(project.path(f"{kind}.out")) as out, _private(project.path(f"{kind}.log")) as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "dpgm", *words],
                cwd=self.workspace.root,
                stdin=subprocess.PIPE if leash else subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                start_new_session=True,
            )
        self._children[path] = child
        run = {"command": shlex.join(["dpgm", *words]), "pid": child.pid, "born": _born(child.pid), "once": once}
        write_json(path, run)
        threading.Thread(target=self._wait, args=(path, child, run), daemon=True).start()

    def _wait(self, path: Path, child: subprocess.Popen[bytes], run: dict[str, Any]) -> None:
        code = child.wait()
        with suppress(OSError):  # the project may be gone
            write_json(path, run | {"code": code})
        self._children.pop(path, None)

    def stop(self, project: Project, kind: str) -> None:
        """Ask a run to stop; a fit stops at the end of what it is at, and can be resumed."""
        path = project.path(f"{kind}.json")
        child, run = self._children.get(path), read_json(path)
        if run is None or not self.state(project, kind).is_alive:
            return
        write_json(path, run | {"stopping": True})
        if child is not None and child.stdin is not None:
            child.stdin.close()
        else:
            with suppress(ProcessLookupError):
                os.killpg(run["pid"], signal.SIGINT)

    def forget(self, project: Project, kind: str) -> None:
        """Forget a run whose result no longer holds; it may come to its end, and nobody reads what it says."""
        for name in (f"{kind}.json", f"{kind}.out"):
            project.path(name).unlink(missing_ok=True)

    def stop_all(self) -> None:
        """Let go of every process when the server ends."""
        for child in list(self._children.values()):
            if child.stdin is not None:
                child.stdin.close()
            else:
                child.terminate()

    def state(self, project: Project, kind: str) -> RunState:
        """How a run stands."""
        path = project.path(f"{kind}.json")
        run = read_json(path)
        if run is None:
            return RunState(State.NONE)
        stages, command = _stages(project.path(f"{kind}.events")), str(run["command"])
        # A release that stands is whole, whatever ended the process after it, and whether or not a server was there.
        done = kind == "fit" and project.path("release/certificate.json").is_file()
        if "code" in run:
            code = run["code"]
            if code == 0 or (done and code < 0):
                return RunState(State.FINISHED, command, stages)
            if code in (INTERRUPTED, -signal.SIGINT, -signal.SIGKILL, -signal.SIGTERM):
                return RunState(State.INTERRUPTED, command, stages)
            return RunState(State.FAILED, command, stages, _last_error(project.path(f"{kind}.log")))
        if path in self._children or (run["born"] is not None and _born(run["pid"]) == run["born"]):
            return RunState(State.STOPPING if run.get("stopping") else State.RUNNING, command, stages)
        return RunState(State.FINISHED if done else State.INTERRUPTED, command, stages)

    def output(self, project: Project, kind: str) -> Any | None:
        """The JSON that a finished run printed."""
        return read_json(project.path(f"{kind}.out"))


def _private(path: Path) -> Any:
    return os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb")


def _born(pid: int) -> str | None:
    """When a process began, by which it differs from a later one of the same number; None if it is gone or a zombie."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] == "Z" else words[19]


def _stages(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Every stage with how far it is, from the events of a run."""
    found: dict[str, tuple[int, int]] = {}
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError:
        return ()
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):  # a line that is being written
            event = json.loads(line)
            found[str(event["stage"])] = (int(event["done"]), int(event["total"]))
    return tuple((stage, done, total) for stage, (done, total) in found.items())


def _last_error(path: Path) -> str:
    """The sentence with which a command ended."""
    try:
        text = path.read_text("utf-8", "replace")[-_TAIL:]
    except OSError:
        return ""
    lines = [line for line in text.splitlines() if line.startswith("dpgm: ")]
    errors = [line for line in lines if ": error[" in line or line.startswith("dpgm: error[")]
    last = (errors or lines or ["dpgm: it ended without a word; its log lies in the project's folder."])[-1]
    return in_words_of_the_form(re.sub(r"^dpgm: (error\[[A-Z-]+\]: )?", "", last))
