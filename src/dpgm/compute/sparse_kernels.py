"""CPU kernels on sparse records: products with a matrix, outer products, differences from probabilities.

Compiled by numba where it is installed; without it the same functions run on numpy (and scipy where there is one),
slower. Records come as CSR (`indptr`, `indices`) and `rows`, the row numbers wanted, sorted by model: model s owns
rows[bounds[s]:bounds[s + 1]]. Parameters are one (k, P) array; a block of it starts at `offset` in every row of it: a
matrix (inputs, width), then the bias. Dense arrays are C-contiguous and may be wider than the `width` columns used.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.compute.compiled import HAS_NUMBA, compiled

Array = NDArray[Any]

STRIP = 512  # records at a time in a sparse outer product: their deltas stay in the cache


# Rows of two-dimensional arrays indexed by a loop's own counter: only then does the compiler know that no index is
# negative, and use vector instructions.


@compiled
def _gather(indptr: Array, indices: Array, rows: Array, pointers: Array, out: Array) -> None:
    for i in range(len(rows)):
        source = indices[indptr[rows[i]] : indptr[rows[i] + 1]]
        target = out[pointers[i] : pointers[i + 1]]
        for j in range(len(target)):
            target[j] = source[j]


def gather(indptr: Array, indices: Array, rows: Array, pointers: Array, out: Array) -> bool:
    """The wanted rows' indices side by side, row i from pointers[i] to pointers[i + 1]; False without numba.

    Rows of a large matrix in another order than its own are slow to read, and a training step reads them four times.
    """
    if HAS_NUMBA:
        _gather(indptr, indices, rows, pointers, out)
    return HAS_NUMBA


@compiled
def _sparse_affine(
    indptr: Array,
    indices: Array,
    rows: Array,
    bounds: Array,
    flat: Array,
    offset: int,
    inputs: int,
    width: int,
    out: Array,
) -> None:
    end = offset + inputs * width
    for model in range(len(bounds) - 1):
        matrix = flat[model, offset:end].reshape(inputs, width)
        bias = flat[model, end : end + width]
        for i in range(bounds[model], bounds[model + 1]):
            for j in range(width):
                out[i, j] = bias[j]
            at, stop = indptr[rows[i]], indptr[rows[i] + 1]
            # Eight items at a time: one pass over the target for eight rows of the matrix.
            while at + 8 <= stop:
                a, b, c, d = indices[at], indices[at + 1], indices[at + 2], indices[at + 3]
                e, f, g, h = indices[at + 4], indices[at + 5], indices[at + 6], indices[at + 7]
                for j in range(width):
                    out[i, j] += ((matrix[a, j] + matrix[b, j]) + (matrix[c, j] + matrix[d, j])) + (
                        (matrix[e, j] + matrix[f, j]) + (matrix[g, j] + matrix[h, j])
                    )
                at += 8
            while at + 2 <= stop:
                a, b = indices[at], indices[at + 1]
                for j in range(width):
                    out[i, j] += matrix[a, j] + matrix[b, j]
                at += 2
            if at < stop:
                a = indices[at]
                for j in range(width):
                    out[i, j] += matrix[a, j]


@compiled
def _sparse_outer(
    indptr: Array,
    indices: Array,
    rows: Array,
    bounds: Array,
    weights: Array,
    delta: Array,
    width: int,
    bias: bool,
    offset: int,
    inputs: int,
    flat: Array,
) -> None:
    end = offset + inputs * width
    ends = np.empty(inputs + 1, dtype=np.int64)
    most = 0
    for model in range(len(bounds) - 1):
        for first in range(bounds[model], bounds[model + 1], STRIP):
            entries = 0
            for i in range(first, min(first + STRIP, bounds[model + 1])):
                entries += indptr[rows[i] + 1] - indptr[rows[i]]
            most = max(most, entries)
    order = np.empty(most, dtype=np.int32)
    for model in range(len(bounds) - 1):
        matrix = flat[model, offset:end].reshape(inputs, width)
        last = flat[model, end : end + bias * width]
        flat[model, offset : end + bias * width] = 0  # here, where it stays in the cache
        for first in range(bounds[model], bounds[model + 1], STRIP):
            stop = min(first + STRIP, bounds[model + 1])
            # The strip's records by item: order[ends[a - 1]:ends[a]] have item a.
            ends[:] = 0
            for i in range(first, stop):
                if weights[i] != 0:
                    for at in range(indptr[rows[i]], indptr[rows[i] + 1]):
                        ends[indices[at] + 1] += 1
            for a in range(inputs):
                ends[a + 1] += ends[a]
            for i in range(first, stop):
                if weights[i] != 0:
                    for at in range(indptr[rows[i]], indptr[rows[i] + 1]):
                        a = indices[at]
                        order[ends[a]] = i
                        ends[a] += 1
            # Eight records at a time: one pass over a row of the matrix for eight of them.
            at = 0
            for a in range(inputs):
                while at + 8 <= ends[a]:
                    r0, r1, r2, r3 = order[at], order[at + 1], order[at + 2], order[at + 3]
                    r4, r5, r6, r7 = order[at + 4], order[at + 5], order[at + 6], order[at + 7]
                    w0, w1, w2, w3 = weights[r0], weights[r1], weights[r2], weights[r3]
                    w4, w5, w6, w7 = weights[r4], weights[r5], weights[r6], weights[r7]
                    for j in range(width):
                        matrix[a, j] += (
                            (w0 * delta[r0, j] + w1 * delta[r1, j]) + (w2 * delta[r2, j] + w3 * delta[r3, j])
                        ) + ((w4 * delta[r4, j] + w5 * delta[r5, j]) + (w6 * delta[r6, j] + w7 * delta[r7, j]))
                    at += 8
                while at + 2 <= ends[a]:
                    r0, r1 = order[at], order[at + 1]
                    w0, w1 = weights[r0], weights[r1]
                    for j in range(width):
                        matrix[a, j] += w0 * delta[r0, j] + w1 * delta[r1, j]
                    at += 2
                if at < ends[a]:
                    r0 = order[at]
                    w0 = weights[r0]
                    for j in range(width):
                        matrix[a, j] += w0 * delta[r0, j]
                    at += 1
            if bias:
                for i in range(first, stop):
                    weight = weights[i]
                    if weight != 0:
                        for j in range(width):
                            last[j] += weight * delta[i, j]


def sparse_affine(
    indptr: Array,
    indices: Array,
    rows: Array,
    bounds: Array,
    flat: Array,
    offset: int,
    inputs: int,
    width: int,
    out: Array,
) -> None:
    """out[i] = bias + sum of the matrix rows of record i's items, with the parameters of its model."""
    if HAS_NUMBA:
        _sparse_affine(indptr, indices, rows, bounds, flat, offset, inputs, width, out)
        return
    for model, (start, stop) in enumerate(pairwise(bounds.tolist())):
        if stop > start:
            block = flat[model, offset : offset + (inputs + 1) * width].reshape(inputs + 1, width)
            matrix = _matrix(indptr, indices, rows[start:stop], inputs, flat.dtype)
            out[start:stop, :width] = matrix @ block[:inputs] + block[inputs]


