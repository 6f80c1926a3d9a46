"""From item labels to codes: against a public list, or numbered as they occur; and the columns that hold items.

Labels come chunk after chunk. Code -1 means "drop silently", since counting or naming what falls outside a public list
would tell about the rows.
"""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpgm.data.domain import MAX_LABEL_BYTES, MAX_WIDTH, Label
from dpgm.data.fields import Codes
from dpgm.data.open_records import LOOKUP_LIMIT, Vocabulary, drop_negative
from dpgm.data.values import Place, as_texts, is_text, object_lists
from dpgm.errors import InputError

_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def escape_formula(label: str) -> str:
    """A label as it goes into CSV: a spreadsheet must not run it as a formula.

    >>> escape_formula("=1+1"), escape_formula("plain")
    ("'=1+1", 'plain')
    """
    return "'" + label if _FORMULA.match(label) else label


def plain_name(name: str) -> str:
    """A column name without the apostrophe that protects spreadsheets from formulas."""
    return name[1:] if name.startswith("'") and escape_formula(name[1:]) == name else name


def natural_labels(texts: Sequence[str]) -> list[Label]:
    """Whole numbers where all texts are such, written plainly and within 64 bits; else the texts.

    >>> natural_labels(["5", "12"]), natural_labels(["5", "012"])
    ([5, 12], ['5', '012'])
    """
    plain = all(
        text.isascii() and text.isdigit() and len(text) < 20 and str(int(text)) == text and int(text) < 2**63
        for text in texts
    )
    return [int(text) for text in texts] if plain else list(texts)


class Items(Protocol):
    """Turns labels into codes, chunk after chunk."""

    integers: bool

    def is_listed(self, label: str) -> bool:
        """Whether a public list names this label."""

    def from_integers(self, values: NDArray[np.int64], place: Place) -> Codes:
        """Codes of whole numbers that are not negative; -1 for those to drop."""

    def from_texts(self, values: pa.Array, place: Place) -> Codes:
        """Codes of texts (no nulls); -1 for those to drop."""


class KnownItems:
    """The public list of a domain; item numbers below 0 are refused, unless they may be values (`negative`)."""

    def __init__(self, labels: Sequence[Label], *, negative: bool = False) -> None:
        self.labels = labels
        self._negative = negative
        self.integers = isinstance(labels[0], int)
        if self.integers:
            known = np.asarray(labels, dtype=np.int64)
            self._table: NDArray[np.int64] | None = None
            if known.min() >= 0 and known.max() < LOOKUP_LIMIT:
                self._table = np.full(int(known.max()) + 2, -1, dtype=np.int64)
                self._table[known] = np.arange(len(known))

    @cached_property
    def _by_text(self) -> dict[str, int]:
        # A label escaped by our own CSV writer comes first, so that what we write reads back exactly.
        known = {escape_formula(str(label)): at for at, label in enumerate(self.labels)}
        for at, label in enumerate(self.labels):
            known.setdefault(str(label), at)
        return known

    @cached_property
    def _known(self) -> tuple[pa.Array, Codes]:
        if self.integers:
            return pa.array(self.labels, type=pa.int64()), np.arange(len(self.labels))
        known = self._by_text
        return pa.array(list(known), type=pa.string()), np.fromiter(known.values(), np.int64, count=len(known))

    def is_listed(self, label: str) -> bool:
        """Whether the list names this label."""
        return not self.integers and (label in self._by_text or label.strip() in self._by_text)

    def from_integers(self, values: NDArray[Any], place: Place) -> Codes:
        """Codes of whole numbers; -1 outside the list."""
        if not self.integers:
            return self.from_texts(pa.array(values).cast(pa.string()), place)
        if self._table is not None:
            last = len(self._table) - 1  # always -1: for everything above
            return self._table[np.where(values < 0, last, np.minimum(values, last))]
        return self._look_up(pa.array(values, type=pa.int64()))

    def from_texts(self, values: pa.Array, place: Place) -> Codes:
        """Codes of texts: exactly, else without the white space around them; -1 outside the list."""
        if self.integers:
            numbers = parse_integers(values, place)
            if not self._negative:
                refuse_negative(numbers < 0, place)
            return self.from_integers(numbers, place)
        codes = self._look_up(values)
        unknown = codes < 0
        if unknown.any():
            codes[unknown] = self._look_up(pc.utf8_trim_whitespace(values.filter(unknown)))
        return codes

    def _look_up(self, values: pa.Array) -> Codes:
        known, codes = self._known
        index = pc.fill_null(pc.index_in(values, value_set=known), -1).to_numpy(zero_copy_only=False)
        return np.where(index >= 0, codes[index], -1)


