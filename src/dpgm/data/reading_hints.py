"""Texts that look like numbers written with other marks, or like lists: which option of the command line reads them.

For the curator who looks at a file; a fit reads numbers by the marks that are stated, and guesses nothing.
"""

import re
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

from dpgm.data.number_marks import without_signs

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
_ENOUGH = 3  # different cells with a mark, before one says that it joins items


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
    told = " ".join(f"--missing '{cell}'" for cell in far)
    return f"{', '.join(far)} among dates: say {told} if that means a missing value"


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
    told = " ".join(f"--missing '{word}'" for word in words)
    return f"numbers or dates, and {', '.join(map(repr, words))}: say {told} if that means a missing value"


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
        if len(marked) >= _ENOUGH and len(parts) < len(cells):
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
