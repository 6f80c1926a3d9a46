"""Record a sequence of tensor operations once, replay it as one CUDA graph; elsewhere just run it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
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


class Staged:
    """Numbers that the host writes and a recorded function reads.

    On the host they lie in pinned memory; the function itself sends them (`send`), so that it costs no call of its
    own. `numbers` waits until the device has read what was written last: call `sent` after the function ran.
    """

    def __init__(self, count: int, dtype: torch.dtype, device: torch.device) -> None:
        on_cuda = device.type == "cuda"
        self._host = torch.zeros(count, dtype=dtype, pin_memory=on_cuda)
        self._numbers: NDArray[Any] = self._host.numpy()
        self.there = torch.zeros(count, dtype=dtype, device=device)
        self._event: Any = torch.cuda.Event() if on_cuda else None  # type: ignore[no-untyped-call]
        self._device, self._stream = device, None if not on_cuda else torch.cuda.current_stream(device)
        self._under_way = False

    @property
    def numbers(self) -> NDArray[Any]:
        """To be written."""
        self.wait()
        return self._numbers

    def send(self) -> None:
        """Part of the recorded function."""
        self.there.copy_(self._host, non_blocking=True)

    def sent(self) -> None:
        """The recorded function has been called."""
        if self._stream is None:
            return
        # Asking for the current stream takes longer than all else here; its number is to be had quickly.
        if torch._C._cuda_getCurrentRawStream(self._stream.device_index) != self._stream.cuda_stream:
            self._stream = torch.cuda.current_stream(self._device)
        self._event.record(self._stream)
        self._under_way = True

    def wait(self) -> None:
        """Wait until the function whose call `sent` followed has run."""
        if self._under_way:
            self._event.synchronize()
            self._under_way = False
