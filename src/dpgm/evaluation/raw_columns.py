"""Raw columns: the values of a real and a synthetic table, matched by name, before a domain puts them into bins.

Comparing raw values finds faults within a bin, such as every 0 turned into a number between 0 and 2,000. Wherever there
are two `sides`, the real data comes first.

`compared_records` makes a domain for one comparison where the user gives none. It is derived from the data, for the
curator only: numbers that many rows share become values of their own, the others are divided into ranges of about
equally many real rows.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpgm.data.domain import Categorical, Domain, Field, ItemSet
from dpgm.data.inspect.seen import PADDED_SHARE
from dpgm.data.items import flat_column, is_list, plain_name
from dpgm.data.kinds.base import ColumnKind
from dpgm.data.labels import OTHER
from dpgm.data.records import Records
from dpgm.data.values import DATE_PATTERNS, fitting_patterns, parse_dates
from dpgm.errors import InputError

TextRows: TypeAlias = tuple[tuple[str, ...], ...]
_Parser: TypeAlias = Callable[[Any], NDArray[np.float64] | None]
_SECONDS_PER_DAY = 86_400
_FREE_TEXT = 0.9  # more distinct texts per row are names, ids or free text: there is no distribution to keep
_FEW_ROWS = 50  # with fewer rows, all texts may be distinct by chance
_RANGES = 16  # ranges into which numbers are divided
_FEW_VALUES = 24  # up to so many distinct numbers are compared one by one
_POPULAR = 0.02  # share of the rows above which a number is a value of its own
_MOST_VALUES = 200  # less frequent categories are merged into one
_LONGEST_NAME = 100  # characters


@dataclass(frozen=True)
class RawColumn:
    """One column of both tables: numbers (NaN where missing), or codes of `labels` (-1 where missing).

    Dates are days since 1970. `specials` are numbers with a meaning of their own, such as 999 for "unknown".
    """

    name: str
    kind: ColumnKind
    sides: tuple[NDArray[Any], NDArray[Any]]
    labels: tuple[str, ...] = ()
    specials: tuple[float, ...] = ()

    def missing(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of these values of the column are missing."""
        return values < 0 if self.kind == "category" else np.isnan(values)

    def present(self) -> list[NDArray[Any]]:
        """The values of both sides that are not missing."""
        return [side[~self.missing(side)] for side in self.sides]

    def text(self, value: float) -> str:
        """One value as text.

        >>> RawColumn("day", "date", (np.zeros(1), np.zeros(1))).text(31.0)
        '1970-02-01'
        """
        return self.labels[int(value)] if self.kind == "category" else figure_text(self.kind, value)


