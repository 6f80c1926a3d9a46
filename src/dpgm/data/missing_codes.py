"""Numbers such as 999 or -99 that stand for "unknown": pointed out to the curator who looks at a file.

A fit takes no number for a code unless the domain says so (`specials`): it would have to look at other rows.
"""

import numpy as np
from numpy.typing import NDArray

# Nines, eights and sevens (of surveys: unknown, refused, does not apply), and -1; with places, as stations write them.
_DIGITS = [float(digit * length) for digit in "789" for length in range(1, 7)]
CODES = np.array(sorted({-1.0, *_DIGITS, *(-code for code in _DIGITS), 99.9, 999.9, 9999.9, 99.99, 999.99}))
_LEAST_ROWS = 3  # that hold a code; one or two are slips of the pen
_LEAST_SHARE = 0.002  # of the rows
_SMALL = 10.0  # codes of one digit are values of most counts: they must be held by ...
_SMALL_SHARE = 0.02  # ... as many
_FAR = 0.5  # how far a code lies from all other numbers, in units of their range
_NEAR = 5.0  # numbers this near to a code are its neighbours
_STANDS_OUT = 3  # times as many rows as all its neighbours together


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
