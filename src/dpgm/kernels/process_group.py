"""Joining the processes of a command: in private on one machine, as torchrun says on several.

The exact sums of rows travel between the processes, so nobody else may listen or answer. On one machine they meet at a
file in a folder of their own (mode 0700), which `dpgm --processes` makes; their sockets stay on the loopback interface,
and each process looks up whose the other end of its connections is before it sends anything. The store of torchrun,
which listens to the whole network without a password, is not used there. Between machines nothing is checked: the
network must be private (docs/guides/several-machines.md).
"""

import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from dpgm.errors import UsageError
from dpgm.kernels import MEETING, parallel

_SOCKETS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))  # of this machine, with their owners; only on Linux
_CONNECTED = "01"  # the state of a socket there
_LOOPBACK = ("7F", "0" * 24 + "01000000")  # how addresses 127.x.y.z and ::1 end there


@contextmanager
def several_processes() -> Iterator[None]:
    """Within the block the started processes are ranks that share the rows: NCCL if there are GPUs, else Gloo."""
    backend, here, processes = "gloo", int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
    if torch.cuda.is_available():
        backend = "nccl"
        torch.cuda.set_device(here % torch.cuda.device_count())
    with own_cores(here, int(os.environ.get("LOCAL_WORLD_SIZE", "1"))):
        if not on_one_machine():
            torch.distributed.init_process_group(backend)
        else:
            # Sockets of the loopback interface only, all of them connected at once.
            near = "lo" if sys.platform == "linux" else "lo0"
            os.environ |= {"GLOO_SOCKET_IFNAME": near, "NCCL_SOCKET_IFNAME": near, "TORCH_GLOO_LAZY_INIT": "0"}
            meeting = f"file://{_meeting_folder()}/store"
            torch.distributed.init_process_group(backend, init_method=meeting, rank=here, world_size=processes)
        try:
            if on_one_machine():
                refuse_strangers()
            with parallel.sharing():
                yield
        finally:
            torch.distributed.destroy_process_group()
            if on_one_machine() and MEETING not in os.environ:
                with suppress(OSError):  # the last process finds it empty
                    _meeting_folder().rmdir()


def on_one_machine() -> bool:
    """Whether all processes of this command run on this machine."""
    return os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE")


def _meeting_folder() -> Path:
    """The folder in which the processes of this machine meet; only its owner can open it.

    Processes of torchrun have no folder from it, so they make one, named after their common parent.
    """
    if MEETING in os.environ:
        folder = Path(os.environ[MEETING])
    else:
        parent = os.getppid()
        born = ""
        with suppress(OSError):  # the parent's start, so that a number which is used again is another name
            born = Path(f"/proc/{parent}/stat").read_text().rsplit(")", 1)[1].split()[19]
        names = [os.environ.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")]
        known = hashlib.sha256("\0".join([str(parent), born, *names]).encode()).hexdigest()[:16]
        folder = Path(tempfile.gettempdir()) / f"dpgm-{known}"
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise UsageError(
            f"{folder} must be a folder of yours that nobody else can open; remove it and start again."
        )
    return folder


def refuse_strangers() -> None:
    """Refuse to go on if a connection of this process leads to a process of another user of this machine.

    Gloo asks nobody who connects for a password, and the ports it waits at are no secret.
    """
    mine = set()
    for link in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):
            mine.add(os.readlink(link).removeprefix("socket:[").removesuffix("]"))
    lines = [line.split() for file in _SOCKETS if file.exists() for line in file.read_text().splitlines()[1:]]
    owners = {(local, remote): int(owner) for _, local, remote, _, _, _, _, owner, *_ in lines}
    for _, local, remote, state, _, _, _, _, _, inode, *_ in lines:
        near = local.split(":")[0].endswith(_LOOPBACK)
        if near and state == _CONNECTED and inode in mine and owners.get((remote, local)) != os.geteuid():
            raise UsageError(
                "another user of this machine is connected to a process of this fit, so nothing was sent; tell the"
                " administrator, and start again."
            )


@contextmanager
def own_cores(process: int, processes: int) -> Iterator[None]:
    """Within the block, this process of several on one machine is bound to its share of cores, with its threads.

    Ranks wait for each other at every step, so one that loses its core for a moment delays all of them.
    """
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()  # not on every system
    cores = sorted(allowed)
    share = cores[len(cores) * process // processes : len(cores) * (process + 1) // processes]
    if not share:  # more processes than cores
        yield
        return
    os.sched_setaffinity(0, share)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
