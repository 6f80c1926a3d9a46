"""Conditioning a generator on the constraints of its domain and the conditions of a sample.

A condition is written as a union of disjoint boxes. A box lists, for some variables (a column, or one item of a set),
the outcomes it allows; other variables are free. Mixtures of products and of trees are conditioned on such a union
without any rejection (`Generator.conditioned`). If a bin has values on both sides of a limit, the box includes the
whole bin, and records are rejected by the values drawn within it (`exact` is False; see `sampling.RecordFilter`). All
of this is post-processing with public rules: no private row is involved.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dpgm.arrays import Floats, Mask
from dpgm.data.condition_text import has_one_of, parse_condition, value_text
from dpgm.data.conditions import (
    MISSING,
    All,
    AnyOf,
    Condition,
    Linear,
    Not,
    OneOf,
    Operator,
    Rule,
    Same,
    check_values,
)
from dpgm.data.domain import Domain, Field
from dpgm.errors import UsageError
from dpgm.strategy.protocol import Box, Generator

Where: TypeAlias = str | Sequence[str] | Mapping[str, Any]
MOST_BOXES = 400  # more would make more components than a sample has records: such conditions are left to rejection
ABSENT, PRESENT = np.array([True, False]), np.array([False, True])
_OPPOSITE: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_NEAR = 1e-9  # sums this near to 0 count as 0, as in `conditions.compare`
_CAN_HOLD: dict[
    Operator, Callable[[Floats, Floats], Mask]
] = {  # whether a sum in [low, high] may compare so with 0
    "<": lambda low, high: low < -_NEAR,
    "<=": lambda low, high: low <= _NEAR,
    ">": lambda low, high: high > _NEAR,
    ">=": lambda low, high: high >= -_NEAR,
    "=": lambda low, high: (low <= _NEAR) & (high >= -_NEAR),
    "!=": lambda low, high: (low < -_NEAR) | (high > _NEAR),
}


# -- generators ----------------------------------------------------------------------------------------------------


def condition_generator(
    generator: Generator, domain: Domain, where: Condition | None
) -> tuple[Generator, float, bool]:
    """The generator conditioned as far as the positions of a record decide.

    Returns:
        The generator, the probability of what it was conditioned on, and whether every record it draws meets all
        conditions.
    """
    rules = [rule for rule in domain.constraints if isinstance(rule, Rule)]
    if where is None and not rules:
        return generator, 1.0, True
    boxes: list[Box] = [{}]
    exact = True
    requested = [] if where is None else [(where, False)]
    for condition, unknown in [*((rule.condition, True) for rule in rules), *requested]:
        try:
            region = region_of(condition, domain, unknown=unknown)
            boxes, exact = common_boxes([boxes, region.boxes]), exact and region.exact
        except TooManyBoxesError:
            exact = False
    given = generator.conditioned(boxes)
    if given is None:
        return generator, 1.0, False
    made, chance = given
    return (generator, 0.0, False) if made is None else (made, chance, exact)


# -- boxes --------------------------------------------------------------------------------------------------------


class TooManyBoxesError(Exception):
    """A condition needs more than MOST_BOXES boxes."""


@dataclass(frozen=True)
class Region:
    """A union of disjoint boxes that covers a condition; `exact` if it covers nothing else."""

    boxes: tuple[Box, ...]
    exact: bool


def region_of(condition: Condition, domain: Domain, *, unknown: bool) -> Region:
    """The positions that a condition allows, in a closed domain.

    With `unknown`, it also allows records for which it is neither true nor false because a value is missing. Raises
    TooManyBoxesError if rejecting records one by one is better.
    """
    builder = _Builder(domain, unknown)
    union = builder.union(condition, negated=False)
    return Region(tuple(disjoint(union)), builder.exact)


def intersection(first: Box, second: Box) -> Box | None:
    """The intersection of two boxes; None if it is empty."""
    both = dict(first)
    for variable, mask in second.items():
        allowed = both[variable] & mask if variable in both else mask
        if not allowed.any():
            return None
        both[variable] = allowed
    return both


def difference(box: Box, removed: Box) -> list[Box]:
    """The set difference of two boxes, as disjoint boxes."""
    if intersection(box, removed) is None:
        return [box]
    left, inner = [], dict(box)
    for variable, mask in removed.items():
        here = inner.get(variable, np.ones(len(mask), dtype=np.bool_))
        if (here & ~mask).any():
            left.append(inner | {variable: here & ~mask})
        inner[variable] = here & mask
    return left


def disjoint(boxes: Sequence[Box]) -> list[Box]:
    """The union of some boxes, as disjoint boxes."""
    result: list[Box] = []
    for box in _merged(boxes):
        pieces = [box]
        for other in result:
            pieces = [piece for part in pieces for piece in difference(part, other)]
            if len(pieces) > MOST_BOXES:
                raise TooManyBoxesError
        result += pieces
        if len(result) > MOST_BOXES:
            raise TooManyBoxesError
    return result


def common_boxes(regions: Sequence[Sequence[Box]], most: int = MOST_BOXES) -> list[Box]:
    """The intersection of several unions of boxes; its boxes are disjoint if those of each union are."""
    boxes: list[Box] = [{}]
    for region in regions:
        pairs = (intersection(box, other) for box in boxes for other in region)
        boxes = [box for box in pairs if box is not None]
        if len(boxes) > most:
            raise TooManyBoxesError
    return boxes


def _merged(boxes: Sequence[Box]) -> list[Box]:
    """The same union with fewer boxes: boxes that differ in one variable only are merged."""
    merged = list(boxes)
    for variable in {variable: None for box in boxes for variable in box}:
        by_rest: dict[Any, Box] = {}
        for box in merged:
            if variable not in box:
                by_rest[id(box)] = box
                continue
            rest = tuple(sorted((key, mask.tobytes()) for key, mask in box.items() if key != variable))
            known = by_rest.get(rest)
            by_rest[rest] = box if known is None else known | {variable: known[variable] | box[variable]}
        merged = list(by_rest.values())
    return merged


class _Builder:
    """Turns a condition into boxes, and records whether they describe it exactly."""

    def __init__(self, domain: Domain, unknown: bool) -> None:
        self._fields = {field.name: field for field in domain.fields}
        self._unknown = unknown
        self.exact = True

    def union(self, condition: Condition, *, negated: bool) -> list[Box]:
        if isinstance(condition, Not):
            return self.union(condition.part, negated=not negated)
        if isinstance(condition, (All, AnyOf)):
            parts = [self.union(part, negated=negated) for part in condition.parts]
            if isinstance(condition, AnyOf) != negated:
                return [box for part in parts for box in part]
            return common_boxes(parts, 20 * MOST_BOXES)
        if isinstance(condition, OneOf):
            return self._labels(condition, negated)
        if isinstance(condition, Same):
            return self._same(condition, negated)
        return self._numbers(condition, negated)

    def _labels(self, condition: OneOf, negated: bool) -> list[Box]:
        field = self._fields[condition.field]
        allowed = field.positions_with(condition.values)
        if field.is_set:
            items = np.flatnonzero(allowed).tolist()
            if negated:
                return [{(field.name, item): ABSENT for item in items}]
            return [{(field.name, item): PRESENT} for item in items]
        mask = ~allowed if negated else allowed
        if None not in condition.values:
            mask = self._with_missing(field, mask)
        return _one_column(field, mask)

    def _with_missing(self, field: Field, mask: Mask) -> Mask:
        """The mask with the position of missing values set to `unknown`: comparisons with them are neither."""
        if not field.may_be_missing:
            return mask
        mask = mask.copy()
        mask[-1] = self._unknown
        return mask

    def _same(self, condition: Same, negated: bool) -> list[Box]:
        first, second = self._fields[condition.first], self._fields[condition.second]
        if first.is_set or second.is_set:
            self.exact = False
            return [{}]
        boxes: list[Box] = []
        for label in first.labels:
            ours = first.positions_with([label])
            theirs = second.positions_with([label])
            theirs = self._with_missing(second, ~theirs if negated else theirs)
            if theirs.any():
                boxes.append({(first.name, -1): ours, (second.name, -1): theirs})
        return boxes + self._unknown_first(first)

    def _numbers(self, condition: Linear, negated: bool) -> list[Box]:
        operator = _OPPOSITE[condition.operator] if negated else condition.operator
        names = list(dict.fromkeys(name for _, name in condition.terms))
        factors = [sum(factor for factor, name in condition.terms if name == one) for one in names]
        ranges = [self._fields[name].position_ranges() for name in names]
        if len(names) > 2 or any(one is None for one in ranges):
            self.exact = False
            return [{}]
        # (2, positions) of each field: the lowest and the highest value of its term.
        first, *second = (
            np.sort(factor * np.stack(both), axis=0) for factor, both in zip(factors, ranges, strict=True) if both
        )
        field = self._fields[names[0]]
        if not second:
            return _one_column(field, self._decided(names[0], first + condition.constant, operator))
        boxes: list[Box] = []
        for at in range(first.shape[1]):
            mask = self._decided(names[1], first[:, at, None] + second[0] + condition.constant, operator)
            if mask.any():
                boxes.append({(names[0], -1): _only(field, at), (names[1], -1): mask})
        return boxes + self._unknown_first(field)

    def _unknown_first(self, field: Field) -> list[Box]:
        """The box in which the first of two fields is missing, if unknown comparisons are allowed."""
        passes = self._unknown and field.may_be_missing
        return [{(field.name, -1): _only(field, field.width - 1)}] if passes else []

    def _decided(self, name: str, ends: Floats, operator: Operator) -> Mask:
        """Positions where a sum between two ends may compare so with 0; not exact if it may also compare otherwise."""
        may = _CAN_HOLD[operator](*ends)
        if (may & _CAN_HOLD[_OPPOSITE[operator]](*ends)).any():
            self.exact = False
        field = self._fields[name]
        mask = np.zeros(field.width, dtype=np.bool_)
        mask[: len(may)] = may
        return self._with_missing(field, mask)


def _one_column(field: Field, mask: Mask) -> list[Box]:
    return [{(field.name, -1): mask}] if mask.any() else []


def _only(field: Field, at: int) -> Mask:
    mask = np.zeros(field.width, dtype=np.bool_)
    mask[at] = True
    return mask


# -- conditions as users write them --------------------------------------------------------------------------------


def parse_where(where: Where | None, domain: Domain) -> Condition | None:
    """The condition of a sample; None if there is none.

    A text is a single label (`milk`), `field=value` with any label that the domain lists, or a condition such as
    `age >= 65 and colour in [red, blue]`. A mapping gives a value or a list of values per field.

    Raises:
        UsageError: it refers to fields or values that the domain does not have, or is ambiguous.
    """
    if not where:
        return None
    if not isinstance(where, (str, Mapping, Sequence)):
        raise UsageError(
            "`where` must be a text such as 'age >= 65', a list of such texts, or a mapping of fields to values."
        )
    if isinstance(where, Mapping):
        parts = [_entry(domain, name, value) for name, value in where.items()]
    else:
        parts = [_text(domain, one) for one in ([where] if isinstance(where, str) else where)]
    for part in parts:
        check_values(part, domain)
    return parts[0] if len(parts) == 1 else All(tuple(parts))


def _entry(domain: Domain, name: object, value: Any) -> Condition:
    field = domain.field(str(name))
    several = value if isinstance(value, (list, tuple, set, frozenset, range)) else [value]
    return has_one_of(field, [value_text(one) for one in several])


def _text(domain: Domain, text: str) -> Condition:
    found = _named(domain, text)
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"the condition {text!r} can be read in several ways; write field=value.")
    try:
        return parse_condition(text, domain.fields)
    except UsageError as error:
        if any(mark in text for mark in "<>=! "):
            raise
        raise UsageError(
            f"the condition {text!r} names no item or category of the domain; write field=value with a value it"
            " lists, or a range such as age>=65."
        ) from error


def _named(domain: Domain, text: str) -> list[Condition]:
    """Every interpretation of a text as `label` or `field=label`; names and labels may contain `=` themselves."""
    found = []
    for field in domain.fields:
        if not field.has_labels or field.image is not None:
            continue
        labels = field.labels
        readings = [text] if field.lists_values else []
        if text.startswith(f"{field.name}="):
            readings.append(text[len(field.name) + 1 :])
        for reading in dict.fromkeys(readings):
            may_be_missing = field.may_be_missing and reading == MISSING
            if reading in labels or may_be_missing:
                found.append(has_one_of(field, [reading]))
    return found
