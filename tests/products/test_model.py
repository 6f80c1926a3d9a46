"""Mixtures of products: samples have their moments, and damaged states are refused."""

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.errors import ArtefactError
from dpgm.products.model import Products

DOMAIN = Domain((ItemSet("items", tuple(range(5))), Categorical("colour", ("red", "green", "blue"))))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def mixture(components=4, seed=0):
    draws = generator(seed)
    weights = torch.rand(components, generator=draws, dtype=torch.float64) + 0.1
    items = torch.rand(components, 5, generator=draws)
    items[0, 0], items[1, 0] = 1.0, 0.0
    colours = torch.softmax(torch.randn(components, 3, generator=draws), dim=1)
    return Products(DOMAIN, weights / weights.sum(), torch.cat([items, colours], dim=1))


def pair_shares(records):
    dense = records.to_dense(np.float64)
    return dense.T @ dense / len(records)


def test_samples_have_the_moments_of_the_mixture():
    model = mixture()
    shares = pair_shares(model.sample(200_000, generator=generator()))
    chances = model.probabilities.double()
    expected = (chances * model.weights[:, None]).T @ chances
    expected[range(8), range(8)] = model.weights @ chances
    expected[5:, 5:] = torch.diag(torch.diag(expected)[5:])
    assert np.abs(shares - expected.numpy()).max() < 0.005


def test_item_counts_of_a_sample_are_as_expected_up_to_rounding():
    model = mixture()
    records = model.sample(10_000, generator=generator())
    counts = np.bincount(records.indices, minlength=8)
    expected = 10_000 * (model.weights @ model.probabilities.double()).numpy()
    assert np.abs(counts - expected).max() < 2 + model.components


@pytest.mark.parametrize("count", [0, 1, 2, 17, 1000])
def test_samples_are_valid_records(count):
    records = mixture().sample(count, generator=generator())
    assert len(records) == count
    dense = records.to_dense()
    assert dense.sum() == len(records.indices)  # positions are distinct
    assert np.all(dense[:, 5:].sum(axis=1) == 1)
    for row in range(count):
        positions = records.indices[records.indptr[row] : records.indptr[row + 1]]
        assert np.all(np.diff(positions) > 0)


def test_the_same_generator_gives_the_same_records():
    assert mixture().sample(100, generator=generator(3)) == mixture().sample(100, generator=generator(3))
    assert mixture().sample(100, generator=generator(3)) != mixture().sample(100, generator=generator(4))


def test_state_comes_back():
    model = mixture()
    again = Products.from_state(model.architecture, model.state(), DOMAIN)
    assert torch.equal(again.weights, model.weights)
    assert torch.equal(again.probabilities, model.probabilities)


def broken(name, change):
    tensors = {key: value.clone() for key, value in mixture().state().items()}
    tensors[name] = change(tensors[name])
    return tensors


@pytest.mark.parametrize(
    "tensors",
    [
        {},
        broken("weights", lambda t: t * 2),
        broken("weights", lambda t: t.float()),
        broken("weights", lambda t: -t),
        broken("probabilities", lambda t: t[:, :-1]),
        broken("probabilities", lambda t: t * float("nan")),
        broken("probabilities", lambda t: t * 0),
        broken("probabilities", lambda t: t * 0) | {"extra": torch.zeros(1)},
    ],
)
def test_a_damaged_state_is_refused(tensors):
    with pytest.raises(ArtefactError):
        Products.from_state(mixture().architecture, tensors, DOMAIN)


@pytest.mark.parametrize(
    "architecture", [{}, {"kind": "vae", "components": 4}, {"kind": "products", "components": -1}]
)
def test_a_damaged_architecture_is_refused(architecture):
    with pytest.raises(ArtefactError):
        Products.from_state(architecture, mixture().state(), DOMAIN)


def test_rounding_a_thousand_rare_components_keeps_the_counts_of_frequent_items():
    present = ((np.arange(1024)[:, None] >> np.arange(10)) & 1).astype(np.float32)
    chances = np.linspace(0.6, 0.1, 10)
    weights = np.where(present == 1, chances, 1 - chances).prod(axis=1)
    model = Products(Domain.of_items(10), torch.from_numpy(weights), torch.from_numpy(present))
    drawn = model.sample(300, generator=torch.Generator().manual_seed(0)).to_dense(np.float64)
    for first, second in [(0, 1), (0, 2), (1, 2)]:
        expected = 300 * chances[first] * chances[second]
        assert abs((drawn[:, first] * drawn[:, second]).sum() - expected) <= 1.5
