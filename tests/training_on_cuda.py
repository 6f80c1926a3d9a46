"""The same training on the CPU and on a CUDA device, without noise; needs torch and numpy alone."""

import numpy as np
import torch

from dpgm.data.records import Records
from dpgm.mechanisms.gateway import TraceGateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.networks.model import Model
from dpgm.networks.optimizer import OptimizerSettings
from dpgm.networks.private_sgd import Trainer, TrainingSettings


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
