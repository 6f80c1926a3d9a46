import json
from pathlib import Path

import numpy as np
import pytest

from dpgm.privacy.events import GaussianRelease, Parallel, SampledSteps
from dpgm.privacy.renyi import delta_from, epsilon_from, renyi_curve

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("vector", VECTORS["rdp_orders"])
def test_divergences_match_fifty_digit_sums(vector):
    curve = renyi_curve([SampledSteps(vector["sigma"], vector["q"], 1)], np.array([float(vector["order"])]))
    assert curve[0] == pytest.approx(vector["rdp_mpmath"], rel=1e-9)


@pytest.mark.parametrize("vector", [v for v in VECTORS["subsampled_gaussian"] if v["q"] < 1])
def test_epsilon_at_whole_orders_matches_fifty_digit_sums(vector):
    orders = np.arange(2.0, 257.0)
    curve = renyi_curve([SampledSteps(vector["sigma"], vector["q"], vector["T"])], orders)
    epsilon, _ = epsilon_from(curve, vector["delta"], orders)
    assert epsilon == pytest.approx(vector["eps_rdp_mpmath_integer_orders"], abs=1e-6)


def test_tiny_divergences_keep_their_digits():
    # alpha q² (e^(1/z²) - 1) / 2 to first order
    curve = renyi_curve([SampledSteps(1e4, 1e-7, 1)], np.array([2.0]))
    assert curve[0] == pytest.approx(1e-14 * np.expm1(1e-8), rel=1e-6)


def test_far_orders_cost_what_the_unsampled_mechanism_costs():
    orders = np.array([1000.0])
    assert renyi_curve([SampledSteps(0.3, 0.1, 10)], orders) == renyi_curve([GaussianRelease(0.3, 10)], orders)


def test_delta_and_epsilon_are_converted_alike():
    curve = renyi_curve([SampledSteps(1.0, 0.01, 100)])
    assert delta_from(curve, epsilon_from(curve, 1e-5)[0]) == pytest.approx(1e-5, rel=1e-9)
    assert delta_from(curve, 0.0) <= 1.0


def test_a_rate_of_one_is_a_gaussian():
    orders = np.array([1.5, 2.0, 30.0])
    assert renyi_curve([SampledSteps(2.0, 1.0, 3)], orders) == pytest.approx(
        renyi_curve([GaussianRelease(2.0, 3)], orders)
    )


def test_parallel_branches_cost_the_worst_at_each_order():
    orders = np.array([1.1, 64.0])
    first, second = (GaussianRelease(3.0),), (SampledSteps(0.8, 0.01, 50),)
    both = renyi_curve([Parallel((first, second))], orders)
    assert (both == np.maximum(renyi_curve(first, orders), renyi_curve(second, orders))).all()
