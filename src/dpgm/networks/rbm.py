"""Restricted Boltzmann machine trained by persistent contrastive divergence (docs/privacy-proof.md 5).

Energy: E(v, h) = -v'Wh - b'v - c'h. The data phase of a record is phi(x) = (x p', x, p) with p = sigmoid(c + W'x), so
its factors are (x, p) and (x, 1). The model phase comes from Gibbs chains that start from noise and use released
parameters only: post-processing. The statistic of the chains is clipped like that of the records, so that the expected
update of a network that fits the data is zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.networks.batch import SPARSE_RECORDS, Batch, Factor
from dpgm.networks.model import Model, ParameterLayout, WeightMatrix
from dpgm.networks.rules import NETWORK_RULES, NetworkRules, NetworkSettings
from dpgm.validation import whole


@dataclass(frozen=True)
class RBM(Model):
    """An RBM over a domain; a table column is a group of visible units of which one is on.

    `chains` Gibbs chains per network run during training, one sweep per step; a generated record is the end of `sweeps`
    sweeps from one of them (or from noise).
    """

    hidden: int = NETWORK_RULES.hidden
    chains: int = NETWORK_RULES.chains
    sweeps: int = NETWORK_RULES.sweeps
    kind: ClassVar[str] = "rbm"

    def __post_init__(self) -> None:
        whole(at_least=1, hidden=self.hidden, chains=self.chains, sweeps=self.sweeps)

    @classmethod
    def of(cls, domain: Domain, settings: NetworkSettings) -> Self:
        """With as many hidden units as the first hidden layer of a plan."""
        return cls(domain, settings.hidden[0], settings.rules.chains, settings.rules.sweeps)

    @cached_property
    def layout(self) -> ParameterLayout:
        """`weights` is W with the hidden bias c as its last row; `visible` is the visible bias b."""
        width = self.domain.width
        return ParameterLayout(
            (WeightMatrix("weights", width, self.hidden), WeightMatrix("visible", width, 1, bias=False))
        )

    def initial(self, clusters: int, rules: NetworkRules = NETWORK_RULES, *, generator: torch.Generator) -> Tensor:
        """Small normal weights, zero biases."""
        parameters = torch.zeros((clusters, self.layout.size), device=generator.device)
        self.layout.weight(parameters, self.layout.blocks[0]).normal_(0.0, rules.rbm_weights, generator=generator)
        return parameters

    def warm(self, parameters: Tensor, frequencies: Tensor) -> Tensor:
        """A copy of (k, P) parameters whose visible units start at item frequencies (k, m)."""
        warmed = parameters.clone()
        odds = self.outputs.log_odds(frequencies.to(warmed))
        weights, visible = (self.layout.weight(warmed, block) for block in self.layout.blocks)
        # Hidden units are on half of the time at the start; subtract their mean effect.
        visible.copy_((odds - 0.5 * weights.sum(2)).unsqueeze(2))
        return warmed

    def factors(self, batch: Batch) -> Sequence[Factor]:
        """Minus the data phase of a batch: the gradient of the free energy, which is descended."""
        weights, visible = self.layout.blocks
        delta = batch.affine(weights, SPARSE_RECORDS).sigmoid_().neg_()
        return [
            Factor(weights, SPARSE_RECORDS, delta),
            Factor(visible, SPARSE_RECORDS, delta.new_full((len(delta), 1), -1.0)),
        ]

    def begin(self, clusters: int, *, generator: torch.Generator) -> Tensor:
        """Chains that start from noise, never from records: (clusters, chains, m) of zeros and ones."""
        logits = torch.zeros((clusters, self.chains, self.domain.width), device=generator.device)
        return self.outputs.draw(logits, generator=generator)

    def advance(
        self,
        state: Tensor,
        parameters: Tensor,
        norm_bound: float | Tensor,
        gradient: Tensor,
        *,
        generator: torch.Generator,
    ) -> None:
        """One sweep of every chain; adds the mean of the chains' clipped statistic to the gradient."""
        state.copy_(self._sweep(parameters, state, generator))
        hidden = self._hidden(parameters, state)
        visible_squares, hidden_squares = state.sum(2), hidden.square().sum(2)
        norms = (visible_squares * hidden_squares + visible_squares + hidden_squares).sqrt_()
        share = (norm_bound / norms.clamp_(min=1e-30)).clamp_(max=1.0).div_(state.shape[1]).unsqueeze(2)
        hidden.mul_(share)
        weights, visible = self.layout.blocks
        matrix = self.layout.matrix(gradient, weights)
        matrix[:, : weights.inputs].baddbmm_(state.transpose(1, 2), hidden)
        matrix[:, weights.inputs].add_(hidden.sum(1))
        self.layout.matrix(gradient, visible).baddbmm_(state.transpose(1, 2), share)

    def generate(
        self, parameters: Tensor, state: Tensor | None, count: int, *, generator: torch.Generator
    ) -> Tensor:
        """Logits (count, m) of the visible units after `sweeps` sweeps from the chains (1, chains, m), or noise."""
        if state is None:
            zeros = torch.zeros((1, count, self.domain.width), dtype=parameters.dtype, device=parameters.device)
            visible = self.outputs.draw(zeros, generator=generator)
        else:
            chosen = torch.randint(state.shape[1], (count,), generator=generator, device=state.device)
            visible = state[:, chosen].to(parameters.dtype)
        for _ in range(self.sweeps - 1):
            visible = self._sweep(parameters, visible, generator)
        return self._visible_logits(parameters, visible, generator)[0]

    def _hidden(self, parameters: Tensor, visible: Tensor) -> Tensor:
        """Probabilities p(h = 1 | v) of hidden units given visible ones (k, n, m)."""
        matrix = self.layout.matrix(parameters, self.layout.blocks[0])
        width = self.domain.width
        return torch.baddbmm(matrix[:, width:], visible, matrix[:, :width]).sigmoid_()

    def _visible_logits(self, parameters: Tensor, visible: Tensor, generator: torch.Generator) -> Tensor:
        chances = self._hidden(parameters, visible)
        coins = torch.rand(chances.shape, generator=generator, dtype=chances.dtype, device=chances.device)
        hidden = chances.gt_(coins)
        weights, bias = (self.layout.weight(parameters, block).transpose(1, 2) for block in self.layout.blocks)
        return torch.baddbmm(bias, hidden, weights)

    def _sweep(self, parameters: Tensor, visible: Tensor, generator: torch.Generator) -> Tensor:
        """One Gibbs sweep: hidden given visible, visible given hidden."""
        return self.outputs.draw(self._visible_logits(parameters, visible, generator), generator=generator)
