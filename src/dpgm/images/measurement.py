"""What the image generator measures and how it is fitted: every setting a function of public numbers.

Two releases: the noisy size of each class and the noisy class-wise sum of image features. Both see all records once and
have sensitivity 1; everything else is post-processing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from dpgm.data.domain import Domain
from dpgm.images.features import EmbeddingDesign, FeatureSet
from dpgm.images.fitting import RefinementSettings, fit_images
from dpgm.images.layout import ImageLayout
from dpgm.images.mean_embedding import EMBEDDING, SIZES, ClassSizes, ImageMeasurements, MeanEmbedding
from dpgm.images.model import ImageGenerator
from dpgm.images.networks import convolutional_architecture, dense_architecture
from dpgm.images.rules import RULES, EmbeddingRules, ImageFitRules, ImageRules, Transform
from dpgm.mechanisms.gateway import Gateway
from dpgm.privacy.calibration import Spend
from dpgm.statistics.statistic import ask
from dpgm.strategy.settings import FamilySettings


@dataclass(frozen=True)
class ImageSettings(FamilySettings):
    """Whether the larger feature map is measured, and the tuned numbers.

    The plan fixes what is measured, so that it does not depend on the device that a fit or its resumption runs on.
    """

    large: bool = False
    rules: ImageRules = RULES


def image_spends(domain: Domain, rules: EmbeddingRules) -> tuple[Spend, ...]:
    """Shares of the budget of the two releases; the same at every epsilon and size."""
    ImageLayout.of(domain)
    return (Spend(SIZES, rules.sizes), Spend(EMBEDDING, 1 - rules.sizes))


def embedding_design(domain: Domain, settings: ImageSettings) -> EmbeddingDesign:
    """The public feature map of a domain: three bandwidths, of blurred images and of local strokes."""
    rules = settings.rules.embedding
    layout = ImageLayout.of(domain)
    height, columns = layout.image.height, layout.image.columns
    strokes = rules.strokes_large if settings.large else rules.strokes
    transforms: tuple[Transform, ...] = (
        ("dct", strokes) if min(height, columns) >= rules.stroke_pixels else ("dct",)
    )
    kinds = [(transform, bandwidth) for transform in transforms for bandwidth in rules.bandwidths]
    features = rules.features_large if settings.large else rules.features
    features = min(features, rules.most_values // layout.classes)
    frequencies = max(rules.least_frequencies, features // (2 * len(kinds)))
    sets = tuple(FeatureSet(transform, bandwidth, frequencies, 1 / len(kinds)) for transform, bandwidth in kinds)
    return EmbeddingDesign(height, columns, sets, map=rules.map)


def measure_images(
    gateway: Gateway,
    domain: Domain,
    noises: Mapping[str, float],
    settings: ImageSettings,
    *,
    device: torch.device | str = "auto",
) -> ImageMeasurements:
    """Both releases, through the gateway.

    Privacy: two Gaussian releases of sensitivity 1 on all records, of multipliers `noises`.
    """
    place = _device(device)
    layout, design = ImageLayout.of(domain), embedding_design(domain, settings)
    sizes = ask(gateway, ClassSizes(layout), noises[SIZES])
    sums = ask(gateway, MeanEmbedding(layout, design, place), noises[EMBEDDING])
    return ImageMeasurements(design, sizes.value, sizes.std, sums.value, sums.std)


def fit_image_generator(
    measured: ImageMeasurements,
    domain: Domain,
    rules: ImageFitRules,
    *,
    generator: torch.Generator,
    device: torch.device | str = "auto",
    progress: Callable[[float], None] | None = None,
) -> ImageGenerator:
    """The generator that shows what was measured; sees no record."""
    place = _device(device)
    architecture, settings = refinement_rule(domain, place, rules)
    return fit_images(
        measured, architecture, domain, settings=settings, generator=generator, device=place, progress=progress
    )


def refinement_rule(
    domain: Domain, device: torch.device | str, rules: ImageFitRules
) -> tuple[dict[str, Any], RefinementSettings]:
    """Network and optimisation by the shape of the images, the number of classes and the device."""
    layout = ImageLayout.of(domain)
    shape = (layout.image.height, layout.image.columns, layout.classes)
    # images per step: the same work for large images as for 28 x 28, and enough of each class for a mean
    fewer = min(1.0, rules.reference_pixels / layout.pixels) / layout.classes
    settings = RefinementSettings(
        steps=rules.steps,
        images=rules.images,
        learning_rate=rules.learning_rate,
        average=rules.average,
        warm_up=rules.warm_up,
        rules=rules,
    )
    if torch.device(device).type == "cuda":
        images = max(rules.least_images_cuda, min(rules.most_images_cuda, int(rules.images_cuda * fewer)))
        settings = replace(settings, steps=rules.steps_cuda, images=images, half_precision=True)
        return convolutional_architecture(
            *shape, latent=rules.latent_cuda, channels=rules.channels, rules=rules
        ), settings
    images = max(rules.least_images, min(rules.most_images, int(rules.images * fewer)))
    settings = replace(settings, images=images, parts=rules.parts)
    return dense_architecture(*shape, latent=rules.latent, hidden=rules.hidden, rules=rules), settings


def _device(device: torch.device | str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)
