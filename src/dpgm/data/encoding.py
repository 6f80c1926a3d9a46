"""Encoding: Arrow tables with one column per field as records of a domain (`decoding` goes back).

Every row is encoded by itself. A number outside its range is clamped, an item outside an item set is dropped silently,
and an unknown category counts as `(other)` or missing if the field has that, and is an error otherwise. For an open
domain the result is `OpenRecords` with raw columns.
"""

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpgm.data.domain import (
    Boolean,
    Categorical,
    Date,
    DateTime,
    Domain,
    Field,
    Image,
    ItemSet,
    Numeric,
    ShapedNumber,
)
from dpgm.data.fields import OTHER, Codes
from dpgm.data.items import Items, KnownItems, cell_lists, flat_column, set_codes
from dpgm.data.number_bins import bin_of, shaped_codes, times_since
from dpgm.data.number_fields import SECONDS, NumberFormat
from dpgm.data.open_records import (
    CodeColumn,
    NumberColumn,
    OpenRecords,
    RawColumn,
    SetColumn,
    Vocabulary,
    join_fields,
)
from dpgm.data.records import Records, row_pointers, sort_rows
from dpgm.data.values import Place, as_texts, floats, in_column, refuse_first, seconds_of
from dpgm.errors import InputError

# How files write booleans.
TRUTH = {"true": 1, "false": 0, "t": 1, "f": 0, "yes": 1, "no": 0, "y": 1, "n": 0, "1": 1, "0": 0}
_Number: TypeAlias = Numeric | Date | DateTime | ShapedNumber


def numbered_row(row: int) -> str:
    """The place of a row in messages, for tables that are not read from a file."""
    return f"row {row + 1}"


