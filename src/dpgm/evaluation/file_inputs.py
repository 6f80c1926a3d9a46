"""Make two files comparable: the same records over one domain, and the raw columns of tables.

The synthetic file is read as `dpgm sample` writes it, or else like the real file. `inputs.py` does the same for frames
and records. Each file is opened twice at most: its first rows to guess what is not stated, and all rows, which become
records and raw columns in one pass.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpgm.data.domain import Domain
from dpgm.data.formats import Guess, format_of, located
from dpgm.data.formats.opening import Input
from dpgm.data.inspect.drafting import drafted_columns
from dpgm.data.inspect.hints import joining_mark, written_like_numbers
from dpgm.data.items import KnownItems
from dpgm.data.layouts import Layout
from dpgm.data.read.declared import Paths
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.readers import open_files
from dpgm.data.read.shapes import read_stream
from dpgm.data.records import Records
from dpgm.data.stream import Chunk, Readers, RowStream
from dpgm.data.values import Conversion, parse_dates, with_plain_numbers
from dpgm.errors import DpgmError, InputError, UsageError
from dpgm.evaluation.inputs import Inputs, Outside, inputs_of, with_domain
from dpgm.evaluation.raw_columns import Notes, is_plain_number, raw_columns

_NAMED = 5  # columns named in a message
MOST_ROWS_READ = 1_000_000  # raw rows used of a longer file, evenly spread: enough for every figure in the report


def file_inputs(real: Paths, synthetic: Paths, options: ReadOptions) -> Inputs:
    """Make two files comparable.

    Args:
        real: the real file, or a folder of Parquet files.
        synthetic: the synthetic file or folder, as `dpgm sample` wrote it or in the format of the real file.
        options: how to read the real file; their domain is that of both files. Tables without a domain are compared
            column by column.
    """
    # Nothing is released here, so items may be taken from the file, and its shape guessed from the first rows.
    files, options = located(real, options.member), replace(options, discover=False, assume_public_items=True)
    domain = options.public_domain
    if domain is not None and domain.is_open:
        if domain.item_set is None:
            return _tables_of_domain(files, synthetic, options, domain)
        options = replace(options, domain=None)
    found = None if domain is None or domain.layout is None else _as_fitted(files, options, domain.layout)
    if found is None:
        guess = format_of(files[0], options).guess(files[0], options)
        if guess.table:
            return _tables(files, synthetic, guess)
        found = _read(files, guess.options)
    second = read_alike(found.records.domain, synthetic, ReadOptions(), of_another_file(found.options))
    raw = None
    if found.raw is not None and second.raw is not None:
        missing = (*found.options.missing, *second.options.missing)
        notes = Notes(missing=missing, strip_suffix=found.options.strip_suffix)
        raw = raw_columns(found.raw, second.raw, notes, domain=found.records.domain)
    return Inputs(found.records, second.records, raw, found.outside, domain is None or domain.is_open)


# -- records -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """Records of a file, the raw columns of a table, how both were read, and the items that the domain lacks."""

    records: Records
    raw: pa.Table | None
    options: ReadOptions
    outside: Outside | None = None


def _as_fitted(files: Sequence[Input], options: ReadOptions, layout: Layout) -> Side | None:
    """The real file in the layout of the file that was fitted; None if it has another, or one is stated."""
    if options.shape or options.person or options.item:
        return None
    options = replace(options, shape=layout.shape, person=layout.person, item=layout.item)
    with suppress(DpgmError):
        stream = open_files(files, replace(options, domain=None))
        # A stream that may have more columns has all that are asked for: guessing finds the lists of items.
        known = not stream.more_columns or layout.shape == "long"
        return (
            _read(files, options, stream)
            if known and {layout.person, layout.item} - {None} <= {*stream.names}
            else None
        )
    return None


def _read(files: Sequence[Input], options: ReadOptions, stream: RowStream | None = None) -> Side:
    """All rows, in one pass. Items are read as they occur, and then matched with the domain, which may lack some."""
    domain, own = options.public_domain, replace(options, domain=None)
    if domain is None or (_lists_items(domain) and _names_items(files[0], options)):
        with suppress(DpgmError) if domain is not None else nullcontext():  # some files need the domain to be read
            stream = open_files(files, own) if stream is None else stream
            records, _ = read_stream(stream, own)
            return Side(records, None, options) if domain is None else _matched(records, domain, files[0], options)
    stream = open_files(files, options)
    rows = RawRows(domain, options)
    records, source = read_stream(rows.through(stream), options)
    is_table = stream.domain is None and source.shape == "wide" and bool(records.domain.table_columns)
    return Side(records, rows.table() if is_table else None, options)


def _names_items(file: Input, options: ReadOptions) -> bool:
    """Whether items have names in a file; the columns of matrices are positions of a domain."""
    return format_of(file, options).only_shape != "wide"


def _lists_items(domain: Domain) -> bool:
    return domain.item_set is not None and domain.item_set.lists_values


def _matched(own: Records, domain: Domain, file: Input, options: ReadOptions) -> Side:
    """Records of all items that occur over a domain, and how many items it does not list."""
    assert domain.item_set is not None
    assert own.domain.item_set is not None
    known = KnownItems(domain.item_set.items)
    positions = known.from_texts(pa.array(own.domain.item_set.labels, pa.string()), lambda at: str(file))
    counts = np.bincount(own.indices, minlength=own.width)
    unlisted = positions < 0
    outside = Outside(int((unlisted & (counts > 0)).sum()), float(counts[unlisted].sum() / max(counts.sum(), 1)))
    kept = ~unlisted[own.indices]
    rows = np.repeat(np.arange(len(own)), own.lengths)[kept]
    records = Records.from_flat(positions[own.indices[kept]], np.bincount(rows, minlength=len(own)), domain)
    return Side(records, None, options, outside)


def read_alike(domain: Domain, path: Paths, *attempts: ReadOptions) -> Side:
    """Read a file over `domain` with the first reading options that work.

    Readers drop items that a domain does not have. That is right for private data, but would hide that a synthetic
    file belongs to another domain, so a file of item sets is read with its own items, and the domain must have all.

    Raises:
        DpgmError: the error of the last attempt.
        UsageError: the file holds items that the domain does not have.
    """
    *early, last = attempts
    for options in early:
        with suppress(DpgmError):
            return _read_public(domain, path, options)
    return _read_public(domain, path, last)


def of_another_file(options: ReadOptions) -> ReadOptions:
    """How the real file was read, without what belongs to that file alone."""
    return replace(options, labels=None, table=None, query=None)


def _read_public(domain: Domain, path: Paths, options: ReadOptions) -> Side:
    """A synthetic file is public, so its shape may be guessed from its first rows."""
    files, stated = located(path, options.member), replace(options, domain=domain)
    guessed = format_of(files[0], options).guess(files[0], stated).options
    if _lists_items(domain) and _names_items(files[0], options):
        # A cell is one item, but for cells below a header, which are JSON lists.
        separator = guessed.item_separator
        if separator is None and not (guessed.shape == "basket" and guessed.header):
            separator = ""
        own = replace(guessed, domain=None, assume_public_items=True, item_separator=separator)
        return Side(with_domain(read_stream(open_files(files, own), own)[0], domain), None, options)
    return _read(files, guessed)


# -- tables ------------------------------------------------------------------------------------------------------------


class RawRows:
    """The rows of a stream as raw columns, collected as they are read; of very many, a part that is spread evenly."""

    def __init__(self, domain: Domain | None, options: ReadOptions) -> None:
        self._domain, self._options = domain, options
        self._parts: list[pa.Table] = []
        self._step = 1
        self._rows_read = self._rows_kept = 0

    def through(self, stream: RowStream) -> RowStream:
        """The same stream, whose chunks are collected as they pass."""

        def rows(readers: Readers) -> Iterator[Chunk]:
            for chunk in stream.rows(readers):
                self.add(_parsed(chunk, self._domain, self._options))
                yield chunk

        return replace(stream, rows=rows)

    def add(self, table: pa.Table) -> None:
        """Collect all rows of a table or, once there are too many, every second, fourth, ... row."""
        first = -self._rows_read % self._step
        self._rows_read += table.num_rows
        part = table if self._step == 1 else table.take(np.arange(first, table.num_rows, self._step))
        self._parts.append(part)
        self._rows_kept += part.num_rows
        if self._rows_kept > MOST_ROWS_READ:
            joined = self.table()
            self._parts = [joined.take(np.arange(0, joined.num_rows, 2))]
            self._step, self._rows_kept = 2 * self._step, self._parts[0].num_rows

    def table(self) -> pa.Table:
        """What was collected."""
        return pa.concat_tables(self._parts, promote_options="permissive")


def _raw_table(stream: RowStream, columns: Readers, domain: Domain | None, options: ReadOptions) -> pa.Table:
    """The raw columns of a stream alone."""
    stream.refuse_repeated()
    rows = RawRows(domain, options)
    for _ in rows.through(stream).read(columns):
        pass
    return rows.table()


def _tables(files: Sequence[Input], synthetic: Paths, guess: Guess) -> Inputs:
    """Make files of tables comparable without a domain, column by column."""
    options = guess.options
    notes = Notes(missing=tuple(options.missing), strip_suffix=options.strip_suffix)
    first = _table_alone(files, guess)
    attempts = (ReadOptions(), of_another_file(options))
    second = _matching(synthetic, first.column_names, 1, attempts, _guessed_table)
    marks = _list_columns(first, options)
    in_both = {name: mark for name, mark in marks.items() if name in second.column_names}
    lists = _as_lists(first, marks), _as_lists(second, in_both)
    return inputs_of(*_with_plain_numbers(*lists, options), notes=notes)


def _table_alone(files: Sequence[Input], guess: Guess) -> pa.Table:
    stream = open_files(files, guess.options, guess)
    return _raw_table(stream, drafted_columns(stream), None, guess.options)


def _guessed_table(files: Sequence[Input], options: ReadOptions) -> pa.Table:
    return _table_alone(files, format_of(files[0], options).guess(files[0], replace(options, domain=None)))


def _tables_of_domain(files: Sequence[Input], synthetic: Paths, options: ReadOptions, domain: Domain) -> Inputs:
    """Make files of tables comparable with an open domain, which names the columns."""

    def named_table(files: Sequence[Input], options: ReadOptions) -> pa.Table:
        stream = open_files(files, replace(options, domain=domain))
        known = {name: how for name, how in columns.items() if name in stream.names}
        if not known:
            stated = ", ".join(field.name for field in domain.fields[:_NAMED])
            raise UsageError(
                f"{stream.name}: has none of the columns that the domain names ({stated}); is it the release, or the"
                " domain, of other data?"
            )
        return _raw_table(stream, known, domain, options)

    columns = {field.name: Conversion(field.from_objects, field.holds_lists) for field in domain.fields}
    notes = Notes(missing=tuple(options.missing), strip_suffix=options.strip_suffix).with_domain(domain)
    first = named_table(files, options)
    attempts = (ReadOptions(header=True), of_another_file(options))
    second = _matching(synthetic, first.column_names, len(first.column_names), attempts, named_table)
    shared = [name for name in first.column_names if name in second.column_names]
    sets = [one for name in shared if (one := domain.field(name).as_set) is not None and one.lists_values]
    separators = {field.name: options.item_separator or field.separator for field in sets}
    tables = [_as_lists(table, separators) for table in (first, second.select(shared))]
    return inputs_of(*tables, notes=notes)


def _matching(
    path: Paths,
    names: list[str],
    at_least: int,
    attempts: tuple[ReadOptions, ReadOptions],
    read: Callable[[Sequence[Input], ReadOptions], pa.Table],
) -> pa.Table:
    """Read with the first options if that gives `at_least` of the named columns, otherwise with the second options."""
    first, second = attempts
    with suppress(DpgmError):
        table = read(located(path, first.member), first)
        if len({*names} & {*table.column_names}) >= at_least:
            return table
    return read(located(path, second.member), second)


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
