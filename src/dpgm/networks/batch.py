"""The interface between a network and the batch it is trained on: activations, per-record gradients as pairs, buffers.

A network is written once, against `Batch`: elementwise on the last axis, with every matrix product left to the batch.
Tensors are (n, width) with the records sorted by network (CPU, `clipped_gradients`), or padded to (tiles, places,
width) (CUDA, `clipped_gradients_cuda`).
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

CACHE_LINE = 16  # rows of buffers start at multiples of this many numbers: one cache line in float32
MOST_VIEWS = 4096  # that are cached; the sizes of batches are random, but those of small batches soon repeat

Squares = Tensor | NDArray[np.float64]  # squared norms per record: on CUDA a tensor, on the CPU an array


@dataclass(frozen=True)
class Signal:
    """Activations of a batch, stored with a last column of ones so that one matrix product includes the bias."""

    with_one: Tensor  # (..., n, width + 1)
    values: Tensor  # a view without the column of ones, written in place
    squared: Squares | None = None  # squared norms of the rows of `with_one`, if already known

    def left(self, block: Block) -> Tensor:
        """The left factor of a product with a block's matrix, whose last row may be a bias."""
        return self.with_one if block.bias else self.values


class SparseRecords:
    """Marks the sparse records themselves as the activation, as at the input of a network."""


RECORDS: Final = SparseRecords()
Activation = Signal | SparseRecords


@dataclass(frozen=True)
class Factor:
    """The per-record gradients of a block: the gradient of record i is activation_i outer delta_i."""

    block: Block
    activation: Activation
    delta: Tensor
    squared: Squares | None = None  # squared norms of the rows of delta, if already known


class Batch(ABC):
    """Records routed to k networks, and the operations with parameters that a network needs.

    Args:
        workspace: buffers for results.
        places: the shape of the batch, (n,) or (tiles, places).
        draws: (..., n, model.draws_per_record) standard normal, fixed for this batch.
    """

    kernels: ModuleType  # elementwise kernels: `network_kernels`, or `fused` with the same interface

    def __init__(self, workspace: "Workspace", places: tuple[int, ...], draws: Tensor) -> None:
        self._workspace, self._places, self.draws = workspace, places, draws

    def signal(self, name: str, width: int) -> Signal:
        """A buffer for activations, to be filled by the network."""
        return self._workspace.signal(name, (*self._places, width))

    def buffer(self, name: str, width: int) -> Tensor:
        """A buffer for anything else, (..., n, width)."""
        return self._workspace.take(name, (*self._places, width))

    @abstractmethod
    def affine(self, block: Block, activation: Activation) -> Signal:
        """Product activation @ matrix + bias, with the parameters of each record's network."""

    @abstractmethod
    def backward(self, block: Block, delta: Tensor) -> Tensor:
        """Product delta @ matrix transposed: the gradient at the block's input."""

    def rectify(self, signal: Signal) -> Signal:
        """ReLU in place."""
        squared = self._per_record()
        self.kernels.rectify(self._for_kernel(signal.values), signal.values.shape[-1], squared)
        return Signal(signal.with_one, signal.values, squared)

    def gate(self, slope: Tensor, signal: Signal) -> Squares:
        """Backward pass of ReLU: zero the slopes where the signal is zero, in place; returns their squared norms."""
        squared = self._per_record()
        self.kernels.gate(self._for_kernel(slope), self._for_kernel(signal.values), slope.shape[-1], squared)
        return squared

    def reparametrise(self, heads: Tensor) -> Signal:
        """A latent sample from heads (mean, log-variance): mean + exp(log-variance / 2) x draws."""
        latent, squared, view = heads.shape[-1] // 2, self._per_record(), self._for_kernel
        out = self.signal("latent sample", latent)
        self.kernels.reparametrise(view(heads), view(self.draws), latent, view(out.values), squared)
        return Signal(out.with_one, out.values, squared)

    def latent_delta(self, slope: Tensor, heads: Tensor) -> tuple[Tensor, Squares]:
        """Gradient at the heads, KL divergence included, from the slope at the latent sample; its squared norms."""
        latent, squared, view = heads.shape[-1] // 2, self._per_record(), self._for_kernel
        out = self.buffer("latent delta", 2 * latent)
        self.kernels.latent_delta(view(slope), view(heads), view(self.draws), latent, view(out), squared)
        return out, squared

    @abstractmethod
    def reconstruct(
        self, block: Block, activation: Signal, outputs: Outputs
    ) -> tuple[Tensor, Squares | None, Tensor]:
        """The last layer: probability - record, its squared norms if known, and the gradient at the layer's input."""

    @abstractmethod
    def dense(self) -> Tensor:
        """The records as a dense binary tensor, (..., n, m); slow, for networks without sparse products."""

    @abstractmethod
    def parameters(self) -> Tensor:
        """The parameters of each record's network, (..., n, P) or broadcastable to it; slow."""

    @abstractmethod
    def _for_kernel(self, values: Tensor) -> Tensor | NDArray[np.generic]:
        """A tensor in the form that the kernels take."""

    @abstractmethod
    def _per_record(self) -> Squares:
        """An uninitialised buffer of one number per record."""


