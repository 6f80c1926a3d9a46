"""Recorded functions; on the CPU they are called directly."""

import pytest
import torch

from dpgm.kernels.devices import Recorded

CUDA = pytest.param(
    "cuda",
    marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")],
)


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_a_recorded_function_reads_its_tensors_at_every_call(device):
    number, doubled = torch.zeros(2, device=device), torch.zeros(2, device=device)
    double = Recorded(lambda: doubled.copy_(number * 2), torch.device(device))
    seen = []
    for step in range(4):
        number.fill_(step)
        double()
        seen.append(doubled.tolist())
    assert seen == [[2.0 * step] * 2 for step in range(4)]
