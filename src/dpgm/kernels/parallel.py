"""Sums over the records of all processes, and other exchanges between the ranks of torch.distributed.

The program is SPMD: each rank has its share of the rows, numbered globally. Every coordinate of a sum has one owner
among the ranks, which draws its noise and adds it once (mechanisms/gaussian.py). Ranks get noisy sums only; but partial
sums travel between ranks without noise, so all ranks, and the network between them, must belong to the curator.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

BUSY_WAIT = (
    0.05  # seconds of polling before a rank sleeps: a later rank has other work, and the core may have some too
)
_yield_core = getattr(os, "sched_yield", lambda: time.sleep(0))  # not on every system


def is_parallel() -> bool:
    """Whether this process is one of several ranks."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def rank() -> int:
    """The number of this process; 0 without other ranks."""
    return torch.distributed.get_rank() if is_parallel() else 0


def world_size() -> int:
    """The number of ranks; 1 without other ranks."""
    return torch.distributed.get_world_size() if is_parallel() else 1


def all_sum(partial: Tensor) -> Tensor:
    """The sum over all ranks, in place, on every rank."""
    if is_parallel():
        with _in_backend_memory(partial) as shared:
            _wait(torch.distributed.all_reduce(shared, async_op=True))
    return partial


def sum_on_first(partial: Tensor) -> Tensor:
    """The sum over all ranks, in place, on rank 0; undefined on the others."""
    if is_parallel():
        with _in_backend_memory(partial, back=rank() == 0) as shared:
            torch.distributed.reduce(shared, dst=0)
    return partial


def sum_on_owners(partial: Tensor, lengths: Sequence[int]) -> None:
    """The sum over all ranks, in place, of each rank's own part on that rank (reduce-scatter).

    The numbers of a contiguous tensor are split into parts of the given lengths, one for each rank. Afterwards the
    parts of other ranks are undefined.
    """
    if is_parallel():
        with _in_backend_memory(partial.view(-1)) as shared:
            own, sizes = lengths[rank()], list(lengths)
            received = shared.new_empty(len(sizes) * own)
            work = torch.distributed.all_to_all_single(received, shared, [own] * len(sizes), sizes, async_op=True)
            _wait(work)
            torch.sum(received.view(len(sizes), own), 0, out=shared.split_with_sizes(sizes)[rank()])


def from_owners(value: Tensor, lengths: Sequence[int]) -> None:
    """Copy every rank's own part of a contiguous tensor to all ranks, in place (all-gather)."""
    if is_parallel():
        with _in_backend_memory(value.view(-1)) as shared:
            parts = enumerate(shared.split_with_sizes(list(lengths)))
            for work in [torch.distributed.broadcast(part, src=i, async_op=True) for i, part in parts if len(part)]:
                _wait(work)


def total_rows(rows: int) -> int:
    """The number of rows of all ranks together, given those of this one (collective)."""
    return int(all_sum(torch.tensor([rows])))


def first_row(rows: int) -> int:
    """The global number of this rank's first row, given its number of rows (collective)."""
    counts = torch.zeros(world_size(), dtype=torch.int64)
    counts[rank()] = rows
    return int(all_sum(counts)[: rank()].sum())


def from_first(value: Tensor) -> Tensor:
    """Copy the value of rank 0 to every rank, in place (broadcast)."""
    if is_parallel():
        with _in_backend_memory(value) as shared:
            _wait(torch.distributed.broadcast(shared, src=0, async_op=True))
    return value


def bytes_from_first(data: bytes) -> bytes:
    """The bytes of rank 0, on every rank; those of the others are ignored."""
    if not is_parallel():
        return data
    size = int(from_first(torch.tensor([len(data)])))
    received = torch.zeros(size, dtype=torch.uint8)
    if rank() == 0 and size:
        received = torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy())
    return bytes(from_first(received).numpy().tobytes()) if size else b""


def bytes_of_all(data: bytes) -> list[bytes]:
    """The bytes of all ranks, in the order of ranks, on every rank."""
    if not is_parallel():
        return [data]
    sizes = torch.zeros(world_size(), dtype=torch.int64)
    sizes[rank()] = len(data)
    ends = [0, *all_sum(sizes).cumsum(0).tolist()]
    whole = torch.zeros(ends[-1], dtype=torch.uint8)
    whole[ends[rank()] : ends[rank() + 1]] = torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy())
    joined = all_sum(whole).numpy().tobytes() if ends[-1] else b""
    return [joined[start:stop] for start, stop in pairwise(ends)]


@contextmanager
def several_processes() -> Iterator[None]:
    """Within the block, processes started by torchrun are ranks of one group: NCCL if there are GPUs, else Gloo."""
    backend, here = "gloo", int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        backend = "nccl"
        torch.cuda.set_device(here % torch.cuda.device_count())
    with own_cores(here, int(os.environ.get("LOCAL_WORLD_SIZE", "1"))):
        torch.distributed.init_process_group(backend)
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()


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


def _wait(work: Any) -> None:
    """Wait, at first by polling: waking up takes longer than most sums between ranks of one machine."""
    if torch.distributed.get_backend() == "gloo":
        start = time.monotonic()
        while not work.is_completed() and time.monotonic() < start + BUSY_WAIT:
            _yield_core()
    work.wait()


@contextmanager
def _in_backend_memory(value: Tensor, *, back: bool = True) -> Iterator[Tensor]:
    """The value in memory that the backend can use; afterwards it is copied `back` if that is a copy.

    NCCL uses CUDA memory only; Gloo ignores strides.
    """
    cpu_only = torch.distributed.get_backend() == "nccl" and value.device.type == "cpu"
    shared = (value.cuda() if cpu_only else value).contiguous()
    yield shared
    if back and (shared.data_ptr() != value.data_ptr() or shared.stride() != value.stride()):
        value.copy_(shared)
