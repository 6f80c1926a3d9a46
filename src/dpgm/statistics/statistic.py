"""What a statistic is: a map from a record to a vector of bounded norm, and its sum over the rows."""

from dataclasses import dataclass
from functools import lru_cache
from math import comb, floor, sqrt
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Query

GRID = 1 / 256  # contributions are whole multiples of this public step, so sums and noise are integer and exact


class Statistic(Protocol):
    """A bounded sum over records, ready for the gateway."""

    @property
    def name(self) -> str:
        """Its name in the plan."""
        ...

    @property
    def sensitivity(self) -> float:
        """By how much (L2) one added or removed record can move the sum."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the sum."""
        ...

    def query(self) -> Query:
        """The question to the private rows."""
        ...


S = TypeVar("S", bound=Statistic, covariant=True)


@dataclass(frozen=True)
class Measured(Generic[S]):
    """A statistic with its noisy sum; `std` is the standard deviation of the noise on every number."""

    statistic: S
    value: Tensor
    std: float


T = TypeVar("T", bound=Statistic)


def ask(gateway: Gateway, statistic: T, noise: float) -> Measured[T]:
    """Release a statistic with the given noise multiplier."""
    value = gateway.release(statistic.name, statistic.query(), noise)
    return Measured(statistic, value, noise * statistic.sensitivity)


@lru_cache(maxsize=64)
def _steps(longest: int, order: int, cap: int) -> NDArray[np.int64]:
    bound = comb(cap, order)
    steps = np.full(longest + 1, round(1 / GRID), dtype=np.int64)
    for n in range(cap + 1, longest + 1):
        steps[n] = floor(sqrt(bound / comb(n, order)) / GRID)
    steps.flags.writeable = False
    return steps


def clip_steps(longest: int, order: int, cap: int) -> NDArray[np.int64]:
    """Weight of a record of n = 0 .. `longest` items, in grid steps, rounded down.

    A record of n items has C(n, order) sets of `order` items; all of them together, each weighted by
    min(1, sqrt(C(cap, order) / C(n, order))), have norm at most sqrt(C(cap, order)).

    >>> (clip_steps(6, 2, 4) * GRID).round(3).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.773, 0.629]
    """
    return _steps(longest, order, cap)


def clip_bound(order: int, cap: int) -> float:
    """The norm that `clip_steps` keeps every record within."""
    return sqrt(comb(cap, order))
