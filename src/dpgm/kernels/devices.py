"""Helpers for work on an accelerator: functions recorded as CUDA graphs, precision of matrix products."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

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
    nothing alive), and must not read what it writes.
    """

    def __init__(self, function: Callable[[], None], device: torch.device) -> None:
        self._function = function
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
        side = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(side):
            for _ in range(2):
                self._function()
        torch.cuda.current_stream(self._device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with _no_collection(), torch.cuda.graph(graph):
            self._function()
        self._graph = graph


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection: to free an earlier graph while one is recorded would end the recording."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
