"""CPU kernels of networks, compiled by numba: products with sparse records, layers, norms, clipping, Adam, sampling.

Records are CSR (`indptr`, `indices`) and `rows`, the selected row numbers sorted by model: model s has the rows
rows[bounds[s]:bounds[s + 1]]. Parameters are one (k, P) array; a block starts at `offset` in each of its rows: a matrix
(inputs, width), then the bias. Dense arrays are C-contiguous and may be wider than the `width` columns used; `squared`
receives squared norms of rows. `fused.py` has the layers for an accelerator, with the same interface.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.kernels.compiled import HAS_NUMBA, compiled

Array = NDArray[Any]
Csr = tuple[Array, Array, Array]  # indptr, indices, rows
Place = tuple[int, int, int]  # of a block in the parameters: offset, inputs, width

SMALLEST = 2.0**-126  # of float32 with all its digits
STRIP = 512  # records at a time in a sparse outer product, so that their deltas stay in the cache


# -- sparse records -----------------------------------------------------------------------------------------------

# Two-dimensional arrays are indexed by the counter of the loop itself: only then does the compiler know that no index
# is negative, and use vector instructions.


@compiled
def gather(csr: Csr, pointers: Array, out: Array) -> None:
    """Copy the indices of the selected rows, row i to pointers[i] .. pointers[i + 1].

    Scattered rows of a large matrix are slow to read, and a training step reads them four times.
    """
    indptr, indices, rows = csr
    for i in range(len(rows)):
        source = indices[indptr[rows[i]] : indptr[rows[i] + 1]]
        target = out[pointers[i] : pointers[i + 1]]
        for j in range(len(target)):
            target[j] = source[j]


@compiled
def sparse_affine(csr: Csr, bounds: Array, flat: Array, place: Place, out: Array) -> None:
    """out[i] = bias + sum of the matrix rows of record i's items, with the parameters of its model."""
    indptr, indices, rows = csr
    offset, inputs, width = place
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
def sparse_outer(
    csr: Csr, bounds: Array, weights: Array, delta: Array, place: Place, bias: bool, flat: Array
) -> None:
    """Set every model's block to the sum over its records of weight x (record, 1) outer delta."""
    indptr, indices, rows = csr
    offset, inputs, width = place
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
        flat[model, offset : end + bias * width] = 0  # here, so that it is in the cache
        for first in range(bounds[model], bounds[model + 1], STRIP):
            stop = min(first + STRIP, bounds[model + 1])
            # Sort the records of the strip by item: order[ends[a - 1]:ends[a]] have item a.
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


@compiled
def _exp_minus(x: Any) -> Any:
    """exp(-x) in float32 as a pair: the bits of 2^n, and 2^f with f in [0, 1) (relative error below 1e-6).

    Plain arithmetic, so that the compiler vectorises loops of it.
    """
    limit = np.float32(125)
    t = x * np.float32(-1.4426950408889634)
    t = limit if t > limit else t
    t = -limit if t < -limit else t
    n = np.floor(t)
    f = t - n
    power = np.float32(1.3333558e-3) + f * np.float32(1.5403530e-4)
    power = np.float32(5.5504109e-2) + f * (np.float32(9.6181291e-3) + f * power)
    power = np.float32(6.9314718e-1) + f * (np.float32(2.4022651e-1) + f * power)
    return np.int32((np.int32(n) + np.int32(127)) << np.int32(23)), np.float32(1) + f * power


@compiled
def sigmoid_residual(csr: Csr, width: int, logits: Array, squared: Array) -> None:
    """Turn logits[i] (float32) into sigmoid(logits[i]) - record i; squared[i] is its squared norm."""
    indptr, indices, rows = csr
    bits = np.empty(width, dtype=np.int32)
    powers = bits.view(np.float32)
    one = np.float32(1)
    for i in range(len(rows)):
        for j in range(width):
            bits[j], logits[i, j] = _exp_minus(logits[i, j])
        for j in range(width):
            logits[i, j] = one / (one + logits[i, j] * powers[j])
        row = rows[i]
        for at in range(indptr[row], indptr[row + 1]):
            logits[i, indices[at]] -= one
        total = 0.0
        for j in range(width):
            total += np.float64(logits[i, j]) * np.float64(logits[i, j])
        squared[i] = total


@compiled
def subtract_records(csr: Csr, starts: Array, stops: Array, matrix: Array) -> None:
    """matrix[i] -= record i; a softmax block is first multiplied by the number of values that the record has in it.

    That is 1, or 0 if the value is missing: then the block is not part of the record's loss.
    """
    indptr, indices, rows = csr
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


