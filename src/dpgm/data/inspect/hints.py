"""Hints for the curator of a table: options that may read a column better, and rules that all rows keep.

Recognized are texts that look like numbers with other marks, like lists or like dates; numbers such as 999 that stand
for "unknown"; and dates that never come after others. These are suggestions only: a fit guesses nothing, because what a
row is read as must not depend on other rows.
"""

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import permutations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpgm.data.values import without_signs

_MARK = "[. '\u00a0\u202f]"  # between thousands
_NUMBER_PATTERNS = (
    r"^[+-]?[0-9]+$",  # whole
    r"^[+-]?[0-9]+\.[0-9]+$",  # with a decimal point
    rf"^[+-]?([0-9]+|[0-9]{{1,3}}({_MARK}[0-9]{{3}})+),[0-9]+$",  # with a decimal comma
    r"^[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$",  # with commas between thousands
    r"^[+-]?[0-9]{1,3},[0-9]{3}$",  # ambiguous: 1,234 may have either comma
    rf"^[+-]?[0-9]{{1,3}}({_MARK}[0-9]{{3}})+$",  # with other marks between thousands
)
_DIGITS = "[0-9.,' \u00a0\u202f]+"
_SIGNED = rf"^[+-]?\s*[$€£¥]\s*[+-]?{_DIGITS}$|^[+-]?{_DIGITS}[$€£¥%]$"
_SIGNS = ("$", "€", "£", "¥", "%")
_ITEM_SEPARATORS = ";|,/"
_NUMBER = re.compile(r"[$€£¥]?\s*[+-]?[0-9][0-9.,' ]*[$€£¥%]?")
_DATE = re.compile(r"(?P<first>[0-9]{1,4})(?P<mark>[./-])[0-9]{1,2}(?P=mark)[0-9]{1,4}([ T][0-9]{1,2}:[0-9]{2}.*)?")
_NUMBER_PAIR = re.compile(r"[0-9]+([.][0-9]+)?\s*[/;|]\s*[0-9]+([.][0-9]+)?")
# Spellings of a missing value, in lower case: those that are hardly ever a value, and those that are one among texts
# (eye colour unknown, allergies none) but not among numbers and dates.
_NEVER_VALUES = {
    *(
        "na",
        "n/a",
        "n.a.",
        "n. a.",
        "#n/a",
        "#n/a n/a",
        "#na",
        "<na>",
        "not available",
        "nan",
        "-nan",
        "nat",
        "null",
    ),
    *("\\n", "?", "k.a.", "k. a.", "keine angabe", "#null!", "#value!", "#ref!", "#div/0!", "#num!", "#name?"),
}
_SOMETIMES_VALUES = {
    *(
        "none",
        "nil",
        "-",
        "--",
        "---",
        "\u2013",
        "\u2014",
        ".",
        "..",
        "...",
        "*",
        "??",
        "unknown",
        "unbekannt",
        "unk",
    ),
    *("missing", "(missing)", "undefined", "nd", "n.d.", "not known", "not applicable"),
}
_DURATION = re.compile(r"[0-9]{1,3}:[0-5][0-9](:[0-5][0-9])?(\.[0-9]+)?")
# Dates that mean "never" or "unknown": far in the future, or the first days of the calendars of spreadsheets and
# databases.
_PLACEHOLDER_DATE = re.compile(
    r"^(9999|2999)\D|\D(9999|2999)\b|^1900-01-01|^1899-12-3[01]|^0001-01-01|^01[./-]01[./-](1900|0001)"
)
_MOST_PLACEHOLDERS = 3
_MIN_JOINED = 3  # distinct cells with a separator, before it may separate items
# Codes for missing values: nines, eights and sevens (in surveys: unknown, refused, does not apply), -1, and those with
# decimals that weather stations write.
_REPEATED_DIGITS = [float(digit * length) for digit in "789" for length in range(1, 7)]
_CODES = (-1.0, *_REPEATED_DIGITS, *(-code for code in _REPEATED_DIGITS), 99.9, 999.9, 9999.9, 99.99, 999.99)
# In surveys also 97 and 98, 997 and 998, ..., and negative numbers of one digit.
_SURVEY_CODES = (
    *_CODES,
    *(float(sign * (10**digits - left)) for sign in (1, -1) for digits in (2, 3, 4) for left in (2, 3)),
)
_MIN_SURVEY_COLUMNS = 3  # columns that must share a code, and more than half of all columns of whole numbers
_MIN_CODE_ROWS = 3  # one or two may be typing errors
_MIN_CODE_SHARE = 0.002  # of the rows
_ONE_DIGIT = 10.0  # smaller codes are common as counts, so that ...
_MIN_ONE_DIGIT_SHARE = 0.02  # ... this share of the rows must have them
_FAR = 0.5  # distance of a code from all other numbers, relative to their range
_NEAR = 5.0  # distance up to which other numbers are neighbours of a code
_STANDS_OUT = 3  # a code has more than this many times the rows of all its neighbours
_MIN_ORDERED_ROWS = 20  # with both dates, from which their order may be more than chance
_MAX_DATE_COLUMNS = 20
_SOON = 0.25  # times the standard deviation of the first date; the time between then says more than the second


