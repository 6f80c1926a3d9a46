"""`Categorical`: one of a list of values per row."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpgm.arrays import Codes
from dpgm.data.arrow import Array, DataType, Table, pa, pc
from dpgm.data.items import Items, KnownItems, flat_column
from dpgm.data.kinds.base import Cells, CellStyle, Column, Field, FieldReader, Rng, label_array
from dpgm.data.labels import OTHER, Label, checked_labels
from dpgm.data.open_columns import CodeColumn
from dpgm.data.values import Place, as_texts, in_column, is_text
from dpgm.data.vocabulary import Vocabulary
from dpgm.errors import InputError
from dpgm.validation import counted

if TYPE_CHECKING:
    from dpgm.data.inspect.seen import Seen


@dataclass(frozen=True)
class Categorical(Field):
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

    kind: ClassVar[str] = "categorical"
    draft_kinds: ClassVar[tuple[str, ...]] = ("categorical",)
    lists_values: ClassVar[bool] = True
    may_leave_gaps: ClassVar[bool] = True
    list_key: ClassVar[str | None] = "values"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.other and self.discover:
            raise self._error("leave out `other` if you say `discover: true`, which adds it where needed")
        listed = self.values or ((OTHER,) if self.other else ())
        values = checked_labels(self.name, listed, "values", self.discover)
        if self.other and isinstance(values[0], int):
            raise self._error("`other: true` is for texts; quote the numbers")
        self._set("values", (*values, OTHER) if self.other and OTHER not in values else values)
        self._set("missing", self.missing or self.discover)

    @property
    def _value_count(self) -> int | None:
        return None if self.discover else len(self.values)

    @property
    def labels(self) -> list[str]:
        """The values as texts."""
        return [str(value) for value in self.values]

    @property
    def has_other(self) -> bool:
        """Whether the value `(other)` stands for values that are not listed."""
        return self.other

    @property
    def _unstated_missing(self) -> bool:
        return self.discover

    # -- reading and writing ---------------------------------------------------------------------------------------

    def reader(self, style: CellStyle, others: Mapping[str, Field]) -> FieldReader:
        """Reads any column as texts; an unknown value is `(other)` or missing if the field has that, else an error."""
        items: Items = Vocabulary() if self.is_open else KnownItems(self.values, negative=True)

        def read(table: Table, place: Place) -> CodeColumn:
            column, where = flat_column(table, self.name), in_column(place, self.name)
            codes = self._codes(column, items, style, where)
            return CodeColumn(codes.astype(np.int32), items if isinstance(items, Vocabulary) else None)

        return read

    def _codes(self, column: Array, items: Items, style: CellStyle, where: Place) -> Codes:
        texts = as_texts(column, where)
        if style.strip_suffix:
            suffix = re.escape(style.strip_suffix) + "$"
            texts = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), suffix, "")
        if isinstance(items, Vocabulary):
            readable = pc.invert(_are_missing(texts, style))
        elif items.integers:
            digits = pc.match_substring_regex(pc.utf8_trim_whitespace(texts), r"^-?[0-9]{1,18}$")
            readable = pc.fill_null(digits, False)
        else:
            readable = texts.is_valid()  # the domain may list a text for "missing" as a value
        codes = np.full(len(texts), -1, dtype=np.int64)
        codes[readable.to_numpy(zero_copy_only=False)] = items.from_texts(texts.filter(readable), where)
        unknown = codes < 0
        if isinstance(items, Vocabulary) or not unknown.any():
            return codes
        missing = _are_missing(texts, style).to_numpy(zero_copy_only=False)
        if self.other:
            codes[unknown & ~missing] = self.values.index(OTHER)
            unknown &= missing
        if unknown.any() and not self.missing:
            row = int(np.argmax(unknown))
            fault = "missing" if missing[row] else "not one of those the domain lists"
            listing = "" if missing[row] else "list the value if it is public, or "
            advice = f"correct the file, or {listing}give the field `missing: true`"
            raise InputError(f"{where(row)}: the value is {fault}; {advice}.")
        codes[unknown] = len(self.values)
        return codes

    def drawn(self, cells: Cells, rng: Rng) -> Array:
        """The values."""
        codes, missing = cells.single(len(self.values))
        return label_array(self.values).take(pa.array(codes, mask=missing))

    # -- discovery and drafts --------------------------------------------------------------------------------------

    @property
    def finds_labels(self) -> bool:
        """Whether the values are to be found."""
        return self.discover

    def with_labels(self, labels: tuple[Label, ...], *, other: bool) -> "Categorical":
        """The values that were found; the rest is `(other)` where they are texts."""
        texts = not labels or isinstance(labels[0], str)
        return Categorical(self.name, labels, missing=True, other=texts and other)

    @classmethod
    def of_type(cls, name: str, kind: DataType) -> Column | None:
        """Texts."""
        return cls(name, discover=True) if is_text(kind) else None

    @classmethod
    def recognised(cls, seen: "Seen") -> tuple[str, str] | None:
        """Codes with leading zeros, and texts of which many are equal."""
        if seen.looks == "codes":
            found = "codes with leading zeros; those that many people have are found privately"
            return "categorical", f"{found} (a number: {seen.option_of('integer')})"
        return "categorical", f"categories{seen.constant}; values that many people have are found privately"

    @classmethod
    def drafted(cls, seen: "Seen", word: str) -> "Categorical":
        """With its values left open."""
        return cls(seen.name, discover=True)

    def described(self) -> str:
        """How many values there are."""
        return f"{counted(len(self.values), 'value')}{', may be missing' if self.missing else ''}"


def _are_missing(texts: Any, style: CellStyle) -> Any:
    return pc.is_in(pc.utf8_trim_whitespace(texts), value_set=pa.array([None, *style.missing], type=pa.string()))
