"""CPU kernels of a network's layers, of gradient norms, of clipping and of Adam, compiled by numba.

Arrays may be wider than the `width` columns used; `squared` receives squared norms of rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.compute.compiled import compiled

Array = NDArray[Any]


@compiled
def row_squares(matrix: Array, width: int, out: Array) -> None:
    """out[i] = squared norm of row i, summed in parts so that float32 stays accurate on wide rows."""
    for i in range(matrix.shape[0]):
        total = 0.0
        for start in range(0, width, 512):
            line = matrix[i, start : min(start + 512, width)]
            part = line[0] * line[0]
            for j in range(1, len(line)):
                part += line[j] * line[j]
            total += float(part)
        out[i] = total


@compiled
def rectify(values: Array, width: int, squared: Array) -> None:
    """Set negative values to zero in place; squared = 1 + squared norms."""
    for i in range(len(squared)):
        line = values[i, :width]
        part = line[0] * 0
        for j in range(len(line)):
            value = line[j] if line[j] > 0 else line[j] * 0
            line[j] = value
            part += value * value
        squared[i] = 1 + part


@compiled
def gate(slopes: Array, values: Array, width: int, squared: Array) -> None:
    """Zero the slopes in place where values are not above 0."""
    for i in range(len(squared)):
        line, source = slopes[i, :width], values[i, :width]
        part = line[0] * 0
        for j in range(len(line)):
            slope = line[j] if source[j] > 0 else line[j] * 0
            line[j] = slope
            part += slope * slope
        squared[i] = part


@compiled
def reparametrise(heads: Array, draws: Array, latent: int, out: Array, squared: Array) -> None:
    """Latent sample mean + exp(log-variance / 2) x draws of heads (mean, log-variance); squared = 1 + its squares."""
    for i in range(len(squared)):
        total = 1.0
        for j in range(latent):
            value = heads[i, j] + np.exp(0.5 * heads[i, latent + j]) * draws[i, j]
            out[i, j] = value
            total += value * value
        squared[i] = total


@compiled
def latent_delta(slopes: Array, heads: Array, draws: Array, latent: int, out: Array, squared: Array) -> None:
    """Gradient of loss + KL at the heads, from the slopes at the latent sample."""
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


@compiled
def bin_norms(squared: Array, edges: Array, norms: Array, counts: Array) -> int:
    """Norms, and how many finite ones lie in each bin (edges[j - 1], edges[j]]; returns how many are finite."""
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
    """What scales every gradient to a norm of at most `bound`; 0 where the norm is not finite."""
    for i in range(len(norms)):
        weight = min(bound / norms[i], 1.0)
        out[i] = weight if np.isfinite(norms[i]) else 0.0


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
    """One Adam step in place on (k, P) arrays, gradients of model s times scales[s].

    The rows must be contiguous, but may lie apart.
    """
    corrected = rate / (1 - beta1**step)
    # The last model first: its gradient has got its noise last and may still be in the cache.
    for model in reversed(range(len(parameters))):
        p, g, m, v = parameters[model], gradients[model], first[model], second[model]
        _adam(p, g, m, v, float(scales[model]), corrected, beta1, beta2, tiny, 1 - beta2**step)
