"""The protocol between models and training: per-record gradients as pairs (activation, delta).

A model is a list of parameter blocks. A block is a matrix (inputs, outputs) followed by a bias row; with the
activation a of a record (a one appended for the bias) and the back-propagated delta at its output, the record's
gradient of the block is the outer product of the two. So, without ever forming per-record gradients,

    squared norm of record i = sum over blocks |a_i|² |delta_i|²
    weighted sum             = a' diag(weights) delta, one matrix product per block

which is all private training needs. The parameters of k models lie in one (k, P) tensor, so that one noise fill
and one optimiser call serve them all. A model that is not of this shape can use one block without inputs whose
delta is the whole per-record gradient (`autograd_factor`): slower, same guarantee.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.errors import UsageError
from dpgm.networks.outputs import Outputs


@dataclass(frozen=True)
class Block:
    """A matrix (inputs, outputs), with a bias row unless `bias` is False; each is used once per record."""

    name: str
    inputs: int
    outputs: int
    bias: bool = True

    @property
    def rows(self) -> int:
        """Rows of the matrix, the bias row included."""
        return self.inputs + self.bias

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.rows * self.outputs


@dataclass(frozen=True)
class Layout:
    """Where each block lies in the flat parameters of one model."""

    blocks: tuple[Block, ...]

    @cached_property
    def offsets(self) -> Mapping[str, int]:
        """First parameter of every block."""
        at, found = 0, {}
        for block in self.blocks:
            found[block.name] = at
            at += block.size
        return found

    @cached_property
    def size(self) -> int:
        """P: parameters of one model."""
        return sum(block.size for block in self.blocks)

    def block(self, name: str) -> Block:
        """The block of that name."""
        for block in self.blocks:
            if block.name == name:
                return block
        raise UsageError(f"the model has no parameter block {name!r}.")

    def matrix(self, parameters: Tensor, block: Block) -> Tensor:
        """A view (k, rows, outputs) of a block of (k, P) parameters; the bias is its last row."""
        start = self.offsets[block.name]
        return parameters[:, start : start + block.size].view(len(parameters), block.rows, block.outputs)

    def weight(self, parameters: Tensor, name: str) -> Tensor:
        """A view (k, inputs, outputs) of a block's matrix."""
        block = self.block(name)
        return self.matrix(parameters, block)[:, : block.inputs]

    def bias(self, parameters: Tensor, name: str) -> Tensor:
        """A view (k, 1, outputs) of a block's bias."""
        block = self.block(name)
        return self.matrix(parameters, block)[:, block.inputs :]


Squares = Tensor | NDArray[np.float64]  # squared norms of records, in whichever form a batch keeps them


@dataclass(frozen=True)
class Signal:
    """Activations of a batch, stored with a last column of ones so that one product takes the bias along."""

    with_one: Tensor  # (..., n, width + 1)
    values: Tensor  # the same without the column of ones; written in place
    squared: Squares | None = None  # squared norms of `with_one`, where they came for free


class _Records:
    """Marks the (sparse) records themselves as the activation."""


RECORDS: Final = _Records()
Activation = Signal | _Records


@dataclass(frozen=True)
class Factor:
    """The per-record gradient of a block: activation_i outer delta_i.

    `squared` may carry the squared norms of delta where a model got them in passing.
    """

    block: Block
    activation: Activation
    delta: Tensor
    squared: Squares | None = None


