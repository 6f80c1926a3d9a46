"""The public description of a record: an ordered list of fields.

Every record becomes a sparse binary vector of `Domain.width` positions, the fields side by side. A domain is
a public input: nothing here is ever inferred silently from private rows. Where a domain is *open* (values, bounds or
bins of a field are not stated), they are found privately as the first stage of a fit; until then widths are nominal.

>>> domain = Domain((ItemSet("stations", ("north", "south")), Numeric("age", 18, 97, bins=8, integer=True)))
>>> domain.width, domain.offsets
(10, (0, 2))
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.condition_text import parse_constraints
from dpgm.data.conditions import Constraint
from dpgm.data.fields import (
    MAX_LABEL_BYTES,
    MAX_WIDTH,
    Boolean,
    Categorical,
    Identifier,
    Ignored,
    Image,
    ItemSet,
    Label,
)
from dpgm.data.formats import Layout
from dpgm.data.number_cells import ShapedNumber
from dpgm.data.number_fields import MAX_BINS, Date, DateTime, Numeric
from dpgm.errors import UsageError
from dpgm.notebook import html_table
from dpgm.validation import near

__all__ = [
    "Block",
    "Boolean",
    "Categorical",
    "Date",
    "DateTime",
    "Domain",
    "Field",
    "Identifier",
    "Ignored",
    "Image",
    "ItemSet",
    "Label",
    "MAX_BINS",
    "MAX_LABEL_BYTES",
    "MAX_WIDTH",
    "Numeric",
    "Origin",
    "ShapedNumber",
    "Unread",
]

Field: TypeAlias = ItemSet | Image | Categorical | Boolean | Numeric | Date | DateTime | ShapedNumber
Unread: TypeAlias = Identifier | Ignored
Origin: TypeAlias = Literal["stated", "judged", "drafted", "declared"]


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
    Identifiers and ignored columns may be among the given fields; they take no positions, and are listed in `unread`,
    each with its place in the order of all columns.
    `origin` tells where the domain comes from: `stated` by the curator, kinds of columns `judged` by the rows of a
    frame (the certificate then says so), `drafted` from the data by `inspect`, values included, or such a draft
    `declared` public knowledge by the curator. A fit refuses a draft with values. `layout` is how a file of item sets
    was laid out, so that samples can be written in the same way.
    """

    fields: tuple[Field, ...]
    label: str | None = None
    unread: tuple[tuple[int, Unread], ...] = ()
    constraints: tuple[Constraint, ...] = dataclasses.field(default=(), kw_only=True)
    origin: Origin = dataclasses.field(default="stated", kw_only=True, compare=False)
    layout: Layout | None = dataclasses.field(default=None, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        given = self.columns
        unread = tuple((at, one) for at, one in enumerate(given) if isinstance(one, (Identifier, Ignored)))
        object.__setattr__(
            self, "fields", tuple(one for one in given if not isinstance(one, (Identifier, Ignored)))
        )
        object.__setattr__(self, "unread", unread)
        if not self.fields:
            raise UsageError("the domain has no fields; list at least one.")
        for name, count in Counter(column.name for column in given).items():
            if count > 1:
                raise UsageError(f"the domain names the field {name!r} twice; names must differ.")
        names = {field.name: field for field in self.fields}
        if self.label is not None and self.label not in names:
            raise UsageError(f"the domain's label {self.label!r} is not one of its fields.")
        if self.layout is not None and self.item_set is None:
            raise UsageError("`layout` of the domain is for one item set alone; leave it out.")
        for field in self.fields:
            if isinstance(field, (Date, DateTime, ShapedNumber)) and field.after is not None:
                _check_after(field, names)
        if self.width > MAX_WIDTH:
            raise UsageError(f"the domain has more than {MAX_WIDTH:,} positions; drop items or use fewer bins.")
        # Samples carry identifiers, though they are never read: constraints may refer to them.
        identifiers = tuple(column.name for _, column in unread if isinstance(column, Identifier))
        object.__setattr__(self, "constraints", parse_constraints(self.constraints, self.fields, identifiers))

    def declared_public(self) -> "Domain":
        """This domain, with the curator's word that what was drafted from the data is public knowledge."""
        return dataclasses.replace(self, origin="declared") if self.origin == "drafted" else self

    def refuse_draft(self) -> None:
        """Refuse a domain that was drafted from the data and that nobody declared public."""
        if self.origin == "drafted":
            raise UsageError(
                "the domain was drafted from the data, and publishing it would tell about the people in them; correct"
                " it and take out its line `drafted_from_data`, or declare it public knowledge as it stands with"
                " --assume-public-domain (assume_public_domain=True)."
            )

    @cached_property
    def is_open(self) -> bool:
        """Whether values, bounds or bins of a field are still to be found."""
        return any(field.is_open for field in self.fields)

    @property
    def columns(self) -> "tuple[Field | Unread, ...]":
        """All columns in order, those that are not read included."""
        columns: list[Field | Unread] = list(self.fields)
        for place, column in sorted(self.unread, key=lambda one: one[0]):
            columns.insert(place, column)
        return tuple(columns)

    @property
    def item_set(self) -> ItemSet | Image | None:
        """The only field, where that is an item set or an image; None for a table."""
        only = self.fields[0]
        return only if len(self.fields) == 1 and isinstance(only, (ItemSet, Image)) else None

    @cached_property
    def width(self) -> int:
        """m: positions of the binary vector; of an open domain, as many as plans assume."""
        return sum(field.width for field in self.fields)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """First position of every field."""
        return tuple(accumulate((field.width for field in self.fields[:-1]), initial=0))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Output blocks in order: Bernoulli for item sets and images, softmax otherwise."""
        return tuple(
            Block(start, start + field.width, field.kind not in ("items", "image"))
            for start, field in zip(self.offsets, self.fields, strict=True)
        )

    @cached_property
    def table_columns(self) -> tuple[slice, ...]:
        """Positions of every field of which a record takes exactly one value, in order."""
        return tuple(slice(block.start, block.stop) for block in self.blocks if block.softmax)

    def _at_positions(self, values: Sequence[int]) -> NDArray[Any]:
        """(width,): the value of its block at every position, read-only."""
        array = np.repeat(values, [block.width for block in self.blocks])
        array.flags.writeable = False
        return array

    @cached_property
    def item_positions(self) -> NDArray[np.bool_]:
        """(width,): which positions belong to item sets and images, not to table columns."""
        return self._at_positions([not block.softmax for block in self.blocks])

    @cached_property
    def column_of(self) -> NDArray[np.int64]:
        """(width,): a number that a position shares with the other values of its table column only."""
        numbers = np.where(self.item_positions, np.arange(self.width), self._at_positions(self.offsets))
        numbers.flags.writeable = False
        return numbers

    @cached_property
    def label_positions(self) -> NDArray[np.bool_]:
        """(width,): which positions are values of the label, where that is a table column."""
        is_label = (field.name == self.label for field in self.fields)
        return self._at_positions([block.softmax and one for block, one in zip(self.blocks, is_label, strict=True)])

    @property
    def is_table(self) -> bool:
        """Whether there are table columns and nothing else."""
        return len(self.table_columns) == len(self.fields)

    def columns_within(self, positions: NDArray[np.int64]) -> int:
        """How many table columns have a value among `positions`."""
        return len(np.unique(self.column_of[positions[~self.item_positions[positions]]]))

    def field(self, name: str) -> Field:
        """The field of that name."""
        names = {field.name: field for field in self.fields}
        if name in names:
            return names[name]
        listed = ", ".join(list(names)[:12])
        raise UsageError(f"the domain has no field {name!r}{near(name, names)}; it has {listed}.")

    @classmethod
    def of_items(cls, items: Sequence[Label] | int, name: str = "items") -> "Domain":
        """A domain of one item set; an integer m means the items 0 .. m-1."""
        listed = range(items) if isinstance(items, int) else items
        return cls((ItemSet(name, tuple(listed)),))

    @classmethod
    def draft(
        cls,
        data: object,
        *,
        drop: Sequence[str] = (),
        kinds: Mapping[str, str] | None = None,
        person: str | None = None,
    ) -> "Domain":
        """A draft from a frame of pandas, polars or pyarrow, as `dpgm inspect` makes one from a file.

        It states names and kinds of the columns and no value of any person: ranges, bins and categories are left
        open, to be found privately. Kinds are judged by the rows, so look at them before you use them; the
        certificate says that they were.

        Args:
            data: the frame.
            drop: columns to ignore.
            kinds: what a column is, by its name, where you know better.
            person: the column of persons; samples carry fresh ones.
        """
        from dpgm.data.read.frames import draft_frame

        return draft_frame(data, drop=drop, kinds=kinds, person=person)

    def _repr_html_(self) -> str:
        return html_table(f"Domain: {len(self.fields)} fields", ((one.name, one.kind) for one in self.columns))


def _check_after(field: Date | DateTime | ShapedNumber, fields: Mapping[str, Field]) -> None:
    """Refuse a date after one that is not there, of another kind, or itself modelled by the time since a third."""
    base = fields.get(field.after or "")
    good = isinstance(base, type(field)) and base.after is None
    good = good and getattr(base, "unit", None) == getattr(field, "unit", None)
    if not good or (isinstance(base, ShapedNumber) and base.format.kind not in ("date", "datetime")):
        raise UsageError(
            f"field {field.name!r}: `after` must name another field of the same kind (and unit) that has no `after`"
            f" itself{near(field.after, fields)}."
        )
