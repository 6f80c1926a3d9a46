"""Odds against closed forms, an independent integral, the oracle and simulated attacks; never below any of them."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import exact_privacy
from dpgm.privacy.accountant import cost, gaussian_delta
from dpgm.privacy.events import GaussianRelease, Mechanism, Parallel, SampledSteps
from dpgm.privacy.loss_composition import TooWideError
from dpgm.privacy.odds import accused_at_most, odds, promised_odds

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))

# Releases on all records (z_n, z_s, both 8 times, and z_N) and steps (z_eff, rate, steps) of three plans of the
# default split, and the odds computed for them elsewhere.
PLANS = [
    ((84.49, 42.25, 42.25), (1.0739, 0.0017, 11780), 1.0, (7.9, 54.6), (13.6, 73.1)),
    ((44.61, 22.30, 22.30), (0.7795, 0.0017, 11780), 2.0, (10.9, 58.0), (36.9, 88.1)),
    ((13.06, 6.529, 6.529), (0.6867, 0.01, 2000), 8.0, (34.7, 72.7), (100.0, 100.0)),
]


def events(releases, steps):
    counts, sums, sizes = releases
    whole = [GaussianRelease(counts, 8), GaussianRelease(sums, 8), GaussianRelease(sizes)]
    return [*whole, SampledSteps(*steps)]


@pytest.mark.parametrize(("releases", "steps", "epsilon", "plan", "promise"), PLANS)
def test_three_plans_have_the_odds_computed_elsewhere(releases, steps, epsilon, plan, promise):
    found, promised = odds(events(releases, steps), 1e-6), promised_odds(epsilon, 1e-6)
    for mine, theirs in zip((found.accused, found.guesses), plan, strict=True):
        assert theirs - 0.051 <= mine <= theirs + 0.11
    for mine, theirs in zip((promised.accused, promised.guesses), promise, strict=True):
        assert theirs - 0.051 <= mine <= theirs + 0.11


class _Gaussian:
    def __init__(self, mu):
        self.mu = mu

    def delta(self, epsilon):
        return gaussian_delta(self.mu, epsilon)


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 4.0, 9.0])
@pytest.mark.parametrize("wrongly", [0.001, 0.05, 0.4, 0.9])
def test_the_bound_of_a_gaussian_is_its_trade_off_curve(mu, wrongly):
    """Also where the best epsilon is negative, which happens when tests are nearly always right."""
    found = accused_at_most([_Gaussian(mu), _Gaussian(mu)], wrongly)
    assert found == pytest.approx(float(norm.cdf(norm.ppf(wrongly) + mu)), abs=1e-6)


@given(mu=st.floats(0.01, 9.0))
@settings(max_examples=50)
def test_odds_of_whole_releases_are_exact(mu):
    found = odds([GaussianRelease(1 / mu)], 1e-6)
    accused, guesses = 100 * norm.cdf(norm.ppf(0.05) + mu), 100 * norm.cdf(mu / 2)
    assert accused - 1e-9 <= found.accused <= accused + 0.1 + 1e-9
    assert guesses - 1e-9 <= found.guesses <= guesses + 0.1 + 1e-9


SCHEDULES = [([(1.3, 0.25, 16)], 0.3), ([(0.8, 0.02, 900)], 0.2)]


@pytest.mark.parametrize(("steps", "mu"), SCHEDULES)
def test_composed_odds_agree_with_an_independent_integral(steps, mu):
    mechanisms = [GaussianRelease(1 / mu), *(SampledSteps(*one) for one in steps)]
    found = odds(mechanisms, 1e-6)
    grid = np.arange(0.0, 1.7, 0.12)
    profiles = {
        remove: [exact_privacy.delta(e, steps=steps, mu=mu, remove=remove) for e in grid]
        for remove in (True, False)
    }
    exact = max(
        min(
            *(math.exp(e) * 0.05 + d for e, d in zip(grid, profiles[remove], strict=True)),
            *(1 - math.exp(-e) * (0.95 - d) for e, d in zip(grid, profiles[not remove], strict=True)),
        )
        for remove in (True, False)
    )
    assert found.accused <= 100 * exact + 0.15  # the integral's grid of epsilons is coarse, so it may lie above
    assert found.accused >= 100 * exact - 0.35
    right = 50 * (1 + profiles[True][0])
    assert right - 1e-6 <= found.guesses <= right + 0.12


def attacked(steps, rate, noise, trials, rng):
    """Exact log-likelihood ratios of releases without and with the record."""
    mu = 1 / noise

    def ratios(with_record):
        x = rng.normal(size=(trials, steps))
        if with_record:
            x += mu * (rng.random((trials, steps)) < rate)
        return np.log1p(rate * np.expm1(mu * x - mu * mu / 2)).sum(axis=1)

    return ratios(False), ratios(True)


@pytest.mark.parametrize(("steps", "rate", "noise"), [(16, 0.25, 1.3), (4, 0.5, 0.7), (60, 0.05, 0.6)])
def test_the_best_attack_reaches_the_odds_and_does_not_pass_them(steps, rate, noise):
    """The likelihood ratio is the best score there is; 400,000 simulated releases, within six standard errors."""
    out, into = attacked(steps, rate, noise, 400_000, np.random.default_rng(5))
    found = odds([SampledSteps(noise, rate, steps)], 1e-5)
    accused = 100 * float(np.mean(into > np.quantile(out, 0.95)))
    guesses = 50 * float(np.mean(into > 0) + np.mean(out <= 0))
    assert found.accused - 1.2 <= accused <= found.accused + 0.4
    assert found.guesses - 0.8 <= guesses <= found.guesses + 0.25


@pytest.mark.parametrize("vector", VECTORS["delta_vectors"])
def test_odds_stay_below_every_point_of_the_oracles_profile(vector):
    """Each point (epsilon, delta) of the exact profile bounds the odds by itself."""
    steps = SampledSteps(float(vector["sigma"]), float(vector["q"]), vector["T"])
    found = odds([steps], 1e-9)
    worst = max(vector["delta_exact_remove"], vector["delta_exact_add"])
    assert found.accused <= 100 * (math.exp(vector["eps"]) * 0.05 + worst) + 0.15
    assert found.guesses <= promised_odds(vector["eps"], worst).guesses + 0.15


@given(noise=st.floats(0.5, 30), count=st.integers(1, 20), delta=st.floats(1e-9, 1e-2))
@settings(max_examples=40)
def test_the_plan_never_states_more_risk_than_the_promise(noise, count, delta):
    mechanisms = [Mechanism("a", noise, count)]
    found, promised = odds(mechanisms, delta), promised_odds(cost(mechanisms, delta).epsilon, delta)
    assert 5 <= found.accused <= promised.accused <= 100
    assert 50 <= found.guesses <= promised.guesses <= 100


def test_thresholds_are_added():
    plain, listed = odds([Mechanism("a", 5.0)], 0.1), odds([Mechanism("a", 5.0, delta=0.02)], 0.1)
    assert listed.accused == pytest.approx(plain.accused + 100 * (1 / 0.98 - 1), abs=0.11)
    assert listed.guesses == pytest.approx(plain.guesses + 50 * (1 / 0.98 - 1), abs=0.11)


def test_losses_too_wide_for_a_grid_promise_nothing_beyond_epsilon():
    mechanisms = [SampledSteps(0.01, 0.5, 10)]
    assert odds(mechanisms, 1e-6).accused == promised_odds(cost(mechanisms, 1e-6).epsilon, 1e-6).accused == 100.0


def test_a_composition_that_no_grid_holds_promises_nothing_beyond_epsilon(monkeypatch):
    def too_wide(*arguments):
        raise TooWideError

    steps = [SampledSteps(1.0, 0.1, 30)]
    monkeypatch.setattr("dpgm.privacy.odds.compose", too_wide)
    assert odds(steps, 1e-6, cache=False) == promised_odds(cost(steps, 1e-6).epsilon, 1e-6)


def test_parallel_branches_have_the_odds_of_the_worst():
    branches = Parallel(((SampledSteps(2.0, 0.1, 30),), (SampledSteps(1.0, 0.1, 30),)))
    assert odds([branches], 1e-6) == odds([SampledSteps(1.0, 0.1, 30)], 1e-6)


def test_figures_that_are_kept_are_the_same(monkeypatch):
    mechanisms = [SampledSteps(1.0, 0.1, 30)]
    first = odds(mechanisms, 1e-6)
    monkeypatch.setattr("dpgm.privacy.odds._composed_odds", lambda normal: pytest.fail("computed again"))
    assert odds(mechanisms, 1e-6) == first


def test_a_wrong_accusation_in_twenty_and_a_coin_are_the_least():
    assert odds([GaussianRelease(1e6)], 1e-6).accused == pytest.approx(5.1)
    assert odds([GaussianRelease(1e6)], 1e-6).guesses == pytest.approx(50.1)
    assert promised_odds(0.0, 0.0).guesses == 50.0