class OccurringItems(Vocabulary):
    """Items as they occur, sorted at the end.

    Only for a custodian who has declared the set of items in the file public knowledge, or to be made private.
    """

    def code(self, label: str, place: Place | None = None) -> int:
        """The number of a label; one that could be no item is refused."""
        known = self.codes.get(label)
        if known is not None:
            return known
        where = "" if place is None else place(0)
        if not 0 < len(label.encode()) <= MAX_LABEL_BYTES:
            raise InputError(f"{where} or after: an item label is empty or over 1 kB; correct the file.")
        if len(self.codes) >= MAX_WIDTH:
            raise InputError(f"{where}: more than {MAX_WIDTH:,} different items; give --domain FILE.")
        return self.codes.setdefault(label, len(self.codes))

    def finish(self) -> tuple[list[Label], NDArray[np.int64]]:
        """The labels in their natural order, and the position of every code."""
        labels = natural_labels(self.labels)
        order = sorted(range(len(labels)), key=labels.__getitem__)  # type: ignore[arg-type]
        position = np.empty(len(order), dtype=np.int64)
        position[order] = np.arange(len(order))
        return [labels[code] for code in order], position


# -- columns of items ----------------------------------------------------------------------------------------------


def flat_column(table: pa.Table, name: str) -> pa.Array:
    """A table's column as one array."""
    places = table.schema.get_all_field_indices(name)  # by a hash table: names may be many
    if len(places) > 1:
        raise InputError("two columns have the same name; names must differ (or say --no-header).")
    column = table.column(places[0]).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], type=column.type)
    return column.cast(pa.string()) if is_text(column.type) and not pa.types.is_string(column.type) else column


def is_list(kind: pa.DataType) -> bool:
    """Whether a column of this type holds lists of items: texts, numbers or dates, not lists or structures again."""
    kinds = pa.types
    if not (kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)):
        return False
    item = kind.value_type.value_type if kinds.is_dictionary(kind.value_type) else kind.value_type
    return is_text(item) or is_written(item) or bool(kinds.is_integer(item) or kinds.is_null(item))


def is_nested(kind: pa.DataType) -> bool:
    """Whether a column of this type holds structures or lists that are no lists of items."""
    return bool(pa.types.is_nested(kind)) and not is_list(kind)


def is_written(kind: pa.DataType) -> bool:
    """Whether items of this type are known by how they are written: fractions and dates."""
    kinds = pa.types
    numbers = kinds.is_floating(kind) or kinds.is_decimal(kind)
    return bool(numbers or kinds.is_date(kind) or kinds.is_timestamp(kind))


def list_lengths(column: pa.Array) -> NDArray[np.int64]:
    """How many items every list of a column holds; a null holds none."""
    lengths: NDArray[Any] = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)


def set_codes(column: pa.Array, items: Items, where: Place) -> tuple[Codes, NDArray[np.int64]]:
    """Codes row after row and their number in each row, from a column of lists; unknown items dropped."""
    if not is_list(column.type):
        raise InputError(f"{where(0)}: the column does not hold lists of items; choose another column or shape.")
    lengths = list_lengths(column)
    return drop_negative(item_codes(pc.list_flatten(column), items, place_of_item(lengths, where)), lengths)


def place_of_item(lengths: NDArray[np.int64], where: Place) -> Place:
    """The place of an item by its number, from how many items each row has and the place of a row."""
    ends = np.cumsum(lengths)
    return lambda at: where(int(np.searchsorted(ends, at, side="right")))


def item_codes(values: pa.Array, items: Items, place: Place) -> Codes:
    """Codes of a flat array of items of any type; a null is dropped."""
    kinds = pa.types
    if kinds.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.null_count:
        codes = np.full(len(values), -1, dtype=np.int64)
        rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        codes[rows] = item_codes(values.drop_null(), items, lambda at: place(int(rows[at])))
        return codes
    if kinds.is_null(values.type):
        return np.empty(0, dtype=np.int64)
    if is_written(values.type):
        texts = as_texts(values, place)
        refuse_negative(pc.starts_with(texts, "-").to_numpy(zero_copy_only=False), place)
        return items.from_texts(texts, place)
    if kinds.is_integer(values.type):
        if kinds.is_uint64(values.type) and len(values) and pc.max(values).as_py() >= 2**63:
            raise InputError(f"{place(0)} or after: an item number does not fit 64 bits; correct the file.")
        numbers = values.to_numpy(zero_copy_only=False)
        if numbers.dtype != np.int64 and numbers.dtype != np.int32:
            numbers = numbers.astype(np.int64)
        refuse_negative(numbers < 0, place)
        return items.from_integers(numbers, place)
    if is_text(values.type):
        return items.from_texts(values.cast(pa.string()), place)
    raise InputError(f"{place(0)}: items must be whole numbers, texts or dates; choose another column.")


