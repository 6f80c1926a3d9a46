"""The compiled kernels against their plain numpy versions."""

import numpy as np
import pytest

from dpgm.compute import draw_kernels, layer_kernels, sparse_kernels
from dpgm.mechanisms.norm_bound import norm_edges, norm_histogram
from model_references import MIXED, SETS, random_records


def both(monkeypatch, call):
    """The result of a call with and without numba."""
    with_numba = call()
    for module in (draw_kernels, layer_kernels, sparse_kernels):
        monkeypatch.setattr(module, "HAS_NUMBA", False)
    return with_numba, call()


ROWS = np.array([3, 1, 7, 8, 2, 0, 9])
BOUNDS = np.array([0, 2, 2, 7])


@pytest.mark.parametrize("scipy", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_sparse_products_agree_with_dense_ones(monkeypatch, scipy, bias):
    if not scipy:
        monkeypatch.setitem(__import__("sys").modules, "scipy.sparse", None)
    records = random_records(SETS, 10)
    rng = np.random.default_rng(0)
    width, inputs, offset = 6, records.width, 5
    flat = rng.standard_normal((3, offset + (inputs + 1) * width + 2))
    weights, delta = rng.random(7), rng.standard_normal((7, width + 3))
    dense, model = records.to_dense(np.float64)[ROWS], np.array([0, 0, 2, 2, 2, 2, 2])

    def affine():
        out = np.zeros((7, width + 3))
        sparse_kernels.sparse_affine(
            records.indptr, records.indices, ROWS, BOUNDS, flat, offset, inputs, width, out
        )
        return out[:, :width]

    def outer():
        out = np.zeros_like(flat)
        sparse_kernels.sparse_outer(
            records.indptr, records.indices, ROWS, BOUNDS, weights, delta, width, bias, offset, inputs, out
        )
        return out

    matrix = flat[:, offset:-2].reshape(3, inputs + 1, width)
    wanted = np.einsum("ij,ijk->ik", dense, matrix[model, :inputs]) + matrix[model, inputs]
    sums = np.zeros_like(flat)
    for i in range(7):
        one = np.append(dense[i], 1.0 if bias else 0.0)
        sums[model[i], offset:-2] += weights[i] * np.outer(one, delta[i, :width]).reshape(-1)
    results = both(monkeypatch, lambda: (affine(), outer()))
    for product, summed in results:
        assert np.allclose(product, wanted, atol=1e-12)
        assert np.allclose(summed, sums, atol=1e-12)


def test_gathered_rows_are_the_rows(monkeypatch):
    records = random_records(SETS, 10)
    lengths = records.lengths[ROWS]
    pointers = np.concatenate([[0], np.cumsum(lengths)])
    out = np.zeros(pointers[-1], dtype=records.indices.dtype)
    assert sparse_kernels.gather(records.indptr, records.indices, ROWS, pointers, out)
    assert np.array_equal(out, records.take(ROWS).indices)
    monkeypatch.setattr(sparse_kernels, "HAS_NUMBA", False)
    assert not sparse_kernels.gather(records.indptr, records.indices, ROWS, pointers, out)


def test_the_fused_residual_is_sigmoid_minus_record():
    records = random_records(SETS, 10)
    logits = np.linspace(-60, 60, 7 * 24, dtype=np.float32).reshape(7, 24).copy()
    wanted = 1 / (1 + np.exp(-logits[:, :23].astype(np.float64))) - records.to_dense(np.float64)[ROWS]
    squared = np.zeros(7)
    assert sparse_kernels.sigmoid_residual(records.indptr, records.indices, ROWS, 23, logits, squared)
    assert np.allclose(logits[:, :23], wanted, rtol=5e-6, atol=2e-7)
    assert np.allclose(squared, (wanted**2).sum(1), rtol=1e-5)
    assert not sparse_kernels.sigmoid_residual(
        records.indptr, records.indices, ROWS, 23, logits.astype(float), squared
    )


def test_a_softmax_block_without_a_value_says_nothing(monkeypatch):
    records = random_records(MIXED, 10)
    starts, stops = np.array([9, 13, 24]), np.array([13, 18, 25])

    def residual():
        matrix = np.full((7, MIXED.width), 0.5)
        sparse_kernels.subtract_records(records.indptr, records.indices, ROWS, starts, stops, matrix)
        return matrix

    dense = records.to_dense(np.float64)[ROWS]
    for got in both(monkeypatch, residual):
        assert np.all(got[5, 9:18] == 0)  # row 0 holds nothing at all
        assert np.allclose(got[0, 9:18], 0.5 - dense[0, 9:18])
        assert np.allclose(got[:, :9], 0.5 - dense[:, :9])


def test_squared_norms_stay_accurate_on_wide_rows(monkeypatch):
    wide = np.full((2, 100_000), 0.1, dtype=np.float32)
    for got in both(monkeypatch, lambda: _squares(wide)):
        assert np.allclose(got, 100_000 * float(np.float32(0.1)) ** 2, rtol=1e-6)


def _squares(matrix):
    out = np.zeros(len(matrix))
    layer_kernels.row_squares(matrix, matrix.shape[1], out)
    return out


def test_norms_are_binned_as_the_mechanism_says(monkeypatch):
    edges = norm_edges(24)
    norms = np.concatenate([edges.numpy(), edges.numpy() * 1.01, [0.0, 1e9, np.nan, np.inf, 1e-20]])

    def counted():
        found, counts = np.zeros(len(norms)), np.zeros(24, dtype=np.int64)
        usable = layer_kernels.bin_norms(norms**2, edges.numpy(), found, counts)
        return usable, counts

    for usable, counts in both(monkeypatch, counted):
        assert usable == len(norms) - 2
        assert np.array_equal(counts, norm_histogram(np.sqrt(norms**2), edges).numpy())
