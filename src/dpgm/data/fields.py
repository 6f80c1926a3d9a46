"""The kinds of field that hold labels: item sets, images, categories, booleans; and columns that are not modelled.

A field is *open* where its values are not listed but found privately when a generator is fitted (`discover`): until
then its width is a nominal, public number that plans are made with.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from dpgm.errors import ResourceError, UsageError

Label: TypeAlias = str | int
MAX_LEVELS = 256
MAX_WIDTH = 10_000_000
MAX_LABEL_BYTES = 1024
# What a plan assumes of fields whose values are not known yet. Budget shares follow from widths, weakly: an item set of
# a few hundred values and a column of some twenty is what retail, web and census data have.
NOMINAL_ITEMS = 300
NOMINAL_VALUES = 20
_INT64 = 2**63


def check_name(name: object) -> None:
    """Refuse names that cannot be the name of a column in a file."""
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


def checked_labels(field: str, labels: Iterable[Label], what: str) -> tuple[Label, ...]:
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
    """Any subset of `items`; one Bernoulli output per item.

    With `discover` the items are not listed: those that many records hold are found privately.
    """

    name: str
    items: tuple[Label, ...] = ()
    discover: bool = False
    kind: Literal["items"] = "items"

    def __post_init__(self) -> None:
        check_name(self.name)
        _check_discover(self.name, self.items, self.discover, "items")
        if self.discover:
            object.__setattr__(self, "items", ())
            return
        object.__setattr__(self, "items", checked_labels(self.name, self.items, "items"))
        if isinstance(self.items[0], int) and min(self.items) < 0:  # type: ignore[type-var, operator]
            raise UsageError(f"field {self.name!r}: item numbers must not be negative.")

    @property
    def is_open(self) -> bool:
        """Whether the items are still to be found."""
        return self.discover

    @property
    def width(self) -> int:
        """Positions this field takes in the binary vector."""
        return NOMINAL_ITEMS if self.discover else len(self.items)

    @property
    def position_names(self) -> list[str]:
        """A readable name per position."""
        return [str(item) for item in self.items]


@dataclass(frozen=True)
class Image:
    """An image of public height, width and number of grey levels: an item set with a shape.

    A pixel of `levels` grey levels 0 .. L-1 is L-1 positions, of which the t-th (from 0) is filled where the level is
    above t; so two levels are a binary image, whose items are the pixel numbers. All first positions come first,
    row by row, then all second ones.
    """

    name: str
    height: int
    columns: int
    levels: int = 2
    kind: Literal["image"] = "image"
    is_open: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_name(self.name)
        for size in (self.height, self.columns):
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise UsageError(f"field {self.name!r}: height and columns must be whole numbers of at least 1.")
        if isinstance(self.levels, bool) or not isinstance(self.levels, int) or not 2 <= self.levels <= MAX_LEVELS:
            raise UsageError(f"field {self.name!r}: levels must be a whole number from 2 to {MAX_LEVELS}.")
        if self.width > MAX_WIDTH:
            raise UsageError(
                f"field {self.name!r}: an image must not exceed {MAX_WIDTH:,} pixels times levels less one."
            )

    @property
    def pixels(self) -> int:
        """Pixels of the image."""
        return self.height * self.columns

    @property
    def position_names(self) -> list[str]:
        """A readable name per position: row and column of the pixel, and beyond two levels what it exceeds."""
        names = [f"r{at // self.columns}c{at % self.columns}" for at in range(self.pixels)]
        return names if self.levels == 2 else [f"{name}>{t}" for t in range(self.levels - 1) for name in names]

    @property
    def width(self) -> int:
        """Positions this field takes in the binary vector."""
        return self.pixels * (self.levels - 1)

    @property
    def items(self) -> range:
        """Position numbers; of a binary image the pixel numbers, row by row."""
        return range(self.width)


@dataclass(frozen=True)
class Categorical:
    """Exactly one of `values`, or missing; a softmax output.

    With `missing` the last position stands for a missing value. With `discover` the values are not listed: those that
    many records hold are found privately, and the others count as missing.
    """

    name: str
    values: tuple[Label, ...] = ()
    missing: bool = False
    discover: bool = False
    kind: Literal["categorical"] = "categorical"

    def __post_init__(self) -> None:
        check_name(self.name)
        _check_discover(self.name, self.values, self.discover, "values")
        if self.discover:
            object.__setattr__(self, "values", ())
            object.__setattr__(self, "missing", True)
            return
        object.__setattr__(self, "values", checked_labels(self.name, self.values, "values"))

    @property
    def is_open(self) -> bool:
        """Whether the values are still to be found."""
        return self.discover

    @property
    def width(self) -> int:
        """Positions this field takes in the binary vector."""
        return (NOMINAL_VALUES if self.discover else len(self.values)) + self.missing

    @property
    def position_names(self) -> list[str]:
        """A readable name per position."""
        names = [f"{self.name}={value}" for value in self.values]
        return names_with_missing(self.name, names, self.missing)


@dataclass(frozen=True)
class Boolean:
    """True or false, or missing; a softmax output of the positions false, true and, with `missing`, missing."""

    name: str
    missing: bool = False
    kind: Literal["boolean"] = "boolean"
    is_open: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_name(self.name)

    @property
    def width(self) -> int:
        """Positions this field takes in the binary vector."""
        return 2 + self.missing

    @property
    def position_names(self) -> list[str]:
        """A readable name per position."""
        return names_with_missing(self.name, [f"{self.name}=false", f"{self.name}=true"], self.missing)


@dataclass(frozen=True)
class Identifier:
    """A column that identifies people: never read; samples carry fresh identifiers of their own."""

    name: str
    kind: Literal["identifier"] = "identifier"

    def __post_init__(self) -> None:
        check_name(self.name)


@dataclass(frozen=True)
class Ignored:
    """A column that is left out: never read, and not in samples."""

    name: str
    kind: Literal["ignored"] = "ignored"

    def __post_init__(self) -> None:
        check_name(self.name)


def names_with_missing(field: str, names: list[str], missing: bool | None) -> list[str]:
    """Names of positions, and that of the last one where it stands for a missing value."""
    return [*names, f"{field} missing"] if missing else names


def _check_discover(name: str, labels: object, discover: object, what: str) -> None:
    if not isinstance(discover, bool):
        raise UsageError(f"field {name!r}: `discover` must be true or false.")
    if discover and labels:
        raise UsageError(f"field {name!r}: list its {what} or say `discover: true`, not both.")
