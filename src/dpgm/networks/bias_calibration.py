"""The simplest refinement: move output biases until generated data shows the measured item frequencies.

Post-processing of released values. A few fixed-point steps: generate, compare each position's frequency with the
measured one, shift its bias (the same for all networks, so that what tells clusters apart stays) by the difference in
log-odds.
"""

from dataclasses import replace

import torch
from torch import Tensor

from dpgm.networks.mixture import Mixture
from dpgm.networks.vae import VAE

STEPS = 25
DRAWS = 4096
LARGEST_SHIFT = 1.0


def calibrate_biases(mixture: Mixture, frequencies: Tensor, *, generator: torch.Generator) -> Mixture:
    """The mixture with output biases shifted toward item frequencies (m,).

    Networks whose outputs are not a decoder's (RBM) are returned as they are: their frequencies follow from chains.
    """
    model = mixture.model
    if not isinstance(model, VAE):
        return mixture
    parameters = mixture.parameters.clone()
    last = model.layout.blocks[-1].name
    weights = mixture.weights.double()
    draws = [max(64, round(DRAWS * float(weight))) for weight in weights]
    target = model.outputs.log_odds(frequencies.double().unsqueeze(0))[0]
    for step in range(STEPS):
        generated = torch.zeros_like(target)
        for s, count in enumerate(draws):
            logits = model.generate(parameters[s : s + 1], None, count, generator=generator)
            generated += weights[s] * model.outputs.probabilities(logits).double().mean(0)
        gap = target - model.outputs.log_odds(generated.unsqueeze(0))[0]
        rate = 1.0 if step < STEPS // 2 else 0.5  # later steps average out the sampling error
        shift = (rate * gap).clamp(-LARGEST_SHIFT, LARGEST_SHIFT)
        model.layout.bias(parameters, last).add_(shift.to(parameters))
    return replace(mixture, parameters=parameters)
