"""Tables of one column a field, encoded to records and decoded back.

Encoding is record by record: a value outside a numeric range is clamped to it, an item outside an item set is
dropped silently, an unknown category counts as missing where the domain has `missing: true` and is an error
otherwise. Decoding draws a number uniformly within its bin.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpgm.data.columns import as_texts, flat_column, floats, parse_lists, set_codes
from dpgm.data.domain import Categorical, Domain, Field, Image, ItemSet, Label, Numeric
from dpgm.data.items import Codes, KnownItems, Place
from dpgm.data.records import Records
from dpgm.errors import InputError

if TYPE_CHECKING:
    import pyarrow


def numbered_row(row: int) -> str:
    """Where a row is, for sources that know no file."""
    return f"row {row + 1}"


class TableEncoder:
    """Encodes table after table of one domain; look-ups are prepared once."""

    def __init__(self, domain: Domain, missing: Sequence[str] = (), strip_suffix: str = "") -> None:
        self.domain = domain
        self._missing = ("", *missing)
        self._suffix = strip_suffix
        self._items = {
            field.name: KnownItems(field.values, negative=True)
            if isinstance(field, Categorical)
            else KnownItems(field.items)
            for field in domain.fields
            if not isinstance(field, Numeric)
        }

    def encode(self, table: "pyarrow.Table", place: Place = numbered_row) -> Records:
        """The records of a table; columns that the domain does not name are left out."""
        count = table.num_rows
        parts: list[tuple[Codes, NDArray[np.int64] | None]] = []
        total = np.zeros(count, dtype=np.int64)
        for field, offset in zip(self.domain.fields, self.domain.offsets, strict=True):
            if field.name not in table.column_names:
                raise InputError(
                    f"{place(0)}: there is no column {field.name!r}, which the domain names; correct the domain"
                    " or the file."
                )
            column = flat_column(table, field.name)
            if isinstance(field, (ItemSet, Image)):
                codes, lengths = self._sets(field, column, place)
                total += lengths
                parts.append((codes + offset, lengths))
            else:
                if isinstance(field, Numeric):
                    codes = self._numbers(field, column, place)
                else:
                    codes = self._categories(field, column, place)
                total += 1
                parts.append((codes + offset, None))
        starts = np.zeros(count, dtype=np.int64)
        np.cumsum(total[:-1], out=starts[1:])
        flat = np.empty(int(total.sum()), dtype=np.int64)
        for codes, several in parts:
            if several is None:
                flat[starts] = codes
                starts = starts + 1
            else:
                before = np.cumsum(several) - several
                flat[np.arange(len(codes)) + np.repeat(starts - before, several)] = codes
                starts = starts + several
        return Records.from_flat(flat, total, self.domain)

    def _sets(self, field: Field, column: "pyarrow.Array", place: Place) -> tuple[Codes, NDArray[np.int64]]:
        import pyarrow as pa

        where = _in_column(place, field.name)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = parse_lists(column, where)
        return set_codes(column, self._items[field.name], where)

    def _categories(self, field: Categorical, column: "pyarrow.Array", place: Place) -> Codes:
        import pyarrow as pa
        import pyarrow.compute as pc

        where = _in_column(place, field.name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        texts = as_texts(column, where)
        if self._suffix:
            texts = _strip_suffix(texts, self._suffix)
        known = self._items[field.name]
        # A token for "missing" that the domain lists as a value is that value.
        codes = np.full(len(texts), -1, dtype=np.int64)
        valid = texts.is_valid().to_numpy(zero_copy_only=False)
        present = texts.filter(valid)
        if known.integers:
            whole = pc.match_substring_regex(pc.utf8_trim_whitespace(present), r"^-?[0-9]{1,18}$")
            valid[valid] = whole.to_numpy(zero_copy_only=False)
            present = present.filter(whole)
        codes[valid] = known.from_texts(present, where)
        unknown = codes < 0
        if unknown.any():
            if not field.missing:
                row = int(np.argmax(unknown))
                gone = not texts[row].is_valid or texts[row].as_py().strip() in self._missing
                fault = "missing" if gone else "not one of those the domain lists"
                listing = "" if gone else "list the value if it is public, or "
                advice = f"correct the file, or {listing}give the field `missing: true`"
                raise InputError(f"{where(row)}: the value is {fault}; {advice}.")
            codes[unknown] = len(field.values)
        return codes

    def _numbers(self, field: Numeric, column: "pyarrow.Array", place: Place) -> Codes:
        where = _in_column(place, field.name)
        values, gone = floats(column, where, self._missing)
        if gone.any() and not field.missing:
            row = int(np.argmax(gone))
            raise InputError(
                f"{where(row)}: the value is missing; correct the file, or give the field `missing: true`."
            )
        codes = np.full(len(values), field.bins, dtype=np.int64)
        present = values[~gone]
        if field.integer and not np.array_equal(present, np.floor(present)):
            row = int(np.flatnonzero(~gone)[np.argmax(present != np.floor(present))])
            raise InputError(f"{where(row)}: the value is not a whole number; correct the file or the domain.")
        codes[~gone] = bin_of(field, present)
        return codes


def encode(table: "pyarrow.Table", domain: Domain, *, missing: Sequence[str] = ()) -> Records:
    """The records of a table with one column a field."""
    return TableEncoder(domain, missing).encode(table)


def bin_of(field: Numeric, values: NDArray[Any]) -> Codes:
    """The bin of every number, clamped to the field's range."""
    above = np.clip(values, field.low, field.high) - field.low
    if field.integer:
        whole: Codes = (above.astype(np.int64) * field.bins) // int(field.high - field.low + 1)
        return whole
    bins: Codes = np.floor(above * (field.bins / (field.high - field.low))).astype(np.int64)
    return np.clip(bins, 0, field.bins - 1)


