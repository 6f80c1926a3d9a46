"""Tables of columns, chunk by chunk, read in one of three shapes.

Parquet, CSV and JSON lines all come here as Arrow tables with a way to name a row's place in the file.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgm.data.columns import flat_column, floats, set_codes
from dpgm.data.domain import Domain, Image, ItemSet, Label
from dpgm.data.formats import Shape, set_field
from dpgm.data.gathering import BasketGatherer, DistinctPersons, ItemGoal, LongGatherer
from dpgm.data.items import KnownItems, Place, escape_formula
from dpgm.data.records import Records, concatenate
from dpgm.data.source import NEEDS_DOMAIN, Reading, Source
from dpgm.data.table import TableEncoder
from dpgm.errors import InputError, UsageError

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file as an Arrow table, and where each of them is."""

    table: "pyarrow.Table"
    place: Place


@dataclass(frozen=True)
class Columns:
    """A file as named columns: their names, those that hold lists, and the rows chunk by chunk."""

    file: str
    names: tuple[str, ...]
    lists: tuple[str, ...]
    chunks: Iterable[Chunk]


def read_columns(columns: Columns, reading: Reading) -> tuple[Records, Source]:
    """Records from named columns, in the shape that was asked for or is clear."""
    chunks = iter(columns.chunks)
    first = next(chunks, None)
    if first is None or first.table.num_rows == 0:
        raise InputError(f"{columns.file}: holds no records; give a file with at least one.")
    columns = Columns(columns.file, columns.names, columns.lists, chain([first], chunks))
    shape = reading.shape or _detect(columns, first, reading)
    twice = {name for name in columns.names if columns.names.count(name) > 1}
    if twice:
        raise InputError(
            f"{columns.file}: the column name {sorted(twice)[0]!r} occurs twice; names must differ: correct the first"
            " line, or say --no-header if it holds no names."
        )
    if shape == "long":
        return _read_long(columns, reading)
    if shape == "basket":
        return _read_baskets(columns, reading)
    return _read_wide(columns, first, reading)


def _detect(columns: Columns, first: Chunk, reading: Reading) -> Shape:
    if reading.person is not None and reading.item is not None and reading.item not in columns.lists:
        return "long"
    domain = reading.domain
    if domain is not None and set_field(domain) is None:
        return "wide"
    if len(columns.lists) == 1 or reading.item in columns.lists:
        return "basket"
    if domain is not None:
        labels = {str(label) for label in set_field(domain).items}  # type: ignore[union-attr]
        matched = [name for name in columns.names if plain_name(name).strip() in labels or name in labels]
        if len(matched) >= len(labels) and all(_is_binary(first, name, reading.threshold) for name in matched):
            return "wide"
    elif all(_is_binary(first, name) for name in columns.names if name != reading.person):
        return "wide"
    raise UsageError(
        f"{columns.file}: the shape is not clear; say `--shape long` with --person and --item (one row a person and"
        " item), `--shape basket` (one row a record, a list of items), or `--shape wide` (one column a field, with"
        " --domain)."
    )


def plain_name(name: str) -> str:
    """A column name without the apostrophe that protects spreadsheets from formulas."""
    return name[1:] if name.startswith("'") and escape_formula(name[1:]) == name else name


def _is_binary(chunk: Chunk, name: str, threshold: float | None = None) -> bool:
    try:
        _binary(flat_column(chunk.table, name), threshold, lambda row: "")
    except InputError:
        return False
    return True


def _need(columns: Columns, name: str | None, option: str) -> str:
    if name is None:
        raise UsageError(f"{columns.file}: the long shape needs --{option} COLUMN.")
    if name not in columns.names:
        listed = ", ".join(repr(one) for one in columns.names[:12])
        more = ", ..." if len(columns.names) > 12 else ""
        raise InputError(
            f"{columns.file}: there is no column {name!r} for --{option}; the columns are {listed}{more}."
        )
    return name


