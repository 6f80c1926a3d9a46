"""Feature maps: they approximate their kernel, and no record exceeds the norm bound."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgm.data.domain import Categorical, Domain, Image, ItemSet, Numeric
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.kernels.feature_kernels import TABLE, TURN, fourier_features
from dpgm.statistics.fourier_features import (
    UNIT,
    FourierFeatures,
    IdentityFeatures,
    default_gamma,
    expected_profile,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def frequencies(features):
    """W, (f, m), in radians and modulo a turn."""
    return features.angles.T.astype(np.float64) * (2 * math.pi / TURN)


def random_records(rows, width, ones, seed=0):
    chosen = np.random.default_rng(seed).random((rows, width)) < ones / width
    return Records.from_dense(chosen, Domain.of_items(width))


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_inner_products_approximate_the_kernel(kernel):
    records = random_records(40, 60, 6)
    features = FourierFeatures.draw(60, 20_000, 0.1, generator=generator(), kernel=kernel)
    z = features.transform(records).double()
    x = torch.from_numpy(records.to_dense(np.float64))
    distance = torch.cdist(x, x)
    exact = torch.exp(-0.1 * (distance**2 if kernel == "rbf" else distance))
    assert (z @ z.T - exact).abs().max() < 5 / math.sqrt(10_000)


def test_features_are_cosines_and_sines_of_the_frequencies():
    records = random_records(50, 30, 5)
    features = FourierFeatures.draw(30, 40, 0.2, generator=generator())
    angle = records.to_dense(np.float64) @ frequencies(features).T
    exact = math.sqrt(2 / 40) * np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
    # half a table step, the margin of one unit and the rounding of the table
    assert np.abs(features.transform(records).numpy() - exact).max() < 1.3e-3 * math.sqrt(2 / 40) + 2 / UNIT


def test_the_phase_map_is_the_papers():
    records = random_records(50, 30, 5)
    features = FourierFeatures.draw(30, 40, 0.2, generator=generator(), phase=True)
    offsets = features.offsets * (2 * math.pi / 65536)
    exact = math.sqrt(2 / 40) * np.cos(records.to_dense(np.float64) @ frequencies(features).T + offsets)
    exact /= np.maximum(1, np.linalg.norm(exact, axis=1, keepdims=True))
    assert np.abs(features.transform(records).numpy() - exact).max() < 1.5e-3


@settings(max_examples=60, deadline=None)
@given(
    width=st.integers(1, 40),
    half=st.integers(1, 60),
    gamma=st.floats(1e-4, 100),
    phase=st.booleans(),
    kernel=st.sampled_from(["rbf", "laplacian"]),
    seed=st.integers(0, 1000),
)
def test_no_record_is_longer_than_the_norm_bound(width, half, gamma, phase, kernel, seed):
    rows = np.random.default_rng(seed).random((30, width)) < 0.5
    records = Records.from_dense(np.vstack([rows, np.zeros(width), np.ones(width)]), Domain.of_items(width))
    features = FourierFeatures.draw(width, 2 * half, gamma, generator=generator(seed), phase=phase, kernel=kernel)
    units = features.quantised(records).long()
    squares = (units**2).sum(dim=1)
    assert squares.max() <= UNIT**2  # whole numbers: no tolerance
    low, high = features.box
    assert units.min() * features.grid >= low
    assert units.max() * features.grid <= high
    if not phase and half < 30:
        assert squares.min() > 0.98 * UNIT**2  # the paired map loses next to nothing


def test_the_paired_map_keeps_norm_one_for_many_features():
    features = FourierFeatures.draw(20, 400, 0.1, generator=generator())
    norms = features.transform(random_records(200, 20, 5)).double().norm(dim=1)
    assert norms.max() <= 1
    assert norms.min() > 1 - 1e-3


def test_features_are_looked_up_at_the_sum_of_the_angles():
    """The same in whole numbers, position by position: a sum that passes a full turn starts anew."""
    records = random_records(300, 50, 6)
    for phase in (False, True):
        features = FourierFeatures.draw(50, 32, 0.1, generator=generator(), phase=phase)
        turned = features.offsets + records.to_dense(np.int64) @ features.angles.astype(np.int64)
        places = ((turned + 8) % TURN) // (TURN // TABLE)
        expected = np.concatenate([table[places] for table in features._tables], axis=1)
        found = fourier_features(records, features.angles, features.offsets, features._tables)
        assert np.array_equal(found.numpy(), expected)
        assert len(fourier_features(records.rows(0, 0), features.angles, features.offsets, features._tables)) == 0


def test_features_do_not_depend_on_how_rows_are_cut():
    records = random_records(101, 50, 6)
    features = FourierFeatures.draw(50, 32, 0.1, generator=generator())
    parts = [features.quantised(chunk) for chunk in records.chunks(7)]
    assert torch.equal(torch.cat(parts), features.quantised(records))


def test_frequencies_come_from_the_generator_alone():
    one, same, other = (FourierFeatures.draw(9, 8, 0.1, generator=generator(seed)) for seed in (1, 1, 2))
    assert np.array_equal(one.angles, same.angles)
    assert not np.array_equal(one.angles, other.angles)


def test_the_default_width_adapts_to_the_domain():
    assert default_gamma(Domain((Image("image", 28, 28),))) == pytest.approx(1 / 196)
    assert default_gamma(Domain.of_items(1303)) == pytest.approx(1 / (2 * math.sqrt(1303) / 3))
    table = Domain((Categorical("a", (1, 2, 3)), Numeric("b", 0.0, 1.0, 10), ItemSet("c", (1, 2))))
    assert default_gamma(table) == pytest.approx(1 / 6)
    assert default_gamma(table, torch.full((table.width,), 0.5)) == pytest.approx(1 / table.width)
    assert expected_profile(table).sum() == pytest.approx(3)


def test_a_noisy_profile_cannot_break_the_default_width():
    assert default_gamma(Domain.of_items(3), torch.tensor([-5.0, 0.1, 0.1])) == 0.5


def test_images_are_compared_after_a_blur():
    domain = Domain((Image("image", 20, 20),))
    line, near, far = (np.zeros((20, 20)) for _ in range(3))
    line[5:15, 8] = near[5:15, 9] = far[5:15, 14] = 1
    records = Records.from_dense(np.stack([line, near, far]).reshape(3, -1), domain)
    z = FourierFeatures.for_domain(domain, 4000, generator=generator(), gamma=0.05).transform(records)
    plain = FourierFeatures.draw(400, 4000, 0.05, generator=generator()).transform(records)
    assert z[0] @ z[1] > z[0] @ z[2] + 0.1
    assert abs(float(plain[0] @ plain[1] - plain[0] @ plain[2])) < 0.1


def test_a_domain_without_images_gets_plain_frequencies():
    domain = Domain.of_items(12)
    suited = FourierFeatures.for_domain(domain, 8, generator=generator())
    plain = FourierFeatures.draw(12, 8, default_gamma(domain), generator=generator())
    assert np.array_equal(suited.angles, plain.angles)


def test_the_identity_map_is_the_record():
    records = random_records(10, 6, 3)
    features = IdentityFeatures(6)
    assert np.array_equal(features.quantised(records).numpy(), records.to_dense(np.int16))
    assert features.norm_bound == pytest.approx(math.sqrt(6))


@pytest.mark.parametrize(
    "wrong",
    [{"features": 7}, {"features": 0}, {"gamma": 0.0}, {"gamma": math.nan}, {"kernel": "cosine"}, {"width": 0}],
)
def test_senseless_maps_are_refused(wrong):
    with pytest.raises(UsageError):
        FourierFeatures.draw(**{"width": 5, "features": 8, "gamma": 0.1, "generator": generator()} | wrong)
