"""What a curator who looks at a file is pointed at: options that may read it better, and rules that its rows keep.

Texts that look like numbers with other marks, like lists or like dates; numbers such as 999 that stand for "unknown";
dates that never come after others. These are suggestions: a fit reads values as the options and the domain state, and
guesses nothing, because it would have to look at other rows.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpgm.data.values import without_signs

if TYPE_CHECKING:
    import pyarrow

_MARK = "[. '\u00a0\u202f]"
_PATTERNS = {
    "whole": r"^[+-]?[0-9]+$",
    "point": r"^[+-]?[0-9]+\.[0-9]+$",
    "decimal comma": rf"^[+-]?([0-9]+|[0-9]{{1,3}}({_MARK}[0-9]{{3}})+),[0-9]+$",
    "commas between thousands": r"^[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$",
    "either": r"^[+-]?[0-9]{1,3},[0-9]{3}$",  # 1,234 may be a thousand or one and a bit
    "marks between thousands": rf"^[+-]?[0-9]{{1,3}}({_MARK}[0-9]{{3}})+$",
}
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
_DAY = 86_400


class NumberMarks:
    """In how many ways the texts of one column are written as numbers."""

    def __init__(self) -> None:
        self._texts = 0
        self._counts: Counter[str] = Counter()
        self._mark = ""
        self._signs: set[str] = set()
        self._signed = 0

    def see(self, texts: "pyarrow.Array") -> None:
        """Count some texts, none of them missing."""
        import pyarrow.compute as pc

        self._texts += len(texts)
        self._signed += pc.sum(pc.match_substring_regex(texts, _SIGNED)).as_py() or 0
        if self._signed:
            signs = pc.extract_regex(texts, "(?P<sign>[$€£¥%])").drop_null()
            self._signs.update(pc.struct_field(signs, 0).unique().to_pylist())
            texts = without_signs(texts, _SIGNS)
        for name, pattern in _PATTERNS.items():
            self._counts[name] += pc.sum(pc.match_substring_regex(texts, pattern)).as_py() or 0
        if not self._mark:
            marks = pc.extract_regex(
                texts, rf"^[+-]?[0-9]{{1,3}}(?P<mark>{_MARK})[0-9]{{3}}(?:[^0-9]|$)"
            ).drop_null()
            self._mark = marks[0].as_py()["mark"] if len(marks) else ""

    def hint(self) -> str | None:
        """Which options read these texts as numbers; None if they are plain numbers, or no numbers."""
        if not self._texts:
            return None
        marks = self._marks_hint()
        if not self._signed:
            return marks
        plain = self._counts["whole"] + self._counts["point"] == self._texts
        if marks is None and not plain:
            return None
        signs = " ".join(f"--strip-from-numbers '{sign}'" for sign in sorted(self._signs))
        if marks is None:
            return f"numbers with a currency or percent sign: read them with {signs}"
        return marks.replace(": read them with", f" and a currency or percent sign: read them with {signs}", 1)

    def _marks_hint(self) -> str | None:
        count = self._counts
        marked = f"--thousands '{self._mark}'"
        comma, grouped = count["decimal comma"], count["commas between thousands"]
        if comma > count["either"] and comma + count["marks between thousands"] + count["whole"] == self._texts:
            return f"numbers with a decimal comma: read them with --decimal ,{f' {marked}' if self._mark else ''}"
        if grouped > count["either"] and grouped + count["whole"] + count["point"] == self._texts:
            return "numbers with commas between thousands: read them with --thousands ,"
        if count["either"] and count["either"] + count["whole"] == self._texts:
            return (
                "numbers such as 1,234: read them with --thousands , (or with --decimal , if that is one and a bit)"
            )
        if self._mark not in ("", ".") and count["marks between thousands"] + count["whole"] == self._texts:
            return f"numbers with marks between thousands: read them with {marked}"
        return None


def clock_or_brackets(cells: Collection[str]) -> str | None:
    """What to do about durations such as 1:23:45, or about negative numbers in brackets.

    >>> clock_or_brackets({"1:23:45", "0:05:10"})
    'durations such as 1:23:45: write them as numbers, of seconds or of minutes, to have them as such'
    >>> clock_or_brackets({"12.50", "(3.00)"})
    'numbers, of which those in brackets seem to be negative: write -3.00 instead of (3.00)'
    """
    if cells and all(_CLOCK.fullmatch(cell) for cell in cells):
        return "durations such as 1:23:45: write them as numbers, of seconds or of minutes, to have them as such"
    bare = [cell[1:-1] if cell.startswith("(") and cell.endswith(")") else cell for cell in cells]
    if any(one != cell for one, cell in zip(bare, cells, strict=True)) and all(map(_NUMBER.fullmatch, bare)):
        return "numbers, of which those in brackets seem to be negative: write -3.00 instead of (3.00)"
    return None


def far_dates(cells: Collection[str]) -> str | None:
    """Which option takes dates that stand for "never" or "unknown" as missing.

    >>> far_dates({"2020-01-31", "9999-12-31"})
    "9999-12-31 among dates: say --missing '9999-12-31' if that means a missing value"
    >>> far_dates({"2020-01-31", "1999-12-31"}) is None
    True
    """
    far = sorted(cell for cell in cells if _NEVER.search(cell))
    if not far or len(far) > _MOST_NEVER:
        return None
    options = " ".join(f"--missing '{cell}'" for cell in far)
    return f"{', '.join(far)} among dates: say {options} if that means a missing value"


def absent_words(cells: Collection[str]) -> str | None:
    """Which option takes words such as N/A for missing, where all other cells are numbers or dates.

    >>> absent_words({"12", "N/A", "7"})
    "numbers or dates, and 'N/A': say --missing 'N/A' if that means a missing value"
    >>> absent_words({"good", "N/A", "7"}) is None
    True
    """
    words = sorted(cell for cell in cells if cell.lower() in _ABSENT)
    others = [cell for cell in cells if cell.lower() not in _ABSENT]
    if not words or not others or not all(_NUMBER.fullmatch(cell) or _DATE.fullmatch(cell) for cell in others):
        return None
    options = " ".join(f"--missing '{word}'" for word in words)
    return f"numbers or dates, and {', '.join(map(repr, words))}: say {options} if that means a missing value"


def ways_of_dates(cells: Collection[str]) -> str | None:
    """What to do about dates that are written in several ways, or in one that has to be stated.

    >>> ways_of_dates({"2020-01-31", "31.01.2020", "28.02.2020"})
    'dates written in several ways (such as 2020-12-31, 31.12.2020): write all in one way to have them as dates'
    >>> ways_of_dates({"2020-01-31", "soon"}) is None
    True
    """
    found = [_DATE.fullmatch(cell) for cell in cells]
    dates = [one for one in found if one is not None]
    if not dates or len(dates) < len(found):
        return None
    ways = sorted({(len(one["first"]) != 4, one["mark"]) for one in dates})
    if len(ways) == 1:
        return "dates of which the pattern is to be stated in the domain, such as pattern: '%m/%d/%Y %H:%M'"
    shown = ", ".join(mark.join(("31", "12", "2020") if late else ("2020", "12", "31")) for late, mark in ways)
    return f"dates written in several ways (such as {shown}): write all in one way to have them as dates"


def joining_mark(cells: Collection[str]) -> str | None:
    """The mark between items where cells hold several each: the parts repeat, and are fewer than the cells.

    >>> joining_mark({"I10;E11", "E11", "I10;J45", "J45;E11", "I10"})
    ';'
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


