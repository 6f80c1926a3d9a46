"""Every argument check, with one message shape: parameter, rule, what was received, what to do.

Checks are called with the parameter as keyword, so that its name lands in the message:

>>> positive(epsilon=1.0)
>>> positive(epsilon=0)
Traceback (most recent call last):
    ...
dpgm.errors.UsageError: `epsilon` must be a finite number above 0; got 0.
"""

import math
from collections.abc import Collection

from dpgm.errors import UsageError


def _fail(name: str, rule: str, value: object, advice: str = "") -> UsageError:
    tail = f" {advice}" if advice else ""
    return UsageError(f"`{name}` must be {rule}; got {value!r}.{tail}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def positive(*, advice: str = "", **named: object) -> None:
    """Each named value is a finite number above zero."""
    for name, value in named.items():
        if not _is_number(value) or value <= 0:  # type: ignore[operator]
            raise _fail(name, "a finite number above 0", value, advice)


def non_negative(*, advice: str = "", **named: object) -> None:
    """Each named value is a finite number of at least zero."""
    for name, value in named.items():
        if not _is_number(value) or value < 0:  # type: ignore[operator]
            raise _fail(name, "a finite number of at least 0", value, advice)


def whole(*, at_least: int = 0, at_most: int | None = None, advice: str = "", **named: object) -> None:
    """Each named value is an integer in the stated range."""
    for name, value in named.items():
        good = isinstance(value, int) and not isinstance(value, bool) and value >= at_least
        if not good or (at_most is not None and value > at_most):  # type: ignore[operator]
            upper = "" if at_most is None else f" and at most {at_most}"
            raise _fail(name, f"a whole number of at least {at_least}{upper}", value, advice)


def fraction(*, advice: str = "", **named: object) -> None:
    """Each named value lies in the half-open interval (0, 1]."""
    for name, value in named.items():
        if not _is_number(value) or not 0 < value <= 1:  # type: ignore[operator]
            raise _fail(name, "in (0, 1]", value, advice)


def probability(*, advice: str = "", **named: object) -> None:
    """Each named value lies strictly between 0 and 1."""
    for name, value in named.items():
        if not _is_number(value) or not 0 < value < 1:  # type: ignore[operator]
            raise _fail(name, "strictly between 0 and 1", value, advice)


def one_of(choices: Collection[object], **named: object) -> None:
    """Each named value is one of the choices."""
    for name, value in named.items():
        if value not in choices:
            listed = ", ".join(repr(choice) for choice in choices)
            raise _fail(name, f"one of {listed}", value)
