"""Field classes for item sets, images, categories and booleans, and for columns that are not modelled.

A field is *open* if its values are not listed but found privately when a generator is fitted (`discover`). Until then
its width is a nominal, public number that plans are made with.
"""

from collections.abc import Iterable, Sized
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.errors import ResourceError, UsageError

Label: TypeAlias = str | int
Codes: TypeAlias = NDArray[np.int64]  # positions within a field, or labels by their number in a vocabulary
MAX_LEVELS = 256
MAX_WHITE = 65_535  # scanners have up to 16 bits per pixel
MAX_WIDTH = 10_000_000
MAX_LABEL_BYTES = 1024
# The widths that a plan assumes for fields whose values are not known yet. Budget shares depend on widths only weakly;
# item sets of a few hundred items and columns of about twenty values are typical of retail, web and census data.
NOMINAL_ITEMS = 300
NOMINAL_VALUES = 20
OTHER = "(other)"  # stands for every value that a field with `other` does not list
INDEX = "(index)"  # the name of a first column without one: row numbers or row names, as pandas and R write them
_INT64 = 2**63
_MARKS = 8  # characters between items


@dataclass(frozen=True)
class Column:
    """Base class of all columns: checks the name."""

    name: str

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or not name.strip():
            raise UsageError("a field of the domain has no name; give every field a name that is not empty.")
        if name != name.strip() or "\0" in name:
            raise UsageError("a field's name must not begin or end with white space nor hold a NUL character.")
        if len(name) > MAX_LABEL_BYTES:
            raise UsageError(f"a field of the domain has a name over {MAX_LABEL_BYTES} characters; shorten it.")

    def _error(self, rule: str) -> UsageError:
        return UsageError(f"field {self.name!r}: {rule}.")

    def _set(self, key: str, value: object) -> None:
        """Set an attribute of the frozen dataclass from within `__post_init__`."""
        object.__setattr__(self, key, value)


class Modelled(Column):
    """Base class of fields: one position per value and, if values may be missing, a last one for "missing"."""

    _nominal_count: ClassVar[int] = NOMINAL_VALUES

    @property
    def _value_count(self) -> int | None:
        """Number of values with a position; None for an open field."""
        return None

    @property
    def _value_names(self) -> list[str]:
        """Readable names of the positions of values."""
        return []

    @property
    def is_open(self) -> bool:
        """Whether values, bounds or bins are still to be discovered."""
        return self._value_count is None

    @property
    def width(self) -> int:
        """Number of positions in the binary vector; nominal for an open field."""
        values = self._nominal_count if self._value_count is None else self._value_count
        return values + (getattr(self, "missing", False) is not False)

    @property
    def position_names(self) -> list[str]:
        """A readable name per position; empty for an open field."""
        missing = getattr(self, "missing", False) and not self.is_open
        return [*self._value_names, f"{self.name} missing"] if missing else self._value_names

    def _checked_labels(self, labels: Iterable[Label], what: str, discover: object) -> tuple[Label, ...]:
        """Labels as a tuple: empty with `discover`; otherwise one or more, distinct, all texts or all integers."""
        if not isinstance(discover, bool):
            raise self._error("'discover' must be true or false")
        if discover and labels:
            raise self._error(f"list its {what} or say `discover: true`, not both")
        if discover:
            return ()
        if isinstance(labels, (str, bytes)):
            raise self._error(f"{what} must be a list, not a text")
        if isinstance(labels, Sized) and len(labels) > MAX_WIDTH:
            raise ResourceError(f"field {self.name!r}: {what} must not exceed {MAX_WIDTH:,}; drop or merge some.")
        listed = tuple(int(label) if isinstance(label, np.integer) else label for label in labels)
        if not listed:
            raise UsageError(f"field {self.name!r} has no {what}; list at least one.")
        for label in listed:
            if rule := _broken_rule(label):
                raise self._error(rule)
        if len({isinstance(label, str) for label in listed}) > 1:
            raise self._error(f"{what} must be all texts or all whole numbers; quote the numbers")
        if len(set(listed)) < len(listed):
            raise UsageError(f"field {self.name!r} lists one of its {what} twice; {what} must differ.")
        return listed


def _broken_rule(label: object) -> str:
    """The rule that a label breaks, as a message; empty if it is valid."""
    if isinstance(label, str):
        try:
            size = len(label.encode())
        except UnicodeEncodeError:
            return "a label is not valid Unicode; correct the domain"
        if size == 0 or "\0" in label:
            return "labels must not be empty nor hold a NUL character"
        return "labels must not exceed 1 kB; shorten or number them" if size > MAX_LABEL_BYTES else ""
    if isinstance(label, bool) or not isinstance(label, int):
        return "labels must be texts or whole numbers; quote them in the domain file"
    return "" if -_INT64 <= label < _INT64 else "whole-number labels must fit 64 bits; use texts instead"


