"""Numbers that are known to be no less than a floor and to have a given sum: the nearest ones to noisy values."""

import numpy as np

from dpgm.statistics.statistic import Floats


def onto_simplex(values: Floats, total: float, floor: float = 0.0) -> Floats:
    """The nearest numbers that are at least `floor` and sum to `total`.

    All that stay above the floor are moved by the same amount, so that the noise of many small counts, of which those
    below zero are raised, is not taken from the largest one alone.

    Args:
        values: noisy values.
        total: what they should sum to.
        floor: the least of each; at most total / len(values).

    >>> onto_simplex(np.array([0.75, 0.5, -0.25]), 1.0)
    array([0.625, 0.375, 0.   ])
    """
    left, above = total - floor * len(values), values - floor
    falling = np.sort(above)[::-1]
    excess = (np.cumsum(falling) - left) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(falling - excess > 0)
    cut = float(excess[last[-1]] if len(last) else falling[0])  # none where the floors are the whole total
    result: Floats = np.maximum(above - cut, 0.0) + floor
    return result
