"""Records from named columns, in one of three shapes: basket (lists of items), long (person, item) or wide.

Every format except arrays comes here as `Columns`: a stream of Arrow tables that can name the place of a row in the
file. Wide means one column per field, or one 0/1 column per item.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpgm.data.domain import Domain, ItemSet
from dpgm.data.encoding import TableEncoder
from dpgm.data.items import (
    Items,
    KnownItems,
    OccurringItems,
    cell_lists,
    empty_as_null,
    flat_column,
    is_list,
    item_codes,
    list_lengths,
    natural_labels,
    plain_name,
    set_codes,
    split_lists,
)
from dpgm.data.kinds.items import SetField
from dpgm.data.labels import INDEX
from dpgm.data.layouts import Layout, Shape, Source
from dpgm.data.person_columns import named_like_persons
from dpgm.data.read.event_rows import read_event_rows
from dpgm.data.read.options import NEEDS_DOMAIN, ReadOptions
from dpgm.data.read.storage import Persons, join_records, limit_rows_per_person
from dpgm.data.records import Records
from dpgm.data.rows import (
    index_dtype,
    row_pointers,
    sort_rows,
    take_rows,
)
from dpgm.data.stores import NumberStore, RowStore
from dpgm.data.values import Place, floats, in_column, required_floats, with_plain_numbers, written_numbers
from dpgm.errors import InputError, UsageError
from dpgm.validation import near

_ONES = ("1", "true", "True", "TRUE")
_ZEROS = ("0", "false", "False", "FALSE")
_COUNTED_AT_ONCE = 4_000_000  # rows
_TAKEN_AT_ONCE = 1 << 16  # persons


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file as an Arrow table, and the place of each."""

    table: pa.Table
    place: Place


@dataclass(frozen=True)
class Columns:
    """The named columns of a file, known from the schema, the header, the options and the domain; and its rows.

    Attributes:
        file: its name in messages.
        names: the names of all columns.
        lists: the names of columns that hold lists.
        chunks: the rows.
        certain: whether names are certainly names. The first line of a text file that nobody stated to be a header may
            be a record, which no message may repeat.
        booleans: the names of columns of booleans.
        shape: the shape implied by the format, used if no shape is stated.
        schema: the Arrow schema, for formats that have one.
        lines: whether rows are lines of items, so that the only column has no name in the file.
    """

    file: str
    names: tuple[str, ...]
    lists: tuple[str, ...]
    chunks: Iterable[Chunk]
    certain: bool = True
    booleans: tuple[str, ...] = ()
    shape: Shape | None = None
    schema: Any = None
    lines: bool = False

    def required(self, name: str | None, option: str) -> str:
        """The column named by an option; refuses one that the file does not have."""
        if name is None:
            raise UsageError(f"{self.file}: the long shape needs --{option} COLUMN.")
        if name not in self.names and not self.certain:
            raise InputError(
                f"{self.file}: line 1 names no column {name!r} for `{option}`; check the name, or say `header=False`"
                " if it holds no names."
            )
        if name not in self.names:
            raise InputError(
                f"{self.file}: there is no column {name!r} for --{option}{near(name, self.names)}; the columns are"
                f" {self.listed()}."
            )
        return name

    def listed(self) -> str:
        """The first names, for a message; to be used only if they are certain."""
        return ", ".join(repr(one) for one in self.names[:12]) + (", ..." if len(self.names) > 12 else "")


def join_files(files: Iterator[Columns]) -> Columns:
    """Several files with the same columns, one after the other."""
    first, *rest = files
    for other in rest:
        if set(other.names) != set(first.names):
            raise InputError(f"{other.file}: has other columns than {first.file}; read the files one by one.")
    return replace(first, chunks=chain(first.chunks, *(other.chunks for other in rest)))


