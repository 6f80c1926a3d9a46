"""Measuring and fitting images: privacy of the releases, and fits of any size, shape and budget."""

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, Image
from dpgm.data.records import Records
from dpgm.images.fitting import ImageFitSettings, fit_images
from dpgm.images.measurement import embedding_design, image_spends, measure_images
from dpgm.images.rules import ImageSettings
from dpgm.mechanisms.gateway import Gateway, TraceGateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.privacy.calibration import calibrate
from dpgm.synthesis.synthesizer import choose_device
from dpgm.testing import assert_bounded, assert_playback_invariant
from synthesis_data import FEW_IMAGES

DIGITS = Domain((Image("image", 28, 28),))
LABELLED = Domain((Image("image", 8, 8), Categorical("label", tuple(range(4)))), label="label")


SETTINGS = ImageSettings(rules=FEW_IMAGES)


def pictures(count: int, domain: Domain = LABELLED, seed: int = 0) -> Records:
    rng = np.random.default_rng(seed)
    columns = [rng.random((count, 64)) < 0.3]
    if domain.label is not None:
        width = domain.field(domain.label).width
        columns.append(np.eye(width, dtype=bool)[rng.integers(0, width, count)])
    return Records.from_dense(np.concatenate(columns, axis=1), domain)


def fit(
    gateway: Gateway, domain: Domain = LABELLED, records: int = 30, epsilon: float = 1.0, device: str = "cpu"
) -> dict[str, torch.Tensor]:
    mechanisms = calibrate(epsilon, 1e-5, image_spends(domain, SETTINGS.rules.embedding))
    noises = {mechanism.name: mechanism.noise for mechanism in mechanisms}
    measured = measure_images(gateway, domain, noises, SETTINGS, device=device)
    draws = torch.Generator().manual_seed(0)
    settings = ImageFitSettings.of(domain, device, SETTINGS.rules.fit)
    return fit_images(measured, domain, settings, generator=draws, device=device).state()


def test_the_fit_is_a_function_of_the_noisy_values_alone() -> None:
    assert_playback_invariant(fit, [pictures(30), pictures(25, seed=1)], tapes=1)


def test_one_record_moves_both_releases_by_at_most_their_sensitivity() -> None:
    ratio = assert_bounded(fit, pictures(30), pictures(1, seed=2))
    assert ratio > 0.999


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("count", [0, 1, 40])
@pytest.mark.parametrize(
    "domain",
    [
        LABELLED,
        Domain((Image("image", 8, 8),)),
        Domain((Image("image", 8, 8), Categorical("label", ("only",))), label="label"),
    ],
    ids=["labelled", "no label", "one class"],
)
def test_it_runs_on_any_size_and_budget(domain: Domain, count: int, epsilon: float) -> None:
    gateway = Gateway(pictures(count, domain), randomness=SeededRandomness(0))
    state = fit(gateway, domain, max(count, 1), epsilon)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in state.values())


@pytest.mark.parametrize(("height", "columns"), [(1, 1), (3, 17), (40, 36)])
def test_it_runs_on_any_shape(height: int, columns: int) -> None:
    domain = Domain((Image("image", height, columns),))
    records = Records.from_dense(np.ones((3, height * columns), dtype=bool), domain)
    state = fit(Gateway(records, randomness=SeededRandomness(0)), domain, 3)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in state.values())


def test_many_classes_keep_the_release_within_bounds() -> None:
    domain = Domain((Image("image", 8, 8), Categorical("label", tuple(range(1000)))), label="label")
    assert 1000 * embedding_design(domain, SETTINGS).features <= 1_000_000


def test_shares_add_up_to_the_whole_budget() -> None:
    assert sum(spend.share for spend in image_spends(LABELLED, SETTINGS.rules.embedding)) == pytest.approx(1.0)


@pytest.mark.gpu
def test_it_runs_on_a_gpu_with_convolutions() -> None:
    state = fit(Gateway(pictures(40), randomness=SeededRandomness(0)), records=40, device="cuda")
    assert "layer3.weight" in state
    assert all(bool(torch.isfinite(tensor).all()) and tensor.device.type == "cpu" for tensor in state.values())


def test_what_is_measured_is_fixed_by_the_plan_and_not_by_the_device() -> None:
    assert embedding_design(DIGITS, ImageSettings()).features == 12_000
    noises = {"class sizes": 1.0, "mean embedding": 1.0}
    for device in ("cpu", choose_device("auto")):
        gateway = TraceGateway(pictures(20), randomness=SeededRandomness(0))
        measured = measure_images(gateway, LABELLED, noises, SETTINGS, device=device)
        assert measured.design == embedding_design(LABELLED, SETTINGS)
