"""Draws of which records hold which items, such that counts are their expectations up to rounding."""

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Floats, Ints


def round_shares(shares: Floats, offset: float | Floats) -> Ints:
    """Whole numbers next to `shares` (along the first axis) whose running sums are off by less than 1."""
    running = np.floor(np.cumsum(shares, axis=0) + offset + 1e-9).astype(np.int64)
    if shares.ndim == 1:
        total = round(float(shares.sum()))
        running = np.minimum(running, total)
        running[-1:] = total
    return np.diff(running, axis=0, prepend=np.zeros_like(running[:1]))


def draw_items(
    probabilities: NDArray[np.float32], sizes: Ints, starts: Ints, random: np.random.Generator
) -> tuple[Ints, Ints]:
    """Records and items of all ones: each item goes to its rounded number of records of each component.

    Distinct records are drawn with repetition, and repeated ones are drawn again. For items that more than half of a
    component holds, the records without the item are drawn instead.

    Args:
        probabilities: (components, items).
        sizes: the number of records of each component.
        starts: its first record.
        random: source of all draws.
    """
    width = probabilities.shape[1]
    expected = probabilities.astype(np.float64) * sizes[:, None]
    counts = np.clip(round_shares(expected, random.random(width)), 0, sizes[:, None])
    inverted = 2 * counts > sizes[:, None]
    drawn = np.where(inverted, sizes[:, None] - counts, counts)
    components, items = np.nonzero(drawn)
    keys = np.empty(0, dtype=np.int64)  # record x width + item
    group = np.repeat(np.arange(len(components)), drawn[components, items])
    while len(group):
        own = components[group]
        rows = starts[own] + (random.random(len(group)) * sizes[own]).astype(np.int64)
        both = np.concatenate([keys, rows * width + items[group]])
        sorted_order = np.argsort(both, kind="stable")  # earlier draws first among equals
        ordered = both[sorted_order]
        repeated = np.zeros(len(both), dtype=np.bool_)
        repeated[sorted_order[1:]] = ordered[1:] == ordered[:-1]
        group = group[repeated[len(keys) :]]
        keys = both[~repeated]
    if not inverted.any():
        return keys // width, keys % width
    without = inverted[np.searchsorted(starts, keys // width, side="right") - 1, keys % width]
    # All records of the components where an item was inverted, but those that lack it.
    components, items = np.nonzero(inverted)
    own = sizes[components]
    rows = np.arange(own.sum()) + np.repeat(starts[components] - (np.cumsum(own) - own), own)
    everyone = rows * width + np.repeat(items, own)
    holders = everyone[~np.isin(everyone, keys[without], assume_unique=True)]
    keys = np.concatenate([keys[~without], holders])
    return keys // width, keys % width
