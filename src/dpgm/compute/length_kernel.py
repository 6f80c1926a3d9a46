"""Law of the number of ones among independent zero-one units, by direct recursion, for many components at once."""

import numpy as np
from numpy.typing import NDArray

from dpgm.compute.compiled import compiled

_NEGLIGIBLE = np.float32(1e-12)  # probability below which the upper tail is not carried along


@compiled
def poisson_binomial(chances: NDArray[np.float32], law: NDArray[np.float32]) -> None:
    """Fill `law` (k, size) with the probabilities of 0 .. size - 1 ones, lengths beyond folded back (modulo size).

    Adding a unit of probability p turns law(n) into (1 - p) law(n) + p law(n - 1). Only the lengths that have been
    reached with more than a negligible probability are touched, so sparse components cost little.
    """
    components, units = chances.shape
    size = law.shape[1]
    before = np.zeros(size + 1, dtype=np.float32)  # shifted by one: before[n + 1] is the law at n
    for row in range(components):
        now = law[row]
        now[:] = 0
        now[0] = 1
        before[:] = 0
        top = 0  # the longest length carried along
        for unit in range(units):
            p = chances[row, unit]
            if p <= 0:
                continue
            rest = np.float32(1) - p
            if top < size - 1 and now[top] * p > _NEGLIGIBLE:
                top += 1
            for n in range(top + 1):
                before[n + 1] = now[n]
            before[0] = now[size - 1] if top == size - 1 else np.float32(0)
            for n in range(top + 1):
                now[n] = rest * before[n + 1] + p * before[n]
