"""Public maps from an image to a vector of norm one: random Fourier features of smooth transforms of it.

A feature set draws its frequencies w from a Gaussian and maps the image x to (cos w.t(x), sin w.t(x)) / sqrt(F): inner
products approximate the kernel exp(-bandwidth |t(x) - t(y)|²). Two transforms t are known:

- `dct`    cosine coefficients of the image, high ones damped: distance between blurred images;
- `gabor`  local strength of strokes by direction and width, pooled over small windows: distance that hardly
           notices small displacements.

Everything here is fixed by public numbers (the shape of the image, a public seed): no map depends on a record.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from dpgm.errors import UsageError
from dpgm.models.image_bases import cosine_basis, squared_frequencies

REFERENCE_PIXELS = 784  # bandwidths are stated for 28 x 28 images and rescaled to others
_DAMPING = 36.0
_SMALLEST_WEIGHT = 0.12
_ORIENTATIONS = 6
_WAVELENGTHS = (7.0, 3.5)  # per image side
_POOLS = 7  # windows per side
_STRENGTH = 0.4  # brings distances between filtered images to the size of those between cosine coefficients


@dataclass(frozen=True)
class FeatureSet:
    """Random frequencies of one bandwidth; `share` is its part of the squared norm of a record."""

    transform: Literal["dct", "gabor"]
    bandwidth: float
    frequencies: int
    share: float


@dataclass(frozen=True)
class EmbeddingDesign:
    """The public description of an embedding: enough to build the same map anywhere."""

    height: int
    columns: int
    sets: tuple[FeatureSet, ...]
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.sets or any(feature_set.frequencies < 1 for feature_set in self.sets):
            raise UsageError("an embedding needs at least one feature set of at least one frequency.")
        if sum(feature_set.share for feature_set in self.sets) > 1 + 1e-9:
            raise UsageError("the shares of the feature sets must add up to at most 1, the norm of a record.")

    @property
    def features(self) -> int:
        """Length of a record's vector."""
        return sum(2 * feature_set.frequencies for feature_set in self.sets)


class ImageFeatures:
    """The map of a design on one device: images (n, height * columns) in [0, 1] -> vectors of norm one."""

    def __init__(self, design: EmbeddingDesign, *, device: torch.device | str = "cpu") -> None:
        self.design = design
        self._transforms: dict[str, _CosineTransform | _GaborTransform] = {
            name: _TRANSFORMS[name](design.height, design.columns, device)
            for name in dict.fromkeys(feature_set.transform for feature_set in design.sets)
        }
        draws = torch.Generator().manual_seed(design.seed)
        self._frequencies: list[Tensor] = []
        rescale = REFERENCE_PIXELS / (design.height * design.columns)
        for feature_set in design.sets:
            width = self._transforms[feature_set.transform].width
            deviation = math.sqrt(2 * feature_set.bandwidth * rescale)
            normals = torch.randn(feature_set.frequencies, width, generator=draws) * deviation
            self._frequencies.append(normals.to(device))

    def part(self, number: int, parts: int) -> list[slice]:
        """Every `parts`-th frequency of every set, starting with `number`."""
        return [slice(number % parts, None, parts) for _ in self.design.sets]

    def __call__(self, images: Tensor, part: list[slice] | None = None) -> Tensor:
        """Vectors (n, features), or the coordinates of a part of the frequencies."""
        transformed = {name: transform(images) for name, transform in self._transforms.items()}
        pieces = []
        for number, (feature_set, rows) in enumerate(zip(self.design.sets, self._frequencies, strict=True)):
            chosen = rows if part is None else rows[part[number]]
            phase = transformed[feature_set.transform] @ chosen.T
            scale = math.sqrt(feature_set.share / feature_set.frequencies)
            pieces += [phase.cos() * scale, phase.sin() * scale]
        return torch.cat(pieces, dim=1)

    def columns_of(self, part: list[slice]) -> Tensor:
        """Where the coordinates of a part sit in the whole vector."""
        places, start = [], 0
        for feature_set, chosen in zip(self.design.sets, part, strict=True):
            own = torch.arange(feature_set.frequencies)[chosen]
            places += [start + own, start + feature_set.frequencies + own]
            start += 2 * feature_set.frequencies
        return torch.cat(places)


class _CosineTransform:
    """Damped cosine coefficients w_f DCT(x) with w_f = 1 / (1 + f² / 36), those of weight above 0.12."""

    def __init__(self, height: int, columns: int, device: torch.device | str) -> None:
        weights = 1 / (1 + squared_frequencies(height, columns) / _DAMPING)
        kept = weights.flatten() > _SMALLEST_WEIGHT
        both = torch.kron(cosine_basis(height), cosine_basis(columns))  # (coefficients, pixels)
        self._matrix = (both[kept] * weights.flatten()[kept, None]).to(device)
        self.width = int(kept.sum())

    def __call__(self, images: Tensor) -> Tensor:
        return images @ self._matrix.T


class _GaborTransform:
    """Modulus of oriented filters at two wavelengths, averaged over overlapping windows."""

    def __init__(self, height: int, columns: int, device: torch.device | str) -> None:
        self._shape = (height, columns)
        side = math.sqrt(height * columns)
        banks = [_gabor_filters(side / ratio) for ratio in _WAVELENGTHS]
        self._banks = [bank.to(device) for bank in banks]
        self._pools = (min(_POOLS, height), min(_POOLS, columns))
        self.width = len(banks) * _ORIENTATIONS * self._pools[0] * self._pools[1]

    def __call__(self, images: Tensor) -> Tensor:
        stacked = images.reshape(-1, 1, *self._shape)
        pooled = []
        for bank in self._banks:
            answers = functional.conv2d(stacked, bank, padding=bank.shape[-1] // 2)
            real, imaginary = answers.chunk(2, dim=1)
            strength = (real.square() + imaginary.square() + 1e-4).sqrt()
            smooth = functional.avg_pool2d(strength, 3, stride=1, padding=1)
            pooled.append(functional.adaptive_avg_pool2d(smooth, self._pools).flatten(1))
        return torch.cat(pooled, dim=1) * _STRENGTH


def _gabor_filters(wavelength: float) -> Tensor:
    """Real and imaginary parts (2 * orientations, 1, k, k) of zero-mean oriented filters of unit norm."""
    spread = 0.5 * wavelength
    reach = max(1, math.ceil(2 * spread))
    line = torch.arange(-reach, reach + 1, dtype=torch.float32)
    y, x = line[:, None], line[None, :]
    envelope = torch.exp(-(x**2 + y**2) / (2 * spread**2))
    real, imaginary = [], []
    for number in range(_ORIENTATIONS):
        angle = math.pi * number / _ORIENTATIONS
        phase = 2 * math.pi / wavelength * (x * math.cos(angle) + y * math.sin(angle))
        cosine = envelope * torch.cos(phase)
        cosine = cosine - envelope * (cosine.sum() / envelope.sum())
        real.append(cosine / cosine.norm())
        sine = envelope * torch.sin(phase)
        imaginary.append(sine / sine.norm())
    return torch.stack(real + imaginary)[:, None]


_TRANSFORMS: dict[str, type[_CosineTransform] | type[_GaborTransform]] = {
    "dct": _CosineTransform,
    "gabor": _GaborTransform,
}
