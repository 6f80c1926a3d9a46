"""Checks of arguments, whose messages all name the parameter, the rule, the value received and what to do; words.

The parameter is passed by keyword, so that its name appears in the message:

>>> positive(epsilon=1.0)
>>> positive(epsilon=0)
Traceback (most recent call last):
    ...
dpgm.errors.UsageError: `epsilon` must be a finite number above 0; got 0.
"""

import difflib
import math
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeGuard

from dpgm.errors import PrivacyWarning, UsageError


def _check(named: Mapping[str, object], rule: str, good: Callable[[object], bool], advice: str = "") -> None:
    for name, value in named.items():
        if not good(value):
            raise UsageError(f"`{name}` must be {rule}; got {value!r}.{advice and ' '}{advice}")


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number (not a boolean) that fits a finite float."""
    # A comparison, because converting a huge integer to float would raise.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def finite(**named: object) -> None:
    """Each named value is a finite number."""
    _check(named, "a finite number", is_number)


def positive(*, advice: str = "", **named: object) -> None:
    """Each named value is a finite number above zero."""
    _check(named, "a finite number above 0", lambda value: is_number(value) and value > 0, advice)


def non_negative(**named: object) -> None:
    """Each named value is a finite number of at least zero."""
    _check(named, "a finite number of at least 0", lambda value: is_number(value) and value >= 0)


def whole(*, at_least: int = 0, at_most: int | None = None, **named: object) -> None:
    """Each named value is an integer in the stated range."""
    most = math.inf if at_most is None else at_most
    upper = "" if at_most is None else f" and at most {at_most}"
    _check(
        named,
        f"a whole number of at least {at_least}{upper}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and at_least <= value <= most,
    )


def fraction(**named: object) -> None:
    """Each named value lies in the half-open interval (0, 1]."""
    _check(named, "in (0, 1]", lambda value: is_number(value) and 0 < value <= 1)


def probability(*, advice: str = "", **named: object) -> None:
    """Each named value lies strictly between 0 and 1."""
    _check(named, "strictly between 0 and 1", lambda value: is_number(value) and 0 < value < 1, advice)


def one_of(choices: Collection[object], **named: object) -> None:
    """Each named value is one of the choices."""
    for name, value in named.items():
        if value not in choices:
            listed = ", ".join(repr(choice) for choice in choices)
            raise UsageError(f"`{name}` must be one of {listed}{near(value, choices)}; got {value!r}.")


def near(word: object, known: Iterable[object]) -> str:
    """A suggestion in brackets for a mistyped word; empty if no known name is similar.

    >>> near("prodcts", ["products", "image"]), near("xyz", ["products", "image"])
    (' (did you mean products?)', '')
    """
    names = {str(name).lower(): str(name) for name in known}
    alike = difflib.get_close_matches(str(word).lower()[:200], names, n=1)
    return f" (did you mean {names[alike[0]]}?)" if alike else ""


def counted(count: int, one: str, several: str | None = None) -> str:
    """A number and the word for that many; `several` defaults to the word with an s.

    >>> counted(1, "column"), counted(1200, "column"), counted(2, "entry", "entries")
    ('1 column', '1,200 columns', '2 entries')
    """
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def shares(named: Mapping[str, float], *, leave_some: bool = False) -> None:
    """Shares of a budget sum to 1; with `leave_some`, to less than 1."""
    total = math.fsum(named.values())
    listed = ", ".join(f"{name} {share:g}" for name, share in named.items()) or "none"
    if leave_some and total >= 1:
        raise UsageError(
            f"the shares of the budget must sum to less than 1, training takes the rest; got {listed}."
        )
    if not leave_some and abs(total - 1) > 1e-9:
        raise UsageError(f"the shares of the budget must sum to 1; got {listed}, which sum to {total:g}.")


# Above this delta a warning is shown for any number of records: one person in a hundred may lose all protection.
WEAK_DELTA = 0.01


def budget(epsilon: float, delta: float, records: int) -> None:
    """A privacy budget for a public number of records.

    Refuses an epsilon that is not positive and finite, an epsilon above 100, and a delta above 1 / records
    (publishing one record at random would satisfy it). Warns above an epsilon of 10, above a delta of 1 / (10 records),
    and above a delta of 0.01, which the default reaches with fewer than ten records.
    """
    positive(epsilon=epsilon)
    probability(delta=delta, advice="A usual choice is 1 / (100 x number of records).")
    whole(records=records, at_least=1)
    if epsilon > 100:
        raise UsageError(f"`epsilon` = {epsilon} protects nobody; ask for at most 100.")
    if epsilon > 10:
        warnings.warn(
            f"epsilon = {epsilon} is a weak guarantee; 1 is usual, 10 is large.", PrivacyWarning, stacklevel=2
        )
    if delta > 1 / records:
        raise UsageError(
            f"`delta` = {delta} is above 1 / records = {1 / records:.3g}; publishing a random record would "
            f"satisfy it. Use at most {1 / (10 * records):.3g}."
        )
    if delta > 1 / (10 * records):
        warnings.warn(
            f"delta = {delta} is above 1 / (10 x records) = {1 / (10 * records):.3g}, which is weak.",
            PrivacyWarning,
            stacklevel=2,
        )
    elif delta > WEAK_DELTA:
        warnings.warn(
            f"delta = {delta:.3g} is weak: the protection of a person may fail with a chance of 1 in "
            f"{1 / delta:.0f}. There are only {records} records; check that this is the right data, and choose a "
            "smaller delta.",
            PrivacyWarning,
            stacklevel=2,
        )
