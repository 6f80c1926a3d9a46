"""A batch of records routed to k models: activations, gradients of records as pairs, and products with parameters.

A model is written once, against `Batch`: elementwise on the last axis, with every matrix product left to the batch.
Tensors are (n, width) with the records sorted by model (CPU), or (tiles, places, width) padded (CUDA).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.networks.model import Block, Outputs

LINE = 16  # buffers' rows start at multiples of this many numbers: one cache line in float32
MOST_VIEWS = 4096  # remembered; a batch's size is random, and of small batches the sizes soon repeat

Squares = Tensor | NDArray[np.float64]  # squared norms of records, in whichever form a batch keeps them


@dataclass(frozen=True)
class Signal:
    """Activations of a batch, stored with a last column of ones so that one product takes the bias along."""

    with_one: Tensor  # (..., n, width + 1)
    values: Tensor  # the same without the column of ones; written in place
    squared: Squares | None = None  # squared norms of `with_one`, where they came for free

    def left(self, block: Block) -> Tensor:
        """The left factor of a product with a block's matrix, whose last row may be a bias."""
        return self.with_one if block.bias else self.values


class SparseRecords:
    """Marks the (sparse) records themselves as the activation."""


RECORDS: Final = SparseRecords()
Activation = Signal | SparseRecords


@dataclass(frozen=True)
class Factor:
    """The per-record gradient of a block: activation_i outer delta_i.

    `squared` may carry the squared norms of delta where a model got them in passing.
    """

    block: Block
    activation: Activation
    delta: Tensor
    squared: Squares | None = None


class Batch(ABC):
    """Records routed to k models, and the products a model may ask for; `draws` stay the same for one batch.

    Args:
        workspace: where results go.
        places: (n,), or (tiles, places).
        draws: (..., n, model.draws) standard normal.
    """

    kernels: ModuleType  # of layers, of one interface

    def __init__(self, workspace: "Workspace", places: tuple[int, ...], draws: Tensor) -> None:
        self._workspace, self._places, self.draws = workspace, places, draws

    def signal(self, name: str, width: int) -> Signal:
        """A buffer for activations that the model fills itself."""
        return self._workspace.signal(name, (*self._places, width))

    def space(self, name: str, width: int) -> Tensor:
        """A buffer for anything else, (..., n, width)."""
        return self._workspace.take(name, (*self._places, width))

    @abstractmethod
    def affine(self, block: Block, activation: Activation) -> Signal:
        """Product activation @ matrix + bias, of each record's own model."""

    @abstractmethod
    def back(self, block: Block, delta: Tensor) -> Tensor:
        """Product delta @ matrix transposed: the gradient at the block's input."""

    def rectify(self, signal: Signal) -> Signal:
        """The signal with negative values set to zero, in place."""
        squared = self._vector()
        self.kernels.rectify(self._lines(signal.values), signal.values.shape[-1], squared)
        return Signal(signal.with_one, signal.values, squared)

    def gate(self, slope: Tensor, signal: Signal) -> Squares:
        """Zero the slopes where a rectified signal is zero, in place; returns their squared norms."""
        squared = self._vector()
        self.kernels.gate(self._lines(slope), self._lines(signal.values), slope.shape[-1], squared)
        return squared

    def reparametrise(self, heads: Tensor) -> Signal:
        """A latent sample from heads (mean, log-variance): mean + exp(log-variance / 2) x draws."""
        latent, squared, lines = heads.shape[-1] // 2, self._vector(), self._lines
        out = self.signal("latent sample", latent)
        self.kernels.reparametrise(lines(heads), lines(self.draws), latent, lines(out.values), squared)
        return Signal(out.with_one, out.values, squared)

    def latent_delta(self, slope: Tensor, heads: Tensor) -> tuple[Tensor, Squares]:
        """Gradient at the heads, KL divergence included, from the slope at the latent sample; its squared norms."""
        latent, squared, lines = heads.shape[-1] // 2, self._vector(), self._lines
        out = self.space("latent delta", 2 * latent)
        self.kernels.latent_delta(lines(slope), lines(heads), lines(self.draws), latent, lines(out), squared)
        return out, squared

    @abstractmethod
    def reconstruct(
        self, block: Block, activation: Signal, outputs: Outputs
    ) -> tuple[Tensor, Squares | None, Tensor]:
        """The last layer: probability - record, its squared norms if free, and the gradient at the layer's input."""

    @abstractmethod
    def dense(self) -> Tensor:
        """The records as a dense binary tensor, (..., n, m); slow, for models without sparse products."""

    @abstractmethod
    def parameters(self) -> Tensor:
        """The parameters of each record's model, (..., n, P) or broadcastable to it; slow."""

    @abstractmethod
    def _lines(self, values: Tensor) -> Tensor | NDArray[np.generic]:
        """A tensor as the kernels take it."""

    @abstractmethod
    def _vector(self) -> Squares:
        """Room for one number per record."""


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


