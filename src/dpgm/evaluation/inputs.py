"""Read a real and a synthetic data set so that they can be compared: as records over one domain, and as raw columns.

Both may be records, frames (pandas, polars, pyarrow) or files.
"""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpgm.data.decoding import decode
from dpgm.data.domain import Categorical, Date, DateTime, Domain, ItemSet, ShapedNumber
from dpgm.data.domain_file import DomainLike, as_domain
from dpgm.data.inspect.inspection import guess_options, table_columns
from dpgm.data.items import escape_formula
from dpgm.data.read.columns import Chunk
from dpgm.data.read.frames import arrow_table, as_records, checked_frame, long_records, package_of
from dpgm.data.read.opening import Input, locate
from dpgm.data.read.options import Paths, ReadOptions
from dpgm.data.read.readers import columns_of, format_name, read_files
from dpgm.data.records import Records, sort_rows
from dpgm.data.values import object_texts, parse_dates, with_plain_numbers
from dpgm.errors import DpgmError, InputError, UsageError
from dpgm.evaluation.raw_columns import (
    NO_NOTES,
    Notes,
    RawColumn,
    RawColumns,
    compared_records,
    is_plain_number,
    raw_columns,
    set_columns,
)

_NAMED = 5  # columns named in a message
MOST_ROWS = 1_000_000  # raw rows used of a longer file, evenly spread: enough for every figure in the report
_COLUMNAR = ("csv", "tsv", "parquet", "jsonl")  # formats with named columns
_JSON = ("jsonl", "json")
_MATRICES = ("npz", "npy", "idx")  # formats whose positions have no names


@dataclass(frozen=True)
class Outside:
    """Items of the real data that the domain does not list, so that no synthetic record can hold them."""

    items: int
    share: float  # of all items in the real records, counted with repetition


@dataclass(frozen=True)
class Inputs:
    """Real and synthetic data as records over one domain, and as raw columns if they have any."""

    real: Records
    synthetic: Records
    raw: RawColumns | None
    outside: Outside | None = None
    values_from_data: bool = (
        False  # whether items and values were taken from the real data, since no domain lists them
    )


def check_comparable(real: Records, synthetic: Records) -> None:
    """Refuse empty data and data of different domains.

    Raises:
        UsageError: one data set has no records, or the domains differ.
    """
    _refuse_empty(len(real), len(synthetic))
    if real.width != synthetic.width:
        raise UsageError(
            f"the synthetic data is {synthetic.width} positions wide and the real data {real.width}; "
            "read both with the same domain."
        )
    if real.domain != synthetic.domain:
        first, second = ([field.name for field in records.domain.fields] for records in (real, synthetic))
        detail = "their items or values differ" if first == second else f"fields {first} against {second}"
        raise UsageError(
            f"real and synthetic data have different domains ({detail}); read both with the same domain."
        )


def _refuse_empty(real: int, synthetic: int) -> None:
    for name, rows in (("real", real), ("synthetic", synthetic)):
        if rows == 0:
            raise UsageError(f"the {name} data holds no records; there is nothing to compare.")


def position_names(domain: Domain, *, with_fields: bool = False) -> tuple[str, ...]:
    """A readable name for every position: an item's label, `field=value`, a bin's range or a pixel.

    >>> position_names(Domain.of_items(["bread", "milk"]))
    ('bread', 'milk')

    Args:
        domain: a closed domain.
        with_fields: whether items are named `field=item` if there are several fields.
    """
    several = with_fields and len(domain.fields) > 1
    return tuple(
        f"{field.name}={name}" if several and field.kind == "items" else name
        for field in domain.fields
        for name in field.position_names
    )


def with_domain(records: Records, domain: Domain) -> Records:
    """The same item sets over another domain, which has all of their items.

    >>> records = Records.from_lists([[0, 1]], Domain.of_items(["milk", "bread"]))
    >>> with_domain(records, Domain.of_items(["bread", "jam", "milk"])).indices.tolist()
    [0, 2]
    """
    position_of = {name: at for at, name in enumerate(position_names(domain))}
    # In CSV files, items that look like formulas are escaped to protect spreadsheets.
    position_of = {escape_formula(name): at for name, at in position_of.items()} | position_of
    labels = position_names(records.domain)
    unknown = [name for name in labels if name not in position_of]
    if unknown:
        raise UsageError(
            f"the synthetic data holds {len(unknown)} items that the real data's domain does not have, so they have "
            "different domains; evaluate it against the data it was made from."
        )
    indices = np.array([position_of[name] for name in labels], dtype=np.int64)[records.indices]
    return Records(domain, *sort_rows(records.indptr, indices, domain.width))