def names_persons(name: str) -> bool:
    """Whether a column is called as one that tells persons apart."""
    return bool(_words(name) & _PERSONS) or called_id(name)


def _words(name: str) -> set[str]:
    return set(re.split(r"[^a-z]+", re.sub("([a-z])([A-Z])", r"\1 \2", name).lower()))


class CodeCounts:
    """How often a column of numbers holds each possible code, and where its other numbers lie."""

    def __init__(self) -> None:
        self._rows = 0
        self._counts = np.zeros(len(CODES), dtype=np.int64)
        self._near = np.zeros(len(CODES), dtype=np.int64)
        self._low, self._high = np.inf, -np.inf

    def see(self, numbers: NDArray[np.float64]) -> None:
        """Count some numbers, none of them missing."""
        self._rows += len(numbers)
        at = np.minimum(np.searchsorted(CODES, numbers), len(CODES) - 1)
        alike = CODES[at] == numbers
        self._counts += np.bincount(at[alike], minlength=len(CODES))
        others = np.sort(numbers[~alike])
        if len(others):
            self._low, self._high = min(self._low, float(others[0])), max(self._high, float(others[-1]))
        ends = [
            np.searchsorted(others, CODES - _NEAR, side="left"),
            np.searchsorted(others, CODES + _NEAR, side="right"),
        ]
        self._near += ends[1] - ends[0]

    def found(self) -> tuple[float, ...]:
        """Codes at either end of the other numbers: far from them all, or held by many more rows than those near it.

        >>> counts = CodeCounts()
        >>> counts.see(np.array([18.0, 35.0, 60.0, 71.0, 999.0, 999.0, 999.0, -1.0, 9.0]))
        >>> counts.found()
        (999.0,)
        """
        if not np.isfinite(self._low):
            return ()
        span = max(self._high - self._low, 1.0)
        found = []
        for code, rows, near in zip(CODES.tolist(), self._counts.tolist(), self._near.tolist(), strict=True):
            share = _SMALL_SHARE if abs(code) < _SMALL and code != -1 else _LEAST_SHARE
            if rows < max(_LEAST_ROWS, share * self._rows) or self._low <= code <= self._high:
                continue
            alone_below = code < 0 <= self._low
            apart = max(code - self._high, self._low - code) > _FAR * span
            if alone_below or apart or (abs(code) >= _SMALL and rows > _STANDS_OUT * near):
                found.append(code)
        return tuple(found)


