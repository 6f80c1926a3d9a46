"""Columns of two tables as they stand in the data, before any domain cuts them into bins.

What a person would see in the file is what is compared: a fault within a bin (every 0 turned into a number between 0
and 2,000) cannot hide here. Wherever there are two sides, the real one comes first.

`compared_records` makes a domain for one comparison where the user gives none. It is derived from the data and for the
curator only: numbers that many rows share become values of their own, the others are cut into ranges that hold about as
many real rows each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpgm.data.domain import Categorical, Domain, ItemSet, Numeric
from dpgm.data.fields import OTHER
from dpgm.data.items import flat_column, is_list, plain_name
from dpgm.data.records import Records
from dpgm.data.table import TRUTH
from dpgm.data.values import DATE_PATTERNS, fitting_patterns, parse_dates

ColumnKind: TypeAlias = Literal["number", "date", "category"]
Rows: TypeAlias = tuple[tuple[str, ...], ...]
_SECONDS_PER_DAY = 86_400
_KINDS: dict[str, ColumnKind] = {
    "numeric": "number",
    "categorical": "category",
    "boolean": "category",
    "date": "date",
    "datetime": "date",
}
_NOT_COMPARED = {"items", "image", "identifier", "ignored"}  # kinds of fields without a column of values to compare
_FREE_TEXT = 0.9  # more distinct texts per row: names, ids or free text, which have no distribution to keep
_FEW_ROWS = 50  # with fewer rows, texts may differ by chance
_RANGES = 16
_FEW_VALUES = 24  # as many distinct numbers are compared one by one
_POPULAR = 0.02  # share of the rows from which a number counts as a value of its own
_MOST_VALUES = 200  # categories beyond the most frequent ones are put together
_LONGEST = 100  # characters of a name


@dataclass(frozen=True)
class RawColumn:
    """One column on both sides: numbers (NaN where missing), or codes of `labels` (-1 where missing).

    Dates are numbers of days since 1970. `specials` are numbers with a meaning of their own, such as 999 for "unknown".
    """

    name: str
    kind: ColumnKind
    sides: tuple[NDArray[Any], NDArray[Any]]
    labels: tuple[str, ...] = ()
    specials: tuple[float, ...] = ()

    def missing(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Where values of this column are missing."""
        return values < 0 if self.kind == "category" else np.isnan(values)

    def present(self) -> list[NDArray[Any]]:
        """The values of both sides that are not missing."""
        return [side[~self.missing(side)] for side in self.sides]

    def text(self, value: float) -> str:
        """One value as people write it.

        >>> RawColumn("day", "date", (np.zeros(1), np.zeros(1))).text(31.0)
        '1970-02-01'
        """
        return self.labels[int(value)] if self.kind == "category" else value_text(self.kind, value)


def value_text(kind: ColumnKind, value: float | None) -> str:
    """A number with thousands marks and as many places as its size asks for; days since 1970 as a date.

    >>> value_text("number", 1074.0), value_text("number", 0.12345), value_text("number", 189778.37)
    ('1,074', '0.1235', '189,778')
    """
    if value is None:
        return "–"
    if kind == "date":
        return str(np.datetime64(int(np.floor(value)), "D"))
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


@dataclass(frozen=True)
class SetColumn:
    """A column of lists on both sides: the labels of both together, and for each side codes and lengths of rows."""

    name: str
    labels: tuple[str, ...]
    sides: list[tuple[NDArray[np.int64], NDArray[np.int64]]]


@dataclass(frozen=True)
class Notes:
    """What is known of columns besides the values in them.

    Attributes:
        kinds: kinds of fields by column; what other columns are, their real values decide.
        specials: of columns of numbers, the values with a meaning of their own.
        missing: texts that stand for a missing value, besides the empty cell.
        strip_suffix: taken off the end of texts.
    """

    kinds: Mapping[str, str] = field(default_factory=dict)
    specials: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    strip_suffix: str = ""

    def with_open(self, domain: Domain) -> "Notes":
        """With what a domain says that leaves values or bins open: codes such as 01067 are no numbers, yes is true."""
        kinds = {one.name: str(one.kind) for one in domain.fields if one.kind in ("categorical", "boolean")}
        specials = {one.name: one.specials for one in domain.fields if isinstance(one, Numeric) and one.specials}
        return replace(self, kinds=kinds, specials=specials)


@dataclass(frozen=True)
class RawColumns:
    """The columns that can be compared, and why others cannot."""

    columns: tuple[RawColumn, ...]
    left_out: tuple[tuple[str, str], ...]  # column and reason


NO_NOTES = Notes()