def inputs_of(
    real: object, synthetic: object, *, domain: DomainLike | None = None, notes: Notes = NO_NOTES
) -> Inputs:
    """Make records, frames or matrices comparable.

    Args:
        real: records, or a frame or matrix of pandas, polars, pyarrow, numpy or scipy.
        synthetic: the same kinds.
        domain: the domain of both; by default that of the records, or one made from both frames.
        notes: what else is known about the columns.
    """
    sides = (real, synthetic)
    given = as_domain(domain)
    if given is not None and given.is_open:  # values and bins that it does not state follow from the data
        return _columns_of_domain(sides, given, notes)
    tables = [_as_table(side) for side in sides]
    if all(table is None for table in tables):
        first = as_records(real, given)
        return Inputs(first, as_records(synthetic, given or first.domain), None)
    if given is None:
        given = next((side.domain for side in sides if isinstance(side, Records)), None)
    if given is None:
        for side, table in zip(sides, tables, strict=True):
            if table is None:
                raise UsageError(
                    f"a frame cannot be compared with {type(side).__name__}; give two frames or two files, or pass"
                    " `domain=` to compare it with a matrix."
                )
        return _without_domain(tables[0], tables[1], notes)
    if _unmodelled_gaps(tables, given):  # the domain has no bin for missing values
        return _columns_of_domain(sides, given, notes)
    records = [as_records(side, given) for side in sides]
    both = [_decoded(one) if table is None else table for one, table in zip(records, tables, strict=True)]
    raw = raw_columns(both[0], both[1], notes, domain=given)
    return Inputs(records[0], records[1], raw if raw.columns or raw.left_out else None)


def long_inputs(
    real: object, synthetic: object, person: str | None, item: str | None, domain: Domain | None
) -> Inputs:
    """Make frames with one row per person and item (or records) comparable, as one item set per person."""
    if person is None or item is None:
        raise UsageError("long data need both `person` and `item`: the columns of persons and of items.")
    first, second = (
        side if isinstance(side, Records) else long_records(side, person, item) for side in (real, synthetic)
    )
    if domain is None or domain.is_open:
        domain = first.domain
    return Inputs(with_domain(first, domain), with_domain(second, domain), None)


def _decoded(records: Records) -> pa.Table:
    return decode(records, rng=np.random.default_rng(0))


def _columns_of_domain(sides: Sequence[object], domain: Domain, notes: Notes) -> Inputs:
    """The columns that a domain names, of frames or decoded records, without the domain's values and bins."""
    selected = []
    for side in sides:
        table = _as_table(side)
        if table is None and isinstance(side, Records) and not side.domain.is_open:
            table = _decoded(side)
        if table is None:
            raise UsageError(
                "records of an open domain cannot be compared; evaluate the files or frames themselves."
            )
        selected.append(table.select([field.name for field in domain.fields if field.name in table.column_names]))
    return _without_domain(selected[0], selected[1], notes.with_open(domain))


def _unmodelled_gaps(tables: Sequence[Any], domain: Domain) -> bool:
    """Whether a column has missing or other values that were too rare for the fit to model."""
    found = (ShapedNumber, Categorical)
    fields = [field for field in domain.fields if isinstance(field, found) and not field.missing]
    return any(
        table is not None and field.name in table.column_names and _has_gaps(table.column(field.name), field)
        for field in fields
        for table in tables
    )


def _has_gaps(column: pa.ChunkedArray, field: ShapedNumber | Categorical) -> bool:
    if column.null_count or isinstance(field, ShapedNumber):
        return bool(column.null_count)
    known = {str(value) for value in field.values}
    return not field.other and any(str(value).strip() not in known for value in pc.unique(column).to_pylist())