def code_hint(codes: tuple[float, ...]) -> str:
    """What to write into a drafted domain.

    >>> code_hint((-1.0, 999.0))
    '-1, 999 apart from all other numbers: if that means "unknown", add specials: [-1, 999] to its line in the draft'
    """
    listed = ", ".join(f"{code:g}" for code in codes)
    return (
        f'{listed} apart from all other numbers: if that means "unknown", add specials: [{listed}] to its line in the'
        " draft"
    )


@dataclass
class DateOrders:
    """Pairs of date columns, and in how many rows the first one was before, with or after the second."""

    before: dict[tuple[str, str], int] = field(default_factory=dict)
    equal: dict[tuple[str, str], int] = field(default_factory=dict)
    gaps: dict[tuple[str, str], float] = field(default_factory=dict)  # sums of the second minus the first
    moments: dict[str, NDArray[np.float64]] = field(default_factory=dict)  # number, sum and sum of squares, in days

    def see(self, seconds: Mapping[str, NDArray[np.float64]]) -> None:
        """Compare the dates of some rows, NaN where one is missing."""
        for pair in permutations(list(seconds)[:_MOST_COLUMNS], 2):
            first, second = seconds[pair[0]], seconds[pair[1]]
            self.before[pair] = self.before.get(pair, 0) + int((first < second).sum())
            self.equal[pair] = self.equal.get(pair, 0) + int((first == second).sum())
            self.gaps[pair] = self.gaps.get(pair, 0.0) + float(np.nansum(second - first)) / _DAY
        for name, dates in seconds.items():
            days = dates[~np.isnan(dates)] / _DAY
            sums = np.array([len(days), days.sum(), (days**2).sum()])
            self.moments[name] = self.moments.get(name, np.zeros(3)) + sums

    def is_close(self, first: str, second: str) -> bool:
        """Whether the second date follows soon: by a fraction of how far the first ones lie apart, on average."""
        rows = self.before[first, second] + self.equal[first, second]
        count, total, squares = self.moments[first]
        spread = max(squares / count - (total / count) ** 2, 0.0) ** 0.5
        return bool(self.gaps[first, second] / rows < _SOON * spread)

    def found(self, columns: tuple[str, ...]) -> list[tuple[str, str]]:
        """Pairs of these columns whose first never comes after the second; none that follows from two others."""
        holds = {
            pair
            for pair, before in self.before.items()
            if set(pair) <= set(columns) and before and not self.before.get((pair[1], pair[0]))
            if before + self.equal[pair] >= ENOUGH_ROWS
        }
        return [
            (first, last)
            for first, last in sorted(holds, key=lambda pair: (columns.index(pair[0]), columns.index(pair[1])))
            if not any((first, middle) in holds and (middle, last) in holds for middle in columns)
        ]


def order_rule(first: str, second: str) -> str:
    """The rule as a domain file states it.

    >>> order_rule("admitted", "day left")
    'admitted <= "day left"'
    """
    return f"{_quoted(first)} <= {_quoted(second)}"


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'
