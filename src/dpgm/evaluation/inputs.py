"""Two collections of data made comparable: records over the same positions, and raw columns where there are any.

Where the user gives no domain, `compared_records` makes one for the comparison. It is derived from the data and for the
curator only: numbers that many rows share become values of their own, the others are cut into ranges that hold about as
many real rows each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpgm.data.domain import Categorical, Domain, ItemSet, ShapedNumber
from dpgm.data.domain_file import DomainLike, as_domain
from dpgm.data.items import escape_formula
from dpgm.data.read.frames import arrow_table, as_records, checked_frame, long_records, package_of
from dpgm.data.records import Records, sort_rows
from dpgm.data.table import decode
from dpgm.data.values import object_texts
from dpgm.errors import UsageError
from dpgm.evaluation.raw_columns import NO_NOTES, Notes, RawColumn, RawColumns, SetColumn, raw_columns, set_columns

_RANGES = 16
_FEW_VALUES = 24  # as many distinct numbers are compared one by one
_POPULAR = 0.02  # share of the rows from which a number counts as a value of its own
_MOST_VALUES = 200  # categories beyond the most frequent ones are put together
_LONGEST = 100  # characters of a name


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


def compared_records(
    columns: Sequence[RawColumn], sets: Sequence[SetColumn] = (), *, label: str | None = None
) -> tuple[Records, Records]:
    """Records of both sides over one domain made for them; `label` names the column to predict, if it is there."""
    fields: list[Categorical | ItemSet] = []
    parts: list[list[tuple[NDArray[np.int64], NDArray[np.int64]]]] = []  # rows and positions, on both sides
    start = 0
    for column in columns:
        names, codes = _coded(column)
        fields.append(Categorical(column.name, tuple(_distinct(names)), missing=True))
        parts.append([(np.arange(len(side)), start + np.where(side < 0, len(names), side)) for side in codes])
        start += fields[-1].width
    for many in sets:
        fields.append(ItemSet(many.name, tuple(_distinct(many.labels))))
        owners = [np.repeat(np.arange(len(lengths)), lengths) for _, lengths in many.sides]
        present = [codes >= 0 for codes, _ in many.sides]
        parts.append([(owners[at][present[at]], start + many.sides[at][0][present[at]]) for at in (0, 1)])
        start += fields[-1].width
    domain = Domain(tuple(fields), label if label in [field.name for field in fields] else None)
    compared = []
    for at in (0, 1):
        count = len(columns[0].sides[at]) if columns else len(sets[0].sides[at][1])
        rows, positions = (np.concatenate(arrays) for arrays in zip(*(part[at] for part in parts), strict=True))
        order = np.argsort(rows, kind="stable")
        compared.append(Records.from_flat(positions[order], np.bincount(rows, minlength=count), domain))
    return compared[0], compared[1]


def _coded(column: RawColumn) -> tuple[list[str], list[NDArray[np.int64]]]:
    """Names of the values and the codes of both sides, -1 where missing."""
    present = column.present()
    if column.kind == "category":
        if len(column.labels) <= _MOST_VALUES:
            return list(column.labels), list(column.sides)
        counts = np.bincount(np.concatenate(present), minlength=len(column.labels))
        top = np.argsort(-counts, kind="stable")[: _MOST_VALUES - 1]
        place = np.full(len(column.labels) + 1, len(top), dtype=np.int64)
        place[top], place[-1] = np.arange(len(top)), -1
        return [*(column.labels[at] for at in top), "other values"], [place[side] for side in column.sides]
    both = np.unique(np.concatenate(present))
    if len(both) <= _FEW_VALUES:
        names = [column.text(value) for value in both]
        return names, [np.where(np.isnan(side), -1, np.searchsorted(both, side)) for side in column.sides]
    values, counts = np.unique(present[0], return_counts=True)
    popular = values[counts >= _POPULAR * len(present[0])]
    rest = present[0][~np.isin(present[0], popular)]
    inner = np.unique(np.quantile(rest, np.linspace(0, 1, _RANGES + 1)[1:-1])) if len(rest) else np.empty(0)
    texts = [column.text(edge) for edge in inner]
    inside = [f"{low} to {high}" for low, high in pairwise(texts)]
    ranges = [f"below {texts[0]}", *inside, f"{texts[-1]} and more"] if texts else ["other numbers"]
    codes = []
    for side in column.sides:
        at = np.searchsorted(inner, side, side="right") + len(popular)
        exact = np.isin(side, popular)
        at[exact] = np.searchsorted(popular, side[exact])
        codes.append(np.where(np.isnan(side), -1, at))
    return [*(column.text(value) for value in popular), *ranges], codes


def _distinct(names: Sequence[str]) -> list[str]:
    """Names that a domain takes: short, printable, and no two alike."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        short = "".join(c if c.isprintable() else "?" for c in name)[:_LONGEST].strip() or "(blank)"
        seen[short] = seen.get(short, 0) + 1
        while seen[short] > 1 and f"{short} ({seen[short]})" in seen:
            seen[short] += 1
        chosen = short if seen[short] == 1 else f"{short} ({seen[short]})"
        seen.setdefault(chosen, 1)
        result.append(chosen)
    return result
