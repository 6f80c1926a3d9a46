"""Sums and copies between ranks, with stubs for the backends."""

import os

import pytest
import torch

from dpgm.kernels import parallel, process_group


def test_one_process_is_not_parallel():
    assert not parallel.is_parallel()
    assert parallel.rank() == 0
    assert parallel.world_size() == 1


def test_in_one_process_a_sum_is_its_own_part():
    partial = torch.tensor([1, 2])
    assert parallel.all_sum(partial) is partial
    assert parallel.sum_on_first(partial) is partial
    assert parallel.from_first(partial) is partial
    assert partial.tolist() == [1, 2]


class _Work:
    """A collective operation that is completed after some polls."""

    def __init__(self, polls=0):
        self.polls, self.waited = polls, False

    def is_completed(self):
        self.polls -= 1
        return self.polls < 0

    def wait(self):
        self.waited = True


@pytest.fixture
def nccl(monkeypatch):
    """Ranks whose backend uses device memory, which is simulated by a copy."""
    monkeypatch.setattr(parallel, "is_parallel", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: "nccl")
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self.clone())


def _moved(change):
    def move(shared, *others, async_op=False, **named):
        change(shared, *others, **named)
        return _Work()

    return move


def test_sums_are_made_in_memory_of_the_backend(nccl, monkeypatch):
    monkeypatch.setattr(torch.distributed, "all_reduce", _moved(lambda shared: shared.mul_(2)))
    monkeypatch.setattr(torch.distributed, "broadcast", _moved(lambda shared, src: shared.add_(1)))
    value = torch.tensor([3])
    assert parallel.all_sum(value) is value
    assert value.tolist() == [6]
    assert parallel.from_first(value).tolist() == [7]


def test_exact_sums_on_an_accelerator_are_on_the_first_rank_only(nccl, monkeypatch):
    monkeypatch.setattr(torch.distributed, "reduce", lambda shared, dst: shared.add_(10 + dst))
    for rank, result in ((0, 13), (1, 3)):
        monkeypatch.setattr(parallel, "rank", lambda rank=rank: rank)
        assert parallel.sum_on_first(torch.tensor([3])).tolist() == [result]


def test_every_part_of_a_vector_has_its_owner(nccl, monkeypatch):
    """Three ranks, of which the second owns nothing; seen from the third."""

    def exchange(received, sent, output_lengths, input_lengths):
        assert (output_lengths, input_lengths) == ([3, 3, 3], [2, 0, 3])
        received.copy_(torch.cat([sent[2:], sent[2:] * 10, sent[2:] * 100]))

    monkeypatch.setattr(parallel, "rank", lambda: 2)
    monkeypatch.setattr(torch.distributed, "all_to_all_single", _moved(exchange))
    monkeypatch.setattr(torch.distributed, "broadcast", _moved(lambda shared, src: shared.add_(1000 * (src + 1))))
    vector = torch.arange(5)
    parallel.sum_on_owners(vector, [2, 0, 3])
    assert vector.tolist() == [0, 1, 222, 333, 444]
    parallel.from_owners(vector, [2, 0, 3])
    assert vector.tolist() == [1000, 1001, 3222, 3333, 3444]


def test_a_rank_polls_for_a_while_and_then_sleeps(monkeypatch):
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: "gloo")
    monkeypatch.setattr(parallel, "BUSY_WAIT", 0.01)
    for polls in (0, 5, 10**9):
        work = _Work(polls)
        parallel._wait(work)
        assert work.waited


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be bound to cores here")
def test_processes_of_one_machine_share_its_cores(monkeypatch):
    bound = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 8, 9, 11})
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cores: bound.append(sorted(cores)))
    for process in range(2):
        with process_group.own_cores(process, 2):
            assert bound[-1] == [[3, 5], [8, 9, 11]][process]
        assert bound[-1] == [3, 5, 8, 9, 11]
    bound.clear()
    taken = []
    for process in range(7):  # more processes than cores: some are bound to one core, the others to none
        with process_group.own_cores(process, 7):
            taken += bound[:1]
        bound.clear()
    assert sorted(taken) == [[3], [5], [8], [9], [11]]
