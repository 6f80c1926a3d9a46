"""Tables of one column per field, encoded to records and decoded back.

Encoding is record by record: a value outside a numeric range is clamped to it, an item outside an item set is
dropped silently, an unknown category counts as missing where the domain has `missing: true` and is an error
otherwise. Of an open domain the columns are kept raw (`OpenRecords`) until it is closed. Decoding draws a number
within its bin: uniformly, or by the fine histogram that a closed domain holds.
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
    Identifier,
    Image,
    ItemSet,
    Label,
    Numeric,
    ShapedNumber,
)
from dpgm.data.fields import OTHER
from dpgm.data.items import Items, KnownItems, cell_lists, flat_column, set_codes
from dpgm.data.number_bins import bin_of, draw_in_bin, draw_shaped, shaped_codes
from dpgm.data.number_fields import SECONDS, NumberFormat
from dpgm.data.open_records import (
    CodeColumn,
    Codes,
    NumberColumn,
    OpenRecords,
    RawColumn,
    SetColumn,
    Vocabulary,
    join_fields,
)
from dpgm.data.records import Records, row_pointers, sort_rows
from dpgm.data.values import Place, as_texts, floats, in_column, seconds_of
from dpgm.errors import InputError

_Number: TypeAlias = Numeric | Date | DateTime | ShapedNumber


def numbered_row(row: int) -> str:
    """Where a row is, for sources that know no file."""
    return f"row {row + 1}"


class TableEncoder:
    """Encodes table after table of one domain; look-ups are prepared once."""

    def __init__(
        self,
        domain: Domain,
        missing: Sequence[str] = (),
        strip_suffix: str = "",
        item_separator: str | None = None,
    ) -> None:
        self.domain = domain
        self._item_separator = item_separator
        self._missing = ("", *missing)
        self._suffix = strip_suffix
        self._items: dict[str, Items] = {
            field.name: _items_of(field)
            for field in domain.fields
            if isinstance(field, (ItemSet, Image, Categorical))
        }

    def encode(self, table: pa.Table, place: Place = numbered_row) -> Records:
        """The records of a table; columns that the domain does not name are left out."""
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
        """Positions within the field, and of sets how many each record has; ticks where bins are still to be found.

        In an open field -1 stands for a missing value.
        """
        column, where = flat_column(table, field.name), in_column(place, field.name)
        if isinstance(field, (ItemSet, Image)):
            is_text = pa.types.is_string(column.type)
            lists = cell_lists(column, self._item_separator, where) if is_text else column
            return set_codes(lists, self._items[field.name], where)
        if isinstance(field, Boolean):
            return self._booleans(field, column, where), None
        if isinstance(field, Categorical):
            return self._categories(field, column, where), None
        if isinstance(field, Numeric) and not field.is_open:
            values, missing = self._numbers(field, field.format, column, where)
            return np.where(missing, field.width - 1, bin_of(field, values)), None
        ticks = self._modelled(field, table, place)
        if not isinstance(field, ShapedNumber):
            return ticks, None
        codes = shaped_codes(field, ticks)
        return np.where(codes < 0, field.width - 1, codes), None

    def _raw(self, field: Field, values: NDArray[Any], lengths: NDArray[np.int64] | None) -> RawColumn:
        """A column of an open domain: as it stands where the field is open, in positions where it is closed."""
        if isinstance(field, (Numeric, Date, DateTime)) and field.is_open:
            return NumberColumn(values)
        known = self._items.get(field.name)
        private = known if isinstance(known, Vocabulary) else None
        if lengths is None:
            return CodeColumn(values.astype(np.int32), private)
        width = len(private) if private is not None else field.width
        indptr, codes = sort_rows(row_pointers(lengths), values, max(width, 1))
        return SetColumn(indptr, codes.astype(np.int32), private)

    def _modelled(self, field: _Number, table: pa.Table, place: Place) -> NDArray[np.float64]:
        """What is modelled of a number or date, in ticks: itself, or the time since the date it comes after."""
        if isinstance(field, Numeric) or field.after is None:
            return self._ticks(field, field.format, table, place)
        base: Any = self.domain.field(field.after)
        since = self._ticks(base, base.format, table, place)
        return self._ticks(field, base.format, table, place) - since  # NaN where either is missing

    def _ticks(self, field: _Number, format: NumberFormat, table: pa.Table, place: Place) -> NDArray[np.float64]:
        """Ticks of a column of numbers or dates, NaN where missing."""
        column, where = flat_column(table, field.name), in_column(place, field.name)
        if format.kind in ("date", "datetime"):
            seconds, missing = seconds_of(column, where, self._missing, getattr(field, "pattern", None))
            ticks = np.floor(seconds / SECONDS[format.unit if format.kind == "datetime" else "day"])
            _refuse_missing(field, missing, where)
        else:
            values, missing = self._numbers(field, format, column, where)
            ticks = format.ticks(values)
        return np.where(missing, np.nan, ticks)

    def _numbers(
        self, field: _Number, format: NumberFormat, column: pa.Array, where: Place
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The numbers of a column (0 where missing), and which are missing."""
        values, missing = floats(column, where, self._missing)
        stated = not isinstance(field, ShapedNumber)  # that numbers are whole; else a fit has found it, and rounds
        if stated and format.kind == "integer" and not np.array_equal(values, np.floor(values)):
            row = int(np.argmax(values != np.floor(values)))
            raise InputError(f"{where(row)}: the value is not a whole number; correct the file or the domain.")
        _refuse_missing(field, missing, where)
        return values, missing

    def _booleans(self, field: Boolean, column: pa.Array, where: Place) -> Codes:
        texts = [None if text is None else text.strip() for text in as_texts(column, where).to_pylist()]
        known = (2 if text is None or text in self._missing else TRUTH.get(text.lower(), -1) for text in texts)
        codes = np.fromiter(known, dtype=np.int64, count=len(texts))
        if (codes < 0).any():
            raise InputError(
                f"{where(int(np.argmin(codes)))}: the value is not true or false (yes/no, 1/0 do as well); correct the"
                " file, or make the field categorical."
            )
        _refuse_missing(field, codes == 2, where)
        return codes

    def _categories(self, field: Categorical, column: pa.Array, where: Place) -> Codes:
        texts = as_texts(column, where)
        if self._suffix:
            texts = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), re.escape(self._suffix) + "$", "")
        known = self._items[field.name]
        readable = texts.is_valid()
        if isinstance(known, Vocabulary):  # a token for "missing" that a domain lists as a value is that value
            tokens = pa.array(self._missing, type=pa.string())
            readable = pc.and_not(readable, pc.is_in(pc.utf8_trim_whitespace(texts), value_set=tokens))
        elif isinstance(known, KnownItems) and known.integers:
            is_integer = pc.match_substring_regex(pc.utf8_trim_whitespace(texts), r"^-?[0-9]{1,18}$")
            readable = pc.fill_null(is_integer, False)
        codes = np.full(len(texts), -1, dtype=np.int64)
        codes[readable.to_numpy(zero_copy_only=False)] = known.from_texts(texts.filter(readable), where)
        unknown = codes < 0
        if isinstance(known, Vocabulary) or not unknown.any():
            return codes
        if field.other:
            present = pc.invert(
                pc.is_in(pc.utf8_trim_whitespace(texts), value_set=pa.array([None, *self._missing]))
            )
            codes[unknown & present.to_numpy(zero_copy_only=False)] = field.values.index(OTHER)
            unknown = codes < 0
            if not unknown.any():
                return codes
        if not field.missing:
            row = int(np.argmax(unknown))
            is_missing = not texts[row].is_valid or texts[row].as_py().strip() in self._missing
            fault = "missing" if is_missing else "not one of those the domain lists"
            listing = "" if is_missing else "list the value if it is public, or "
            advice = f"correct the file, or {listing}give the field `missing: true`"
            raise InputError(f"{where(row)}: the value is {fault}; {advice}.")
        codes[unknown] = len(field.values)
        return codes


