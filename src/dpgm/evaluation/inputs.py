"""Two frames, files or collections of records made comparable: records over the same positions, and raw columns."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpgm.data.domain import Date, DateTime, Domain, ItemSet, ShapedNumber
from dpgm.data.domain_file import DomainLike, as_domain
from dpgm.data.inspect.inspection import guess_options, table_columns
from dpgm.data.items import escape_formula
from dpgm.data.read.columns import Chunk
from dpgm.data.read.frames import arrow_table, as_records, checked_frame, long_records, package_of
from dpgm.data.read.opening import Input, locate
from dpgm.data.read.options import Paths, ReadOptions
from dpgm.data.read.readers import columns_of, format_name, read_files
from dpgm.data.records import Records, sort_rows
from dpgm.data.table import decode
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

MOST_ROWS = 1_000_000  # raw rows kept of a longer file, evenly spread: enough for every figure in the report
_COLUMNAR = ("csv", "tsv", "parquet", "jsonl")
_JSON = ("jsonl", "json")
_MATRICES = ("npz", "npy", "idx")  # their positions have no names


@dataclass(frozen=True)
class Outside:
    """Items of the real data that the domain does not list, so that no synthetic record can hold them."""

    items: int
    share: float  # of all that the real records hold


@dataclass(frozen=True)
class Inputs:
    """Both sides as records over one domain, and as raw columns where they have any."""

    real: Records
    synthetic: Records
    raw: RawColumns | None
    outside: Outside | None = None


def check_comparable(real: Records, synthetic: Records) -> None:
    """Refuse empty data and data of different domains, saying which and why.

    Raises:
        UsageError: one side has no records, or the domains differ.
    """
    _refuse_empty(len(real), len(synthetic))
    if real.width != synthetic.width:
        raise UsageError(
            f"the synthetic data is {synthetic.width} positions wide and the real data {real.width}; "
            "read both with the same domain."
        )
    if real.domain != synthetic.domain:
        ours, theirs = ([field.name for field in records.domain.fields] for records in (real, synthetic))
        detail = "their items or values differ" if ours == theirs else f"fields {ours} against {theirs}"
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
        with_fields: whether items tell their field as well, where there are several fields.
    """
    several = with_fields and len(domain.fields) > 1
    return tuple(
        f"{field.name}={name}" if several and field.kind == "items" else name
        for field in domain.fields
        for name in field.position_names
    )


def with_domain(records: Records, domain: Domain) -> Records:
    """The same item sets over a wider or reordered list of items.

    >>> records = Records.from_lists([[0, 1]], Domain.of_items(["milk", "bread"]))
    >>> with_domain(records, Domain.of_items(["bread", "jam", "milk"])).indices.tolist()
    [0, 2]
    """
    place = {name: at for at, name in enumerate(position_names(domain))}
    # CSV protects spreadsheets from items that look like formulas.
    place = {escape_formula(name): at for name, at in place.items()} | place
    labels = position_names(records.domain)
    unknown = [name for name in labels if name not in place]
    if unknown:
        raise UsageError(
            f"the synthetic data holds {len(unknown)} items that the real data's domain does not have, so they have "
            "different domains; evaluate it against the data it was made from."
        )
    moved = np.array([place[name] for name in labels], dtype=np.int64)[records.indices]
    return Records(domain, *sort_rows(records.indptr, moved, domain.width))


def inputs_of(
    real: object, synthetic: object, *, domain: DomainLike | None = None, notes: Notes = NO_NOTES
) -> Inputs:
    """Both sides made comparable.

    Args:
        real: records, or a frame or matrix of pandas, polars, pyarrow, numpy or scipy.
        synthetic: likewise.
        domain: of both; by default that of the records, or one made from both frames.
        notes: what else is known of columns.
    """
    sides = (real, synthetic)
    given = as_domain(domain)
    if given is not None and given.is_open:  # bins and values are not known: the columns decide
        return _named_columns(sides, given, notes)
    tables = [as_table(side) for side in sides]
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
        return _as_they_stand(tables[0], tables[1], notes)
    if _unmodelled_gaps(tables, given):  # its bins have no place for them
        return _named_columns(sides, given, notes)
    records = [as_records(side, given) for side in sides]
    both = [_decoded(one) if table is None else table for one, table in zip(records, tables, strict=True)]
    raw = raw_columns(both[0], both[1], notes, domain=given)
    return Inputs(records[0], records[1], raw if raw.columns or raw.left_out else None)