def read_columns(
    columns: Columns, options: ReadOptions, attributes: Columns | None = None
) -> tuple[Records, Source]:
    """Records from named columns, in the shape that is stated or implied; and how they were read.

    `attributes` are the columns of the file of persons, where a sequence has one.
    """
    chunks = iter(columns.chunks)
    first = next(chunks, None)
    if first is None or first.table.num_rows == 0:
        raise InputError(f"{columns.file}: holds no records; give a file with at least one.")
    shape = _shape_of(columns, options)
    seen: dict[str, int] = {}
    for at, name in enumerate(columns.names):
        if seen.setdefault(name, at) != at:
            raise InputError(
                f"{columns.file}: columns {seen[name] + 1} and {at + 1} have the same name; names must"
                " differ: correct them, or say `header=False` if the first line holds no names."
            )
    columns = replace(columns, chunks=chain([first], chunks))
    if attributes is not None and not (shape == "long" and options.reads_events):
        raise UsageError(
            f"{columns.file}: `persons` belongs to long files of a sequence; give `person`, `item` and a domain with a"
            " field of kind `sequence` as well."
        )
    if shape == "long":
        read = read_event_rows(columns, options, attributes) if options.reads_events else _long(columns, options)
        records, layout = read
        assumed = options.domain is None and options.assume_public_items
        return records, Source("person", assumed, "long", layout)
    person, persons = options.person, Persons(options.memory_limit)
    if person is not None:
        columns.required(person, "person")
        columns = replace(columns, chunks=_collecting_persons(columns.chunks, person, persons))
    are_sets = shape == "basket" and not options.reads_events
    records, layout = _baskets(columns, options) if are_sets else _wide(columns, options)
    source = Source("row", shape == "basket" and options.domain is None, shape, layout)
    if person is None:
        return records, replace(source, like_persons=_like_persons(columns, options, shape))
    most, limit = options.rows_per_person, options.memory_limit
    records = limit_rows_per_person(records, persons, most, columns.file, limit)
    return records, replace(source, unit="person", rows_per_person=options.rows_per_person or 1)


def _like_persons(columns: Columns, options: ReadOptions, shape: Shape) -> tuple[str, ...]:
    """Columns that are named like identifiers of persons; columns of items are none."""
    are_items = columns.lines or (shape == "wide" and options.table_domain is None)
    if are_items or not columns.certain:
        return ()
    names = (name for name in columns.names if name != options.item)
    return named_like_persons(names, options.public_domain)


def _collecting_persons(chunks: Iterable[Chunk], name: str, persons: Persons) -> Iterator[Chunk]:
    """The same chunks, whose persons are added to `persons` as they pass."""
    for chunk in chunks:
        yield chunk
        persons.add(flat_column(chunk.table, name), in_column(chunk.place, name))


def _shape_of(columns: Columns, options: ReadOptions) -> Shape:
    """The shape, from the options, the domain and the schema; rows are not examined."""
    if columns.lines:
        return "basket"
    if options.shape is not None:
        return options.shape  # type: ignore[return-value]
    if columns.shape is not None:
        return columns.shape
    if options.item in columns.lists:
        return "basket"
    if options.stated_shape is not None:
        return options.stated_shape
    if len(columns.lists) == 1:
        return "basket"
    names = [name for name in columns.names if name != options.person]
    if options.item_set is not None:
        labels = {str(label) for label in options.item_set.items}
        matched = [name for name in names if plain_name(name).strip() in labels or name in labels]
        if columns.certain and len(matched) >= len(labels):
            return "wide"
    elif set(names) <= set(columns.booleans):
        return "wide"
    raise UsageError(
        f"{columns.file}: the shape is not clear; say `shape='long'` with `person` and `item` (one row per person and"
        " item), `shape='basket'` (one row per record, a list of items), or, for a table, draft its domain with `dpgm"
        " inspect FILE --draft-domain domain.yaml`, read it and give it as `domain`."
    )


# -- item sets: baskets and the long shape -------------------------------------------------------------------------


def items_of(file: str, options: ReadOptions) -> Items:
    """The items to read: those of the domain, or all that occur if they are declared public."""
    domain = options.public_domain
    if domain is None:
        if not options.assume_public_items:
            raise UsageError(f"{file}: {NEEDS_DOMAIN}.")
        return OccurringItems()
    if domain.item_set is None:
        raise InputError(
            f"{file}: the domain has {len(domain.fields)} fields, but baskets and the long shape hold one"
            " item set; give a domain of one item set, or `shape='wide'`."
        )
    return KnownItems(domain.item_set.items)


def _code_type(options: ReadOptions) -> type[np.signedinteger[Any]]:
    return np.int32 if options.public_domain is None else index_dtype(options.public_domain.width)


def _domain_of(items: Items, options: ReadOptions, file: str, name: str) -> tuple[Domain, NDArray[np.int64] | None]:
    """The domain, once all items were read; and the position of each code if they differ."""
    if options.public_domain is not None:
        return options.public_domain, None
    assert isinstance(items, OccurringItems)
    labels, position = items.finish()
    if not labels:
        raise InputError(f"{file}: no item occurs; give the `domain` with the public list of items.")
    return Domain((ItemSet(name, tuple(labels), separator=options.item_separator or None),)), position


