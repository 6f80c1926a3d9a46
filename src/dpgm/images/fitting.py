"""Fit an image generator to noisy class-wise mean embeddings. Post-processing: nothing here sees a record.

Every step draws images of every class and moves the network down the squared distance between their mean features
m_c and the measured ones M_c. The part |m_c|² is estimated without bias from pairs of different images and, with
`memory`, from a memory of the last batches. The released weights are an average over the last steps; the moments of the
hidden layers are measured once for them at the end.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from dpgm.compute.devices import matrix_precision
from dpgm.data.domain import Domain
from dpgm.images.features import ImageFeatures
from dpgm.images.layout import ImageLayout, draw_levels
from dpgm.images.measurement import ImageMeasurements, class_shares, mean_features
from dpgm.images.model import ImageGenerator
from dpgm.images.networks import (
    ImageNetwork,
    Parameters,
    Watched,
    convolutional_architecture,
    dense_architecture,
    initial_parameters,
)
from dpgm.images.rules import RULES, ImageFitRules

_STORED = (".mean", ".variance")


@dataclass(frozen=True)
class RefinementSettings:
    """How the fit runs; all public, none of it touches the guarantee.

    Attributes:
        steps: optimisation steps.
        images: images of each class per step.
        parts: a step matches every `parts`-th frequency, in turn.
        learning_rate: of Adam; warmed up, then brought to zero along a cosine.
        memory: weight of earlier batches in the generator's own mean embedding, reached half way.
        average: decay of the averaged weights.
        pixels: `mean` matches the features of grey values, `drawn` those of drawn levels.
        warm_up: steps over which the rate rises.
        half_precision: of convolutions.
        rules: what networks start from, and the optimiser's other numbers.
    """

    steps: int
    images: int
    parts: int = 1
    learning_rate: float = RULES.fit.learning_rate
    memory: float = 0.0
    average: float = RULES.fit.average
    pixels: Literal["mean", "drawn"] = "mean"
    warm_up: int = RULES.fit.warm_up
    half_precision: bool = False
    rules: ImageFitRules = RULES.fit


def fit_image_generator(
    measured: ImageMeasurements,
    domain: Domain,
    rules: ImageFitRules,
    *,
    generator: torch.Generator,
    device: torch.device | str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> ImageGenerator:
    """The generator that shows what was measured; sees no record."""
    architecture, settings = refinement_rule(domain, device, rules)
    return fit_images(
        measured, architecture, domain, settings=settings, generator=generator, device=device, progress=progress
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


def fit_images(
    measured: ImageMeasurements,
    architecture: Mapping[str, Any],
    domain: Domain,
    *,
    settings: RefinementSettings,
    generator: torch.Generator,
    device: torch.device | str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> ImageGenerator:
    """The generator whose images show the measured mean features.

    Args:
        measured: what the gateway released.
        architecture: of `dpgm.images.networks`.
        domain: the public domain of the records.
        settings: how the fit runs.
        generator: randomness of initial weights and latent draws (on the CPU).
        device: where to compute.
        progress: is given the share of the work done.
    """
    levels = ImageLayout.of(domain).image.levels
    fit = _Fit(measured, architecture, settings, levels, generator, torch.device(device))
    with matrix_precision("high" if fit.device.type == "cuda" else "highest"):
        for step in range(settings.steps):
            fit.step(step)
            if progress is not None and (step % 50 == 49 or step + 1 == settings.steps):
                progress((step + 1) / settings.steps)
        tensors = fit.finished()
    return ImageGenerator(architecture, {"class.shares": class_shares(measured.sizes), **tensors}, domain)


class _Fit:
    """The state of a fit: parameters, their average, the optimiser and the memory of earlier batches."""

    def __init__(
        self,
        measured: ImageMeasurements,
        architecture: Mapping[str, Any],
        settings: RefinementSettings,
        levels: int,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self.device, self._settings, self._levels = device, settings, levels
        self._network = ImageNetwork(architecture, device=device)
        self._features = ImageFeatures(measured.design, device=device)
        everything = initial_parameters(architecture, settings.rules, generator=generator)
        self._parameters: Parameters = {
            name: tensor.to(device).requires_grad_(not name.endswith(_STORED))
            for name, tensor in everything.items()
        }
        self._learned = [tensor for tensor in self._parameters.values() if tensor.requires_grad]
        self._averaged = [tensor.detach().clone() for tensor in self._learned]
        self._optimiser = torch.optim.Adam(self._learned, lr=settings.learning_rate, betas=settings.rules.betas)
        seed = int(torch.randint(2**62, (1,), generator=generator))
        self._draws = torch.Generator(device).manual_seed(seed)
        classes = measured.sums.shape[0]
        self._classes = torch.arange(classes, device=device).repeat_interleave(settings.images)
        target = mean_features(measured).to(device)
        choices = [self._features.part(number, settings.parts) for number in range(settings.parts)]
        self._parts = [
            _Part(choice, target[:, self._features.columns_of(choice).to(device)].contiguous())
            for choice in choices
        ]

    def step(self, number: int) -> None:
        settings = self._settings
        part = self._parts[number % settings.parts]
        progress = number / settings.steps
        rate = settings.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))
        self._optimiser.param_groups[0]["lr"] = rate * min(1.0, (number + 1) / settings.warm_up)
        images = self._images([])
        if settings.pixels == "drawn":
            coins = torch.rand(images.shape, generator=self._draws, device=self.device)
            drawn = draw_levels(images, self._levels, coins) / (self._levels - 1)
            images = images + (drawn - images).detach()
        features = self._features(images, part.choice)
        loss = part.loss(features, settings.images, settings.memory * min(1.0, 2 * progress))
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        # the average forgets the early steps: its decay grows to the stated one
        decay = min(settings.average, (number + 1) / (number + 10))
        with torch.no_grad():
            torch._foreach_lerp_(self._averaged, self._learned, 1 - decay)

    @torch.no_grad()
    def finished(self) -> Parameters:
        """The averaged parameters with the moments of their hidden layers."""
        for tensor, average in zip(self._learned, self._averaged, strict=True):
            tensor.copy_(average)
        for tensor_name in [name for name in self._parameters if name.endswith(_STORED)]:
            self._parameters[tensor_name].zero_()
        batches = self._settings.rules.moment_batches
        for _ in range(batches):
            watched: Watched = []
            self._images(watched)
            for name, values in watched:
                over = (0, *range(2, values.dim()))
                variance, mean = torch.var_mean(values.float(), dim=over, correction=0)
                self._parameters[f"{name}.mean"] += mean / batches
                self._parameters[f"{name}.variance"] += variance / batches
        return {name: tensor.detach().cpu() for name, tensor in self._parameters.items()}

    def _images(self, watched: Watched) -> Tensor:
        count = len(self._classes)
        latent = torch.randn(count, self._network.latent, generator=self._draws, device=self.device)
        warp = torch.randn(count, self._network.warp, generator=self._draws, device=self.device)
        half: AbstractContextManager[Any] = nullcontext()
        if self._settings.half_precision:
            half = torch.autocast(self.device.type, dtype=torch.bfloat16)
        with half:
            return self._network(self._parameters, latent, warp, self._classes, watched).float()


class _Part:
    """Some of the frequencies, the measured means there, and the memory of the generator's own."""

    def __init__(self, choice: list[slice], target: Tensor) -> None:
        self.choice = choice
        self._target = target
        self._memory = torch.zeros_like(target)
        self._weight = 0.0

    def loss(self, features: Tensor, images: int, memory: float) -> Tensor:
        """Squared distance of means up to a constant; `memory` of the pull comes from earlier batches."""
        mean = features.reshape(len(self._target), images, -1).mean(dim=1)
        remembered = memory if self._weight > 0 else 0.0
        # (b |m|² - mean |phi|²) / (b - 1) is unbiased, and |phi| is constant
        own = mean.square().sum() * (images / max(1, images - 1))
        past = self._memory / self._weight if self._weight > 0 else self._memory
        loss = (1 - remembered) * own + 2 * (mean * (remembered * past - self._target)).sum()
        with torch.no_grad():
            self._memory.mul_(memory).add_(mean, alpha=1 - memory)
            self._weight = memory * self._weight + (1 - memory)
        return loss