def autograd_factor(block: Block, loss: Callable[[Tensor, Tensor, Tensor], Tensor], batch: Batch) -> Factor:
    """The gradient of `loss(parameters (P,), record (m,), draws)` for every record, as one factor.

    For any differentiable loss, by torch.func: slower than gradients derived by hand, with the same guarantee. `block`
    has no inputs and P outputs: its delta is the whole gradient.
    """
    delta = batch.buffer(f"{block.name} delta", block.outputs)
    if delta.numel():  # torch.func cannot map over an empty batch
        records, parameters = batch.dense(), batch.parameters()
        gradient = torch.func.vmap(torch.func.grad(loss))
        flat = gradient(parameters.reshape(-1, block.outputs), records.flatten(0, -2), batch.draws.flatten(0, -2))
        delta.copy_(flat.reshape(delta.shape))
    return Factor(block, batch.signal(f"{block.name} one", 0), delta)


class Workspace:
    """Named buffers, reused from batch to batch; they grow when a batch is larger than any before.

    Views are cached by name and shape: making one takes longer than the work of a small batch on it.
    """

    def __init__(self, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> None:
        self.dtype = dtype
        self.device = torch.device(device)
        self._buffers: dict[str, Tensor] = {}
        self._views: dict[tuple[str, tuple[int, ...]], Tensor] = {}
        self._signals: dict[tuple[str, tuple[int, ...]], Signal] = {}
        self._arrays: dict[str, NDArray[Any]] = {}
        self._padded: dict[int, NDArray[np.generic]] = {}  # of the cached views, by their identity

    def take(self, name: str, shape: tuple[int, ...], *, ones: bool = False) -> Tensor:
        """A view of that shape, contents undefined; with `ones` its last column is one."""
        cached = self._views.get((name, shape))
        if cached is not None:
            return cached
        rows, width = shape[-2:]
        stride = _padded_width(width)
        buffer = self._buffers.get(name)
        if (
            buffer is None
            or buffer.shape[-2] < rows
            or (buffer.shape[:-2], buffer.shape[-1]) != (shape[:-2], stride)
        ):
            size = (*shape[:-2], rows + rows // 8 + CACHE_LINE, stride)
            buffer = torch.zeros(size, dtype=self.dtype, device=self.device)
            if ones:
                buffer[..., width - 1] = 1
            self._buffers[name] = buffer
            self._forget()
        elif len(self._views) >= MOST_VIEWS:
            self._forget()
        view = buffer[..., :rows, :width]
        self._views[name, shape] = view
        self._remember_array(view)
        return view

    def signal(self, name: str, shape: tuple[int, ...]) -> Signal:
        """Activations of that shape, with their column of ones."""
        cached = self._signals.get((name, shape))
        if cached is None:
            whole = self.take(f"{name} +1", (*shape[:-1], shape[-1] + 1), ones=True)
            cached = self._signals[name, shape] = Signal(whole, whole[..., : shape[-1]])
            self._remember_array(cached.values)
        return cached

    def array(self, name: str, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """A flat array of that length, contents undefined (CPU)."""
        buffer = self._arrays.get(name)
        if buffer is None or len(buffer) < count or buffer.dtype != dtype:
            buffer = self._arrays[name] = np.zeros(count + count // 8, dtype=dtype)
        return buffer[:count]

    def padded_array(self, values: Tensor) -> NDArray[np.generic]:
        """`padded_array` of a matrix, cached (CPU)."""
        cached = self._padded.get(id(values))
        return padded_array(values) if cached is None else cached

    def _remember_array(self, values: Tensor) -> None:
        if values.ndim == 2 and self.device.type == "cpu":
            self._padded[id(values)] = padded_array(values)

    def _forget(self) -> None:
        self._views.clear()
        self._signals.clear()
        self._padded.clear()


def padded_array(values: Tensor) -> NDArray[np.generic]:
    """A matrix as a C-contiguous array without copying: its rows include the padding of their buffer."""
    rows, width = values.shape
    stride = values.stride(0) if rows > 1 else max(width, 1)
    if values.stride(1) != 1 and width > 1:
        values, stride = values.contiguous(), width
    return torch.as_strided(values, (rows, stride), (stride, 1)).numpy()


def aligned_copy(values: Tensor) -> Tensor:
    """A copy of a matrix on the CPU whose rows start at cache lines: kernels take a sixth less time on it."""
    rows, width = values.shape
    return torch.zeros((rows, _padded_width(width)), dtype=values.dtype)[:, :width].copy_(values)


def _padded_width(width: int) -> int:
    return -(-width // CACHE_LINE) * CACHE_LINE
