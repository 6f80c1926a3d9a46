"""Item labels to codes: looked up in a public list or numbered as they occur; and reading columns that hold items.

The code -1 means "drop silently", because counting or naming labels outside the public list would reveal something
about the rows.
"""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Codes
from dpgm.data.arrow import Array, DataType, Table, pa, pc
from dpgm.data.labels import MAX_LABEL_BYTES, MAX_WIDTH, Label
from dpgm.data.values import Place, as_texts, is_text, object_lists, plain_column, refuse_first
from dpgm.data.vocabulary import LOOKUP_LIMIT, Vocabulary, drop_negative
from dpgm.errors import InputError

_NEGATIVE = "item numbers must not be negative; correct the file."
_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def escape_formula(label: str) -> str:
    """A label as written to CSV, with an apostrophe in front if a spreadsheet would run it as a formula.

    >>> escape_formula("=1+1"), escape_formula("plain")
    ("'=1+1", 'plain')
    """
    return "'" + label if _FORMULA.match(label) else label


def plain_name(name: str) -> str:
    """A column name without the apostrophe added by `escape_formula`."""
    return name[1:] if name.startswith("'") and escape_formula(name[1:]) == name else name


def natural_labels(texts: Sequence[str]) -> list[Label]:
    """Integers if all texts are 64-bit whole numbers without sign or leading zeros; otherwise the texts.

    >>> natural_labels(["5", "12"]), natural_labels(["5", "012"])
    ([5, 12], ['5', '012'])
    """
    numeric = all(
        text.isascii() and text.isdigit() and len(text) < 20 and str(int(text)) == text and int(text) < 2**63
        for text in texts
    )
    return [int(text) for text in texts] if numeric else list(texts)


class KnownItems:
    """A public list of labels, by which labels become codes.

    Negative numbers are refused unless `negative` is set, as for values of categories.
    """

    def __init__(self, labels: Sequence[Label], *, negative: bool = False) -> None:
        self.labels = labels
        self._negative = negative
        self.integers = isinstance(labels[0], int)
        if self.integers:
            numbers = np.asarray(labels, dtype=np.int64)
            self._table: NDArray[np.int64] | None = None  # codes of numbers; the last entry is always -1
            if numbers.min() >= 0 and numbers.max() < LOOKUP_LIMIT:
                self._table = np.full(int(numbers.max()) + 2, -1, dtype=np.int64)
                self._table[numbers] = np.arange(len(numbers))

    @cached_property
    def _by_text(self) -> dict[str, int]:
        # Labels as our CSV writer escapes them take precedence, so that what it writes reads back exactly.
        codes = {escape_formula(str(label)): at for at, label in enumerate(self.labels)}
        for at, label in enumerate(self.labels):
            codes.setdefault(str(label), at)
        return codes

    @cached_property
    def _value_set(self) -> tuple[Array, Codes]:
        """All ways to write a label, and their codes."""
        if self.integers:
            return pa.array(self.labels, type=pa.int64()), np.arange(len(self.labels))
        codes = self._by_text
        return pa.array(list(codes), type=pa.string()), np.fromiter(codes.values(), np.int64, count=len(codes))

    def is_listed(self, label: str) -> bool:
        """Whether the list has this text as a label."""
        return not self.integers and (label in self._by_text or label.strip() in self._by_text)

    def from_integers(self, values: NDArray[Any], place: Place) -> Codes:
        """Codes of integers; -1 outside the list."""
        if not self.integers:
            return self.from_texts(pa.array(values).cast(pa.string()), place)
        if self._table is not None:
            last = len(self._table) - 1
            return self._table[np.where(values < 0, last, np.minimum(values, last))]
        return self._look_up(pa.array(values, type=pa.int64()))

    def from_texts(self, values: Array, place: Place) -> Codes:
        """Codes of texts, matched exactly or else after trimming white space; -1 outside the list."""
        if self.integers:
            numbers = parse_integers(values, place)
            if not self._negative:
                refuse_first(numbers < 0, place, _NEGATIVE)
            return self.from_integers(numbers, place)
        codes = self._look_up(values)
        unknown = codes < 0
        if unknown.any():
            codes[unknown] = self._look_up(pc.utf8_trim_whitespace(values.filter(unknown)))
        return codes

    def _look_up(self, values: Array) -> Codes:
        value_set, codes = self._value_set
        index = pc.fill_null(pc.index_in(values, value_set=value_set), -1).to_numpy(zero_copy_only=False)
        return np.where(index >= 0, codes[index], -1)