def _as_table(data: object) -> Any:
    """A frame of pandas, polars or pyarrow as an Arrow table; None for anything else."""
    frame: Any = checked_frame(data)
    package = package_of(frame)
    if isinstance(frame, pa.Table):
        return frame
    if package not in ("pandas", "polars") or not hasattr(frame, "columns"):
        return None
    if package == "polars":
        return arrow_table(frame)
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise UsageError("two columns of the frame have the same name; names must differ.")
    return pa.table({name: _arrow_column(frame.iloc[:, at], name) for at, name in enumerate(names)})


def _arrow_column(series: Any, name: str) -> pa.Array:
    """A pandas column as an Arrow array; mixed objects, and moments that may differ in their offset, become texts."""
    try:
        column = pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        column = None
    if column is None or (series.dtype == object and pa.types.is_timestamp(column.type)):
        return object_texts(series.astype(object).tolist(), lambda row: f"row {row + 1}, column {name!r}")
    return column


def _without_domain(real: pa.Table, synthetic: pa.Table, notes: Notes) -> Inputs:
    """Make two tables comparable without a domain; if all columns hold only 0 and 1, each column is an item."""
    _refuse_empty(real.num_rows, synthetic.num_rows)
    raw, sets = raw_columns(real, synthetic, notes), set_columns(real, synthetic)
    if not raw.columns and not sets:
        raise UsageError("the two tables share no column that can be compared; check the names of their columns.")
    items = [_as_item(column) for column in raw.columns]
    if not sets and not raw.left_out and all(item is not None for item in items):
        domain = Domain.of_items([column.name for column in raw.columns])
        dense = [np.stack([item[side] for item in items if item is not None], axis=1) for side in (0, 1)]
        first, second = (Records.from_dense(one, domain) for one in dense)
        return Inputs(first, second, None, values_from_data=True)
    records = compared_records(raw.columns, sets)
    return Inputs(*records, raw if raw.columns or raw.left_out else None, values_from_data=True)


def _as_item(column: RawColumn) -> list[NDArray[np.bool_]] | None:
    """Which rows of both sides hold 1 or true; None if a column holds anything but 0 and 1, or false and true."""
    sides = list(column.sides)
    if column.kind == "category" and set(column.labels) <= {"true", "false"}:
        numbers = np.array([*(label == "true" for label in column.labels), np.nan])  # code -1: missing
        sides = [numbers[side] for side in sides]
    elif column.kind != "number":
        return None
    return [side == 1 for side in sides] if all(np.isin(side, (0, 1)).all() for side in sides) else None


def file_inputs(real: Paths, synthetic: Paths, options: ReadOptions) -> Inputs:
    """Make two files comparable.

    Args:
        real: the real file.
        synthetic: the synthetic file, as `dpgm sample` wrote it or in the format of the real file.
        options: how to read the real file; their domain is that of both files. Tables without a domain are compared
            column by column.
    """
    # Nothing is released here, so items may be taken from the file, and its shape guessed from the first rows.
    source = locate(real, options.member)
    options = _with_fitted_layout(source, replace(options, discover=False))
    domain = options.public_domain
    if domain is not None and domain.is_open:
        if domain.item_set is None:
            return _raw_tables(real, synthetic, options, domain)
        options = replace(options, domain=None)
    guess = guess_options(source, replace(options, assume_public_items=True))
    if guess.table:
        return _raw_tables(real, synthetic, guess.options)
    first, _ = read_files([source], guess.options)
    options = replace(guess.options, labels=None)
    second, used = read_alike(first.domain, synthetic, ReadOptions(), options)
    raw = _raw_columns_of_files(real, synthetic, options, used, first.domain)
    from_data = domain is None or domain.is_open
    return Inputs(first, second, raw, _outside(real, options, first), from_data)


def _with_fitted_layout(source: Input, options: ReadOptions) -> ReadOptions:
    """Add the layout of the file that was fitted, if the options state none and this file has the same columns."""
    layout = None if options.public_domain is None else options.public_domain.layout
    if layout is None or options.shape or options.person or options.item:
        return options
    if layout.shape != "long" and format_name(source, options) in _JSON:
        return options  # the names of members are only known from rows; guessing finds the list of items
    chosen = replace(options, shape=layout.shape, person=layout.person, item=layout.item)
    try:
        names = columns_of(source, replace(chosen, domain=None)).names
    except DpgmError:
        return options
    return chosen if {layout.person, layout.item} - {None} <= set(names) else options


