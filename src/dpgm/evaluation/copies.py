"""Synthetic records that are real records, and records that repeat each other.

Some equal records are natural: two people may well have bought the same two things. How many, the real data tells
itself: a record drawn from the same population equals a record that occurs once about as often as the real data holds
records that occur exactly twice (Good and Turing's estimate). Many more are copies.

Sets of one or two items are left out: a small sample holds most of them once, and synthetic records that are a little
too short meet them by chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from dpgm.data.records import Records
from dpgm.evaluation.raw_columns import RawColumn

_TELLING = 3  # items from which on a set says something about whose it is
_FEWEST = 20  # records for a share that means anything


@dataclass(frozen=True)
class Copies:
    """Shares of records (of item sets: of those with three items or more).

    Attributes:
        records: how many synthetic records were looked at.
        copied: synthetic records that equal a real record that occurs once.
        expected: what chance alone would give.
        real_distinct: of as many real as synthetic records (or the other way round), the share that is distinct.
        synthetic_distinct: likewise.
    """

    records: int
    copied: float
    expected: float
    real_distinct: float
    synthetic_distinct: float


def copies_of_records(real: Records, synthetic: Records) -> Copies | None:
    """Compare whole records over one domain; None where hardly any record has three items."""
    marks = _marks(real.width)
    keys = [_set_keys(records, marks)[records.lengths >= _TELLING] for records in (real, synthetic)]
    return None if min(map(len, keys)) < _FEWEST else _copies(*keys)


def copies_of_rows(columns: Sequence[RawColumn]) -> Copies:
    """Compare whole rows by their raw values."""
    real = len(columns[0].sides[0])
    keys = np.zeros(sum(map(len, columns[0].sides)), dtype=np.uint64)
    for column in columns:
        _, codes = np.unique(np.concatenate(column.sides), return_inverse=True)
        keys = keys * np.uint64(0x9E3779B97F4A7C15) + _marks(int(codes.max(initial=0)) + 1, real)[codes]
    return _copies(keys[:real], keys[real:])


def _copies(real: NDArray[np.uint64], synthetic: NDArray[np.uint64]) -> Copies:
    values, counts = np.unique(real, return_counts=True)
    once = values[counts == 1]
    number = min(len(real), len(synthetic))
    distinct = [_distinct(side, number) / number for side in (real, synthetic)]
    return Copies(
        records=len(synthetic),
        copied=float(np.isin(synthetic, once).mean()),
        expected=float(2 * (counts == 2).sum() / len(real)),
        real_distinct=distinct[0],
        synthetic_distinct=distinct[1],
    )


def _distinct(keys: NDArray[np.uint64], number: int) -> float:
    """How many different records `number` of them hold, on average over which ones are drawn."""
    counts = np.unique(keys, return_counts=True)[1]
    return float(np.sum(1 - hypergeom.pmf(0, len(keys), counts, number)))


def _marks(count: int, seed: int = 0) -> NDArray[np.uint64]:
    """A random number of 64 bits for each of `count` values: sums of them tell sets apart."""
    return np.random.default_rng([seed, 64]).integers(0, 2**64, count, dtype=np.uint64)


def _set_keys(records: Records, marks: NDArray[np.uint64]) -> NDArray[np.uint64]:
    running = np.zeros(len(records.indices) + 1, dtype=np.uint64)
    np.cumsum(marks[records.indices], out=running[1:])
    return running[records.indptr[1:]] - running[records.indptr[:-1]]