class OccurringItems(Vocabulary):
    """Items numbered as they occur, where the custodian has declared them public knowledge: none is dropped."""

    def code(self, label: str, place: Place | None = None) -> int:
        """The code of a label, added if new; raises if it cannot be an item."""
        known = self.codes.get(label)
        if known is not None:
            return known
        where = "" if place is None else place(0)
        if not 0 < len(label.encode()) <= MAX_LABEL_BYTES:
            raise InputError(f"{where} or after: an item label is empty or over 1 kB; correct the file.")
        if len(self.codes) >= MAX_WIDTH:
            raise InputError(f"{where}: more than {MAX_WIDTH:,} different items; give the `domain`.")
        return self.codes.setdefault(label, len(self.codes))


Items: TypeAlias = KnownItems | Vocabulary


# -- columns of items ----------------------------------------------------------------------------------------------


def flat_column(table: Table, name: str) -> Array:
    """A column of a table as a single array."""
    indices = table.schema.get_all_field_indices(name)  # by a hash table: there may be many names
    if len(indices) > 1:
        raise InputError("two columns have the same name; names must differ (or say `header=False`).")
    column = table.column(indices[0]).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], type=column.type)
    return column.cast(pa.string()) if is_text(column.type) and not pa.types.is_string(column.type) else column


def is_list(kind: DataType) -> bool:
    """Whether a column of this type holds lists of items: of texts, numbers or dates, not of lists or structures."""
    kinds = pa.types
    if not (kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)):
        return False
    item = kind.value_type.value_type if kinds.is_dictionary(kind.value_type) else kind.value_type
    return is_text(item) or _is_matched_as_text(item) or bool(kinds.is_integer(item) or kinds.is_null(item))


def is_nested(kind: DataType) -> bool:
    """Whether a column of this type holds structures, or lists other than lists of items."""
    return bool(pa.types.is_nested(kind)) and not is_list(kind)


def _is_matched_as_text(kind: DataType) -> bool:
    """Whether items of this type are compared with labels as texts: fractions and dates."""
    kinds = pa.types
    numbers = kinds.is_floating(kind) or kinds.is_decimal(kind)
    return bool(numbers or kinds.is_date(kind) or kinds.is_timestamp(kind))


def list_lengths(column: Array) -> NDArray[np.int64]:
    """Number of items in every list of a column; 0 for null."""
    lengths: NDArray[Any] = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)


def set_codes(column: Array, items: Items, where: Place) -> tuple[Codes, NDArray[np.int64]]:
    """Concatenated codes of a column of lists, and the number per row; unknown items are dropped."""
    if not is_list(column.type):
        raise InputError(f"{where(0)}: the column does not hold lists of items; choose another column or shape.")
    lengths = list_lengths(column)
    return drop_negative(item_codes(pc.list_flatten(column), items, place_of_item(lengths, where)), lengths)


def place_of_item(lengths: NDArray[np.int64], where: Place) -> Place:
    """The place of an item by its number in the concatenated rows, from row lengths and the places of rows."""
    ends = np.cumsum(lengths)
    return lambda at: where(int(np.searchsorted(ends, at, side="right")))


def item_codes(values: Array, items: Items, place: Place) -> Codes:
    """Codes of a flat array of items of any type; -1 for null."""
    kinds, values = pa.types, plain_column(values)
    if values.null_count:
        codes = np.full(len(values), -1, dtype=np.int64)
        if values.null_count == len(values):
            return codes
        rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        codes[rows] = item_codes(values.drop_null(), items, lambda at: place(int(rows[at])))
        return codes
    if not len(values):
        return np.empty(0, dtype=np.int64)
    if _is_matched_as_text(values.type):
        texts = as_texts(values, place)
        refuse_first(pc.starts_with(texts, "-").to_numpy(zero_copy_only=False), place, _NEGATIVE)
        return items.from_texts(texts, place)
    if kinds.is_integer(values.type):
        if kinds.is_uint64(values.type) and len(values) and pc.max(values).as_py() >= 2**63:
            return items.from_texts(values.cast(pa.string()), place)
        numbers = values.to_numpy(zero_copy_only=False)
        if numbers.dtype != np.int64 and numbers.dtype != np.int32:
            numbers = numbers.astype(np.int64)
        refuse_first(numbers < 0, place, _NEGATIVE)
        return items.from_integers(numbers, place)
    if kinds.is_string(values.type):
        return items.from_texts(values, place)
    raise InputError(f"{place(0)}: items must be whole numbers, texts or dates; choose another column.")