def _outside(path: Paths, options: ReadOptions, read: Records) -> Outside | None:
    """The items of a file that reading it with the domain has dropped."""
    source = locate(path, options.member)
    if options.domain is None or not _is_named_set(source, options, read.domain):
        return None
    try:
        own, _ = read_files([source], replace(options, domain=None, assume_public_items=True))
    except DpgmError:
        return None  # this file can only be read with the domain
    known = set(position_names(read.domain))
    unlisted = np.array([name not in known for name in position_names(own.domain)])
    counts = np.bincount(own.indices, minlength=own.width)
    return Outside(int((unlisted & (counts > 0)).sum()), float(counts[unlisted].sum() / max(counts.sum(), 1)))


def _is_named_set(source: Input, options: ReadOptions, domain: Domain) -> bool:
    return isinstance(domain.item_set, ItemSet) and format_name(source, options) not in _MATRICES


def _raw_tables(real: Paths, synthetic: Paths, options: ReadOptions, domain: Domain | None = None) -> Inputs:
    """Make files of tables comparable without a domain, or with an open domain, which names the columns."""
    notes = Notes(missing=tuple(options.missing), strip_suffix=options.strip_suffix)
    first = _read_raw(real, options, domain)
    if domain is None:
        second = _read_raw_matching(synthetic, ReadOptions(), options, None, first.column_names, 1)
        return inputs_of(*_with_plain_numbers(first, second, options), notes=notes)
    names = [field.name for field in domain.fields if field.name in first.column_names]
    if not names:
        stated = ", ".join(field.name for field in domain.fields[:_NAMED])
        raise UsageError(
            f"the real data has none of the columns that the domain names ({stated}); is it the release, or the domain,"
            " of other data?"
        )
    second = _read_raw_matching(synthetic, ReadOptions(header=True), options, domain, names, len(names))
    shared = [name for name in names if name in second.column_names]
    sets = [field.name for field in domain.fields if field.kind == "items" and field.name in shared]
    both = (first.select(names), second.select(shared))
    tables = [_as_lists(table, sets, options.item_separator) for table in both]
    return inputs_of(*tables, notes=notes.with_open(domain))


def _read_raw_matching(
    path: Paths, first: ReadOptions, second: ReadOptions, domain: Domain | None, names: list[str], at_least: int
) -> pa.Table:
    """Read with the first options if that gives `at_least` of the named columns, otherwise with the second options."""
    with suppress(DpgmError):
        table = _read_raw(path, first, domain)
        if len({*names} & {*table.column_names}) >= at_least:
            return table
    return _read_raw(path, second, domain)


def _as_lists(table: pa.Table, names: list[str], separator: str | None) -> pa.Table:
    """Turn columns of item sets into lists."""
    for name in names:
        lists = [_items_of(cell, separator) for cell in table.column(name).to_pylist()]
        table = _replaced(table, name, pa.array(lists, type=pa.list_(pa.string())))
    return table


def _items_of(cell: Any, separator: str | None) -> list[str]:
    """The items of one cell, which is a list, a JSON text or items with a separator between them."""
    if isinstance(cell, str) and cell.strip().startswith("["):
        with suppress(ValueError, RecursionError):
            cell = json.loads(cell)
    elif isinstance(cell, str):
        cell = cell.split(separator) if separator else [cell]
    return sorted({str(item).strip() for item in cell} - {""}) if isinstance(cell, list) else []


