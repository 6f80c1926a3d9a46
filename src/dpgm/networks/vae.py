"""Variational autoencoder with hand-derived gradients (docs/privacy-proof.md 5).

Encoder: m -> hidden -> (mean, log-variance of the latent). Decoder: latent -> hidden reversed -> m logits. ReLU between
layers. Loss of a record: cross-entropy summed over items and fields, plus KL divergence, with one latent draw.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Self

import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.networks.batch import SPARSE_RECORDS, Activation, Batch, Factor
from dpgm.networks.model import Model, ParameterLayout, WeightMatrix
from dpgm.networks.rules import NETWORK_RULES, NetworkRules, NetworkSettings
from dpgm.validation import whole


@dataclass(frozen=True)
class VAE(Model):
    """A variational autoencoder over a domain: hidden layer sizes of the encoder, and the latent size."""

    hidden: tuple[int, ...] = (NETWORK_RULES.hidden,)
    latent: int = NETWORK_RULES.latent
    kind: ClassVar[str] = "vae"

    def __post_init__(self) -> None:
        whole(at_least=1, latent=self.latent, layers=len(self.hidden))
        for size in self.hidden:
            whole(at_least=1, hidden=size)

    @classmethod
    def of(cls, domain: Domain, settings: NetworkSettings) -> Self:
        """With the hidden layers and the latent size of a plan."""
        return cls(domain, settings.hidden, settings.latent)

    @property
    def draws_per_record(self) -> int:
        """Number of standard normal draws per record and step."""
        return self.latent

    @cached_property
    def layout(self) -> ParameterLayout:
        """The parameter blocks from input to output; `latent` has the mean and the log-variance side by side."""
        return ParameterLayout((*self._encoder, self._heads, *self._decoder))

    @cached_property
    def _encoder(self) -> tuple[WeightMatrix, ...]:
        sizes = (self.domain.width, *self.hidden)
        return tuple(WeightMatrix(f"encoder.{i}", *pair) for i, pair in enumerate(pairwise(sizes)))

    @cached_property
    def _heads(self) -> WeightMatrix:
        return WeightMatrix("latent", self.hidden[-1], 2 * self.latent)

    @cached_property
    def _decoder(self) -> tuple[WeightMatrix, ...]:
        sizes = (self.latent, *reversed(self.hidden), self.domain.width)
        return tuple(WeightMatrix(f"decoder.{i}", *pair) for i, pair in enumerate(pairwise(sizes)))

    def initial(self, clusters: int, rules: NetworkRules = NETWORK_RULES, *, generator: torch.Generator) -> Tensor:
        """Normal matrices of Glorot's scale, sqrt(2 / (inputs + outputs)), and zero biases.

        With He's scale, sqrt(2 / inputs), a wide layer after a latent of size two is so large that the outputs of a new
        decoder are near 0 or 1 whatever its biases.
        """
        parameters = torch.zeros((clusters, self.layout.size), device=generator.device)
        for block in self.layout.blocks:
            scale = math.sqrt(2 / (block.inputs + block.outputs))
            self.layout.weight(parameters, block).normal_(0.0, scale, generator=generator)
        return parameters

    def warm(self, parameters: Tensor, frequencies: Tensor) -> Tensor:
        """A copy of (k, P) parameters whose networks start near item frequencies (k, m).

        The decoder's last matrix is left unchanged: with a much smaller one the decoder is flat, and a later refinement
        to measured pairs fails to converge.
        """
        warmed = parameters.clone()
        self.layout.bias(warmed, self._decoder[-1]).copy_(
            self.outputs.log_odds(frequencies.to(warmed)).unsqueeze(1)
        )
        return warmed

    def factors(self, batch: Batch) -> Sequence[Factor]:
        """Forward and backward pass of a batch."""
        # Forward. The inputs of every block are stored for its factor.
        inputs: list[Activation] = [SPARSE_RECORDS]
        for block in self._encoder:
            inputs.append(batch.affine(block, inputs[-1]).relu_())
        mean, log_variance = batch.affine(self._heads, inputs[-1]).chunk(2, dim=1)
        spread = torch.exp(0.5 * log_variance)
        hidden = [torch.addcmul(mean, spread, batch.draws)]
        for block in self._decoder[:-1]:
            hidden.append(batch.affine(block, hidden[-1]).relu_())
        delta = batch.residual(batch.affine(self._decoder[-1], hidden[-1]), self.outputs)
        # Backward: the delta at the output of every block, and from it the slope at its input.
        factors = [Factor(self._decoder[-1], hidden[-1], delta)]
        slope = batch.backward(self._decoder[-1], delta)
        for block in reversed(self._decoder[:-1]):
            slope *= hidden.pop().sign()
            factors.append(Factor(block, hidden[-1], slope))
            slope = batch.backward(block, slope)
        # The divergence adds the mean, and half of variance - 1, to the gradient at the heads.
        variance_part = (slope * batch.draws * spread + spread.square() - 1) * 0.5
        slope = torch.cat([slope + mean, variance_part], dim=1)
        for block in reversed((*self._encoder, self._heads)):
            activation = inputs.pop()
            factors.append(Factor(block, activation, slope))
            if isinstance(activation, Tensor):
                slope = batch.backward(block, slope).mul_(activation.sign())
        return factors

    def generate(
        self, parameters: Tensor, state: Tensor | None, count: int, *, generator: torch.Generator
    ) -> Tensor:
        """Output logits (count, m) of one network's parameters (1, P), at latent points drawn from the prior."""
        shape = (count, self.latent)
        points = torch.randn(shape, generator=generator, dtype=parameters.dtype, device=parameters.device)
        return self.decode(parameters, points)

    def decode(self, parameters: Tensor, latent: Tensor) -> Tensor:
        """Output logits (n, m) of one network's parameters (1, P) at latent points (n, latent)."""
        signal = latent
        for block in self._decoder:
            matrix = self.layout.matrix(parameters, block)[0]
            signal = torch.addmm(matrix[-1], signal, matrix[:-1])
            if block is not self._decoder[-1]:
                signal.clamp_min_(0)
        return signal

    def decode_all(self, parameters: Tensor, points: Tensor) -> Tensor:
        """Output logits (k, n, m) of networks (k, P), each at its own latent points (k, n, latent); differentiable."""
        signal = points
        for block in self._decoder:
            signal = self._layer(parameters, block, signal)
            if block is not self._decoder[-1]:
                signal = signal.relu()
        return signal

    def loss(self, parameters: Tensor, records: Tensor, draws: Tensor) -> Tensor:
        """Loss (k, n) of dense records (k, n, m) under networks with parameters (k, P); differentiable.

        The same loss as in `factors`, for training on synthetic records.
        """
        signal = records
        for block in self._encoder:
            signal = self._layer(parameters, block, signal).relu()
        mean, log_variance = self._layer(parameters, self._heads, signal).chunk(2, dim=-1)
        logits = self.decode_all(parameters, mean + torch.exp(0.5 * log_variance) * draws)
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(-1)
        return self.outputs.cross_entropy(logits, records) + divergence

    def _layer(self, parameters: Tensor, block: WeightMatrix, signal: Tensor) -> Tensor:
        """Product signal (k, n, inputs) @ matrix + bias, for each network."""
        matrix = self.layout.matrix(parameters, block)
        return torch.baddbmm(matrix[:, -1:], signal, matrix[:, :-1])