# How files write booleans; the last position stands for missing.
TRUTH = {"true": 1, "false": 0, "t": 1, "f": 0, "yes": 1, "no": 0, "y": 1, "n": 0, "1": 1, "0": 0}


def _items_of(field: ItemSet | Image | Categorical) -> Items:
    if field.is_open:
        return Vocabulary()
    return KnownItems(field.values, negative=True) if isinstance(field, Categorical) else KnownItems(field.items)


def _refuse_missing(field: Boolean | _Number, missing: NDArray[np.bool_], where: Place) -> None:
    """Refuse missing values of a field that has none."""
    if field.missing is not False or not missing.any():
        return
    advice = "correct the file, or give the field `missing: true`"
    if isinstance(field, ShapedNumber):
        advice = (
            "the fit has found too few such rows to model them; to compare the data with a sample, give `dpgm.evaluate`"
            " the frame or the file itself"
        )
    raise InputError(f"{where(int(np.argmax(missing)))}: the value is missing; {advice}.")


def decode(records: Records, *, rng: np.random.Generator) -> pa.Table:
    """A table of one column per field: lists of labels, a category, a number drawn within its bin, a fresh id."""
    if records.decoded is not None:
        return records.decoded
    domain, columns = records.domain, {}
    ticks: dict[str, tuple[NDArray[np.float64], NDArray[np.bool_]]] = {}  # numbers, and where they are missing
    rows = np.repeat(np.arange(len(records)), records.lengths)
    for field, block in zip(domain.fields, domain.blocks, strict=True):
        inside = slice(None)
        if len(domain.fields) > 1:
            inside = (records.indices >= block.start) & (records.indices < block.stop)  # type: ignore[assignment]
        codes = records.indices[inside].astype(np.int64) - block.start
        if isinstance(field, (ItemSet, Image)):
            offsets = row_pointers(np.bincount(rows[inside], minlength=len(records)))
            columns[field.name] = _lists(field, codes, offsets)
            continue
        chosen = np.full(len(records), -1, dtype=np.int64)
        chosen[rows[inside]] = codes
        absent = (chosen < 0) | (chosen >= field.width - bool(field.missing))
        chosen = np.where(absent, 0, chosen)
        if isinstance(field, ShapedNumber):
            ticks[field.name] = draw_shaped(field, chosen, rng), absent
        else:
            columns[field.name] = _one_value(field, chosen, absent, rng)
    for field in domain.fields:
        if isinstance(field, ShapedNumber):
            (values, absent), format = ticks[field.name], field.format
            if field.after is not None:
                since, without = ticks[field.after]
                base: Any = domain.field(field.after)
                values, absent, format = values + since, absent | without, base.format
            columns[field.name] = _from_ticks(format, values, absent)
    for _, unread in domain.unread:
        if isinstance(unread, Identifier):
            columns[unread.name] = _fresh_identifiers(len(records), rng)
    return pa.table({column.name: columns[column.name] for column in domain.columns if column.name in columns})


