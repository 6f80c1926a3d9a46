"""Poisson sampling by geometric gaps: every row independently with public probability, in O(q N).

Rows are numbered globally and cut into fixed blocks; each (step, block) has its own stream of coins, so the
sample does not depend on how rows are spread over ranks: a rank draws the blocks it touches whole and keeps its
share. Within a block the gap before the next sampled row is geometric, G = floor(log(1 - V) / log(1 - q)).

How exact: V = (w + 1/2) / 2^64 of a 64-bit word w, as a double: V < q decides G = 0 with a relative error below
2^-52 + 2^-64 / q (under 1e-12 for q >= 1e-7), and a gap of g rows ends within g q 2^-51 of the right point of V.
"""

import math
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpgm.errors import UsageError
from dpgm.mechanisms.randomness import ALIGNMENT, COINS, Randomness

BLOCK = 65_536
AHEAD = 1 << 13  # coins drawn at once where a step needs fewer: a few words cost almost as much as thousands


def poisson_sample(
    rows: int, rate: float, *, step: int, randomness: Randomness, first_row: int = 0
) -> NDArray[np.int64]:
    """Sorted numbers of the sampled rows, 0 .. rows-1 of this rank, whose first row is globally `first_row`."""
    return poisson_samples(rows, rate, steps=[step], randomness=randomness, first_row=first_row)[0]


def poisson_samples(
    rows: int, rate: float, *, steps: Sequence[int], randomness: Randomness, first_row: int = 0
) -> list[NDArray[np.int64]]:
    """The samples of several steps at once, each what `poisson_sample` gives."""
    if not 0 < rate <= 1:
        raise UsageError(f"`rate` must be in (0, 1]; got {rate!r}.")
    if rate == 1:
        return [np.arange(rows, dtype=np.int64) for _ in steps]
    # A rank without rows still takes part: the first use of the coin key is collective.
    end = max(first_row + rows, first_row + 1)
    blocks = np.arange(first_row // BLOCK, -(-end // BLOCK))
    # One line for every block of every step.
    block, owner = np.tile(blocks, len(steps)), np.repeat(np.arange(len(steps)), len(blocks))
    numbers = np.asarray(steps, dtype=np.int64)
    start, skip = np.zeros(len(block)), 0
    found, owners = [], []
    while len(block):
        limits = np.minimum(BLOCK, end - block * BLOCK)  # of the last block only the part in question
        count = _words_needed(float(limits.max()), rate)
        words = randomness.block_words(COINS, numbers[owner].tolist(), block.tolist(), count, skip)
        skip += count
        positions = np.cumsum(_gaps(words, rate) + 1.0, axis=1) + (start - 1.0)[:, None]
        inside = positions < limits[:, None]
        where = positions + (block * BLOCK)[:, None]
        found.append(where[inside].astype(np.int64))
        owners.append(np.repeat(owner, inside.sum(axis=1)))
        unfinished = inside[:, -1]
        start = positions[unfinished, -1] + 1.0
        block, owner = block[unfinished], owner[unfinished]
    sample, owner = found[0], owners[0]
    if len(found) > 1:
        sample, owner = np.concatenate(found), np.concatenate(owners)
        order = np.lexsort((sample, owner))
        sample, owner = sample[order], owner[order]
    sample -= first_row
    parts = np.split(sample, np.searchsorted(owner, np.arange(1, len(steps))))
    return [part[np.searchsorted(part, 0) : np.searchsorted(part, rows)] for part in parts]


class Coins:
    """The samples of one run's steps, drawn some steps ahead where a step needs few words.

    A sample is a function of its address alone, so drawing it early changes nothing. It is given out once.
    """

    def __init__(self, rows: int, randomness: Randomness, first_row: int = 0) -> None:
        self._rows, self._randomness, self._first_row = rows, randomness, first_row
        self._drawn: dict[tuple[int, float], NDArray[np.int64]] = {}
        self._process = os.getpid()

    def sample(self, step: int, rate: float) -> NDArray[np.int64]:
        """The sample of a step."""
        if os.getpid() != self._process:  # a forked child must not repeat its parent's coins
            self._drawn, self._process = {}, os.getpid()
        if (step, rate) not in self._drawn:
            steps = range(step, step + self._steps_at_once(rate))
            drawn = poisson_samples(
                self._rows, rate, steps=steps, randomness=self._randomness, first_row=self._first_row
            )
            self._drawn = {(number, rate): sample for number, sample in zip(steps, drawn, strict=True)}
        return self._drawn.pop((step, rate))

    def _steps_at_once(self, rate: float) -> int:
        if not 0 < rate < 1:
            return 1
        blocks = -(-(self._rows + self._first_row % BLOCK) // BLOCK) or 1
        return max(1, AHEAD // (blocks * _words_needed(min(self._rows, BLOCK), rate)))


def _words_needed(rows: float, rate: float) -> int:
    expected = rows * rate
    # Six deviations and a bit: a second round is rare.
    return math.ceil((expected + 6 * math.sqrt(expected) + 8) / ALIGNMENT) * ALIGNMENT


def _gaps(words: NDArray[np.uint64], rate: float) -> NDArray[np.float64]:
    """Rows skipped before the next sampled one; never more than a block, which is as good as none left."""
    uniform = np.minimum((words.astype(np.float64) + 0.5) * 2.0**-64, 1 - 2.0**-53)
    return np.minimum(np.floor(np.log1p(-uniform) / math.log1p(-rate)), BLOCK)
