"""What a curator who looks at a file is pointed at: options that may read it better, and rules that its rows keep.

Texts that look like numbers with other marks, like lists or like dates; numbers such as 999 that stand for "unknown";
dates that never come after others. These are suggestions: a fit reads values as the options and the domain state, and
guesses nothing, because it would have to look at other rows.
"""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from itertools import permutations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpgm.data.values import without_signs

_MARK = "[. '\u00a0\u202f]"
_PATTERNS = (
    r"^[+-]?[0-9]+$",  # whole numbers
    r"^[+-]?[0-9]+\.[0-9]+$",  # with a point
    rf"^[+-]?([0-9]+|[0-9]{{1,3}}({_MARK}[0-9]{{3}})+),[0-9]+$",  # with a decimal comma
    r"^[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$",  # with commas between thousands
    r"^[+-]?[0-9]{1,3},[0-9]{3}$",  # either of the two: 1,234 may be a thousand or one and a bit
    rf"^[+-]?[0-9]{{1,3}}({_MARK}[0-9]{{3}})+$",  # with other marks between thousands
)
_DIGITS = "[0-9.,' \u00a0\u202f]+"
_SIGNED = rf"^[+-]?\s*[$€£¥]\s*[+-]?{_DIGITS}$|^[+-]?{_DIGITS}[$€£¥%]$"
_SIGNS = ("$", "€", "£", "¥", "%")
_JOINING = ";|,/"
_NUMBER = re.compile(r"[$€£¥]?\s*[+-]?[0-9][0-9.,' ]*[$€£¥%]?")
_DATE = re.compile(r"(?P<first>[0-9]{1,4})(?P<mark>[./-])[0-9]{1,2}(?P=mark)[0-9]{1,4}([ T][0-9]{1,2}:[0-9]{2}.*)?")
_ABSENT = {"n/a", "na", "nan", "null", "none", "nil", "-", "--", "?", ".", "unknown", "missing"}
_CLOCK = re.compile(r"[0-9]{1,3}:[0-5][0-9](:[0-5][0-9])?(\.[0-9]+)?")
# The last day of the calendar, and first days of those of spreadsheets and databases.
_NEVER = re.compile(
    r"^(9999|2999)\D|\D(9999|2999)\b|^1900-01-01|^1899-12-3[01]|^0001-01-01|^01[./-]01[./-](1900|0001)"
)
_MOST_NEVER = 3
_IDS = {"id", "identifier", "uid", "uuid", "mrn", "ssn", "nr", "nummer"}
_PERSONS = {"user", "person", "patient", "customer", "client", "member", "visitor", "kunde", "employee", "student"}
_ENOUGH_CELLS = 3  # different cells with a mark, before one says that it joins items
# Nines, eights and sevens (of surveys: unknown, refused, does not apply), and -1; with places, as stations write them.
_CODE_DIGITS = [float(digit * length) for digit in "789" for length in range(1, 7)]
CODES = np.array(
    sorted({-1.0, *_CODE_DIGITS, *(-code for code in _CODE_DIGITS), 99.9, 999.9, 9999.9, 99.99, 999.99})
)
_LEAST_ROWS = 3  # that hold a code; one or two are slips of the pen
_LEAST_SHARE = 0.002  # of the rows
_SMALL = 10.0  # codes of one digit are values of most counts: they must be held by ...
_SMALL_SHARE = 0.02  # ... as many
_FAR = 0.5  # how far a code lies from all other numbers, in units of their range
_NEAR = 5.0  # numbers this near to a code are its neighbours
_STANDS_OUT = 3  # times as many rows as all its neighbours together
ENOUGH_ROWS = 20  # rows with both dates, from which an order may be more than chance
_MOST_COLUMNS = 20
_SOON = 0.25  # of the standard deviation of the first date: then the time between says more than the second date