def draw_in_bin(field: Numeric, bins: Codes, rng: np.random.Generator) -> NDArray[Any]:
    """A number of every bin, uniformly; whole numbers for an integer field."""
    if field.integer:
        span = int(field.high - field.low) + 1
        first = -((-bins * span) // field.bins)
        after = -((-(bins + 1) * span) // field.bins)
        return int(field.low) + rng.integers(first, after)
    step = (field.high - field.low) / field.bins
    values = field.low + (bins + rng.random(len(bins))) * step
    middle = field.low + (bins + 0.5) * step
    # Rounding may push a draw over the edge of its bin; the middle never is.
    return np.where(bin_of(field, values) == bins, values, middle)


def decode(records: Records, *, rng: np.random.Generator) -> "pyarrow.Table":
    """A table of one column a field: lists of labels, a category, a number drawn within its bin."""
    import pyarrow as pa

    if records.decoded is not None:
        return records.decoded
    columns = {}
    rows = np.repeat(np.arange(len(records)), records.lengths)
    for field, block in zip(records.domain.fields, records.domain.blocks, strict=True):
        inside = slice(None)
        if len(records.domain.fields) > 1:
            inside = (records.indices >= block.start) & (records.indices < block.stop)  # type: ignore[assignment]
        codes = records.indices[inside].astype(np.int64) - block.start
        if isinstance(field, (ItemSet, Image)):
            offsets = np.zeros(len(records) + 1, dtype=np.int64)
            np.cumsum(np.bincount(rows[inside], minlength=len(records)), out=offsets[1:])
            columns[field.name] = list_array(field, codes, offsets)
        else:
            chosen = np.full(len(records), -1, dtype=np.int64)
            chosen[rows[inside]] = codes
            columns[field.name] = _one_value(field, chosen, rng)
    return pa.table(columns)


def list_array(field: ItemSet | Image, codes: Codes, offsets: NDArray[np.int64]) -> "pyarrow.Array":
    """Lists of labels from codes row after row."""
    import pyarrow as pa

    values = label_array(field.items).take(pa.array(codes))
    if offsets[-1] < 2**31:
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)
    return pa.LargeListArray.from_arrays(pa.array(offsets), values)


def label_array(labels: Sequence[Label]) -> "pyarrow.Array":
    """Labels as an Arrow array: texts, or integers of 32 bits where they fit."""
    import pyarrow as pa

    if isinstance(labels[0], str):
        return pa.array(labels, type=pa.string())
    values = np.asarray(labels, dtype=np.int64)
    small = values.min() >= -(2**31) and values.max() < 2**31
    return pa.array(values.astype(np.int32) if small else values)


def _one_value(field: Categorical | Numeric, chosen: Codes, rng: np.random.Generator) -> "pyarrow.Array":
    import pyarrow as pa

    absent = (chosen < 0) | (chosen >= field.width - field.missing)
    codes = np.where(absent, 0, chosen)
    if isinstance(field, Categorical):
        return label_array(field.values).take(pa.array(codes, mask=absent))
    return pa.array(draw_in_bin(field, codes, rng), mask=absent)


def _strip_suffix(texts: "pyarrow.Array", suffix: str) -> "pyarrow.Array":
    import pyarrow.compute as pc

    return pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), re.escape(suffix) + "$", "")


def _in_column(place: Place, name: str) -> Place:
    return lambda row: f"{place(row)}, column {name!r}"
