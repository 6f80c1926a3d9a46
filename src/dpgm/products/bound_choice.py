"""How far long records are cut: the bound that balances noise against what cutting distorts.

A larger bound keeps more of long records and needs more noise. Both are weighed as relative errors of popular sets of
items, from lengths and frequencies that were released before.
"""

from dataclasses import dataclass
from math import comb, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain
from dpgm.statistics.centred_pairs import centred_bound
from dpgm.statistics.record_lengths import item_positions
from dpgm.statistics.statistic import GRID, clip_bound, clip_steps

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

SANITY = 0.001  # counts below this share of the records matter little
# How wrong the correction for down-weighting may be, as a share of what was cut, by order.
_DISTORTION = {1: 0.3, 2: 0.4, 3: 0.6, 4: 0.6}
_SCALED_DISTORTION = 0.6  # rare items are found together, in records that are scaled down more than most
_DRAWS = 4000
_DISTINCT = 500  # items, up to which draws hold none twice
_SEEN = 0.98
_UNSEEN = 150  # records, fewer than which the noise of lengths hides


def choose_cap(order: int, law: Floats, profile: Floats, records: int, noise: float) -> tuple[int, float]:
    """The bound on a record's items that balances noise against what down-weighting distorts, and its cost.

    Both are relative errors of a popular set of `order` items, counts below 0.1 % of the records taken as that.

    Args:
        order: items in a set.
        law: share of the records that hold n = 0, 1, ... of the positions.
        profile: share of the records that hold each position.
        records: the public number of records.
        noise: multiplier.
    """
    sizes = np.arange(len(law))
    sets = np.array([comb(int(n), order) for n in sizes], dtype=np.float64)
    if (law * sets).sum() <= 0:
        return order, np.inf
    expected, yardstick = popular_sets(order, law, profile, records)
    best, best_cost = order, np.inf
    for cap in range(order, len(law)):
        kept = clip_steps(len(law) - 1, order, cap) * GRID
        retained = float((law * sets * kept).sum() / (law * sets).sum())
        cost = relative_error(order, noise * clip_bound(order, cap), retained, expected, yardstick)
        if cost < best_cost:
            best, best_cost = cap, cost
    return max(best, order), best_cost


@dataclass(frozen=True)
class LikelyRecords:
    """Draws of records of independent items and columns: s, the sum of scale_i² (x_i - offset_i)², and items held."""

    sizes: Floats
    lengths: Ints

    @property
    def shares(self) -> Floats:
        """How likely an item is found in each: in proportion to its length."""
        counted = self.lengths if self.lengths.any() else np.ones(len(self.lengths))
        shares: Floats = counted / counted.sum()
        return shares


def draw_likely(
    offsets: Floats, chosen: Ints, profile: Floats, law: Floats, domain: Domain, scales: Floats | float = 1.0
) -> LikelyRecords:
    """Records to reckon with before any was seen.

    Args:
        offsets: of every chosen position.
        chosen: positions.
        profile: share of the records that hold each position of the domain.
        law: share of the records that hold n = 0, 1, ... chosen items, table columns not counted.
        domain: the public domain.
        scales: of every chosen position, or of all.
    """
    draws = np.random.default_rng(0)
    sizes = np.full(_DRAWS, float(((scales * offsets) ** 2).sum()))
    lengths = np.zeros(_DRAWS, dtype=np.int64)
    rise = np.zeros(domain.width)
    rise[chosen] = np.square(scales) * (1 - 2 * offsets)
    for block in domain.blocks:
        if block.softmax:
            chances = profile[block.start : block.stop]
            sizes += draws.choice(rise[block.start : block.stop], _DRAWS, p=chances / chances.sum())
    items = chosen[item_positions(domain)[chosen]]
    if len(items) and law[1:].sum() > 0:
        lengths = draws.choice(len(law), _DRAWS, p=law / law.sum())
        sizes += _held(rise[items], profile[items], lengths, draws)
    return LikelyRecords(np.maximum(sizes, 1e-3), lengths)


