"""Labels of items and categories: texts or whole numbers, and what they may be."""

from collections.abc import Iterable, Sized
from typing import TypeAlias

import numpy as np

from dpgm.errors import ResourceError, UsageError

Label: TypeAlias = str | int
MAX_WIDTH = 10_000_000
MAX_LABEL_BYTES = 1024
OTHER = "(other)"  # stands for every value that a field with `other` does not list
INDEX = "(index)"  # the name of a first column without one: row numbers or row names, as pandas and R write them
_INT64 = 2**63


def checked_labels(name: str, labels: Iterable[Label], what: str, discover: object) -> tuple[Label, ...]:
    """Labels of a field as a tuple: empty with `discover`; otherwise distinct, all texts or all whole numbers.

    Raises:
        UsageError: they break a rule; the message names the field, and calls the labels `what`.
        ResourceError: there are too many.
    """

    def error(rule: str) -> UsageError:
        return UsageError(f"field {name!r}: {rule}.")

    if not isinstance(discover, bool):
        raise error("'discover' must be true or false")
    if discover and labels:
        raise error(f"list its {what} or say `discover: true`, not both")
    if discover:
        return ()
    if isinstance(labels, (str, bytes)):
        raise error(f"{what} must be a list, not a text")
    if isinstance(labels, Sized) and len(labels) > MAX_WIDTH:
        raise ResourceError(f"field {name!r}: {what} must not exceed {MAX_WIDTH:,}; drop or merge some.")
    listed = tuple(int(label) if isinstance(label, np.integer) else label for label in labels)
    if not listed:
        raise UsageError(f"field {name!r} has no {what}; list at least one.")
    for label in listed:
        if rule := _broken_rule(label):
            raise error(rule)
    if len({isinstance(label, str) for label in listed}) > 1:
        raise error(f"{what} must be all texts or all whole numbers; quote the numbers")
    if len(set(listed)) < len(listed):
        raise UsageError(f"field {name!r} lists one of its {what} twice; {what} must differ.")
    return listed


def _broken_rule(label: object) -> str:
    """The rule that a label breaks, as a message; empty if it is valid."""
    if isinstance(label, str):
        try:
            size = len(label.encode())
        except UnicodeEncodeError:
            return "a label is not valid Unicode; correct the domain"
        if size == 0 or "\0" in label:
            return "labels must not be empty nor hold a NUL character"
        return "labels must not exceed 1 kB; shorten or number them" if size > MAX_LABEL_BYTES else ""
    if isinstance(label, bool) or not isinstance(label, int):
        return "labels must be texts or whole numbers; quote them in the domain file"
    return "" if -_INT64 <= label < _INT64 else "whole-number labels must fit 64 bits; use texts instead"
