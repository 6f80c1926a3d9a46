"""What an image generator is fitted to: noisy class sizes, and noisy sums of image features over each class.

A record adds 1 to the size of its class and a vector of norm at most 1 to the sum of its class, so both releases have
sensitivity 1 under add/remove (docs/privacy-proof.md 2.1). Contributions are rounded toward zero to a public grid,
which never increases a norm, and summed exactly. Everything else follows from public numbers or is post-processing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.images.features import EmbeddingDesign, FeatureSet, ImageFeatures, ImageLayout
from dpgm.images.rules import EmbeddingRules, ImageSettings, Transform
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.privacy.calibration import Spend
from dpgm.statistics.statistic import Descriptions, release

CLASS_SIZES, EMBEDDING = "class sizes", "mean embedding"
EMBEDDING_GRID = 2.0**-26
_SHRINK = 1 - 2.0**-18  # so that rounding of float32 cosines never makes a norm larger than 1
_CHUNK = 512


@dataclass(frozen=True)
class ImageMeasurements:
    """Everything that was released: noisy sizes and noisy feature sums of the classes."""

    design: EmbeddingDesign
    sizes: Tensor
    size_std: float  # standard deviation of the noise on a size
    sums: Tensor


@dataclass(frozen=True)
class ClassSizes:
    """Number of records of each class. A record is in one class, so the sensitivity is 1."""

    words: ClassVar[Descriptions] = {CLASS_SIZES: Measures("measure", "images of each label", "1")}

    layout: ImageLayout
    name: str = CLASS_SIZES

    def query(self) -> Query:
        """One number per class."""
        return Query(self._sum, 1.0, (self.layout.classes,), grid=1.0)

    def _sum(self, view: View) -> Tensor:
        classes = self.layout.classes_of(view.rows)
        return torch.from_numpy(np.bincount(classes[classes >= 0], minlength=self.layout.classes).astype(np.int64))


@dataclass(frozen=True)
class MeanEmbedding:
    """Sums of image features over each class. A record adds a vector of norm at most 1 to one class."""

    words: ClassVar[Descriptions] = {
        EMBEDDING: Measures("measure", "sum of Fourier features of the images of each label", "1")
    }

    layout: ImageLayout
    design: EmbeddingDesign
    device: torch.device | str = "cpu"
    name: str = EMBEDDING

    def query(self) -> Query:
        """One row of features per class."""
        return Query(self._sum, 1.0, (self.layout.classes, self.design.features), grid=EMBEDDING_GRID)

    def _sum(self, view: View) -> Tensor:
        features = ImageFeatures(self.design, device=self.device)
        sums = torch.zeros(self.layout.classes, self.design.features, dtype=torch.float64, device=self.device)
        for rows in view.rows.chunks(_CHUNK):
            sums += _chunk_sums(rows, self.layout, features, self.device)
        return sums.to(torch.int64).cpu()


@torch.no_grad()
def _chunk_sums(rows: Records, layout: ImageLayout, features: ImageFeatures, device: torch.device | str) -> Tensor:
    """Sums of one chunk in whole grid steps, exact in float64 (far below 2^53)."""
    # Chunks are padded to one size: the features of a record must not depend on how many others share the product.
    images = torch.zeros(_CHUNK, layout.pixels)
    images[: len(rows)] = torch.from_numpy(layout.pixels_of(rows))
    selected = torch.zeros(layout.classes, _CHUNK, dtype=torch.float64)
    classes = torch.from_numpy(layout.classes_of(rows))
    counted = torch.nonzero(classes >= 0).flatten()
    selected[classes[counted], counted] = 1
    steps = (features(images.to(device)) * (_SHRINK / EMBEDDING_GRID)).trunc_()
    return selected.to(device) @ steps.double()


def image_spends(domain: Domain, rules: EmbeddingRules) -> tuple[Spend, ...]:
    """Budget shares of the two releases, the same for every epsilon and number of records."""
    ImageLayout.of(domain)  # refuses domains without an image
    return (Spend(CLASS_SIZES, rules.sizes), Spend(EMBEDDING, 1 - rules.sizes))


def embedding_design(domain: Domain, settings: ImageSettings) -> EmbeddingDesign:
    """The public feature map of a domain: several bandwidths, for blurred images and for local strokes."""
    rules = settings.rules.embedding
    layout = ImageLayout.of(domain)
    height, columns = layout.image.height, layout.image.columns
    transforms: tuple[Transform, ...] = (
        ("dct", "gabor") if min(height, columns) >= rules.stroke_pixels else ("dct",)
    )
    kinds = [(transform, bandwidth) for transform in transforms for bandwidth in rules.bandwidths]
    features = min(rules.features, rules.most_values // layout.classes)
    frequencies = max(rules.least_frequencies, features // (2 * len(kinds)))
    sets = tuple(FeatureSet(transform, bandwidth, frequencies, 1 / len(kinds)) for transform, bandwidth in kinds)
    return EmbeddingDesign(height, columns, sets, map=rules.map)


def measure_images(
    gateway: Gateway,
    domain: Domain,
    noises: Mapping[str, float],
    settings: ImageSettings,
    *,
    device: torch.device | str = "cpu",
) -> ImageMeasurements:
    """Release class sizes and mean features.

    Privacy: two Gaussian releases of sensitivity 1 on all records, with the multipliers `noises`.
    """
    layout, design = ImageLayout.of(domain), embedding_design(domain, settings)
    sizes = release(gateway, ClassSizes(layout), noises[CLASS_SIZES])
    sums = release(gateway, MeanEmbedding(layout, design, device), noises[EMBEDDING])
    return ImageMeasurements(design, sizes.value, sizes.std, sums.value)


def class_shares(sizes: Tensor) -> Tensor:
    """Shares of the classes from their noisy sizes; equal if no noisy size is positive."""
    positive = sizes.double().clamp(min=0)
    if float(positive.sum()) <= 0:
        positive = torch.ones_like(positive)
    return (positive / positive.sum()).float()


def mean_features(measured: ImageMeasurements) -> Tensor:
    """Mean features of each class: noisy sums over noisy sizes, but sizes of at least two deviations of the noise."""
    floor = max(1.0, 2 * measured.size_std)
    return (measured.sums / measured.sizes.double().clamp(min=floor)[:, None]).float()
