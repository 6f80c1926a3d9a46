"""Adam on the CPU, in one pass over the parameters of all models."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.compute.compiled import HAS_NUMBA, compiled

Array = NDArray[Any]


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