def long_inputs(
    real: object, synthetic: object, person: str | None, item: str | None, domain: Domain | None
) -> Inputs:
    """Both sides as the sets of their persons, from frames of one row per person and item, or from records."""
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


def _named_columns(sides: Sequence[object], domain: Domain, notes: Notes) -> Inputs:
    """The columns of frames, or of decoded records, that a domain names, compared as they stand."""
    named = []
    for side in sides:
        table = as_table(side)
        if table is None and isinstance(side, Records) and not side.domain.is_open:
            table = _decoded(side)
        if table is None:
            raise UsageError(
                "records of an open domain cannot be compared; evaluate the files or frames themselves."
            )
        named.append(table.select([field.name for field in domain.fields if field.name in table.column_names]))
    return _as_they_stand(named[0], named[1], notes.with_open(domain))


def _unmodelled_gaps(tables: Sequence[Any], domain: Domain) -> bool:
    """Whether cells are missing where a fit has found too few of them to be modelled."""
    names = [field.name for field in domain.fields if isinstance(field, ShapedNumber) and not field.missing]
    return any(
        table is not None and name in table.column_names and table.column(name).null_count > 0
        for name in names
        for table in tables
    )


def as_table(data: object) -> Any:
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
    """A column of pandas as Arrow; one of mixed objects as texts, value by value."""
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return object_texts(series.astype(object).tolist(), lambda row: f"row {row + 1}, column {name!r}")


def _as_they_stand(real: pa.Table, synthetic: pa.Table, notes: Notes) -> Inputs:
    """Two tables that no domain describes; where all columns hold 0 and 1 only, each column is an item."""
    _refuse_empty(real.num_rows, synthetic.num_rows)
    raw, sets = raw_columns(real, synthetic, notes), set_columns(real, synthetic)
    if not raw.columns and not sets:
        raise UsageError("the two tables share no column that can be compared; check the names of their columns.")
    ones = [_ones(column) for column in raw.columns]
    if not sets and not raw.left_out and all(one is not None for one in ones):
        domain = Domain.of_items([column.name for column in raw.columns])
        dense = [np.stack([one[side] for one in ones if one is not None], axis=1) for side in (0, 1)]
        return Inputs(Records.from_dense(dense[0], domain), Records.from_dense(dense[1], domain), None)
    return Inputs(*compared_records(raw.columns, sets), raw if raw.columns else None)


def _ones(column: RawColumn) -> list[NDArray[np.bool_]] | None:
    """Where both sides hold 1 or true; None if either holds anything but 0 and 1, or false and true."""
    sides = list(column.sides)
    if column.kind == "category" and set(column.labels) <= {"true", "false"}:
        numbers = np.array([*(label == "true" for label in column.labels), np.nan])  # the last is of missing values
        sides = [numbers[side] for side in sides]
    elif column.kind != "number":
        return None
    return [side == 1 for side in sides] if all(np.isin(side, (0, 1)).all() for side in sides) else None


def file_inputs(real: Paths, synthetic: Paths, options: ReadOptions) -> Inputs:
    """Both files made comparable.

    Args:
        real: the real file; `options` say how it is read, and their domain is that of both. A table without one is
            compared column by column as it stands.
        synthetic: as `dpgm sample` wrote it, or like the real file.
        options: how the real file is read.
    """
    # Nothing is released here, so the items may be taken from the file, and the shape guessed from its first rows.
    source = locate(real, options.member)
    options = _as_laid_out(source, replace(options, discover=False))
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
    return Inputs(first, second, _raw(real, synthetic, options, used, first.domain), _outside(real, options, first))


