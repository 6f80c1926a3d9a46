"""Which combinations of positions a condition leaves, as disjoint boxes.

A box names, for some variables (a column, or one item of a set), the outcomes it allows; the others are free. A union
of disjoint boxes is what a mixture of products can be conditioned on exactly: each component is cut to each box. Where
a bin holds values on both sides of a limit, the box keeps the whole bin and the drawn values decide (`exact` is False).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.conditions import All, AnyOf, Condition, Linear, Not, OneOf, Operator, Same, labels_of, positions_of
from dpgm.data.domain import Domain

Mask: TypeAlias = NDArray[np.bool_]
Variable: TypeAlias = tuple[str, int]  # field and -1 for a column, or field and item
Box: TypeAlias = dict[Variable, Mask]  # a column: a mask of its positions; an item: (absent, present)
MOST_BOXES = 400  # more would make more components than a sample has records: such rules are left to rejection
ABSENT, PRESENT = np.array([True, False]), np.array([False, True])
_OPPOSITE: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


class TooManyBoxesError(Exception):
    """A condition falls into more boxes than are worth while."""


@dataclass(frozen=True)
class Region:
    """A union of disjoint boxes; `exact` if it is the condition itself and not only a cover of it."""

    boxes: tuple[Box, ...]
    exact: bool


def region_of(condition: Condition, domain: Domain, *, unknown: bool) -> Region:
    """The positions that a condition leaves.

    Args:
        condition: the condition.
        domain: a domain whose values are known.
        unknown: whether records pass for which it is neither true nor false because a value is missing.

    Raises:
        TooManyBoxesError: too many boxes; reject records one by one instead.
    """
    builder = _Builder(domain, unknown)
    union = builder.union(condition, negated=False)
    return Region(tuple(disjoint(union)), builder.exact)


def intersection(first: Box, second: Box) -> Box | None:
    """What both boxes allow; None if nothing."""
    both = dict(first)
    for variable, mask in second.items():
        allowed = both[variable] & mask if variable in both else mask
        if not allowed.any():
            return None
        both[variable] = allowed
    return both


def difference(box: Box, removed: Box) -> list[Box]:
    """What a box allows and another does not, as disjoint boxes."""
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
    """The same union as boxes that do not overlap."""
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


def common(regions: Sequence[Sequence[Box]]) -> list[Box]:
    """The intersection of several unions of disjoint boxes, disjoint again."""
    boxes: list[Box] = [{}]
    for region in regions:
        pairs = (intersection(box, other) for box in boxes for other in region)
        boxes = [box for box in pairs if box is not None]
        if len(boxes) > MOST_BOXES:
            raise TooManyBoxesError
    return boxes


def position_ranges(field: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Lowest and highest value of every position of a field of numbers (in days for dates), without missing."""
    if field.kind == "numeric" and field.bins:
        bins = np.arange(field.bins + 1)
        if field.integer:
            span = int(field.high - field.low) + 1
            starts = int(field.low) - (-bins * span // field.bins)
            return starts[:-1].astype(np.float64), (starts[1:] - 1).astype(np.float64)
        edges = field.low + bins * (field.high - field.low) / field.bins
        return edges[:-1], edges[1:]
    if getattr(field, "after", None) is not None:
        return None  # positions tell the time since another date, not the date
    if hasattr(field, "atoms") and hasattr(field, "starts"):
        edges = np.asarray(field.edges, dtype=np.float64)
        starts = np.asarray(field.starts, dtype=np.int64)
        after = np.append(starts[1:], max(len(edges) - 1, 0))[: len(starts)]
        step = 1.0 if field.format.in_steps else 0.0
        lows = np.concatenate([field.atoms, edges[starts] if len(starts) else []])
        highs = np.concatenate([field.atoms, edges[after] - step if len(starts) else []])
        scale = _tick_size(field.format)
        return lows * scale, highs * scale
    return None


def _tick_size(format: Any) -> float:
    if format.kind == "decimal":
        return float(10.0**-format.decimals)
    if format.kind == "datetime":
        return float({"second": 1, "minute": 60, "hour": 3600, "day": 86_400}[format.unit]) / 86_400
    return 1.0


def _merged(boxes: Sequence[Box]) -> list[Box]:
    """Fewer boxes: those that differ in one column only become one."""
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
    """Turns a condition into boxes, and notes whether they say it all."""

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
            return self._product(parts)
        if isinstance(condition, OneOf):
            return self._labels(condition, negated)
        if isinstance(condition, Same):
            return self._same(condition, negated)
        return self._numbers(condition, negated)

    def _product(self, parts: Sequence[list[Box]]) -> list[Box]:
        boxes: list[Box] = [{}]
        for part in parts:
            pairs = (intersection(box, other) for box in boxes for other in part)
            boxes = [box for box in pairs if box is not None]
            if len(boxes) > 20 * MOST_BOXES:
                raise TooManyBoxesError
        return boxes

    def _labels(self, condition: OneOf, negated: bool) -> list[Box]:
        field = self._fields[condition.field]
        allowed = positions_of(condition, field)
        if field.kind in ("items", "image"):
            items = np.flatnonzero(allowed).tolist()
            if negated:
                return [{(field.name, item): ABSENT for item in items}]
            return [{(field.name, item): PRESENT} for item in items]
        mask = ~allowed if negated else allowed
        if None not in condition.values:
            mask = self._with_missing(field, mask)
        return _one_column(field, mask)

    def _with_missing(self, field: Any, mask: Mask) -> Mask:
        """A comparison with a missing value is unknown, whatever it says of the others."""
        if not getattr(field, "missing", False):
            return mask
        mask = mask.copy()
        mask[-1] = self._unknown
        return mask

    def _same(self, condition: Same, negated: bool) -> list[Box]:
        first, second = self._fields[condition.first], self._fields[condition.second]
        if "items" in (first.kind, second.kind) or "image" in (first.kind, second.kind):
            self.exact = False
            return [{}]
        boxes = []
        labels = labels_of(first)
        for label in labels:
            ours = positions_of(OneOf(first.name, (label,)), first)
            theirs = positions_of(OneOf(second.name, (label,)), second)
            theirs = self._with_missing(second, ~theirs if negated else theirs)
            if theirs.any():
                boxes.append({(first.name, -1): ours, (second.name, -1): theirs})
        if self._unknown and getattr(first, "missing", False):
            mask = np.zeros(first.width, dtype=np.bool_)
            mask[-1] = True
            boxes.append({(first.name, -1): mask})
        return boxes

    def _numbers(self, condition: Linear, negated: bool) -> list[Box]:
        operator = _OPPOSITE[condition.operator] if negated else condition.operator
        names = list(dict.fromkeys(name for _, name in condition.terms))
        factors = [sum(factor for factor, name in condition.terms if name == one) for one in names]
        ranges = [position_ranges(self._fields[name]) for name in names]
        if len(names) > 2 or any(one is None for one in ranges):
            self.exact = False
            return [{}]
        lows, highs = [], []
        for factor, (low, high) in zip(factors, ranges, strict=True):  # type: ignore[misc]
            lows.append(np.minimum(factor * low, factor * high))
            highs.append(np.maximum(factor * low, factor * high))
        if len(names) == 1:
            low, high = lows[0] + condition.constant, highs[0] + condition.constant
            return _one_column(self._fields[names[0]], self._decided(names[0], low, high, operator))
        boxes = []
        for at in range(len(lows[0])):
            low, high = lows[0][at] + lows[1] + condition.constant, highs[0][at] + highs[1] + condition.constant
            mask = self._decided(names[1], low, high, operator)
            if mask.any():
                boxes.append({(names[0], -1): self._only(names[0], at), (names[1], -1): mask})
        if self._unknown and getattr(self._fields[names[0]], "missing", False):
            boxes.append({(names[0], -1): self._only(names[0], -1)})
        return boxes

    def _only(self, name: str, at: int) -> Mask:
        mask = np.zeros(self._fields[name].width, dtype=np.bool_)
        mask[at] = True
        return mask

    def _decided(self, name: str, low: NDArray[np.float64], high: NDArray[np.float64], operator: Operator) -> Mask:
        """Positions where a sum between `low` and `high` may compare so with 0; notes where it may not, too."""
        may, must = _MAY[operator](low, high), ~_MAY[_OPPOSITE[operator]](low, high)
        if (may & ~must).any():
            self.exact = False
        field = self._fields[name]
        mask = np.zeros(field.width, dtype=np.bool_)
        mask[: len(low)] = may
        return self._with_missing(field, mask)


_NEAR = 1e-9  # sums this near to 0 count as 0, as in `conditions.compare`
_MAY: dict[Operator, Callable[[NDArray[np.float64], NDArray[np.float64]], Mask]] = {
    "<": lambda low, high: low < -_NEAR,
    "<=": lambda low, high: low <= _NEAR,
    ">": lambda low, high: high > _NEAR,
    ">=": lambda low, high: high >= -_NEAR,
    "=": lambda low, high: (low <= _NEAR) & (high >= -_NEAR),
    "!=": lambda low, high: (low < -_NEAR) | (high > _NEAR),
}


def _one_column(field: Any, mask: Mask) -> list[Box]:
    return [{(field.name, -1): mask}] if mask.any() else []
