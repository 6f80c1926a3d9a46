"""Training of networks on released statistics, before and after private SGD. Post-processing: no data, no budget.

Before (`pretrain`): ordinary training on samples of a generator that is fitted to the statistics, so that networks need
not learn these from noisy gradients. After (`refine_mixture`, `calibrate_biases`): the decoders of a mixture of VAEs,
or their output biases alone, are fitted to the statistics.

At a latent point a decoder is a product distribution: independent items. So k decoders at n points each are a mixture
of k x n products, whose moments are exact, and the loss of `products/fitting.py` applies. The points start as draws
from the prior and are fitted too, as are their shares: the normal prior becomes a discrete one that is released with
the networks. (A prior fitted to the encoder's posteriors instead would have to read the records.)
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.records import Records
from dpgm.networks.mixture import Mixture
from dpgm.networks.rules import NETWORK_RULES, NetworkRules
from dpgm.networks.vae import VAE
from dpgm.products.fitting import Components, Targets, chances_of, match_moments


def refine_mixture(
    mixture: Mixture,
    records: int,
    targets: Targets,
    rules: NetworkRules = NETWORK_RULES,
    *,
    generator: torch.Generator,
    progress: Callable[[float], None] | None = None,
) -> Mixture:
    """The mixture of VAEs with decoders, latent points and weights fitted to the targets.

    The components of the targets' settings are divided evenly among the networks; points start at random.
    """
    model = mixture.model
    assert isinstance(model, VAE)
    clusters, settings = len(mixture.weights), targets.settings
    count = max(1, -(-settings.components // clusters))
    decoder = mixture.parameters.cpu().clone().requires_grad_()
    points = torch.randn((clusters, count, model.latent), generator=generator).requires_grad_()
    shares = (mixture.weights.clamp(min=1e-6) / count).unsqueeze(1).expand(clusters, count)
    share_logits = shares.float().log().requires_grad_()

    def products() -> tuple[Tensor, Tensor]:
        """The decoders at their points as a mixture of products: probabilities and weights."""
        logits = model.decode_all(decoder, points).flatten(0, 1)
        return chances_of(model.domain, logits), torch.softmax(share_logits.flatten(), dim=0)

    parameters = [(decoder, rules.refined_decoder_rate), (points, rules.refined_point_rate), (share_logits, 1.0)]
    gentle = replace(settings, descent=replace(settings.descent, first_tolerance=rules.refined_tolerance))
    targets = replace(targets, settings=gentle)
    match_moments(Components(parameters, products), model.domain, records, targets, progress=progress)
    joint = products()[1].detach().double().view(clusters, count)
    weights = joint.sum(dim=1)
    return replace(
        mixture,
        parameters=decoder.detach(),
        weights=weights.to(mixture.weights.dtype),
        points=points.detach(),
        point_shares=(joint / weights.unsqueeze(1)).float(),
    )


def calibrate_biases(
    mixture: Mixture, frequencies: Tensor, rules: NetworkRules = NETWORK_RULES, *, generator: torch.Generator
) -> Mixture:
    """The mixture with output biases shifted toward item frequencies (m,).

    The simplest refinement, by fixed-point steps: generate, compare the frequency of each position with the measured
    one, shift its bias by the difference in log-odds (the same shift for all networks, so that the differences between
    clusters stay). RBMs are returned unchanged: their frequencies depend on chains, not on output biases alone.
    """
    model = mixture.model
    if not isinstance(model, VAE):
        return mixture
    parameters = mixture.parameters.clone()
    last = model.layout.blocks[-1]
    weights = mixture.weights.double()
    draws = [max(64, round(rules.calibration_draws * float(weight))) for weight in weights]
    target = model.outputs.log_odds(frequencies.double().unsqueeze(0))[0]
    for step in range(rules.calibration_steps):
        generated = torch.zeros_like(target)
        for s, count in enumerate(draws):
            logits = model.generate(parameters[s : s + 1], None, count, generator=generator)
            generated += weights[s] * model.outputs.probabilities(logits).double().mean(0)
        gap = target - model.outputs.log_odds(generated.unsqueeze(0))[0]
        rate = 1.0 if step < rules.calibration_steps // 2 else 0.5  # later steps average out the sampling error
        shift = (rate * gap).clamp(-rules.largest_shift, rules.largest_shift)
        model.layout.bias(parameters, last).add_(shift.to(parameters))
    return replace(mixture, parameters=parameters)


def pretrain(
    model: VAE,
    parameters: Tensor,
    samples: Records,
    clusters: NDArray[np.int64],
    rules: NetworkRules = NETWORK_RULES,
    *,
    generator: torch.Generator,
    device: torch.device | str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> Tensor:
    """A copy of (k, P) parameters, every network trained on the synthetic records of its own cluster.

    `clusters` has the cluster of every sample; a network whose cluster is empty is trained on all samples.
    """
    trained = parameters.to(device, copy=True).requires_grad_()
    k = len(trained)
    members = [np.flatnonzero(clusters == s) for s in range(k)]
    members = [rows if len(rows) else np.arange(len(samples)) for rows in members]
    batch = max(1, min(rules.pretraining_batch, len(samples)) // k)
    steps = max(1, round(rules.pretraining_passes * len(samples) / (batch * k)))
    optimizer = torch.optim.Adam([trained], lr=rules.pretraining_rate, betas=rules.betas)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        rows = [own[torch.randint(len(own), (batch,), generator=generator).numpy()] for own in members]
        dense = torch.from_numpy(samples.take(np.concatenate(rows)).to_dense(np.float32)).view(k, batch, -1)
        draws = torch.randn((k, batch, model.latent), generator=generator)
        # Sum over networks of means over records: no network learns faster because it has more samples.
        loss = model.loss(trained, dense.to(device), draws.to(device)).mean(dim=1).sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        if progress is not None and (step % 50 == 49 or step + 1 == steps):
            progress((step + 1) / steps)
    return trained.detach().cpu()