def raw_columns(
    real: pa.Table, synthetic: pa.Table, notes: Notes = NO_NOTES, *, domain: Domain | None = None
) -> RawColumns:
    """The columns of two tables, matched by name; a domain says which of them are compared and what they are."""
    names = list(real.column_names)
    if domain is not None:
        kinds = {one.name: str(one.kind) for one in domain.fields if one.kind not in _NOT_COMPARED}
        names, notes = [name for name in names if name in kinds], replace(notes, kinds=kinds)
    columns: list[RawColumn] = []
    left_out: list[tuple[str, str]] = []
    for name in names:
        if name not in synthetic.column_names:
            left_out.append((name, "the synthetic data has no such column."))
            continue
        sides = _without_apostrophes([_flat(table, name) for table in (real, synthetic)])
        if any(pa.types.is_nested(side.type) or pa.types.is_binary(side.type) for side in sides):
            continue  # lists of items are compared as sets
        column = _column(name, [_clean(side, notes) for side in sides], notes)
        if isinstance(column, str):
            left_out.append((name, column))
        else:
            columns.append(column)
    return RawColumns(tuple(columns), tuple(left_out))


def set_columns(real: pa.Table, synthetic: pa.Table) -> list[SetColumn]:
    """The columns that hold lists on both sides."""
    found = []
    for name in real.column_names:
        if name not in synthetic.column_names:
            continue
        sides = [_flat(table, name) for table in (real, synthetic)]
        if all(is_list(side.type) for side in sides):
            labels, codes = _coded([pc.cast(pc.list_flatten(side), pa.string()) for side in sides])
            lengths = [pc.fill_null(pc.list_value_length(side), 0) for side in sides]
            whole = [length.to_numpy(zero_copy_only=False).astype(np.int64) for length in lengths]
            found.append(SetColumn(name, labels, list(zip(codes, whole, strict=True))))
    return found


def _flat(table: pa.Table, name: str) -> pa.Array:
    column = flat_column(table, name)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _without_apostrophes(sides: list[pa.Array]) -> list[pa.Array]:
    """Our writer puts an apostrophe before texts that a spreadsheet would run; here it is taken away again."""
    real, synthetic = sides
    if not pa.types.is_string(synthetic.type):
        return sides
    known = set(real.unique().to_pylist()) if pa.types.is_string(real.type) else set()
    encoded = synthetic.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    plain = [text if text in known else plain_name(text) for text in texts]
    return sides if plain == texts else [real, pa.array(plain, type=pa.string()).take(encoded.indices)]


def _clean(column: pa.Array, notes: Notes) -> pa.Array:
    """Texts trimmed, and null where they stand for a missing value."""
    if not pa.types.is_string(column.type):
        return column
    texts = pc.utf8_trim_whitespace(column)
    if notes.strip_suffix:
        cut = pc.utf8_slice_codeunits(texts, 0, -len(notes.strip_suffix))
        texts = pc.if_else(pc.ends_with(texts, notes.strip_suffix), cut, texts)
    is_missing = pc.is_in(texts, value_set=pa.array(["", *notes.missing], type=pa.string()))
    return pc.if_else(is_missing, pa.scalar(None, type=pa.string()), texts)


def _column(name: str, sides: Sequence[pa.Array], notes: Notes) -> RawColumn | str:
    """A column, or why it cannot be compared."""
    if sides[0].null_count == len(sides[0]):
        return "the real data holds no value in it."
    stated = notes.kinds.get(name, "")
    kind = _KINDS.get(stated)
    parsers: tuple[tuple[ColumnKind, _Parser], ...] = (("number", _numbers), ("date", _days))
    for one, parse in parsers:
        real, synthetic = (parse(side) if kind in (None, one) else None for side in sides)
        if real is not None and synthetic is not None:
            specials = notes.specials.get(name, ()) if one == "number" else ()
            return RawColumn(name, one, (real, synthetic), specials=specials)
    texts = _truths([_texts(side) for side in sides], stated=stated == "boolean")
    present = texts[0].drop_null()
    if kind is None and len(present) > _FEW_ROWS and len(present.unique()) > _FREE_TEXT * len(present):
        return "nearly every row has a value of its own (an identifier or free text)."
    labels, codes = _coded(texts)
    return RawColumn(name, "category", (codes[0], codes[1]), labels)


_Parser: TypeAlias = Callable[[Any], NDArray[np.float64] | None]


