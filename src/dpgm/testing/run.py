"""What is checked: a function of a gateway."""

from collections.abc import Callable
from typing import Any, TypeAlias

from dpgm.mechanisms.gateway import Gateway

# Runs a stage against a gateway and returns everything it made: nested dicts, lists, dataclasses, tensors, arrays,
# generators, strings and numbers, internal state included.
Run: TypeAlias = Callable[[Gateway], Any]


def require(condition: bool, message: str) -> None:
    """Raise AssertionError with a message unless the condition holds, under `python -O` as well."""
    if not condition:
        raise AssertionError(message)
