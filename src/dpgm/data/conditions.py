"""Conditions on records, used by the constraints of a domain and by `where` of a sample, and their evaluation.

A condition is data, never code: comparisons of fields with values or of sums of numbers, combined by and, or and not
(`condition_text` parses the text form). Missing values follow SQL: a comparison with a missing value is neither true
nor false. A record breaks a constraint only if the condition is false, and passes `where` only if it is true.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Mask
from dpgm.data.items import flat_column
from dpgm.data.values import in_column, numbered_row
from dpgm.errors import UsageError

if TYPE_CHECKING:
    from dpgm.data.domain import Domain
    from dpgm.data.kinds.base import Field
    from dpgm.data.records import Records

Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]
Terms: TypeAlias = tuple[tuple[float, str], ...]  # a sum of (factor, field name)
MISSING = "missing"


@dataclass(frozen=True)
class OneOf:
    """The field has one of the values (for an item set: contains one of them); None stands for a missing value."""

    field: str
    values: tuple[str | None, ...]


@dataclass(frozen=True)
class Linear:
    """A weighted sum of number fields plus a constant, compared with 0."""

    terms: Terms
    constant: float
    operator: Operator


@dataclass(frozen=True)
class Same:
    """Two fields with labels have the same value."""

    first: str
    second: str


@dataclass(frozen=True)
class Not:
    """The part does not hold."""

    part: "Condition"


@dataclass(frozen=True)
class All:
    """Every part holds."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True)
class AnyOf:
    """At least one part holds."""

    parts: tuple["Condition", ...]


Comparison: TypeAlias = OneOf | Linear | Same
Condition: TypeAlias = Comparison | Not | All | AnyOf


