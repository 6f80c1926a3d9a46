"""Adam on the CPU, in one pass over the parameters of all models."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.compute.compiled import HAS_NUMBA, compiled

Array = NDArray[Any]


@compiled
def _adam(
    parameters: Array,
    gradients: Array,
    first: Array,
    second: Array,
    scales: Array,
    rate: float,
    beta1: float,
    beta2: float,
    tiny: float,
    correction: float,
) -> None:
    kind = parameters.dtype.type
    b1, c1, b2, c2 = kind(beta1), kind(1 - beta1), kind(beta2), kind(1 - beta2)
    step, root, small = kind(rate), kind(1 / np.sqrt(correction)), kind(tiny)
    for model in range(parameters.shape[0]):
        p, g, m, v = parameters[model], gradients[model], first[model], second[model]
        scale = kind(scales[model])
        for j in range(len(p)):
            slope = g[j] * scale
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
    """One Adam step in place on (k, P) arrays, gradients of model s times scales[s]; False without numba."""
    if not HAS_NUMBA:
        return False
    corrected = rate / (1 - beta1**step)
    _adam(parameters, gradients, first, second, scales, corrected, beta1, beta2, tiny, 1 - beta2**step)
    return True