def number_hint(cells: Collection[str], stripped: Sequence[str] = ()) -> str | None:
    """Which options read texts as numbers, besides taking away the signs `stripped`; None if they are no numbers.

    >>> number_hint({"1.234,50 €", "7,25 €"})
    "numbers with a decimal comma and a currency or percent sign: read them with --strip-from-numbers '€' --decimal , \
--thousands '.'"
    """
    if not cells:
        return None
    texts = without_signs(pa.array(sorted(cells), type=pa.string()), stripped)
    signs = []
    if pc.any(pc.match_substring_regex(texts, _SIGNED)).as_py():
        found = pc.extract_regex(texts, "(?P<sign>[$€£¥%])").drop_null()
        signs = sorted(pc.struct_field(found, 0).unique().to_pylist())
        texts = without_signs(texts, _SIGNS)
    whole, point, comma, grouped, either, marked = (
        pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False) for pattern in _PATTERNS
    )
    first = pc.extract_regex(texts, rf"^[+-]?[0-9]{{1,3}}(?P<mark>{_MARK})[0-9]{{3}}(?:[^0-9]|$)").drop_null()
    mark = first[0].as_py()["mark"] if len(first) else ""
    thousands = f"--thousands '{mark}'" if mark else ""
    if (comma & ~either).any() and (comma | marked | whole).all():
        what, options = "numbers with a decimal comma", f"--decimal , {thousands}"
    elif (grouped & ~either).any() and (grouped | whole | point).all():
        what, options = "numbers with commas between thousands", "--thousands ,"
    elif either.any() and (either | whole).all():
        what, options = "numbers such as 1,234", "--thousands , (or with --decimal , if that is one and a bit)"
    elif mark not in ("", ".") and (marked | whole).all():
        what, options = "numbers with marks between thousands", thousands
    elif signs and (whole | point).all():
        what, options = "numbers", ""
    else:
        return None
    if signs:
        what += f" {'and' if options else 'with'} a currency or percent sign"
        options = " ".join([*(f"--strip-from-numbers '{sign}'" for sign in signs), options])
    return f"{what}: read them with {options.rstrip()}"


def text_hint(column: str, cells: Collection[str]) -> str | None:
    """What to do about texts that seem to be numbers, dates or lists of items.

    >>> text_hint("x", {"1:23:45", "0:05:10"})
    'durations such as 1:23:45: write them as numbers, of seconds or of minutes, to have them as such'
    >>> text_hint("x", {"I10;E11", "E11", "I10;J45", "J45;E11", "I10"})
    "cells that hold several items each: read them as lists with --kind x=items --item-separator ';'"
    >>> text_hint("x", {"good", "N/A", "7"}) is None
    True
    """
    words = sorted(cell for cell in cells if cell.lower() in _ABSENT)
    others = [cell for cell in cells if cell.lower() not in _ABSENT]
    if words and others and all(_NUMBER.fullmatch(cell) or _DATE.fullmatch(cell) for cell in others):
        return f"numbers or dates, and {', '.join(map(repr, words))}: {_say_missing(words)}"
    dates = [_DATE.fullmatch(cell) for cell in cells]
    if dates and all(dates):
        ways = sorted({(len(one["first"]) != 4, one["mark"]) for one in dates if one is not None})
        if len(ways) == 1:
            return "dates of which the pattern is to be stated in the domain, such as pattern: '%m/%d/%Y %H:%M'"
        examples = ", ".join(
            mark.join(("31", "12", "2020") if late else ("2020", "12", "31")) for late, mark in ways
        )
        return f"dates written in several ways (such as {examples}): write all in one way to have them as dates"
    if cells and all(_CLOCK.fullmatch(cell) for cell in cells):
        return "durations such as 1:23:45: write them as numbers, of seconds or of minutes, to have them as such"
    bare = [cell[1:-1] if cell.startswith("(") and cell.endswith(")") else cell for cell in cells]
    if bare != list(cells) and all(map(_NUMBER.fullmatch, bare)):
        return "numbers, of which those in brackets seem to be negative: write -3.00 instead of (3.00)"
    if mark := joining_mark(cells):
        options = f"--kind {shlex.quote(f'{column}=items')} --item-separator '{mark}'"
        return f"cells that hold several items each: read them as lists with {options}"
    return None


def date_hint(cells: Collection[str]) -> str | None:
    """Which option takes dates that stand for "never" or "unknown" as missing.

    >>> date_hint({"2020-01-31", "9999-12-31"})
    "9999-12-31 among dates: say --missing '9999-12-31' if that means a missing value"
    >>> date_hint({"2020-01-31", "1999-12-31"}) is None
    True
    """
    far = sorted(cell for cell in cells if _NEVER.search(cell))
    return f"{', '.join(far)} among dates: {_say_missing(far)}" if 0 < len(far) <= _MOST_NEVER else None


