"""`ItemSet`: any number of items per row; and what it shares with images, which are item sets with a shape."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpgm.data.arrow import Array, DataType, pa, pc
from dpgm.data.items import (
    Items,
    KnownItems,
    cell_lists,
    flat_column,
    is_list,
    set_codes,
)
from dpgm.data.kinds.base import Cells, CellStyle, Column, ColumnKind, Field, FieldReader, Recoder, Rng, lists_of
from dpgm.data.labels import Label, checked_labels
from dpgm.data.open_columns import OpenColumn, SetColumn
from dpgm.data.rows import row_pointers, sort_rows
from dpgm.data.values import Place, in_column, object_lists
from dpgm.data.vocabulary import Vocabulary, drop_negative
from dpgm.errors import UsageError
from dpgm.validation import counted

if TYPE_CHECKING:
    from dpgm.data.inspect.seen import Seen

# The width that a plan assumes for a list of items that is not known yet: retail and web data have some hundred.
NOMINAL_ITEMS = 300
_MARKS = 8  # characters between items


class SetField(Field):
    """Base class of fields with any number of positions per record, each of them an item."""

    holds_lists: ClassVar[bool] = True
    compared_as: ClassVar[ColumnKind | None] = None
    items: Sequence[Label]
    separator: str | None = None

    @property
    def as_set(self) -> "SetField":
        """The field itself."""
        return self

    @property
    def labels(self) -> list[str]:
        """The items as texts."""
        return [str(item) for item in self.items]

    def known_items(self) -> Items:
        """The items that are listed, or a vocabulary of those that will occur."""
        return Vocabulary() if self.is_open else KnownItems(self.items)

    def reader(self, style: CellStyle, others: Mapping[str, Field]) -> FieldReader:
        """Reads lists of items, or texts with items; items that are not listed are dropped silently."""
        read = self.cells_reader(style, self.known_items())
        return lambda table, place: read(flat_column(table, self.name), in_column(place, self.name))

    def cells_reader(
        self, style: CellStyle, items: Items, *, single: bool = False
    ) -> Callable[[Array, Place], SetColumn]:
        """Reads cells of a column in codes of `items`, part by part; with `single` a text may also be one item."""
        separator = self.separator if style.item_separator is None else style.item_separator
        vocabulary = items if isinstance(items, Vocabulary) else None

        def read(column: Array, where: Place) -> SetColumn:
            lists = (
                cell_lists(column, separator, where, items if single else None)
                if pa.types.is_string(column.type)
                else column
            )
            codes, lengths = set_codes(lists, items, where)
            width = self.width if vocabulary is None else max(len(vocabulary), 1)
            indptr, codes = sort_rows(row_pointers(lengths), codes, width)
            return SetColumn(indptr, codes.astype(np.int32), vocabulary)

        return read

    def from_objects(self, values: Sequence[Any], place: Place) -> Array:
        """Lists of items, of which some may be written as JSON texts."""
        return object_lists([_listed(value) for value in values], place)

    def drawn(self, cells: Cells, rng: Rng) -> Array:
        """Lists of items."""
        return lists_of(cells.codes, cells.offsets, self.items)

    def recoder(self, column: OpenColumn, fallback: int | None) -> Recoder:
        """Items that are not published are dropped."""
        position_of = self.positions_in(column.vocabulary)

        def recode(part: SetColumn) -> SetColumn:
            codes: Any = part.codes if position_of is None else position_of[part.codes]
            codes, lengths = drop_negative(codes, np.diff(part.indptr))
            return SetColumn(row_pointers(lengths), codes.astype(np.int32))

        return recode


@dataclass(frozen=True)
class ItemSet(SetField):
    """Any subset of `items`; one Bernoulli output per item.

    With `discover` the items are not listed: those that occur in many records are found privately. `separator` is the
    text between the items of a cell in text files and sheets; without it a cell is a JSON list.
    """

    items: tuple[Label, ...] = ()
    discover: bool = False
    separator: str | None = field(default=None, compare=False)

    kind: ClassVar[str] = "items"
    draft_kinds: ClassVar[tuple[str, ...]] = ("items",)
    lists_values: ClassVar[bool] = True
    list_key: ClassVar[str | None] = "items"
    may_identify: ClassVar[bool] = True
    _nominal_count: ClassVar[int] = NOMINAL_ITEMS

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("items", checked_labels(self.name, self.items, "items", self.discover))
        check_items(self.name, self.items, self.separator)

    @property
    def _value_count(self) -> int | None:
        return None if self.discover else len(self.items)

    @property
    def _value_names(self) -> list[str]:
        return self.labels

    @property
    def finds_labels(self) -> bool:
        """Whether the items are to be found."""
        return self.discover

    def with_labels(self, labels: tuple[Label, ...], *, other: bool) -> "ItemSet":
        """The item set of the items that were found; others are dropped."""
        return ItemSet(self.name, labels, separator=self.separator)

    def as_cells(self, column: Array) -> Array | None:
        """Items joined by the separator, where one is stated and no item would be read as another."""
        return joined_cells(self, column)

    def with_separator(self, separator: str) -> "ItemSet":
        """The item set with this text between items."""
        return replace(self, separator=separator)

    @classmethod
    def of_type(cls, name: str, kind: DataType) -> "Column | None":
        """Lists."""
        return cls(name, discover=True) if is_list(kind) else None

    @classmethod
    def recognised(cls, seen: "Seen") -> tuple[str, str] | None:
        """Lists."""
        return ("items", "lists of items, found privately") if seen.looks == "list" else None

    @classmethod
    def drafted(cls, seen: "Seen", word: str) -> "ItemSet":
        """With its items left open."""
        return cls(seen.name, discover=True)

    def described(self) -> str:
        """How many items there are."""
        return counted(self.width, "item")


def joined_cells(field: SetField, column: Array) -> Array | None:
    """Lists of items as cells with the separator of a field between them; None if there is none that does."""
    mark = field.separator
    if mark is None or any(mark in label or label != label.strip() for label in field.labels):
        return None
    return pc.binary_join(column.cast(pa.list_(pa.string())), mark)


def check_items(name: str, items: Sequence[Label], separator: object) -> None:
    """Raise unless item numbers and the text between items are what they may be."""
    if items and isinstance(items[0], int) and min(items) < 0:  # type: ignore[type-var, operator]
        raise UsageError(f"field {name!r}: item numbers must not be negative.")
    if separator is not None and not (isinstance(separator, str) and 0 < len(separator) <= _MARKS):
        raise UsageError(f"field {name!r}: separator must be a text of 1 to {_MARKS} characters.")


def _listed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else None
    except (ValueError, RecursionError):
        return value  # refused later, with its row
