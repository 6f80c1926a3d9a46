"""Make real and synthetic data comparable: as records over one domain, and as raw columns.

Here both are records, matrices or frames (pandas, polars, pyarrow); files are in `file_inputs.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpgm.data.decoding import decode
from dpgm.data.domain import Domain, Field
from dpgm.data.domain_file import DomainLike, as_domain
from dpgm.data.inspect.drafting import drafted_columns
from dpgm.data.items import escape_formula
from dpgm.data.read.frames import (
    as_records,
    checked_frame,
    column_names,
    frame_stream,
    is_frame,
    long_records,
    without_column,
)
from dpgm.data.records import Records
from dpgm.data.rows import sort_rows
from dpgm.errors import UsageError
from dpgm.evaluation.raw_columns import (
    NO_NOTES,
    Notes,
    RawColumn,
    RawColumns,
    compared_records,
    raw_columns,
    set_columns,
)
from dpgm.validation import near


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
        f"{field.name}={name}" if several and field.is_set and field.image is None else name
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
    real, synthetic = checked_frame(real), checked_frame(synthetic)  # what can be read once is read here
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
    """Make frames with items or lists of items of persons (or records) comparable, as one item set per person.

    A synthetic frame of lists may lack the column of persons: then every row is a person.
    """
    if person is None or item is None:
        raise UsageError("long data need both `person` and `item`: the columns of persons and of items.")
    first, second = (
        side if isinstance(side, Records) else long_records(side, person, item) for side in (real, synthetic)
    )
    if domain is None or domain.is_open:
        domain = first.domain
    return Inputs(with_domain(first, domain), with_domain(second, domain), None)


def without_persons(real: object, synthetic: object, person: str) -> tuple[object, object]:
    """Both sides without the column of persons, which the real frame must have."""
    real, synthetic = checked_frame(real), checked_frame(synthetic)
    if is_frame(real) and person not in column_names(real):
        raise UsageError(f"the real data has no column {person!r} for `person`{near(person, column_names(real))}.")
    return without_column(real, person), without_column(synthetic, person)


def columns_of_records(real: Records, synthetic: Records) -> tuple[RawColumn, ...]:
    """The columns of records over one domain, with values drawn within their bins."""
    return raw_columns(_decoded(real), _decoded(synthetic), domain=real.domain).columns


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
    return _without_domain(selected[0], selected[1], notes.with_domain(domain))


def _unmodelled_gaps(tables: Sequence[Any], domain: Domain) -> bool:
    """Whether a column has missing or other values that were too rare for the fit to model."""
    fields = [field for field in domain.fields if field.may_leave_gaps and not field.may_be_missing]
    return any(
        table is not None and field.name in table.column_names and _has_gaps(table.column(field.name), field)
        for field in fields
        for table in tables
    )


def _has_gaps(column: pa.ChunkedArray, field: Field) -> bool:
    if column.null_count or not field.is_category:
        return bool(column.null_count)
    known = set(field.labels)
    return not field.has_other and any(str(value).strip() not in known for value in pc.unique(column).to_pylist())


def _as_table(data: object) -> Any:
    """A frame of pandas, polars or pyarrow as an Arrow table; None for anything else."""
    frame = checked_frame(data)
    if not is_frame(frame):
        return None
    stream = frame_stream(frame)
    chunks = [chunk.table for chunk in stream.rows(drafted_columns(stream))]
    return pa.concat_tables(chunks) if chunks else stream.schema.empty_table()


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
