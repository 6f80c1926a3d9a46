"""Fits of image generators: drawn images resemble the measured ones."""

import dataclasses

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, Image
from dpgm.data.records import Records
from dpgm.images.features import EmbeddingDesign, FeatureSet, ImageLayout
from dpgm.images.fitting import ImageFitSettings, fit_images
from dpgm.images.measurement import (
    EMBEDDING_GRID,
    ClassSizes,
    ImageMeasurements,
    MeanEmbedding,
    class_shares,
    mean_features,
)
from dpgm.images.model import ImageArchitecture
from dpgm.images.rules import IMAGE_RULES
from dpgm.mechanisms.query import View

DOMAIN = Domain((Image("image", 8, 8), Categorical("label", (0, 1))), label="label")
DESIGN = EmbeddingDesign(8, 8, (FeatureSet("dct", 0.003, 150, 0.5), FeatureSet("dct", 0.02, 150, 0.5)))
QUICK = ImageFitSettings(
    ImageArchitecture("dct", 8, 8, 2, 4, (16, 16)),
    steps=300,
    images=16,
    rules=dataclasses.replace(IMAGE_RULES.fit, learning_rate=0.01, average=0.95, warm_up=10),
)


def bars(count: int) -> Records:
    """Class 0: a horizontal bar; class 1: a vertical one; at two places each."""
    rng = np.random.default_rng(0)
    pixels = np.zeros((count, 8, 8))
    label = np.arange(count) % 2
    for row in range(count):
        place = 2 + 3 * int(rng.integers(2))
        if label[row]:
            pixels[row, :, place : place + 2] = 1
        else:
            pixels[row, place : place + 2, :] = 1
    return Records.from_dense(np.c_[pixels.reshape(count, 64), np.eye(2)[label]], DOMAIN)


def measured(records: Records, std: float = 0.0) -> ImageMeasurements:
    layout = ImageLayout.of(DOMAIN)
    sums = MeanEmbedding(layout, DESIGN).query().compute(View(records)).double() * EMBEDDING_GRID
    noise = torch.randn(sums.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    sizes = ClassSizes(layout).query().compute(View(records))
    return ImageMeasurements(DESIGN, sizes, 0.0, sums + std * noise)


@pytest.mark.parametrize(
    ("architecture", "changes"),
    [
        (ImageArchitecture("dct", 8, 8, 2, 4, (32, 48)), {}),
        (ImageArchitecture("dct", 8, 8, 2, 4, (32, 48)), {"parts": 2}),
        (ImageArchitecture("conv", 8, 8, 2, 4, (16, 12, 8)), {}),
    ],
    ids=["dct", "parts", "conv"],
)
def test_generated_classes_look_like_the_measured_ones(
    architecture: ImageArchitecture, changes: dict[str, object]
) -> None:
    settings = dataclasses.replace(QUICK, network=architecture, **changes)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(1)
    fitted = fit_images(measured(bars(400), 0.2), DOMAIN, settings, generator=generator)
    drawn = fitted.sample(400, generator=generator).to_dense(np.float64)
    real = bars(400).to_dense(np.float64)
    for label in (0, 1):
        drawn_mean = drawn[drawn[:, 64 + label] == 1, :64].mean(0)
        real_mean = real[real[:, 64 + label] == 1, :64].mean(0)
        other = real[real[:, 65 - label] == 1, :64].mean(0)
        assert np.abs(drawn_mean - real_mean).mean() < 0.12
        assert np.abs(drawn_mean - real_mean).mean() < 0.5 * np.abs(drawn_mean - other).mean()


def test_the_same_noisy_values_and_draws_give_the_same_generator() -> None:
    short = dataclasses.replace(QUICK, steps=5)
    states = [
        fit_images(measured(bars(20)), DOMAIN, short, generator=torch.Generator().manual_seed(3)).state()
        for _ in range(2)
    ]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_nonsense_measurements_still_give_a_finite_generator() -> None:
    noise = torch.randn(2, DESIGN.features, generator=torch.Generator().manual_seed(0)).double() * 1e4
    hopeless = ImageMeasurements(DESIGN, torch.tensor([-50.0, -3.0]), 40.0, noise)
    settings = dataclasses.replace(QUICK, steps=20)
    source = torch.Generator().manual_seed(0)
    fitted = fit_images(hopeless, DOMAIN, settings, generator=source)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in fitted.state().values())
    assert fitted.state()["class.shares"].tolist() == [0.5, 0.5]
    assert len(fitted.sample(10, generator=source)) == 10


def test_noisy_sizes_become_shares_and_never_tiny_divisors() -> None:
    assert class_shares(torch.tensor([-3.0, 1.0, 3.0])).tolist() == [0.0, 0.25, 0.75]
    small = ImageMeasurements(DESIGN, torch.tensor([0.0, 100.0]), 5.0, torch.ones(2, DESIGN.features).double())
    assert mean_features(small)[:, 0].tolist() == pytest.approx([0.1, 0.01])


def test_progress_ends_at_one() -> None:
    shares: list[float] = []
    fit_images(
        measured(bars(20)),
        DOMAIN,
        dataclasses.replace(QUICK, steps=60),
        generator=torch.Generator().manual_seed(3),
        progress=shares.append,
    )
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
