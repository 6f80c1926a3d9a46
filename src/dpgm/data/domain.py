"""`Domain`, the public description of a record: an ordered list of fields.

Every record becomes a sparse binary vector of `Domain.width` positions, one block of positions per field. A domain is
a public input: nothing here is inferred silently from private rows. In an *open* domain the values, bounds or bins of
some fields are not stated; they are found privately as the first stage of a fit, and until then widths are nominal.

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
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from dpgm.data.condition_text import parse_constraints
from dpgm.data.conditions import Constraint
from dpgm.data.kinds import (
    Boolean,
    Categorical,
    Column,
    Date,
    DateTime,
    Field,
    Identifier,
    Ignored,
    Image,
    ItemSequence,
    ItemSet,
    Numeric,
    OpenNumber,
    ShapedNumber,
)
from dpgm.data.kinds.items import SetField
from dpgm.data.labels import MAX_WIDTH, Label
from dpgm.data.layouts import Layout, free_name
from dpgm.errors import UsageError
from dpgm.notebook import html_table
from dpgm.validation import counted, near

__all__ = [
    "Block",
    "Boolean",
    "Categorical",
    "Column",
    "Date",
    "DateTime",
    "Domain",
    "Field",
    "Identifier",
    "Ignored",
    "Image",
    "ItemSequence",
    "ItemSet",
    "Label",
    "Numeric",
    "Origin",
    "ShapedNumber",
]

Origin: TypeAlias = Literal["stated", "judged", "drafted", "declared"]
MOST_WEIGHT = 10  # of a column


@dataclass(frozen=True)
class Block:
    """Positions [start, stop) of one field: a softmax output, or Bernoulli outputs (item sets and images)."""

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

    `weights` says of columns whose relations matter more, how much more (1 to 10); `pairs` of columns are measured
    value by value in any case. Both steer what a fit of a table spends its budget on.
    `constraints` are public rules that every synthetic record meets, such as `married = never if age < 15`.
    Identifiers and ignored columns may be among the given fields; they take no positions and are moved to `unread`,
    each with its index among all columns.
    `origin` is where the domain comes from: `stated` by the curator, `judged` (kinds of columns inferred from the rows
    of a frame; the certificate says so), `drafted` from the data by `inspect`, values included, or `declared`: a draft
    that the curator declared public knowledge. A fit refuses a draft with values. `layout` is how a file of item sets
    was laid out, so that samples can be written in the same way. `missing_texts` stand for a missing value in the data.
    """

    fields: tuple[Field, ...]
    label: str | None = None
    unread: tuple[tuple[int, Column], ...] = ()
    constraints: tuple[Constraint, ...] = dataclasses.field(default=(), kw_only=True)
    origin: Origin = dataclasses.field(default="stated", kw_only=True, compare=False)
    layout: Layout | None = dataclasses.field(default=None, kw_only=True, compare=False)
    missing_texts: tuple[str, ...] = dataclasses.field(default=(), kw_only=True, compare=False)
    weights: tuple[tuple[str, float], ...] = dataclasses.field(default=(), kw_only=True)
    pairs: tuple[tuple[str, str], ...] = dataclasses.field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        columns = self.columns
        unread = tuple((at, one) for at, one in enumerate(columns) if not one.is_read)
        fields = cast("tuple[Field, ...]", tuple(one for one in columns if one.is_read))
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "unread", unread)
        if not fields:
            raise UsageError("the domain has no fields; list at least one.")
        for name, count in Counter(column.name for column in columns).items():
            if count > 1:
                raise UsageError(f"the domain names the field {name!r} twice; names must differ.")
        by_name = {field.name: field for field in fields}
        if self.label is not None and self.label not in by_name:
            raise UsageError(
                f"the domain's label {self.label!r} is not one of its fields{near(self.label, by_name)}."
            )
        texts = self.missing_texts
        if isinstance(texts, str) or not all(isinstance(text, str) and text.strip() for text in texts):
            raise UsageError(
                "`missing_texts` of the domain must be a list of texts, such as ['NA', '-']; quote them."
            )
        object.__setattr__(self, "missing_texts", tuple(texts))
        self._check_emphasis(by_name)
        if self.layout is not None and self.item_set is None and self.sequence is None:
            raise UsageError("`layout` needs a domain of one item set, or with a sequence; leave it out.")
        for field in fields:
            field.check_among(by_name)
        if sum(field.as_sequence is not None for field in fields) > 1:
            raise UsageError("the domain has two sequences; keep one, and make the other a field of kind `items`.")
        if self.width > MAX_WIDTH:
            raise UsageError(f"the domain has more than {MAX_WIDTH:,} positions; drop items or use fewer bins.")
        # Identifiers are never read, but samples have them, so constraints may refer to them.
        identifiers = tuple(column.name for _, column in unread if column.in_samples)
        object.__setattr__(self, "constraints", parse_constraints(self.constraints, fields, identifiers))

    def _check_emphasis(self, by_name: Mapping[str, Field]) -> None:
        """Refuse weights and pairs of anything but columns of a table."""
        for name, weight in self.weights:
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not 1 <= weight <= MOST_WEIGHT:
                raise UsageError(f"`weight` of the field {name!r} must be a number from 1 to {MOST_WEIGHT}.")
        for pair in self.pairs:
            if not isinstance(pair, tuple) or len(pair) != 2 or pair[0] == pair[1]:
                raise UsageError(
                    "`pairs` of the domain must be a list of pairs of columns, such as [[age, income]]."
                )
        for name in (*(name for name, _ in self.weights), *(name for pair in self.pairs for name in pair)):
            if name not in by_name or by_name[name].is_set:
                raise UsageError(
                    f"`weight` and `pairs` are for columns with one value per row, and {str(name)[:60]!r} is none"
                    f"{near(str(name), by_name)}."
                )

    def declared_public(self) -> "Domain":
        """This domain; if it was drafted from the data, marked as declared public knowledge by the curator."""
        return dataclasses.replace(self, origin="declared") if self.origin == "drafted" else self

    def refuse_draft(self) -> None:
        """Raise if the domain was drafted from the data and not declared public."""
        if self.origin == "drafted":
            raise UsageError(
                "the domain was drafted from the data, and publishing it would reveal something about the people in"
                " them; correct it and remove its line `drafted_from_data`, or declare it public knowledge with"
                " `assume_public_domain=True`."
            )

    @cached_property
    def is_open(self) -> bool:
        """Whether values, bounds or bins of a field are still to be discovered."""
        return any(field.is_open for field in self.fields)

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns in order, including those that are not read."""
        columns: list[Column] = list(self.fields)
        for index, column in sorted(self.unread, key=lambda one: one[0]):
            columns.insert(index, column)
        return tuple(columns)

    @property
    def item_set(self) -> SetField | None:
        """The single field if it is an item set or an image; None for a table."""
        return self.fields[0].as_set if len(self.fields) == 1 else None

    @cached_property
    def sequence(self) -> ItemSequence | None:
        """The field whose items have an order, which `Records.events` hold; other fields are attributes of a person."""
        return next((found for field in self.fields if (found := field.as_sequence) is not None), None)

    @property
    def item_column(self) -> str | None:
        """The name of the column with the items of the sequence, by the layout or its own; None without a sequence."""
        if self.sequence is None:
            return None
        return self.sequence.name if self.layout is None else self.layout.item or self.sequence.name

    @property
    def time_column(self) -> str | None:
        """The name of the column with the times of the sequence, by the layout or `time`; None without times."""
        if self.layout is not None and self.layout.time is not None:
            return self.layout.time
        if self.sequence is None or not self.sequence.time:
            return None
        return free_name("time", [column.name for column in self.columns])

    @property
    def image(self) -> Image | None:
        """The first field that holds images."""
        return next((field.image for field in self.fields if field.image is not None), None)

    @property
    def picture(self) -> tuple[Image, Field | None] | None:
        """The image and its label, if a record is one image with a label at most."""
        labels = [field for field in self.fields if field.is_category]
        if self.image is None or len(self.fields) != 1 + len(labels) or len(labels) > 1:
            return None
        return self.image, labels[0] if labels else None

    @cached_property
    def width(self) -> int:
        """m: the number of positions of the binary vector; nominal for an open domain."""
        return sum(field.width for field in self.fields)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """First position of every field."""
        return tuple(accumulate((field.width for field in self.fields[:-1]), initial=0))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Output blocks in order: Bernoulli for item sets and images, softmax otherwise."""
        return tuple(
            Block(start, start + field.width, not field.is_set)
            for start, field in zip(self.offsets, self.fields, strict=True)
        )

    @cached_property
    def table_columns(self) -> tuple[slice, ...]:
        """Position ranges of the fields that take exactly one value per record."""
        return tuple(slice(block.start, block.stop) for block in self.blocks if block.softmax)

    def _per_position(self, values: Sequence[int]) -> NDArray[Any]:
        """(width,), read-only: one value per block, repeated for each of its positions."""
        array = np.repeat(values, [block.width for block in self.blocks])
        array.flags.writeable = False
        return array

    @cached_property
    def item_positions(self) -> NDArray[np.bool_]:
        """(width,) mask: positions of item sets and images, not of table columns."""
        return self._per_position([not block.softmax for block in self.blocks])

    @cached_property
    def column_of(self) -> NDArray[np.int64]:
        """(width,): a group number, shared by the positions of one table column; every item has its own."""
        numbers = np.where(self.item_positions, np.arange(self.width), self._per_position(self.offsets))
        numbers.flags.writeable = False
        return numbers

    @cached_property
    def label_positions(self) -> NDArray[np.bool_]:
        """(width,) mask: positions of the label's values, if the label is a table column."""
        pairs = zip(self.blocks, self.fields, strict=True)
        return self._per_position([block.softmax and field.name == self.label for block, field in pairs])

    @property
    def is_table(self) -> bool:
        """Whether all fields are table columns."""
        return len(self.table_columns) == len(self.fields)

    def columns_within(self, positions: NDArray[np.int64]) -> int:
        """Number of table columns with a value among `positions`."""
        return len(np.unique(self.column_of[positions[~self.item_positions[positions]]]))

    def field(self, name: str) -> Field:
        """The field of that name."""
        by_name = {field.name: field for field in self.fields}
        if name in by_name:
            return by_name[name]
        listed = ", ".join(list(by_name)[:12])
        raise UsageError(f"the domain has no field {name!r}{near(name, by_name)}; it has {listed}.")

    @classmethod
    def of_columns(cls, columns: Sequence[Column], **facts: Any) -> "Domain":
        """A domain of columns of all kinds, in order."""
        return cls(cast("tuple[Field, ...]", tuple(columns)), **facts)

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
        item: str | None = None,
        time: str | None = None,
        period: str | None = None,
    ) -> "Domain":
        """A draft from a frame of pandas, polars or pyarrow, as `dpgm inspect` makes one from a file.

        It states names and kinds of the columns but no person's values: ranges, bins and categories are left open,
        to be found privately. Kinds are inferred from the rows, so check them before you use the draft; the
        certificate says how they were chosen.

        Args:
            data: the frame.
            drop: columns to ignore.
            kinds: the kinds of columns, by name, that you want to state yourself.
            person: the column that identifies people; samples get fresh identifiers.
            item: for rows of events: the column of items, which become a sequence.
            time: the column of the times of events.
            period: the public period of the times, such as 2024-03-01..2024-03-31; that of the rows if not stated,
                which makes the domain a draft to be corrected.
        """
        from dpgm.data.inspection import draft_frame

        named = {"person": person, "item": item, "time": time, "period": period}
        return draft_frame(data, drop=drop, kinds=kinds, **named)

    def _repr_html_(self) -> str:
        return html_table(
            f"Domain: {counted(len(self.fields), 'field')}", ((one.name, one.kind) for one in self.columns)
        )


def open_numbers(domain: Domain) -> list[OpenNumber]:
    """The numbers and dates of a domain whose range, popular values and bins are to be found."""
    return [number for field in domain.fields if (number := field.open_number) is not None]