# -- layers, norms, clipping, Adam ---------------------------------------------------------------------------------

# Squares are those of float64 throughout: in float32 they overflow and vanish long before the numbers do, and a norm
# that is too small lets a record exceed its bound.


@compiled
def row_squares(matrix: Array, width: int, out: Array) -> None:
    """out[i] = squared norm of row i."""
    for i in range(matrix.shape[0]):
        total = 0.0
        for j in range(width):
            total += np.float64(matrix[i, j]) * np.float64(matrix[i, j])
        out[i] = total


@compiled
def rectify(values: Array, width: int, squared: Array) -> None:
    """ReLU in place; squared = 1 + squared norms."""
    for i in range(len(squared)):
        line, total = values[i, :width], 1.0
        for j in range(len(line)):
            value = np.float64(line[j] if line[j] > 0 else line[j] * 0)
            line[j] = value
            total += value * value
        squared[i] = total


@compiled
def gate(slopes: Array, values: Array, width: int, squared: Array) -> None:
    """Zero the slopes in place where values are not above 0; squared = their squared norms."""
    for i in range(len(squared)):
        line, source, total = slopes[i, :width], values[i, :width], 0.0
        for j in range(len(line)):
            slope = np.float64(line[j] if source[j] > 0 else line[j] * 0)
            line[j] = slope
            total += slope * slope
        squared[i] = total


@compiled
def reparametrise(heads: Array, draws: Array, latent: int, out: Array, squared: Array) -> None:
    """Latent sample mean + exp(log-variance / 2) x draws of heads (mean, log-variance); squared = 1 + squared norms."""
    for i in range(len(squared)):
        total = 1.0
        for j in range(latent):
            value = heads[i, j] + np.exp(0.5 * heads[i, latent + j]) * draws[i, j]
            out[i, j] = value
            total += value * value
        squared[i] = total


@compiled
def latent_delta(slopes: Array, heads: Array, draws: Array, latent: int, out: Array, squared: Array) -> None:
    """Gradient of loss + KL divergence at the heads, from the slopes at the latent sample."""
    for i in range(len(squared)):
        total = 0.0
        for j in range(latent):
            spread = np.exp(0.5 * heads[i, latent + j])
            mean_part = np.float64(slopes[i, j] + heads[i, j])
            variance_part = 0.5 * (slopes[i, j] * draws[i, j] * spread + spread * spread - 1)
            out[i, j] = mean_part
            out[i, latent + j] = variance_part
            total += mean_part * mean_part + variance_part * variance_part
        squared[i] = total


@compiled
def bin_norms(squared: Array, edges: Array, norms: Array, counts: Array) -> int:
    """Norms, and the number of finite ones in each bin (edges[j - 1], edges[j]]; returns how many are finite."""
    usable = 0
    for i in range(len(squared)):
        norm = np.sqrt(squared[i])
        norms[i] = norm
        if np.isfinite(norm):
            usable += 1
            low, high = 0, len(edges)
            while low < high:
                middle = (low + high) // 2
                if edges[middle] < norm:
                    low = middle + 1
                else:
                    high = middle
            counts[low] += 1
    return usable


@compiled
def clip_weights(norms: Array, bound: float, out: Array) -> None:
    """Factors that scale every gradient to a norm of at most `bound`.

    0 where the norm is not finite, or so large that float32 could not hold the factor to its last digit.
    """
    for i in range(len(norms)):
        weight = min(bound / norms[i], 1.0)
        out[i] = weight if np.isfinite(norms[i]) and weight >= SMALLEST else 0.0


@compiled
def weigh(values: Array, width: int, weights: Array, out: Array) -> None:
    """out[i] = values[i] * weights[i]; what float32 cannot hold to its last digit becomes 0, never more than it was."""
    for i in range(len(weights)):
        for j in range(width):
            value = values[i, j] * weights[i]
            out[i, j] = value if abs(value) >= SMALLEST else value * 0


@compiled
def _adam(
    p: Array,
    g: Array,
    m: Array,
    v: Array,
    scale: float,
    rate: float,
    beta1: float,
    beta2: float,
    tiny: float,
    correction: float,
) -> None:
    kind = p.dtype.type
    b1, c1, b2, c2 = kind(beta1), kind(1 - beta1), kind(beta2), kind(1 - beta2)
    step, root, small, by = kind(rate), kind(1 / np.sqrt(correction)), kind(tiny), kind(scale)
    for j in range(len(p)):
        slope = g[j] * by
        m[j] = b1 * m[j] + c1 * slope
        v[j] = b2 * v[j] + c2 * slope * slope
        p[j] -= step * m[j] / (np.sqrt(v[j]) * root + small)


