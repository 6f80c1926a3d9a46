"""Poisson sampling by geometric gaps: every row independently with public probability, in O(q N)."""

import numpy as np
from numpy.typing import NDArray

from dpgm.mechanisms.randomness import Randomness


def poisson_sample(
    rows: int, rate: float, *, step: int, randomness: Randomness, first_row: int = 0
) -> NDArray[np.int64]:
    """Sorted numbers of the sampled rows, 0 .. rows-1 of this rank."""
    if rate >= 1.0:
        return np.arange(rows, dtype=np.int64)
    words = randomness.stream(1, step, first_row).words(rows)
    return np.flatnonzero(words < np.uint64(int(rate * 2**64))).astype(np.int64)
