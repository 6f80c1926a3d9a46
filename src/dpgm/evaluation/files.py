"""Two files to compare: as records where they are sets or images or have a domain, and as raw columns."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa

from dpgm.data.domain import Date, DateTime, Domain, ItemSet, ShapedNumber
from dpgm.data.inspect.inspection import guess_options, table_columns
from dpgm.data.read.columns import Chunk
from dpgm.data.read.opening import Input, locate
from dpgm.data.read.options import Paths, ReadOptions
from dpgm.data.read.readers import columns_of, format_name, read_files
from dpgm.data.records import Records
from dpgm.data.values import parse_dates, with_plain_numbers
from dpgm.errors import DpgmError, InputError, UsageError
from dpgm.evaluation.inputs import Inputs, Outside, inputs_of, position_names, with_domain
from dpgm.evaluation.raw_columns import Notes, RawColumns, raw_columns

MOST_ROWS = 1_000_000  # raw rows kept of a longer file, evenly spread: enough for every figure in the report
_COLUMNAR = ("csv", "tsv", "parquet", "jsonl")
_MATRICES = ("npz", "npy", "idx")  # their positions have no names


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
    options = replace(options, discover=False)
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
        return inputs_of(first, second, notes=notes)
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
