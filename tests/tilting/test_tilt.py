"""The tilt: sums over the weighted pool meet the released ones, as far as their noise and the ridge say."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgm.tilting.rules import TILT_RULES
from dpgm.tilting.tilt import Released, tilt

EXACT = replace(TILT_RULES, matched=1e-6, iterations=500)
POOL = torch.from_numpy(np.random.default_rng(0).normal(size=(400, 3)))
EVEN = torch.zeros(400)


class Columns:
    """A pool whose features are written out."""

    def __init__(self, numbers):
        self.numbers = numbers.double()

    def energies(self, theta):
        return self.numbers @ theta

    def sums(self, weights):
        return self.numbers.T @ weights

    def squares(self, weights):
        return (self.numbers**2).T @ weights


def released(values, std=1.0, ridge=0.0, features=POOL):
    return Released(Columns(features), torch.tensor(values, dtype=torch.float64), std, ridge)


def test_without_a_ridge_sums_are_the_released_ones():
    found = tilt([released([300.0, -200.0, 100.0])], EVEN, 1000, EXACT)
    assert torch.allclose(
        1000 * POOL.T @ found.log_weights.exp(), torch.tensor([300.0, -200.0, 100.0]).double(), atol=1e-3
    )
    assert float(found.log_weights.exp().sum()) == pytest.approx(1)


def test_log_weights_are_linear_in_the_features():
    found = tilt([released([300.0, -200.0, 100.0])], EVEN, 1000, EXACT)
    slope = found.log_weights - POOL @ found.parameters[0]
    assert float(slope.max() - slope.min()) < 1e-9


def test_a_ridge_leaves_residuals_of_its_size():
    one = released([300.0, -200.0, 100.0], std=30.0, ridge=0.5)
    found = tilt([one], EVEN, 1000, EXACT)
    residuals = one.values - 1000 * POOL.T @ found.log_weights.exp()
    assert torch.allclose(residuals, 0.5 * 30.0**2 * found.parameters[0], atol=1e-3)
    assert float(residuals.abs().max()) > 1


def test_the_base_is_kept_where_nothing_is_released_about_it():
    base = torch.linspace(-2, 2, 400).double()
    value = (POOL.T @ torch.softmax(base, 0)).tolist()
    found = tilt([released([1000 * one for one in value])], base, 1000, EXACT)
    assert torch.allclose(found.log_weights.exp(), torch.softmax(base, 0), atol=1e-6)


def test_several_statistics_are_matched_together_each_by_its_noise():
    sure, vague = (
        released([300.0], std=0.1, ridge=1.0, features=POOL[:, :1]),
        released([0.0], std=1e4, ridge=1.0, features=POOL[:, :1]),
    )
    found = tilt([sure, vague], EVEN, 1000, EXACT)
    assert float(1000 * POOL[:, 0] @ found.log_weights.exp()) == pytest.approx(300, abs=0.1)


def test_values_that_no_pool_has_end_in_finite_parameters():
    found = tilt([released([9000.0, 0.0, 0.0], ridge=0.1, std=10.0)], EVEN, 1000)
    assert bool(torch.isfinite(found.parameters[0]).all())
    assert bool(torch.isfinite(found.log_weights).all())


def test_progress_ends_below_or_at_one():
    seen = []
    tilt([released([30.0, 20.0, 10.0])], EVEN, 1000, TILT_RULES, seen.append)
    assert 0 < max(seen) <= 1


def test_a_search_that_starts_at_the_end_stays_there():
    one = released([300.0, -200.0, 100.0], std=30.0, ridge=0.5)
    found = tilt([one], EVEN, 1000, EXACT)
    again = tilt([one], EVEN, 1000, replace(EXACT, iterations=1), start=found.parameters)
    assert torch.allclose(again.log_weights, found.log_weights, atol=1e-6)


def test_the_log_of_the_total_is_that_of_the_tilted_base():
    found = tilt([released([300.0, -200.0, 100.0])], EVEN, 1000, EXACT)
    assert found.log_total == pytest.approx(float(torch.logsumexp(POOL @ found.parameters[0], 0)))


def test_rare_and_common_sums_are_met_alike():
    numbers = POOL * torch.tensor([1.0, 0.01, 100.0]).double()
    one = Released(Columns(numbers), torch.tensor([300.0, -2.0, 10_000.0]).double(), 1.0, 0.0)
    found = tilt([one], EVEN, 1000, replace(EXACT, iterations=40))
    assert torch.allclose(1000 * numbers.T @ found.log_weights.exp(), one.values, atol=1e-3)


def test_each_number_can_have_a_ridge_of_its_own():
    ridges = torch.tensor([0.0, 0.5, 2.0]).double()
    one = replace(released([300.0, -200.0, 100.0], std=30.0), ridge=ridges)
    found = tilt([one], EVEN, 1000, EXACT)
    residuals = one.values - 1000 * POOL.T @ found.log_weights.exp()
    assert torch.allclose(residuals, ridges * 30.0**2 * found.parameters[0], atol=1e-3)
