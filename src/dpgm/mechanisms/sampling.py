"""Poisson sampling by geometric gaps: every row independently with public probability, in O(q N).

Rows are numbered globally and cut into fixed blocks; each (step, block) has its own stream of coins, so the
sample does not depend on how rows are spread over ranks: a rank draws the blocks it touches whole and keeps its
share. Within a block the gap before the next sampled row is geometric, G = floor(log(1 - V) / log(1 - q)).

How exact: V = (w + 1/2) / 2^64 of a 64-bit word w, as a double: V < q decides G = 0 with a relative error below
2^-52 + 2^-64 / q (under 1e-12 for q >= 1e-7), and a gap of g rows ends within g q 2^-51 of the right point of V.
"""

import math
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.errors import UsageError
from dpgm.mechanisms.randomness import ALIGNMENT, COINS, Randomness, this_process

ROWS_PER_STREAM = (
    1 << 20
)  # rows; a stream costs some microseconds to begin, so not smaller; a rank draws blocks whole
WORDS_AHEAD = (
    1 << 16
)  # words drawn at once: a few cost almost as much as thousands, and a thread hands over less often

_Samples: TypeAlias = dict[tuple[int, float], NDArray[np.int64]]


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
    blocks = np.arange(first_row // ROWS_PER_STREAM, -(-end // ROWS_PER_STREAM))
    # One line for every block of every step.
    block, owner = np.tile(blocks, len(steps)), np.repeat(np.arange(len(steps)), len(blocks))
    numbers = np.asarray(steps, dtype=np.int64)
    start, skip = np.zeros(len(block)), 0
    found, owners = [], []
    while len(block):
        limits = np.minimum(
            ROWS_PER_STREAM, end - block * ROWS_PER_STREAM
        )  # of the last block only the part in question
        count = _words_needed(float(limits.max()), rate)
        words = randomness.block_words(COINS, numbers[owner].tolist(), block.tolist(), count, skip)
        skip += count
        positions = np.cumsum(_gaps(words, rate) + 1.0, axis=1) + (start - 1.0)[:, None]
        inside = positions < limits[:, None]
        where = positions + (block * ROWS_PER_STREAM)[:, None]
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

    A sample is a function of its address alone, so drawing it early changes nothing. It is given out once. Once steps
    follow one another a thread draws the next ones, while an accelerator, or the caller, is at work on this one.
    """

    def __init__(self, rows: int, randomness: Randomness, first_row: int = 0) -> None:
        self._rows, self._randomness, self._first_row = rows, randomness, first_row
        self._forget()

    def _forget(self) -> None:
        self._drawn: _Samples = {}
        self._coming: tuple[int, float, Future[_Samples]] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._last: tuple[int, float] | None = None
        self._process = this_process()

    def sample(self, step: int, rate: float) -> NDArray[np.int64]:
        """The sample of a step."""
        if this_process() != self._process:  # a forked child has no thread, and must not repeat its parent's coins
            self._forget()
        if (step, rate) not in self._drawn:
            self._drawn = self._prefetched(step, rate) or self._draw(step, rate)
        found = self._drawn.pop((step, rate))
        if not self._drawn and self._last == (step - 1, rate):
            self._thread = self._thread or ThreadPoolExecutor(1, "coins")
            self._coming = (step + 1, rate, self._thread.submit(self._draw, step + 1, rate))
        self._last = (step, rate)
        return found

    def _prefetched(self, step: int, rate: float) -> _Samples | None:
        """What the thread drew, if it was from this step on."""
        coming, self._coming = self._coming, None
        return coming[2].result() if coming is not None and coming[:2] == (step, rate) else None

    def _draw(self, step: int, rate: float) -> _Samples:
        steps = range(step, step + self._steps_at_once(rate))
        drawn = poisson_samples(
            self._rows, rate, steps=steps, randomness=self._randomness, first_row=self._first_row
        )
        return {(number, rate): sample for number, sample in zip(steps, drawn, strict=True)}

    def _steps_at_once(self, rate: float) -> int:
        if not 0 < rate < 1:
            return 1
        end = self._first_row % ROWS_PER_STREAM + self._rows
        return max(
            1, WORDS_AHEAD // ((-(-end // ROWS_PER_STREAM) or 1) * _words_needed(min(end, ROWS_PER_STREAM), rate))
        )


def _words_needed(rows: float, rate: float) -> int:
    expected = rows * rate
    # Six deviations and a bit: a second round is rare.
    return math.ceil((expected + 6 * math.sqrt(expected) + 8) / ALIGNMENT) * ALIGNMENT


def _gaps(words: NDArray[np.uint64], rate: float) -> NDArray[np.float64]:
    """Rows skipped before the next sampled one; a gap that ends past the block is cut to its length."""
    uniform = np.minimum((words.astype(np.float64) + 0.5) * 2.0**-64, 1 - 2.0**-53)
    return np.minimum(np.floor(np.log1p(-uniform) / math.log1p(-rate)), ROWS_PER_STREAM)