def is_whole(value: object, low: int, high: int | None = None) -> bool:
    """Whether a value is an integer (not a boolean) from `low` to `high`."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and low <= value and (high is None or value <= high)  # type: ignore[operator]


@dataclass(frozen=True)
class ItemSet(Modelled):
    """Any subset of `items`; one Bernoulli output per item.

    With `discover` the items are not listed: those that occur in many records are found privately. `separator` is the
    text between the items of a cell in text files and sheets; without it a cell is a JSON list.
    """

    items: tuple[Label, ...] = ()
    discover: bool = False
    separator: str | None = field(default=None, compare=False)
    kind: Literal["items"] = "items"
    _nominal_count = NOMINAL_ITEMS

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("items", self._checked_labels(self.items, "items", self.discover))
        if self.items and isinstance(self.items[0], int) and min(self.items) < 0:  # type: ignore[type-var, operator]
            raise self._error("item numbers must not be negative")
        if self.separator is not None and not (
            isinstance(self.separator, str) and 0 < len(self.separator) <= _MARKS
        ):
            raise self._error(f"separator must be a text of 1 to {_MARKS} characters")

    @property
    def _value_count(self) -> int | None:
        return None if self.discover else len(self.items)

    @property
    def _value_names(self) -> list[str]:
        return [str(item) for item in self.items]


@dataclass(frozen=True)
class Image(Modelled):
    """An image of public height, width and number of grey levels: an item set with a shape.

    A pixel with L = `levels` grey levels 0 .. L-1 has L-1 positions; position t (from 0) is set if the level exceeds t.
    A binary image has two levels, and its items are the pixel numbers. The positions t = 0 of all pixels come first,
    in row-major order, then those of t = 1, and so on.

    `white` is the value of a white pixel in files of grey images; by default 255, or 1 in files of floats.
    """

    height: int
    columns: int
    levels: int = 2
    white: int | None = None
    kind: Literal["image"] = "image"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_whole(self.height, 1) or not is_whole(self.columns, 1):
            raise self._error("height and columns must be whole numbers of at least 1")
        if not is_whole(self.levels, 2, MAX_LEVELS):
            raise self._error(f"levels must be a whole number from 2 to {MAX_LEVELS}")
        if self.white is not None and not (self.levels > 2 and is_whole(self.white, self.levels - 1, MAX_WHITE)):
            raise self._error(f"white must be a whole number from levels - 1 to {MAX_WHITE:,}, for levels above 2")
        if self.width > MAX_WIDTH:
            raise self._error(f"an image must not exceed {MAX_WIDTH:,} pixels times levels less one")

    @property
    def pixels(self) -> int:
        """Number of pixels."""
        return self.height * self.columns

    @property
    def items(self) -> range:
        """Position numbers; for a binary image, pixel numbers in row-major order."""
        return range(self.width)

    @property
    def _value_count(self) -> int:
        return self.pixels * (self.levels - 1)

    @property
    def _value_names(self) -> list[str]:
        """Row and column of the pixel, followed by the level it exceeds if there are more than two."""
        names = [f"r{at // self.columns}c{at % self.columns}" for at in range(self.pixels)]
        return names if self.levels == 2 else [f"{name}>{t}" for t in range(self.levels - 1) for name in names]


@dataclass(frozen=True)
class Categorical(Modelled):
    """Exactly one of `values`, or missing; a softmax output.

    With `missing` the last position stands for a missing value. With `other` the last value is `(other)`, which every
    text that is not listed counts as. With `discover` the values are not listed: those that occur in many records are
    found privately, and the rest count as `(other)`, or as missing if all values found are whole numbers. A rest
    that is too small to tell from noise counts as the commonest value.
    """

    values: tuple[Label, ...] = ()
    missing: bool = False
    discover: bool = False
    other: bool = False
    kind: Literal["categorical"] = "categorical"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.other and self.discover:
            raise self._error("leave out `other` if you say `discover: true`, which adds it where needed")
        values = self._checked_labels(self.values or ((OTHER,) if self.other else ()), "values", self.discover)
        if self.other and isinstance(values[0], int):
            raise self._error("`other: true` is for texts; quote the numbers")
        self._set("values", (*values, OTHER) if self.other and OTHER not in values else values)
        self._set("missing", self.missing or self.discover)

    @property
    def _value_count(self) -> int | None:
        return None if self.discover else len(self.values)

    @property
    def _value_names(self) -> list[str]:
        return [f"{self.name}={value}" for value in self.values]


@dataclass(frozen=True)
class Boolean(Modelled):
    """True or false, or missing; a softmax output of the positions false, true and, with `missing`, missing.

    `written` is how files write true and false, such as `yes/no`: it is read so, besides the usual ways, and samples
    are written so.
    """

    missing: bool = False
    written: str | None = field(default=None, compare=False)
    kind: Literal["boolean"] = "boolean"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.written is None:
            return
        words = self.written.split("/") if isinstance(self.written, str) else []
        good = all(word and word == word.strip() and len(word.encode()) <= MAX_LABEL_BYTES for word in words)
        if len({word.lower() for word in words}) != 2 or len(words) != 2 or not good:
            raise self._error("written must be the words for true and false, such as yes/no")

    @property
    def words(self) -> tuple[str, str] | None:
        """The words for true and false, if they are stated."""
        return None if self.written is None else tuple(self.written.split("/"))  # type: ignore[return-value]

    @property
    def _value_count(self) -> int:
        return 2

    @property
    def _value_names(self) -> list[str]:
        return [f"{self.name}=false", f"{self.name}=true"]


@dataclass(frozen=True)
class Identifier(Column):
    """A column that identifies people: never read; samples get freshly drawn identifiers."""

    kind: Literal["identifier"] = "identifier"


@dataclass(frozen=True)
class Ignored(Column):
    """A column that is never read and does not appear in samples."""

    kind: Literal["ignored"] = "ignored"
