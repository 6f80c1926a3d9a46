"""Sums over the records of all processes, and other exchanges between the ranks of torch.distributed.

The program is SPMD: each rank has its share of the rows, numbered globally. Every coordinate of a sum has one owner
among the ranks, which draws its noise and adds it once (mechanisms/gaussian.py). Ranks get noisy sums only; but partial
sums travel between ranks without noise, so all ranks, and the network between them, must belong to the curator.

A process group alone shares nothing: a program that trains other networks has one, too, with the same rows in every
rank. Ranks add up their rows only within `sharing`, which whoever starts a fit of several processes says on purpose.
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

from dpgm.errors import UsageError

BUSY_WAIT = (
    0.05  # seconds of polling before a rank sleeps: a later rank has other work, and the core may have some too
)
_yield_core = getattr(os, "sched_yield", lambda: time.sleep(0))  # not on every system
_shares = False  # of the process, not of a thread: threads that draw noise ahead are of the same fit


def is_parallel() -> bool:
    """Whether this process is one of several ranks that share the rows of one fit."""
    return _shares and _is_in_group()


@contextmanager
def sharing(together: bool = True) -> Iterator[None]:
    """Within the block the ranks of the process group share the rows: sums are over those of all ranks.

    Raises:
        UsageError: there is no process group; or, without `together`, there is one that nobody said shares its rows.
    """
    global _shares
    before = _shares
    if together and not _is_in_group():
        raise UsageError(
            "`together` is for one of several processes; start torch.distributed first, or leave it out."
        )
    if not together:
        refuse_unasked()
    _shares = before or together
    try:
        yield
    finally:
        _shares = before


def refuse_unasked() -> None:
    """Refuse to use rows in a process group whose ranks do not share them.

    Were the sums of all ranks added up, rows that every rank has would count once for each of them.
    """
    if _is_in_group() and not _shares and torch.distributed.get_world_size() > 1:
        raise UsageError(
            "this process is one of several of torch.distributed, which may all have the same rows; fit in a process"
            " without them, or, if each has a share of the rows and nobody is in two, say `together=True` in all of"
            " them."
        )


def _is_in_group() -> bool:
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


def number_from_first(value: float) -> float:
    """The number of rank 0, on every rank."""
    return float(from_first(torch.tensor([value], dtype=torch.float64))) if is_parallel() else value


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
