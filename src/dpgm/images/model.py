"""A generator of images, by class where the domain names a label.

A release holds its plain tensors; `sample` draws a class by its noisy size, an image of grey values from the network,
and every pixel's level, one of the two nearest to its value, by its own coin.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.pictures import level_bits
from dpgm.data.records import Records, concatenate, index_dtype
from dpgm.errors import ArtefactError, UsageError
from dpgm.images.layout import ImageLayout, draw_levels
from dpgm.images.networks import ImageNetwork, Parameters, shapes_of
from dpgm.images.rules import LARGEST_PARAMETER, SHARES_OFF

_CHUNK = 2048
_KEYS = {"network", "height", "columns", "classes", "latent", "hidden", "warp_order"}


class ImageGenerator:
    """A fitted image network with the shares of its classes.

    Args:
        architecture: plain values; `network` says whether it is the dense (`dct`) or the convolutional one.
        tensors: the network's parameters, and `class.shares` (classes,), non-negative with sum 1.
        domain: one image field and, at most, its label.
    """

    kind: ClassVar[str] = "image"

    def __init__(self, architecture: Mapping[str, Any], tensors: Mapping[str, Tensor], domain: Domain) -> None:
        self.architecture = dict(architecture)
        self.domain = domain
        self._layout = ImageLayout.of(domain)
        self._shares = tensors["class.shares"].detach().float().cpu()
        self._parameters: Parameters = {
            name: tensors[name].detach().float().cpu().contiguous() for name in shapes_of(architecture)
        }
        self._network = ImageNetwork(architecture)
        self._device = torch.device("cpu")

    def state(self) -> dict[str, Tensor]:
        """Every tensor by name."""
        return {"class.shares": self._shares, **{name: tensor.cpu() for name, tensor in self._parameters.items()}}

    @classmethod
    def from_state(
        cls, architecture: Mapping[str, Any], tensors: Mapping[str, Tensor], domain: Domain
    ) -> "ImageGenerator":
        """The generator of a stored release.

        Raises:
            ArtefactError: a name, shape, type or value is not what the architecture asks for.
        """
        try:
            layout = ImageLayout.of(domain)
        except UsageError as error:
            raise ArtefactError(f"the release's domain does not suit its image generator: {error}") from error
        _check_architecture(architecture, layout)
        expected = {"class.shares": (layout.classes,), **shapes_of(architecture)}
        if set(tensors) != set(expected):
            raise ArtefactError("the image generator's tensors are not those of its architecture.")
        for name, shape in expected.items():
            tensor = tensors[name]
            if tuple(tensor.shape) != shape or tensor.dtype != torch.float32:
                raise ArtefactError(f"the tensor {name!r} must be float32 of shape {shape}.")
            if not bool(torch.isfinite(tensor).all()) or bool((tensor.abs() > LARGEST_PARAMETER).any()):
                raise ArtefactError(f"the tensor {name!r} holds a value that is not finite or far too large.")
            if name.endswith(".variance") and bool((tensor < 0).any()):
                raise ArtefactError(f"the tensor {name!r} holds a negative variance.")
        shares = tensors["class.shares"]
        if bool((shares < 0).any()) or abs(float(shares.sum()) - 1) > SHARES_OFF:
            raise ArtefactError("the class shares must be non-negative and add up to 1.")
        return cls(architecture, tensors, domain)

    def to(self, device: torch.device | str) -> "ImageGenerator":
        """The same generator computing on another device; draws still come from a generator on the CPU."""
        moved = ImageGenerator(self.architecture, self.state(), self.domain)
        moved._parameters = {name: tensor.to(device) for name, tensor in self._parameters.items()}
        moved._network = ImageNetwork(self.architecture, device=device)
        moved._device = torch.device(device)
        return moved

    @torch.no_grad()
    def values(self, classes: Tensor, *, generator: torch.Generator) -> Tensor:
        """Grey values (n, pixels) in [0, 1] of one image for each class number; of binary images probabilities."""
        latent = torch.randn(len(classes), self._network.latent, generator=generator)
        warp = torch.randn(len(classes), self._network.warp, generator=generator)
        place = self._device
        return self._network(self._parameters, latent.to(place), warp.to(place), classes.to(place)).cpu()

    def sample(self, count: int, *, generator: torch.Generator) -> Records:
        """`count` synthetic records: a class by its share, its image, each pixel's level by its own coin."""
        if count == 0:
            return Records.from_lists([], self.domain)
        parts = []
        for start in range(0, count, _CHUNK):
            size = min(_CHUNK, count - start)
            classes = torch.multinomial(self._shares, size, replacement=True, generator=generator)
            values = self.values(classes, generator=generator)
            coins = torch.rand(values.shape, generator=generator)
            parts.append(self._records(draw_levels(values, self._layout.image.levels, coins), classes))
        return concatenate(parts)

    def as_products(self) -> None:
        """It is none."""

    def samples_whole(self, count: int) -> bool:
        """Never: every image is drawn by itself."""
        return False

    def sample_part(self, count: int, phase: float, *, generator: torch.Generator) -> Records:
        """`count` records of a larger sample that is drawn in parts."""
        return self.sample(count, generator=generator)

    def _records(self, levels: Tensor, classes: Tensor) -> Records:
        dense, image = np.zeros((len(classes), self.domain.width), dtype=bool), self._layout.image
        dense[:, self._layout.start : self._layout.start + image.width] = level_bits(levels.numpy(), image)
        if self._layout.labelled:
            dense[np.arange(len(classes)), self._layout.label_start + classes.numpy()] = True
        rows, columns = np.nonzero(dense)
        indptr = np.zeros(len(dense) + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=len(dense)), out=indptr[1:])
        return Records(self.domain, indptr, columns.astype(index_dtype(self.domain.width)))


def _check_architecture(architecture: Mapping[str, Any], layout: ImageLayout) -> None:
    """Sizes must be sane before anything is allocated by them."""
    network = architecture.get("network")
    keys = _KEYS | {"radius"} if network == "dct" else _KEYS
    if network not in ("dct", "conv") or set(architecture) != keys:
        raise ArtefactError("the image generator's architecture is not one this version knows.")
    layers = {"dct": 2, "conv": 3}[network]
    hidden = architecture["hidden"]
    if not isinstance(hidden, (list, tuple)) or len(hidden) != layers:
        raise ArtefactError(f"the image generator needs {layers} hidden sizes.")
    sizes = [architecture["latent"], *hidden]
    if any(not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= 4096 for size in sizes):
        raise ArtefactError("the image generator's sizes must be whole numbers from 1 to 4096.")
    if architecture["warp_order"] not in range(1, 9):
        raise ArtefactError("the image generator's warp order must be a whole number from 1 to 8.")
    if network == "dct":
        radius = architecture["radius"]
        if isinstance(radius, bool) or not isinstance(radius, (int, float)) or not 0 < radius <= 4096:
            raise ArtefactError("the image generator's radius must be a number above 0.")
    stated = (architecture["height"], architecture["columns"], architecture["classes"])
    if stated != (layout.image.height, layout.image.columns, layout.classes):
        raise ArtefactError("the image generator's shape is not that of the domain.")
