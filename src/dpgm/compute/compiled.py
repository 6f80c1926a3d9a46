"""Machine code by numba where it is installed; else the functions stay as they are."""

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

try:
    import numba
except ImportError:  # a bare GPU machine has torch and numpy alone
    numba = None

HAS_NUMBA = numba is not None


def compiled(function: Function) -> Function:
    """Compile with numba, keeping the machine code on disk where that is possible."""
    if numba is None:
        return function
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": {"reassoc", "contract", "arcp", "nsz"},
    }
    try:
        return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # nowhere to keep it
        return numba.njit(**options)(function)  # type: ignore[no-any-return]
