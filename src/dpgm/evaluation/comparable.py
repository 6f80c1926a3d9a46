"""Two collections of records can be compared only over the same positions: checks, names, and records made so.

`compared_records` makes a domain for one comparison where the user gives none. It is derived from the data and for the
curator only: numbers that many rows share become values of their own, the others are cut into ranges that hold about as
many real rows each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.data.items import escape_formula
from dpgm.data.records import Records, sort_rows
from dpgm.errors import UsageError
from dpgm.evaluation.raw_columns import RawColumn, values_as_text

_RANGES = 16
_FEW_VALUES = 24  # as many distinct numbers are compared one by one
_POPULAR = 0.02  # share of the rows from which a number counts as a value of its own
_MOST_VALUES = 200  # categories beyond the most frequent ones are put together
_LONGEST = 100  # characters of a name


def check_comparable(real: Records, synthetic: Records) -> None:
    """Refuse empty data and data of different domains, saying which and why.

    Raises:
        UsageError: one side has no records, or the domains differ.
    """
    for name, records in (("real", real), ("synthetic", synthetic)):
        if len(records) == 0:
            raise UsageError(f"the {name} data holds no records; there is nothing to compare.")
    if real.width != synthetic.width:
        raise UsageError(
            f"the synthetic data is {synthetic.width} positions wide and the real data {real.width}; "
            "read both with the same domain."
        )
    if real.domain != synthetic.domain:
        ours = [field.name for field in real.domain.fields]
        theirs = [field.name for field in synthetic.domain.fields]
        detail = "their items or values differ" if ours == theirs else f"fields {ours} against {theirs}"
        raise UsageError(
            f"real and synthetic data have different domains ({detail}); read both with the same domain."
        )


def position_names(domain: Domain) -> tuple[str, ...]:
    """A readable name for every position: an item's label, `field=value`, a bin's range or a pixel.

    >>> position_names(Domain.of_items(["bread", "milk"]))
    ('bread', 'milk')
    """
    return tuple(name for field in domain.fields for name in field.position_names)


def full_names(domain: Domain) -> tuple[str, ...]:
    """A name for every position that tells its field as well, where there are several."""
    if len(domain.fields) == 1:
        return position_names(domain)
    return tuple(
        f"{field.name}={name}" if field.kind == "items" else name
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


@dataclass(frozen=True)
class SetColumn:
    """A column of lists on both sides: the labels of both together, and for each side codes and lengths of rows."""

    name: str
    labels: tuple[str, ...]
    sides: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]


def compared_records(
    columns: Sequence[RawColumn], sets: Sequence[SetColumn] = (), *, label: str | None = None
) -> tuple[Records, Records]:
    """Records of both sides over one domain made for them; `label` names the column to predict, if it is there."""
    fields: list[Categorical | ItemSet] = []
    parts: list[tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]] = []  # rows and positions on both sides
    start = 0
    for column in columns:
        names, codes = _coded(column)
        field = Categorical(column.name, tuple(_distinct(names)), missing=True)
        rows = [np.arange(len(side)) for side in codes]
        parts.append((rows, [np.where(side < 0, len(names), side) + start for side in codes]))
        fields.append(field)
        start += field.width
    for many in sets:
        items = ItemSet(many.name, tuple(_distinct(list(many.labels))))
        rows = [np.repeat(np.arange(len(lengths)), lengths) for _, lengths in many.sides]
        parts.append((rows, [codes + start for codes, _ in many.sides]))
        fields.append(items)
        start += items.width
    domain = Domain(tuple(fields), label if label in [field.name for field in fields] else None)
    compared = []
    for side in (0, 1):
        count = (
            len(columns[0].real if side == 0 else columns[0].synthetic) if columns else len(sets[0].sides[side][1])
        )
        owners = np.concatenate([part[0][side] for part in parts])
        positions = np.concatenate([part[1][side] for part in parts])
        order = np.argsort(owners, kind="stable")
        compared.append(Records.from_flat(positions[order], np.bincount(owners, minlength=count), domain))
    return compared[0], compared[1]


def _coded(column: RawColumn) -> tuple[list[str], list[NDArray[np.int64]]]:
    """Names of the values and the codes of both sides, -1 where missing."""
    sides = [column.real, column.synthetic]
    if column.kind == "category":
        if len(column.labels) <= _MOST_VALUES:
            return list(column.labels), sides
        counts = np.bincount(np.concatenate([side[side >= 0] for side in sides]), minlength=len(column.labels))
        top = np.argsort(-counts, kind="stable")[: _MOST_VALUES - 1]
        place = np.full(len(column.labels) + 1, len(top), dtype=np.int64)
        place[top], place[-1] = np.arange(len(top)), -1
        names = [column.labels[at] for at in top]
        return [*names, "other values"], [place[side] for side in sides]
    real = column.real[~np.isnan(column.real)]
    both = np.unique(np.concatenate([side[~np.isnan(side)] for side in sides]))
    if len(both) <= _FEW_VALUES:
        names = [values_as_text(column, float(value)) for value in both]
        return names, [np.where(np.isnan(side), -1, np.searchsorted(both, side)) for side in sides]
    values, counts = np.unique(real, return_counts=True)
    popular = values[counts >= _POPULAR * len(real)]
    rest = real[~np.isin(real, popular)]
    inner = np.unique(np.quantile(rest, np.linspace(0, 1, _RANGES + 1)[1:-1])) if len(rest) else np.empty(0)
    texts = [values_as_text(column, float(edge)) for edge in inner]
    inside = [f"{low} to {high}" for low, high in pairwise(texts)]
    ranges = [f"below {texts[0]}", *inside, f"{texts[-1]} and more"] if texts else ["other numbers"]
    names = [*(values_as_text(column, float(value)) for value in popular), *ranges]
    codes = []
    for side in sides:
        at = np.searchsorted(inner, side, side="right") + len(popular)
        exact = np.isin(side, popular)
        at[exact] = np.searchsorted(popular, side[exact])
        codes.append(np.where(np.isnan(side), -1, at))
    return names, codes


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