def figure_text(kind: ColumnKind, value: float | None) -> str:
    """A number with thousands separators and as many digits as it needs; days since 1970 as a date.

    >>> figure_text("number", 1074.0), figure_text("number", 0.12345), figure_text("number", 189778.37)
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
class ListColumn:
    """A column of lists of items in both tables."""

    name: str
    labels: tuple[str, ...]  # the items of both tables
    sides: list[
        tuple[NDArray[np.int64], NDArray[np.int64]]
    ]  # codes of `labels` (-1: missing), and the rows' lengths


@dataclass(frozen=True)
class Notes:
    """What the domain and the reading options say about columns.

    Attributes:
        fields: those that a domain states, by column name; the kinds of other columns follow from their real values.
        missing: texts that stand for a missing value, besides the empty cell.
        strip_suffix: removed from the end of texts.
    """

    fields: Mapping[str, Field] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    strip_suffix: str = ""

    def with_domain(self, domain: Domain) -> "Notes":
        """Add what a domain states: the columns that are compared, and the texts for a missing value."""
        fields = {one.name: one for one in domain.fields if one.compared_as is not None}
        return replace(self, fields=fields, missing=(*self.missing, *domain.missing_texts))


@dataclass(frozen=True)
class LeftOut:
    """A column of the real data that is not compared.

    `lacking` is whether the synthetic data has no such column although its values could have been compared.
    """

    name: str
    reason: str
    lacking: bool = False


@dataclass(frozen=True)
class RawColumns:
    """The columns that can be compared, and those that cannot."""

    columns: tuple[RawColumn, ...]
    left_out: tuple[LeftOut, ...]


NO_NOTES = Notes()


def raw_columns(
    real: pa.Table, synthetic: pa.Table, notes: Notes = NO_NOTES, *, domain: Domain | None = None
) -> RawColumns:
    """Match the columns of two tables by name; a domain, if given, selects the columns and states their kinds."""
    names = list(real.column_names)
    if domain is not None:
        notes = notes.with_domain(domain)
        names = [name for name in names if name in notes.fields]
    columns: list[RawColumn] = []
    left_out: list[LeftOut] = []
    for name in names:
        if name not in synthetic.column_names:
            lacking = not isinstance(_raw_column(name, [_flat(real, name)] * 2, notes), str)
            left_out.append(LeftOut(name, "the synthetic data has no such column.", lacking))
            continue
        sides = _without_apostrophes([_flat(table, name) for table in (real, synthetic)])
        column = _raw_column(name, sides, notes)
        if isinstance(column, str):
            left_out.append(LeftOut(name, column))
        elif column is not None:
            columns.append(column)
    return RawColumns(tuple(columns), tuple(left_out))


def set_columns(real: pa.Table, synthetic: pa.Table) -> list[ListColumn]:
    """The columns that hold lists in both tables."""
    found = []
    for name in real.column_names:
        if name not in synthetic.column_names:
            continue
        sides = [_flat(table, name) for table in (real, synthetic)]
        if all(is_list(side.type) for side in sides):
            labels, codes = _coded([pc.cast(pc.list_flatten(side), pa.string()) for side in sides])
            lengths = [pc.fill_null(pc.list_value_length(side), 0) for side in sides]
            whole = [length.to_numpy(zero_copy_only=False).astype(np.int64) for length in lengths]
            found.append(ListColumn(name, labels, list(zip(codes, whole, strict=True))))
    return found


def _flat(table: pa.Table, name: str) -> pa.Array:
    column = flat_column(table, name)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _without_apostrophes(sides: list[pa.Array]) -> list[pa.Array]:
    """Undo `escape_formula`: dpgm writes an apostrophe before texts that a spreadsheet would take for a formula."""
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


def _raw_column(name: str, sides: Sequence[pa.Array], notes: Notes) -> RawColumn | str | None:
    """The column, or the reason why it cannot be compared; None for lists of items, which are compared as sets."""
    if all(is_list(side.type) for side in sides):
        return None
    if any(pa.types.is_nested(side.type) or pa.types.is_binary(side.type) for side in sides):
        return "it holds lists in one of the two tables only, or values that are no numbers, dates or texts."
    sides = [_clean(side, notes) for side in sides]
    if sides[0].null_count == len(sides[0]):
        return "the real data holds no value in it."
    stated = notes.fields.get(name)
    kind = None if stated is None else stated.compared_as
    if kind is None and _are_codes(sides[0]):
        kind = "category"
    parsers: tuple[tuple[ColumnKind, _Parser], ...] = (("number", _numbers), ("date", _days))
    for candidate, parse in parsers:
        real, synthetic = (_values(side, stated, parse) if kind in (None, candidate) else None for side in sides)
        if real is not None and synthetic is not None:
            specials = () if stated is None else stated.specials
            return RawColumn(name, candidate, (real, synthetic), specials=specials)
        if stated is not None and kind == candidate and real is None:
            raise InputError(_as_fitted(name, candidate))
    texts = [_texts(side) for side in sides]
    texts = _with_one_spelling(texts) if stated is None else [stated.in_one_spelling(side) for side in texts]
    present = texts[0].drop_null()
    if stated is None and len(present) > _FEW_ROWS and len(present.unique()) > _FREE_TEXT * len(present):
        return "nearly every row has a value of its own (an identifier or free text)."
    labels, codes = _coded(texts)
    return RawColumn(name, "category", (codes[0], codes[1]), labels)


def _as_fitted(name: str, kind: ColumnKind) -> str:
    """What to say if the real data is not what its domain says."""
    options = "the `pattern` of the domain, `missing`"
    if kind == "number":
        options = "`decimal`, `thousands`, `strip_from_numbers`, `missing`"
    return (
        f"column {name!r} of the real data: the domain says that its values are {kind}s, and some are not; read it with"
        f" the options of the fit ({options})."
    )


def _values(column: pa.Array, stated: Field | None, parse: _Parser) -> NDArray[np.float64] | None:
    """The numbers of a column, NaN where missing: as its field reads them or, where it cannot, as they look."""
    if stated is not None:
        with suppress(InputError):
            values, missing = stated.numbers_in(column, ("",), str)
            return np.where(missing, np.nan, values)
    return parse(column)


def _are_codes(column: pa.Array) -> bool:
    """Whether texts are codes such as 01067, by the rule of `inspect`; as numbers they would lose their zeros."""
    if not pa.types.is_string(column.type):
        return False
    texts = column.drop_null()
    padded = pc.sum(pc.match_substring_regex(texts, "^0[0-9]+$")).as_py()
    if not padded or not pc.all(pc.match_substring_regex(texts, "^[0-9]+$")).as_py():
        return False
    return bool(padded >= PADDED_SHARE * len(texts) or len(pc.utf8_length(texts).unique()) == 1)


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
    """Whether all texts of a column are numbers with a decimal point, or missing."""
    return _numbers(_clean(column.combine_chunks(), NO_NOTES)) is not None


def _days(column: pa.Array) -> NDArray[np.float64] | None:
    """Dates and times as days since 1970, NaN where missing; None if the column holds anything else."""
    kinds = pa.types
    if not (kinds.is_date(column.type) or kinds.is_timestamp(column.type) or kinds.is_string(column.type)):
        return np.full(len(column), np.nan) if kinds.is_null(column.type) else None
    if kinds.is_timestamp(column.type) and column.type.tz is not None:
        column = pc.local_timestamp(column)  # the local time, as the readers do
    try:
        seconds = pc.cast(pc.cast(column, pa.timestamp("s"), safe=False), pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # None: ISO with an offset from UTC, which is ignored, as the readers do: the local time counts
        known = (None, *DATE_PATTERNS) if kinds.is_string(column.type) else ()
        patterns = fitting_patterns(column.drop_null(), known)
        if not patterns:
            return None
        seconds = pc.cast(parse_dates(column, patterns[0]), pa.int64())
    days: NDArray[np.float64] = pc.cast(seconds, pa.float64()).to_numpy(zero_copy_only=False) / _SECONDS_PER_DAY
    return days


def _texts(column: pa.Array) -> pa.Array:
    """Any column as texts; integers stored as floats lose their ".0"."""
    if pa.types.is_floating(column.type):
        values = column.drop_null().to_numpy(zero_copy_only=False)
        if np.array_equal(values, np.floor(values)) and np.isfinite(values).all():
            column = column.cast(pa.int64(), safe=False)
    return pc.cast(column, pa.string())


def _with_one_spelling(sides: list[pa.Array]) -> list[pa.Array]:
    """Booleans in one spelling: True and true."""
    lowered = [pc.utf8_lower(side) for side in sides]
    texts = {text for side in lowered for text in side.unique().to_pylist() if text is not None}
    return lowered if texts <= {"true", "false"} else sides


def _coded(texts: Sequence[pa.Array]) -> tuple[tuple[str, ...], list[NDArray[np.int64]]]:
    """The distinct texts of both sides together, and the codes of each side; -1 where missing."""
    both = pa.concat_arrays(texts).dictionary_encode()
    codes = both.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return tuple(both.dictionary.to_pylist()), np.split(codes, [len(texts[0])])


def compared_records(
    columns: Sequence[RawColumn], sets: Sequence[ListColumn] = (), *, label: str | None = None
) -> tuple[Records, Records]:
    """Both tables as records over a domain made from them; `label` names the column to predict, if there is one."""
    fields: list[Categorical | ItemSet] = []
    parts: list[list[tuple[NDArray[np.int64], NDArray[np.int64]]]] = []  # per field and side: rows and positions
    start = 0
    for column in columns:
        names, codes = _binned(column)
        fields.append(Categorical(column.name, tuple(_valid_names(names)), missing=True))
        parts.append([(np.arange(len(side)), start + np.where(side < 0, len(names), side)) for side in codes])
        start += fields[-1].width
    for set_column in sets:
        fields.append(ItemSet(set_column.name, tuple(_valid_names(set_column.labels))))
        part = []
        for items, lengths in set_column.sides:
            rows, present = np.repeat(np.arange(len(lengths)), lengths), items >= 0
            part.append((rows[present], start + items[present]))
        parts.append(part)
        start += fields[-1].width
    domain = Domain(tuple(fields), label if label in [field.name for field in fields] else None)
    compared = []
    for at in (0, 1):
        count = len(columns[0].sides[at]) if columns else len(sets[0].sides[at][1])
        rows, positions = (np.concatenate(arrays) for arrays in zip(*(part[at] for part in parts), strict=True))
        order = np.argsort(rows, kind="stable")
        compared.append(Records.from_flat(positions[order], np.bincount(rows, minlength=count), domain))
    return compared[0], compared[1]


def _binned(column: RawColumn) -> tuple[list[str], list[NDArray[np.int64]]]:
    """Names of the values or ranges of a column, and the codes of both sides, -1 where missing."""
    present = column.present()
    if column.kind == "category":
        if len(column.labels) <= _MOST_VALUES:
            return list(column.labels), list(column.sides)
        counts = np.bincount(np.concatenate(present), minlength=len(column.labels))
        counts[[label == OTHER for label in column.labels]] = -1  # always among the merged values
        top = np.argsort(-counts, kind="stable")[: _MOST_VALUES - 1]
        new_code = np.full(len(column.labels) + 1, len(top), dtype=np.int64)
        new_code[top], new_code[-1] = np.arange(len(top)), -1  # code -1, missing, reads the last entry
        return [*(column.labels[at] for at in top), "other values"], [new_code[side] for side in column.sides]
    both = np.unique(np.concatenate(present))
    if len(both) <= _FEW_VALUES:
        names = [column.text(value) for value in both]
        return names, [np.where(np.isnan(side), -1, np.searchsorted(both, side)) for side in column.sides]
    values, counts = np.unique(present[0], return_counts=True)
    popular = values[counts >= _POPULAR * len(present[0])]
    rest = present[0][~np.isin(present[0], popular)]
    edges = np.unique(np.quantile(rest, np.linspace(0, 1, _RANGES + 1)[1:-1])) if len(rest) else np.empty(0)
    texts = [column.text(edge) for edge in edges]
    inner = [f"{low} to {high}" for low, high in pairwise(texts)]
    ranges = [f"below {texts[0]}", *inner, f"{texts[-1]} and more"] if texts else ["other numbers"]
    codes = []
    for side in column.sides:
        code = np.searchsorted(edges, side, side="right") + len(popular)
        is_popular = np.isin(side, popular)
        code[is_popular] = np.searchsorted(popular, side[is_popular])
        codes.append(np.where(np.isnan(side), -1, code))
    return [*(column.text(value) for value in popular), *ranges], codes


def _valid_names(names: Sequence[str]) -> list[str]:
    """Names that a domain accepts: short, printable and distinct."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        short = "".join(c if c.isprintable() else "?" for c in name)[:_LONGEST_NAME].strip() or "(blank)"
        seen[short] = seen.get(short, 0) + 1
        while seen[short] > 1 and f"{short} ({seen[short]})" in seen:
            seen[short] += 1
        chosen = short if seen[short] == 1 else f"{short} ({seen[short]})"
        seen.setdefault(chosen, 1)
        result.append(chosen)
    return result


def sample_rows(columns: Sequence[RawColumn], count: int, seed: int) -> tuple[TextRows, TextRows]:
    """Random rows of both tables, as texts."""
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