def sparse_outer(
    indptr: Array,
    indices: Array,
    rows: Array,
    bounds: Array,
    weights: Array,
    delta: Array,
    width: int,
    bias: bool,
    offset: int,
    inputs: int,
    flat: Array,
) -> None:
    """Every model's block becomes the sum over its records of weight x (1, record) outer delta."""
    if HAS_NUMBA:
        _sparse_outer(indptr, indices, rows, bounds, weights, delta, width, bias, offset, inputs, flat)
        return
    for model, (start, stop) in enumerate(pairwise(bounds.tolist())):
        used = np.arange(start, stop)[weights[start:stop] != 0]
        scaled = weights[used, None] * delta[used, :width]
        end = offset + inputs * width
        if bias:
            flat[model, end : end + width] = scaled.sum(axis=0)
        product = _matrix(indptr, indices, rows[used], inputs, flat.dtype).T @ scaled
        flat[model, offset:end] = np.asarray(product).reshape(-1)


def _matrix(indptr: Array, indices: Array, rows: Array, width: int, dtype: Any) -> Any:
    """The wanted rows as a scipy CSR matrix, or dense where scipy is missing."""
    starts, lengths = indptr[rows], indptr[rows + 1] - indptr[rows]
    pointers = np.concatenate([[0], np.cumsum(lengths)])
    where = np.arange(pointers[-1]) + np.repeat(starts - pointers[:-1], lengths)
    try:
        from scipy.sparse import csr_matrix
    except ImportError:
        dense = np.zeros((len(rows), width), dtype=dtype)
        dense[np.repeat(np.arange(len(rows)), lengths), indices[where]] = 1
        return dense
    return csr_matrix((np.ones(len(where), dtype), indices[where].astype(np.int32), pointers), (len(rows), width))


