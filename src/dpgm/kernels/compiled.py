"""Machine code by numba where it is installed; else the functions stay as they are."""

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

try:
    import numba
except ImportError:  # a bare GPU machine has torch and numpy alone
    numba = None

HAS_NUMBA = numba is not None


def wide_vectors() -> None:
    """Called first in a compiled function: use vectors of 512 bits where there are such.

    By default the compiler takes half of that on processors that slow down under them, which pays for itself only
    where a function waits for memory. Interpreted it does nothing.
    """


def _teach_numba() -> None:
    from numba import types
    from numba.extending import intrinsic, overload

    @intrinsic  # type: ignore[untyped-decorator]
    def ask(typing: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            # llvmlite writes down what is in this set, but lets only attributes in that it knows.
            set.add(builder.function.attributes, '"prefer-vector-width"="512"')
            return context.get_dummy_value()

        return types.void(), generate

    @overload(wide_vectors, inline="always")  # type: ignore[untyped-decorator]
    def compiled_wide_vectors() -> Any:
        return lambda: ask()


if HAS_NUMBA:
    _teach_numba()


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
