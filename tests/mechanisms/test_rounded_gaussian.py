import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpgm.errors import UsageError
from dpgm.mechanisms import rounded_gaussian as module
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.mechanisms.rounded_gaussian import (
    QUANTILE_MARGIN,
    rounded_gaussian,
    settle_exactly,
    settle_in_doubles,
)
from dpgm.testing import log_probability

ALL_SLOW = 1e9


def pvalue_of(values, std):
    reach = math.ceil(5 * std) + 1
    cells = np.arange(-reach, reach + 1)
    probabilities = np.exp(log_probability(cells, std))
    observed = np.array([(values == cell).sum() for cell in cells], dtype=float)
    expected = probabilities * len(values)
    # Cells of under five expected values, and everything outside, in one.
    rare = expected < 5
    observed = np.append(observed[~rare], len(values) - observed[~rare].sum())
    expected = np.append(expected[~rare], len(values) - expected[~rare].sum())
    return stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue


@pytest.mark.parametrize("std", [0.3, 1.0, 5.0])
def test_the_law_is_the_rounded_gaussian(std):
    assert pvalue_of(rounded_gaussian(300_000, std, SeededRandomness(1)), std) > 1e-7


@pytest.mark.parametrize("std", [0.3, 5.0])
def test_the_slow_way_has_the_same_law(std):
    assert pvalue_of(rounded_gaussian(4000, std, SeededRandomness(2), margin=ALL_SLOW), std) > 1e-7


@pytest.mark.parametrize("std", [1e-3, 0.3, 1.0, 5.0, 1234.5, 1e6, 2.0**36])
def test_both_ways_agree_on_the_same_bits(std):
    words = SeededRandomness(3).words(400)
    values, unsettled = settle_in_doubles(words, std, QUANTILE_MARGIN)
    assert unsettled.mean() < 0.2
    for word, value in zip(words[~unsettled], values[~unsettled], strict=True):
        assert settle_exactly(int(word), std, refuse_more) == value


def refuse_more():
    raise AssertionError("the 64 bits should have been enough")


def test_extreme_deviations():
    assert not rounded_gaussian(100_000, 1e-3, SeededRandomness(4)).any()
    values = rounded_gaussian(200_000, 1e6, SeededRandomness(4)) / 1e6
    assert stats.kstest(values, "norm").pvalue > 1e-7
    large = rounded_gaussian(2000, module.LARGEST_STD, SeededRandomness(4)) / module.LARGEST_STD
    assert stats.kstest(large, "norm").pvalue > 1e-7


@pytest.mark.parametrize("std", [0.0, -1.0, math.nan, math.inf, 2.0**46])
def test_deviations_beyond_the_integers_are_refused(std):
    with pytest.raises(UsageError, match="coarser grid"):
        rounded_gaussian(1, std, SeededRandomness(0))


def boundary_word(edge, std):
    """The word whose 64-bit interval of tail probabilities holds that of the half-integer."""
    with mpmath.workdps(60):
        return int(mpmath.floor(mpmath.erfc(mpmath.mpf(edge) / mpmath.mpf(std) / mpmath.sqrt(2)) / 2 * 2**64))


@pytest.mark.parametrize(("edge", "std"), [(0.5, 1.0), (1.5, 0.7), (7.5, 3.0), (0.5, 1e5), (123456.5, 1e5)])
def test_a_word_on_a_boundary_is_settled_by_further_bits(edge, std):
    word = boundary_word(edge, std)
    assert settle_in_doubles(np.array([word], dtype=np.uint64), std, QUANTILE_MARGIN)[1].all()
    below, above = math.floor(edge), math.ceil(edge)
    # A larger tail probability is a smaller value.
    assert settle_exactly(word, std, lambda: 2**64 - 1) == below
    assert settle_exactly(word, std, lambda: 0) == above
    assert settle_exactly(word | 2**63, std, lambda: 0) == -above
    with mpmath.workdps(80):
        rest = mpmath.erfc(mpmath.mpf(edge) / mpmath.mpf(std) / mpmath.sqrt(2)) / 2 * 2**64 - word
        middle = int(mpmath.floor(rest * 2**64))
    assert settle_exactly(word, std, itertools.chain([middle], itertools.repeat(2**64 - 1)).__next__) == below
    assert settle_exactly(word, std, itertools.chain([middle], itertools.repeat(0)).__next__) == above


def test_the_deepest_tail_has_no_end():
    for words, tail in [([0, 2**63], 2**-129), ([0, 0, 2**63], 2**-193), ([2**40], 2**-88)]:
        more = itertools.chain(words, itertools.repeat(0)).__next__
        assert settle_exactly(0, 100.0, more) == round(100 * stats.norm.isf(tail))
    assert settle_exactly(0, 1e-3, lambda: 2**63) == 0


def test_the_search_goes_both_ways_from_a_bad_guess():
    word = int(0.2 * 2**64)  # a tail of 0.2 at std 10 is 8.4
    for guess in (0, 3, 8, 9, 14):
        assert module._compare(word, 64, guess, Fraction(10)) == 8


@settings(max_examples=60, deadline=None)
@given(
    st.fractions(min_value=0, max_value=12, max_denominator=10**6),
    st.sampled_from([64, 128, 256]),
)
def test_bounds_of_the_tail_hold(at, known):
    low, high = module._tail(at, known)
    with mpmath.workdps(150):
        true = mpmath.erfc(mpmath.mpf(at.numerator) / at.denominator / mpmath.sqrt(2)) / 2 * mpmath.mpf(2) ** known
        assert mpmath.mpf(low.numerator) / low.denominator <= true <= mpmath.mpf(high.numerator) / high.denominator
    assert high - low < Fraction(1, 2**20)


def test_far_tails_are_bounded_without_summing():
    assert module._tail(Fraction(1000), 64) == (0, Fraction(2) ** -1936)


def test_doubles_are_a_hundred_times_better_than_the_margin():
    words = SeededRandomness(9).words(300) & np.uint64(2**63 - 1)
    words = np.concatenate(
        [words, words >> np.uint64(20), words >> np.uint64(40), 2**63 - 1 - (words >> np.uint64(9))]
    )
    tails = (words.astype(np.float64) + 0.5) * 2.0**-64
    found = -torch.special.ndtri(torch.from_numpy(tails)).numpy()
    worst = 0.0
    with mpmath.workdps(50):
        for word, x in zip(words.tolist(), found.tolist(), strict=True):
            true = (mpmath.mpf(word) + 0.5) / mpmath.mpf(2) ** 64
            error = (mpmath.erfc(mpmath.mpf(x) / mpmath.sqrt(2)) / 2 - true) / mpmath.npdf(x)
            worst = max(worst, float(abs(error)) / (1 + x))
    assert worst < QUANTILE_MARGIN / 100


def test_no_part_of_a_long_vector_repeats_another():
    """On a fine scale equal values would be the same noise twice; by chance two of these 70,000 are equal once in 10,000 seeds."""
    values = rounded_gaussian(70_000, 2.0**44, SeededRandomness(6))
    assert len(np.unique(values)) == len(values)