def _baskets(columns: Columns, options: ReadOptions) -> tuple[Records, Layout | None]:
    """One record per row, its items as a list."""
    name = _column_of_lists(columns, options)
    items, stated = items_of(columns.file, options), options.public_domain
    store = RowStore(np.dtype(_code_type(options)), options.memory_limit)
    for chunk in columns.chunks:
        column = flat_column(chunk.table, name)
        where = chunk.place if columns.lines else in_column(chunk.place, name)
        if not is_list(column.type):
            column = cell_lists(column, options.item_separator, where, items)
        codes, lengths = set_codes(column, items, where)
        store.append(*((lengths, codes) if stated is None else _sorted_rows(lengths, codes, stated.width)))
    domain, position = _domain_of(items, options, columns.file, plain_name(name))
    if position is not None:
        ordered = RowStore(np.dtype(index_dtype(domain.width)), options.memory_limit)
        for lengths, codes in store.drain():
            ordered.append(*_sorted_rows(lengths, position[codes], domain.width))
        store = ordered
    layout = Layout("basket", item=None if columns.lines else options.item or domain.fields[0].name)
    return Records(domain, *store.finish()), layout


def _column_of_lists(columns: Columns, options: ReadOptions) -> str:
    name, field = options.item, options.item_set
    if name is None and field is not None and field.name in columns.names:
        name = field.name
    others = columns.lists if len(columns.lists) == 1 else [one for one in columns.names if one != options.person]
    if name is None and len(others) == 1:
        name = others[0]
    if name is None:
        raise UsageError(f"{columns.file}: which column holds the lists of items? Say so with `item`.")
    return columns.required(name, "item")


