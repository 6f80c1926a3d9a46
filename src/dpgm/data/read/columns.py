"""A file as named columns, chunk by chunk; and what its columns hold: texts, numbers, items, lists of items."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpgm.data.formats import Shape
from dpgm.data.items import Codes, Items, Place, escape_formula, kept_codes, refuse_joined, refuse_negative
from dpgm.data.values import as_texts, object_lists
from dpgm.errors import InputError, UsageError
from dpgm.validation import near

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file as an Arrow table, and where each of them is."""

    table: "pyarrow.Table"
    place: Place


@dataclass(frozen=True)
class Columns:
    """A file as named columns: their names, those that hold lists or booleans, and the rows chunk by chunk.

    All but the chunks is known from the schema, the header, the options and the domain; `shape` is the one that the
    format has where none is stated. Names are `certain` unless they are a first line of text that was not stated to
    be a header: it may be a record, so that no message may repeat it.
    """

    file: str
    names: tuple[str, ...]
    lists: tuple[str, ...]
    chunks: Iterable[Chunk]
    certain: bool = True
    truths: tuple[str, ...] = ()
    shape: Shape | None = None
    schema: Any = None  # pyarrow's, of formats that carry one


def join_files(files: Iterator[Columns]) -> Columns:
    """Several files with the same columns, one after the other."""
    first = next(files)
    rest = list(files)
    for other in rest:
        if set(other.names) != set(first.names):
            raise InputError(f"{other.file}: has other columns than {first.file}; read the files one by one.")
    chunks = chain(first.chunks, *(other.chunks for other in rest))
    return replace(first, chunks=chunks)


def plain_name(name: str) -> str:
    """A column name without the apostrophe that protects spreadsheets from formulas."""
    return name[1:] if name.startswith("'") and escape_formula(name[1:]) == name else name


def required_column(columns: Columns, name: str | None, option: str) -> str:
    """A column that an option names and the file has."""
    if name is None:
        raise UsageError(f"{columns.file}: the long shape needs --{option} COLUMN.")
    if name not in columns.names and not columns.certain:
        raise InputError(
            f"{columns.file}: line 1 names no column {name!r} for --{option}; check the name, or say --no-header"
            " if it holds no names."
        )
    if name not in columns.names:
        raise InputError(
            f"{columns.file}: there is no column {name!r} for --{option}{near(name, columns.names)}; the columns are"
            f" {listed_names(columns)}."
        )
    return name


def listed_names(columns: Columns) -> str:
    """The first names of columns, for a message; only of names that are certain not to be a record."""
    return ", ".join(repr(one) for one in columns.names[:12]) + (", ..." if len(columns.names) > 12 else "")


def is_list(kind: "pyarrow.DataType") -> bool:
    """Whether a column of this type holds lists."""
    import pyarrow as pa

    kinds = pa.types
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind))


def set_codes(column: "pyarrow.Array", items: Items, where: Place) -> tuple[Codes, NDArray[np.int64]]:
    """Codes row after row and their number in each row, from a column of lists; unknown items dropped."""
    import pyarrow.compute as pc

    if not is_list(column.type):
        raise InputError(f"{where(0)}: the column does not hold lists of items; choose another column or shape.")
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    values = pc.list_flatten(column)
    ends = np.cumsum(lengths)

    def place(at: int) -> str:
        return where(int(np.searchsorted(ends, at, side="right")))

    return kept_codes(item_codes(values, items, place), lengths)


def item_codes(values: "pyarrow.Array", items: Items, place: Place) -> Codes:
    """Codes of a flat array of items of any type; a null is dropped."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = pa.types
    if kinds.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.null_count:
        codes = np.full(len(values), -1, dtype=np.int64)
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(valid)
        codes[valid] = item_codes(values.drop_null(), items, lambda at: place(int(rows[at])))
        return codes
    if kinds.is_null(values.type):
        return np.empty(0, dtype=np.int64)
    if kinds.is_floating(values.type) or kinds.is_decimal(values.type):
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
    if kinds.is_string(values.type) or kinds.is_large_string(values.type) or kinds.is_string_view(values.type):
        return items.from_texts(values.cast(pa.string()), place)
    raise InputError(f"{place(0)}: items must be whole numbers or texts; choose another column.")


def flat_column(table: "pyarrow.Table", name: str) -> "pyarrow.Array":
    """A table's column as one array."""
    import pyarrow as pa

    if table.column_names.count(name) > 1:
        raise InputError("two columns have the same name; names must differ (or say --no-header).")
    column = table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], type=column.type)
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    return column


def split_lists(column: "pyarrow.Array", separator: str, where: Place) -> "pyarrow.Array":
    """Lists of items from the cells of a text column: cut at `separator`; the empty text leaves a cell whole."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = pc.fill_null(as_texts(column, where), "")
    if not separator:
        empty = pc.equal(pc.utf8_trim_whitespace(column), "").to_numpy(zero_copy_only=False)
        ends = np.zeros(len(column) + 1, dtype=np.int32)
        np.cumsum(~empty, out=ends[1:])
        return pa.ListArray.from_arrays(pa.array(ends), column.filter(pa.array(~empty)))
    lists = pc.split_pattern(column, separator)
    items = pc.utf8_trim_whitespace(lists.flatten())
    items = pc.if_else(pc.equal(items, ""), pa.scalar(None, type=pa.string()), items)
    return pa.ListArray.from_arrays(lists.offsets, items)


def cell_lists(
    column: "pyarrow.Array", separator: str | None, where: Place, items: Items | None = None
) -> "pyarrow.Array":
    """Lists of items from text cells: cut at the separator if one is stated, else JSON lists; an empty cell has none.

    Args:
        column: the cells.
        separator: the text between items, if one is stated.
        where: where a row is, for messages.
        items: where given, a cell may also be one item without brackets, unless it looks like several.
    """
    if separator is not None:
        return split_lists(column, separator, where)
    texts = as_texts(column, where)
    if items is not None:
        _refuse_joined_cells(texts, items, where)
    lists = []
    for row, text in enumerate(texts.to_pylist()):
        bare = (text or "").strip()
        if items is not None and not bare.startswith("["):
            lists.append([text] if bare else [])
            continue
        try:
            value = json.loads(bare) if bare else []
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, list):
            raise InputError(
                f"{where(row)}: the cell must hold a list such as [1, 2]; say --item-separator ';' if its items are"
                " written side by side, or correct the file."
            )
        lists.append(value)
    return object_lists(lists, where)


def _refuse_joined_cells(texts: "pyarrow.Array", items: Items, where: Place) -> None:
    """Refuse cells that look like several items and where no separator is stated; JSON lists are clear."""
    import pyarrow.compute as pc

    texts = pc.fill_null(texts, "")
    bare = pc.invert(pc.starts_with(pc.utf8_trim_whitespace(texts), "["))
    rows = np.flatnonzero(bare.to_numpy(zero_copy_only=False))
    refuse_joined(texts.filter(bare), items, lambda at: where(int(rows[at])))
