"""Two small networks from latent draws and a class to an image of logits, written on plain tensors.

- `dct`   two dense layers, then damped cosine coefficients and their inverse transform: quick on a CPU;
- `conv`  a dense layer, then three convolutions with two doublings of the grid: for a GPU.

Both are followed by a random smooth warp whose strength is learned for each class. Hidden layers are normalised over
the batch while fitting; `mean` and `variance` tensors, measured once at the end, take that place when sampling.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dpgm.images.features import cosine_images, squared_frequencies
from dpgm.images.rules import OUTPUT_DAMPING, RULES, ImageFitRules

Parameters = dict[str, Tensor]
Watched = list[tuple[str, Tensor]]

_VARIANCE_FLOOR = 1e-5


def dense_architecture(
    height: int,
    columns: int,
    classes: int,
    *,
    latent: int,
    hidden: tuple[int, int],
    rules: ImageFitRules = RULES.fit,
) -> dict[str, Any]:
    """The CPU network."""
    return {
        "network": "dct",
        "height": height,
        "columns": columns,
        "classes": classes,
        "latent": latent,
        "hidden": list(hidden),
        "radius": rules.radius,
        "warp_order": rules.warp_order,
    }


def convolutional_architecture(
    height: int,
    columns: int,
    classes: int,
    *,
    latent: int,
    channels: tuple[int, int, int],
    rules: ImageFitRules = RULES.fit,
) -> dict[str, Any]:
    """The GPU network."""
    return {
        "network": "conv",
        "height": height,
        "columns": columns,
        "classes": classes,
        "latent": latent,
        "hidden": list(channels),
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