def goal_for(reading: Reading, file: str, name: str = "items") -> ItemGoal:
    """Which items count; refuses where the list would come from the file undeclared."""
    if reading.domain is not None:
        if set_field(reading.domain) is None:
            raise InputError(
                f"{file}: the domain has {len(reading.domain.fields)} fields, but baskets and the long shape hold one"
                " item set; give a domain of one item set, or `--shape wide`."
            )
        return ItemGoal(reading.domain)
    if not reading.assume_public_items:
        raise UsageError(f"{file}: {NEEDS_DOMAIN}.")
    return ItemGoal(None, name)


def _read_long(columns: Columns, reading: Reading) -> tuple[Records, Source]:
    person, item = _need(columns, reading.person, "person"), _need(columns, reading.item, "item")
    count = None if reading.count is None else _need(columns, reading.count, "count")
    gatherer = LongGatherer(goal_for(reading, columns.file, plain_name(item)))
    for chunk in columns.chunks:
        persons, items = flat_column(chunk.table, person), flat_column(chunk.table, item)
        present = None
        if count is not None:
            present = _numbers(flat_column(chunk.table, count), _in(chunk.place, count)) > 0
        gatherer.add(persons, items, _in(chunk.place, item), present)
    records = gatherer.finish(columns.file)
    return records, Source("person", reading.domain is None, "long")


def _read_baskets(columns: Columns, reading: Reading) -> tuple[Records, Source]:
    name = reading.item
    field = set_field(reading.domain) if reading.domain is not None else None
    if name is None and field is not None and field.name in columns.names:
        name = field.name
    if name is None and len(columns.lists) == 1:
        name = columns.lists[0]
    if name is None:
        raise UsageError(f"{columns.file}: which column holds the lists of items? Say so with --item COLUMN.")
    _need(columns, name, "item")
    gatherer = BasketGatherer(goal_for(reading, columns.file, name))
    people = _people(columns, reading)
    for chunk in columns.chunks:
        gatherer.add(*set_codes(flat_column(chunk.table, name), gatherer.goal.items, _in(chunk.place, name)))
        people.see(chunk)
    records = gatherer.finish(columns.file)
    return records, Source(people.unit(), reading.domain is None, "basket")


class _People:
    """The person column of a shape with one row a person, where the user names one."""

    def __init__(self, file: str, name: str | None) -> None:
        self._file, self._name, self._distinct = file, name, DistinctPersons()

    def see(self, chunk: Chunk) -> None:
        if self._name is not None:
            self._distinct.add(flat_column(chunk.table, self._name), _in(chunk.place, self._name))

    def unit(self) -> Any:
        if self._name is None:
            return "row"
        self._distinct.check(self._file, lambda row: f"record {row + 1}")
        return "person"


def _people(columns: Columns, reading: Reading) -> _People:
    if reading.person is not None:
        _need(columns, reading.person, "person")
    return _People(columns.file, reading.person)


def _read_wide(columns: Columns, first: Chunk, reading: Reading) -> tuple[Records, Source]:
    people = _people(columns, reading)
    domain = reading.domain
    if domain is not None and set_field(domain) is None:
        absent = [field.name for field in domain.fields if field.name not in columns.names]
        if absent:
            raise InputError(
                f"{columns.file}: the domain names the column {absent[0]!r}, which the file does not have; correct the"
                " domain or the file, or say that the file has no header with --no-header."
            )
        encoder = TableEncoder(domain, reading.missing, reading.strip_suffix)
        parts = []
        for chunk in columns.chunks:
            parts.append(encoder.encode(chunk.table, chunk.place))
            people.see(chunk)
        return concatenate(parts), Source(people.unit(), False, "wide")
    names = [name for name in columns.names if name != reading.person]
    if domain is None:
        if reading.threshold is None and not all(_is_binary(first, name) for name in names):
            raise UsageError(
                f"{columns.file}: the columns are not all 0 or 1; describe them with --domain FILE (`dpgm inspect`"
                " drafts one), or give --threshold if a number above it means present."
            )
        domain = Domain.of_items(_labels_of(names), "items")
        positions = np.arange(len(names))
    else:
        positions = _match(columns.file, names, set_field(domain))
    parts = []
    for chunk in columns.chunks:
        parts.append(_binary_records(chunk, names, positions, domain, reading.threshold))
        people.see(chunk)
    return concatenate(parts), Source(people.unit(), False, "wide")


