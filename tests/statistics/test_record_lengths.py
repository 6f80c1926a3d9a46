"""How noisy histograms of lengths are read, and the bound on lengths that follows from them."""

import numpy as np
import pytest

from dpgm.data.domain import Domain
from dpgm.statistics.clipping import choose_cap
from dpgm.statistics.record_lengths import ReleasedFacts, mean_length, read_lengths, thinned
from dpgm.statistics.rules import STATISTIC_RULES


def test_noise_alone_is_not_read_as_long_records():
    noise = 23 * np.random.default_rng(0).normal(size=513)
    histogram = 28_000 * 0.2 * 0.8 ** np.arange(513.0)
    lengths = read_lengths(histogram + noise, 23.0, 28_000, STATISTIC_RULES.read)
    assert mean_length(lengths.shares) == pytest.approx(4.0, abs=0.4)
    assert lengths.shares.sum() == pytest.approx(1)
    assert lengths.counts.sum() == pytest.approx(28_000)


def test_popular_lengths_after_a_gap_are_seen():
    noisy = np.zeros(31)
    noisy[0], noisy[12:22] = 18_500, 150
    noisy += 30 * np.random.default_rng(0).normal(size=31)
    seen = read_lengths(noisy, 30.0, 20_000, STATISTIC_RULES.read, few=True)
    assert seen.shares[12:22].sum() == pytest.approx(0.075, abs=0.02)
    assert seen.shares[1:10].sum() < 0.02
    nobody = read_lengths(
        np.r_[20_000.0, 30 * np.random.default_rng(1).normal(size=30)], 30.0, 20_000, STATISTIC_RULES.read, few=True
    )
    assert nobody.shares[0] > 0.98


def test_thinning_keeps_the_mean():
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    assert thinned(shares, 0.5, 2) @ np.arange(6) == pytest.approx(3.0)
    assert thinned(shares, 1.0).tolist() == pytest.approx(shares.tolist())


def test_the_bound_on_lengths_grows_with_the_number_of_records():
    lengths = 0.8 ** np.arange(60.0)
    lengths /= lengths.sum()
    profile = 1 / np.arange(3.0, 103.0)
    known = [
        ReleasedFacts(Domain.of_items(100), records, None, STATISTIC_RULES)
        for records in (3_000, 100_000, 10_000_000)
    ]
    caps = [choose_cap(2, lengths, profile, one, 5.0)[0] for one in known]
    assert caps == sorted(caps)
    assert caps[0] < caps[-1]