def _sorted_rows(
    lengths: NDArray[np.int64], codes: NDArray[Any], width: int
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Rows with their positions sorted and distinct, as lengths and positions."""
    indptr, positions = sort_rows(row_pointers(lengths), codes, width)
    return np.diff(indptr), positions


def _long(columns: Columns, options: ReadOptions) -> tuple[Records, Layout | None]:
    """One row per person and item, in any order; records are in the order in which persons first appear.

    A null or empty item, or one with count 0, adds the person without an item.
    """
    person = columns.required(options.person, "person")
    item = columns.required(options.item, "item")
    count = None if options.count is None else columns.required(options.count, "count")
    items = items_of(columns.file, options)
    persons = Persons(options.memory_limit)
    for chunk in columns.chunks:
        who, what = flat_column(chunk.table, person), flat_column(chunk.table, item)
        place, counted = chunk.place, None
        if count is not None:
            counted = required_floats(flat_column(chunk.table, count), in_column(place, count)) > 0
        if options.item_separator and not is_list(what.type):
            what = split_lists(what, options.item_separator, in_column(place, item))
        if is_list(what.type):
            who, what, rows = _one_item_per_row(who, what)
            counted = None if counted is None else counted[rows]
            place = _at_rows(place, rows)
        codes = item_codes(empty_as_null(what), items, in_column(place, item))
        if counted is not None:
            codes[~counted] = -1
        persons.add(who, in_column(place, person), codes.astype(_code_type(options)))
    domain, position = _domain_of(items, options, columns.file, plain_name(item))
    records = Records(domain, *_grouped(persons, position, domain.width, options))
    has_names = options.header is not False  # else columns are referred to by their numbers
    return records, Layout("long", options.person, options.item) if has_names else Layout("long")


def _one_item_per_row(persons: pa.Array, lists: pa.Array) -> tuple[pa.Array, pa.Array, Any]:
    """The person and the item of each list element, and the row it comes from; an empty list gives one null item."""
    lengths = list_lengths(lists)
    repeats = np.maximum(lengths, 1)
    rows = np.repeat(np.arange(len(lengths)), repeats)
    empty = np.repeat(lengths == 0, repeats)
    items = pc.list_flatten(lists).take(pa.array(np.cumsum(~empty) - 1, mask=empty))
    return persons.take(pa.array(rows)), items, rows


def _at_rows(place: Place, rows: Any) -> Place:
    return lambda at: place(int(rows[at]))


def _grouped(
    persons: Persons, position: NDArray[np.int64] | None, width: int, options: ReadOptions
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """CSR arrays of one row per person, in the order in which persons first appear."""
    limit = options.memory_limit
    groups = RowStore(np.dtype(index_dtype(width)), limit.split(2))
    first_rows = NumberStore(np.complex128, limit.split(4))  # the row of each, and its number among the groups
    whole = not persons.on_disk
    for group in persons.groups():
        rows, codes = group.persons, group.codes
        first = group.rows[np.unique(rows, return_index=True)[1]] if not whole else None
        if codes.min() < 0:
            known = codes >= 0
            rows, codes = rows[known], codes[known]
        if position is not None:
            codes = position.astype(index_dtype(width))[codes]
        indptr, codes = _group_by_row(rows, codes, group.count, width)
        if first is None:
            return indptr, codes
        first_rows.append(first + 1j * np.arange(len(first_rows), len(first_rows) + group.count))
        groups.append(np.diff(indptr), codes)
    order, (indptr, codes) = first_rows.finish(), groups.finish()
    order.sort()  # by the first row; mapped from disk, this takes no memory
    ordered = RowStore(np.dtype(index_dtype(width)), limit.split(2))
    for start in range(0, len(order), _TAKEN_AT_ONCE):
        pointers, taken = take_rows(indptr, codes, order[start : start + _TAKEN_AT_ONCE].imag.astype(np.int64))
        ordered.append(np.diff(pointers), taken)
    return ordered.finish()


def _group_by_row(
    rows: NDArray[np.int32], codes: NDArray[Any], count: int, width: int
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """CSR arrays of `count` rows, from codes in any order and the row of each; linear time (counting sort)."""
    indptr = np.zeros(count + 1, dtype=np.int64)
    for start in range(0, len(rows), _COUNTED_AT_ONCE):  # bincount copies its input to 64 bits
        indptr[1:] += np.bincount(rows[start : start + _COUNTED_AT_ONCE], minlength=count)
    np.cumsum(indptr[1:], out=indptr[1:])
    if not bool(np.all(rows[1:] >= rows[:-1])):
        from scipy.sparse import csr_array

        # A matrix with one entry per row; its conversion to CSC is a counting sort by column.
        entries = np.arange(len(rows) + 1, dtype=np.int64 if len(rows) >= 2**31 else np.int32)
        by_entry = csr_array((codes, rows.astype(entries.dtype, copy=False), entries), shape=(len(rows), count))
        codes = by_entry.tocsc().data
    return sort_rows(indptr, codes, width)


# -- wide ----------------------------------------------------------------------------------------------------------


def _wide(columns: Columns, options: ReadOptions) -> tuple[Records, Layout | None]:
    """A table of one column per field, or of one 0/1 column per item."""
    domain = options.public_domain if options.reads_events else options.table_domain
    if options.reads_events and domain is None:
        raise UsageError(f"{columns.file}: lists of events need a `domain` with a field of kind `sequence`.")
    if domain is not None and domain.sequence is not None:
        columns, layout = _with_sequence(columns, domain.sequence.name, options)
        encode = _encoder(columns, domain, options)
    elif domain is not None:
        encode, layout = _encoder(columns, domain, options), None
    else:
        listed = options.item_set is not None and INDEX in options.item_set.items
        left_out = {options.person} | (set() if listed else {INDEX})
        names = [name for name in columns.names if name not in left_out]
        domain = options.public_domain or Domain.of_items(natural_labels([plain_name(name) for name in names]))
        encode, layout = _binary_encoder(columns, names, domain, options), Layout("wide")
    return join_records((encode(chunk) for chunk in columns.chunks), domain, options.memory_limit), layout


def _with_sequence(columns: Columns, name: str, options: ReadOptions) -> tuple[Columns, Layout]:
    """The columns, of which the one with the lists of events is called as the field of the sequence; and the layout."""
    item = columns.names[0] if columns.lines else options.item or name
    shape: Shape = "basket" if options.table_domain is None else "wide"
    layout = Layout(shape, item=None if columns.lines else item, time=options.time)
    if item == name:
        return columns, layout
    columns.required(item, "item")

    others = [one for one in columns.names if one not in (item, name)]

    def renamed(table: pa.Table) -> pa.Table:
        kept = [one for one in table.column_names if one in others]
        return table.select(kept).append_column(name, table.column(item))

    chunks = (replace(one, table=renamed(one.table)) for one in columns.chunks)
    return replace(columns, names=(*others, name), chunks=chunks), layout


def _encoder(columns: Columns, domain: Domain, options: ReadOptions) -> Callable[[Chunk], Records]:
    """The function that encodes a chunk of a table with one column per field."""
    if options.time is not None:
        columns.required(options.time, "time")
    absent = [field.name for field in domain.fields if field.name not in columns.names]
    if absent:
        is_header = columns.certain or 2 * len(absent) <= len(domain.fields)  # no record holds half of the names
        meant = near(absent[0], columns.names) if is_header else ""
        listed = f"{meant}; the columns are {columns.listed()}" if columns.certain else meant
        raise InputError(
            f"{columns.file}: the domain names the column {absent[0]!r}, which the file does not have{listed};"
            " correct the domain or the file, or say that the file has no header with `header=False`."
        )
    numeric = [field.name for field in domain.fields if field.reads_numbers]
    style = (options.missing, options.strip_suffix, options.item_separator, options.time)
    encoder = TableEncoder(domain, *style)

    def encode(chunk: Chunk) -> Records:
        table = with_plain_numbers(chunk.table, numeric, options.number_style, options.missing, chunk.place)
        return encoder.encode(table, chunk.place)

    return encode


def _binary_encoder(
    columns: Columns, names: list[str], domain: Domain, options: ReadOptions
) -> Callable[[Chunk], Records]:
    """The function that encodes a chunk of a table with one 0/1 column per item."""
    positions = [*range(len(names))]
    if options.item_set is not None:
        positions = _positions_of(names, options.item_set, columns.file)
    may_name = columns.certain or options.domain is not None  # else messages give the number of the column

    def encode(chunk: Chunk) -> Records:
        rows, found = [], []
        for number, (name, position) in enumerate(zip(names, positions, strict=True), start=1):
            if position >= 0:
                where = in_column(chunk.place, name if may_name else number)
                here = np.flatnonzero(_binary(flat_column(chunk.table, name), options.threshold, where))
                rows.append(here)
                found.append(np.full(len(here), position, dtype=np.int32))
        row, at = np.concatenate(rows), np.concatenate(found)
        order = np.argsort(row, kind="stable")
        return Records.from_flat(at[order], np.bincount(row, minlength=chunk.table.num_rows), domain)

    return encode


def _positions_of(names: list[str], field: SetField, file: str) -> list[int]:
    """The position of every column in the domain, -1 for unknown columns; refuses an item without a column."""
    if isinstance(field.items[0], int):
        table = {str(label): at for at, label in enumerate(field.items)}
        positions = [table.get(name.strip(), -1) for name in names]
    else:
        positions = KnownItems(field.items).from_texts(pa.array(names, pa.string()), lambda row: file).tolist()
    lacking = set(range(field.width)) - set(positions)
    if lacking:
        raise InputError(
            f"{file}: the domain's item {field.items[min(lacking)]!r} has no column in the file; correct the domain or"
            " the file."
        )
    return positions


def is_binary(column: pa.Array, threshold: float | None = None) -> bool:
    """Whether a column says which rows have an item: by 0 and 1, or by numbers if there is a threshold."""
    try:
        _binary(column, threshold, lambda row: "")
    except InputError:
        return False
    return True


def _binary(column: pa.Array, threshold: float | None, where: Place) -> Any:
    """The rows that have the item: with 1 in a column of 0 and 1, or with a number above the threshold."""
    if pa.types.is_boolean(column.type) and not column.null_count:
        return column.to_numpy(zero_copy_only=False)
    if threshold is not None:
        return required_floats(column, where) > threshold
    if pa.types.is_string(column.type):
        column = pc.utf8_trim_whitespace(column)
        ones = pc.is_in(column, value_set=pa.array(_ONES))
        zeros = pc.is_in(column, value_set=pa.array(_ZEROS))
        if pc.all(pc.or_(ones, zeros)).as_py():
            return ones.to_numpy(zero_copy_only=False)
        other = ~written_numbers(column) & ~pc.or_(ones, zeros).to_numpy(zero_copy_only=False)
        column = pc.if_else(ones, "1", pc.if_else(zeros, "0", pc.if_else(pa.array(other), "", column)))
    values, missing = floats(column, where, ("",))
    valid = ~missing & ((values == 0) | (values == 1))
    if not valid.all():
        raise InputError(
            f"{where(int(np.argmin(valid)))}: the value is neither 0 nor 1; describe the columns with a `domain`"
            " (`dpgm inspect` drafts one), or give `threshold` if a number above it means present."
        )
    return values == 1
