"""How far long records are cut: the bound that balances noise against what cutting distorts.

A larger bound keeps more of long records and needs more noise. Both are weighed as relative errors of popular sets of
items, from lengths and frequencies that were released before.
"""

from math import comb
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.statistics.statistic import GRID, clip_bound, clip_steps

Floats: TypeAlias = NDArray[np.float64]

SANITY = 0.001  # counts below this share of the records matter little
# How wrong the correction for down-weighting may be, as a share of what was cut, by order.
_DISTORTION = {1: 0.3, 2: 0.4, 3: 0.6, 4: 0.6}


def choose_cap(order: int, law: Floats, profile: Floats, records: int, noise: float, doubt: float = 1.0) -> int:
    """The bound on a record's items that balances noise against what down-weighting distorts.

    Both are relative errors of a popular set of `order` items, counts below 0.1 % of the records taken as that.

    Args:
        order: items in a set.
        law: share of the records that hold n = 0, 1, ... of the positions.
        profile: share of the records that hold each position.
        records: the public number of records.
        noise: multiplier.
        doubt: scales how wrong the correction for down-weighting may be.
    """
    sizes = np.arange(len(law))
    sets = np.array([comb(int(n), order) for n in sizes], dtype=np.float64)
    if (law * sets).sum() <= 0:
        return order
    expected, yardstick = popular_sets(order, law, profile, records)
    best, best_cost = order, np.inf
    for cap in range(order, len(law)):
        kept = clip_steps(len(law) - 1, order, cap) * GRID
        retained = float((law * sets * kept).sum() / (law * sets).sum())
        cost = relative_error(order, noise * clip_bound(order, cap), retained, expected, yardstick, doubt)
        if cost < best_cost:
            best, best_cost = cap, cost
    return max(best, order)


def popular_sets(order: int, law: Floats, profile: Floats, records: int) -> tuple[Floats, Floats]:
    """Counts to expect of popular sets of items, and what their errors are measured against."""
    sets = np.array([comb(n, order) for n in range(len(law))], dtype=np.float64)
    draws = np.random.default_rng(0).choice(len(profile), size=(2000, order), p=profile / profile.sum())
    lift = (law * sets).sum() * np.prod(np.arange(1, order + 1)) / max(profile.sum(), 1e-12) ** order
    expected = np.minimum(records * lift * profile[draws].prod(axis=1), records * profile[draws].min(axis=1))
    return expected, np.maximum(expected, SANITY * records)


def relative_error(
    order: int, std: float, retained: float, expected: Floats, yardstick: Floats, doubt: float
) -> float:
    """Squared relative error of a popular set from noise and from the correction for what was not retained."""
    noisy = std / retained * float((1 / yardstick).mean())
    distorted = doubt * _DISTORTION[order] * (1 - retained) / retained * float((expected / yardstick).mean())
    return noisy**2 + distorted**2
