"""Mixtures of VAEs with latent points in place of the prior: saving, sampling, and rejection of damaged releases."""

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.errors import ArtefactError
from dpgm.networks.mixture import Mixture
from dpgm.networks.vae import VAE

DOMAIN = Domain((ItemSet("items", (0, 1, 2, 3)), Categorical("colour", ("red", "green", "blue"))))


def mixture():
    draws = torch.Generator().manual_seed(0)
    model = VAE(DOMAIN, (5,), 2)
    parameters = 3 * model.initial(2, generator=draws)
    points = torch.randn(2, 4, 2, generator=draws)
    shares = torch.softmax(torch.randn(2, 4, generator=draws), dim=1)
    return Mixture(model, parameters, torch.tensor([0.3, 0.7]), points=points, point_shares=shares)


def test_points_survive_writing_and_reading():
    written = mixture()
    read = Mixture.from_state(written.architecture, written.state(), DOMAIN)
    assert read.architecture == written.architecture
    assert all(torch.equal(tensor, read.state()[name]) for name, tensor in written.state().items())
    drawn = [m.sample(50, generator=torch.Generator().manual_seed(2)) for m in (written, read)]
    assert np.array_equal(drawn[0].indices, drawn[1].indices)


def test_decoding_all_networks_at_once_equals_one_by_one():
    m = mixture()
    together = m.model.decode_all(m.parameters, m.points)
    for s in range(2):
        assert torch.allclose(together[s], m.model.decode(m.parameters[s : s + 1], m.points[s]), atol=1e-6)


def test_samples_have_the_probabilities_at_the_points():
    m = mixture()
    expected = torch.zeros(DOMAIN.width, dtype=torch.float64)
    for s, share in enumerate((0.3, 0.7)):
        chances = m.model.outputs.probabilities(m.model.decode(m.parameters[s : s + 1], m.points[s]))
        expected += share * (m.point_shares[s].double() @ chances.double())
    drawn = m.sample(4000, generator=torch.Generator().manual_seed(1)).to_scipy().toarray()
    assert np.abs(drawn.mean(axis=0) - expected.numpy()).max() < 0.01
    assert (drawn[:, 4:].sum(axis=1) == 1).all()


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("points", lambda t: t[:, :3]),
        ("points", lambda t: t * torch.nan),
        ("points", lambda t: t.double()),
        ("point_shares", lambda t: -t),
        ("point_shares", lambda t: 2 * t),
        ("point_shares", lambda t: t.flip(0)[:1]),
    ],
)
def test_damaged_points_are_refused(name, damage):
    m = mixture()
    with pytest.raises(ArtefactError):
        Mixture.from_state(m.architecture, m.state() | {name: damage(m.state()[name])}, DOMAIN)


@pytest.mark.parametrize("points", [0, True, "4", 10**9, 5])
def test_an_impossible_number_of_points_is_refused(points):
    m = mixture()
    with pytest.raises(ArtefactError):
        Mixture.from_state(m.architecture | {"points": points}, m.state(), DOMAIN)


def test_points_without_their_shares_are_refused():
    m = mixture()
    tensors = {name: tensor for name, tensor in m.state().items() if name != "point_shares"}
    with pytest.raises(ArtefactError):
        Mixture.from_state(m.architecture, tensors, DOMAIN)