@compiled
def _sigmoid_residual(
    indptr: Array, indices: Array, rows: Array, width: int, logits: Array, squared: Array
) -> None:
    bits = np.empty(width, dtype=np.int32)
    powers = bits.view(np.float32)
    one, limit = np.float32(1), np.float32(125)
    for i in range(len(rows)):
        # exp(-x) = 2^n 2^f, by the exponent bits and a polynomial of degree 6 (relative error below 1e-6):
        # plain arithmetic, so that the compiler turns it into vector instructions.
        for j in range(width):
            t = logits[i, j] * np.float32(-1.4426950408889634)
            t = limit if t > limit else t
            t = -limit if t < -limit else t
            n = np.floor(t)
            f = t - n
            bits[j] = np.int32((np.int32(n) + np.int32(127)) << np.int32(23))
            logits[i, j] = one + f * (
                np.float32(6.9314718e-1)
                + f
                * (
                    np.float32(2.4022651e-1)
                    + f
                    * (
                        np.float32(5.5504109e-2)
                        + f
                        * (np.float32(9.6181291e-3) + f * (np.float32(1.3333558e-3) + f * np.float32(1.5403530e-4)))
                    )
                )
            )
        for j in range(width):
            logits[i, j] = one / (one + logits[i, j] * powers[j])
        row = rows[i]
        for at in range(indptr[row], indptr[row + 1]):
            logits[i, indices[at]] -= one
        total = 0.0
        for start in range(0, width, 512):
            line = logits[i, start : min(start + 512, width)]
            part = np.float32(0)
            for j in range(len(line)):
                part += line[j] * line[j]
            total += float(part)
        squared[i] = total


@compiled
def _subtract_records(
    indptr: Array, indices: Array, rows: Array, starts: Array, stops: Array, matrix: Array
) -> None:
    for i in range(len(rows)):
        at, stop = indptr[rows[i]], indptr[rows[i] + 1]
        for block in range(len(starts)):
            while at < stop and indices[at] < starts[block]:
                at += 1
            first = at
            while at < stop and indices[at] < stops[block]:
                at += 1
            if at - first != 1:
                for j in range(starts[block], stops[block]):
                    matrix[i, j] *= at - first
        for at in range(indptr[rows[i]], stop):
            matrix[i, indices[at]] -= 1


def sigmoid_residual(indptr: Array, indices: Array, rows: Array, width: int, logits: Array, squared: Array) -> bool:
    """logits[i] becomes sigmoid(logits[i]) - record i, squared[i] its squared norm, in one pass.

    Only in float32 and with numba; otherwise nothing is done and False returned.
    """
    if not HAS_NUMBA or logits.dtype != np.float32:
        return False
    _sigmoid_residual(indptr, indices, rows, width, logits, squared)
    return True


def subtract_records(
    indptr: Array, indices: Array, rows: Array, starts: Array, stops: Array, matrix: Array
) -> None:
    """matrix[i] -= record i; columns of a softmax block first count as often as the record has a value in it.

    That is once, or not at all where the value is missing: then the block says nothing about the record.
    """
    if HAS_NUMBA:
        _subtract_records(indptr, indices, rows, starts, stops, matrix)
        return
    dense = np.asarray(_matrix(indptr, indices, rows, matrix.shape[1], matrix.dtype) @ np.eye(matrix.shape[1]))
    for start, stop in zip(starts, stops, strict=True):
        matrix[:, start:stop] *= dense[:, start:stop].sum(axis=1, keepdims=True)
    matrix -= dense
