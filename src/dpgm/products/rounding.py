"""Whole numbers of records for components of one possible record each, so that items and pairs come out right.

Each component should have a number of records that is seldom whole. Rounded one by one, thousands of such numbers
leave the counts of items off by chance. Here single records move from component to component, rounded up here and
down there, as long as that brings the counts of items and pairs nearer to what they should be. Post-processing.
"""

import numpy as np
from numpy.typing import NDArray

from dpgm.products.rules import SAMPLING


def evened(
    expected: NDArray[np.float64],
    sizes: NDArray[np.int64],
    present: NDArray[np.bool_],
    random: np.random.Generator,
) -> NDArray[np.int64]:
    """Sizes with the same total, each next to its expectation, whose items and pairs are nearer to the expected ones.

    Args:
        expected: (k,) records that each component should have.
        sizes: (k,) whole numbers to start from.
        present: (k, m) what the records of each component hold.
        random: source of the moves tried.
    """
    sizes = sizes.copy()
    up, down = np.flatnonzero(sizes < expected), np.flatnonzero(sizes > expected)
    if not len(up) or not len(down):
        return sizes
    first, second = np.triu_indices(present.shape[1])
    target = (present * expected[:, None]).T @ present
    yardstick = np.maximum(target[first, second], SAMPLING.sanity * expected.sum())

    def features(chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        marked: NDArray[np.float64] = (present[chosen][:, first] & present[chosen][:, second]) / yardstick
        return marked

    gap = ((present * (sizes - expected)[:, None]).T @ present)[first, second] / yardstick
    moves = stale = 0
    while moves < SAMPLING.moves and stale < SAMPLING.stale_draws:
        gain, lose = (
            random.choice(side, min(len(side), SAMPLING.candidates // 2), replace=False) for side in (up, down)
        )
        gained, lost = features(gain), features(lose)
        gain_squares, lose_squares = (gained**2).sum(axis=1), (lost**2).sum(axis=1)
        free_gain, free_lose = np.ones(len(gain), dtype=np.bool_), np.ones(len(lose), dtype=np.bool_)
        before = moves
        while moves < SAMPLING.moves and free_gain.any() and free_lose.any():
            fall = np.where(free_lose, lose_squares - 2 * lost @ gap, np.inf)
            off = int(fall.argmin())
            rise = np.where(free_gain, gain_squares + 2 * gained @ (gap - lost[off]), np.inf)
            on = int(rise.argmin())
            if fall[off] + rise[on] >= -1e-15:
                break
            gap += gained[on] - lost[off]
            sizes[gain[on]] += 1
            sizes[lose[off]] -= 1
            free_gain[on] = free_lose[off] = False
            moves += 1
        stale = stale + 1 if moves == before else 0
        up, down = np.flatnonzero(sizes < expected), np.flatnonzero(sizes > expected)
        if not len(up) or not len(down):
            break
    return sizes