def _replaced(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def _raw_columns_of_files(
    real: Paths, synthetic: Paths, options: ReadOptions, used: ReadOptions, domain: Domain
) -> RawColumns | None:
    both = ((real, options), (synthetic, used))
    columnar = all(format_name(locate(path, chosen.member), chosen) in _COLUMNAR for path, chosen in both)
    if not columnar or not domain.table_columns:
        return None
    notes = Notes(missing=(*options.missing, *used.missing), strip_suffix=options.strip_suffix)
    first, second = (_read_raw(path, chosen, domain) for path, chosen in both)
    return raw_columns(first, second, notes, domain=domain)


def _read_raw(path: Paths, options: ReadOptions, domain: Domain | None) -> pa.Table:
    """The raw columns of a file; of more than a million rows, a part that is evenly spread over the file."""
    source = locate(path, options.member)
    chosen = replace(options, domain=domain)
    if domain is None:
        file = table_columns(source, guess_options(source, chosen))
    else:
        file = columns_of(source, chosen)
    if len(set(file.names)) < len(file.names):
        raise InputError(f"{source}: two columns have the same name; names must differ (or say `header=False`).")
    return _thinned(_parsed(chunk, domain, options) for chunk in file.chunks)


def _parsed(chunk: Chunk, domain: Domain | None, options: ReadOptions) -> pa.Table:
    """Parse numbers and dates of a text file that are written as the options or the domain say."""
    table = chunk.table
    fields = [] if domain is None else [field for field in domain.fields if field.name in table.column_names]
    numeric = [field.name for field in fields if field.kind in ("numeric", "shaped")]
    table = with_plain_numbers(table, numeric, options.number_style, options.missing, chunk.place)
    for field in fields:
        column = table.column(field.name).combine_chunks()
        if isinstance(field, (Date, DateTime, ShapedNumber)) and field.pattern and pa.types.is_string(column.type):
            moments = parse_dates(column, field.pattern)
            if moments.null_count < len(moments):  # in a synthetic file, dates may be in ISO format instead
                table = _replaced(table, field.name, moments)
    return table


def _with_plain_numbers(real: pa.Table, synthetic: pa.Table, options: ReadOptions) -> list[pa.Table]:
    """Parse the columns of two tables without a domain that hold only numbers in the number style of the options.

    The synthetic file is taken to have this style if that is the only way to read some column as numbers; otherwise
    its numbers are plain already.
    """
    if options.number_style.is_plain:
        return [real, synthetic]
    parsed_real, _ = _parse_numbers(real, options)
    parsed_synthetic, names = _parse_numbers(synthetic, options)
    has_style = any(not is_plain_number(synthetic.column(name)) for name in names)
    return [parsed_real, parsed_synthetic if has_style else synthetic]


def _parse_numbers(table: pa.Table, options: ReadOptions) -> tuple[pa.Table, list[str]]:
    """The table with its columns of numbers in the style of the options parsed, and the names of these columns."""
    names = []
    for name in table.column_names:
        if pa.types.is_string(table.column(name).type):
            with suppress(InputError):
                table = with_plain_numbers(table, [name], options.number_style, options.missing, str)
                names.append(name)
    return table, names


def _thinned(tables: Iterable[pa.Table]) -> pa.Table:
    """All rows or, if there are too many, every second, fourth, ... row."""
    parts: list[pa.Table] = []
    step, rows_read, rows_kept = 1, 0, 0
    for table in tables:
        first = -rows_read % step
        rows_read += table.num_rows
        part = table if step == 1 else table.take(np.arange(first, table.num_rows, step))
        parts.append(part)
        rows_kept += part.num_rows
        if rows_kept > MOST_ROWS:
            joined = pa.concat_tables(parts, promote_options="permissive")
            parts = [joined.take(np.arange(0, joined.num_rows, 2))]
            step, rows_kept = 2 * step, parts[0].num_rows
    if not parts:
        raise UsageError("a file holds no records; there is nothing to compare.")
    return pa.concat_tables(parts, promote_options="permissive")


def read_alike(domain: Domain, path: Paths, *attempts: ReadOptions) -> tuple[Records, ReadOptions]:
    """Read a file over `domain` with the first reading options that work; returns the records and these options.

    Readers drop items that a domain does not have. That is right for private data, but would hide that a synthetic
    file belongs to another domain, so a file of item sets is read with its own items, and the domain must have all.

    Raises:
        DpgmError: the error of the last attempt.
        UsageError: the file holds items that the domain does not have.
    """
    *early, last = attempts
    for options in early:
        with suppress(DpgmError):
            return _read(domain, path, options), options
    return _read(domain, path, last), last


def _read(domain: Domain, path: Paths, options: ReadOptions) -> Records:
    source = locate(path, options.member)
    guessed = guess_options(source, replace(options, domain=domain)).options
    if not _is_named_set(source, options, domain):
        return read_files([source], guessed)[0]
    # A synthetic file is public, so its shape may be guessed from its first rows. A cell is one item.
    separator = guessed.item_separator
    if separator is None and not (guessed.shape == "basket" and guessed.header):  # those cells are JSON lists
        separator = ""
    own = replace(guessed, domain=None, assume_public_items=True, item_separator=separator)
    return with_domain(read_files([source], own)[0], domain)