class TableEncoder:
    """Encodes tables, one after the other, as records of one domain.

    `missing` are texts that stand for a missing value, besides those of the domain, `strip_suffix` is cut off
    categories, and `item_separator` separates the items in cells of text.
    """

    def __init__(
        self,
        domain: Domain,
        missing: Sequence[str] = (),
        strip_suffix: str = "",
        item_separator: str | None = None,
    ) -> None:
        self.domain = domain
        self._item_separator = item_separator
        self._missing = ("", *missing, *domain.missing_texts)
        self._suffix = strip_suffix
        self._items: dict[str, Items] = {
            field.name: _items_of(field)
            for field in domain.fields
            if isinstance(field, (ItemSet, Image, Categorical))
        }

    def encode(self, table: pa.Table, place: Place = numbered_row) -> Records:
        """The records of a table; columns that the domain does not name are ignored."""
        names = set(table.column_names)
        for field in self.domain.fields:
            if field.name not in names:
                raise InputError(
                    f"{place(0)}: there is no column {field.name!r}, which the domain names; correct the domain"
                    " or the file."
                )
        encoded = [self._encoded(field, table, place) for field in self.domain.fields]
        if self.domain.is_open:
            raw = [self._raw(field, *one) for field, one in zip(self.domain.fields, encoded, strict=True)]
            return OpenRecords.of(self.domain, table.num_rows, raw)
        parts = [(one + at, lengths) for (one, lengths), at in zip(encoded, self.domain.offsets, strict=True)]
        return join_fields(parts, table.num_rows, self.domain)

    def _encoded(
        self, field: Field, table: pa.Table, place: Place
    ) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
        """Positions within the field, and for item sets the number of them per record.

        For open fields, codes of a vocabulary (-1 if missing) or ticks (NaN if missing).
        """
        column, where = flat_column(table, field.name), in_column(place, field.name)
        if isinstance(field, (ItemSet, Image)):
            is_text = pa.types.is_string(column.type)
            separator = getattr(field, "separator", None) if self._item_separator is None else self._item_separator
            lists = cell_lists(column, separator, where) if is_text else column
            return set_codes(lists, self._items[field.name], where)
        if isinstance(field, Boolean):
            return self._booleans(field, column, where), None
        if isinstance(field, Categorical):
            return self._categories(field, column, where), None
        if isinstance(field, Numeric) and not field.is_open:
            values, missing = self._numbers(field, field.format, column, where)
            return np.where(missing, field.width - 1, bin_of(field, values)), None
        ticks = self._modelled_ticks(field, table, place)
        if not isinstance(field, ShapedNumber):
            return ticks, None
        codes = shaped_codes(field, ticks)
        return np.where(codes < 0, field.width - 1, codes), None

    def _raw(self, field: Field, values: NDArray[Any], lengths: NDArray[np.int64] | None) -> RawColumn:
        """A column of an open domain, from what `_encoded` returned."""
        if isinstance(field, (Numeric, Date, DateTime)) and field.is_open:
            return NumberColumn(values)
        items = self._items.get(field.name)
        vocabulary = items if isinstance(items, Vocabulary) else None
        if lengths is None:
            return CodeColumn(values.astype(np.int32), vocabulary)
        width = len(vocabulary) if vocabulary is not None else field.width
        indptr, codes = sort_rows(row_pointers(lengths), values, max(width, 1))
        return SetColumn(indptr, codes.astype(np.int32), vocabulary)

    def _modelled_ticks(self, field: _Number, table: pa.Table, place: Place) -> NDArray[np.float64]:
        """The ticks that are modelled, NaN if missing: of the value itself, or of the time since the date `after`."""
        if isinstance(field, Numeric) or field.after is None:
            return self._ticks(field, field.format, table, place)
        base: Any = self.domain.field(field.after)
        base_ticks = self._ticks(base, base.format, table, place)
        return times_since(field, self._ticks(field, base.format, table, place), base_ticks)

    def _ticks(self, field: _Number, format: NumberFormat, table: pa.Table, place: Place) -> NDArray[np.float64]:
        """The ticks of a column of numbers or dates, NaN if missing."""
        column, where = flat_column(table, field.name), in_column(place, field.name)
        if format.kind in ("date", "datetime"):
            seconds, missing = seconds_of(column, where, self._missing, getattr(field, "pattern", None))
            ticks = np.floor(seconds / SECONDS[format.unit])
            _refuse_missing(field, missing, where)
        else:
            values, missing = self._numbers(field, format, column, where)
            ticks = format.ticks(values)
        return np.where(missing, np.nan, ticks)

    def _numbers(
        self, field: _Number, format: NumberFormat, column: pa.Array, where: Place
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The numbers of a column (0 if missing), and a mask of the missing ones."""
        values, missing = floats(column, where, self._missing)
        # A discovered field rounds its numbers; only a curator's statement that they are whole is checked.
        if format.kind == "integer" and not isinstance(field, ShapedNumber):
            message = "the value is not a whole number; correct the file or the domain."
            refuse_first(values != np.floor(values), where, message)
        _refuse_missing(field, missing, where)
        return values, missing

    def _booleans(self, field: Boolean, column: pa.Array, where: Place) -> Codes:
        texts = [None if text is None else text.strip() for text in as_texts(column, where).to_pylist()]
        words = () if field.words is None else zip(field.words, (1, 0), strict=True)
        truth = TRUTH | {word.lower(): value for word, value in words}
        coded = (2 if text is None or text in self._missing else truth.get(text.lower(), -1) for text in texts)
        codes = np.fromiter(coded, dtype=np.int64, count=len(texts))
        message = (
            "the value is not true or false (yes/no, 1/0 do as well); correct the file, say how both are written in"
            " the domain (such as `written: ja/nein`), or make the field categorical."
        )
        refuse_first(codes < 0, where, message)
        _refuse_missing(field, codes == 2, where)
        return codes

    def _categories(self, field: Categorical, column: pa.Array, where: Place) -> Codes:
        texts = as_texts(column, where)
        if self._suffix:
            texts = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), re.escape(self._suffix) + "$", "")
        items = self._items[field.name]
        if isinstance(items, Vocabulary):
            readable = pc.invert(self._are_missing(texts))
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
        missing = self._are_missing(texts).to_numpy(zero_copy_only=False)
        if field.other:
            codes[unknown & ~missing] = field.values.index(OTHER)
            unknown &= missing
        if unknown.any() and not field.missing:
            row = int(np.argmax(unknown))
            fault = "missing" if missing[row] else "not one of those the domain lists"
            listing = "" if missing[row] else "list the value if it is public, or "
            advice = f"correct the file, or {listing}give the field `missing: true`"
            raise InputError(f"{where(row)}: the value is {fault}; {advice}.")
        codes[unknown] = len(field.values)
        return codes

    def _are_missing(self, texts: pa.Array) -> pa.Array:
        return pc.is_in(
            pc.utf8_trim_whitespace(texts), value_set=pa.array([None, *self._missing], type=pa.string())
        )


def _items_of(field: ItemSet | Image | Categorical) -> Items:
    if field.is_open:
        return Vocabulary()
    return KnownItems(field.values, negative=True) if isinstance(field, Categorical) else KnownItems(field.items)


def _refuse_missing(field: Boolean | _Number, missing: NDArray[np.bool_], where: Place) -> None:
    """Raise if values are missing in a field that allows none."""
    if field.missing is not False:
        return
    advice = "correct the file, or give the field `missing: true`"
    if isinstance(field, ShapedNumber):
        advice = (
            "the fit has found too few such rows to model them; to compare the data with a sample, give `dpgm.evaluate`"
            " the frame or the file itself"
        )
    refuse_first(missing, where, f"the value is missing; {advice}.")
