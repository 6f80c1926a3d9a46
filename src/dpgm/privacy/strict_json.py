"""JSON that nobody vouches for: read whole and strictly, or refused in one sentence.

A key too many, a key missing, a wrong type, a number no float holds, text that is not one printable line: a document
that is half understood promises nothing.
"""

import json
import math
import sys
from collections.abc import Mapping
from typing import Any, TypeVar

from dpgm.errors import ArtefactError

LARGEST_DOCUMENT = 4 * 2**20  # bytes; a real certificate has a few thousand
LONGEST_TEXT = 1000  # characters of a name or a sentence
LARGEST_WHOLE = 2**63 - 1  # of records, runs or entries of a ledger; a larger one fits no array or database
DEEPEST = 10  # lists and objects inside each other; ours have four

T = TypeVar("T")


def strict_json(text: str, what: str, at_most: int = LARGEST_DOCUMENT) -> Any:
    """Parse JSON without duplicate keys, infinities, half characters or deep nesting; raises ArtefactError."""
    if len(text) > at_most:
        raise ArtefactError(f"{what} is larger than {at_most} bytes, so dpgm has not written it.")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            raise ArtefactError(f"{what} has a key twice.")
        return values

    def refuse(constant: str) -> Any:
        raise ArtefactError(f"{what} holds {constant}, which is not a number.")

    def finite(digits: str) -> float:
        value = float(digits)
        return value if math.isfinite(value) else refuse("a number too large")

    try:
        document = json.loads(text, object_pairs_hook=once, parse_constant=refuse, parse_float=finite)
        if "\\ud" in text.lower():  # half a pair of surrogates is no text, and cannot be written or shown
            json.dumps(document, ensure_ascii=False).encode()
    except ArtefactError:
        raise
    except (ValueError, RecursionError):
        raise ArtefactError(f"{what} is not valid JSON.") from None
    if _deeper_than(document, DEEPEST):
        raise ArtefactError(f"{what} is nested too deeply, so dpgm has not written it.")
    return document


def _deeper_than(value: Any, depth: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_deeper_than(entry, depth - 1) for entry in inside)


def exact_keys(document: Mapping[str, Any], expected: set[str], what: str) -> None:
    """Refuse an object that lacks a key or has another one."""
    missing, extra = sorted(expected - document.keys()), sorted(document.keys() - expected)
    if missing:
        raise ArtefactError(f"{what} lacks {missing[0]!r}.")
    if extra:
        raise ArtefactError(f"{what} holds the unknown key {extra[0][:60]!r}.")


def typed(document: Mapping[str, Any], key: str, kind: type[T], of: str = "the certificate") -> T:
    """The value of a key, of that type and of a reasonable size."""
    value = document[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ArtefactError(f"{of}'s {key!r} must be of type {kind.__name__}.")
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        raise ArtefactError(f"{of}'s {key!r} is too large a number.")
    if isinstance(value, str) and not one_line(value):
        raise ArtefactError(f"{of}'s {key!r} must be one line of at most {LONGEST_TEXT} characters.")
    return value


def one_line(text: str) -> bool:
    """Plain text on one line: nothing that could start another paragraph of the README or drive a terminal."""
    return len(text) <= LONGEST_TEXT and text.isprintable()


def number(document: Mapping[str, Any], key: str, of: str = "the certificate") -> float:
    """The value of a key, a finite number."""
    value = document[key]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if (
        not is_number or not abs(value) <= sys.float_info.max
    ):  # false for NaN, and for whole numbers no float can hold
        raise ArtefactError(f"{of}'s {key!r} must be a finite number.")
    return float(value)


def strings(document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """The value of a key, a list of sentences."""
    values = typed(document, key, list)
    if not all(isinstance(value, str) and one_line(value) for value in values):
        raise ArtefactError(f"the certificate's {key!r} must be a list of sentences, each on one line.")
    return tuple(values)