def _say_missing(words: Sequence[str]) -> str:
    options = " ".join(f"--missing '{word}'" for word in words)
    return f"say {options} if that means a missing value"


def joining_mark(cells: Collection[str]) -> str | None:
    """The mark between items where cells hold several each: the parts repeat, and are fewer than the cells.

    >>> joining_mark({"Surgery, general", "Medicine", "Cardiology"}) is None
    True
    """
    for mark in _JOINING:
        marked = [cell for cell in cells if mark in cell]
        parts = {part.strip() for cell in cells for part in cell.split(mark)}
        if len(marked) >= _ENOUGH_CELLS and len(parts) < len(cells):
            return mark
    return None


def called_id(name: str) -> bool:
    """Whether a column is called as identifiers are.

    >>> [called_id(name) for name in ("patient_id", "orderId", "Schüler-Nr.", "humid", "valid")]
    [True, True, True, False, False]
    """
    return bool(_words(name) & _IDS) or name.lower().endswith(("_no", "number", "nummer", "key"))


def is_identifier(name: str) -> bool:
    """Whether a name alone says that a column identifies rows or persons; numbers of shops and products may repeat.

    >>> [is_identifier(name) for name in ("id", "ID", "patient_id", "userId", "ssn", "product_id", "idle", "user")]
    [True, True, True, True, True, False, False, False]
    """
    words = _words(name)
    return bool(words & _IDS) and (words <= _IDS or bool(words & _PERSONS))


def names_persons(name: str) -> bool:
    """Whether a column is called as one that tells persons apart."""
    return bool(_words(name) & _PERSONS) or called_id(name)


def _words(name: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]+", re.sub("([a-z])([A-Z])", r"\1 \2", name).lower()))


def unknown_codes(numbers: NDArray[np.float64]) -> tuple[float, ...]:
    """Codes at either end of the other numbers: far from them all, or held by many more rows than those near it.

    >>> unknown_codes(np.array([18.0, 35.0, 60.0, 71.0, 999.0, 999.0, 999.0, -1.0, 9.0]))
    (999.0,)
    """
    is_code = np.isin(numbers, CODES)
    codes, counts = np.unique(numbers[is_code], return_counts=True)
    others = np.sort(numbers[~is_code])
    if not len(others):
        return ()
    low, high = float(others[0]), float(others[-1])
    close = np.searchsorted(others, codes + _NEAR, "right") - np.searchsorted(others, codes - _NEAR, "left")
    found = []
    for code, rows, near in zip(codes.tolist(), counts.tolist(), close.tolist(), strict=True):
        share = _SMALL_SHARE if abs(code) < _SMALL and code != -1 else _LEAST_SHARE
        if rows < max(_LEAST_ROWS, share * len(numbers)) or low <= code <= high:
            continue
        alone_below = code < 0 <= low
        apart = max(code - high, low - code) > _FAR * max(high - low, 1.0)
        if alone_below or apart or (abs(code) >= _SMALL and rows > _STANDS_OUT * near):
            found.append(code)
    return tuple(found)


def code_hint(numbers: NDArray[np.float64]) -> str | None:
    """What to write into a drafted domain where numbers seem to stand for "unknown"."""
    listed = ", ".join(f"{code:g}" for code in unknown_codes(numbers))
    if not listed:
        return None
    return (
        f'{listed} apart from all other numbers: if that means "unknown", add specials: [{listed}] to its line in'
        " the draft"
    )


def ordered_dates(dates: Mapping[str, NDArray[np.float64]]) -> list[tuple[str, str]]:
    """Pairs of columns whose first date never comes after the second; none that follows from two others.

    Dates are given by column, row by row, NaN where missing.
    """
    columns = list(dates)[:_MOST_COLUMNS]
    holds = []
    for first, last in permutations(columns, 2):
        gaps = dates[last] - dates[first]
        before = (gaps > 0).sum()
        if before and not (gaps < 0).any() and before + (gaps == 0).sum() >= ENOUGH_ROWS:
            holds.append((first, last))
    return [
        (first, last)
        for first, last in holds
        if not any((first, middle) in holds and (middle, last) in holds for middle in columns)
    ]


def follows_soon(first: NDArray[np.float64], last: NDArray[np.float64]) -> bool:
    """Whether dates follow others soon: by a fraction of how far the first ones lie apart, on average."""
    return bool(np.nanmean(last - first) < _SOON * np.nanstd(first))
