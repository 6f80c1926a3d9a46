"""The decorator `compiled`: machine code by numba where it is installed, else the plain Python function."""

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

try:
    import numba
except ImportError:  # a bare GPU machine has only torch and numpy
    numba = None

HAS_NUMBA = numba is not None


def compiled(function: Function) -> Function:
    """Compile with numba, caching the machine code on disk if possible."""
    if numba is None:
        return function
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": {"reassoc", "contract", "arcp", "nsz"},
    }
    try:
        return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # no writable cache directory
        return numba.njit(**options)(function)  # type: ignore[no-any-return]
