"""CPU kernels of a network's layers, of gradient norms, of clipping and of Adam. Arrays may be wider than `width`.

Those that return a bool do nothing and return False without numba; the others then use numpy.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.compute.compiled import HAS_NUMBA, compiled

Array = NDArray[Any]


@compiled
def _row_squares(matrix: Array, width: int, out: Array) -> None:
    for i in range(matrix.shape[0]):
        total = 0.0
        for start in range(0, width, 512):
            line = matrix[i, start : min(start + 512, width)]
            part = line[0] * line[0]
            for j in range(1, len(line)):
                part += line[j] * line[j]
            total += float(part)
        out[i] = total


def row_squares(matrix: Array, width: int, out: Array) -> None:
    """out[i] = squared norm of row i, summed in parts so that float32 stays accurate on wide rows."""
    if HAS_NUMBA:
        _row_squares(matrix, width, out)
    else:
        used = matrix[:, :width]
        out[:] = np.einsum("ij,ij->i", used, used, dtype=np.float64)


@compiled
def _rectify(values: Array, width: int, squared: Array) -> None:
    for i in range(len(squared)):
        line = values[i, :width]
        part = line[0] * 0
        for j in range(len(line)):
            value = line[j] if line[j] > 0 else line[j] * 0
            line[j] = value
            part += value * value
        squared[i] = 1 + part


@compiled
def _gate(slopes: Array, values: Array, width: int, squared: Array) -> None:
    for i in range(len(squared)):
        line, source = slopes[i, :width], values[i, :width]
        part = line[0] * 0
        for j in range(len(line)):
            slope = line[j] if source[j] > 0 else line[j] * 0
            line[j] = slope
            part += slope * slope
        squared[i] = part


@compiled
def _reparametrise(heads: Array, draws: Array, latent: int, out: Array, squared: Array) -> None:
    for i in range(len(squared)):
        total = 1.0
        for j in range(latent):
            value = heads[i, j] + np.exp(0.5 * heads[i, latent + j]) * draws[i, j]
            out[i, j] = value
            total += value * value
        squared[i] = total


@compiled
def _latent_delta(slopes: Array, heads: Array, draws: Array, latent: int, out: Array, squared: Array) -> None:
    for i in range(len(squared)):
        total = 0.0
        for j in range(latent):
            spread = np.exp(0.5 * heads[i, latent + j])
            mean_part = slopes[i, j] + heads[i, j]
            variance_part = 0.5 * (slopes[i, j] * draws[i, j] * spread + spread * spread - 1)
            out[i, j] = mean_part
            out[i, latent + j] = variance_part
            total += mean_part * mean_part + variance_part * variance_part
        squared[i] = total


def reparametrise(heads: Array, draws: Array, latent: int, out: Array, squared: Array) -> bool:
    """Latent sample mean + exp(log-variance / 2) x draws of heads (mean, log-variance); 1 + its squares."""
    if HAS_NUMBA:
        _reparametrise(heads, draws, latent, out, squared)
    return HAS_NUMBA


def latent_delta(slopes: Array, heads: Array, draws: Array, latent: int, out: Array, squared: Array) -> bool:
    """Gradient of loss + KL at the heads, from the slopes at the latent sample; squared norms."""
    if HAS_NUMBA:
        _latent_delta(slopes, heads, draws, latent, out, squared)
    return HAS_NUMBA


@compiled
def _bin_norms(squared: Array, edges: Array, norms: Array, counts: Array) -> int:
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
def _clip_weights(norms: Array, bound: float, out: Array) -> None:
    for i in range(len(norms)):
        weight = min(bound / norms[i], 1.0)
        out[i] = weight if np.isfinite(norms[i]) else 0.0


def clip_weights(norms: Array, bound: float, out: Array) -> bool:
    """What scales every gradient to a norm of at most `bound`, 0 where it is not finite; False without numba."""
    if HAS_NUMBA:
        _clip_weights(norms, bound, out)
    return HAS_NUMBA


def rectify(values: Array, width: int, squared: Array) -> bool:
    """Set negative values to zero in place, squared[i] = 1 + squared norm of row i; False without numba."""
    if HAS_NUMBA:
        _rectify(values, width, squared)
    return HAS_NUMBA


def gate(slopes: Array, values: Array, width: int, squared: Array) -> bool:
    """Zero the slopes where values are not above 0, squared[i] = squared norm of row i; False without numba."""
    if HAS_NUMBA:
        _gate(slopes, values, width, squared)
    return HAS_NUMBA


def bin_norms(squared: Array, edges: Array, norms: Array, counts: Array) -> int:
    """Norms, and how many finite ones lie in each bin (edges[j - 1], edges[j]]; returns how many are finite."""
    if HAS_NUMBA:
        return int(_bin_norms(squared, edges, norms, counts))
    norms[:] = np.sqrt(squared)
    usable = np.isfinite(norms)
    counts += np.bincount(np.searchsorted(edges, norms[usable]), minlength=len(counts))
    return int(usable.sum())


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
) -> bool:
    """One Adam step in place on (k, P) arrays, gradients of model s times scales[s]; False without numba.

    The rows must be contiguous, but may lie apart.
    """
    if not HAS_NUMBA:
        return False
    corrected = rate / (1 - beta1**step)
    # The last model first: its gradient has got its noise last and may still be in the cache.
    for model in reversed(range(len(parameters))):
        p, g, m, v = parameters[model], gradients[model], first[model], second[model]
        _adam(p, g, m, v, float(scales[model]), corrected, beta1, beta2, tiny, 1 - beta2**step)
    return True