class Batch(Protocol):
    """A batch of records routed to k models, and the products a model may ask for.

    Tensors are (n, width) with the records sorted by model, or (k, n, width) padded: a model is written once,
    elementwise on the last axis, and leaves every matrix product to the batch.
    """

    draws: Tensor  # (..., n, model.draws) standard normal, the same whenever this batch is looked at

    def signal(self, name: str, width: int) -> Signal:
        """A buffer for activations that the model fills itself."""
        ...

    def space(self, name: str, width: int) -> Tensor:
        """A buffer for anything else, (..., n, width)."""
        ...

    def affine(self, block: Block, activation: Activation) -> Signal:
        """Product activation @ matrix + bias, of each record's own model."""
        ...

    def back(self, block: Block, delta: Tensor) -> Tensor:
        """Product delta @ matrix transposed: the gradient at the block's input."""
        ...

    def rectify(self, signal: Signal) -> Signal:
        """The signal with negative values set to zero, in place."""
        ...

    def gate(self, slope: Tensor, signal: Signal) -> Squares:
        """Zero the slopes where a rectified signal is zero, in place; returns their squared norms."""
        ...

    def reparametrise(self, heads: Tensor) -> Signal:
        """A latent sample from heads (mean, log-variance): mean + exp(log-variance / 2) x draws."""
        ...

    def latent_delta(self, slope: Tensor, heads: Tensor) -> tuple[Tensor, Squares]:
        """Gradient at the heads, KL divergence included, from the slope at the latent sample; its squared norms."""
        ...

    def reconstruct(
        self, block: Block, activation: Signal, outputs: Outputs
    ) -> tuple[Tensor, Squares | None, Tensor]:
        """The last layer: probability - record, its squared norms if free, and the gradient at the layer's input."""
        ...

    def dense(self) -> Tensor:
        """The records as a dense binary tensor, (..., n, m); slow, for models without sparse products."""
        ...

    def parameters(self) -> Tensor:
        """The parameters of each record's model, (..., n, P) or broadcastable to it; slow."""
        ...


@dataclass(frozen=True)
class Model(ABC):
    """A generative network over a domain, as plain tensors; it knows nothing of privacy.

    `factors` is called on private records inside a query. Everything else sees released values only.
    """

    domain: Domain
    kind: ClassVar[str]

    @cached_property
    def outputs(self) -> Outputs:
        """How logits become records."""
        return Outputs.of(self.domain.blocks)

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """The parameter blocks."""

    @property
    def draws(self) -> int:
        """Standard normal numbers a record needs in one pass."""
        return 0

    @property
    @abstractmethod
    def architecture(self) -> dict[str, object]:
        """Sizes as plain JSON values, from which the model can be made again."""

    @abstractmethod
    def initial(self, clusters: int, *, generator: torch.Generator) -> Tensor:
        """Random starting parameters, (clusters, P)."""

    @abstractmethod
    def warm(self, parameters: Tensor, frequencies: Tensor) -> Tensor:
        """A copy of (k, P) parameters whose generator starts at item frequencies (k, m)."""

    @abstractmethod
    def factors(self, batch: Batch) -> Sequence[Factor]:
        """One factor per block for a batch; deltas are gradients of a loss summed within each record."""

    def begin(self, clusters: int, *, generator: torch.Generator) -> Tensor | None:
        """Public state carried from step to step (the chains of an RBM); None where there is nothing to carry."""
        return None

    def advance(
        self,
        state: Tensor,
        parameters: Tensor,
        norm_bound: float | Tensor,
        gradient: Tensor,
        *,
        generator: torch.Generator,
    ) -> None:
        """Move the public state, where there is one, on and add its part to the mean gradient (k, P), both in place."""
        raise NotImplementedError

    @abstractmethod
    def generate(
        self, parameters: Tensor, state: Tensor | None, count: int, *, generator: torch.Generator
    ) -> Tensor:
        """Output logits (count, m) of generated records from one model's parameters (1, P) and state (1, ...)."""


def autograd_factor(block: Block, loss: Callable[[Tensor, Tensor, Tensor], Tensor], batch: Batch) -> Factor:
    """The gradient of `loss(parameters (P,), record (m,), draws)` for every record, as one factor.

    For any differentiable loss, by torch.func: slower, same guarantee. `block` has no inputs and P outputs: its delta
    is the whole gradient.
    """
    delta = batch.space(f"{block.name} delta", block.outputs)
    if delta.numel():  # torch.func cannot map over an empty batch
        records, parameters = batch.dense(), batch.parameters()
        gradient = torch.func.vmap(torch.func.grad(loss))
        flat = gradient(parameters.reshape(-1, block.outputs), records.flatten(0, -2), batch.draws.flatten(0, -2))
        delta.copy_(flat.reshape(delta.shape))
    return Factor(block, batch.signal(f"{block.name} one", 0), delta)
