"""Fits an image generator to noisy mean features of each class. Post-processing: nothing here sees a record.

Every step of Adam draws images of every class and reduces the squared distance between their mean features m_c and the
measured ones M_c. The part |m_c|² is estimated without bias from pairs of different images. The released parameters are
an average over the last steps; the moments of the hidden layers are computed for them at the end.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.images.features import ImageFeatures, ImageLayout
from dpgm.images.measurement import ImageMeasurements, class_shares, mean_features
from dpgm.images.model import (
    ImageArchitecture,
    ImageGenerator,
    ImageNetwork,
    Parameters,
    Watched,
    initial_parameters,
)
from dpgm.images.rules import IMAGE_RULES, ImageFitRules
from dpgm.kernels.devices import matrix_precision

_MOMENTS = (".mean", ".variance")  # of hidden layers: computed at the end, not learned


@dataclass(frozen=True)
class ImageFitSettings:
    """How the fit runs; public numbers that do not affect the guarantee."""

    network: ImageArchitecture
    steps: int
    images: int  # per class and step
    parts: int = 1  # a step compares every `parts`-th frequency, in turn
    half_precision: bool = False  # for convolutions
    rules: ImageFitRules = IMAGE_RULES.fit  # initial parameters and optimiser

    @classmethod
    def of(cls, domain: Domain, device: torch.device | str, rules: ImageFitRules) -> "ImageFitSettings":
        """From the shape of the images, the number of classes and the device."""
        layout = ImageLayout.of(domain)
        others = rules.radius, rules.warp_order
        # images per step: as much work for large images as for 28 x 28, and enough of each class for a mean
        fewer = min(1.0, rules.reference_pixels / layout.pixels) / layout.classes
        if torch.device(device).type == "cuda":
            images = max(rules.least_images_cuda, min(rules.most_images_cuda, int(rules.images_cuda * fewer)))
            network = ImageArchitecture("conv", *layout.shape, rules.latent_cuda, rules.channels, *others)
            return cls(network, rules.steps_cuda, images, half_precision=True, rules=rules)
        images = max(rules.least_images, min(rules.most_images, int(rules.images * fewer)))
        network = ImageArchitecture("dct", *layout.shape, rules.latent, rules.hidden, *others)
        return cls(network, rules.steps, images, rules.parts, rules=rules)


def fit_images(
    measured: ImageMeasurements,
    domain: Domain,
    settings: ImageFitSettings,
    *,
    generator: torch.Generator,
    device: torch.device | str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> ImageGenerator:
    """A generator whose images have nearly the measured mean features.

    Initial parameters and latent draws come from `generator` (on the CPU); `progress` receives the share of the work
    done.
    """
    fit = _Fit(measured, settings, generator, torch.device(device))
    with matrix_precision("high" if fit.device.type == "cuda" else "highest"):
        for step in range(settings.steps):
            fit.step(step)
            if progress is not None and (step % 50 == 49 or step + 1 == settings.steps):
                progress((step + 1) / settings.steps)
        tensors = fit.finished()
    return ImageGenerator(settings.network, {"class.shares": class_shares(measured.sizes), **tensors}, domain)


class _Fit:
    """The state of a fit: parameters, their average and the optimiser."""

    def __init__(
        self,
        measured: ImageMeasurements,
        settings: ImageFitSettings,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self.device, self._settings, rules = device, settings, settings.rules
        self._network = ImageNetwork(settings.network, device=device)
        self._features = ImageFeatures(measured.design, device=device)
        initial = initial_parameters(settings.network, rules, generator=generator)
        self._parameters: Parameters = {
            name: tensor.to(device).requires_grad_(not name.endswith(_MOMENTS)) for name, tensor in initial.items()
        }
        self._learned = [tensor for tensor in self._parameters.values() if tensor.requires_grad]
        self._averaged = [tensor.detach().clone() for tensor in self._learned]
        self._optimiser = torch.optim.Adam(self._learned, lr=rules.learning_rate, betas=rules.betas)
        seed = int(torch.randint(2**62, (1,), generator=generator))
        self._draws = torch.Generator(device).manual_seed(seed)
        classes = measured.sums.shape[0]
        self._classes = torch.arange(classes, device=device).repeat_interleave(settings.images)
        target = mean_features(measured).to(device)
        # The frequencies of each part, and their measured means.
        self._parts = [
            (part, target[:, self._features.columns_of(part).to(device)].contiguous())
            for part in (slice(first, None, settings.parts) for first in range(settings.parts))
        ]

    def step(self, number: int) -> None:
        settings, rules = self._settings, self._settings.rules
        part, target = self._parts[number % settings.parts]
        rate = rules.learning_rate * 0.5 * (1 + math.cos(math.pi * number / settings.steps))
        self._optimiser.param_groups[0]["lr"] = rate * min(1.0, (number + 1) / rules.warm_up)
        features = self._features(self._images([]), part)
        # Squared distance of means up to a constant: (b |m|² - mean |phi|²) / (b - 1) is unbiased, |phi| is constant.
        mean = features.reshape(len(target), settings.images, -1).mean(dim=1)
        square = mean.square().sum() * (settings.images / max(1, settings.images - 1))
        loss = square - 2 * (mean * target).sum()
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        # the decay grows to its final value, so that the average forgets the early steps
        decay = min(rules.average, (number + 1) / (number + 10))
        with torch.no_grad():
            torch._foreach_lerp_(self._averaged, self._learned, 1 - decay)

    @torch.no_grad()
    def finished(self) -> Parameters:
        """The averaged parameters with the moments of their hidden layers."""
        for tensor, average in zip(self._learned, self._averaged, strict=True):
            tensor.copy_(average)
        for name, tensor in self._parameters.items():
            if name.endswith(_MOMENTS):
                tensor.zero_()
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
        count, sizes = len(self._classes), self._settings.network
        latent = torch.randn(count, sizes.latent, generator=self._draws, device=self.device)
        warp = torch.randn(count, sizes.warp, generator=self._draws, device=self.device)
        half: AbstractContextManager[Any] = nullcontext()
        if self._settings.half_precision:
            half = torch.autocast(self.device.type, dtype=torch.bfloat16)
        with half:
            return self._network(self._parameters, latent, warp, self._classes, watched).float()
