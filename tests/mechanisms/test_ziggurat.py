import builtins
import threading

import numpy as np
import pytest
from scipy import stats

from dpgm.mechanisms import ziggurat
from dpgm.mechanisms.randomness import SeededRandomness, SystemRandomness
from dpgm.mechanisms.ziggurat import CHUNK, add_normals

FINE = 2.0**-40


@pytest.fixture
def fresh_kernels():
    ziggurat._compiled.cache_clear()
    yield
    ziggurat._compiled.cache_clear()


@pytest.fixture(params=["ziggurat", "box and muller"])
def method(request, monkeypatch):
    if request.param == "box and muller":
        monkeypatch.setattr(ziggurat, "_compiled", lambda: None)
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
    for count in (0, 1, 2, 3, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7):
        for dtype in (np.float32, np.float64):
            assert np.all(normals(count, dtype=dtype) != 0)


def test_sums_lie_on_the_grid_and_keep_what_was_there(method):
    grid = 2.0**-10
    start = np.arange(10_000, dtype=np.float64)
    out = start.copy()
    add_normals(out, 0.25, grid, SeededRandomness(0))
    assert np.array_equal(out, np.rint(out / grid) * grid)
    assert stats.kstest((out - start) / 0.25, "norm").pvalue > 1e-7


def test_reaches_beyond_eight_deviations():
    edges, *_ = ziggurat._tables()
    assert edges[1] - np.log(0.5 * 2.0**-53) / edges[1] > 13.7
    assert np.abs(ziggurat._box_muller(np.array([0, 0], dtype=np.uint64))).max() > 8.5


def test_layers_have_equal_areas():
    edges, heights, _, quick = ziggurat._tables()
    assert len(edges) == 257
    assert edges[1] == pytest.approx(3.6541528853610088, abs=1e-12)
    areas = edges[1:-1] * np.diff(heights)[1:]
    assert np.allclose(areas, 0.00492867323399, rtol=1e-9)
    assert heights[-1] == 1
    assert np.all(quick < 2.0**53)
    assert quick[-1] == 0
    assert ziggurat._edges(3.0) is None
    assert ziggurat._edges(3.654152885) is None


def test_compiled_and_interpreted_kernels_agree():
    compiled = ziggurat._compiled()
    assert compiled is not None
    results = []
    for kernels in (compiled, (ziggurat._scan, ziggurat._settle)):
        out = np.zeros(30_000)
        ziggurat._add_ziggurat(out, 2.0, 1.5 * 2.0**52 * FINE, SeededRandomness(5), *kernels)
        results.append(out)
    assert np.allclose(*results, rtol=0, atol=4 * FINE)


def test_waiting_entries_are_settled_before_the_list_is_full(monkeypatch):
    def nothing_settles(words, part, start, std, rounder, *rest):
        *_, index, waiting, pending = rest
        for i in range(len(words)):
            index[pending], waiting[pending] = start + i, words[i]
            pending += 1
        return pending

    _, settle = ziggurat._compiled()
    out = np.zeros(3 * CHUNK + 11)
    ziggurat._add_ziggurat(out, 1.0, 1.5 * 2.0**52 * FINE, SeededRandomness(5), nothing_settles, settle)
    assert np.all(out != 0)


def test_without_numba_there_is_a_way(monkeypatch, fresh_kernels):
    real = builtins.__import__

    def refuse(name, *rest):
        if name == "numba":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert ziggurat._compiled() is None


def test_without_a_folder_for_the_cache_kernels_still_compile(monkeypatch, fresh_kernels):
    import numba

    real = numba.njit

    def njit(*functions, **options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(*functions, **options)

    monkeypatch.setattr(numba, "njit", njit)
    assert ziggurat._compiled() is not None


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
