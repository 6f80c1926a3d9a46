"""Which traits a table has: its columns, and what follows from them.

What follows: the weekday, month, day and hour of dates, how numbers and times are rounded, the form of texts, the time
between two dates, how many items a list has, and whether it has each of the most frequent ones.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from dpgm.arrays import Codes, Floats
from dpgm.data.kinds.base import ColumnKind
from dpgm.data.records import Records
from dpgm.evaluation.raw_columns import RawColumn
from dpgm.evaluation.traits import Trait, category, ordered

MOST_ROWS_JUDGED = 100_000  # rows of each side, evenly spread: more would not change what is found
_MOST_ITEMS = 60  # most frequent items of a list that are compared
_RARE = 0.005  # share of the rows below which an item is too rare to be compared, unless 100 rows hold it
_ENOUGH_ROWS = 100
_FEWEST = 20  # rows with a time between two dates; fewer say nothing about it
_MOST_DATES = 6  # date columns between which times are compared
_LONG_SPAN = 400  # days: dates that cover a year and more show whether months keep their share
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_THURSDAY = 3  # 1970-01-01, counted from Monday
_HOURS, _MINUTES, _SECONDS = 24, 1440, 86_400  # of a day
# How numbers and times may be rounded; multiples of a step are multiples of all smaller ones.
_STEPS = tuple(factor * 10.0**power for power in range(6, -4, -1) for factor in (5, 1))
_MINUTE_STEPS = (60.0, 30.0, 15.0, 5.0, 1.0)
_STEP_ERROR = 1e-6  # of a step: what doubles and divisions leave
_MANY_VALUES = (
    48  # different numbers from which on it is compared how they are rounded; fewer are compared themselves
)
_MANY_TEXTS = 20  # different texts from which on their form is compared, too
_RUNS = ((r"[0-9]", "9"), (r"[^\W\d_]", "a"), (r"a{4,}", "aaa..."), (r"9{13,}", "99..."))  # how forms are written


def traits_of(columns: Sequence[RawColumn], real: Records, synthetic: Records) -> tuple[Trait, ...]:
    """The traits of raw columns and of the lists of items in records, which have the same rows.

    Args:
        columns: the raw columns.
        real: the real records; their fields of items are used if rows and records are equally many.
        synthetic: the synthetic records.
    """
    found = [trait for column in columns for trait in _column_traits(judged_rows(column))]
    found += _times_between([column for column in columns if column.kind == "date"][:_MOST_DATES])
    sides = (real, synthetic)
    if not columns or [len(side) for side in columns[0].sides] == [len(side) for side in sides]:
        found += _item_traits(real, synthetic)
    return tuple(trait for trait in found if trait.width > 1)


def judged_rows(column: RawColumn) -> RawColumn:
    """The rows of a column that are judged."""
    sides = [side[:: _step(len(side))] for side in column.sides]
    return replace(column, sides=(sides[0], sides[1]))


def _step(rows: int) -> int:
    return -(-rows // MOST_ROWS_JUDGED) or 1


def _column_traits(column: RawColumn) -> Iterator[Trait]:
    """The column itself and what follows from it alone."""
    name, source = column.name, (column.name,)
    if column.kind == "category":
        yield category(name, column.labels, column.sides)
        if len(column.labels) > _MANY_TEXTS:
            yield _form(column)
        return
    yield ordered(name, column.sides, source, "values", column.kind, column.specials)
    if not all((~np.isnan(side)).any() for side in column.sides):
        return
    if column.kind == "number":
        plain = [side[~np.isnan(side) & ~np.isin(side, (0, *column.specials))] for side in column.sides]
        if len(np.unique(np.concatenate(plain))) > _MANY_VALUES:
            yield _rounding(name, plain, _STEPS, "number")
        return
    yield from _calendar_traits(name, column.sides)


def _calendar_traits(name: str, sides: Sequence[Floats]) -> Iterator[Trait]:
    source, days = (name,), [np.floor(side) for side in sides]
    weekdays = [_codes(np.mod(side + _THURSDAY, len(_DAYS))) for side in days]
    yield category(f"weekday of {name}", _DAYS, weekdays, source, "weekday")
    both = np.concatenate(days)
    if np.nanmax(both) - np.nanmin(both) > _LONG_SPAN:
        yield ordered(f"month of {name}", [_parts(side)[0] for side in days], source, "month")
        yield replace(ordered(f"day of {name}", [_parts(side)[1] for side in days], source, "day"), alone=True)
    if any((np.mod(side, 1.0) > 0).any() for side in sides):
        minutes = [np.round(np.mod(side, 1.0) * _SECONDS) / 60 for side in sides]
        hours = [np.mod(np.floor(side / 60), _HOURS) for side in minutes]
        yield ordered(f"hour of {name}", hours, source, "hour")
        yield _rounding(name, [side[~np.isnan(side)] for side in minutes], _MINUTE_STEPS, "date")


def _parts(days: Floats) -> tuple[Floats, Floats]:
    """Month of the year and day of the month."""
    dates = np.where(np.isnan(days), 0, days).astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    month, day = months.astype(np.int64) % 12 + 1, (dates - months).astype(np.int64) + 1
    first, last = (np.where(np.isnan(days), np.nan, part.astype(np.float64)) for part in (month, day))
    return first, last


def _codes(values: Floats) -> Codes:
    return np.where(np.isnan(values), -1, values).astype(np.int64)


def _rounding(name: str, sides: Sequence[Floats], steps: Sequence[float], kind: ColumnKind) -> Trait:
    """For every number the largest step of which it is a multiple; larger steps come first, so they are negative.

    >>> trait = _rounding("price", [np.array([20.0, 0.5]), np.array([7.0])], _STEPS, "number")
    >>> [side.tolist() for side in trait.values]
    [[-10.0, -0.5], [-1.0]]
    """
    found = []
    for values in sides:
        largest = np.zeros(len(values))
        for step in steps:
            multiples = values / step
            on_step = (np.abs(multiples - np.round(multiples)) < _STEP_ERROR) & (np.round(multiples) != 0)
            largest[on_step & (largest == 0)] = -step
        found.append(largest)
    trait = ordered(f"rounding of {name}", found, (name,), "rounding", kind)
    return replace(trait, alone=True)


def _form(column: RawColumn) -> Trait:
    """How texts are written: how many digits and letters in which order.

    >>> trait = _form(RawColumn("zip", "category", (np.array([0]), np.array([1])), ("01067", "1067")))
    >>> trait.labels
    ('9999', '99999')
    """
    forms = []
    for label in column.labels:
        for pattern, sign in _RUNS:
            label = re.sub(pattern, sign, label)
        forms.append(label)
    labels = sorted(set(forms))
    code_of = np.array([*(labels.index(form) for form in forms), -1])  # code -1, missing, reads the last entry
    sides = [code_of[side] for side in column.sides]
    return category(f"form of {column.name}", labels, sides, (column.name,), "form", alone=True)


def _times_between(dates: Sequence[RawColumn]) -> list[Trait]:
    """The time between every two dates, in days."""
    found = []
    for first, last in combinations([judged_rows(column) for column in dates], 2):
        sides = [b - a for a, b in zip(first.sides, last.sides, strict=True)]
        present = [side[~np.isnan(side)] for side in sides]
        if min(map(len, present)) < _FEWEST:
            continue
        if np.median(present[0]) < 0:
            first, last, sides = last, first, [-side for side in sides]
        found.append(ordered(f"days from {first.name} to {last.name}", sides, (first.name, last.name), "time"))
    return found


def _item_traits(real: Records, synthetic: Records) -> list[Trait]:
    """The number of items of every field of lists, and whether a list has each of the most frequent items."""
    found = []
    sides = [side.take(np.arange(0, len(side), _step(len(side)))) for side in (real, synthetic)]
    several = sum(field.is_set for field in real.domain.fields) > 1 or real.domain.item_set is None
    for field, block in zip(real.domain.fields, real.domain.blocks, strict=True):
        if not field.is_set or field.image is not None:
            continue
        held = [side.to_scipy()[:, block.start : block.stop].tocsc() for side in sides]
        lengths = [np.asarray(side.sum(axis=1)).ravel().astype(np.float64) for side in held]
        found.append(ordered(f"number of {field.name}", lengths, (field.name,), "length"))
        counts = [np.asarray(side.sum(axis=0)).ravel() for side in held]
        enough = max(min(_ENOUGH_ROWS, _RARE * len(sides[0])), 1)
        top = np.argsort(-(counts[0] + counts[1]), kind="stable")[:_MOST_ITEMS]
        for at in top[(counts[0] + counts[1])[top] >= enough]:
            codes = [np.asarray(side[:, [at]].todense()).ravel().astype(np.int64) for side in held]
            item = field.position_names[at]
            name = f"{item} in {field.name}" if several else item
            found.append(category(name, ("no", "yes"), codes, (name,), "item"))
    return found
