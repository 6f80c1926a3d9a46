"""Empirical Bayes reduces the errors of noisy counts, and projections have the required sum."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpgm.data.domain import Categorical, Domain
from dpgm.statistics.item_counts import ItemCounts, item_profile
from dpgm.statistics.record_lengths import ReleasedFacts
from dpgm.statistics.rules import STATISTIC_RULES
from dpgm.statistics.shrinkage import onto_simplex, shrink, shrink_alone, shrink_signed
from dpgm.statistics.statistic import Measured


def test_rare_counts_are_pulled_down_and_large_ones_stay():
    draws = np.random.default_rng(0)
    counts = np.concatenate([draws.exponential(2.0, 400), draws.uniform(1_000, 5_000, 30)])
    noisy = counts + 15 * draws.normal(size=len(counts))
    mean, deviation = shrink_alone(noisy, 15.0)
    rare, large = counts < 100, counts >= 100
    assert np.abs(mean - counts)[rare].mean() < 0.3 * np.abs(np.maximum(noisy, 0) - counts)[rare].mean()
    assert np.abs(mean - noisy)[large].max() < 30
    assert np.abs(mean.sum() / counts.sum() - 1) < 0.01
    assert deviation[rare].mean() < 5 < deviation[large].mean() < 16


def test_noise_may_differ_from_count_to_count():
    draws = np.random.default_rng(0)
    counts, std = draws.exponential(2.0, 400), np.where(np.arange(400) < 200, 1.0, 30.0)
    noisy = counts + std * draws.normal(size=400)
    mean, deviation = shrink_alone(noisy, std)
    sharp, blurred = slice(0, 200), slice(200, 400)
    assert np.abs(mean - counts)[sharp].mean() < np.abs(noisy - counts)[sharp].mean()
    assert np.abs(mean - counts)[blurred].mean() < 0.2 * np.abs(noisy - counts)[blurred].mean()
    assert deviation[sharp].mean() < deviation[blurred].mean() < 5
    same, also = shrink_alone(noisy[sharp], 1.0), shrink_alone(noisy[sharp], np.ones(200))
    assert np.array_equal(same[0], also[0])
    assert np.array_equal(same[1], also[1])


def test_order_is_kept():
    noisy = np.random.default_rng(1).normal(20, 30, 300)
    mean, _ = shrink_alone(noisy, 10.0)
    assert (np.diff(mean[np.argsort(noisy)]) > -1e-6).all()


def test_extremes_are_finite():
    for noisy, std in ((np.array([-5.0]), 1.0), (np.zeros(3), 0.0), (np.array([1e9, -1e9]), 1e4)):
        mean, deviation = shrink_alone(noisy, std)
        assert np.isfinite(mean).all()
        assert np.isfinite(deviation).all()


def test_signed_numbers_are_pulled_to_what_is_expected_as_far_as_they_look_like_noise():
    draws = np.random.default_rng(0)
    scale, expected = np.full(2_000, 1_000.0), draws.uniform(-50, 50, 2_000)
    off = np.where(np.arange(2_000) < 1_800, 0.0, draws.normal(0, 300, 2_000))
    noisy = expected + off + 40 * draws.normal(size=2_000)
    mean, deviation = shrink_signed(noisy, 40.0, expected, scale)
    assert np.abs(mean - expected - off)[:1_800].mean() < 0.3 * np.abs(noisy - expected - off)[:1_800].mean()
    assert np.abs(mean - expected - off)[1_800:].mean() < 1.3 * np.abs(noisy - expected - off)[1_800:].mean()
    assert 0.5 < np.sqrt(((mean - expected - off) ** 2).mean()) / np.sqrt((deviation**2).mean()) < 1.5


def test_shrinking_beats_both_the_noisy_counts_and_their_expectations():
    draws = np.random.default_rng(0)
    expected = draws.gamma(1.0, 50.0, size=5000) + 1
    truth = expected * np.where(draws.random(5000) < 0.2, 4.0, 0.9)
    noisy = truth + 30 * draws.normal(size=5000)
    means, deviations = shrink(noisy, 30.0, expected)
    error = np.abs(means - truth).mean()
    assert error < 0.7 * np.abs(noisy - truth).mean()
    assert error < 0.7 * np.abs(expected - truth).mean()
    assert 0.5 < np.mean(np.abs(means - truth) < deviations) < 0.9


def test_counts_without_noise_are_left_alone():
    counts = np.array([3.0, 500.0, 70.0])
    means, _ = shrink(counts, 1e-6, np.array([10.0, 90.0, 70.0]))
    assert np.allclose(means, counts, rtol=1e-3)


VALUES = st.lists(st.floats(-2, 2), min_size=1, max_size=8)


@given(VALUES, st.floats(0.1, 3), st.floats(0, 1))
def test_the_nearest_numbers_have_the_sum_and_keep_to_the_floor(values, total, share):
    values, floor = np.array(values), share * total / len(values)
    nearest = onto_simplex(values, total, floor)
    assert abs(nearest.sum() - total) < 1e-9
    assert (nearest >= floor).all()
    others = floor + np.random.default_rng(0).dirichlet(np.ones(len(values)), 50) * (total - floor * len(values))
    assert ((nearest - values) ** 2).sum() <= ((others - values) ** 2).sum(axis=1).min() + 1e-9


def test_noise_below_zero_of_rare_values_is_not_taken_from_the_most_frequent_one():
    """41 rare values share 300 of 30,000 records; clipping and scaling took 1.7 points from the frequent value."""
    domain, records, std = Domain((Categorical("country", tuple(range(42))),)), 30_000, 33.0
    truth = np.array([29_700.0, *np.full(41, 300 / 41)])
    known, draws = ReleasedFacts.read(None, domain, records, STATISTIC_RULES), np.random.default_rng(0)
    errors = []
    for _ in range(200):
        noisy = torch.from_numpy(truth + std * draws.normal(size=42))
        profile = item_profile(Measured(ItemCounts(domain, cap=1), noisy, std), known)
        assert abs(profile.sum() - 1) < 1e-9
        assert profile.min() > 0
        errors.append(profile[0] - truth[0] / records)
    assert abs(np.mean(errors)) < 0.006  # 0.017 before
