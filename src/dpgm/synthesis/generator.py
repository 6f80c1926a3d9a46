"""What every fitted generator can do, whatever network is inside."""

from typing import Any, Protocol

import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import ArtefactError


class Generator(Protocol):
    """A fitted generator: plain tensors and a description; it has never heard of the rows."""

    @property
    def kind(self) -> str:
        """Which family it belongs to."""
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


def rebuild(kind: str, architecture: dict[str, Any], tensors: dict[str, Tensor], domain: Domain) -> Generator:
    """A generator from the parts of a release; every name, shape and value is checked by its own family."""
    from dpgm.models.image import ImageGenerator
    from dpgm.models.mixture import Mixture
    from dpgm.models.products import Products

    if kind == "products":
        return Products.from_state(architecture, tensors, domain)
    if kind == "image":
        sizes = {name: value for name, value in architecture.items() if name != "kind"}
        return ImageGenerator.from_state(sizes, tensors, domain)
    if kind in ("vae", "rbm"):
        return Mixture.from_state(architecture, tensors, domain)
    raise ArtefactError(f"the release holds a generator of the unknown kind {kind!r}; update dpgm.")
