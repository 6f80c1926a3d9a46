"""The image generator: a small network, conditional on the class if the domain has a label, and its samples.

There are two networks from latent draws and a class to an image of logits:

- `dct`: two dense layers, then damped cosine coefficients and their inverse transform, fast on a CPU;
- `conv`: a dense layer, then three convolutions with two doublings of the grid, for a GPU.

Both end with a random smooth warp whose strength is learned for each class. Hidden layers are normalised over the batch
while fitting, and by stored moments (`mean` and `variance` tensors, computed at the end of the fit) while sampling.

`sample` draws a class by its noisy size and an image of grey values from the network. A pixel of a grey image has the
nearest level; one of a black and white image is on with the probability that its grey value states.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from dpgm.data.domain import Domain
from dpgm.data.kinds.image import level_bits
from dpgm.data.records import Records, concatenate
from dpgm.errors import ArtefactError, UsageError
from dpgm.images.features import ImageLayout, cosine_images, squared_frequencies
from dpgm.images.rules import IMAGE_RULES, LARGEST_PARAMETER, OUTPUT_DAMPING, ImageFitRules
from dpgm.strategy.protocol import Generator, check_shares, check_tensors, is_size

Parameters = dict[str, Tensor]
Watched = list[tuple[str, Tensor]]

_VARIANCE_FLOOR = 1e-5
_CHUNK = 2048


@dataclass(frozen=True)
class ImageArchitecture:
    """The sizes of a network; `hidden` has two layer sizes (`dct`) or three numbers of channels (`conv`)."""

    network: Literal["dct", "conv"]
    height: int
    columns: int
    classes: int
    latent: int
    hidden: tuple[int, ...]
    radius: float = IMAGE_RULES.fit.radius  # largest frequency of the cosine coefficients of `dct`
    warp_order: int = IMAGE_RULES.fit.warp_order

    @classmethod
    def read(cls, plain: Mapping[str, Any], layout: ImageLayout) -> "ImageArchitecture":
        """From an untrusted file; sizes are checked before anything is allocated."""
        network = plain.get("network")
        if network not in ("dct", "conv") or set(plain) != set(cls.__dataclass_fields__) - _left_out(network):
            raise ArtefactError("the image generator's architecture is not one this version knows.")
        hidden, layers = plain["hidden"], 2 if network == "dct" else 3
        if not isinstance(hidden, (list, tuple)) or len(hidden) != layers:
            raise ArtefactError(f"the image generator needs {layers} hidden sizes.")
        sizes = [plain["latent"], *hidden]
        if not all(is_size(size, 4096) for size in sizes):
            raise ArtefactError("the image generator's sizes must be whole numbers from 1 to 4096.")
        if plain["warp_order"] not in range(1, 9):
            raise ArtefactError("the image generator's warp order must be a whole number from 1 to 8.")
        radius = plain.get("radius", cls.radius)
        if isinstance(radius, bool) or not isinstance(radius, (int, float)) or not 0 < radius <= 4096:
            raise ArtefactError("the image generator's radius must be a number above 0.")
        if (plain["height"], plain["columns"], plain["classes"]) != layout.shape:
            raise ArtefactError("the image generator's shape is not that of the domain.")
        return cls(network, *layout.shape, sizes[0], tuple(hidden), radius, int(plain["warp_order"]))

    def plain(self) -> dict[str, Any]:
        """JSON values, the inverse of `read`."""
        values = {**asdict(self), "hidden": list(self.hidden)}
        return {name: value for name, value in values.items() if name not in _left_out(self.network)}

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every tensor of the network by name."""
        entry, hidden = self.latent + self.classes, self.hidden
        shapes: dict[str, tuple[int, ...]] = {}
        if self.network == "dct":
            shapes["layer1.weight"] = (hidden[0], entry)
            shapes["layer2.weight"] = (hidden[1], hidden[0])
            shapes["output.weight"] = (len(self.coefficients), hidden[1])
            shapes["output.bias"] = (self.height * self.columns,)
        else:
            shapes["layer1.weight"] = (hidden[0] * math.prod(self.coarse), entry)
            shapes["layer2.weight"] = (hidden[1], hidden[0], 3, 3)
            shapes["layer3.weight"] = (hidden[2], hidden[1], 3, 3)
            shapes["output.weight"] = (1, hidden[2], 3, 3)
            shapes["output.bias"] = (1,)
        for number, size in enumerate(hidden, start=1):
            shapes |= {f"norm{number}.{name}": (self.classes, size) for name in ("gain", "shift")}
            shapes |= {f"norm{number}.{name}": (size,) for name in ("mean", "variance")}
        return shapes | {"warp.scale": (self.classes, self.warp)}

    @property
    def warp(self) -> int:
        """Number of random numbers of a warp: for each direction three of an affine map, and the waves."""
        return 2 * (self.warp_order + 1) ** 2

    @property
    def coarse(self) -> tuple[int, int]:
        """Shape of the grid before the two doublings of `conv`."""
        return -(-self.height // 4), -(-self.columns // 4)

    @cached_property
    def coefficients(self) -> Tensor:
        """Indices of the cosine coefficients within the radius."""
        squares = squared_frequencies(self.height, self.columns).flatten()
        return torch.nonzero(squares <= self.radius**2).flatten()


def _left_out(network: str) -> set[str]:
    """Fields that the plain form of an architecture leaves out."""
    return {"radius"} if network == "conv" else set()


class ImageGenerator(Generator):
    """A fitted image network with the shares of its classes; images are independent draws.

    Args:
        sizes: sizes of the network.
        tensors: the network's parameters, and `class.shares` (classes,), non-negative with sum 1.
        domain: one image field and at most a label.
        device: where to compute; random numbers come from a generator on the CPU.
    """

    kind = "image"

    def __init__(
        self,
        sizes: ImageArchitecture,
        tensors: Mapping[str, Tensor],
        domain: Domain,
        device: torch.device | str = "cpu",
    ) -> None:
        self.sizes, self.domain, self._device = sizes, domain, device
        self._layout = ImageLayout.of(domain)
        self._shares = tensors["class.shares"].detach().float().cpu()
        self._parameters: Parameters = {
            name: tensors[name].detach().float().to(device).contiguous() for name in sizes.shapes
        }
        self._network = ImageNetwork(sizes, device=device)

    @property
    def architecture(self) -> dict[str, Any]:
        """Plain values that determine the shapes of `state`."""
        return self.sizes.plain()

    def state(self) -> dict[str, Tensor]:
        """All tensors by name."""
        return {"class.shares": self._shares, **{name: tensor.cpu() for name, tensor in self._parameters.items()}}

    @classmethod
    def from_state(
        cls, architecture: Mapping[str, Any], tensors: Mapping[str, Tensor], domain: Domain
    ) -> "ImageGenerator":
        """Restore a generator from an untrusted file.

        Raises:
            ArtefactError: a name, shape, type or value does not match the architecture.
        """
        try:
            layout = ImageLayout.of(domain)
        except UsageError as error:
            raise ArtefactError(f"the release's domain does not suit its image generator: {error}") from error
        sizes = ImageArchitecture.read(architecture, layout)
        shapes = {"class.shares": (layout.classes,), **sizes.shapes}
        expected = {name: (shape, torch.float32) for name, shape in shapes.items()}
        check_tensors(tensors, expected, -LARGEST_PARAMETER, LARGEST_PARAMETER)
        check_shares(tensors["class.shares"])
        if any(bool((tensors[name] < 0).any()) for name in shapes if name.endswith(".variance")):
            raise ArtefactError("the image generator holds a negative variance; get the release again.")
        return cls(sizes, tensors, domain)

    def to(self, device: torch.device | str) -> "ImageGenerator":
        """The same generator computing on another device."""
        return ImageGenerator(self.sizes, self.state(), self.domain, device)

    @torch.no_grad()
    def values(self, classes: Tensor, *, generator: torch.Generator) -> Tensor:
        """Grey values (n, pixels) in [0, 1] of one image per class number; probabilities for binary images."""
        latent = torch.randn(len(classes), self.sizes.latent, generator=generator)
        warp = torch.randn(len(classes), self.sizes.warp, generator=generator)
        latent, warp, classes = (draws.to(self._device) for draws in (latent, warp, classes))
        return self._network(self._parameters, latent, warp, classes).cpu()

    def sample(self, count: int, *, generator: torch.Generator) -> Records:
        """`count` synthetic records: a class by its share, its image, and the level of each pixel."""
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

    def _records(self, levels: Tensor, classes: Tensor) -> Records:
        dense, image = np.zeros((len(classes), self.domain.width), dtype=bool), self._layout.image
        dense[:, self._layout.start : self._layout.start + image.width] = level_bits(levels.numpy(), image)
        if self._layout.labelled:
            dense[np.arange(len(classes)), self._layout.label_start + classes.numpy()] = True
        return Records.from_dense(dense, self.domain)


def draw_levels(values: Tensor, levels: int, coins: Tensor) -> Tensor:
    """Grey levels 0 .. levels - 1 of values in [0, 1].

    With two levels, the value of a pixel is its probability to be on; `coins` are uniform draws. With more, the nearest
    level is taken: a coin for every pixel would make images grainy.
    """
    return (coins < values).float() if levels == 2 else (values * (levels - 1)).round()


def initial_parameters(
    sizes: ImageArchitecture, rules: ImageFitRules = IMAGE_RULES.fit, *, generator: torch.Generator
) -> Parameters:
    """Random weights, a weak warp, and images that are mostly dark."""
    parameters: Parameters = {}
    for name, shape in sizes.shapes.items():
        if name.endswith(".weight"):
            fan_in = math.prod(shape[1:])
            parameters[name] = torch.randn(shape, generator=generator) * math.sqrt(2 / fan_in)
        elif name.endswith((".gain", ".variance")):
            parameters[name] = torch.ones(shape)
        else:
            parameters[name] = torch.zeros(shape)
    parameters["output.bias"].fill_(rules.first_logit)
    affine = torch.zeros(sizes.warp // 2)
    affine[:3] = math.log(rules.warp_affine)
    affine[3:] = math.log(rules.warp_rest)
    parameters["warp.scale"] += torch.cat([affine, affine])
    return parameters


class ImageNetwork:
    """The fixed part of a network (bases and grids) on one device; parameters are passed to every call."""

    def __init__(self, sizes: ImageArchitecture, *, device: torch.device | str = "cpu") -> None:
        self.sizes = sizes
        shape = sizes.height, sizes.columns
        self._fields = displacement_basis(*shape, sizes.warp_order).flatten(1).to(device)
        self._grid = torch.stack(coordinates(*shape), dim=-1).to(device)  # the identity warp
        if sizes.network == "dct":
            chosen = sizes.coefficients
            weights = 1 / (1 + squared_frequencies(*shape).flatten()[chosen] / OUTPUT_DAMPING)
            # orthonormal coefficients grow with the number of pixels, logits must not
            scale = math.sqrt(math.prod(shape)) / 4
            self._inverse = (cosine_images(*shape, chosen) * weights[:, None] * scale).to(device)

    def __call__(
        self, parameters: Parameters, latent: Tensor, warp: Tensor, classes: Tensor, watched: Watched | None = None
    ) -> Tensor:
        """Pixel probabilities (n, height * columns).

        Args:
            parameters: the tensors of `ImageArchitecture.shapes`.
            latent: draws (n, latent).
            warp: draws (n, warp).
            classes: class numbers (n,).
            watched: for fitting: hidden layers are normalised over the batch, and their values before that are
                appended here by name. None normalises by the stored moments, so an image depends on its draws only.
        """
        sizes = self.sizes
        one_hot = functional.one_hot(classes, sizes.classes).to(latent.dtype)
        entry = torch.cat([latent, 3 * one_hot], dim=1) / math.sqrt(1 + 9 / sizes.latent)
        body = self._dense if sizes.network == "dct" else self._convolutional
        logits = body(parameters, entry, one_hot, watched).float()
        strength = (one_hot @ parameters["warp.scale"].exp()) * warp
        moved = (strength @ self._fields).reshape(-1, sizes.height, sizes.columns, 2) + self._grid
        warped = functional.grid_sample(logits, moved, padding_mode="border", align_corners=False)
        return warped.sigmoid().flatten(1)

    def _dense(self, parameters: Parameters, entry: Tensor, one_hot: Tensor, watched: Watched | None) -> Tensor:
        hidden = entry @ parameters["layer1.weight"].T
        hidden = _normalised(hidden, parameters, "norm1", one_hot, watched).relu()
        hidden = hidden @ parameters["layer2.weight"].T
        hidden = _normalised(hidden, parameters, "norm2", one_hot, watched).relu()
        coefficients = hidden @ parameters["output.weight"].T
        logits = torch.addmm(parameters["output.bias"], coefficients, self._inverse)
        return logits.reshape(-1, 1, self.sizes.height, self.sizes.columns)

    def _convolutional(
        self, parameters: Parameters, entry: Tensor, one_hot: Tensor, watched: Watched | None
    ) -> Tensor:
        hidden = (entry @ parameters["layer1.weight"].T).reshape(len(entry), -1, *self.sizes.coarse)
        if hidden.is_cuda:  # the layout in which convolutions of half precision are fast
            hidden = hidden.contiguous(memory_format=torch.channels_last)
        hidden = _normalised(hidden, parameters, "norm1", one_hot, watched).relu()
        for number in (2, 3):
            hidden = _doubled(hidden)
            hidden = functional.conv2d(hidden, parameters[f"layer{number}.weight"], padding=1)
            hidden = _normalised(hidden, parameters, f"norm{number}", one_hot, watched).relu()
        # on a GPU a convolution to eight channels is faster than to one: add seven of zeros and drop them
        weight = functional.pad(parameters["output.weight"], (0, 0, 0, 0, 0, 0, 0, 7 if hidden.is_cuda else 0))
        logits = functional.conv2d(hidden, weight, padding=1)[:, :1] + parameters["output.bias"]
        return logits[:, :, : self.sizes.height, : self.sizes.columns]


def _normalised(
    values: Tensor, parameters: Parameters, name: str, one_hot: Tensor, watched: Watched | None
) -> Tensor:
    """Normalise each channel to mean 0 and variance 1, then apply the gain and shift of the class."""
    trailing = (1,) * (values.dim() - 2)
    gain, shift = one_hot @ parameters[f"{name}.gain"], one_hot @ parameters[f"{name}.shift"]
    if watched is not None:
        watched.append((name, values))
        values = functional.batch_norm(values, None, None, training=True, eps=_VARIANCE_FLOOR)
    else:
        spread = (parameters[f"{name}.variance"] + _VARIANCE_FLOOR).rsqrt()
        gain = gain * spread
        shift = shift - parameters[f"{name}.mean"] * gain
    gain, shift = gain.to(values.dtype), shift.to(values.dtype)
    return torch.addcmul(shift.reshape(*shift.shape, *trailing), values, gain.reshape(*gain.shape, *trailing))


def _doubled(values: Tensor) -> Tensor:
    """Repeat every pixel in both directions; channels stay innermost in memory."""
    count, channels, rows, columns = values.shape
    inner = values.permute(0, 2, 3, 1)[:, :, None, :, None, :]
    wide = inner.expand(count, rows, 2, columns, 2, channels).reshape(count, 2 * rows, 2 * columns, channels)
    return wide.permute(0, 3, 1, 2)


def coordinates(height: int, columns: int) -> tuple[Tensor, Tensor]:
    """Horizontal and vertical coordinates (height, columns) of every pixel in [-1, 1], as `grid_sample` takes them."""
    x, y = ((torch.arange(size) * 2 + 1) / size - 1 for size in (columns, height))
    return x.expand(height, columns), y[:, None].expand(height, columns)


def displacement_basis(height: int, columns: int, order: int) -> Tensor:
    """Displacement fields (k, height, columns, 2): for each direction three of an affine map, and cosine waves."""
    x, y = coordinates(height, columns)
    scalars = [x, y, torch.ones(height, columns)]
    for vertical in range(order + 1):
        for horizontal in range(order + 1):
            if vertical + horizontal >= 2:
                wave = torch.cos(math.pi * vertical * (y + 1) / 2) * torch.cos(math.pi * horizontal * (x + 1) / 2)
                scalars.append(wave / (vertical + horizontal))
    zero = torch.zeros(height, columns)
    fields = [torch.stack([scalar, zero], dim=-1) for scalar in scalars]
    fields += [torch.stack([zero, scalar], dim=-1) for scalar in scalars]
    return torch.stack(fields)
