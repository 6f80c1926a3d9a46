import builtins
import itertools
import threading

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpgm.mechanisms import normals as normals_module
from dpgm.mechanisms.normals import NORMALS_AT_ONCE, add_normals
from dpgm.mechanisms.randomness import SeededRandomness, SystemRandomness

FINE = 2.0**-40
KINDS = np.uint64, np.uint32


@pytest.fixture
def fresh_kernels():
    normals_module._compiled.cache_clear()
    yield
    normals_module._compiled.cache_clear()


@pytest.fixture(params=["compiled", "numpy"])
def method(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(normals_module, "_compiled", lambda: None)
    return request.param


def normals(count, seed=0, dtype=np.float64):
    out = np.zeros(count, dtype=dtype)
    add_normals(out, 1.0, FINE, SeededRandomness(seed))
    return out


def test_normals_have_the_right_law(method):
    values = normals(1_000_000)
    assert stats.kstest(values, "norm").pvalue > 1e-7
    total = np.sum(values**2)
    assert 2 * min(stats.chi2.cdf(total, values.size), stats.chi2.sf(total, values.size)) > 1e-7
    assert abs(np.sum(values)) < 5.4 * 1000
    assert abs(np.sum(values[1:] * values[:-1])) < 5.4 * 1000


def test_tails_are_right_on_both_sides(method):
    values = normals(2_000_000, seed=1)
    for edge in (2.5, 3.0, 3.6541, 4.0, 4.5):
        for side in (values, -values):
            p = stats.binomtest(int((side > edge).sum()), values.size, stats.norm.sf(edge)).pvalue
            assert p > 1e-8, edge
    beyond = np.abs(values)[np.abs(values) > 3.6541528853610092]
    law = stats.truncnorm(3.6541528853610092, np.inf)
    assert stats.kstest(beyond, law.cdf).pvalue > 1e-7


def test_every_size_is_filled(method):
    for count in (0, 1, 2, 3, NORMALS_AT_ONCE - 1, NORMALS_AT_ONCE, NORMALS_AT_ONCE + 1, 3 * NORMALS_AT_ONCE + 7):
        for dtype in (np.float32, np.float64):
            assert np.all(normals(count, dtype=dtype) != 0)


def test_sums_lie_on_the_grid_and_keep_what_was_there(method):
    grid = 2.0**-10
    start = np.arange(10_000, dtype=np.float64)
    out = start.copy()
    add_normals(out, 0.25, grid, SeededRandomness(0))
    assert np.array_equal(out, np.rint(out / grid) * grid)
    assert stats.kstest((out - start) / 0.25, "norm").pvalue > 1e-7


def exact_pair(radius_word, angle_word):
    """The two normals of a pair of words, to forty digits; the uniform is the double nearest to 63 bits."""
    uniform = min((float(radius_word >> 1) + 0.5) * 2.0**-63, 1 - 2.0**-53)
    with mpmath.workdps(40):
        radius = mpmath.sqrt(-2 * mpmath.log(mpmath.mpf(uniform)))
        angle = (mpmath.mpf(angle_word % 2**30) + 0.5) / 2**30 * mpmath.pi / 2
        signs = (-1) ** (angle_word >> 31), (-1) ** (angle_word >> 30)
        return radius, signs[0] * radius * mpmath.sin(angle), signs[1] * radius * mpmath.cos(angle)


ANGLES = [0, 1, 2**16, 2**29, 2**30 - 1, 2**30, 2**31 - 1, 2**31, 2**31 + 2**29, 2**32 - 2**30, 2**32 - 1]
CORNERS = [0, 1, 2**10, 2**52, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 2**12, 2**64 - 2**10 - 1]


def test_words_give_the_normals_of_the_formula(method):
    words = SeededRandomness(3).words(600).tolist()
    words[:300:3] = [word >> (index % 60) for index, word in enumerate(words[:300:3])]  # small ones: far tails
    angles = [word >> 32 for word in words[300:]]
    pairs = [*zip(words[:300], angles, strict=True), *itertools.product(CORNERS, ANGLES)]
    radii, angles = (np.array(of, dtype) for of, dtype in zip(zip(*pairs, strict=True), KINDS, strict=True))
    first, second = np.zeros(len(pairs)), np.zeros(len(pairs))
    add_pairs = normals_module._compiled() or normals_module._add_pairs_in_numpy
    assert add_pairs(radii, angles, first, second, 1.0, 0.0, np.inf)
    for pair, up, across in zip(pairs, first, second, strict=True):
        radius, true_up, true_across = exact_pair(*pair)
        assert abs(up - true_up) < 2e-15 * radius
        assert abs(across - true_across) < 2e-15 * radius


def test_reaches_beyond_nine_deviations_and_no_radius_is_zero(method):
    radii = np.array([0, 2**64 - 1], dtype=np.uint64)
    angles, first, second = np.full(2, 2**29, dtype=np.uint32), np.zeros(2), np.zeros(2)
    add_pairs = normals_module._compiled() or normals_module._add_pairs_in_numpy
    add_pairs(radii, angles, first, second, 1.0, 0.0, np.inf)
    radius = np.hypot(first, second)
    assert radius[0] > 9.4
    assert 0 < radius[1] < 2e-8


def test_compiled_interpreted_and_numpy_kernels_agree():
    compiled = normals_module._compiled()
    assert compiled is not None
    words = SeededRandomness(5).words(3000)
    results = []
    for add_pairs in (compiled, normals_module._add_pairs, normals_module._add_pairs_in_numpy):
        out = np.zeros(4000)
        with np.errstate(over="ignore"):  # shifted signs
            angles = words[2000:].view(np.uint32)
            add_pairs(words[:2000], angles, out[:2000], out[2000:], 2.0, 1.5 * 2.0**52 * FINE, np.inf)
        results.append(out)
    for other in results[1:]:
        assert np.allclose(results[0], other, rtol=0, atol=4 * FINE)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 16_000, 20_000, 40_000])
