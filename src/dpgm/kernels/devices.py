"""Helpers for work on an accelerator: CUDA graphs, sending numbers ahead of time, precision of matrix products."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.errors import UsageError


@contextmanager
def matrix_precision(level: str) -> Iterator[None]:
    """Within the block, multiply matrices with the given precision ("highest": float32 throughout).

    It is a setting of the whole process, so the caller's value is restored afterwards.
    """
    before, newer = _one_name(), [(product, product.fp32_precision) for product in _newer_settings()]
    torch.set_float32_matmul_precision(level)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        for product, value in newer:
            product.fp32_precision = value


def _one_name() -> str:
    """The caller's precision; where torch's newer settings leave no one name for it, the default."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return "highest"


def _newer_settings() -> list[Any]:
    """Where torch has a precision for each kind of processor; older versions have none."""
    products = (getattr(backend, "matmul", None) for backend in (torch.backends.cuda, torch.backends.mkldnn))
    return [product for product in products if hasattr(product, "fp32_precision")]


@contextmanager
def full_precision(device: torch.device | str) -> Iterator[None]:
    """Within the block, products of matrices are computed in float32 throughout, whatever the caller has set.

    A gradient that is computed more coarsely than its norm could exceed its bound.

    Raises:
        UsageError: they are not, by a setting that cannot be undone from here.
    """
    with matrix_precision("highest"):
        almost_one = torch.full((64, 64), 1 + 2.0**-20, device=device)
        if not torch.equal(torch.mm(almost_one, torch.eye(64, device=device)), almost_one):
            raise UsageError(
                f"this process multiplies matrices on {device} more coarsely than float32, so that a record could "
                "exceed its bound; unset variables such as NVIDIA_TF32_OVERRIDE, or choose `device='cpu'`."
            )
        yield


class Recorded:
    """A function without arguments that is recorded as a CUDA graph; it reads and writes tensors at fixed addresses.

    On a CUDA device the first call warms the function up by two runs on a side stream and records it; later calls
    replay it: one launch instead of dozens. The function itself must hold references to its results (graphs keep
    nothing alive). `changes` lists the tensors to restore after recording, for a function that reads what it writes.
    """

    def __init__(self, function: Callable[[], None], device: torch.device, changes: Sequence[Tensor] = ()) -> None:
        self._function = function
        self._changes = changes
        self._device = device
        self._graph: Any = None

    def __call__(self) -> None:
        """Run or replay."""
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
    """A function of tensors that is recorded at its second call with the same tensors."""

    def __init__(self, function: Callable[..., None], device: torch.device, changes: Sequence[Tensor] = ()) -> None:
        self._function, self._device, self._changes = function, device, changes
        self._arguments: tuple[Tensor, ...] | None = None
        self._recorded: Recorded | None = None

    def __call__(self, *tensors: Tensor) -> None:
        """Run or replay."""
        last = self._arguments
        if last is None or any(one is not other for one, other in zip(last, tensors, strict=True)):
            self._arguments, self._recorded = tensors, None
            self._function(*tensors)
            return
        if self._recorded is None:
            self._recorded = Recorded(lambda: self._function(*tensors), self._device, self._changes)
        self._recorded()


class Upcoming:
    """Numbers for many coming steps, sent at once; a recorded function reads one row of them per call."""

    def __init__(self, lines: int, width: int, dtype: torch.dtype, device: torch.device) -> None:
        self._there = torch.zeros((lines, width), dtype=dtype, device=device)
        self.next = torch.zeros(1, dtype=torch.int64, device=device)  # list it in `changes` when recording `take`
        self.lines, self.left = lines, 0

    def fill(self, numbers: Tensor) -> None:
        """Replace all rows."""
        self._there.copy_(numbers)
        self.next.zero_()
        self.left = self.lines

    def take(self) -> Tensor:
        """The next row, (width,); called inside the recorded function."""
        line = self._there.index_select(0, self.next)[0]
        self.next.add_(1)
        return line


class Staged:
    """Numbers that the host writes for every step and that recorded functions read on the device, at `there`.

    On the host they are in pinned memory, in several slots used in turn, so that the host can write the numbers of the
    next steps while the device still computes: it waits only when it is `SLOTS` steps ahead.
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
        """The host's buffer, to be written in full before `send`."""
        if self._read:
            self._read[self._slot].synchronize()  # returns at once if nothing was sent from this slot yet
        return self._arrays[self._slot]

    def send(self) -> None:
        """Copy the buffer to the device, in stream order."""
        self.there.copy_(self._host[self._slot], non_blocking=True)
        if self._stream is None:
            return
        # `current_stream` takes longer than everything else here; the raw stream number is quick to get.
        if torch._C._cuda_getCurrentRawStream(self._stream.device_index) != self._stream.cuda_stream:
            self._stream = torch.cuda.current_stream(self.there.device)
        self._read[self._slot].record(self._stream)
        self._slot = (self._slot + 1) % self.SLOTS
