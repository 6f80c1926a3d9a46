"""Buffers of a training step that stay where they are, and views of them that are made once."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.networks.model import Signal

LINE = 16  # buffers' rows start at multiples of this many numbers: one cache line in float32
MOST_VIEWS = 4096  # remembered; a batch's size is random, and of small batches the sizes soon repeat


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
