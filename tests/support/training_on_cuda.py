"""Training on the CPU and on a CUDA device, without noise, and at extreme scales; needs torch and numpy alone."""

from collections.abc import Iterator

import numpy as np
import torch

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.kernels.devices import matrix_precision
from dpgm.mechanisms.gateway import TraceGateway
from dpgm.mechanisms.norm_bound import norm_edges
from dpgm.mechanisms.query import View
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.networks.model import Model
from dpgm.networks.optimizer import OptimizerSettings
from dpgm.networks.private_sgd import GradientPass, Trainer, TrainingSettings
from dpgm.networks.sampled_batches import SegmentedBatches, TiledBatches
from dpgm.networks.vae import VAE


def latent_of(step: int, rows: np.ndarray, width: int) -> np.ndarray:
    """The same latent draws on both devices."""
    return np.random.default_rng([3, step]).standard_normal((10_000, width))[rows]


def largest_difference(model: Model, records: Records, clusters: int, steps: int = 5) -> float:
    """Largest difference of any parameter after some steps of noiseless training with the same coins and draws."""
    found = []
    for device in ("cpu", "cuda"):
        gateway = TraceGateway(records, randomness=SeededRandomness(3), normals=latent_of)
        gateway.keep("clusters", lambda rows: np.arange(len(rows)) % clusters)
        settings = TrainingSettings(
            steps=steps,
            sampling_rate=0.3,
            norm_noise=0.0,
            gradient_noise=0.0,
            records=len(records),
            optimizer=OptimizerSettings("sgd", 0.01, "constant", 0.5),
        )
        trainer = Trainer(
            gateway, model, settings, clusters=clusters, generator=torch.Generator().manual_seed(0), device=device
        )
        # Chains draw from generators of their devices, which differ; leave the model phase out.
        trainer.chains = None
        trainer.run()
        found.append(trainer.parameters.cpu())
    return float((found[0] - found[1]).abs().max() / found[0].abs().max())


# Activations up to the end of float32, and logits whose probabilities are down to its end.
ACTIVATIONS = [1.0, 1e5, 1e10, 1e15, 1e18, 3e18, 1e19, 1e25, 1e30, 1e37]
LOGITS = [0.0, -5.0, -20.0, -40.0, -44.0, -48.0, -49.0, -49.5, -50.0, -52.0, -60.0, -70.0, -87.0]


def clipped_norms(kind: type[SegmentedBatches | TiledBatches], device: str) -> Iterator[float]:
    """Norm of one record's clipped gradient over the bound, in a VAE whose parameters are as large or small as can be.

    The last layer's gradient is outer(activations, probabilities - record) of any scale, and all others are zero.
    """
    model = VAE(Domain.of_items(60), (33,), 2)
    records = Records.from_dense(np.zeros((1, 60)), model.domain)
    first, last = model.layout.blocks[-2:]
    for activation in ACTIVATIONS:
        for logit in LOGITS:
            parameters = torch.zeros(1, model.layout.size, device=device)
            model.layout.bias(parameters, first).fill_(activation)
            model.layout.bias(parameters, last).fill_(logit)
            gradients = GradientPass(model, parameters, norm_edges(24), kind(model, parameters))
            view = View(records, {}, np.arange(1), lambda rows, out: out.zero_())
            for step, bound in enumerate((2.0**-6, 1.0, 2.0**12)):
                with matrix_precision("highest"):
                    clipped = gradients.clipped_sum(view, step, bound)
                yield float(clipped.double().norm()) / bound