def number_hint(cells: Collection[str], stripped: Sequence[str] = ()) -> str | None:
    """Options that read texts as numbers, in addition to removing the signs `stripped`; None if they are no numbers.

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
    whole, point, comma, grouped, ambiguous, marked = (
        pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False) for pattern in _NUMBER_PATTERNS
    )
    first = pc.extract_regex(texts, rf"^[+-]?[0-9]{{1,3}}(?P<mark>{_MARK})[0-9]{{3}}(?:[^0-9]|$)").drop_null()
    mark = first[0].as_py()["mark"] if len(first) else ""
    thousands = f"--thousands '{mark}'" if mark else ""
    if (comma & ~ambiguous).any() and (comma | marked | whole).all():
        what, options = "numbers with a decimal comma", f"--decimal , {thousands}"
    elif (grouped & ~ambiguous).any() and (grouped | whole | point).all():
        what, options = "numbers with commas between thousands", "--thousands ,"
    elif ambiguous.any() and (ambiguous | whole).all():
        what, options = "numbers such as 1,234", "--thousands , (or with --decimal , if 1,234 means 1.234)"
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
    """Advice for texts that seem to be numbers, dates, durations or lists of items.

    >>> text_hint("x", {"1:23:45", "0:05:10"})
    'durations such as 1:23:45: write them as numbers of seconds or minutes to have them modelled as such'
    >>> text_hint("x", {"I10;E11", "E11", "I10;J45", "J45;E11", "I10"})
    "cells that hold several items each: read them as lists with --kind x=items --item-separator ';'"
    >>> text_hint("x", {"good", "N/A", "7"}) is None
    True
    """
    dates = [_DATE.fullmatch(cell) for cell in cells]
    if dates and all(dates):
        styles = sorted({(len(one["first"]) != 4, one["mark"]) for one in dates if one is not None})
        if len(styles) == 1:
            return "dates of which the pattern is to be stated in the domain, such as pattern: '%m/%d/%Y %H:%M'"
        examples = ", ".join(
            mark.join(("31", "12", "2020") if year_last else ("2020", "12", "31")) for year_last, mark in styles
        )
        return f"dates written in several ways (such as {examples}): write all in one way to have them as dates"
    if cells and all(_DURATION.fullmatch(cell) for cell in cells):
        return (
            "durations such as 1:23:45: write them as numbers of seconds or minutes to have them modelled as such"
        )
    without_brackets = [cell[1:-1] if cell.startswith("(") and cell.endswith(")") else cell for cell in cells]
    if without_brackets != list(cells) and all(map(_NUMBER.fullmatch, without_brackets)):
        return "numbers, of which those in brackets seem to be negative: write -3.00 instead of (3.00)"
    if cells and all(_NUMBER_PAIR.fullmatch(cell) for cell in cells):
        return "two numbers in every cell, such as 120/80: write them into two columns to have them as numbers"
    if separator := joining_mark(cells):
        options = f"--kind {shlex.quote(f'{column}=items')} --item-separator '{separator}'"
        return f"cells that hold several items each: read them as lists with {options}"
    return None


def missing_spellings(texts: pa.Array) -> pa.Array:
    """Mask of the texts that are usual spellings of a missing value."""
    return pc.is_in(pc.utf8_lower(texts), value_set=pa.array(sorted(_NEVER_VALUES | _SOMETIMES_VALUES)))


def never_values(spellings: Iterable[str]) -> set[str]:
    """Those of the spellings that stand for a missing value in any column.

    >>> sorted(never_values(["NA", "none", "k.A."]))
    ['NA', 'k.A.']
    """
    return {text for text in spellings if text.lower() in _NEVER_VALUES}


def written_like_numbers(cells: Collection[str]) -> bool:
    """Whether texts are numbers or dates of whatever style.

    >>> written_like_numbers({"1.234,5", "12/31/2020"}), written_like_numbers({"good", "7"}), written_like_numbers({})
    (True, False, False)
    """
    return bool(cells) and all(_NUMBER.fullmatch(cell) or _DATE.fullmatch(cell) for cell in cells)


def date_hint(cells: Collection[str]) -> str | None:
    """Options that read dates with the meaning "never" or "unknown" as missing.

    >>> date_hint({"2020-01-31", "9999-12-31"})
    "9999-12-31 among dates: say --missing '9999-12-31' if that means a missing value"
    >>> date_hint({"2020-01-31", "1999-12-31"}) is None
    True
    """
    found = sorted(cell for cell in cells if _PLACEHOLDER_DATE.search(cell))
    return (
        f"{', '.join(found)} among dates: {_say_missing(found)}" if 0 < len(found) <= _MOST_PLACEHOLDERS else None
    )


def _say_missing(words: Sequence[str]) -> str:
    options = " ".join(f"--missing '{word}'" for word in words)
    return f"say {options} if that means a missing value"


def joining_mark(cells: Collection[str], stated: str | None = None) -> str | None:
    """The separator of items, if cells hold several: there are fewer distinct parts than distinct cells.

    If a separator is stated, no other is looked for.

    >>> joining_mark({"Surgery, general", "Medicine", "Cardiology"}) is None
    True
    """
    for separator in _ITEM_SEPARATORS if stated is None else (stated,) if stated else ():
        joined = sum(separator in cell for cell in cells)
        parts = {part.strip() for cell in cells for part in cell.split(separator)}
        if joined >= _MIN_JOINED and len(parts) < len(cells):
            return separator
    return None


def unknown_codes(numbers: NDArray[np.float64], usual: Sequence[float] = _CODES) -> tuple[float, ...]:
    """Codes for missing values: outside the range of the other numbers, and far away or much more frequent.

    >>> unknown_codes(np.array([18.0, 35.0, 60.0, 71.0, 999.0, 999.0, 999.0, -1.0, 9.0]))
    (999.0,)
    """
    is_code = np.isin(numbers, usual)
    codes, counts = np.unique(numbers[is_code], return_counts=True)
    others = np.sort(numbers[~is_code])
    if not len(others):
        return ()
    low, high = float(others[0]), float(others[-1])
    close = np.searchsorted(others, codes + _NEAR, "right") - np.searchsorted(others, codes - _NEAR, "left")
    found = []
    for code, rows, near in zip(codes.tolist(), counts.tolist(), close.tolist(), strict=True):
        share = _MIN_ONE_DIGIT_SHARE if 0 < code < _ONE_DIGIT else _MIN_CODE_SHARE
        if rows < max(_MIN_CODE_ROWS, share * len(numbers)) or low <= code <= high:
            continue
        only_negative = code < 0 <= low
        far = max(code - high, low - code) > _FAR * max(high - low, 1.0)
        if only_negative or far or (abs(code) >= _ONE_DIGIT and rows > _STANDS_OUT * near):
            found.append(code)
    return tuple(found)


def survey_codes(columns: Mapping[str, NDArray[np.float64]]) -> dict[str, tuple[float, ...]]:
    """The codes that most columns of whole numbers share, for every column that holds one of them beyond its range.

    >>> answers = np.array([1.0, 2, 3, 4, 5] * 20)
    >>> columns = {name: np.concatenate([answers, [98.0, 98, 98]]) for name in ("Q1", "Q2", "Q3")}
    >>> survey_codes(columns | {"Q4": np.append(answers, 98), "weight": np.array([60.0, 98, 110])})
    {'Q1': (98.0,), 'Q2': (98.0,), 'Q3': (98.0,), 'Q4': (98.0,)}
    """
    rows = Counter(code for numbers in columns.values() for code in unknown_codes(numbers, _SURVEY_CODES))
    shared = [code for code, count in rows.items() if count >= _MIN_SURVEY_COLUMNS and count > len(columns) / 2]
    found = {}
    for name, numbers in columns.items():
        others = numbers[~np.isin(numbers, _SURVEY_CODES)]
        codes = sorted(code for code in shared if not len(others) or not others.min() <= code <= others.max())
        if np.isin(codes, numbers).any():
            found[name] = tuple(codes)
    return found


def code_hint(numbers: NDArray[np.float64], shared: Sequence[float] = ()) -> str | None:
    """Advice if some numbers seem to stand for "unknown": those of the column, and those that most columns share."""
    codes = sorted({*unknown_codes(numbers), *shared})
    listed = ", ".join(f"{code:g}" for code in codes)
    if not listed:
        return None
    where = "in most columns of whole numbers" if set(codes) <= set(shared) else "far from all other numbers"
    return f'{listed} {where}: if that means "unknown", add specials: [{listed}] to its line in the draft'


def ordered_dates(dates: Mapping[str, NDArray[np.float64]]) -> list[tuple[str, str]]:
    """Pairs of columns whose first date never comes after the second, without pairs that follow from two others.

    `dates` maps columns to one number per row, NaN if missing.
    """
    columns = list(dates)[:_MAX_DATE_COLUMNS]
    holds = []
    for first, last in permutations(columns, 2):
        gaps = dates[last] - dates[first]
        before = (gaps > 0).sum()
        if before and not (gaps < 0).any() and before + (gaps == 0).sum() >= _MIN_ORDERED_ROWS:
            holds.append((first, last))
    return [
        (first, last)
        for first, last in holds
        if not any((first, middle) in holds and (middle, last) in holds for middle in columns)
    ]


def follows_soon(first: NDArray[np.float64], last: NDArray[np.float64]) -> bool:
    """Whether the time between two dates is short on average, compared with the spread of the first."""
    return bool(np.nanmean(last - first) < _SOON * np.nanstd(first))
