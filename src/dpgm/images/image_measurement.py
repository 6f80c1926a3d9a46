"""What the image generator measures and how it is fitted: every setting a function of public numbers.

Two releases: the noisy size of each class and the noisy class-wise sum of image features. Both see all records once and
have sensitivity 1; everything else is post-processing.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from dpgm.data.domain import Domain
from dpgm.mechanisms.gateway import Gateway
from dpgm.models.image import ImageGenerator
from dpgm.models.image_layout import ImageLayout
from dpgm.models.image_networks import convolutional_architecture, dense_architecture
from dpgm.privacy.calibration import Spend
from dpgm.statistics.image_features import REFERENCE_PIXELS, EmbeddingDesign, FeatureSet, Transform
from dpgm.statistics.mean_embedding import ImageMeasurements, class_sizes, mean_embedding
from dpgm.training.image_refinement import RefinementSettings, fit_images

SIZES = "class sizes"
EMBEDDING = "mean embedding"

_SIZE_SHARE = 0.01
_BANDWIDTHS = (0.01, 0.03, 0.1)
_MOST_VALUES = 1_000_000  # released numbers: classes x features


def image_spends(domain: Domain) -> tuple[Spend, ...]:
    """Shares of the budget of the two releases; the same at every epsilon and size."""
    ImageLayout.of(domain)
    return (Spend(SIZES, _SIZE_SHARE), Spend(EMBEDDING, 1 - _SIZE_SHARE))


def embedding_design(domain: Domain, device: torch.device | str = "cpu") -> EmbeddingDesign:
    """The public feature map of a domain: three bandwidths, of blurred images and of local strokes.

    Images below 16 pixels a side have no room for strokes of two widths; they get the blurred kind alone.
    """
    layout = ImageLayout.of(domain)
    height, columns = layout.image.height, layout.image.columns
    accelerated = torch.device(device).type == "cuda"
    strokes: Transform = "gabor" if accelerated else "gabor-middle"
    transforms: tuple[Transform, ...] = ("dct", strokes) if min(height, columns) >= 16 else ("dct",)
    kinds = [(transform, bandwidth) for transform in transforms for bandwidth in _BANDWIDTHS]
    features = 36_000 if accelerated else 12_000
    features = min(features, _MOST_VALUES // layout.classes)
    frequencies = max(50, features // (2 * len(kinds)))
    sets = tuple(FeatureSet(transform, bandwidth, frequencies, 1 / len(kinds)) for transform, bandwidth in kinds)
    return EmbeddingDesign(height, columns, sets)


def measure_images(
    gateway: Gateway,
    domain: Domain,
    noises: Mapping[str, float],
    *,
    device: torch.device | str = "auto",
) -> ImageMeasurements:
    """Both releases, through the gateway.

    Privacy: two Gaussian releases of sensitivity 1 on all records, of multipliers `noises`.
    """
    place = _device(device)
    layout, design = ImageLayout.of(domain), embedding_design(domain, place)
    sizes, sums = class_sizes(layout), mean_embedding(layout, design, device=place)
    return ImageMeasurements(
        design=design,
        sizes=gateway.release(SIZES, sizes, noises[SIZES]),
        size_std=noises[SIZES] * sizes.sensitivity,
        sums=gateway.release(EMBEDDING, sums, noises[EMBEDDING]),
        sum_std=noises[EMBEDDING] * sums.sensitivity,
    )


def fit_image_generator(
    measured: ImageMeasurements,
    domain: Domain,
    *,
    generator: torch.Generator,
    device: torch.device | str = "auto",
    progress: Callable[[float], None] | None = None,
) -> ImageGenerator:
    """The generator that shows what was measured; sees no record."""
    place = _device(device)
    architecture, settings = refinement_rule(domain, place)
    return fit_images(
        measured, architecture, domain, settings=settings, generator=generator, device=place, progress=progress
    )


def refinement_rule(domain: Domain, device: torch.device | str) -> tuple[dict[str, Any], RefinementSettings]:
    """Network and optimisation by the shape of the images, the number of classes and the device.

    Chosen on a held-out sixth of MNIST's training digits (docs/fidelity-images.md).
    """
    layout = ImageLayout.of(domain)
    shape = (layout.image.height, layout.image.columns, layout.classes)
    # images a step: the same work for large images as for 28 x 28, and enough of each class for a mean
    fewer = min(1.0, REFERENCE_PIXELS / layout.pixels) / layout.classes
    if torch.device(device).type == "cuda":
        settings = RefinementSettings(steps=4000, images=max(20, min(200, int(1000 * fewer))), half_precision=True)
        return convolutional_architecture(*shape, latent=32, channels=(128, 64, 32)), settings
    settings = RefinementSettings(steps=3000, images=max(8, min(100, int(400 * fewer))), parts=5)
    return dense_architecture(*shape, latent=16, hidden=(256, 512)), settings


def _device(device: torch.device | str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)
