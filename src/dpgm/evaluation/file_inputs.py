"""Make two files comparable: the same records over one domain, and the raw columns of tables.

The synthetic file is read as `dpgm sample` writes it, or else like the real file. `inputs.py` does the same for frames
and records.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpgm.data.domain import Domain
from dpgm.data.formats.opening import Input
from dpgm.data.inspect.hints import joining_mark, written_like_numbers
from dpgm.data.inspect.inspection import guess_options, table_columns
from dpgm.data.read.columns import Chunk
from dpgm.data.read.declared import Paths
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.readers import columns_of, columns_of_files, format_name, located, read_files
from dpgm.data.records import Records
from dpgm.data.values import parse_dates, with_plain_numbers
from dpgm.errors import DpgmError, InputError, UsageError
from dpgm.evaluation.inputs import Inputs, Outside, inputs_of, position_names, with_domain
from dpgm.evaluation.raw_columns import Notes, RawColumns, is_plain_number, raw_columns

_NAMED = 5  # columns named in a message
MOST_ROWS_READ = 1_000_000  # raw rows used of a longer file, evenly spread: enough for every figure in the report
_COLUMNAR = ("csv", "tsv", "parquet", "jsonl")  # formats with named columns
_JSON = ("jsonl", "json")
_MATRICES = ("npz", "npy", "idx", "png")  # formats whose positions have no names


def file_inputs(real: Paths, synthetic: Paths, options: ReadOptions) -> Inputs:
    """Make two files comparable.

    Args:
        real: the real file, or a folder of Parquet files.
        synthetic: the synthetic file or folder, as `dpgm sample` wrote it or in the format of the real file.
        options: how to read the real file; their domain is that of both files. Tables without a domain are compared
            column by column.
    """
    # Nothing is released here, so items may be taken from the file, and its shape guessed from the first rows.
    files = located(real, options)
    source = files[0]
    options = _with_fitted_layout(source, replace(options, discover=False))
    domain = options.public_domain
    if domain is not None and domain.is_open:
        if domain.item_set is None:
            return _raw_tables(real, synthetic, options, domain)
        options = replace(options, domain=None)
    guess = guess_options(source, replace(options, assume_public_items=True))
    if guess.table:
        return _raw_tables(real, synthetic, guess.options)
    first, _ = read_files(files, guess.options)
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
    files = located(path, options)
    if options.domain is None or not _is_named_set(files[0], options, read.domain):
        return None
    try:
        own, _ = read_files(files, replace(options, domain=None, assume_public_items=True))
    except DpgmError:
        return None  # this file can only be read with the domain
    known = set(position_names(read.domain))
    unlisted = np.array([name not in known for name in position_names(own.domain)])
    counts = np.bincount(own.indices, minlength=own.width)
    return Outside(int((unlisted & (counts > 0)).sum()), float(counts[unlisted].sum() / max(counts.sum(), 1)))


def _is_named_set(source: Input, options: ReadOptions, domain: Domain) -> bool:
    item_set = domain.item_set
    return item_set is not None and item_set.lists_values and format_name(source, options) not in _MATRICES


def _raw_tables(real: Paths, synthetic: Paths, options: ReadOptions, domain: Domain | None = None) -> Inputs:
    """Make files of tables comparable without a domain, or with an open domain, which names the columns."""
    notes = Notes(missing=tuple(options.missing), strip_suffix=options.strip_suffix)
    first = _read_raw(real, options, domain)
    if domain is None:
        second = _read_raw_matching(synthetic, ReadOptions(), options, None, first.column_names, 1)
        separators = _list_columns(first, options)
        in_both = {name: mark for name, mark in separators.items() if name in second.column_names}
        lists = _as_lists(first, separators), _as_lists(second, in_both)
        return inputs_of(*_with_plain_numbers(*lists, options), notes=notes)
    names = [field.name for field in domain.fields if field.name in first.column_names]
    if not names:
        stated = ", ".join(field.name for field in domain.fields[:_NAMED])
        raise UsageError(
            f"the real data has none of the columns that the domain names ({stated}); is it the release, or the domain,"
            " of other data?"
        )
    second = _read_raw_matching(synthetic, ReadOptions(header=True), options, domain, names, len(names))
    shared = [name for name in names if name in second.column_names]
    sets = [one for name in shared if (one := domain.field(name).as_set) is not None and one.lists_values]
    both = (first.select(names), second.select(shared))
    separators = {field.name: options.item_separator or field.separator for field in sets}
    tables = [_as_lists(table, separators) for table in both]
    return inputs_of(*tables, notes=notes.with_domain(domain))


def _read_raw_matching(
    path: Paths, first: ReadOptions, second: ReadOptions, domain: Domain | None, names: list[str], at_least: int
) -> pa.Table:
    """Read with the first options if that gives `at_least` of the named columns, otherwise with the second options."""
    with suppress(DpgmError):
        table = _read_raw(path, first, domain)
        if len({*names} & {*table.column_names}) >= at_least:
            return table
    return _read_raw(path, second, domain)


def _list_columns(table: pa.Table, options: ReadOptions) -> dict[str, str | None]:
    """The columns of texts whose cells hold several items each, and what stands between these; None: JSON lists."""
    found: dict[str, str | None] = {}
    for name in table.column_names:
        if not pa.types.is_string(table.column(name).type):
            continue
        cells = {cell for cell in table.column(name).unique().to_pylist() if cell and cell.strip()}
        if cells and all(cell.strip().startswith("[") and cell.strip().endswith("]") for cell in cells):
            found[name] = None
        elif not written_like_numbers(cells) and (mark := joining_mark(cells, options.item_separator)):
            found[name] = mark
    return found


def _as_lists(table: pa.Table, separators: dict[str, str | None]) -> pa.Table:
    """Turn columns of item sets into lists; `separators` has what stands between the items of each."""
    for name, separator in separators.items():
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
    columnar = all(format_name(located(path, chosen)[0], chosen) in _COLUMNAR for path, chosen in both)
    if not columnar or not domain.table_columns:
        return None
    notes = Notes(missing=(*options.missing, *used.missing), strip_suffix=options.strip_suffix)
    first, second = (_read_raw(path, chosen, domain) for path, chosen in both)
    return raw_columns(first, second, notes, domain=domain)


def _read_raw(path: Paths, options: ReadOptions, domain: Domain | None) -> pa.Table:
    """The raw columns of a file; of more than a million rows, a part that is evenly spread over the file."""
    files = located(path, options)
    chosen = replace(options, domain=domain)
    if domain is None:
        file = table_columns(files, guess_options(files[0], chosen))
    else:
        file = columns_of_files(files, chosen)
    if len(set(file.names)) < len(file.names):
        raise InputError(f"{files[0]}: two columns have the same name; names must differ (or say `header=False`).")
    return _thinned(_parsed(chunk, domain, options) for chunk in file.chunks)


def _parsed(chunk: Chunk, domain: Domain | None, options: ReadOptions) -> pa.Table:
    """Parse numbers and dates of a text file that are written as the options or the domain say."""
    table = chunk.table
    fields = [] if domain is None else [field for field in domain.fields if field.name in table.column_names]
    numeric = [field.name for field in fields if field.reads_numbers]
    table = with_plain_numbers(table, numeric, options.number_style, options.missing, chunk.place)
    for field in fields:
        column = table.column(field.name).combine_chunks()
        if field.pattern and pa.types.is_string(column.type):
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
        if rows_kept > MOST_ROWS_READ:
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
    files = located(path, options)
    guessed = guess_options(files[0], replace(options, domain=domain)).options
    if not _is_named_set(files[0], options, domain):
        return read_files(files, guessed)[0]
    # A synthetic file is public, so its shape may be guessed from its first rows. A cell is one item.
    separator = guessed.item_separator
    if separator is None and not (guessed.shape == "basket" and guessed.header):  # those cells are JSON lists
        separator = ""
    own = replace(guessed, domain=None, assume_public_items=True, item_separator=separator)
    return with_domain(read_files(files, own)[0], domain)
