"""Norms and clipped sums equal those of Opacus on the same VAE, where it is installed."""

import numpy as np
import pytest
import torch

from dpgm.networks.model import Views
from dpgm.networks.vae import VAE
from model_references import SETS, random_records, segmented


class Network(torch.nn.Module):
    def __init__(self, model, parameters):
        super().__init__()
        self.model = model
        self.layers = torch.nn.ModuleDict()
        for block in model.layout.blocks:
            linear = torch.nn.Linear(block.inputs, block.outputs, dtype=torch.float64)
            linear.weight.data = model.layout.weight(parameters, block)[0].T.clone()
            linear.bias.data = model.layout.bias(parameters, block)[0, 0].clone()
            self.layers[block.name.replace(".", "_")] = linear

    def forward(self, x, draws):
        hidden = torch.relu(self.layers["encoder_0"](x))
        mean, log_variance = self.layers["latent"](hidden).chunk(2, dim=1)
        latent = mean + torch.exp(log_variance / 2) * draws
        logits = self.layers["decoder_1"](torch.relu(self.layers["decoder_0"](latent)))
        cross = torch.nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1)
        return cross - 0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1)


@pytest.mark.filterwarnings("ignore")
def test_norms_and_clipped_sums_equal_those_of_opacus():
    opacus = pytest.importorskip("opacus")
    model, records = VAE(SETS, (13,), 3), random_records(SETS, 30)
    generator = torch.Generator().manual_seed(0)
    parameters = model.initial(1, generator=generator).double()
    draws = torch.randn((30, 3), generator=generator, dtype=torch.float64)

    wrapped = opacus.GradSampleModule(Network(model, parameters), loss_reduction="sum")
    wrapped(torch.from_numpy(records.to_dense(np.float64)), draws).sum().backward()
    pieces = []
    for block in model.layout.blocks:
        linear = wrapped._module.layers[block.name.replace(".", "_")]
        pieces += [linear.weight.grad_sample.transpose(1, 2).flatten(1), linear.bias.grad_sample]
    theirs = torch.cat(pieces, dim=1)
    norms = torch.linalg.vector_norm(theirs, dim=1)

    batch, _ = segmented(model, parameters, records, np.zeros(30, dtype=np.int64), draws)
    factors = model.factors(batch)
    assert torch.allclose(batch.squared_norms(factors).sqrt(), norms, rtol=1e-10)
    weights = (norms.median() / norms).clamp(max=1)
    mine = batch.weighted_sum(factors, weights, Views(model.layout, torch.zeros_like(parameters)))
    assert torch.allclose(mine[0], weights @ theirs, rtol=1e-10, atol=1e-10)
