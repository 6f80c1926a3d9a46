"""Rules that (nearly) all real rows keep: one column never exceeds another, a total is the sum or product of others.

A rule is one only if it could be broken: if values of different rows, put together at random, often break it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from dpgm.arrays import Floats
from dpgm.evaluation.evidence import angles, clear, deviances, needed_evidence, surely
from dpgm.evaluation.raw_columns import RawColumn

RuleKind: TypeAlias = Literal["order_of_numbers", "order_of_dates", "sum", "product", "line"]
_ERRORS = 0.005  # share of the real rows that may break a rule: data have errors
# An order is credible if values paired at random break it in this share of the rows, ten times the errors, and in so
# many rows that all of them do not keep it by chance (e^-20); an equation, if they nearly always break it.
_CHANCE_BREAKS, _CHANCE_ROWS = 0.05, 20
_EQUATION_BREAKS = 0.8
_FEW_ROWS = 50  # rows with all values; fewer may keep a rule by chance
_MOST_ROWS = 100_000  # rules are checked on this many rows, evenly spread, ...
_MOST_COLUMNS = 100  # ... orders of this many columns of numbers and as many of dates, ...
_MOST_TERMS = 50  # ... and equations of this many columns
_SOUGHT = 300  # rows by which equations are sought
_WHOLE = 0.01  # how far a coefficient may be from 0 or 1
_DECIMALS = 6  # most decimals of a number that is written exactly
_ROUNDING = 1e-6  # of a unit: what doubles leave


@dataclass(frozen=True)
class BrokenRule:
    """A rule that synthetic rows break more often than real ones, beyond chance.

    Attributes:
        rule: which rule.
        columns: of an order, the smaller column and the larger one; of an equation, the result and its terms.
        real: share of the real rows with all values that break it.
        synthetic: the same of synthetic rows.
        effect: difference of the arcsine square roots of these shares.
        surely: the part that chance does not explain.
    """

    rule: RuleKind
    columns: tuple[str, ...]
    real: float
    synthetic: float
    effect: float
    surely: float


@dataclass(frozen=True)
class _Breaks:
    """How many rows have all values, and how many of these break the rule, on both sides."""

    rule: RuleKind
    columns: tuple[str, ...]
    rows: tuple[int, int]
    broken: tuple[int, int]


def broken_rules(columns: Sequence[RawColumn], limit: float, false_alarm: float) -> tuple[BrokenRule, ...]:
    """Find rules that the real rows keep, and those that synthetic rows break more often, worst first."""
    kept = [*_orders(columns), *_equations(columns)]
    found = []
    for one in kept:
        real, synthetic = (np.array(float(count)) for count in one.broken)
        real_of, synthetic_of = (np.array(float(count)) for count in one.rows)
        evidence = deviances(real, real_of, synthetic, synthetic_of)
        needed = needed_evidence(len(kept), false_alarm)
        effect = clear(angles(synthetic, synthetic_of) - angles(real, real_of), evidence, needed)
        if effect > limit:
            shares = float(real / real_of), float(synthetic / synthetic_of)
            sure = float(surely(effect, evidence, needed))
            found.append(BrokenRule(one.rule, one.columns, *shares, float(effect), sure))
    return tuple(sorted(found, key=lambda rule: -rule.effect))


def _plain(column: RawColumn) -> tuple[Floats, Floats]:
    """Values of both sides, evenly thinned, NaN where they are missing or special."""
    first, last = (
        np.where(np.isin(side, column.specials), np.nan, side)[:: -(-len(side) // _MOST_ROWS) or 1]
        for side in column.sides
    )
    return first, last


def _orders(columns: Sequence[RawColumn]) -> Iterator[_Breaks]:
    """Orders of two numbers or of two dates; two columns that are always equal are taken in one direction only."""
    seen: set[tuple[str, str]] = set()
    for kind in ("number", "date"):
        plain = {one.name: _plain(one) for one in [one for one in columns if one.kind == kind][:_MOST_COLUMNS]}
        for first, last in permutations(plain, 2):
            if (last, first) in seen:
                continue
            both = list(zip(plain[first], plain[last], strict=True))
            rows = [int((~np.isnan(a) & ~np.isnan(b)).sum()) for a, b in both]
            broken = [int((a > b).sum()) for a, b in both]
            if min(rows) < _FEW_ROWS or broken[0] > _ERRORS * rows[0]:
                continue
            if kind == "date" or _can_break(*both[0]):
                seen.add((first, last))
                rule: RuleKind = "order_of_dates" if kind == "date" else "order_of_numbers"
                yield _Breaks(rule, (first, last), (rows[0], rows[1]), (broken[0], broken[1]))


def _can_break(first: Floats, last: Floats) -> bool:
    """Whether many rows would break `first <= last` if the values of both columns were paired at random."""
    both = ~np.isnan(first) & ~np.isnan(last)
    if len(np.unique(first[both])) < 3 or len(np.unique(last[both])) < 3:
        return False  # yes and no
    breaks = np.searchsorted(np.sort(last[both]), first[both]).mean()  # of the rows, summed over their pairs
    return bool(breaks >= max(_CHANCE_BREAKS * both.sum(), _CHANCE_ROWS))


def _equations(columns: Sequence[RawColumn]) -> Iterator[_Breaks]:
    """Sums, products and straight lines; a column is the result of at most one of them."""
    numbers = [column for column in columns if column.kind == "number"][:_MOST_TERMS]
    plain = {column.name: _plain(column) for column in numbers}
    names = [name for name, sides in plain.items() if all((~np.isnan(side)).sum() >= _FEW_ROWS for side in sides)]
    matrices = [np.array([plain[name][at] for name in names]) for at in (0, 1)]
    seen: set[frozenset[str]] = set()
    for at in range(len(names)):
        for rule, terms in _sought(matrices[0], at):
            used = tuple(names[term] for term in (at, *terms))
            if frozenset(used) in seen:
                continue
            checked = [_checked(rule, matrix, at, terms, matrices[0]) for matrix in matrices]
            (rows, broken), (other_rows, other_broken) = checked
            if (
                min(rows, other_rows) >= _FEW_ROWS
                and broken <= _ERRORS * rows
                and _needs(rule, matrices[0], at, terms)
            ):
                seen.add(frozenset(used))
                yield _Breaks(rule, used, (rows, other_rows), (broken, other_broken))
                break


def _sought(matrix: Floats, at: int) -> Iterator[tuple[RuleKind, list[int]]]:
    """Equations that a few rows suggest for the result `at`."""
    known = np.flatnonzero(~np.isnan(matrix[at]))
    rows = known[:: -(-len(known) // _SOUGHT)]
    result, terms = matrix[at, rows], np.nan_to_num(matrix[:, rows])
    if len(np.unique(result)) < 3:
        return
    others = np.delete(np.arange(len(matrix)), at)
    yield from _by_least_squares(result, terms, others)
    for other in others:
        if _is_line(result, matrix[other, rows]):
            yield "line", [int(other)]


def _by_least_squares(
    result: Floats, terms: Floats, others: NDArray[np.int64]
) -> Iterator[tuple[RuleKind, list[int]]]:
    used = others[(terms[others] != 0).any(axis=1)]
    if len(used) and len(found := _ones(terms[used].T, result)):
        yield "sum", used[found].tolist()
    positive = others[(terms[others] > 0).mean(axis=1) >= 1 - _ERRORS]
    if (result > 0).all() and len(positive) > 1:
        rows = (terms[positive] > 0).all(axis=0)
        found = _ones(np.log(terms[positive][:, rows]).T, np.log(result[rows])) if rows.any() else used[:0]
        if len(found) > 1:
            yield "product", positive[found].tolist()


def _ones(terms: Floats, result: Floats) -> NDArray[np.int64]:
    """The terms with coefficient 1, if all others have coefficient 0; none otherwise."""
    scale = np.maximum(np.sqrt((terms**2).mean(axis=0)), 1e-12)
    coefficients = nnls(terms / scale, result)[0] / scale
    ones = np.abs(coefficients - 1) < _WHOLE
    rest = np.where(ones, 0.0, coefficients) * scale
    small = rest.max(initial=0.0) < _WHOLE * max(float(np.abs(result).mean()), 1e-12)
    return np.flatnonzero(ones) if small else np.empty(0, dtype=np.int64)


def _is_line(result: Floats, term: Floats) -> bool:
    """Whether the result is a straight line of the term, as far as rounding leaves it."""
    known = ~np.isnan(term)
    if known.sum() < _FEW_ROWS or len(np.unique(term[known])) < 3 or len(np.unique(result[known])) < 3:
        return False
    fit = np.polyfit(term[known], result[known], 1)
    off = np.abs(np.polyval(fit, term[known]) - result[known])
    return bool((off > _tolerance(result)).mean() <= _ERRORS)


def _tolerance(result: Floats) -> float:
    """How far a result may be off by rounding: to its last decimal."""
    known = result[~np.isnan(result)]
    for decimals in range(_DECIMALS):
        scaled = known * 10.0**decimals
        if (np.abs(scaled - np.round(scaled)) < _ROUNDING * np.maximum(np.abs(scaled), 1)).all():
            return (0.5 if decimals == 0 else 1.0) * 10.0**-decimals + _ROUNDING
    return float(_ROUNDING * max(np.abs(known).max(initial=0.0), _ROUNDING))


def _computed(rule: RuleKind, matrix: Floats, at: int, terms: Sequence[int], real: Floats) -> Floats:
    """The result that the terms of a rule give."""
    parts = matrix[list(terms)]
    if rule == "sum":
        result: Floats = np.nan_to_num(parts).sum(axis=0)
        return np.where(np.isnan(parts).all(axis=0), np.nan, result)
    if rule == "product":
        result = parts.prod(axis=0)
        return result
    known = ~np.isnan(real[at]) & ~np.isnan(real[terms[0]])
    result = np.polyval(np.polyfit(real[terms[0]][known], real[at][known], 1), parts[0])
    return result


def _checked(rule: RuleKind, matrix: Floats, at: int, terms: Sequence[int], real: Floats) -> tuple[int, int]:
    """Rows with all values, and those of them that break the rule."""
    computed, result = _computed(rule, matrix, at, terms, real), matrix[at]
    known = ~np.isnan(result) & ~np.isnan(computed)
    return int(known.sum()), int((np.abs(result - computed)[known] > _tolerance(real[at])).sum())


def _needs(rule: RuleKind, real: Floats, at: int, terms: Sequence[int]) -> bool:
    """Whether the rule would nearly always be broken if the results were those of other rows."""
    moved = real.copy()
    moved[at] = np.roll(real[at], real.shape[1] // 2)
    rows, broken = _checked(rule, moved, at, terms, real)
    return broken >= _EQUATION_BREAKS * rows
