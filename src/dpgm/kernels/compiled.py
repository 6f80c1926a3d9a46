"""The decorator `compiled`: machine code by numba where it is installed, else the plain Python function."""

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

try:
    import numba
except ImportError:  # a bare GPU machine has only torch and numpy
    numba = None

HAS_NUMBA = numba is not None


def wide_vectors() -> None:
    """Use vectors of 512 bits where the processor has them; called first in a compiled function.

    By default the compiler uses half of that on processors that run slower with wide vectors, which is faster only for
    functions that wait for memory. Without numba it does nothing.
    """


def _register_wide_vectors() -> None:
    from numba import types
    from numba.extending import intrinsic, overload

    @intrinsic  # type: ignore[untyped-decorator]
    def prefer_wide(typing: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            # llvmlite writes out every attribute of this set, but its own `add` refuses those it does not know.
            set.add(builder.function.attributes, '"prefer-vector-width"="512"')
            return context.get_dummy_value()

        return types.void(), generate

    @overload(wide_vectors, inline="always")  # type: ignore[untyped-decorator]
    def compiled_wide_vectors() -> Any:
        return lambda: prefer_wide()


if HAS_NUMBA:
    _register_wide_vectors()


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
