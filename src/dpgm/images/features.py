"""Maps a record to its image, and an image to a vector of norm 1: random Fourier features of smooth transforms.

A feature set draws F frequencies w from a Gaussian and maps the image x to (cos w.t(x), sin w.t(x)) / sqrt(F). Inner
products of such vectors approximate the kernel exp(-bandwidth |t(x) - t(y)|²). There are two kinds of transforms t:

- `dct`: cosine coefficients of the image, high frequencies damped, so distances are those of blurred images;
- `gabor`: local strength of strokes by direction, in windows on a coarse grid, so distances hardly change with small
  displacements.

All maps follow from public numbers (the shape of the image, a public seed), never from a record.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Domain, Image
from dpgm.data.records import Records, grey_values
from dpgm.errors import UsageError
from dpgm.images.rules import IMAGE_RULES, MapRules, Transform

ALL = slice(None)


@dataclass(frozen=True)
class ImageLayout:
    """Positions of the image and of the label in a record; without a label there is one class."""

    image: Image
    start: int
    label_start: int
    classes: int
    labelled: bool

    @classmethod
    def of(cls, domain: Domain) -> "ImageLayout":
        """The layout of a domain of one image and, at most, its label.

        Raises:
            UsageError: the domain has other fields.
        """
        images = [field.image for field in domain.fields if field.image is not None]
        if len(images) != 1:
            raise UsageError(f"an image generator needs a domain with one image field; this one has {len(images)}.")
        start = domain.offsets[domain.fields.index(images[0])]
        others = [field for field in domain.fields if field is not images[0]]
        if not others:
            return cls(images[0], start, 0, 1, False)
        block = domain.blocks[domain.fields.index(others[0])]
        if len(others) > 1 or others[0].name != domain.label or not block.softmax:
            raise UsageError("an image generator takes one image and one categorical label; drop the other fields.")
        return cls(images[0], start, block.start, block.width, True)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height and columns of the image, and the number of classes."""
        return self.image.height, self.image.columns, self.classes

    @property
    def pixels(self) -> int:
        """The number of pixels."""
        return self.image.pixels

    def classes_of(self, records: Records) -> NDArray[np.int64]:
        """The class of each record: its first label; -1 (not counted) for a record without a label."""
        if not self.labelled:
            return np.zeros(len(records), dtype=np.int64)
        classes = np.full(len(records), -1, dtype=np.int64)
        positions = records.indices.astype(np.int64) - self.label_start
        labels = np.flatnonzero((positions >= 0) & (positions < self.classes))[::-1]  # the first is written last
        rows = np.repeat(np.arange(len(records)), records.lengths)
        classes[rows[labels]] = positions[labels]
        return classes

    def pixels_of(self, records: Records) -> NDArray[np.float32]:
        """Dense images (n, pixels) of grey values in [0, 1]."""
        return grey_values(records, self.image).reshape(len(records), self.pixels)


@dataclass(frozen=True)
class FeatureSet:
    """Random frequencies of one transform and bandwidth; `share` is their part of the squared norm of a vector."""

    transform: Transform
    bandwidth: float
    frequencies: int
    share: float


@dataclass(frozen=True)
class EmbeddingDesign:
    """The public description of a feature map, from which the same map can be built anywhere."""

    height: int
    columns: int
    sets: tuple[FeatureSet, ...]
    seed: int = 0
    map: MapRules = IMAGE_RULES.embedding.map

    def __post_init__(self) -> None:
        if not self.sets or any(feature_set.frequencies < 1 for feature_set in self.sets):
            raise UsageError("an embedding needs at least one feature set of at least one frequency.")
        if sum(feature_set.share for feature_set in self.sets) > 1 + 1e-9:
            raise UsageError("the shares of the feature sets must add up to at most 1, the norm of a record.")

    @property
    def features(self) -> int:
        """The number of features of a record."""
        return sum(2 * feature_set.frequencies for feature_set in self.sets)


class ImageFeatures:
    """The feature map of a design on one device: from images (n, height * columns) in [0, 1] to vectors of norm 1."""

    def __init__(self, design: EmbeddingDesign, *, device: torch.device | str = "cpu") -> None:
        self.design = design
        self._transforms = {
            name: _transform(name, design, device)
            for name in dict.fromkeys(feature_set.transform for feature_set in design.sets)
        }
        draws = torch.Generator().manual_seed(design.seed)
        self._frequencies: list[Tensor] = []
        rescale = design.map.reference_pixels / (design.height * design.columns)
        for feature_set in design.sets:
            width = self._transforms[feature_set.transform].width
            deviation = math.sqrt(2 * feature_set.bandwidth * rescale)
            normals = torch.randn(feature_set.frequencies, width, generator=draws) * deviation
            self._frequencies.append(normals.to(device))

    def __call__(self, images: Tensor, part: slice = ALL) -> Tensor:
        """Vectors (n, features); with `part`, only the features of these frequencies of every set."""
        transformed = {name: transform(images) for name, transform in self._transforms.items()}
        pieces = []
        for feature_set, frequencies in zip(self.design.sets, self._frequencies, strict=True):
            phase = transformed[feature_set.transform] @ frequencies[part].T
            scale = math.sqrt(feature_set.share / feature_set.frequencies)
            pieces += [phase.cos() * scale, phase.sin() * scale]
        return torch.cat(pieces, dim=1)

    def columns_of(self, part: slice) -> Tensor:
        """The indices of the features of a part in the whole vector."""
        halves = [feature_set.frequencies for feature_set in self.design.sets for _ in ("cosines", "sines")]
        return torch.cat([places[part] for places in torch.arange(self.design.features).split_with_sizes(halves)])


