"""Columns of two tables as they stand in the data, before any domain cuts them into bins.

What a person would see in the file is what is compared: a fault within a bin (every 0 turned into a number between 0
and 2,000) cannot hide here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain, Numeric
from dpgm.data.table import TRUTH
from dpgm.data.values import DATE_PATTERNS, fitting_patterns, parse_dates

if TYPE_CHECKING:
    import pyarrow

ColumnKind: TypeAlias = Literal["number", "date", "category"]
_SECONDS_PER_DAY = 86_400
_KINDS: dict[str, ColumnKind] = {
    "numeric": "number",
    "categorical": "category",
    "boolean": "category",
    "date": "date",
    "datetime": "date",
}
_NOT_COMPARED = {"items", "image", "identifier", "ignored"}  # kinds of fields without a column of values to compare
_FREE_TEXT = (
    0.9  # more distinct texts per row than this: names, ids or free text, which have no distribution to keep
)
_FEW_ROWS = 50  # with fewer rows, texts may differ by chance


@dataclass(frozen=True)
class RawColumn:
    """One column on both sides: numbers (NaN where missing), or codes of `labels` (-1 where missing).

    Dates are numbers of days since 1970. `specials` are numbers with a meaning of their own, such as 999 for "unknown".
    """

    name: str
    kind: ColumnKind
    real: NDArray[Any]
    synthetic: NDArray[Any]
    labels: tuple[str, ...] = ()
    specials: tuple[float, ...] = ()


@dataclass(frozen=True)
class Stated:
    """What a domain says of columns that are compared as they stand.

    Attributes:
        categories: columns that are categories whatever they hold: codes such as 01067 are no numbers.
        specials: of columns of numbers, the values with a meaning of their own.
    """

    categories: frozenset[str] = frozenset()
    specials: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


def stated_by(domain: Domain) -> Stated:
    """What a domain says of its columns."""
    categories = frozenset(one.name for one in domain.fields if one.kind == "categorical")
    specials = {one.name: one.specials for one in domain.fields if isinstance(one, Numeric) and one.specials}
    return Stated(categories, specials)


@dataclass(frozen=True)
class RawColumns:
    """The columns that can be compared, and why others cannot."""

    columns: tuple[RawColumn, ...]
    left_out: tuple[tuple[str, str], ...]  # column and reason


def raw_columns(
    real: "pyarrow.Table",
    synthetic: "pyarrow.Table",
    *,
    domain: Domain | None = None,
    said: Stated = Stated(),  # noqa: B008 (it holds nothing)
    missing: Sequence[str] = (),
    strip_suffix: str = "",
) -> RawColumns:
    """The columns of two tables, matched by name.

    Args:
        real: the real rows.
        synthetic: the synthetic rows.
        domain: says what each column is; without one, the real column decides.
        said: what else is known of columns.
        missing: texts that stand for a missing value, besides the empty cell.
        strip_suffix: taken off the end of texts.
    """
    kinds = {} if domain is None else {one.name: str(one.kind) for one in domain.fields}
    names = [name for name in real.column_names if not kinds or name in kinds]
    columns: list[RawColumn] = []
    left_out: list[tuple[str, str]] = []
    for name in names:
        if kinds.get(name) in _NOT_COMPARED:
            continue
        if name not in synthetic.column_names:
            left_out.append((name, "the synthetic data has no such column."))
            continue
        sides = [_clean(_flat(table, name), missing, strip_suffix) for table in (real, synthetic)]
        if any(side is None for side in sides):
            continue  # lists of items are compared as sets
        stated = "categorical" if name in said.categories else kinds.get(name, "")
        column = _column(name, _KINDS.get(stated), sides[0], sides[1], truth=stated == "boolean")
        if isinstance(column, RawColumn) and column.kind == "number":
            column = replace(column, specials=said.specials.get(name, ()))
        if isinstance(column, str):
            left_out.append((name, column))
        else:
            columns.append(column)
    return RawColumns(tuple(columns), tuple(left_out))


def _flat(table: "pyarrow.Table", name: str) -> "pyarrow.Array":
    import pyarrow as pa

    column = table.column(table.column_names.index(name)).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], type=column.type)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _clean(column: "pyarrow.Array", missing: Sequence[str], suffix: str) -> Any:
    """Texts trimmed, and null where they stand for a missing value; None for a column of lists."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = pa.types
    if kinds.is_nested(column.type) or kinds.is_binary(column.type):
        return None
    if not (
        kinds.is_string(column.type) or kinds.is_large_string(column.type) or kinds.is_string_view(column.type)
    ):
        return column
    texts = pc.utf8_trim_whitespace(column.cast(pa.string()))
    if suffix:
        ends = pc.ends_with(texts, suffix)
        texts = pc.if_else(ends, pc.utf8_slice_codeunits(texts, 0, -len(suffix)), texts)
    is_missing = pc.is_in(texts, value_set=pa.array(["", *missing], type=pa.string()))
    return pc.if_else(is_missing, pa.scalar(None, type=pa.string()), texts)