def test_says_whether_all_sums_are_finite(method, wrong, place):
    for dtype in (np.float32, np.float64):
        out = np.zeros(40_001, dtype=dtype)
        assert add_normals(out, 1.0, FINE, SeededRandomness(0))
        out[place] = wrong
        assert not add_normals(out, 1.0, FINE, SeededRandomness(0))


def test_sums_too_large_for_their_numbers_are_not_finite(method):
    for value, fine in ((3e38, 2.0**100), (-3.4e38, 2.0**100)):
        out = np.full(100, value, dtype=np.float32)
        with np.errstate(over="ignore"):
            assert not add_normals(out, 1e38, fine, SeededRandomness(0))
        assert not np.isfinite(out).all()


def test_numbers_of_a_pair_are_independent(method):
    values = normals(1_000_000, seed=2)
    half = NORMALS_AT_ONCE // 2
    chunks = values[: len(values) // NORMALS_AT_ONCE * NORMALS_AT_ONCE].reshape(-1, 2, half)
    first, second = chunks[:, 0].ravel(), chunks[:, 1].ravel()
    for power in (1, 2, 3):
        correlation = np.corrcoef(first**power, second**power)[0, 1]
        assert abs(correlation) < 5.4 / np.sqrt(first.size)
    assert stats.kstest(np.arctan2(first, second), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-7


def test_without_numba_there_is_a_way(monkeypatch, fresh_kernels):
    real = builtins.__import__

    def refuse(name, *rest):
        if name == "numba":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert normals_module._compiled() is None


def test_without_a_folder_for_the_cache_kernels_still_compile(monkeypatch, fresh_kernels):
    import numba

    real = numba.njit

    def njit(*functions, **options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(*functions, **options)

    monkeypatch.setattr(numba, "njit", njit)
    assert normals_module._compiled() is not None


def test_threads_draw_independent_noise():
    source, parts = SystemRandomness(), [np.zeros(200_000) for _ in range(4)]
    threads = [threading.Thread(target=add_normals, args=(part, 1.0, FINE, source)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = np.concatenate(parts)
    # Equal sums of doubles on so fine a grid come from equal words.
    assert len(np.unique(together)) > 0.999 * together.size
    assert stats.kstest(together, "norm").pvalue > 1e-7


@pytest.mark.slow
def test_a_hundred_million_normals_have_the_right_variance_and_far_tails():
    source, out = SystemRandomness(), np.zeros(1_000_000)
    squares, beyond = 0.0, np.zeros(4, dtype=np.int64)
    edges = np.array([3.6541528853610092, 4.5, 5.0, 5.5])
    for _ in range(100):
        out[:] = 0
        add_normals(out, 1.0, FINE, source)
        squares += float(out @ out)
        beyond += [int((np.abs(out) > edge).sum()) for edge in edges]
    assert squares / 1e8 == pytest.approx(1, abs=5.5 * np.sqrt(2 / 1e8))
    for count, edge in zip(beyond, edges, strict=True):
        assert stats.binomtest(int(count), 10**8, 2 * stats.norm.sf(edge)).pvalue > 1e-7
