"""A pool: sequences drawn from a proposal, each with the number of times that it came."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import AnyArray, Floats, Ints
from dpgm.data.records import Records

_FACTOR, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)  # odd: of a hash of 64 bits


@dataclass(frozen=True, eq=False)
class Pool:
    """Different records, and how often each was drawn."""

    records: Records
    times: Ints

    def __len__(self) -> int:
        return len(self.records)

    @property
    def drawn(self) -> int:
        """The number of draws."""
        return int(self.times.sum())

    @property
    def log_base(self) -> Tensor:
        """The logarithm of the number of draws of each record."""
        return torch.from_numpy(np.log(self.times))

    @classmethod
    def merged(cls, records: Records) -> "Pool":
        """With equal records joined; the order is that of their first draws."""
        events = records.events
        assert events is not None
        keys = _hashes(events.indptr, events.codes)
        if events.times is not None:
            keys = keys * _FACTOR + _hashes(events.indptr, events.times)
        if len(records.indices):
            keys = keys * _FACTOR + _hashes(records.indptr, records.indices)
        order = np.argsort(keys, kind="stable")
        first = np.ones(len(keys), dtype=np.bool_)
        np.not_equal(keys[order[1:]], keys[order[:-1]], out=first[1:])
        starts = np.flatnonzero(first)
        times = np.diff(np.append(starts, len(keys)))
        again = np.argsort(order[starts])
        return cls(records.take(order[starts][again]), times[again])


def _hashes(indptr: Ints, values: AnyArray) -> AnyArray:
    """(n, uint64): a polynomial in the values of each row, equal for equal rows."""
    lengths = np.diff(indptr)
    powers = np.full(int(lengths.max(initial=0)) + 1, _FACTOR)
    powers[:1] = 1
    powers = np.multiply.accumulate(powers)  # modulo 2^64
    mixed = (values.astype(np.uint64) + np.uint64(1)) * _MIX
    mixed ^= mixed >> np.uint64(29)
    place = np.arange(len(values)) - np.repeat(indptr[:-1], lengths)
    running = np.zeros(len(values) + 1, dtype=np.uint64)
    np.cumsum(mixed * powers[place], out=running[1:])
    hashes: AnyArray = running[indptr[1:]] - running[indptr[:-1]] + lengths.astype(np.uint64)
    return hashes


def resampled(weights: Floats, count: int, rng: np.random.Generator) -> Ints:
    """`count` draws in proportion to the weights, each as often as its rounded share, in random order."""
    running = np.cumsum(weights)
    places = (np.arange(count) + rng.random()) / max(count, 1) * running[-1]
    return rng.permutation(np.minimum(np.searchsorted(running, places, side="right"), len(weights) - 1))
