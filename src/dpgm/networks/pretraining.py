"""Networks that learn from samples of a generator made of released statistics, before private SGD. Never sees data.

What the statistics say, networks need not learn from noisy gradients: samples of a generator that shows them are free,
and ordinary training on as many as one likes costs no budget. Private SGD then starts from there.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.records import Records
from dpgm.networks.rules import RULES, NetworkRules
from dpgm.networks.vae import VAE


def pretrain(
    model: VAE,
    parameters: Tensor,
    samples: Records,
    clusters: NDArray[np.int64],
    rules: NetworkRules = RULES,
    *,
    generator: torch.Generator,
    device: torch.device | str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> Tensor:
    """A copy of (k, P) parameters, every network trained on the samples of its own cluster.

    Args:
        model: the networks.
        parameters: what to start from.
        samples: synthetic records.
        clusters: the cluster of every sample; a network whose cluster has none learns from all of them.
        rules: tuned numbers.
        generator: source of batches and latent draws.
        device: where to compute.
        progress: is given the share of the work done.
    """
    trained = parameters.to(device, copy=True).requires_grad_()
    k = len(trained)
    everything = np.arange(len(samples))
    members = [np.flatnonzero(clusters == s) for s in range(k)]
    members = [rows if len(rows) else everything for rows in members]
    batch = max(1, min(rules.pretraining_batch, len(samples)) // k)
    steps = max(1, round(rules.pretraining_passes * len(samples) / (batch * k)))
    optimiser = torch.optim.Adam([trained], lr=rules.pretraining_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for step in range(steps):
        rows = [own[torch.randint(len(own), (batch,), generator=generator).numpy()] for own in members]
        dense = torch.from_numpy(samples.take(np.concatenate(rows)).to_dense(np.float32)).view(k, batch, -1)
        draws = torch.randn((k, batch, model.latent), generator=generator)
        # A sum over networks of means over records: no network learns faster for having more samples.
        loss = model.loss(trained, dense.to(device), draws.to(device)).mean(dim=1).sum()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        if progress is not None and (step % 50 == 49 or step + 1 == steps):
            progress((step + 1) / steps)
    return trained.detach().cpu()
