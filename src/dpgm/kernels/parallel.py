"""Every sum over records goes through here: one process, or the ranks of torch.distributed.

The program is SPMD: each rank holds its share of the rows, numbered globally. Every coordinate of a sum has one owner
among the ranks, who draws its noise and adds it, once (mechanisms/gaussian.py). What every rank gets to see of it is
noisy; partial sums pass between ranks without noise, so all of them, and the network between them, are the curator's.
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

AWAKE = 0.05  # seconds; a rank that is later than that has other work, and the core may have some too
_give_way = getattr(os, "sched_yield", lambda: time.sleep(0))  # not on every system


def is_parallel() -> bool:
    """Whether this process is one of several ranks."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def rank() -> int:
    """This process among the ranks; 0 when alone."""
    return torch.distributed.get_rank() if is_parallel() else 0


def world_size() -> int:
    """How many ranks there are; 1 when alone."""
    return torch.distributed.get_world_size() if is_parallel() else 1


def all_sum(partial: Tensor) -> Tensor:
    """The sum of the partial sums of all ranks, in place."""
    if is_parallel():
        with _where_ranks_meet(partial) as shared:
            _finish(torch.distributed.all_reduce(shared, async_op=True))
    return partial


def sum_on_first(partial: Tensor) -> Tensor:
    """The sum of the partial sums of all ranks, in place, on rank 0; the others hold nothing of meaning after it."""
    if is_parallel():
        with _where_ranks_meet(partial, back=rank() == 0) as shared:
            torch.distributed.reduce(shared, dst=0)
    return partial


def sum_on_owners(partial: Tensor, lengths: Sequence[int]) -> None:
    """The sum of the partial sums of all ranks, in place, each rank's own part of the numbers on that rank.

    The numbers of a contiguous tensor are cut into parts of the given lengths, one for each rank. What a rank holds in
    the parts of others has no meaning after it.
    """
    if is_parallel():
        with _where_ranks_meet(partial.view(-1)) as shared:
            own, sizes = lengths[rank()], list(lengths)
            received = shared.new_empty(len(sizes) * own)
            work = torch.distributed.all_to_all_single(received, shared, [own] * len(sizes), sizes, async_op=True)
            _finish(work)
            torch.sum(received.view(len(sizes), own), 0, out=shared.split_with_sizes(sizes)[rank()])


def from_owners(value: Tensor, lengths: Sequence[int]) -> None:
    """Every rank's own part of the numbers of a contiguous tensor, on every rank, in place."""
    if is_parallel():
        with _where_ranks_meet(value.view(-1)) as shared:
            parts = enumerate(shared.split_with_sizes(list(lengths)))
            for work in [torch.distributed.broadcast(part, src=i, async_op=True) for i, part in parts if len(part)]:
                _finish(work)


def place_of(rows: int) -> tuple[int, int]:
    """The global number of this rank's first row, and how many rows all ranks hold (collective in a parallel run)."""
    if not is_parallel():
        return 0, rows
    counts = torch.zeros(world_size(), dtype=torch.int64)
    counts[rank()] = rows
    counts = all_sum(counts)
    return int(counts[: rank()].sum()), int(counts.sum())


def from_first(value: Tensor) -> Tensor:
    """What rank 0 holds, on every rank, in place."""
    if is_parallel():
        with _where_ranks_meet(value) as shared:
            _finish(torch.distributed.broadcast(shared, src=0, async_op=True))
    return value


def bytes_from_first(data: bytes) -> bytes:
    """The bytes that rank 0 holds, on every rank; what the others pass is not looked at."""
    if not is_parallel():
        return data
    size = int(from_first(torch.tensor([len(data)])))
    received = torch.zeros(size, dtype=torch.uint8)
    if rank() == 0 and size:
        received = torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy())
    return bytes(from_first(received).numpy().tobytes()) if size else b""


def bytes_of_all(data: bytes) -> list[bytes]:
    """The bytes that every rank holds, in their order, on every rank."""
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
    """Within the block the processes that torchrun started work together: NCCL where there are GPUs, else Gloo."""
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
    """Within the block this process of several on one machine, with the threads it starts, keeps to its share of cores.

    Ranks wait for each other at every step, so that one whose core is taken for a moment holds up all of them.
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


def _finish(work: Any) -> None:
    """Wait, at first without falling asleep: being woken takes longer than most sums between ranks of one machine."""
    if torch.distributed.get_backend() == "gloo":
        start = time.monotonic()
        while not work.is_completed() and time.monotonic() < start + AWAKE:
            _give_way()
    work.wait()


@contextmanager
def _where_ranks_meet(value: Tensor, *, back: bool = True) -> Iterator[Tensor]:
    """The value where the ranks' backend can reach it; afterwards it is copied `back`, if that is another place.

    NCCL sees CUDA memory only, Gloo takes no notice of strides.
    """
    cpu_only = torch.distributed.get_backend() == "nccl" and value.device.type == "cpu"
    shared = (value.cuda() if cpu_only else value).contiguous()
    yield shared
    if back and (shared.data_ptr() != value.data_ptr() or shared.stride() != value.stride()):
        value.copy_(shared)
