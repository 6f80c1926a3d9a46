"""The optimisers compared with those of torch."""

import math

import pytest
import torch

from dpgm.errors import UsageError
from dpgm.networks import optimizer
from dpgm.networks.optimizer import Optimizer, OptimizerSettings


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adam_is_that_of_torch(compiled, dtype, monkeypatch):
    if not compiled:
        monkeypatch.setattr(optimizer, "HAS_NUMBA", False)
    generator = torch.Generator().manual_seed(0)
    start = torch.randn((3, 50), generator=generator, dtype=dtype)
    scales = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    mine = Optimizer(OptimizerSettings(learning_rate=0.01, schedule="constant", averaged_tail=0), start.clone(), 20)
    theirs = start.clone().requires_grad_()
    adam = torch.optim.Adam([theirs], lr=0.01)
    for step in range(20):
        gradient = torch.randn((3, 50), generator=generator, dtype=dtype)
        theirs.grad = gradient * scales.unsqueeze(1).to(dtype)
        adam.step()
        mine.update(gradient.clone(), scales, step)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    assert torch.allclose(mine.result, theirs.detach(), rtol=tolerance, atol=tolerance)


def test_the_average_is_that_of_the_tail():
    start = torch.zeros((1, 2))
    mine = Optimizer(OptimizerSettings("sgd", 1.0, "constant", 0.5), start, 10)
    seen = []
    for step in range(10):
        mine.update(torch.full((1, 2), -1.0), torch.ones(1), step)
        seen.append(mine.parameters.clone())
    assert torch.allclose(mine.result, torch.stack(seen[5:]).mean(0))


def test_the_cosine_rate_falls_from_the_whole_to_nearly_nothing():
    settings = OptimizerSettings(learning_rate=0.1)
    assert settings.rate(0, 100) == 0.1
    assert math.isclose(settings.rate(50, 100), 0.05)
    assert settings.rate(99, 100) < 1e-4
    assert OptimizerSettings(learning_rate=0.1, schedule="constant").rate(99, 100) == 0.1


@pytest.mark.parametrize(
    "wrong", [{"optimizer": "lion"}, {"schedule": "step"}, {"learning_rate": 0}, {"averaged_tail": 2}]
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(UsageError):
        OptimizerSettings(**wrong)
