"""Recorded functions and their inputs; on the CPU functions are called directly."""

import pytest
import torch

from dpgm.kernels.devices import Recorded, Repeated, Staged, Upcoming

CUDA = pytest.param(
    "cuda",
    marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")],
)
DEVICES = pytest.mark.parametrize("device", ["cpu", CUDA])


@DEVICES
def test_a_repeated_function_sees_the_tensors_it_is_given(device):
    total = torch.zeros(2, device=device)
    add = Repeated(lambda tensor: total.add_(tensor), torch.device(device), [total])
    one, two = torch.tensor([1.0, 10.0], device=device), torch.tensor([5.0, 0.0], device=device)
    for tensor in (one, one, one, two, two, one):
        add(tensor)
    one.fill_(100)  # its value at the time of the call counts
    add(one)
    assert total.tolist() == [114.0, 140.0]


@DEVICES
def test_upcoming_lines_are_taken_in_order_and_once(device):
    lines = Upcoming(3, 2, torch.int64, torch.device(device))
    taken = torch.zeros(2, dtype=torch.int64, device=device)
    take = Recorded(lambda: taken.copy_(lines.take()), torch.device(device), [lines.next])
    seen = []
    for start in (0, 100):
        assert lines.left == 0
        lines.fill(start + torch.arange(6).reshape(3, 2))
        while lines.left:
            lines.left -= 1
            take()
            seen.append(taken.tolist())
    assert seen == [[0, 1], [2, 3], [4, 5], [100, 101], [102, 103], [104, 105]]


@DEVICES
def test_staged_numbers_arrive_in_order(device):
    staged, seen = Staged(1000, torch.int64, torch.device(device)), []
    for step in range(30):
        staged.numbers[:] = step
        staged.send()
        seen.append(staged.there.clone())
    assert all(torch.equal(found.cpu(), torch.full((1000,), step)) for step, found in enumerate(seen))
