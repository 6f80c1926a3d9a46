"""Training on a CUDA device gives what training on the CPU gives."""

import pytest
import torch

from dpgm.networks.rbm import RBM
from dpgm.networks.sampled_batches import TiledBatches
from dpgm.networks.vae import VAE
from model_references import MIXED, SETS, random_records
from training_on_cuda import clipped_norms, largest_difference


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("domain", [SETS, MIXED], ids=["sets", "every field type"])
@pytest.mark.parametrize("clusters", [1, 3])
@pytest.mark.parametrize("kind", ["vae", "rbm"])
def test_cuda_and_cpu_agree(domain, clusters, kind):
    model = VAE(domain, (9, 5), 2) if kind == "vae" else RBM(domain, 7, chains=3)
    assert largest_difference(model, random_records(domain, 200), clusters) < 1e-4


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_no_gradient_exceeds_its_bound_at_any_scale():
    found = list(clipped_norms(TiledBatches, "cuda"))
    assert max(found) <= 1
    assert sum(norm > 0.9999 for norm in found) > 100  # most are clipped
