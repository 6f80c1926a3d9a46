"""What a statistic is: a map from a record to a vector of bounded norm, its sum over the rows, its value on a model.

One file holds all of a statistic: the query with its sensitivity, the sentence for the plan, how the bound is chosen,
how noisy values are read (shrunk), and the same numbers on a mixture of products, which a fit compares with them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.arrays import Floats
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Measures, Query

GRID = 1 / 256  # weights are whole multiples of this public step, so that sums and noise are integer and exact
FULL_WEIGHT = round(1 / GRID)  # the weight 1, in grid steps
STEPS = 16  # offsets and scales are whole multiples of 1 / STEPS
MARGIN = 1 - 1e-12  # a weight times this is never rounded up past its bound; far above the rounding of doubles

Descriptions: TypeAlias = Mapping[str, Measures]


class Statistic(Protocol):
    """A bounded sum over records, ready for the gateway."""

    words: ClassVar[Descriptions]  # its sentence for the plan, under every name it may have there

    @property
    def name(self) -> str:
        """The name of its mechanism in the plan."""
        ...

    def query(self) -> Query:
        """The sum over the private rows and its sensitivity: the L2 norm by which one record can change the sum."""
        ...


S = TypeVar("S", bound=Statistic)


@dataclass(frozen=True)
class Measured(Generic[S]):
    """A statistic with its noisy sum; `std` is the standard deviation of the noise on every number."""

    statistic: S
    value: Tensor
    std: float


def release(gateway: Gateway, statistic: S, noise: float) -> Measured[S]:
    """Release a statistic with the given noise multiplier."""
    query = statistic.query()
    return Measured(statistic, gateway.release(statistic.name, query, noise), noise * query.sensitivity)


def plan_descriptions(*statistics: Descriptions) -> dict[str, Measures]:
    """The sentences of several statistics by name; where alternatives share a name, their sentences are joined."""
    joined: dict[str, Measures] = {}
    for words in statistics:
        for name, one in words.items():
            first = joined.get(name, one)
            pairs = zip(first[1:], one[1:], strict=True)
            joined[name] = Measures(
                first.stage, *(said if new in said else f"{said}; {new}" for said, new in pairs)
            )
    return joined


# -- the value on a model ------------------------------------------------------------------------------------------

# How down-weighting of long records changes the moments of every component, to first order: two tensors whose meaning
# is a matter between `Target.scaling` and `expected` of the same statistic.
ScaleTerms: TypeAlias = tuple[Tensor, Tensor]
Scaling: TypeAlias = Callable[[Tensor], ScaleTerms]


class Expected(Protocol):
    """A statistic that can be evaluated on a mixture of products."""

    def expected(self, probabilities: Tensor, weights: Tensor, scale: ScaleTerms) -> Tensor:
        """The expected value of the statistic per record of the mixture; differentiable.

        Args:
            probabilities: (k, m) of every position in every component.
            weights: (k,) shares of the components.
            scale: from `Target.scaling`; a fit may compute it a few steps earlier.
        """
        ...


E = TypeVar("E", bound=Expected, covariant=True)
E_ = TypeVar("E_", bound=Expected)


@dataclass(frozen=True)
class Target(Generic[E]):
    """A statistic with the values that a generator should reproduce, as estimated from the noisy ones.

    `values`, `variances` and `size` are counts, in the layout of `statistic.expected`.
    """

    statistic: E
    values: Tensor
    variances: Tensor  # infinite where nothing was measured
    size: Tensor  # the counts that relative errors are relative to
    scaling: Scaling  # from probabilities (k, m) to the effect of down-weighting on each component
    emphasis: float | Tensor = 1.0  # weight in the fit, of all numbers or of each

    def to(self, device: torch.device | str) -> "Target[E]":
        """The same target with its numbers on a device."""
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
    """A target from numpy arrays; errors are relative to `size`, by default the values."""
    counts = torch.from_numpy(values).float()
    sizes = counts.clamp(min=0) if size is None else torch.from_numpy(size).float()
    return Target(statistic, counts, torch.from_numpy(stds**2).float(), sizes, scaling, emphasis)


def at_positions(probabilities: Tensor, positions: Tensor) -> Tensor:
    """The probabilities at some positions; a view, not a copy, where these are all positions."""
    width = probabilities.shape[1]
    if len(positions) == width and torch.equal(positions, torch.arange(width)):
        return probabilities
    return probabilities.index_select(1, positions.to(probabilities.device))


def unscaled(probabilities: Tensor) -> ScaleTerms:
    """The scale of statistics that down-weight no record."""
    return probabilities.new_ones(()), probabilities.new_zeros(())
