"""What every fitted generator can do, whatever is inside."""

from typing import Any, Protocol

import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records


class ProductMixture(Protocol):
    """A mixture of components whose items and table columns are independent."""

    @property
    def domain(self) -> Domain:
        """The public domain."""
        ...

    @property
    def components(self) -> int:
        """Their number k."""
        ...

    @property
    def weights(self) -> Tensor:
        """(k,) shares of the components."""
        ...

    @property
    def probabilities(self) -> Tensor:
        """(k, m) probability of every position in every component."""
        ...


class Generator(Protocol):
    """A fitted generator: plain tensors and a description; it has never heard of the rows."""

    @property
    def kind(self) -> str:
        """The name of the family it belongs to."""
        ...

    @property
    def architecture(self) -> dict[str, Any]:
        """Plain values from which, with `state`, it can be rebuilt."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Its parameters."""
        ...

    def sample(self, count: int, *, generator: torch.Generator) -> Records:
        """`count` synthetic records."""
        ...

    def as_products(self) -> ProductMixture | None:
        """The mixture of products that it is, if it is one: such a mixture can be conditioned exactly."""
        ...

    def samples_whole(self, count: int) -> bool:
        """Whether `sample` arranges `count` records as a whole; if not, larger samples are drawn in parts."""
        ...

    def sample_part(self, count: int, phase: float, *, generator: torch.Generator) -> Records:
        """`count` records of a larger sample that is drawn in parts; `phase`s are spread evenly over [0, 1)."""
        ...
