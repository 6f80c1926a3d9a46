import math

import numpy as np
import pytest

from dpgm.privacy.loss_composition import Composed, refined
from dpgm.privacy.loss_distribution import Pair


def toy(noise, complete=True):
    """Losses -0.2, 0, 0.2 with the probabilities that make Q sum to one as well, up to a little."""
    masses = np.array([0.2, 0.0, 0.55, 0.0, 0.25])
    return Composed(0.1, -2, masses, 0.0, 0.0, 0.0, noise, complete)


def test_the_divergence_is_the_sum_over_larger_losses():
    exact = 0.25 * -math.expm1(0.05 - 0.2)
    assert toy(1e-300).delta(0.05) == pytest.approx(exact, rel=1e-12)
    assert toy(1e-300).epsilon(exact) == pytest.approx(0.05, rel=1e-9)
    assert toy(1e-300).delta(5.0) < 1e-200


def test_rounding_is_counted_against_the_mechanism():
    assert toy(1e-3).delta(0.05) == pytest.approx(toy(1e-300).delta(0.05) + 1e-3)
    assert toy(1e-3).epsilon(1e-2) > toy(1e-300).epsilon(1e-2)


def test_a_delta_below_the_rounding_is_met_only_above_all_losses():
    assert toy(1e-3).epsilon(1e-6) == pytest.approx(0.2)
    assert toy(1e-3, complete=False).epsilon(1e-6) == math.inf
    assert refined([Pair(1.0, 1e-9, 10**9, True)], 1e-17, 1.0).epsilon == math.inf


@pytest.mark.parametrize("remove", [True, False])
@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.7, 1.0])
def test_a_grid_dominates_the_mechanism_at_every_epsilon(rate, remove):
    pair = Pair(1.3, rate, 1, remove)
    loss = pair.on_grid(0.03, 1e-12)
    assert loss.masses.sum() + loss.infinity == pytest.approx(1.0, abs=1e-12)
    assert (loss.masses >= 0).all()
    x = np.linspace(-12, 14, 2_000_001)
    step = x[1] - x[0]
    without = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    with_record = (1 - rate) * without + rate * np.exp(-((x - 1.3) ** 2) / 2) / math.sqrt(2 * math.pi)
    upper, lower = (with_record, without) if remove else (without, with_record)
    for epsilon in (-0.3, -0.03, 0.0, 0.03, 0.15, 1.2, -0.5, -0.01, 0.004, 0.1, 1.0, 3.0):
        exact = float(np.maximum(upper - math.exp(epsilon) * lower, 0).sum() * step)
        above = loss.losses > epsilon
        found = loss.infinity + float(np.dot(loss.masses[above], -np.expm1(epsilon - loss.losses[above])))
        assert found >= exact - 1e-9
        if abs(epsilon / 0.03 - round(epsilon / 0.03)) < 1e-9:  # at the dots the two are equal
            assert found == pytest.approx(exact, abs=1e-9)