def _as_laid_out(source: Input, options: ReadOptions) -> ReadOptions:
    """The options with the shape and columns that the file of the fit had, where they are not stated and are there."""
    layout = None if options.public_domain is None else options.public_domain.layout
    if layout is None or options.shape or options.person or options.item:
        return options
    if layout.shape != "long" and format_name(source, options) in _JSON:
        return options  # members are known from rows alone; the only list is found by guessing
    chosen = replace(options, shape=layout.shape, person=layout.person, item=layout.item)
    try:
        names = columns_of(source, replace(chosen, domain=None)).names
    except DpgmError:
        return options
    return chosen if {layout.person, layout.item} - {None} <= set(names) else options


def _outside(path: Paths, options: ReadOptions, read: Records) -> Outside | None:
    """What reading with the domain left out of a file of item sets."""
    source = locate(path, options.member)
    if options.domain is None or not _is_named_set(source, options, read.domain):
        return None
    try:
        own, _ = read_files([source], replace(options, domain=None, assume_public_items=True))
    except DpgmError:
        return None  # only the domain tells how this file is to be read
    known = set(position_names(read.domain))
    unlisted = np.array([name not in known for name in position_names(own.domain)])
    counts = np.bincount(own.indices, minlength=own.width)
    return Outside(int((unlisted & (counts > 0)).sum()), float(counts[unlisted].sum() / max(counts.sum(), 1)))


def _is_named_set(source: Input, options: ReadOptions, domain: Domain) -> bool:
    return isinstance(domain.item_set, ItemSet) and format_name(source, options) not in _MATRICES


def _raw_tables(real: Paths, synthetic: Paths, options: ReadOptions, domain: Domain | None = None) -> Inputs:
    """Tables without a domain, or with one that names the columns and leaves values or bins open."""
    notes = Notes(missing=tuple(options.missing), strip_suffix=options.strip_suffix)
    first = read_raw(real, options, domain)
    if domain is None:
        second = _read_beside(synthetic, ReadOptions(), options, None, first.column_names, 1)
        return inputs_of(*_in_plain_numbers(first, second, options), notes=notes)
    names = [field.name for field in domain.fields if field.name in first.column_names]
    second = _read_beside(synthetic, ReadOptions(header=True), options, domain, names, len(names))
    names = [name for name in names if name in second.column_names]
    sets = [field.name for field in domain.fields if field.kind == "items" and field.name in names]
    tables = [_as_lists(table.select(names), sets, options.item_separator) for table in (first, second)]
    return inputs_of(*tables, notes=notes.with_open(domain))


def _read_beside(
    path: Paths, first: ReadOptions, second: ReadOptions, domain: Domain | None, names: list[str], at_least: int
) -> pa.Table:
    """A file read by the first options if that gives at least so many of the named columns, else by the second."""
    with suppress(DpgmError):
        table = read_raw(path, first, domain)
        if len({*names} & {*table.column_names}) >= at_least:
            return table
    return read_raw(path, second, domain)


def _as_lists(table: pa.Table, names: list[str], separator: str | None) -> pa.Table:
    """Sets of items as lists, whether a file holds lists, JSON texts or items side by side."""
    for name in names:
        lists = []
        for cell in table.column(name).to_pylist():
            items = cell
            if isinstance(cell, str) and cell.strip().startswith("["):
                with suppress(ValueError, RecursionError):
                    items = json.loads(cell)
            elif isinstance(cell, str):
                items = cell.split(separator) if separator else [cell]
            listed = sorted({str(item).strip() for item in items}) if isinstance(items, list) else []
            lists.append([item for item in listed if item])
        column = pa.array(lists, type=pa.list_(pa.string()))
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def _raw(
    real: Paths, synthetic: Paths, options: ReadOptions, used: ReadOptions, domain: Domain
) -> RawColumns | None:
    both = ((real, options), (synthetic, used))
    columnar = all(format_name(locate(path, chosen.member), chosen) in _COLUMNAR for path, chosen in both)
    if not columnar or not domain.table_columns:
        return None
    notes = Notes(missing=(*options.missing, *used.missing), strip_suffix=options.strip_suffix)
    first, second = (read_raw(path, chosen, domain) for path, chosen in both)
    return raw_columns(first, second, notes, domain=domain)