def adam(
    parameters: Array,
    gradients: Array,
    first: Array,
    second: Array,
    scales: Array,
    *,
    rate: float,
    beta1: float,
    beta2: float,
    tiny: float,
    step: int,
) -> None:
    """One Adam step in place on (k, P) arrays; gradients of model s are multiplied by scales[s].

    Each row must be contiguous; there may be padding between rows.
    """
    corrected = rate / (1 - beta1**step)
    # The last model first: noise was added to its gradient last, which may still be in the cache.
    for model in reversed(range(len(parameters))):
        p, g, m, v = parameters[model], gradients[model], first[model], second[model]
        _adam(p, g, m, v, float(scales[model]), corrected, beta1, beta2, tiny, 1 - beta2**step)


# -- sampling ------------------------------------------------------------------------------------------------------


@compiled
def _draw_rows(
    logits: Array, starts: Array, stops: Array, chosen: Array, keys: Array, indices: Array, lengths: Array
) -> int:
    width = logits.shape[1]
    bits = np.empty(width, dtype=np.int32)
    powers = bits.view(np.float32)
    present = np.zeros(width, dtype=np.uint8)
    one = np.float32(1)
    written = 0
    for i in range(len(logits)):
        low, high = np.uint32(keys[i] & 0xFFFFFFFF), np.uint32((keys[i] >> 32) & 0xFFFFFFFF)
        for block in range(len(starts)):
            first = starts[block]
            line, here = logits[i, first : stops[block]], present[first : stops[block]]
            for j in range(len(line)):
                bits[j], line[j] = _exp_minus(line[j])
            for j in range(len(line)):
                # A counter-based hash (two rounds of 32-bit mixing, 64-bit key per row) gives a uniform word; item j
                # is present if word < 2^32 sigmoid(logit).
                word = np.uint32(np.uint32(first + j) * np.uint32(0x9E3779B9)) ^ low
                word = np.uint32((word ^ (word >> np.uint32(16))) * np.uint32(0x7FEB352D))
                word = np.uint32((word ^ (word >> np.uint32(15))) * np.uint32(0x846CA68B))
                word = np.uint32((word ^ (word >> np.uint32(16))) + high)
                word = np.uint32((word ^ (word >> np.uint32(16))) * np.uint32(0x21F0AAAD))
                word = np.uint32((word ^ (word >> np.uint32(15))) * np.uint32(0xD35A2D97))
                word = np.uint32(word ^ (word >> np.uint32(15)))
                threshold = np.float32(4294967296.0) / (one + line[j] * powers[j])
                here[j] = np.float32(word) < threshold
        for block in range(chosen.shape[1]):
            present[chosen[i, block]] = 1
        before = written
        for j in range(width):
            indices[written] = j
            written += present[j]
        for block in range(chosen.shape[1]):
            present[chosen[i, block]] = 0
        lengths[i] = written - before
    return written


def draw_rows(
    logits: Array, starts: Array, stops: Array, chosen: Array, keys: Array
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Draw binary rows from logits, as CSR indices and row lengths.

    Columns [starts[b], stops[b]) are independent Bernoulli; chosen[i] lists the other columns that are set in row i
    (one of each softmax block). `keys` are 64 random bits per row. Overwrites `logits` (float32).
    """
    lengths = np.empty(len(logits), dtype=np.int64)
    if HAS_NUMBA:
        indices = np.empty(logits.size + 1, dtype=np.int32)
        written = _draw_rows(logits, starts, stops, chosen, keys, indices, lengths)
        return indices[:written].copy(), lengths
    present = np.zeros(logits.shape, dtype=bool)
    uniform = np.random.Generator(np.random.Philox(int(keys[0]) & (2**63 - 1) if len(keys) else 0))
    for start, stop in zip(starts, stops, strict=True):
        odds = np.exp(-np.clip(logits[:, start:stop], -80, 80))
        present[:, start:stop] = uniform.random((len(logits), stop - start)) * (1 + odds) < 1
    np.put_along_axis(present, chosen, True, axis=1)
    where, columns = np.nonzero(present)
    return columns.astype(np.int32), np.bincount(where, minlength=len(logits))