def parse_integers(values: Array, place: Place) -> NDArray[np.int64]:
    """Texts (no nulls) as integers; raises if one is not a 64-bit whole number."""
    if digits_only(values):
        with suppress(pa.ArrowInvalid):
            plain: NDArray[np.int64] = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
            return plain
    trimmed = pc.utf8_trim_whitespace(values)
    good = pc.match_substring_regex(trimmed, r"^-?0*[0-9]{1,19}$").to_numpy(zero_copy_only=False)
    message = (
        "an item is not a whole number of at most 64 bits, as the domain or format promises; correct the file, or list"
        " the items as texts in the domain."
    )
    refuse_first(~good, place, message)
    try:
        numbers: NDArray[np.int64] = trimmed.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        raise InputError(f"{place(0)} or after: an item number does not fit 64 bits; correct the file.") from None
    return numbers


def digits_only(values: Array) -> bool:
    """Whether no character is above '9', so that Arrow's cast cannot find a hexadecimal number."""
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    if values.buffers()[2] is None:
        return False
    characters = np.frombuffer(values.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
    return len(characters) > 0 and int(characters.max()) <= ord("9")


def empty_as_null(column: Array) -> Array:
    """A text column with empty texts replaced by null."""
    if pa.types.is_string(column.type) and len(column):
        lengths = pc.binary_length(column)
        if pc.min(lengths).as_py() == 0:
            return pc.if_else(pc.equal(lengths, 0), pa.scalar(None, type=column.type), column)
    return column


def split_lists(column: Array, separator: str, where: Place) -> Array:
    """Lists of items from cells of text, split at `separator`; with an empty separator each cell is one item."""
    column = pc.fill_null(as_texts(column, where), "")
    if not separator:
        empty = pc.equal(pc.utf8_trim_whitespace(column), "").to_numpy(zero_copy_only=False)
        ends = np.zeros(len(column) + 1, dtype=np.int32)
        np.cumsum(~empty, out=ends[1:])
        return pa.ListArray.from_arrays(pa.array(ends), column.filter(pa.array(~empty)))
    lists = pc.split_pattern(column, separator)
    return pa.ListArray.from_arrays(lists.offsets, empty_as_null(pc.utf8_trim_whitespace(lists.flatten())))


def cell_lists(column: Array, separator: str | None, where: Place, items: Items | None = None) -> Array:
    """Lists of items from cells of text: split at the separator if stated, otherwise JSON lists; empty for no items.

    Args:
        column: the cells.
        separator: the text between items, if stated.
        where: the place of a row, for messages.
        items: if given, a cell may also be a single item without brackets, unless it looks like several.
    """
    if separator is not None:
        return split_lists(column, separator, where)
    texts = as_texts(column, where).to_pylist()
    bare = [(text or "").strip() for text in texts]
    if items is not None:
        single = [row for row, text in enumerate(bare) if not text.startswith("[")]
        cells = pa.array([texts[row] or "" for row in single], type=pa.string())
        refuse_joined(cells, items, lambda at: where(single[at]))
    lists = []
    for row, text in enumerate(bare):
        if items is not None and not text.startswith("["):
            lists.append([texts[row]] if text else [])
            continue
        try:
            value = json.loads(text) if text else []
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, list):
            raise InputError(
                f"{where(row)}: the cell must hold a list such as [1, 2]; say `item_separator=';'` if its items are"
                " written side by side, or correct the file."
            )
        lists.append(value)
    return object_lists(lists, where)


def refuse_joined(values: Array, items: Items, place: Place) -> None:
    """Raise if a text (no nulls) contains a usual separator of items, unless the public list has the whole text.

    Otherwise `bread, milk, eggs` would silently be a single item that only one person has.
    """
    marked = pc.match_substring_regex(values, "[,;|\t]").to_numpy(zero_copy_only=False)
    for at in np.flatnonzero(marked).tolist():
        if not items.is_listed(values[at].as_py()):
            raise InputError(
                f"{place(at)}: an item holds a comma, semicolon, bar or tab; say `item_separator` if it is"
                " several items, `separator` if cells are separated by it, or `item_separator=''` if it is one"
                " item."
            )
