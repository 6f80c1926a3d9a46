"""The wide shape: one column per field, or one 0/1 column per item."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgm.data.chunks import Chunk, Columns, listed_names, people_of, plain_name
from dpgm.data.columns import flat_column, floats, written_numbers
from dpgm.data.domain import Domain, Image, ItemSet, Label, Numeric
from dpgm.data.formats import set_field
from dpgm.data.gathering import joined_records
from dpgm.data.items import KnownItems, Place, in_column
from dpgm.data.number_fields import ShapedNumber
from dpgm.data.number_marks import with_plain_numbers
from dpgm.data.options import ReadOptions
from dpgm.data.records import Records
from dpgm.data.source import Layout, Source
from dpgm.data.table import TableEncoder
from dpgm.errors import InputError
from dpgm.validation import near

if TYPE_CHECKING:
    import pyarrow

_ONES = ("1", "true", "True", "TRUE")
_ZEROS = ("0", "false", "False", "FALSE")


def is_binary(column: "pyarrow.Array", threshold: float | None = None) -> bool:
    """Whether a column tells presence: 0 and 1, or numbers where there is a threshold."""
    try:
        _binary(column, threshold, lambda row: "")
    except InputError:
        return False
    return True


def read_wide(columns: Columns, options: ReadOptions) -> tuple[Records, Source]:
    """A table of one column per field, or of one 0/1 column per item."""
    people = people_of(columns, options)
    domain = options.public_domain
    if domain is not None and set_field(domain) is None:
        absent = [field.name for field in domain.fields if field.name not in columns.names]
        if absent:
            listed = ""
            if columns.certain:
                listed = f"{near(absent[0], columns.names)}; the columns are {listed_names(columns)}"
            raise InputError(
                f"{columns.file}: the domain names the column {absent[0]!r}, which the file does not have{listed};"
                " correct the domain or the file, or say that the file has no header with --no-header."
            )
        numeric = [field.name for field in domain.fields if isinstance(field, (Numeric, ShapedNumber))]
        encoder = TableEncoder(domain, options.missing, options.strip_suffix, options.item_separator)

        def encoded() -> Iterator[Records]:
            for chunk in columns.chunks:
                table = with_plain_numbers(chunk.table, numeric, options.number_style, options.missing, chunk.place)
                yield encoder.encode(table, chunk.place)
                people.see(chunk)

        return people.limited(joined_records(encoded(), domain, options.room), "wide")
    names = [name for name in columns.names if name != options.person]
    if domain is None:
        domain = Domain.of_items(_labels_of(names), "items")
        positions = np.arange(len(names))
    else:
        positions = _match(columns.file, names, set_field(domain))
    known = domain
    safe_names = names if columns.certain or options.domain is not None else None

    def read() -> Iterator[Records]:
        for chunk in columns.chunks:
            yield _binary_records(chunk, names, positions, known, options.threshold, safe_names)
            people.see(chunk)

    return people.limited(joined_records(read(), domain, options.room), "wide", layout=Layout("wide"))


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
    chunk: Chunk,
    names: list[str],
    positions: Any,
    domain: Domain,
    threshold: float | None,
    safe_names: list[str] | None,
) -> Records:
    """The rows of a chunk; `safe_names` are the names that a message may repeat (else it gives the column's number)."""
    rows, found = [], []
    for number, (name, position) in enumerate(zip(names, positions.tolist(), strict=True), start=1):
        if position >= 0:
            where = in_column(chunk.place, number if safe_names is None else name)
            present = _binary(flat_column(chunk.table, name), threshold, where)
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
    if threshold is not None:
        return numbers(column, where) > threshold
    if pa.types.is_string(column.type):
        column = pc.utf8_trim_whitespace(column)
        ones = pc.is_in(column, value_set=pa.array(_ONES))
        zeros = pc.is_in(column, value_set=pa.array(_ZEROS))
        if pc.all(pc.or_(ones, zeros)).as_py():
            return ones.to_numpy(zero_copy_only=False)
        other = ~written_numbers(column) & ~pc.or_(ones, zeros).to_numpy(zero_copy_only=False)
        column = pc.if_else(ones, "1", pc.if_else(zeros, "0", pc.if_else(pa.array(other), "", column)))
    values, gone = floats(column, where, ("",))
    good = ~gone & ((values == 0) | (values == 1))
    if not good.all():
        raise InputError(
            f"{where(int(np.argmin(good)))}: the value is neither 0 nor 1; describe the columns with --domain FILE"
            " (`dpgm inspect` drafts one), or give --threshold if a number above it means present."
        )
    return values == 1


def numbers(column: "pyarrow.Array", where: Place) -> Any:
    """The finite numbers of a column, none missing."""
    values, gone = floats(column, where, ("",))
    if gone.any():
        raise InputError(f"{where(int(np.argmax(gone)))}: the value is missing; correct the file.")
    return values
