"""Pre-training on samples of a generator of the released statistics, and images with one network per label."""

import dataclasses

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, Image, ItemSet
from dpgm.data.records import Records
from dpgm.images.rules import IMAGE_RULES as IMAGE_RULES
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.networks.mixture import Mixture
from dpgm.networks.model import Views
from dpgm.networks.refinement import pretrain
from dpgm.networks.rules import NETWORK_RULES
from dpgm.networks.vae import VAE
from dpgm.strategy.protocol import RunContext
from dpgm.strategy.settings import Config
from dpgm.synthesis.plan import Plan, make_plan
from dpgm.synthesis.strategies import fit_generator
from model_references import segmented
from synthesis_data import BY_LABEL, IMAGES, SETS, some_records, tiny_plan

MIXED = Domain((ItemSet("items", tuple("abcd")), Categorical("colour", ("r", "g", "b"))))


def test_the_loss_of_public_training_has_the_gradient_of_private_training():
    """Two derivations of one gradient: autograd of `VAE.loss`, and the factors of private SGD."""
    model = VAE(MIXED, (6, 5), 3)
    parameters = model.initial(1, generator=torch.Generator().manual_seed(0)).double()
    records = some_records(MIXED, 7)
    rows = torch.from_numpy(records.to_dense(np.float64)).unsqueeze(0)
    draws = torch.randn((1, 7, 3), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    free = parameters.clone().requires_grad_()
    model.loss(free, rows, draws).sum().backward()

    batch, _ = segmented(model, parameters, records, np.zeros(7, dtype=np.int64), draws[0])
    out = Views(model.layout, torch.zeros_like(parameters))
    summed = batch.weighted_sum(model.factors(batch), torch.ones(7, dtype=torch.float64), out)
    assert torch.allclose(summed, free.grad, atol=1e-10)


def test_every_network_learns_the_samples_of_its_own_cluster():
    rng = np.random.default_rng(0)
    clusters = rng.integers(0, 2, 600)
    rows = rng.random((600, 8)) < np.where(clusters[:, None] == np.arange(8) // 4, 0.9, 0.05)
    domain = Domain.of_items(8)
    samples = Records.from_dense(rows, domain)
    model = VAE(domain, (8,), 2)
    rules = dataclasses.replace(NETWORK_RULES, pretraining_passes=60, pretraining_batch=60)
    generator = torch.Generator().manual_seed(0)
    start = model.initial(3, generator=generator)
    trained = pretrain(model, start, samples, clusters, rules, generator=generator)
    assert torch.equal(start, model.initial(3, generator=torch.Generator().manual_seed(0)))
    for number, shares in enumerate(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))):
        mixture = Mixture(model, trained, torch.tensor(shares))
        drawn = mixture.sample(500, generator=torch.Generator().manual_seed(1)).to_dense(np.float64).mean(0)
        # The third cluster has no samples: its network learns from all of them.
        expected = rows.mean(0) if number == 2 else rows[clusters == number].mean(0)
        assert np.abs(drawn - expected).max() < 0.15


def test_images_have_one_network_per_label_and_pay_for_no_clusters():
    plan = make_plan(Config(1.0, model="vae"), 20_000, IMAGES)
    assert plan.settings.family.clusters == 3
    assert {entry.name for entry in plan.mechanisms} == {"class sizes", "mean embedding", "norms", "gradients"}
    assert Plan.from_json(plan.to_json()) == plan
    # With a requested number of clusters, and in the paper's preset, clusters come from k-means instead.
    for config in (Config(1.0, model="vae", clusters=2), Config(1.0, model="vae", preset="paper")):
        other = make_plan(config, 20_000, IMAGES)
        assert other.pays_for("cluster sums")
        assert not other.pays_for("mean embedding")


def test_refined_networks_pay_for_no_profiles_of_clusters():
    assert not make_plan(Config(1.0, model="vae", clusters=3), 20_000, SETS).pays_for("cluster profiles")
    assert make_plan(Config(1.0, model="rbm", clusters=3), 20_000, SETS).pays_for("cluster profiles")


@pytest.mark.parametrize("levels", [2, 3])
def test_networks_of_images_reproduce_the_statistics_of_their_label(levels):
    """Class 0 has a bright left half, class 1 a bright right half; what is spent is what was planned."""
    image = Image("image", 8, 8, levels)
    domain = Domain((image, Categorical("label", (0, 1))), label="label")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 1000)
    bright = (np.arange(64) % 8 // 4) == labels[:, None]
    bits = np.tile(bright, (1, levels - 1))
    records = Records.from_dense(np.c_[bits, np.eye(2, dtype=bool)[labels]], domain)
    images = dataclasses.replace(
        BY_LABEL["images"],
        rules=dataclasses.replace(IMAGE_RULES, fit=dataclasses.replace(IMAGE_RULES.fit, steps=200)),
    )
    plan = tiny_plan(
        "vae", domain, 1000, clusters=2, hidden=(20,), sampling_rate=0.3, images=images, rules=NETWORK_RULES
    )
    gateway = Gateway(records, randomness=SeededRandomness(0), allowance=plan.mechanisms)
    mixture = fit_generator(gateway, plan, domain, draws=torch.Generator().manual_seed(0), context=RunContext())
    gateway.assert_complete()
    assert {m.name: m.count for m in gateway.spent} == {m.name: m.count for m in plan.mechanisms}
    drawn = mixture.sample(400, generator=torch.Generator().manual_seed(1)).to_dense(np.float64)
    halves = drawn[:, : image.width].reshape(400, -1, 2, 4).mean(axis=(1, 3))
    drawn_labels = drawn[:, image.width :].argmax(1)
    for label in (0, 1):
        assert abs((drawn_labels == label).mean() - 0.5) < 0.1
        assert halves[drawn_labels == label, label].mean() > 0.6
        assert halves[drawn_labels == label, 1 - label].mean() < 0.3


def test_an_image_without_a_label_goes_to_the_first_network():
    records = Records.from_lists([[1, 2], [3, 65]], IMAGES)
    plan = tiny_plan("vae", IMAGES, 2, **BY_LABEL)
    gateway = Gateway(records, randomness=SeededRandomness(0), allowance=plan.mechanisms)
    fit_generator(gateway, plan, IMAGES, draws=torch.Generator().manual_seed(0), context=RunContext())
    assert gateway._kept["clusters"].tolist() == [0, 1]
