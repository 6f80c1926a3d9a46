"""Synthetic records that are real records, and records that repeat each other.

Some equal records are natural: two people may well have bought the same three things. How many, the real data tells
itself: a record drawn from the same population equals a record that occurs once about as often as the real data holds
records that occur exactly twice (Good and Turing's estimate). Many more are copies. Five things keep the comparison
fair and sharp:

- Real records may be spread out more evenly than chance does it: one row per country and year. Then none occurs
  twice, and yet whoever knows countries and years alone meets them. So chance is at least the share of all
  combinations that real rows fill, and at least how often synthetic records that equal no real one equal each other
  (copies of rows are not among them).
- Real item sets are cut down to the items that the synthetic data has. Where a fit has found few of the items,
  synthetic records hold the popular ones only and meet short real records by chance far more often than real people
  meet each other. A copy of what the fit has seen of a person is still found.
- Records that several real people share are left out on both sides: they say nothing, and hide how often the others
  meet.
- Common records meet by chance, rare ones do not. Records are put into bands by how rare they are (the sum of -log of
  the shares of their items or values), and chance is estimated for every band apart.
- Only the rarest bands are looked at: as many as make the smallest share of copies stand out. Copies of common records
  are drowned by chance, but whoever copies rows copies rare ones as well.

Sets of one or two items are left out: a small sample holds most of them once, and synthetic records that are a little
too short meet them by chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from dpgm.data.records import Records
from dpgm.evaluation.raw_columns import RawColumn

_Number = TypeVar("_Number", np.uint64, np.float64)
_TELLING = 3  # items from which on a set says something about whose it is
_FEWEST = 20  # records for a share that means anything
_FEW_VALUES = 200  # of a column of numbers that is compared like categories; others hardly have a value twice
_BANDS = 20  # of rarity at most, each with as many synthetic records
_BAND = 100  # synthetic records per band at least: chance in fewer is guesswork


@dataclass(frozen=True)
class CopyRules:
    """From which share of equal records on they are called copies: factor * chance + share + a few records.

    Measured on fresh people, fits and planted copies of simulated and public data (tests/evaluation/test_copies.py).
    """

    # A generator is no fresh sample: a coarse one repeats popular combinations and meets real records up to twice as
    # often.
    factor: float = 2.0
    share: float = 0.01
    # A handful of records on either side may be equal by chance where none was expected.
    records: int = 4


COPY_RULES = CopyRules()


@dataclass(frozen=True)
class Copies:
    """Shares of records (of item sets: of those with three items or more).

    Attributes:
        records: how many synthetic records were looked at: rare ones, which hardly meet a real one by chance.
        copied: of these, synthetic records that equal a real record that occurs once.
        expected: what chance alone would give.
        limit: the share from which on they are called copies.
        real_distinct: of as many real as synthetic records (or the other way round), the share that is distinct.
        synthetic_distinct: likewise.
    """

    records: int
    copied: float
    expected: float
    limit: float
    real_distinct: float
    synthetic_distinct: float


@dataclass(frozen=True)
class _Side:
    """The records of one side: equal ones have equal keys; rarity is the sum of -log of the shares of their items."""

    keys: NDArray[np.uint64]
    rarity: NDArray[np.float64]

    def where(self, chosen: NDArray[np.bool_]) -> "_Side":
        """Some of the records."""
        return _Side(self.keys[chosen], self.rarity[chosen])


def copies_of_records(real: Records, synthetic: Records, rules: CopyRules = COPY_RULES) -> Copies | None:
    """Compare whole records over one domain; None where hardly any record has three items."""
    both, marks = (real, synthetic), _marks(real.width)
    counts = [np.bincount(records.indices, minlength=real.width) for records in both]
    compared = counts[1] > 0
    rarity = -np.log(np.maximum(counts[0] + counts[1], 1) / (len(real) + len(synthetic)))
    sides = []
    for records in both:
        telling = _sums(records, compared.astype(np.float64)) >= _TELLING
        keys = _sums(records, np.where(compared, marks, np.uint64(0)))
        rare = _sums(records, np.where(compared, rarity, 0.0)).round(6)  # so that equal records have equal sums
        sides.append(_Side(keys, rare).where(telling))
    whole = [_sums(records, marks)[records.lengths >= _TELLING] for records in both]
    if min(len(side.keys) for side in sides) < _FEWEST:
        return None
    return _copies(sides[0], sides[1], whole, rules)


def copies_of_rows(columns: Sequence[RawColumn], rules: CopyRules = COPY_RULES) -> Copies:
    """Compare whole rows by their raw values."""
    real = len(columns[0].sides[0])
    rows = sum(map(len, columns[0].sides))
    keys, rarity = np.zeros(rows, dtype=np.uint64), np.zeros(rows)
    combinations = 1.0
    possible = np.ones(real, dtype=np.bool_)  # rows with a value that the synthetic data lacks meet nobody
    for column in columns:
        _, codes, counts = np.unique(np.concatenate(column.sides), return_inverse=True, return_counts=True)
        keys = keys * np.uint64(0x9E3779B97F4A7C15) + _marks(len(counts), real)[codes]
        rarity -= np.log(counts / rows)[codes]
        combinations *= len(counts)
        if column.kind == "category" or len(counts) <= _FEW_VALUES:
            possible &= np.isin(codes[:real], codes[real:])
    first, second = _Side(keys[:real], rarity[:real]), _Side(keys[real:], rarity[real:])
    filled = len(np.unique(first.keys)) / combinations
    return _copies(first.where(possible), second, [first.keys, second.keys], rules, filled)


def _copies(
    real: _Side, synthetic: _Side, whole: Sequence[NDArray[np.uint64]], rules: CopyRules, filled: float = 0.0
) -> Copies:
    """The comparison; `whole` are the keys by which records are told apart, `filled` is the least chance to meet."""
    number = min(map(len, whole))
    distinct = [_distinct(keys, number) / number for keys in whole]
    values, inverse, counts = np.unique(real.keys, return_inverse=True, return_counts=True)
    real = real.where(counts[inverse] <= 2)
    synthetic = synthetic.where(~np.isin(synthetic.keys, values[counts >= 2]))
    if not len(real.keys) or not len(synthetic.keys):
        return Copies(0, 0.0, 0.0, 1.0, distinct[0], distinct[1])
    chosen, expected, limit = _rare(real, synthetic, rules, filled)
    copied = np.isin(synthetic.keys[chosen], values[counts == 1])
    return Copies(len(copied), float(copied.mean()), expected, limit, distinct[0], distinct[1])


def _rare(real: _Side, synthetic: _Side, rules: CopyRules, filled: float) -> tuple[NDArray[np.bool_], float, float]:
    """Which synthetic records are rare enough to be looked at, how many equal a real one by chance, and the limit.

    Looked at are the rarest bands, as many as give the lowest limit.
    """
    count = min(_BANDS, max(1, len(synthetic.keys) // _BAND))
    edges = np.unique(np.quantile(synthetic.rarity, np.linspace(0, 1, count + 1)[1:-1]))
    real_bands, bands = (np.searchsorted(edges, side.rarity, side="right") for side in (real, synthetic))
    new = ~np.isin(synthetic.keys, real.keys)
    often = len(real.keys) / max(1, int(new.sum()))  # so many more are met among real records
    records = real_records = 0
    met, best = 0.0, (np.inf, 0.0, 0)  # limit, chance, first band
    for band in range(len(edges), -1, -1):
        keys, size = real.keys[real_bands == band], int((bands == band).sum())
        chance = max(filled, _chance(keys), min(1.0, often * _chance(synthetic.keys[new & (bands == band)], size)))
        records, real_records, met = records + size, real_records + len(keys), met + size * chance
        if records and real_records:
            limit = rules.factor * met / records + rules.share + rules.records * (1 / records + 1 / real_records)
            best = min(best, (limit, met / records, band))
    limit, expected, first = best
    return bands >= first, expected, limit


def _chance(keys: NDArray[np.uint64], of: int | None = None) -> float:
    """Share of fresh records that equal one of these that occurs once (Good and Turing), of `of` in all."""
    counts = np.unique(keys, return_counts=True)[1]
    return float(2 * (counts == 2).sum() / max(len(keys) if of is None else of, 1))


def _distinct(keys: NDArray[np.uint64], number: int) -> float:
    """How many different records `number` of them hold, on average over which ones are drawn."""
    counts = np.unique(keys, return_counts=True)[1]
    return float(np.sum(1 - hypergeom.pmf(0, len(keys), counts, number)))


def _marks(count: int, seed: int = 0) -> NDArray[np.uint64]:
    """A random number of 64 bits for each of `count` values: sums of them tell sets apart."""
    return np.random.default_rng([seed, 64]).integers(0, 2**64, count, dtype=np.uint64)


def _sums(records: Records, values: NDArray[_Number]) -> NDArray[_Number]:
    """The sum of the values of what each record holds."""
    running = np.zeros(len(records.indices) + 1, dtype=values.dtype)
    np.cumsum(values[records.indices], out=running[1:])
    sums: NDArray[_Number] = running[records.indptr[1:]] - running[records.indptr[:-1]]
    return sums
