"""Texts that look like numbers written with other marks, or like lists: which option of the command line reads them.

For the curator who looks at a file; a fit reads numbers by the marks that are stated, and guesses nothing.
"""

import re
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

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
    "signed": r"^[$€£¥]\s*[+-]?[0-9.,']+$|^[+-]?[0-9.,']+\s*[$€£¥%]$",
}
_JOINING = ";|,/"
_NUMBER = re.compile(r"[$€£¥]?\s*[+-]?[0-9][0-9.,' ]*[$€£¥%]?")
_DATE = re.compile(r"(?P<first>[0-9]{1,4})(?P<mark>[./-])[0-9]{1,2}(?P=mark)[0-9]{1,4}([ T][0-9]{1,2}:[0-9]{2}.*)?")
_ABSENT = {"n/a", "na", "nan", "null", "none", "nil", "-", "--", "?", ".", "unknown", "missing"}
_ENOUGH = 3  # different cells with a mark, before one says that it joins items


class NumberMarks:
    """In how many ways the texts of one column are written as numbers."""

    def __init__(self) -> None:
        self._texts = 0
        self._counts: Counter[str] = Counter()
        self._mark = ""
        self._signs: set[str] = set()

    def see(self, texts: "pyarrow.Array") -> None:
        """Count some texts, none of them missing."""
        import pyarrow.compute as pc

        self._texts += len(texts)
        for name, pattern in _PATTERNS.items():
            self._counts[name] += pc.sum(pc.match_substring_regex(texts, pattern)).as_py() or 0
        if self._counts["signed"] == self._texts:
            signs = pc.extract_regex(texts, "(?P<sign>[$€£¥%])").drop_null()
            self._signs.update(pc.struct_field(signs, 0).unique().to_pylist())
        if not self._mark:
            marks = pc.extract_regex(
                texts, rf"^[+-]?[0-9]{{1,3}}(?P<mark>{_MARK})[0-9]{{3}}(?:[^0-9]|$)"
            ).drop_null()
            self._mark = marks[0].as_py()["mark"] if len(marks) else ""

    def hint(self) -> str | None:
        """Which options read these texts as numbers; None if they are plain numbers, or no numbers."""
        count = self._counts
        if not self._texts:
            return None
        if count["signed"] == self._texts:
            signs = " ".join(f"--strip-from-numbers '{sign}'" for sign in sorted(self._signs))
            return f"numbers with a currency or percent sign: read them with {signs}"
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
