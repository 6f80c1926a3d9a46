"""A generator of images, by class where the domain names a label: a small network, and how records are drawn from it.

Two networks lead from latent draws and a class to an image of logits, written on plain tensors:

- `dct`   two dense layers, then damped cosine coefficients and their inverse transform: quick on a CPU;
- `conv`  a dense layer, then three convolutions with two doublings of the grid: for a GPU.

Both are followed by a random smooth warp whose strength is learned for each class. Hidden layers are normalised over
the batch while fitting; `mean` and `variance` tensors, measured once at the end, take that place when sampling.

A release holds plain tensors; `sample` draws a class by its noisy size, an image of grey values from the network, and
every pixel's level, one of the two nearest to its value, by its own coin.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from dpgm.data.domain import Domain
from dpgm.data.records import Records, concatenate, level_bits
from dpgm.errors import ArtefactError, UsageError
from dpgm.images.features import ImageLayout, cosine_images, squared_frequencies
from dpgm.images.rules import LARGEST_PARAMETER, OUTPUT_DAMPING, RULES, SHARES_OFF, ImageFitRules

Parameters = dict[str, Tensor]
Watched = list[tuple[str, Tensor]]

_VARIANCE_FLOOR = 1e-5
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
        return Records.from_dense(dense, self.domain)


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


def draw_levels(values: Tensor, levels: int, coins: Tensor) -> Tensor:
    """Grey levels 0 .. levels - 1 whose mean is that of values in [0, 1]: the one below or above, by a coin each.

    With two levels a pixel is on with the probability that its value states.
    """
    exact = values * (levels - 1)
    below = exact.floor()
    return below + (coins < exact - below)


def image_architecture(
    network: Literal["dct", "conv"],
    height: int,
    columns: int,
    classes: int,
    *,
    latent: int,
    hidden: Sequence[int],
    rules: ImageFitRules = RULES.fit,
) -> dict[str, Any]:
    """Plain values that describe a network; `hidden` are two sizes of layers (`dct`) or three of channels (`conv`)."""
    radius = {"radius": rules.radius} if network == "dct" else {}
    return {
        "network": network,
        "height": height,
        "columns": columns,
        "classes": classes,
        "latent": latent,
        "hidden": list(hidden),
        **radius,
        "warp_order": rules.warp_order,
    }


def shapes_of(architecture: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor of a network."""
    height, columns = int(architecture["height"]), int(architecture["columns"])
    classes, latent = int(architecture["classes"]), int(architecture["latent"])
    hidden = [int(size) for size in architecture["hidden"]]
    shapes: dict[str, tuple[int, ...]] = {}
    if architecture["network"] == "dct":
        shapes["layer1.weight"] = (hidden[0], latent + classes)
        shapes["layer2.weight"] = (hidden[1], hidden[0])
        shapes["output.weight"] = (len(_within_radius(architecture)), hidden[1])
        shapes["output.bias"] = (height * columns,)
    else:
        rows, steps = _coarse(architecture)
        shapes["layer1.weight"] = (hidden[0] * rows * steps, latent + classes)
        shapes["layer2.weight"] = (hidden[1], hidden[0], 3, 3)
        shapes["layer3.weight"] = (hidden[2], hidden[1], 3, 3)
        shapes["output.weight"] = (1, hidden[2], 3, 3)
        shapes["output.bias"] = (1,)
    for number, size in enumerate(hidden, start=1):
        shapes[f"norm{number}.gain"] = (classes, size)
        shapes[f"norm{number}.shift"] = (classes, size)
        shapes[f"norm{number}.mean"] = (size,)
        shapes[f"norm{number}.variance"] = (size,)
    shapes["warp.scale"] = (classes, warp_size(architecture))
    return shapes


def warp_size(architecture: Mapping[str, Any]) -> int:
    """Random numbers a warp takes."""
    return int(2 * (3 + (int(architecture["warp_order"]) + 1) ** 2 - 3))


