"""Poisson sampling by geometric gaps: every row independently with public probability, in O(q N).

Rows are numbered globally and cut into fixed blocks; each (step, block) has its own stream of coins, so the
sample does not depend on how rows are spread over ranks: a rank draws the blocks it touches whole and keeps its
share. Within a block the gap before the next sampled row is geometric, G = floor(log(1 - V) / log(1 - q)).

How exact: V = (w + 1/2) / 2^64 of a 64-bit word w, as a double: V < q decides G = 0 with a relative error below
2^-52 + 2^-64 / q (under 1e-12 for q >= 1e-7), and a gap of g rows ends within g q 2^-51 of the right point of V.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dpgm.errors import UsageError
from dpgm.mechanisms.randomness import ALIGNMENT, COINS, Randomness

BLOCK = 65_536


def poisson_sample(
    rows: int, rate: float, *, step: int, randomness: Randomness, first_row: int = 0
) -> NDArray[np.int64]:
    """Sorted numbers of the sampled rows, 0 .. rows-1 of this rank, whose first row is globally `first_row`."""
    if not 0 < rate <= 1:
        raise UsageError(f"`rate` must be in (0, 1]; got {rate!r}.")
    if rate == 1:
        return np.arange(rows, dtype=np.int64)
    # A rank without rows still takes part: the first use of the coin key is collective.
    end = max(first_row + rows, first_row + 1)
    todo = np.arange(first_row // BLOCK, -(-end // BLOCK))
    start, skip, found = np.zeros(len(todo)), 0, []
    while len(todo):
        limits = np.minimum(BLOCK, end - todo * BLOCK)  # of the last block only the part in question
        expected = float(limits.max()) * rate
        # Six deviations and a bit: a second round is rare.
        count = math.ceil((expected + 6 * math.sqrt(expected) + 8) / ALIGNMENT) * ALIGNMENT
        words = randomness.block_words(COINS, step, todo.tolist(), count, skip)
        skip += count
        positions = np.cumsum(_gaps(words, rate) + 1.0, axis=1) + (start - 1.0)[:, None]
        inside = positions < limits[:, None]
        where = positions + (todo * BLOCK)[:, None]
        found.append(where[inside].astype(np.int64))
        unfinished = inside[:, -1]
        start = positions[unfinished, -1] + 1.0
        todo = todo[unfinished]
    sample = found[0] if len(found) == 1 else np.sort(np.concatenate(found))
    sample -= first_row
    return sample[np.searchsorted(sample, 0) : np.searchsorted(sample, rows)]


def _gaps(words: NDArray[np.uint64], rate: float) -> NDArray[np.float64]:
    """Rows skipped before the next sampled one; never more than a block, which is as good as none left."""
    uniform = np.minimum((words.astype(np.float64) + 0.5) * 2.0**-64, 1 - 2.0**-53)
    return np.minimum(np.floor(np.log1p(-uniform) / math.log1p(-rate)), BLOCK)
