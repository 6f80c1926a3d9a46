"""Image generators: samples, stored states, and damaged ones."""

from typing import Any

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, Image
from dpgm.errors import ArtefactError
from dpgm.images.model import ImageArchitecture, ImageGenerator, initial_parameters

DOMAIN = Domain((Image("image", 9, 7), Categorical("label", ("a", "b", "c"))), label="label")
ARCHITECTURES = [
    ImageArchitecture("dct", 9, 7, 3, 4, (12, 16)),
    ImageArchitecture("conv", 9, 7, 3, 4, (8, 6, 4)),
]


def fresh(architecture: ImageArchitecture) -> ImageGenerator:
    tensors = initial_parameters(architecture, generator=torch.Generator().manual_seed(0))
    return ImageGenerator(architecture, {"class.shares": torch.tensor([0.5, 0.5, 0.0]), **tensors}, DOMAIN)


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=["dct", "conv"])
def test_samples_hold_one_label_each_drawn_by_the_class_shares(architecture: ImageArchitecture) -> None:
    records = fresh(architecture).sample(3000, generator=torch.Generator().manual_seed(1))
    labels = records.to_dense(np.int64)[:, 63:]
    assert len(records) == 3000
    assert (labels.sum(1) == 1).all()
    assert labels.sum(0)[2] == 0
    assert abs(labels.sum(0)[0] - 1500) < 6 * np.sqrt(750)


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=["dct", "conv"])
def test_a_stored_generator_draws_the_same_records(architecture: ImageArchitecture) -> None:
    generator = fresh(architecture)
    again = ImageGenerator.from_state(generator.architecture, generator.state(), DOMAIN)
    draws = [one.sample(50, generator=torch.Generator().manual_seed(2)) for one in (generator, again)]
    assert draws[0] == draws[1]


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=["dct", "conv"])
def test_an_image_does_not_depend_on_the_others_of_its_batch(architecture: ImageArchitecture) -> None:
    generator = fresh(architecture)
    network, parameters = generator._network, generator._parameters
    source = torch.Generator().manual_seed(3)
    latent, warp = torch.randn(6, 4, generator=source), torch.randn(6, generator.sizes.warp, generator=source)
    classes = torch.tensor([0, 1, 2, 0, 1, 2])
    together = network(parameters, latent, warp, classes)
    alone = network(parameters, latent[2:3], warp[2:3], classes[2:3])
    assert torch.allclose(together[2:3], alone, atol=1e-5)


def test_a_sample_of_no_records_is_empty() -> None:
    assert len(fresh(ARCHITECTURES[0]).sample(0, generator=torch.Generator())) == 0


STATE = fresh(ARCHITECTURES[0]).state()


@pytest.mark.parametrize(
    ("architecture", "tensors"),
    [
        ({}, {"extra": torch.zeros(1)}),
        ({}, {"output.bias": torch.zeros(3)}),
        ({}, {"output.bias": STATE["output.bias"].double()}),
        ({}, {"norm1.gain": STATE["norm1.gain"] * torch.nan}),
        ({}, {"norm1.gain": STATE["norm1.gain"] * 1e38}),
        ({}, {"norm1.variance": -STATE["norm1.variance"]}),
        ({}, {"class.shares": torch.tensor([2.0, -1.0, 0.0])}),
        ({"network": "other"}, {}),
        ({"hidden": [12, 10**9]}, {}),
        ({"warp_order": 4000}, {}),
        ({"latent": "4"}, {}),
        ({"more": 1}, {}),
        ({"height": 10}, {}),
    ],
    ids=lambda changes: ", ".join(changes),
)
def test_a_damaged_release_is_refused(architecture: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    good = fresh(ARCHITECTURES[0]).architecture
    with pytest.raises(ArtefactError):
        ImageGenerator.from_state(good | architecture, STATE | tensors, DOMAIN)


def test_a_release_with_a_missing_tensor_is_refused() -> None:
    tensors = {name: tensor for name, tensor in STATE.items() if name != "layer1.weight"}
    with pytest.raises(ArtefactError):
        ImageGenerator.from_state(fresh(ARCHITECTURES[0]).architecture, tensors, DOMAIN)


def test_a_domain_without_image_is_refused() -> None:
    generator = fresh(ARCHITECTURES[0])
    with pytest.raises(ArtefactError, match="domain"):
        ImageGenerator.from_state(generator.architecture, generator.state(), Domain.of_items(4))