def initial_parameters(
    architecture: Mapping[str, Any], rules: ImageFitRules = RULES.fit, *, generator: torch.Generator
) -> Parameters:
    """Random weights; a weak warp; images that start mostly dark."""
    parameters: Parameters = {}
    for name, shape in shapes_of(architecture).items():
        if name.endswith(".weight"):
            fan_in = math.prod(shape[1:])
            parameters[name] = torch.randn(shape, generator=generator) * math.sqrt(2 / fan_in)
        elif name.endswith((".gain", ".variance")):
            parameters[name] = torch.ones(shape)
        else:
            parameters[name] = torch.zeros(shape)
    parameters["output.bias"].fill_(rules.first_logit)
    affine = torch.zeros(warp_size(architecture) // 2)
    affine[:3] = math.log(rules.warp_affine)
    affine[3:] = math.log(rules.warp_rest)
    parameters["warp.scale"] += torch.cat([affine, affine])
    return parameters


class ImageNetwork:
    """The fixed part of a network on one device: bases and grids; parameters are passed to every call."""

    def __init__(self, architecture: Mapping[str, Any], *, device: torch.device | str = "cpu") -> None:
        self.architecture = dict(architecture)
        self.height, self.columns = int(architecture["height"]), int(architecture["columns"])
        self.classes, self.latent = int(architecture["classes"]), int(architecture["latent"])
        self.warp = warp_size(architecture)
        order = int(architecture["warp_order"])
        self._fields = displacement_basis(self.height, self.columns, order).flatten(1).to(device)
        self._grid = resting_grid(self.height, self.columns).to(device)
        if architecture["network"] == "dct":
            chosen = _within_radius(architecture)
            weights = 1 / (1 + squared_frequencies(self.height, self.columns).flatten()[chosen] / OUTPUT_DAMPING)
            # orthonormal coefficients grow with the number of pixels, logits must not
            scale = math.sqrt(self.height * self.columns) / 4
            self._inverse = (cosine_images(self.height, self.columns, chosen) * weights[:, None] * scale).to(device)

    def __call__(
        self, parameters: Parameters, latent: Tensor, warp: Tensor, classes: Tensor, watched: Watched | None = None
    ) -> Tensor:
        """Pixel probabilities (n, height * columns).

        Args:
            parameters: the tensors of `shapes_of`.
            latent: draws (n, latent).
            warp: draws (n, warp).
            classes: class numbers (n,).
            watched: while fitting: hidden layers are normalised over the batch, and their values before that are
                appended here by name. None normalises by the stored moments: an image depends on its draws alone.
        """
        one_hot = functional.one_hot(classes, self.classes).to(latent.dtype)
        entry = torch.cat([latent, 3 * one_hot], dim=1) / math.sqrt(1 + 9 / max(1, self.latent))
        body = self._dense if self.architecture["network"] == "dct" else self._convolutional
        logits = body(parameters, entry, one_hot, watched).float()
        strength = (one_hot @ parameters["warp.scale"].exp()) * warp
        moved = (strength @ self._fields).reshape(-1, self.height, self.columns, 2) + self._grid
        warped = functional.grid_sample(logits, moved, padding_mode="border", align_corners=False)
        return warped.sigmoid().flatten(1)

    def _dense(self, parameters: Parameters, entry: Tensor, one_hot: Tensor, watched: Watched | None) -> Tensor:
        hidden = entry @ parameters["layer1.weight"].T
        hidden = _normalised(hidden, parameters, "norm1", one_hot, watched).relu()
        hidden = hidden @ parameters["layer2.weight"].T
        hidden = _normalised(hidden, parameters, "norm2", one_hot, watched).relu()
        coefficients = hidden @ parameters["output.weight"].T
        logits = torch.addmm(parameters["output.bias"], coefficients, self._inverse)
        return logits.reshape(-1, 1, self.height, self.columns)

    def _convolutional(
        self, parameters: Parameters, entry: Tensor, one_hot: Tensor, watched: Watched | None
    ) -> Tensor:
        rows, steps = _coarse(self.architecture)
        hidden = (entry @ parameters["layer1.weight"].T).reshape(len(entry), -1, rows, steps)
        if hidden.is_cuda:  # the layout in which convolutions of half precision are fast
            hidden = hidden.contiguous(memory_format=torch.channels_last)
        hidden = _normalised(hidden, parameters, "norm1", one_hot, watched).relu()
        for number in (2, 3):
            hidden = _doubled(hidden)
            hidden = functional.conv2d(hidden, parameters[f"layer{number}.weight"], padding=1)
            hidden = _normalised(hidden, parameters, f"norm{number}", one_hot, watched).relu()
        # a convolution to one channel is slow on a GPU, to eight it is fast: seven of zeros are added and dropped
        weight = functional.pad(parameters["output.weight"], (0, 0, 0, 0, 0, 0, 0, 7 if hidden.is_cuda else 0))
        logits = functional.conv2d(hidden, weight, padding=1)[:, :1] + parameters["output.bias"]
        return logits[:, :, : self.height, : self.columns]


def _normalised(
    values: Tensor, parameters: Parameters, name: str, one_hot: Tensor, watched: Watched | None
) -> Tensor:
    """Each channel brought to mean 0 and variance 1, then a gain and a shift of the class."""
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
    """Every pixel twice in both directions; channels stay innermost in memory."""
    count, channels, rows, columns = values.shape
    inner = values.permute(0, 2, 3, 1)[:, :, None, :, None, :]
    wide = inner.expand(count, rows, 2, columns, 2, channels).reshape(count, 2 * rows, 2 * columns, channels)
    return wide.permute(0, 3, 1, 2)


def _within_radius(architecture: Mapping[str, Any]) -> Tensor:
    """The cosine coefficients within the radius."""
    squares = squared_frequencies(int(architecture["height"]), int(architecture["columns"])).flatten()
    return torch.nonzero(squares <= float(architecture["radius"]) ** 2).flatten()


def _coarse(architecture: Mapping[str, Any]) -> tuple[int, int]:
    """The grid before the two doublings."""
    return -(-int(architecture["height"]) // 4), -(-int(architecture["columns"]) // 4)


def displacement_basis(height: int, columns: int, order: int) -> Tensor:
    """Fields (k, height, columns, 2) that move pixels: the six of an affine map, then waves up to `order`.

    The first coordinate is horizontal, in half image sides, as `grid_sample` counts.
    """
    y = ((torch.arange(height) * 2 + 1) / height - 1)[:, None].expand(height, columns)
    x = ((torch.arange(columns) * 2 + 1) / columns - 1)[None, :].expand(height, columns)
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


def resting_grid(height: int, columns: int) -> Tensor:
    """The grid (height, columns, 2) that moves nothing."""
    y = (torch.arange(height) * 2 + 1) / height - 1
    x = (torch.arange(columns) * 2 + 1) / columns - 1
    return torch.stack([x.expand(height, columns), y[:, None].expand(height, columns)], dim=-1)