def _labels_of(names: list[str]) -> list[Label]:
    plain = [plain_name(name) for name in names]
    whole = all(name.isascii() and name.isdigit() and str(int(name)) == name for name in plain)
    return [int(name) for name in plain] if whole else list(plain)


def _match(file: str, names: list[str], field: ItemSet | Image | None) -> Any:
    """The position of every column, -1 for columns the domain does not know; every item needs a column."""
    import pyarrow as pa

    assert field is not None
    if isinstance(field.items[0], int):
        table = {str(label): at for at, label in enumerate(field.items)}
        positions = np.array([table.get(name.strip(), -1) for name in names], dtype=np.int64)
    else:
        positions = KnownItems(field.items).from_texts(pa.array(names, type=pa.string()), lambda row: file)
    if len(set(positions[positions >= 0].tolist())) < field.width:
        gone = next(at for at in range(field.width) if at not in set(positions.tolist()))
        raise InputError(
            f"{file}: the domain's item {field.items[gone]!r} has no column in the file; correct the domain or"
            " the file."
        )
    return positions


def _binary_records(
    chunk: Chunk, names: list[str], positions: Any, domain: Domain, threshold: float | None
) -> Records:
    rows, found = [], []
    for name, position in zip(names, positions.tolist(), strict=True):
        if position >= 0:
            present = _binary(flat_column(chunk.table, name), threshold, _in(chunk.place, name))
            here = np.flatnonzero(present)
            rows.append(here)
            found.append(np.full(len(here), position, dtype=np.int32))
    row, at = np.concatenate(rows), np.concatenate(found)
    order = np.argsort(row, kind="stable")
    return Records.from_flat(at[order], np.bincount(row, minlength=chunk.table.num_rows), domain)


def _binary(column: "pyarrow.Array", threshold: float | None, where: Place) -> Any:
    """Which rows are present: 1 of 0 and 1, or above a threshold."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_boolean(column.type) and not column.null_count:
        return column.to_numpy(zero_copy_only=False)
    if threshold is None and pa.types.is_string(column.type):
        ones, zeros = pc.equal(column, "1"), pc.equal(column, "0")
        if pc.all(pc.or_(ones, zeros)).as_py():
            return ones.to_numpy(zero_copy_only=False)
    values = _numbers(column, where)
    if threshold is not None:
        return values > threshold
    good = (values == 0) | (values == 1)
    if not good.all():
        raise InputError(
            f"{where(int(np.argmin(good)))}: the value is neither 0 nor 1; give --threshold or --domain."
        )
    return values == 1


def _numbers(column: "pyarrow.Array", where: Place) -> Any:
    values, gone = floats(column, where, ("",))
    if gone.any():
        raise InputError(f"{where(int(np.argmax(gone)))}: the value is missing; correct the file.")
    return values


def _in(place: Place, name: str) -> Place:
    return lambda row: f"{place(row)}, column {name!r}"


def joined(files: Iterator[Columns]) -> Columns:
    """Several files with the same columns, one after the other."""
    first = next(files)
    rest = list(files)
    for other in rest:
        if set(other.names) != set(first.names):
            raise InputError(f"{other.file}: has other columns than {first.file}; read the files one by one.")
    return Columns(first.file, first.names, first.lists, chain(first.chunks, *(other.chunks for other in rest)))