def refuse_negative(negative: NDArray[np.bool_], place: Place) -> None:
    """Item numbers count from zero."""
    if negative.any():
        raise InputError(f"{place(int(np.argmax(negative)))}: item numbers must not be negative; correct the file.")


def parse_integers(values: pa.Array, place: Place) -> NDArray[np.int64]:
    """Texts (no nulls) that were promised to be whole numbers."""
    if digits_only(values):
        with suppress(pa.ArrowInvalid):
            plain: NDArray[np.int64] = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
            return plain
    trimmed = pc.utf8_trim_whitespace(values)
    good = pc.match_substring_regex(trimmed, r"^-?0*[0-9]{1,19}$").to_numpy(zero_copy_only=False)
    if not good.all():
        raise InputError(
            f"{place(int(np.argmin(good)))}: an item is not a whole number of at most 64 bits, as the"
            " domain or format promises; correct the file, or list the items as texts in the domain."
        )
    try:
        numbers: NDArray[np.int64] = trimmed.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        raise InputError(f"{place(0)} or after: an item number does not fit 64 bits; correct the file.") from None
    return numbers


def digits_only(values: pa.Array) -> bool:
    """Whether no character lies above '9': then Arrow's cast can meet no hexadecimal number."""
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    if values.buffers()[2] is None:
        return False
    characters = np.frombuffer(values.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
    return len(characters) > 0 and int(characters.max()) <= ord("9")


def empty_as_null(column: pa.Array) -> pa.Array:
    """A text column in which empty cells are null."""
    if pa.types.is_string(column.type) and len(column):
        lengths = pc.binary_length(column)
        if pc.min(lengths).as_py() == 0:
            return pc.if_else(pc.equal(lengths, 0), pa.scalar(None, type=column.type), column)
    return column


def split_lists(column: pa.Array, separator: str, where: Place) -> pa.Array:
    """Lists of items from the cells of a text column: cut at `separator`; the empty text leaves a cell whole."""
    column = pc.fill_null(as_texts(column, where), "")
    if not separator:
        empty = pc.equal(pc.utf8_trim_whitespace(column), "").to_numpy(zero_copy_only=False)
        ends = np.zeros(len(column) + 1, dtype=np.int32)
        np.cumsum(~empty, out=ends[1:])
        return pa.ListArray.from_arrays(pa.array(ends), column.filter(pa.array(~empty)))
    lists = pc.split_pattern(column, separator)
    return pa.ListArray.from_arrays(lists.offsets, empty_as_null(pc.utf8_trim_whitespace(lists.flatten())))


def cell_lists(column: pa.Array, separator: str | None, where: Place, items: Items | None = None) -> pa.Array:
    """Lists of items from text cells: cut at the separator if one is stated, else JSON lists; an empty cell has none.

    Args:
        column: the cells.
        separator: the text between items, if one is stated.
        where: where a row is, for messages.
        items: where given, a cell may also be one item without brackets, unless it looks like several.
    """
    if separator is not None:
        return split_lists(column, separator, where)
    texts = as_texts(column, where).to_pylist()
    bare = [(text or "").strip() for text in texts]
    if items is not None:
        alone = [row for row, text in enumerate(bare) if not text.startswith("[")]
        cells = pa.array([texts[row] or "" for row in alone], type=pa.string())
        refuse_joined(cells, items, lambda at: where(alone[at]))
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
                f"{where(row)}: the cell must hold a list such as [1, 2]; say --item-separator ';' if its items are"
                " written side by side, or correct the file."
            )
        lists.append(value)
    return object_lists(lists, where)


def refuse_joined(values: pa.Array, items: Items, place: Place) -> None:
    """Refuse texts (no nulls) that hold a mark people put between items, where no separator is stated.

    Unless a public list names the cell exactly. Otherwise `bread, milk, eggs` would be one item, held by one person.
    """
    marked = pc.match_substring_regex(values, "[,;|\t]").to_numpy(zero_copy_only=False)
    for at in np.flatnonzero(marked).tolist():
        if not items.is_listed(values[at].as_py()):
            raise InputError(
                f"{place(at)}: an item holds a comma, semicolon, bar or tab; say --item-separator MARK if it is"
                " several items, --separator MARK if cells are separated by it, or --item-separator '' if it is one"
                " item."
            )
