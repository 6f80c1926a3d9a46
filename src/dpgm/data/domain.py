"""The public description of a record: an ordered list of fields.

Every record becomes a sparse binary vector of `Domain.width` positions, the fields side by side. A domain is
a public input: nothing here is ever inferred silently from private rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from dpgm.errors import UsageError

Label: TypeAlias = str | int
MAX_WIDTH = 10_000_000


@dataclass(frozen=True)
class ItemSet:
    """Any subset of `items`; one Bernoulli output an item."""

    name: str
    items: tuple[Label, ...]
    kind: Literal["items"] = "items"

    @property
    def width(self) -> int:
        """Positions this field takes in the binary vector."""
        return len(self.items)


@dataclass(frozen=True)
class Image:
    """A binary image of public height and width: an item set with a shape."""

    name: str
    height: int
    columns: int
    kind: Literal["image"] = "image"

    @property
    def width(self) -> int:
        """Positions this field takes in the binary vector."""
        return self.height * self.columns


@dataclass(frozen=True)
class Categorical:
    """Exactly one of `values` (or missing, where the domain says so); a softmax output."""

    name: str
    values: tuple[Label, ...]
    missing: bool = False
    kind: Literal["categorical"] = "categorical"

    @property
    def width(self) -> int:
        """Positions this field takes in the binary vector."""
        return len(self.values) + self.missing


@dataclass(frozen=True)
class Numeric:
    """A number in [low, high], binned; a softmax output, decoded uniformly within the bin."""

    name: str
    low: float
    high: float
    bins: int
    integer: bool = False
    missing: bool = False
    kind: Literal["numeric"] = "numeric"

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
    """An ordered list of fields; `label` names the field that conditions images and classifiers."""

    fields: tuple[Field, ...]
    label: str | None = None

    def __post_init__(self) -> None:
        if not self.fields:
            raise UsageError("the domain has no fields; list at least one.")
        names = [field.name for field in self.fields]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"the domain names the field {name!r} twice; names must differ.")
        if self.label is not None and self.label not in names:
            raise UsageError(f"the domain's label {self.label!r} is not one of its fields.")

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
