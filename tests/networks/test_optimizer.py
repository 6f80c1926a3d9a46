"""The optimiser: rates, averages, and steps that a crash has lost."""

import math

import pytest
import torch

from dpgm.errors import UsageError
from dpgm.networks.optimizer import Optimizer, OptimizerSettings


@pytest.mark.parametrize("lost", [0, 3])
def test_bias_is_corrected_by_the_number_of_the_step_also_where_steps_were_lost(lost):
    start, rate, betas = torch.zeros((2, 4), dtype=torch.float64), 0.01, (0.9, 0.999)
    mine = Optimizer(OptimizerSettings(learning_rate=rate, schedule="constant", averaged_tail=0), start, 20)
    gradients = torch.randn((5, 2, 4), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected, first, second = torch.zeros_like(start), torch.zeros_like(start), torch.zeros_like(start)
    for step, gradient in enumerate(gradients, lost):
        mine.update(gradient.clone(), step)
        first = betas[0] * first + (1 - betas[0]) * gradient
        second = betas[1] * second + (1 - betas[1]) * gradient**2
        corrected = first / (1 - betas[0] ** (step + 1)), second / (1 - betas[1] ** (step + 1))
        expected -= rate * corrected[0] / (corrected[1].sqrt() + 1e-8)
    assert torch.allclose(mine.result, expected, rtol=1e-9, atol=1e-12)


def test_a_restored_optimiser_goes_on_as_if_it_had_not_stopped():
    gradients = torch.randn((6, 2, 4), generator=torch.Generator().manual_seed(0))
    whole, half, rest = (Optimizer(OptimizerSettings(), torch.ones(2, 4), 6) for _ in range(3))
    for step, gradient in enumerate(gradients):
        whole.update(gradient.clone(), step)
        (half if step < 3 else rest).update(gradient.clone(), step)
        if step == 2:
            rest.restore(half.state())
    assert all(torch.equal(value, rest.state()[name]) for name, value in whole.state().items())
    assert set(whole.state()) == {"parameters", "first", "second", "average"}


def test_the_average_is_that_of_the_tail():
    start = torch.zeros((1, 2))
    mine = Optimizer(OptimizerSettings("sgd", 1.0, "constant", 0.5), start, 10)
    seen = []
    for step in range(10):
        mine.update(torch.full((1, 2), -1.0), step)
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
