"""How exactly float32 matrices are multiplied: a setting of the whole process, so taken for a while and given back."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def matrix_precision(level: str) -> Iterator[None]:
    """Multiply matrices with the given precision ("highest": float32 throughout), whatever the caller had set."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(level)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
