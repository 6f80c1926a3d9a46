"""Starting a command in several processes of this machine, which meet in a folder that only their owner can open."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from dpgm.errors import ResourceError
from dpgm.kernels import MEETING

_POLL = 0.05  # seconds between looks at the processes
_GRACE = 15.0  # seconds for the others to say why they stop, once one has: a step of a large fit may take some


def run_processes(count: int, arguments: Sequence[str]) -> int:
    """Run a command in `count` processes that share its work; returns its exit code.

    Raises:
        ResourceError: a process was killed.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = str(max(1, cores // count))
    here = {"OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads} | os.environ
    here |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    children: list[subprocess.Popen[bytes]] = []
    before = signal.signal(signal.SIGTERM, lambda *_: _terminate(children))
    with tempfile.TemporaryDirectory(prefix="dpgm-", ignore_cleanup_errors=True) as meeting:  # mode 0700
        try:
            for rank in range(count):
                mine = here | {MEETING: meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)}
                children.append(subprocess.Popen([sys.executable, "-m", "dpgm", *arguments], env=mine))
            while any(child.poll() is None for child in children) and not any(child.poll() for child in children):
                time.sleep(_POLL)
        finally:
            _end(children)
            signal.signal(signal.SIGTERM, before)
    codes = [child.returncode for child in children]
    killed = [rank for rank, code in enumerate(codes) if code < 0]
    if killed:
        raise ResourceError(
            f"process {killed[0]} of {count} was killed, so the others stopped; start again, a fit with `resume=True`."
        )
    return max(codes)


def _end(children: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait for all processes, which stop by themselves if one does; end those that do not."""
    deadline = time.monotonic() + _GRACE
    for child in children:
        try:
            child.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.terminate()
    for child in children:
        child.wait()


def _terminate(children: Sequence[subprocess.Popen[bytes]]) -> None:
    for child in children:
        child.terminate()
