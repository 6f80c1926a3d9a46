"""The output side of a network: Bernoulli columns for item sets, a softmax block for each other field."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from dpgm.compute import sparse_kernels
from dpgm.data import domain as domains

RAREST = 1e-6  # frequencies are kept this far from 0 and 1 before taking logarithms


@dataclass(frozen=True)
class Outputs:
    """How m output logits become a binary record."""

    width: int
    bernoulli: tuple[tuple[int, int], ...]  # column ranges, neighbours merged
    softmax: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, blocks: Sequence[domains.Block]) -> "Outputs":
        """The outputs of a domain's blocks."""
        bernoulli: list[tuple[int, int]] = []
        for block in blocks:
            if block.softmax or block.width == 0:
                continue
            if bernoulli and bernoulli[-1][1] == block.start:
                bernoulli[-1] = (bernoulli[-1][0], block.stop)
            else:
                bernoulli.append((block.start, block.stop))
        softmax = [(block.start, block.stop) for block in blocks if block.softmax]
        return cls(blocks[-1].stop, tuple(bernoulli), tuple(softmax))

    @cached_property
    def softmax_ranges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and end columns of the softmax blocks."""
        return _columns(self.softmax)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Logits (..., m) into probabilities, in place."""
        for start, stop in self.bernoulli:
            logits[..., start:stop].sigmoid_()
        for start, stop in self.softmax:
            part = logits[..., start:stop]
            part.copy_(torch.softmax(part, -1))
        return logits

    def residual(self, logits: Tensor, records: Tensor) -> None:
        """Gradient of the summed loss at the logits, in place: probability - record.

        A softmax block in which the record has no value says nothing about it, so its gradient is zero.
        """
        self.probabilities(logits)
        for start, stop in self.softmax:
            logits[..., start:stop] *= records[..., start:stop].sum(-1, keepdim=True)
        logits.sub_(records)

    def cross_entropy(self, logits: Tensor, records: Tensor) -> Tensor:
        """Cross-entropy of records (..., m), summed over items and fields; `residual` is its gradient."""
        total = torch.zeros(logits.shape[:-1], dtype=logits.dtype, device=logits.device)
        for start, stop in self.bernoulli:
            here, there = logits[..., start:stop], records[..., start:stop]
            total = total + (functional.softplus(here) - here * there).sum(-1)
        for start, stop in self.softmax:
            total = total - (torch.log_softmax(logits[..., start:stop], -1) * records[..., start:stop]).sum(-1)
        return total

    def log_odds(self, frequencies: Tensor) -> Tensor:
        """Biases at which the outputs show the frequencies (..., m): logits, or logarithms in a softmax block."""
        safe = frequencies.clamp(RAREST, 1 - RAREST)
        odds = torch.logit(safe)
        for start, stop in self.softmax:
            shares = safe[..., start:stop] / safe[..., start:stop].sum(-1, keepdim=True)
            odds[..., start:stop] = shares.log()
        return odds

    def draw(self, logits: Tensor, *, generator: torch.Generator) -> Tensor:
        """Binary records drawn from logits (..., m), dense, in place; for the chains of an RBM."""
        self.probabilities(logits)
        for start, stop in self.bernoulli:
            part = logits[..., start:stop]
            part.copy_(torch.rand(part.shape, generator=generator, dtype=part.dtype, device=part.device) < part)
        for start, stop in self.softmax:
            part = logits[..., start:stop]
            chosen = _choose(part, generator).unsqueeze(-1)
            part.zero_().scatter_(-1, chosen, 1.0)
        return logits

    def draw_sparse(
        self, logits: Tensor, *, generator: torch.Generator
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Records drawn from float32 logits (n, m) on the CPU, as CSR indices and row lengths; spoils logits."""
        chosen = torch.empty((len(logits), len(self.softmax)), dtype=torch.int64)
        for number, (start, stop) in enumerate(self.softmax):
            shares = torch.softmax(logits[:, start:stop], -1)
            chosen[:, number] = _choose(shares, generator) + start
        keys = torch.randint(-(2**63), 2**63 - 1, (len(logits),), generator=generator).numpy()
        return sparse_kernels.draw_rows(logits.numpy(), *_columns(self.bernoulli), chosen.numpy(), keys)


def _columns(ranges: Sequence[tuple[int, int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    table = np.array(ranges, dtype=np.int64).reshape(-1, 2)
    return np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])


def _choose(shares: Tensor, generator: torch.Generator) -> Tensor:
    """One column index per row, with the given probabilities (..., n), by inversion."""
    steps = shares.cumsum(-1)
    point = torch.rand(shares.shape[:-1], generator=generator, dtype=shares.dtype, device=shares.device)
    last = shares.shape[-1] - 1
    return (steps < point.unsqueeze(-1) * steps[..., -1:]).sum(-1).clamp_(max=last)
