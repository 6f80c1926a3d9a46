"""What is compared: two files, two frames, two collections of records, or one of each kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dpgm.data.conversion import as_records, checked_frame, package_of
from dpgm.data.domain import Domain, ShapedNumber
from dpgm.data.domain_file import DomainLike, as_domain
from dpgm.data.read.frames import long_records
from dpgm.data.records import Records
from dpgm.data.table import decode
from dpgm.data.values import object_texts
from dpgm.errors import UsageError
from dpgm.evaluation.comparable import SetColumn, compared_records, with_domain
from dpgm.evaluation.raw_columns import RawColumn, RawColumns, Stated, raw_columns, stated_by, with_truths

if TYPE_CHECKING:
    import pyarrow

AnyDomain: TypeAlias = DomainLike
BINS_ONLY = "records hold the domain's bins only; evaluate files or frames to compare the values in them."


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


def inputs_of(
    real: object,
    synthetic: object,
    *,
    domain: AnyDomain | None = None,
    said: Stated = Stated(),  # noqa: B008 (it holds nothing)
    missing: Sequence[str] = (),
    strip_suffix: str = "",
) -> Inputs:
    """Both sides made comparable.

    Args:
        real: records, or a frame or matrix of pandas, polars, pyarrow, numpy or scipy.
        synthetic: likewise.
        domain: of both; by default that of the records, or one made from both frames.
        said: what else is known of columns.
        missing: texts that stand for a missing value, besides the empty cell.
        strip_suffix: taken off the end of texts.
    """
    given = as_domain(domain)
    if given is not None and given.is_open:  # bins and values are not known: the columns decide
        real, synthetic = _named_columns(real, given), _named_columns(synthetic, given)
        said, given = stated_by(given), None
    tables = [as_table(side) for side in (real, synthetic)]
    if all(table is None for table in tables):
        first = as_records(real, given)
        return Inputs(first, as_records(synthetic, given or first.domain), None)
    for side in (real, synthetic):
        if given is None and isinstance(side, Records):
            given = side.domain
    if given is None:
        if any(table is None for table in tables):
            other = next(side for side, table in zip((real, synthetic), tables, strict=True) if table is None)
            raise UsageError(
                f"a frame cannot be compared with {type(other).__name__}; give two frames or two files, or pass"
                " `domain=` to compare it with a matrix."
            )
        return _without_domain(tables[0], tables[1], said, missing, strip_suffix)
    if _unmodelled_gaps(tables, given):  # its bins have no place for them: the columns are compared as they stand
        named = [_named_columns(side, given) for side in (real, synthetic)]
        return _without_domain(named[0], named[1], stated_by(given), missing, strip_suffix)
    records = [as_records(side, given) for side in (real, synthetic)]
    for at, table in enumerate(tables):
        if table is None:
            tables[at] = decode(records[at], rng=np.random.default_rng(0))
    raw = raw_columns(tables[0], tables[1], domain=given, missing=missing, strip_suffix=strip_suffix)
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


def _named_columns(data: object, domain: Domain) -> object:
    """The columns of a frame, or of decoded records, that a domain names."""
    table = as_table(data)
    if table is None and isinstance(data, Records) and not data.domain.is_open:
        table = decode(data, rng=np.random.default_rng(0))
    if table is None:
        raise UsageError("records of an open domain cannot be compared; evaluate the files or frames themselves.")
    named = table.select([field.name for field in domain.fields if field.name in table.column_names])
    return with_truths(named, domain)


def _unmodelled_gaps(tables: Sequence[Any], domain: Domain) -> bool:
    """Whether cells are missing where a fit has found too few of them to be modelled."""
    return any(
        isinstance(field, ShapedNumber)
        and not field.missing
        and table is not None
        and field.name in table.column_names
        and table.column(field.name).null_count > 0
        for field in domain.fields
        for table in tables
    )


def as_table(data: object) -> Any:
    """A frame of pandas, polars or pyarrow as an Arrow table; None for anything else."""
    import pyarrow as pa

    frame: Any = checked_frame(data)
    package = package_of(frame)
    if package == "pyarrow" and isinstance(frame, pa.Table):
        return frame
    if package == "polars" and hasattr(frame, "to_arrow") and hasattr(frame, "columns"):
        return frame.to_arrow()
    if package == "pandas" and hasattr(frame, "columns"):
        names = [str(name) for name in frame.columns]
        if len(set(names)) < len(names):
            raise UsageError("two columns of the frame have the same name; names must differ.")
        return pa.table({name: _arrow_column(frame.iloc[:, at], name) for at, name in enumerate(names)})
    return None


def _arrow_column(series: Any, name: str) -> Any:
    """A column of pandas as Arrow; one of mixed objects as texts, value by value."""
    import pyarrow as pa

    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return object_texts(series.astype(object).tolist(), lambda row: f"row {row + 1}, column {name!r}")


def _without_domain(
    real: "pyarrow.Table",
    synthetic: "pyarrow.Table",
    said: Stated,
    missing: Sequence[str],
    suffix: str,
) -> Inputs:
    for name, table in (("real", real), ("synthetic", synthetic)):
        if table.num_rows == 0:
            raise UsageError(f"the {name} data holds no records; there is nothing to compare.")
    raw = raw_columns(real, synthetic, said=said, missing=missing, strip_suffix=suffix)
    sets = _set_columns(real, synthetic)
    if not raw.columns and not sets:
        raise UsageError("the two tables share no column that can be compared; check the names of their columns.")
    if not sets and not raw.left_out and all(_binary(column) for column in raw.columns):
        domain = Domain.of_items([column.name for column in raw.columns])
        sides = [
            Records.from_dense(np.stack([_ones(column, side) for column in raw.columns], axis=1), domain)
            for side in (0, 1)
        ]
        return Inputs(sides[0], sides[1], None)
    first, second = compared_records(raw.columns, sets)
    return Inputs(first, second, raw if raw.columns else None)


def _set_columns(real: "pyarrow.Table", synthetic: "pyarrow.Table") -> list[SetColumn]:
    import pyarrow as pa
    import pyarrow.compute as pc

    found = []
    for name in real.column_names:
        if name not in synthetic.column_names:
            continue
        columns = [table.column(name).combine_chunks() for table in (real, synthetic)]
        columns = [pa.concat_arrays(c.chunks) if isinstance(c, pa.ChunkedArray) else c for c in columns]
        if not all(pa.types.is_list(c.type) or pa.types.is_large_list(c.type) for c in columns):
            continue
        flat = [pc.cast(pc.list_flatten(column), pa.string()) for column in columns]
        both = pa.concat_arrays(flat).dictionary_encode()
        codes = both.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        lengths = [
            pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
            for column in columns
        ]
        cut = len(flat[0])
        sides = ((codes[:cut], lengths[0]), (codes[cut:], lengths[1]))
        found.append(SetColumn(name, tuple(both.dictionary.to_pylist()), sides))
    return found


def _binary(column: RawColumn) -> bool:
    sides = (column.real, column.synthetic)
    if column.kind == "number":
        return all(bool(np.isin(side, (0.0, 1.0)).all()) for side in sides)
    return (
        column.kind == "category"
        and set(column.labels) <= {"true", "false"}
        and all(bool((side >= 0).all()) for side in sides)
    )


def _ones(column: RawColumn, side: int) -> Any:
    values = (column.real, column.synthetic)[side]
    if column.kind == "number":
        return values == 1
    return values == (column.labels.index("true") if "true" in column.labels else -1)