def _fresh_identifiers(count: int, rng: np.random.Generator) -> pa.Array:
    """Sixteen hexadecimal digits each: no two alike, but with a chance of one in a million for ten million records."""
    drawn = rng.integers(0, 2**64, count, dtype=np.uint64)
    return pa.array([f"{number:016x}" for number in drawn.tolist()], type=pa.string())


def _lists(field: ItemSet | Image, codes: Codes, offsets: NDArray[np.int64]) -> pa.Array:
    """Lists of labels from codes row after row."""
    values = label_array(field.items).take(pa.array(codes))
    if offsets[-1] < 2**31:
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)
    return pa.LargeListArray.from_arrays(pa.array(offsets), values)


def label_array(labels: Sequence[Label]) -> pa.Array:
    """Labels as an Arrow array: texts, or integers of 32 bits where they fit."""
    if isinstance(labels[0], str):
        return pa.array(labels, type=pa.string())
    values = np.asarray(labels, dtype=np.int64)
    small = values.min() >= -(2**31) and values.max() < 2**31
    return pa.array(values.astype(np.int32) if small else values)


def _one_value(field: Field, codes: Codes, absent: NDArray[np.bool_], rng: np.random.Generator) -> pa.Array:
    if isinstance(field, Categorical):
        return label_array(field.values).take(pa.array(codes, mask=absent))
    if isinstance(field, Boolean):
        return pa.array(codes == 1, mask=absent)
    assert isinstance(field, Numeric)
    return pa.array(draw_in_bin(field, codes, rng), mask=absent)


def _from_ticks(format: NumberFormat, ticks: NDArray[np.float64], absent: NDArray[np.bool_]) -> pa.Array:
    """Values as users know them: whole numbers, decimals, reals, days or moments."""
    if format.kind == "real":
        return pa.array(ticks, mask=absent)
    if format.kind == "decimal":
        return pa.array(ticks / 10.0**format.decimals, mask=absent)
    integers = ticks.astype(np.int64)
    if format.kind == "integer":
        return pa.array(integers, mask=absent)
    if format.kind == "date":
        return pa.array(integers.astype(np.int32), type=pa.int32(), mask=absent).cast(pa.date32())
    return pa.array(integers * SECONDS[format.unit], mask=absent).cast(pa.timestamp("s"))