@dataclass(frozen=True)
class Rule:
    """A public rule that every record meets: `claim`, for records where `when` holds (all, if it is None)."""

    claim: Condition
    when: Condition | None
    source: object = field(compare=False)  # as written in the domain file

    @property
    def condition(self) -> Condition:
        """The rule as one condition: `when` does not hold, or the claim does."""
        return self.claim if self.when is None else AnyOf((Not(self.when), self.claim))

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields that the rule refers to."""
        return fields_of(self.condition)

    @property
    def equation(self) -> "Linear | None":
        """The claim if it defines a number (`total = net + tax`), which is then computed; otherwise None."""
        claim = self.claim
        return claim if isinstance(claim, Linear) and claim.operator == "=" and claim.terms[0][0] == 1 else None


@dataclass(frozen=True)
class Unique:
    """No two records of a sample agree in all of the fields."""

    fields: tuple[str, ...]
    source: object = field(compare=False)


Constraint: TypeAlias = Rule | Unique


def comparisons(condition: Condition) -> Iterator[Comparison]:
    """All comparisons within a condition."""
    if isinstance(condition, (OneOf, Linear, Same)):
        yield condition
        return
    for part in (condition.part,) if isinstance(condition, Not) else condition.parts:
        yield from comparisons(part)


def _names(comparison: Comparison) -> tuple[str, ...]:
    if isinstance(comparison, OneOf):
        return (comparison.field,)
    if isinstance(comparison, Same):
        return (comparison.first, comparison.second)
    return tuple(name for _, name in comparison.terms)


def fields_of(condition: Condition) -> tuple[str, ...]:
    """Distinct names of the fields that a condition refers to."""
    return tuple(dict.fromkeys(name for one in comparisons(condition) for name in _names(one)))


def check_values(condition: Condition, domain: "Domain") -> None:
    """Raise if a value is not listed by its field, or a comparison does not suit the kind of a field."""
    for one in comparisons(condition):
        only_missing = isinstance(one, OneOf) and set(one.values) == {None}
        for name in () if only_missing else _names(one):
            labelled = domain.field(name).has_labels
            if isinstance(one, Linear) == labelled:
                advice = "compare it with = or in" if labelled else "compare it with a number"
                raise UsageError(f"the field {name!r} holds {'labels' if labelled else 'numbers'}; {advice}.")
        if not isinstance(one, OneOf) or (field := domain.field(one.field)).is_open:
            continue  # the values of an open field are not known yet
        known = [] if only_missing else field.labels
        for value in one.values:
            if value is None and not field.may_be_missing:
                raise UsageError(f"the field {field.name!r} is never missing; leave the condition out.")
            if value is not None and value not in known:
                raise UsageError(f"the field {field.name!r} has no value {value!r}; use one that the domain lists.")


class Values:
    """The values of records that conditions are evaluated on: positions of labels, and drawn numbers by field name."""

    def __init__(self, records: "Records", numbers: Mapping[str, NDArray[np.float64]]) -> None:
        self.records = records
        self._numbers = numbers
        self._rows = np.repeat(np.arange(len(records)), records.lengths)
        self._blocks = {
            field.name: (field, block)
            for field, block in zip(records.domain.fields, records.domain.blocks, strict=True)
        }

    def has_any(self, name: str, positions: Mask) -> Mask:
        """Mask of the records that have one of the positions (given as a mask within the field)."""
        _, block = self._blocks[name]
        inside = (self.records.indices >= block.start) & (self.records.indices < block.stop)
        at = self.records.indices[inside].astype(np.int64) - block.start
        present = np.zeros(len(self.records), dtype=np.bool_)
        present[self._rows[inside][positions[at]]] = True
        return present

    def missing(self, name: str) -> Mask:
        """Mask of the records in which the field is missing."""
        if name in self._numbers:
            return np.isnan(self._numbers[name])
        field, block = self._blocks[name]
        if field.is_set:
            return np.zeros(len(self.records), dtype=np.bool_)
        present = np.ones(block.width, dtype=np.bool_)
        if field.may_be_missing:
            present[-1] = False
        return ~self.has_any(name, present)

    def number(self, name: str) -> NDArray[np.float64]:
        """The numbers of a field, NaN if missing."""
        return self._numbers[name]

    def field(self, name: str) -> "Field":
        """The field of that name."""
        return self._blocks[name][0]


def truth(condition: Condition, values: Values) -> tuple[Mask, Mask]:
    """Masks of the records for which the condition is true and false; with missing values it may be neither."""
    if isinstance(condition, Not):
        true, false = truth(condition.part, values)
        return false, true
    if isinstance(condition, (All, AnyOf)):
        true_parts, false_parts = zip(*(truth(part, values) for part in condition.parts), strict=True)
        every, some = np.logical_and.reduce, np.logical_or.reduce
        if isinstance(condition, All):
            return every(true_parts), some(false_parts)
        return some(true_parts), every(false_parts)
    missing = np.logical_or.reduce([values.missing(name) for name in _names(condition)])
    if isinstance(condition, OneOf):
        true = values.has_any(condition.field, _present(values.field(condition.field), condition.values))
        return true | missing if None in condition.values else true, ~true & ~missing
    if isinstance(condition, Same):
        pair = [(name, values.field(name)) for name in (condition.first, condition.second)]
        true = np.zeros(len(values.records), dtype=np.bool_)
        for label in set(pair[0][1].labels) & set(pair[1][1].labels):
            first, second = (values.has_any(name, field.positions_with([label])) for name, field in pair)
            true |= first & second
    else:
        total = np.full(len(values.records), condition.constant)
        for factor, name in condition.terms:
            total = total + factor * values.number(name)
        true = compare(total, condition.operator)
    return true & ~missing, ~true & ~missing


def compare(total: NDArray[np.float64], operator: Operator) -> Mask:
    """Mask of the sums that compare with 0 as the operator says; equality is up to rounding."""
    with np.errstate(invalid="ignore"):
        near = np.abs(total) <= 1e-9
        below, above = (total < 0) & ~near, (total > 0) & ~near
    masks = {"=": near, "!=": ~near, "<": below, "<=": below | near, ">": above, ">=": above | near}
    return masks[operator]


def _present(field: "Field", labels: Sequence[str | None]) -> Mask:
    """Mask of the positions of labels; a missing value has its own mask."""
    return field.positions_with([label for label in labels if label is not None])


def numbers_of(table: Any, fields: Sequence["Field"]) -> dict[str, NDArray[np.float64]]:
    """Columns of numbers or dates as numbers (dates in days since 1970), NaN if missing."""
    numbers = {}
    for one in fields:
        values, missing = one.numbers_in(flat_column(table, one.name), ("",), in_column(numbered_row, one.name))
        numbers[one.name] = np.where(missing, np.nan, values)
    return numbers