def _held(rise: Floats, chances: Floats, lengths: Ints, draws: np.random.Generator) -> Floats:
    """Sums of `rise` over as many items as `lengths` says, drawn by their odds; with repetition if there are many."""
    if len(rise) > _DISTINCT:
        held = draws.choice(len(rise), int(lengths.sum()), p=chances / chances.sum())
        return np.bincount(np.repeat(np.arange(_DRAWS), lengths), rise[held], minlength=_DRAWS).astype(np.float64)
    odds = np.log(chances) - np.log1p(-chances) + draws.gumbel(size=(_DRAWS, len(rise)))
    running = np.cumsum(rise[np.argsort(-odds, axis=1)], axis=1)
    last = np.minimum(lengths, len(rise)) - 1
    sums: Floats = np.where(last >= 0, running[np.arange(_DRAWS), last], 0.0)
    return sums


def choose_limit(sizes: Floats, expected: Floats, yardstick: Floats, noise: float) -> tuple[float, float]:
    """The limit of s (see `CentredPairs`) that balances noise against distortion, and its cost as in `choose_cap`."""
    best, best_cost = 1.0, np.inf
    # Lengths that only noise has seen can be far from all others, and would rule sums of squares.
    sizes = np.minimum(sizes, np.quantile(sizes, _SEEN))
    for limit in np.unique(np.quantile(sizes, np.linspace(0.05, 1, 60))):
        kept = np.minimum(1.0, limit / sizes)
        retained = float((sizes**2 * kept).sum() / (sizes**2).sum())
        cost = relative_error(2, noise * centred_bound(limit), retained, expected, yardstick)
        if cost < best_cost:
            best, best_cost = float(limit), cost
    return best, best_cost


def choose_scaled_limit(
    likely: LikelyRecords, scales: Floats, profile: Floats, records: int, noise: float
) -> tuple[float, float]:
    """The limit of s (see `ScaledItems`) that balances noise against distortion, and its cost.

    Args:
        likely: draws of records.
        scales: of every item.
        profile: share of the records that hold each item.
        records: the public number of records.
        noise: multiplier.
    """
    counts, popularity = records * profile, profile / profile.sum()
    yardstick = np.maximum(counts, SANITY * records)
    noisy = float(popularity @ (1 / (scales * yardstick)))
    distorted = _SCALED_DISTORTION * float(popularity @ (counts / yardstick))
    # Of many records the longest are seen too; few of them are not worth a bound that all pay for.
    sizes = np.minimum(likely.sizes, np.quantile(likely.sizes, max(_SEEN, 1 - _UNSEEN / records)))
    best, best_cost = float(sizes.max()), np.inf
    for limit in np.unique(np.quantile(sizes, np.linspace(0.05, 1, 60))):
        kept = np.sqrt(np.minimum(1.0, limit / sizes))
        retained = float(likely.shares @ kept)
        cost = (noise * sqrt(limit) / retained * noisy) ** 2 + (distorted * (1 - retained) / retained) ** 2
        if cost < best_cost:
            best, best_cost = float(limit), cost
    return best, best_cost


def popular_sets(order: int, law: Floats, profile: Floats, records: int) -> tuple[Floats, Floats]:
    """Counts to expect of popular sets of items, and what their errors are measured against."""
    sets = np.array([comb(n, order) for n in range(len(law))], dtype=np.float64)
    draws = np.random.default_rng(0).choice(len(profile), size=(2000, order), p=profile / profile.sum())
    lift = (law * sets).sum() * np.prod(np.arange(1, order + 1)) / max(profile.sum(), 1e-12) ** order
    expected = np.minimum(records * lift * profile[draws].prod(axis=1), records * profile[draws].min(axis=1))
    return expected, np.maximum(expected, SANITY * records)


def relative_error(
    order: int, std: float, retained: float, expected: Floats, yardstick: Floats, doubt: float = 1.0
) -> float:
    """Squared relative error of a popular set from noise and from the correction for what was not retained.

    `doubt` scales how wrong that correction may be.
    """
    noisy = std / retained * float((1 / yardstick).mean())
    distorted = doubt * _DISTORTION[order] * (1 - retained) / retained * float((expected / yardstick).mean())
    return noisy**2 + distorted**2
