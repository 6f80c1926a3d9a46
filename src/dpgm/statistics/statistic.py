"""What a statistic is: a map from a record to a vector of bounded norm, its sum over the rows, its value on a model.

One file per statistic holds all of it: the query with its sensitivity, its sentence for the plan, how the bound is
chosen, how noisy values are read, and the same numbers on a mixture of products, which a fit compares with them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Measures, Query

GRID = 1 / 256  # contributions are whole multiples of this public step, so sums and noise are integer and exact
FULL_WEIGHT = round(1 / GRID)  # of a record that is not scaled down, in grid steps
STEPS = 16  # offsets and scales are whole multiples of one in so many
MARGIN = 1 - 1e-12  # far above the rounding of doubles: a weight times this is never rounded up

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Words: TypeAlias = Mapping[str, Measures]


class Statistic(Protocol):
    """A bounded sum over records, ready for the gateway."""

    words: ClassVar[Words]  # its sentence for the plan, under every name it may have there

    @property
    def name(self) -> str:
        """Its name in the plan."""
        ...

    def query(self) -> Query:
        """The question to the private rows; it says by how much (L2) one added or removed record can move the sum."""
        ...


S = TypeVar("S", bound=Statistic)


@dataclass(frozen=True)
class Measured(Generic[S]):
    """A statistic with its noisy sum; `std` is the standard deviation of the noise on every number."""

    statistic: S
    value: Tensor
    std: float


def ask(gateway: Gateway, statistic: S, noise: float) -> Measured[S]:
    """Release a statistic with the given noise multiplier."""
    query = statistic.query()
    return Measured(statistic, gateway.release(statistic.name, query, noise), noise * query.sensitivity)


def in_words(*statistics: Words) -> dict[str, Measures]:
    """The sentences of several statistics; those that go by one name, of which a fit measures one, are joined."""
    joined: dict[str, Measures] = {}
    for words in statistics:
        for name, one in words.items():
            first = joined.get(name, one)
            pairs = zip(first[1:], one[1:], strict=True)
            joined[name] = Measures(first.stage, *("; ".join(dict.fromkeys(pair)) for pair in pairs))
    return joined


# How down-weighting of long records scales the moments of every component: a level and a slope.
Scale: TypeAlias = tuple[Tensor, Tensor]
Scaling: TypeAlias = Callable[[Tensor], Scale]


class Expected(Protocol):
    """A statistic that a mixture of products has too."""

    def expected(self, probabilities: Tensor, weights: Tensor, scale: Scale) -> Tensor:
        """The same numbers on a mixture of products, as shares of the records; differentiable.

        Args:
            probabilities: (k, m) of every position in every component.
            weights: (k,) shares of the components.
            scale: of the components, from `Target.scaling`; it may lag some steps of a fit behind.
        """
        ...


E = TypeVar("E", bound=Expected, covariant=True)
E_ = TypeVar("E_", bound=Expected)


@dataclass(frozen=True)
class Target(Generic[E]):
    """What a generator should show: a statistic with its values as read from the noisy ones.

    `values`, `variances` and `size` are counts, laid out as `statistic.expected` lays out its numbers.
    """

    statistic: E
    values: Tensor
    variances: Tensor  # infinite where nothing was measured
    size: Tensor  # the counts that relative errors are relative to
    scaling: Scaling  # how down-weighting scales components of given probabilities (k, m)
    emphasis: float | Tensor = 1.0  # weight in the fit, of all numbers or of each

    def to(self, device: torch.device | str) -> "Target[E]":
        """The same with its numbers on a device."""
        emphasis = self.emphasis.to(device) if isinstance(self.emphasis, Tensor) else self.emphasis
        values, variances, size = (numbers.to(device) for numbers in (self.values, self.variances, self.size))
        return replace(self, values=values, variances=variances, size=size, emphasis=emphasis)


def target_of(
    statistic: E_,
    values: Floats,
    stds: Floats,
    scaling: Scaling,
    emphasis: float | Tensor = 1.0,
    size: NDArray[np.floating] | None = None,
) -> Target[E_]:
    """A target from numpy's numbers; errors are relative to the values, or to `size` where that is given."""
    counts = torch.from_numpy(values).float()
    sizes = counts.clamp(min=0) if size is None else torch.from_numpy(size).float()
    return Target(statistic, counts, torch.from_numpy(stds**2).float(), sizes, scaling, emphasis)


def columns_of(probabilities: Tensor, positions: Tensor) -> Tensor:
    """The probabilities at some positions, on their own device; no copy where these are all of them."""
    width = probabilities.shape[1]
    if len(positions) == width and torch.equal(positions, torch.arange(width)):
        return probabilities
    return probabilities.index_select(1, positions.to(probabilities.device))


def unscaled(probabilities: Tensor) -> Scale:
    """The scale where all records weigh alike."""
    return probabilities.new_ones(()), probabilities.new_zeros(())
