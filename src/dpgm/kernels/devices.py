"""Work on an accelerator: operations recorded as one CUDA graph, numbers sent ahead, precision of products."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


@contextmanager
def matrix_precision(level: str) -> Iterator[None]:
    """Multiply matrices with the given precision ("highest": float32 throughout), whatever the caller had set.

    It is a setting of the whole process, so it is taken for a while and given back.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(level)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


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


class Repeated:
    """A function of tensors that is recorded from its second call with the very same tensors on."""

    def __init__(self, function: Callable[..., None], device: torch.device, changes: Sequence[Tensor] = ()) -> None:
        self._function, self._device, self._changes = function, device, changes
        self._given: tuple[Tensor, ...] | None = None
        self._recorded: Recorded | None = None

    def __call__(self, *tensors: Tensor) -> None:
        """Run, or replay."""
        if self._given is None or any(one is not other for one, other in zip(self._given, tensors, strict=True)):
            self._given, self._recorded = tensors, None
            self._function(*tensors)
            return
        if self._recorded is None:
            self._recorded = Recorded(lambda: self._function(*tensors), self._device, self._changes)
        self._recorded()


class Upcoming:
    """Numbers for many coming steps, sent at once; a recorded function takes one line of them at every call."""

    def __init__(self, lines: int, width: int, dtype: torch.dtype, device: torch.device) -> None:
        self._there = torch.zeros((lines, width), dtype=dtype, device=device)
        self.next = torch.zeros(1, dtype=torch.int64, device=device)  # changed by whoever records `take`
        self.lines, self.left = lines, 0

    def fill(self, numbers: Tensor) -> None:
        """All lines anew."""
        self._there.copy_(numbers)
        self.next.zero_()
        self.left = self.lines

    def take(self) -> Tensor:
        """The next line, (width,): part of the recorded function."""
        line = self._there.index_select(0, self.next)[0]
        self.next.add_(1)
        return line


class Staged:
    """Numbers that the host writes for every step and recorded functions read, at `there`.

    On the host they lie in pinned memory, in several places taken in turn, so that the host can write the next
    steps' numbers while the device still computes: it waits only where it is `SLOTS` steps ahead.
    """

    SLOTS = 8

    def __init__(self, count: int, dtype: torch.dtype, device: torch.device) -> None:
        on_cuda = device.type == "cuda"
        slots = self.SLOTS if on_cuda else 1
        self._host = [torch.zeros(count, dtype=dtype, pin_memory=on_cuda) for _ in range(slots)]
        self._arrays: list[NDArray[Any]] = [host.numpy() for host in self._host]
        self._read: list[Any] = [torch.cuda.Event() for _ in range(slots)] if on_cuda else []  # type: ignore[no-untyped-call]
        self._slot = 0
        self._stream = torch.cuda.current_stream(device) if on_cuda else None
        self.there = torch.zeros(count, dtype=dtype, device=device)

    @property
    def numbers(self) -> NDArray[Any]:
        """To be written in full before `send`."""
        if self._read:
            self._read[self._slot].synchronize()  # at once if nothing was sent from there yet
        return self._arrays[self._slot]

    def send(self) -> None:
        """What was written goes to the device, in the order of its work."""
        self.there.copy_(self._host[self._slot], non_blocking=True)
        if self._stream is None:
            return
        # Asking for the current stream takes longer than all else here; its number is to be had quickly.
        if torch._C._cuda_getCurrentRawStream(self._stream.device_index) != self._stream.cuda_stream:
            self._stream = torch.cuda.current_stream(self.there.device)
        self._read[self._slot].record(self._stream)
        self._slot = (self._slot + 1) % self.SLOTS