def read_raw(path: Paths, options: ReadOptions, domain: Domain | None) -> pa.Table:
    """The columns of a file as they stand in it; at most a million rows, evenly spread over the file."""
    source = locate(path, options.member)
    chosen = replace(options, domain=domain)
    if domain is None:
        file = table_columns(source, guess_options(source, chosen))
    else:
        file = columns_of(source, chosen)
    if len(set(file.names)) < len(file.names):
        raise InputError(f"{source}: two columns have the same name; names must differ (or say --no-header).")
    return _thinned(_plain(chunk, domain, options) for chunk in file.chunks)


def _plain(chunk: Chunk, domain: Domain | None, options: ReadOptions) -> pa.Table:
    """Numbers and dates of a text file made plain where the options or the domain say how they are written."""
    table = chunk.table
    fields = [] if domain is None else [field for field in domain.fields if field.name in table.column_names]
    numeric = [field.name for field in fields if field.kind in ("numeric", "shaped")]
    table = with_plain_numbers(table, numeric, options.number_style, options.missing, chunk.place)
    for field in fields:
        column = table.column(field.name).combine_chunks()
        if isinstance(field, (Date, DateTime, ShapedNumber)) and field.pattern and pa.types.is_string(column.type):
            moments = parse_dates(column, field.pattern)
            if moments.null_count < len(moments):  # a synthetic file has them in ISO's way
                table = table.set_column(table.column_names.index(field.name), field.name, moments)
    return table


def _in_plain_numbers(real: pa.Table, synthetic: pa.Table, options: ReadOptions) -> list[pa.Table]:
    """Two tables without a domain, texts in the number style of the options made plain where a whole column has it.

    A synthetic file is in this style if some column of it has it alone; else its numbers are plain already.
    """
    if options.number_style.is_plain:
        return [real, synthetic]
    both = [_plain_columns(table, options) for table in (real, synthetic)]
    alone = any(not is_plain_number(synthetic.column(name)) for name in both[1])
    changed = (both[0], both[1] if alone else {})
    return [_with_columns(table, columns) for table, columns in zip((real, synthetic), changed, strict=True)]


def _plain_columns(table: pa.Table, options: ReadOptions) -> dict[str, pa.Array]:
    """The columns of texts that hold nothing but numbers in the style of the options, made plain."""
    plain = {}
    for name in table.column_names:
        if pa.types.is_string(table.column(name).type):
            with suppress(InputError):
                one = with_plain_numbers(table.select([name]), [name], options.number_style, options.missing, str)
                plain[name] = one.column(name)
    return plain


def _with_columns(table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def _thinned(tables: Iterable[pa.Table]) -> pa.Table:
    """All rows, or every second, fourth, ... of them where there are too many."""
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
    """Records of a file over `domain`, trying one set of reading options after the other; and those that worked.

    Readers drop items that a domain does not have, which is right for private data but would hide that a synthetic
    file belongs to another domain. So a file of item sets is read with its own items first, and these must all be
    known.

    Raises:
        DpgmError: what the last attempt said.
        UsageError: the file holds items that the domain does not have.
    """
    *early, last = attempts
    for options in early:
        try:
            return _read(domain, path, options), options
        except DpgmError:
            continue
    return _read(domain, path, last), last


def _read(domain: Domain, path: Paths, options: ReadOptions) -> Records:
    source = locate(path, options.member)
    guessed = guess_options(source, replace(options, domain=domain)).options
    if not _is_named_set(source, options, domain):
        return read_files([source], guessed)[0]
    # What a synthetic file holds is public, so its first rows may tell its shape, and a cell is an item as it stands.
    cells = guessed.item_separator
    if cells is None and not (guessed.shape == "basket" and guessed.header):  # those are cells of JSON lists
        cells = ""
    own = replace(guessed, domain=None, assume_public_items=True, item_separator=cells)
    return with_domain(read_files([source], own)[0], domain)