@dataclass(frozen=True, eq=False)
class _Transform:
    """Products of images with one matrix, or the moduli of products with two (cosines and sines)."""

    matrices: tuple[Tensor, ...]  # (pixels, width)
    smoothing: float = 0.0
    strength: float = 1.0

    @property
    def width(self) -> int:
        return self.matrices[0].shape[1]

    def __call__(self, images: Tensor) -> Tensor:
        if len(self.matrices) == 1:
            return images @ self.matrices[0]
        cosines, sines = self.matrices
        squares = (images @ cosines).square() + (images @ sines).square()
        return (squares + self.smoothing).sqrt() * self.strength


def _transform(name: Transform, design: EmbeddingDesign, device: torch.device | str) -> _Transform:
    """The transform of that name, on a device.

    `dct`: cosine coefficients times 1 / (1 + f² / damping); those of small weights are left out. Else strokes: waves
    under Gaussian windows, in several directions and places for each wavelength.
    """
    height, columns, rules = design.height, design.columns, design.map
    if name == "dct":
        weights = 1 / (1 + squared_frequencies(height, columns).flatten() / rules.damping)
        chosen = torch.nonzero(weights > rules.least_weight).flatten()
        return _Transform(((cosine_images(height, columns, chosen) * weights[chosen, None]).to(device).T,))
    side = math.sqrt(height * columns)
    windowed = [_windowed_waves(height, columns, side / ratio, rules) for ratio in rules.waves]
    cosines, sines = (torch.cat(parts).T.contiguous().to(device) for parts in zip(*windowed, strict=True))
    return _Transform((cosines, sines), rules.smoothing, rules.strength * math.sqrt(2 / len(rules.waves)))


def _windowed_waves(height: int, columns: int, wavelength: float, rules: MapRules) -> tuple[Tensor, Tensor]:
    """Even and odd waves (places * directions, pixels) of norm about 1, insensitive to uniform brightness."""
    spread = 0.5 * wavelength
    places = torch.cartesian_prod(_centres(height, rules), _centres(columns, rules))
    y = (torch.arange(height)[None, :] - places[:, :1])[:, :, None]
    x = (torch.arange(columns)[None, :] - places[:, 1:])[:, None, :]
    window = torch.exp(-(x**2 + y**2) / (2 * spread**2)) / math.sqrt(math.pi * spread**2 / 2)
    mean = math.exp(-((2 * math.pi * spread / wavelength) ** 2) / 2)
    cosines, sines = [], []
    for number in range(rules.directions):
        angle = math.pi * number / rules.directions
        phase = 2 * math.pi / wavelength * (x * math.cos(angle) + y * math.sin(angle))
        cosines.append(window * (torch.cos(phase) - mean))
        sines.append(window * torch.sin(phase))
    return torch.cat(cosines).flatten(1), torch.cat(sines).flatten(1)


def _centres(size: int, rules: MapRules) -> Tensor:
    places = min(rules.places, size)
    return (torch.arange(places) + 0.5) * (size / places) - 0.5


def cosine_basis(size: int) -> Tensor:
    """The orthonormal cosine transform of a line of `size` pixels, one row per frequency."""
    position = (torch.arange(size, dtype=torch.float64) + 0.5) / size
    basis = torch.cos(math.pi * torch.arange(size, dtype=torch.float64)[:, None] * position)
    basis *= math.sqrt(2 / size)
    basis[0] /= math.sqrt(2)
    return basis.float()


def cosine_images(height: int, columns: int, chosen: Tensor) -> Tensor:
    """The images (chosen, pixels) of chosen cosine coefficients, numbered in row-major order."""
    vertical = cosine_basis(height)[torch.div(chosen, columns, rounding_mode="floor")]
    horizontal = cosine_basis(columns)[chosen % columns]
    return (vertical[:, :, None] * horizontal[:, None, :]).flatten(1)


def squared_frequencies(height: int, columns: int) -> Tensor:
    """f1² + f2² of every cosine coefficient, in half-waves per image side (of a square of the same area)."""
    side = math.sqrt(height * columns)
    vertical = torch.arange(height, dtype=torch.float32) * (side / height)
    horizontal = torch.arange(columns, dtype=torch.float32) * (side / columns)
    return vertical[:, None] ** 2 + horizontal**2
