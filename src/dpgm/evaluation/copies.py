"""Find synthetic records that are copies of real records, and synthetic records that repeat each other.

Some synthetic records equal a real one by chance: two people may well have bought the same three things. The real data
tells how many to expect: a new record from the same population equals a real record that occurs once about as often as
the real data holds records that occur exactly twice (the Good-Turing estimate). Many more than that are copies. Five
rules keep the comparison fair and sensitive:

- Real records may be spread more evenly than a random sample, such as one row per country and year. Then no record
  occurs twice, and yet anybody who combines countries and years at random hits real records. So the chance is at least
  the share of all combinations that real rows fill, and at least the rate at which those synthetic records that equal
  no real one (and so cannot be copies) equal each other.
- Real item sets are reduced to the items that occur in the synthetic data. If a fit has discovered few of the items,
  synthetic records hold popular items only and equal short real records far more often than real people equal each
  other. A copy of the part of a record that the fit has seen is still found.
- Records that several real people share are left out on both sides: they identify nobody, and hide how often the
  others coincide.
- Common records coincide by chance, rare ones do not. Records are divided into bands by rarity (the sum of
  -log(frequency) of their items or values), and chance is estimated for each band separately.
- Only the rarest bands are examined, as many as make the smallest share of copies detectable. Copies of common records
  are indistinguishable from chance, but whoever copies rows copies rare ones too.

Sets of one or two items are left out: a small sample holds most of them once, and synthetic records that are a little
too short equal them by chance.
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
_LEAST_ITEMS = 3  # smaller sets do not identify a person
_LEAST_RECORDS = 20  # with fewer, a share means nothing
_FEW_VALUES = 200  # columns with at most so many distinct numbers are treated like categories
_MOST_BANDS = 20  # bands of rarity, each with the same number of synthetic records
_BAND_RECORDS = 100  # synthetic records per band at least: with fewer, chance cannot be estimated


@dataclass(frozen=True)
class CopyRules:
    """The share of equal records above which they are called copies: factor * chance + share + a few records.

    Chosen on new samples, fits and planted copies of simulated and public data (tests/evaluation/test_copies.py).
    """

    # A coarse generator repeats popular combinations, and hits real records up to twice as often as a new real sample.
    factor: float = 2.0
    share: float = 0.01
    # A handful of real and synthetic records may be equal by chance even if none is expected to be.
    records: int = 4


COPY_RULES = CopyRules()


@dataclass(frozen=True)
class Copies:
    """How many synthetic records equal real ones; item sets of fewer than three items are left out.

    Attributes:
        records: number of synthetic records examined: rare ones, which hardly ever equal a real record by chance.
        copied: the share of these that equal a real record that occurs once.
        expected: the share that chance alone would give.
        limit: the share above which they are called copies.
        real_distinct: the share of distinct records in a real sample as large as the smaller of both data sets.
        synthetic_distinct: the same for the synthetic data.
    """

    records: int
    copied: float
    expected: float
    limit: float
    real_distinct: float
    synthetic_distinct: float


@dataclass(frozen=True)
class _Side:
    """The records of one data set: equal records have equal keys; rarity is the sum of -log(frequency) of the items."""

    keys: NDArray[np.uint64]
    rarity: NDArray[np.float64]

    def where(self, chosen: NDArray[np.bool_]) -> "_Side":
        return _Side(self.keys[chosen], self.rarity[chosen])


def copies_of_records(real: Records, synthetic: Records, rules: CopyRules = COPY_RULES) -> Copies | None:
    """Compare records over one domain; None if hardly any record has three items."""
    both, hashes = (real, synthetic), _random_hashes(real.width)
    counts = [np.bincount(records.indices, minlength=real.width) for records in both]
    compared = counts[1] > 0
    rarity = -np.log(np.maximum(counts[0] + counts[1], 1) / (len(real) + len(synthetic)))
    sides = []
    for records in both:
        long_enough = _sums(records, compared.astype(np.float64)) >= _LEAST_ITEMS
        keys = _sums(records, np.where(compared, hashes, np.uint64(0)))
        rarities = _sums(records, np.where(compared, rarity, 0.0)).round(6)  # so that equal records have equal sums
        sides.append(_Side(keys, rarities).where(long_enough))
    whole_keys = [_sums(records, hashes)[records.lengths >= _LEAST_ITEMS] for records in both]
    if min(len(side.keys) for side in sides) < _LEAST_RECORDS:
        return None
    return _copies(sides[0], sides[1], whole_keys, rules)


def copies_of_rows(columns: Sequence[RawColumn], rules: CopyRules = COPY_RULES) -> Copies:
    """Compare whole rows by their raw values."""
    real = len(columns[0].sides[0])
    rows = sum(map(len, columns[0].sides))
    keys, rarity = np.zeros(rows, dtype=np.uint64), np.zeros(rows)
    combinations = 1.0
    possible = np.ones(real, dtype=np.bool_)  # real rows whose values all occur in the synthetic data
    for column in columns:
        _, codes, counts = np.unique(np.concatenate(column.sides), return_inverse=True, return_counts=True)
        keys = keys * np.uint64(0x9E3779B97F4A7C15) + _random_hashes(len(counts), real)[codes]
        rarity -= np.log(counts / rows)[codes]
        combinations *= len(counts)
        if column.kind == "category" or len(counts) <= _FEW_VALUES:
            possible &= np.isin(codes[:real], codes[real:])
    first, second = _Side(keys[:real], rarity[:real]), _Side(keys[real:], rarity[real:])
    filled = len(np.unique(first.keys)) / combinations
    return _copies(first.where(possible), second, [first.keys, second.keys], rules, filled)


def _copies(
    real: _Side, synthetic: _Side, whole_keys: Sequence[NDArray[np.uint64]], rules: CopyRules, filled: float = 0.0
) -> Copies:
    """Compare two data sets; distinct records are counted by `whole_keys`, and `filled` is the least chance."""
    number = min(map(len, whole_keys))
    distinct = [_distinct(keys, number) / number for keys in whole_keys]
    values, inverse, counts = np.unique(real.keys, return_inverse=True, return_counts=True)
    real = real.where(counts[inverse] <= 2)
    synthetic = synthetic.where(~np.isin(synthetic.keys, values[counts >= 2]))
    if not len(real.keys) or not len(synthetic.keys):
        return Copies(0, 0.0, 0.0, 1.0, distinct[0], distinct[1])
    chosen, expected, limit = _rarest(real, synthetic, rules, filled)
    copied = np.isin(synthetic.keys[chosen], values[counts == 1])
    return Copies(len(copied), float(copied.mean()), expected, limit, distinct[0], distinct[1])


def _rarest(
    real: _Side, synthetic: _Side, rules: CopyRules, filled: float
) -> tuple[NDArray[np.bool_], float, float]:
    """The synthetic records to examine, the share of them expected to equal a real one by chance, and the limit.

    These are the rarest bands, as many as give the lowest limit.
    """
    count = min(_MOST_BANDS, max(1, len(synthetic.keys) // _BAND_RECORDS))
    edges = np.unique(np.quantile(synthetic.rarity, np.linspace(0, 1, count + 1)[1:-1]))
    real_bands, bands = (np.searchsorted(edges, side.rarity, side="right") for side in (real, synthetic))
    new = ~np.isin(synthetic.keys, real.keys)
    per_new = len(real.keys) / max(1, int(new.sum()))  # real records per new synthetic record
    records = real_records = 0
    expected, best = 0.0, (np.inf, 0.0, 0)  # limit, chance, first band
    for band in range(len(edges), -1, -1):
        keys, size = real.keys[real_bands == band], int((bands == band).sum())
        among_new = per_new * _chance(synthetic.keys[new & (bands == band)], size)
        chance = max(filled, _chance(keys), min(1.0, among_new))
        records, real_records, expected = records + size, real_records + len(keys), expected + size * chance
        if records and real_records:
            few = rules.records * (1 / records + 1 / real_records)
            limit = rules.factor * expected / records + rules.share + few
            best = min(best, (limit, expected / records, band))
    limit, chance, first_band = best
    return bands >= first_band, chance, limit


def _chance(keys: NDArray[np.uint64], number: int | None = None) -> float:
    """Good-Turing estimate: twice the records that occur exactly twice, as a share of `number` (default: of all)."""
    counts = np.unique(keys, return_counts=True)[1]
    return float(2 * (counts == 2).sum() / max(len(keys) if number is None else number, 1))


def _distinct(keys: NDArray[np.uint64], number: int) -> float:
    """Expected number of distinct records in a random sample of `number` of them."""
    counts = np.unique(keys, return_counts=True)[1]
    return float(np.sum(1 - hypergeom.pmf(0, len(keys), counts, number)))


def _random_hashes(count: int, seed: int = 0) -> NDArray[np.uint64]:
    """A random 64-bit number for each of `count` values; the sum over a set serves as the set's hash."""
    return np.random.default_rng([seed, 64]).integers(0, 2**64, count, dtype=np.uint64)


def _sums(records: Records, values: NDArray[_Number]) -> NDArray[_Number]:
    """For each record, the sum of `values` over its positions."""
    running = np.zeros(len(records.indices) + 1, dtype=values.dtype)
    np.cumsum(values[records.indices], out=running[1:])
    sums: NDArray[_Number] = running[records.indptr[1:]] - running[records.indptr[:-1]]
    return sums
