"""Record a sequence of tensor operations once, replay it as one CUDA graph; elsewhere just run it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class Recorded:
    """A function without arguments that reads and writes tensors that stay where they are.

    On a CUDA device the first call runs it a few times on the side, records it and replays it from then on: one
    launch instead of dozens. What it returns must be kept by the function itself (graphs keep nothing alive).
    Recording runs the function twice on the side; `changes` lists the tensors to be put back after that, if the
    function reads what it writes.
    """

    def __init__(self, function: Callable[[], None], device: torch.device, changes: Sequence[Tensor] = ()) -> None:
        self._function = function
        self._changes = changes
        self._device = device
        self._graph: Any = None

    def __call__(self) -> None:
        """Run, or replay."""
        if self._device.type != "cuda":
            self._function()
            return
        if self._graph is None:
            self._record()
        self._graph.replay()

    def _record(self) -> None:
        before = [tensor.clone() for tensor in self._changes]
        side = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(side):
            for _ in range(2):
                self._function()
        torch.cuda.current_stream(self._device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._function()
        for tensor, value in zip(self._changes, before, strict=True):
            tensor.copy_(value)
        self._graph = graph