def _numbers(column: pa.Array) -> NDArray[np.float64] | None:
    """Numbers, NaN where missing or not finite; None if the column holds anything else."""
    kinds = pa.types
    plain = kinds.is_integer(column.type) or kinds.is_floating(column.type) or kinds.is_decimal(column.type)
    if not (plain or kinds.is_string(column.type) or kinds.is_null(column.type)):
        return None
    try:
        values = pc.cast(column, pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    numbers: NDArray[np.float64] = values.to_numpy(zero_copy_only=False).astype(np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def is_plain_number(column: Any) -> bool:
    """Whether all texts of a column are numbers with a point, or missing."""
    texts = _clean(column.combine_chunks(), NO_NOTES)
    return _numbers(texts) is not None


def _days(column: pa.Array) -> NDArray[np.float64] | None:
    """Dates and times as days since 1970, NaN where missing; None if the column holds anything else."""
    kinds = pa.types
    if not (kinds.is_date(column.type) or kinds.is_timestamp(column.type) or kinds.is_string(column.type)):
        return np.full(len(column), np.nan) if kinds.is_null(column.type) else None
    if kinds.is_timestamp(column.type) and column.type.tz is not None:
        column = pc.local_timestamp(column)  # what a clock shows there, as readers take it
    try:
        seconds = pc.cast(pc.cast(column, pa.timestamp("s"), safe=False), pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        patterns = fitting_patterns(column.drop_null(), DATE_PATTERNS) if kinds.is_string(column.type) else []
        if not patterns:
            return None
        seconds = pc.cast(parse_dates(column, patterns[0]), pa.int64())
    days: NDArray[np.float64] = pc.cast(seconds, pa.float64()).to_numpy(zero_copy_only=False) / _SECONDS_PER_DAY
    return days


def _texts(column: pa.Array) -> pa.Array:
    """Any column as texts; whole numbers without a fraction."""
    if pa.types.is_floating(column.type):
        values = column.drop_null().to_numpy(zero_copy_only=False)
        if np.array_equal(values, np.floor(values)) and np.isfinite(values).all():
            column = column.cast(pa.int64(), safe=False)
    return pc.cast(column, pa.string())


def _truths(sides: list[pa.Array], *, stated: bool) -> list[pa.Array]:
    """Booleans in one spelling: one side may say True, the other true (or yes, where the domain says boolean)."""
    lowered = [pc.utf8_lower(side) for side in sides]
    if not stated:
        texts = {text for side in lowered for text in side.unique().to_pylist() if text is not None}
        return lowered if texts <= {"true", "false"} else sides
    spellings = pa.array(list(TRUTH), type=pa.string())
    meanings = pa.array(["true" if value else "false" for value in TRUTH.values()], type=pa.string())
    truths = [meanings.take(pc.index_in(side, value_set=spellings)) for side in lowered]
    return [pc.coalesce(truth, side) for truth, side in zip(truths, sides, strict=True)]


def _coded(texts: Sequence[pa.Array]) -> tuple[tuple[str, ...], list[NDArray[np.int64]]]:
    """The different texts of both sides, and for each side their numbers; -1 where missing."""
    both = pa.concat_arrays(texts).dictionary_encode()
    codes = both.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return tuple(both.dictionary.to_pylist()), np.split(codes, [len(texts[0])])


def compared_records(
    columns: Sequence[RawColumn], sets: Sequence[SetColumn] = (), *, label: str | None = None
) -> tuple[Records, Records]:
    """Records of both sides over one domain made for them; `label` names the column to predict, if it is there."""
    fields: list[Categorical | ItemSet] = []
    parts: list[list[tuple[NDArray[np.int64], NDArray[np.int64]]]] = []  # rows and positions, on both sides
    start = 0
    for column in columns:
        names, codes = _cut(column)
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


def _cut(column: RawColumn) -> tuple[list[str], list[NDArray[np.int64]]]:
    """Names of the values and the codes of both sides, -1 where missing."""
    present = column.present()
    if column.kind == "category":
        if len(column.labels) <= _MOST_VALUES:
            return list(column.labels), list(column.sides)
        counts = np.bincount(np.concatenate(present), minlength=len(column.labels))
        counts[[label == OTHER for label in column.labels]] = -1  # stands for what is not among the top
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


def sample_rows(columns: Sequence[RawColumn], count: int, seed: int) -> tuple[Rows, Rows]:
    """Some rows of both sides, drawn at random, as texts."""
    random = np.random.default_rng([seed, 13])
    drawn = []
    for side in (0, 1):
        size = len(columns[0].sides[side])
        rows = random.choice(size, min(count, size), replace=False)
        cells = [[_cell(column, value) for value in column.sides[side][rows]] for column in columns]
        drawn.append(tuple(zip(*cells, strict=True)))
    return drawn[0], drawn[1]


def _cell(column: RawColumn, value: Any) -> str:
    return "–" if column.missing(value) else column.text(float(value))