class Workspace:
    """Named buffers that grow when a batch is larger than any before.

    Views are remembered by name and shape: making one takes longer than a small batch's work on it.
    """

    def __init__(self, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> None:
        self.dtype = dtype
        self.device = torch.device(device)
        self._buffers: dict[str, Tensor] = {}
        self._views: dict[tuple[str, tuple[int, ...]], Tensor] = {}
        self._signals: dict[tuple[str, tuple[int, ...]], Signal] = {}
        self._arrays: dict[str, NDArray[Any]] = {}
        self._lines: dict[int, NDArray[np.generic]] = {}  # of the views remembered, by their identity

    def take(self, name: str, shape: tuple[int, ...], *, ones: bool = False) -> Tensor:
        """A view of that shape, contents undefined; with `ones` its last column is one."""
        known = self._views.get((name, shape))
        if known is not None:
            return known
        rows, width = shape[-2:]
        line = -(-width // LINE) * LINE
        buffer = self._buffers.get(name)
        if buffer is None or buffer.shape[-2] < rows or buffer.shape[:-2] != shape[:-2] or buffer.shape[-1] != line:
            buffer = torch.zeros((*shape[:-2], rows + rows // 8 + LINE, line), dtype=self.dtype, device=self.device)
            if ones:
                buffer[..., width - 1] = 1
            self._buffers[name] = buffer
            self._forget()
        elif len(self._views) >= MOST_VIEWS:
            self._forget()
        view = buffer[..., :rows, :width]
        self._views[name, shape] = view
        self._remember_lines(view)
        return view

    def signal(self, name: str, shape: tuple[int, ...]) -> Signal:
        """Activations of that shape with the column of ones beside them."""
        known = self._signals.get((name, shape))
        if known is None:
            whole = self.take(f"{name} +1", (*shape[:-1], shape[-1] + 1), ones=True)
            known = self._signals[name, shape] = Signal(whole, whole[..., : shape[-1]])
            self._remember_lines(known.values)
        return known

    def array(self, name: str, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """A flat array of that length, contents undefined (CPU)."""
        buffer = self._arrays.get(name)
        if buffer is None or len(buffer) < count or buffer.dtype != dtype:
            buffer = self._arrays[name] = np.zeros(count + count // 8, dtype=dtype)
        return buffer[:count]

    def lines(self, values: Tensor) -> NDArray[np.generic]:
        """A matrix' rows at the full length of their buffer, as the C-contiguous array the kernels want (CPU)."""
        known = self._lines.get(id(values))
        return full_lines(values) if known is None else known

    def _remember_lines(self, values: Tensor) -> None:
        if values.ndim == 2 and self.device.type == "cpu":
            self._lines[id(values)] = full_lines(values)

    def _forget(self) -> None:
        self._views.clear()
        self._signals.clear()
        self._lines.clear()


def full_lines(values: Tensor) -> NDArray[np.generic]:
    """A matrix' rows at the full length of their buffer, C-contiguous."""
    rows, width = values.shape
    line = values.stride(0) if rows > 1 else max(width, 1)
    if values.stride(1) != 1 and width > 1:
        values, line = values.contiguous(), width
    return torch.as_strided(values, (rows, line), (line, 1)).numpy()


def on_lines(values: Tensor) -> Tensor:
    """A copy of a matrix on the CPU whose rows begin at cache lines: kernels on them take a sixth less time."""
    rows, width = values.shape
    return torch.zeros((rows, -(-width // LINE) * LINE), dtype=values.dtype)[:, :width].copy_(values)
