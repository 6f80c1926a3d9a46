"""A query: a bounded sum over the private rows that carries its own sensitivity, so that nobody retypes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.records import Records
from dpgm.errors import DpgmError


class Measures(NamedTuple):
    """A release in words, for people: the stage it belongs to, what it measures, its sensitivity."""

    stage: str
    sentence: str
    sensitivity: str


def _no_draws(rows: NDArray[np.int64], out: Tensor) -> None:
    raise DpgmError("secret draws come from a gateway: this view was made without one.")


@dataclass(frozen=True)
class View:
    """What a query sees: private rows, private columns derived from them, and the sampled row numbers.

    Only the gateway makes views of private rows, and only queries receive them.

    `fill_normals(rows, out)` writes independent standard normals, one line of `out` per row number: the secret draws of
    records, such as the latent variable of a VAE. A live gateway draws them afresh at every call and keeps none.
    Whether two data sets can be compared record by record hangs on that: were a draw a function of a row's place and of
    a seed that anyone can read, then one more record would change the draws of all that follow it. A row number equal
    to the number of records stands for a line that is not used.
    """

    records: Records
    kept: Mapping[str, Any] = field(default_factory=dict)
    sample: NDArray[np.int64] | None = None
    fill_normals: Callable[[NDArray[np.int64], Tensor], None] = _no_draws

    @property
    def rows(self) -> Records:
        """The rows in question: the sampled ones, or all."""
        return self.records if self.sample is None else self.records.take(self.sample)


@dataclass(frozen=True, eq=False)
class Counts:
    """Which numbers of an answer count rows.

    Number i counts the rows at position `positions[i]` of the domain, less `shares[i]` of all rows; a position of -1
    stands for a number that counts nothing that a record holds.
    """

    positions: NDArray[np.int64]
    shares: NDArray[np.float64]


@dataclass(frozen=True)
class Query:
    """A sum over rows, and by how much (L2) one added or removed row can move it.

    With a `grid`, `compute` returns int64 multiples of it, and the noise is integer and exact. Without, it
    returns floats; noise is added in place to the tensor `compute` returned and the sum rounded to a fixed grid.
    """

    compute: Callable[[View], Tensor]
    sensitivity: float
    shape: tuple[int, ...]
    grid: float | None = None
    counts: Counts | None = None

    def fits(self, value: Tensor) -> bool:
        """Whether a recorded value can be an answer to this question."""
        return tuple(value.shape) == tuple(self.shape)
