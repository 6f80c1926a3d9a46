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


def test_sums_are_made_where_the_ranks_can_meet(monkeypatch):
    monkeypatch.setattr(parallel, "is_parallel", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: "nccl")
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self.clone())  # a copy stands for the device
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda shared: shared.mul_(2))
    monkeypatch.setattr(torch.distributed, "broadcast", lambda shared, src: shared.add_(1))
    value = torch.tensor([3])
    assert parallel.all_sum(value) is value
    assert value.tolist() == [6]
    assert parallel.from_first(value).tolist() == [7]


def test_exact_sums_are_on_the_first_rank_alone(monkeypatch):
    monkeypatch.setattr(parallel, "is_parallel", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: "nccl")
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self.clone())
    monkeypatch.setattr(torch.distributed, "reduce", lambda shared, dst: shared.add_(10 + dst))
    for rank, held in ((0, 13), (1, 3)):
        monkeypatch.setattr(parallel, "rank", lambda rank=rank: rank)
        assert parallel.sum_on_first(torch.tensor([3])).tolist() == [held]
