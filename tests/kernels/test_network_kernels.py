"""The compiled kernels of networks compared with plain numpy."""

import numpy as np
import pytest

from dpgm.kernels import network_kernels
from dpgm.mechanisms.norm_bound import norm_edges, norm_histogram
from model_references import MIXED, SETS, random_records

ROWS = np.array([3, 1, 7, 8, 2, 0, 9])
BOUNDS = np.array([0, 2, 2, 7])


def csr_of(records):
    return records.indptr, records.indices, ROWS


@pytest.mark.parametrize("bias", [True, False])
def test_sparse_products_agree_with_dense_ones(bias):
    records = random_records(SETS, 10)
    rng = np.random.default_rng(0)
    width, inputs, offset = 6, records.width, 5
    flat = rng.standard_normal((3, offset + (inputs + 1) * width + 2))
    weights, delta = rng.random(7), rng.standard_normal((7, width + 3))
    dense, model = records.to_dense(np.float64)[ROWS], np.array([0, 0, 2, 2, 2, 2, 2])

    product, summed = np.zeros((7, width + 3)), np.zeros_like(flat)
    place = (offset, inputs, width)
    network_kernels.sparse_affine(csr_of(records), BOUNDS, flat, place, product)
    network_kernels.sparse_outer(csr_of(records), BOUNDS, weights, delta, place, bias, summed)
    matrix = flat[:, offset:-2].reshape(3, inputs + 1, width)
    expected = np.einsum("ij,ijk->ik", dense, matrix[model, :inputs]) + matrix[model, inputs]
    sums = np.zeros_like(flat)
    for i in range(7):
        one = np.append(dense[i], 1.0 if bias else 0.0)
        sums[model[i], offset:-2] += weights[i] * np.outer(one, delta[i, :width]).reshape(-1)
    assert np.allclose(product[:, :width], expected, atol=1e-12)
    assert np.allclose(summed, sums, atol=1e-12)


def test_gathered_rows_are_the_rows():
    records = random_records(SETS, 10)
    pointers = np.concatenate([[0], np.cumsum(records.lengths[ROWS])])
    out = np.zeros(pointers[-1], dtype=records.indices.dtype)
    network_kernels.gather(csr_of(records), pointers, out)
    assert np.array_equal(out, records.take(ROWS).indices)


def test_the_fused_residual_is_sigmoid_minus_record():
    records = random_records(SETS, 10)
    logits = np.linspace(-60, 60, 7 * 24, dtype=np.float32).reshape(7, 24).copy()
    expected = 1 / (1 + np.exp(-logits[:, :23].astype(np.float64))) - records.to_dense(np.float64)[ROWS]
    squared = np.zeros(7)
    network_kernels.sigmoid_residual(csr_of(records), 23, logits, squared)
    assert np.allclose(logits[:, :23], expected, rtol=5e-6, atol=2e-7)
    assert np.allclose(squared, (expected**2).sum(1), rtol=1e-5)


def test_a_softmax_block_without_a_value_has_no_gradient():
    records = random_records(MIXED, 10)
    starts, stops = np.array([9, 13, 24]), np.array([13, 18, 25])
    got = np.full((7, MIXED.width), 0.5)
    network_kernels.subtract_records(csr_of(records), starts, stops, got)
    dense = records.to_dense(np.float64)[ROWS]
    assert np.all(got[5, 9:18] == 0)  # record 0 is empty
    assert np.allclose(got[0, 9:18], 0.5 - dense[0, 9:18])
    assert np.allclose(got[:, :9], 0.5 - dense[:, :9])


def test_squared_norms_stay_accurate_on_wide_rows():
    wide, out = np.full((2, 100_000), 0.1, dtype=np.float32), np.zeros(2)
    network_kernels.row_squares(wide, wide.shape[1], out)
    assert np.allclose(out, 100_000 * float(np.float32(0.1)) ** 2, rtol=1e-6)


def test_norms_are_binned_as_the_mechanism_says():
    edges = norm_edges(24)
    norms = np.concatenate([edges.numpy(), edges.numpy() * 1.01, [0.0, 1e9, np.nan, np.inf, 1e-20]])
    found, counts = np.zeros(len(norms)), np.zeros(24, dtype=np.int64)
    assert network_kernels.bin_norms(norms**2, edges.numpy(), found, counts) == len(norms) - 2
    assert np.array_equal(counts, norm_histogram(np.sqrt(norms**2), edges).numpy())
