"""The default method for images: measure mean features of each class once, then fit a network to them.

sizes     <- noisy number of images of each class
sums      <- noisy sums of random Fourier features of the images of each class
generator <- a network whose images have the mean features sums / sizes             (post-processing)
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.errors import UsageError
from dpgm.images.fitting import ImageFitSettings, fit_images
from dpgm.images.measurement import ClassSizes, MeanEmbedding, image_spends, measure_images
from dpgm.images.model import ImageGenerator
from dpgm.images.rules import ImageSettings
from dpgm.mechanisms.gateway import Gateway
from dpgm.statistics.statistic import plan_descriptions
from dpgm.strategy.memory_rules import MemoryRules, Sizes
from dpgm.strategy.protocol import Budget, FitPlan, PublicFacts, RunContext, Strategy
from dpgm.strategy.settings import Config, FamilySettings, no_settings


def _own(settings: FamilySettings) -> ImageSettings:
    assert isinstance(settings, ImageSettings)
    return settings


class ImageStrategy(Strategy):
    """Domains of one image and at most a label."""

    name = ImageGenerator.kind
    settings_type = ImageSettings
    measures = plan_descriptions(ClassSizes.words, MeanEmbedding.words)

    def refuses(self, config: Config, domain: Domain | None) -> str | None:
        """Refuses domains other than one image with at most a label, and the paper's preset."""
        if (paper := super().refuses(config, domain)) is not None:
            return paper
        rest = [] if domain is None else [field for field in domain.fields if field.name != domain.label]
        if len(rest) != 1 or rest[0].image is None:
            return "`model` image needs a domain of one image and at most a label; use auto or another model."
        return None

    def settings(self, config: Config, facts: PublicFacts) -> FamilySettings:
        """The tuned numbers; a request changes none of them."""
        no_settings(config)
        return ImageSettings()

    def budget(self, facts: PublicFacts, settings: FamilySettings) -> Budget:
        """Nearly the whole budget goes to the mean features."""
        if facts.domain is None:
            raise UsageError("`model` image needs a domain; give the one of the images.")
        return Budget(image_spends(facts.domain, _own(settings).rules.embedding))

    def memory(self, plan: FitPlan, sizes: Sizes, domain: Domain | None, rules: MemoryRules) -> float:
        """Of chunks of features and batches of images."""
        return rules.picture_pixel * min(sizes.width, rules.picture_pixels)

    def fit(
        self, gateway: Gateway, plan: FitPlan, domain: Domain, *, draws: torch.Generator, context: RunContext
    ) -> ImageGenerator:
        """Measure, then fit a network to the released values."""
        settings, progress = _own(plan.settings.family), context.percent("refine")
        context.progress("measure", 0, 1)
        measured = measure_images(gateway, domain, plan.noises, settings, device=context.device)
        context.progress("measure", 1, 1)
        fit = ImageFitSettings.of(domain, context.device, settings.rules.fit)
        return fit_images(measured, domain, fit, generator=draws, device=context.device, progress=progress)

    def load(
        self,
        architecture: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        domain: Domain,
        settings: FamilySettings,
    ) -> ImageGenerator:
        """An image generator from an untrusted release."""
        sizes = {name: value for name, value in architecture.items() if name != "kind"}
        return ImageGenerator.from_state(sizes, tensors, domain)


IMAGES = ImageStrategy()
