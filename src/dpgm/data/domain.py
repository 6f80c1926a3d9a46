"""The public description of a record: an ordered list of fields.

Every record becomes a sparse binary vector of `Domain.width` positions, the fields side by side. A domain is
a public input: nothing here is ever inferred silently from private rows.

>>> domain = Domain((ItemSet("stations", ("north", "south")), Numeric("age", 18, 97, bins=8, integer=True)))
>>> domain.width, domain.offsets
(10, (0, 2))
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from dpgm.data.condition_text import parse_constraints
from dpgm.data.conditions import Constraint
from dpgm.errors import ResourceError, UsageError

Label: TypeAlias = str | int
MAX_WIDTH = 10_000_000
MAX_BINS = 100_000
MAX_LABEL_BYTES = 1024
_INT64 = 2**63


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.strip():
        raise UsageError("a field of the domain has no name; give every field a name that is not empty.")
    if name != name.strip() or "\0" in name:
        raise UsageError("a field's name must not begin or end with white space nor hold a NUL character.")
    if len(name) > MAX_LABEL_BYTES:
        raise UsageError(f"a field of the domain has a name over {MAX_LABEL_BYTES} characters; shorten it.")


def _check_label(field: str, label: object) -> None:
    if isinstance(label, str):
        try:
            size = len(label.encode())
        except UnicodeEncodeError:
            raise UsageError(f"field {field!r}: a label is not valid Unicode; correct the domain.") from None
        if size == 0 or "\0" in label:
            raise UsageError(f"field {field!r}: labels must not be empty nor hold a NUL character.")
        if size > MAX_LABEL_BYTES:
            raise UsageError(f"field {field!r}: labels must not exceed 1 kB; shorten or number them.")
    elif isinstance(label, bool) or not isinstance(label, int):
        raise UsageError(f"field {field!r}: labels must be texts or whole numbers; quote them in the domain file.")
    elif not -_INT64 <= label < _INT64:
        raise UsageError(f"field {field!r}: whole-number labels must fit 64 bits; use texts instead.")


def _checked_labels(field: str, labels: Iterable[Label], what: str) -> tuple[Label, ...]:
    """The labels as a tuple: at least one, distinct, all texts or all whole numbers."""
    if isinstance(labels, (str, bytes)):
        raise UsageError(f"field {field!r}: {what} must be a list, not a text.")
    if hasattr(labels, "__len__") and len(labels) > MAX_WIDTH:  # type: ignore[arg-type]
        raise ResourceError(f"field {field!r}: {what} must not exceed {MAX_WIDTH:,}; drop or merge some.")
    listed = tuple(int(label) if isinstance(label, np.integer) else label for label in labels)
    if not listed:
        raise UsageError(f"field {field!r} has no {what}; list at least one.")
    for label in listed:
        _check_label(field, label)
    if len({isinstance(label, str) for label in listed}) > 1:
        raise UsageError(f"field {field!r}: {what} must be all texts or all whole numbers; quote the numbers.")
    if len(set(listed)) < len(listed):
        raise UsageError(f"field {field!r} lists one of its {what} twice; {what} must differ.")
    return listed


@dataclass(frozen=True)
class ItemSet:
    """Any subset of `items`; one Bernoulli output an item."""

    name: str
    items: tuple[Label, ...]
    kind: Literal["items"] = "items"

    def __post_init__(self) -> None:
        _check_name(self.name)
        object.__setattr__(self, "items", _checked_labels(self.name, self.items, "items"))
        if isinstance(self.items[0], int) and min(self.items) < 0:  # type: ignore[type-var, operator]
            raise UsageError(f"field {self.name!r}: item numbers must not be negative.")

    @property
    def width(self) -> int:
        """Positions this field takes in the binary vector."""
        return len(self.items)


@dataclass(frozen=True)
class Image:
    """A binary image of public height and width: an item set with a shape; its items are the pixel numbers."""

    name: str
    height: int
    columns: int
    kind: Literal["image"] = "image"

    def __post_init__(self) -> None:
        _check_name(self.name)
        for size in (self.height, self.columns):
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise UsageError(f"field {self.name!r}: height and columns must be whole numbers of at least 1.")
        if self.height * self.columns > MAX_WIDTH:
            raise UsageError(f"field {self.name!r}: an image must not exceed {MAX_WIDTH:,} pixels.")

    @property
    def width(self) -> int:
        """Positions this field takes in the binary vector."""
        return self.height * self.columns

    @property
    def items(self) -> range:
        """Pixel numbers, row by row."""
        return range(self.width)


@dataclass(frozen=True)
class Categorical:
    """Exactly one of `values` (or missing, where the domain says so); a softmax output.

    With `missing` the last position stands for a missing value.
    """

    name: str
    values: tuple[Label, ...]
    missing: bool = False
    kind: Literal["categorical"] = "categorical"

    def __post_init__(self) -> None:
        _check_name(self.name)
        object.__setattr__(self, "values", _checked_labels(self.name, self.values, "values"))

    @property
    def width(self) -> int:
        """Positions this field takes in the binary vector."""
        return len(self.values) + self.missing


@dataclass(frozen=True)
class Numeric:
    """A number in [low, high], binned; a softmax output, decoded uniformly within the bin.

    With `integer` both ends are whole numbers that can occur, and bins hold whole numbers. With `missing` the
    last position stands for a missing value.
    """

    name: str
    low: float
    high: float
    bins: int
    integer: bool = False
    missing: bool = False
    kind: Literal["numeric"] = "numeric"

    def __post_init__(self) -> None:
        _check_name(self.name)
        for bound in (self.low, self.high):
            if isinstance(bound, bool) or not isinstance(bound, (int, float)) or not math.isfinite(bound):
                raise UsageError(f"field {self.name!r}: low and high must be finite numbers.")
        if not self.low < self.high or not math.isfinite(self.high - self.low):
            raise UsageError(f"field {self.name!r}: low must be below high.")
        if isinstance(self.bins, bool) or not isinstance(self.bins, int) or not 1 <= self.bins <= MAX_BINS:
            raise UsageError(f"field {self.name!r}: bins must be a whole number from 1 to {MAX_BINS:,}.")
        if self.integer:
            if self.low != int(self.low) or self.high != int(self.high) or max(-self.low, self.high) > 2**52:
                raise UsageError(f"field {self.name!r}: low and high must be whole numbers for an integer field.")
            if self.bins > self.high - self.low + 1:
                raise UsageError(f"field {self.name!r}: an integer field needs at least one whole number a bin.")
            if (self.high - self.low + 1) * self.bins > 2**62:
                raise UsageError(f"field {self.name!r}: the range is too wide for so many bins; use fewer.")

    @property
    def width(self) -> int:
        """Positions this field takes in the binary vector."""
        return self.bins + self.missing


Field: TypeAlias = ItemSet | Image | Categorical | Numeric


@dataclass(frozen=True)
class Block:
    """Positions [start, stop) of the binary vector and how they are generated."""

    start: int
    stop: int
    softmax: bool

    @property
    def width(self) -> int:
        """Number of positions."""
        return self.stop - self.start


@dataclass(frozen=True)
class Domain:
    """An ordered list of fields; `label` names the field that conditions images and classifiers.

    `constraints` are public rules that every synthetic record meets, such as `married = never if age < 15`.
    """

    fields: tuple[Field, ...]
    label: str | None = None
    constraints: tuple[Constraint, ...] = dataclasses.field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        if not self.fields:
            raise UsageError("the domain has no fields; list at least one.")
        seen = set()
        for field in self.fields:
            if field.name in seen:
                raise UsageError(f"the domain names the field {field.name!r} twice; names must differ.")
            seen.add(field.name)
        if self.label is not None and self.label not in seen:
            raise UsageError(f"the domain's label {self.label!r} is not one of its fields.")
        if self.width > MAX_WIDTH:
            raise UsageError(f"the domain has more than {MAX_WIDTH:,} positions; drop items or use fewer bins.")
        object.__setattr__(self, "constraints", parse_constraints(self.constraints, self.fields))

    @cached_property
    def width(self) -> int:
        """m: positions of the binary vector."""
        return sum(field.width for field in self.fields)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """First position of every field."""
        starts, at = [], 0
        for field in self.fields:
            starts.append(at)
            at += field.width
        return tuple(starts)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Output blocks in order: Bernoulli for item sets and images, softmax otherwise."""
        return tuple(
            Block(start, start + field.width, field.kind in ("categorical", "numeric"))
            for start, field in zip(self.offsets, self.fields, strict=True)
        )

    def field(self, name: str) -> Field:
        """The field of that name."""
        for field in self.fields:
            if field.name == name:
                return field
        raise UsageError(f"the domain has no field {name!r}.")

    @classmethod
    def of_items(cls, items: Sequence[Label] | int, name: str = "items") -> "Domain":
        """A domain of one item set; an integer m stands for the items 0 .. m-1."""
        listed = range(items) if isinstance(items, int) else items
        return cls((ItemSet(name, tuple(listed)),))
