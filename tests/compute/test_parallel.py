import pytest
import torch

from dpgm.compute import parallel


def test_one_process_is_alone():
    assert not parallel.is_parallel()
    assert parallel.rank() == 0
    assert parallel.world_size() == 1


def test_alone_a_sum_is_itself():
    partial = torch.tensor([1, 2])
    assert parallel.all_sum(partial) is partial
    assert parallel.sum_on_first(partial) is partial
    assert parallel.from_first(partial) is partial
    assert partial.tolist() == [1, 2]


class _Done:
    def wait(self):
        """Nothing to wait for."""


@pytest.fixture
def nccl(monkeypatch):
    """Ranks that meet on a device: a copy stands for it."""
    monkeypatch.setattr(parallel, "is_parallel", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: "nccl")
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self.clone())


def test_sums_are_made_where_the_ranks_can_meet(nccl, monkeypatch):
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda shared: shared.mul_(2))
    value = torch.tensor([3])
    assert parallel.all_sum(value) is value
    assert value.tolist() == [6]


def test_every_part_has_its_owner(nccl, monkeypatch):
    def move(shared, dst=None, src=None, async_op=False):
        shared.add_(10 * (dst if src is None else src) + (0 if src is None else 1))
        return _Done()

    monkeypatch.setattr(torch.distributed, "reduce", move)
    monkeypatch.setattr(torch.distributed, "broadcast", move)
    vector = torch.zeros(5, dtype=torch.int64)
    parts = vector.split([2, 0, 3])
    parallel.sum_on_owners(parts)
    assert vector.tolist() == [0, 0, 20, 20, 20]
    parallel.from_owners(parts)
    assert vector.tolist() == [1, 1, 41, 41, 41]
    assert parallel.sum_on_first(torch.tensor([3])).tolist() == [3]
    assert parallel.from_first(torch.tensor([3])).tolist() == [4]