def _column(
    name: str, kind: ColumnKind | None, real: Any, synthetic: Any, *, truth: bool = False
) -> RawColumn | str:
    if real.null_count == len(real):
        return "the real data holds no value in it."
    parsers: dict[ColumnKind, Any] = {"number": _numbers, "date": _days}
    candidates: Sequence[ColumnKind] = ("number", "date") if kind is None else (kind,)
    for one in candidates:
        if one == "category":
            continue
        sides = [parsers[one](side) for side in (real, synthetic)]
        if all(side is not None for side in sides):
            return RawColumn(name, one, sides[0], sides[1])
    texts = _truths([_texts(side) for side in (real, synthetic)], sure=truth)
    present = texts[0].drop_null()
    if kind is None and len(present) > _FEW_ROWS and len(present.unique()) > _FREE_TEXT * len(present):
        return "nearly every row has a value of its own (an identifier or free text)."
    return _categories(name, texts)


def _numbers(column: Any) -> NDArray[np.float64] | None:
    """Numbers, NaN where missing or not finite; None if the column holds anything else."""
    import pyarrow as pa
    import pyarrow.compute as pc

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


def _days(column: Any) -> NDArray[np.float64] | None:
    """Dates and times as days since 1970, NaN where missing; None if the column holds anything else."""
    import pyarrow as pa
    import pyarrow.compute as pc

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


def _texts(column: Any) -> Any:
    """Any column as texts; whole numbers without a fraction."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        values = column.drop_null().to_numpy(zero_copy_only=False)
        if np.array_equal(values, np.floor(values)) and np.isfinite(values).all():
            column = column.cast(pa.int64(), safe=False)
    return pc.cast(column, pa.string())


def _truths(sides: Sequence[Any], *, sure: bool) -> list[Any]:
    """Booleans in one spelling: one side may say True, the other true (or yes, where the domain says boolean)."""
    import pyarrow.compute as pc

    lowered = [pc.utf8_lower(side) for side in sides]
    texts = {text for side in lowered for text in side.unique().to_pylist() if text is not None}
    if not texts or not (texts <= set(TRUTH) if sure else texts <= {"true", "false"}):
        return list(sides)
    return [_true_or_false(side) for side in lowered]


def _true_or_false(lowered: Any) -> Any:
    """Spellings of booleans, in lower case, as true or false; null for any other text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    spellings = pa.array(list(TRUTH), type=pa.string())
    meanings = pa.array(["true" if value else "false" for value in TRUTH.values()], type=pa.string())
    return meanings.take(pc.index_in(lowered, value_set=spellings))


def with_truths(table: "pyarrow.Table", domain: Domain) -> "pyarrow.Table":
    """A table in which columns that the domain calls boolean say true or false, however they are spelled.

    Other texts in them, such as those that stand for a missing value, stay as they are.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in [one.name for one in domain.fields if one.kind == "boolean"]:
        if name not in table.column_names:
            continue
        column = _flat(table, name)
        if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
            continue
        texts = _texts(column)
        truths = _true_or_false(pc.utf8_lower(pc.utf8_trim_whitespace(texts)))
        table = table.set_column(table.column_names.index(name), name, pc.coalesce(truths, texts))
    return table


def _categories(name: str, texts: Sequence[Any]) -> RawColumn:
    import pyarrow as pa

    both = pa.concat_arrays(texts).dictionary_encode()
    codes = both.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    labels = tuple(both.dictionary.to_pylist())
    return RawColumn(name, "category", codes[: len(texts[0])], codes[len(texts[0]) :], labels)


def present_values(column: RawColumn, side: Literal["real", "synthetic"]) -> NDArray[Any]:
    """The values of one side that are not missing."""
    values = column.real if side == "real" else column.synthetic
    return values[values >= 0] if column.kind == "category" else values[~np.isnan(values)]


def plain_values(column: RawColumn, values: NDArray[Any]) -> NDArray[Any]:
    """The values without special ones."""
    return values[~np.isin(values, column.specials)] if column.specials else values


def values_as_text(column: RawColumn, value: float) -> str:
    """One value as people write it.

    >>> values_as_text(RawColumn("day", "date", np.zeros(1), np.zeros(1)), 31.0)
    '1970-02-01'
    """
    if column.kind == "category":
        return column.labels[int(value)]
    return number_text(value) if column.kind == "number" else date_text(value)


def number_text(value: float) -> str:
    """A number with thousands marks and as many places as its size asks for.

    >>> number_text(1074.0), number_text(0.12345), number_text(189778.37)
    ('1,074', '0.1235', '189,778')
    """
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def date_text(days: float) -> str:
    """A number of days since 1970 as a date."""
    return str(np.datetime64(int(np.floor(days)), "D"))


def sample_rows(
    columns: Sequence[RawColumn], count: int, seed: int
) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]:
    """Some rows of both sides, drawn at random, as texts."""
    random = np.random.default_rng([seed, 13])
    sides = []
    for side in (0, 1):
        values = [(column.real, column.synthetic)[side] for column in columns]
        rows = random.choice(len(values[0]), min(count, len(values[0])), replace=False)
        sides.append(tuple(tuple(_cell(c, v[row]) for c, v in zip(columns, values, strict=True)) for row in rows))
    return sides[0], sides[1]


def _cell(column: RawColumn, value: Any) -> str:
    missing = value < 0 if column.kind == "category" else np.isnan(value)
    return "–" if missing else values_as_text(column, float(value))
