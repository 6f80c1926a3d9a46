"""What the columns of a table seem to be, for its curator: a draft in which every value is left to be found.

The draft states names and kinds of columns, whole numbers or places after the point, and no value of any person:
bounds, bins and categories are found privately by the fit. Kinds are judged by the rows, so the curator confirms them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpgm.data.condition_text import parse_constraint
from dpgm.data.domain import (
    Boolean,
    Categorical,
    Date,
    DateTime,
    Domain,
    Field,
    Identifier,
    Ignored,
    ItemSet,
    Numeric,
    Unread,
)
from dpgm.data.inspect.hints import (
    called_id,
    code_hint,
    date_hint,
    follows_soon,
    names_persons,
    number_hint,
    ordered_dates,
    text_hint,
)
from dpgm.data.items import flat_column, is_list
from dpgm.data.number_fields import DISCOVER, MAX_DECIMALS, SECONDS, Unit
from dpgm.data.read.columns import Columns
from dpgm.data.read.options import ReadOptions
from dpgm.data.values import (
    DATE_PATTERNS,
    ISO_PATTERNS,
    as_texts,
    fitting_patterns,
    floats,
    plain_texts,
    seconds_of,
)
from dpgm.errors import InputError, UsageError
from dpgm.validation import near

KINDS = ("number", "integer", "date", "datetime", "boolean", "categorical", "items", "identifier", "ignored")
_DISTINCT = 0.9  # share of different values from which texts are no categories
_FEW = 0.1  # share of different values up to which texts are plainly categories
_ENOUGH = 20  # rows from which that share says anything
_WITH = "with --item COLUMN (one row per person and item) or --rows-per-person K"
_NUMBERED = 1.5  # numbers between the first and the last per row, up to which rows seem to be numbered
_LONG = 40  # characters of a text that nobody would call an identifier
_MOST_VALUES = 100_000  # different texts kept per column while looking
_PARTS = 16  # one is kept beyond: 6,000 texts or more, which tell the number of all to 1.3 %
_PADDED = 0.05  # share of whole numbers with leading zeros from which they are codes
_MONEY = 2  # places after the point that whole numbers would not be written with (5.0 is one with a gap near it)
_TRUTH = ({"true", "false"}, {"t", "f"})


@dataclass(frozen=True)
class Drafted:
    """A draft, why columns were left out, and what the curator is asked to confirm."""

    domain: Domain
    left_out: tuple[tuple[str, str], ...] = ()
    confirm: tuple[str, ...] = ()
    orders: tuple[str, ...] = ()  # rules on dates that every row meets
    follows: tuple[tuple[str, str], ...] = ()  # dates that come soon after others, and those
    hints: tuple[tuple[str, str], ...] = ()  # columns that other options would read as numbers


def draft_table(
    columns: Columns, options: ReadOptions, *, drop: Sequence[str] = (), kinds: Mapping[str, str] | None = None
) -> Drafted:
    """A domain drafted from the columns of a table, everything but names and kinds left open.

    `drop` are columns to ignore; `kinds` say what a column is (one of `KINDS`), where the curator knows better.
    """
    stated = dict(kinds or {})
    for name in (*drop, *stated):
        if name not in columns.names:
            raise UsageError(
                f"{columns.file}: there is no column {name!r}{near(name, columns.names)}; the columns are"
                f" {columns.listed()}."
            )
    stated = {name: "number" if kind == "numeric" else kind for name, kind in stated.items()}  # as domain files say
    for name, kind in stated.items():
        if kind not in KINDS:
            raise UsageError(
                f"a column is one of {', '.join(KINDS)}; got {kind!r} for {name!r}{near(kind, KINDS)}."
            )
    stated |= dict.fromkeys(drop, "ignored")
    seen = {name: _Column(name, options) for name in columns.names}
    for chunk in columns.chunks:
        for name, column in seen.items():
            column.see(flat_column(chunk.table, name), chunk.place)
    fields: list[Field | Unread] = []
    left_out, confirm = [], []
    for name, column in seen.items():
        if name == options.person:
            kind, why = "identifier", "the column of persons: never read into records, samples carry fresh ones"
        elif name in stated:
            kind, why = stated[name], "as you said" if name in drop else f"{stated[name]}, as you said"
        else:
            kind, why = column.kind()
        fields.append(column.field(kind))
        if kind in ("identifier", "ignored"):
            left_out.append((name, why))
        else:
            confirm.append(f"{name}: {why}")
    schema = () if columns.schema is None else columns.schema.names
    left_out += [(name, "it is nested; flatten it to have it") for name in schema if name not in columns.names]
    if not confirm:
        raise UsageError(
            f"{columns.file}: no column is left to model ({left_out[0][0]!r}: {left_out[0][1]}); say what a column is"
            " with --kind COLUMN=KIND."
        )
    domain = Domain(tuple(fields))  # type: ignore[arg-type]
    dated = [one.name for one in domain.fields if isinstance(one, (Date, DateTime)) and seen[one.name].sure]
    dates = {name: seen[name].dates for name in dated}
    pairs = ordered_dates(dates)
    rules = (_rule(first, last, domain) for first, last in pairs)
    follows: dict[str, str] = {}
    for first, last in pairs:
        if first not in follows and last not in (*follows, *follows.values()):
            follows |= {last: first} if follows_soon(dates[first], dates[last]) else {}
    hints = ((name, column.hint()) for name, column in seen.items() if name not in (*stated, options.person))
    return Drafted(
        domain,
        tuple(left_out),
        tuple(confirm),
        orders=tuple(rule for rule in rules if rule is not None),
        follows=tuple(follows.items()),
        hints=tuple((name, hint) for name, hint in hints if hint is not None),
    )


def _rule(first: str, last: str, domain: Domain) -> str | None:
    """That a date never comes after another, as a domain file states it; None if their names cannot be written so."""
    rule = " <= ".join(name if name.isidentifier() else f'"{name}"' for name in (first, last))
    try:
        return rule if len(parse_constraint(rule, domain.fields).fields) == 2 else None
    except UsageError:
        return None


class _Column:
    """What one column of a table looks like so far."""

    def __init__(self, name: str, options: ReadOptions) -> None:
        self.name, self._tokens, self._style = name, ("", *options.missing), options.number_style
        self.rows = self.gone = self.decimals = self.padded = 0
        self.number = self.plain = True
        self.lists = self.truth = False
        self.values: set[str] = set()
        self._part: set[str] = (
            set()
        )  # a part of them, chosen by their bytes, for their number where they are too many
        self.temporal: str | None = None
        self.patterns: list[str | None] = [*ISO_PATTERNS, None, *DATE_PATTERNS]
        self.sure = True  # dates of all rows were read in one pattern
        self._read_as: set[str | None] = set()
        self._numbers: list[NDArray[np.float64]] = []  # those that are not missing
        self._dates: list[NDArray[np.float64]] = []  # seconds of all rows, NaN where missing or no dates

    def see(self, column: Any, place: Any) -> None:
        self.rows += len(column)
        kinds = pa.types
        self.lists = self.lists or is_list(column.type)
        self.truth = self.truth or kinds.is_boolean(column.type)
        if kinds.is_date(column.type) or kinds.is_timestamp(column.type):
            self.temporal = "date" if kinds.is_date(column.type) else "datetime"
            self.gone += column.null_count
        elif kinds.is_duration(column.type) or kinds.is_time(column.type):
            self.plain = False
        elif not is_list(column.type):
            try:
                self._see_texts(as_texts(column, place))
                if self.number:
                    self._see_numbers(column, place)
            except InputError:
                self.plain = False
        self._dates.append(self._seconds(column, place))

    def _see_texts(self, texts: Any) -> None:
        texts = pc.utf8_trim_whitespace(texts.cast(pa.string()))
        absent = pc.or_kleene(texts.is_null(), pc.is_in(texts, value_set=pa.array(self._tokens, type=pa.string())))
        present = texts.filter(pc.invert(absent))
        self.gone += len(texts) - len(present)
        if not len(present):
            return
        found = present.unique().to_pylist()
        self._part.update(value for value in found if crc32(value.encode()) % _PARTS == 0)
        if len(self.values) <= _MOST_VALUES:
            self.values.update(found)
        if self.patterns:
            self.patterns = fitting_patterns(present, self.patterns)
        if self.number:
            self.padded += pc.sum(pc.match_substring_regex(present, "^0[0-9]+$")).as_py()
            present = self._plain(present)
            places = pc.utf8_length(pc.replace_substring_regex(present, r"^[^.]*\.?", ""))
            exponents = bool(pc.any(pc.match_substring_regex(present, "[eE]")).as_py())
            self.decimals = max(self.decimals, MAX_DECIMALS + 1 if exponents else pc.max(places).as_py())

    def _see_numbers(self, column: Any, place: Any) -> None:
        try:
            numbers, gone = floats(self._plain(column), place, self._tokens)
        except InputError:
            self.number = False
            return
        self._numbers.append(numbers[~gone])

    def _plain(self, texts: Any) -> Any:
        """Texts with the marks that the options state made plain, where they are numbers."""
        if self._style.is_plain or not pa.types.is_string(texts.type):
            return texts
        try:
            return plain_texts(texts, self._style, self._tokens, lambda row: "")
        except InputError:
            self.number = False
            return texts

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        return np.concatenate([np.empty(0), *self._numbers])

    @cached_property
    def dates(self) -> NDArray[np.float64]:
        return np.concatenate([np.empty(0), *self._dates])

    @cached_property
    def whole(self) -> bool:
        return self.number and np.array_equal(self.numbers, np.floor(self.numbers))

    @cached_property
    def unit(self) -> Unit:
        """The coarsest unit that all moments are whole ones of."""
        present = self.dates[~np.isnan(self.dates)]
        units: tuple[Unit, ...] = ("day", "hour", "minute")
        return next((unit for unit in units if not (present % SECONDS[unit]).any()), "second")

    @property
    def is_code(self) -> bool:
        """Whether whole numbers are codes such as 01067: with leading zeros, all of one width or many of them."""
        many = self.padded >= _PADDED * (self.rows - self.gone)
        return self.whole and self.padded > 0 and (many or len(set(map(len, self.values))) == 1)

    @property
    def _different(self) -> int:
        """How many different values there are, about so many where not all are kept."""
        return len(self.values) if len(self.values) <= _MOST_VALUES else _PARTS * len(self._part)

    @property
    def _repeats(self) -> bool:
        """Whether there are many values, and most of them occur several times, as persons in a list of visits do."""
        some = _FEW * self.rows < self._different < _DISTINCT * (self.rows - self.gone)
        return some and self.rows >= _ENOUGH

    def hint(self) -> str | None:
        """Which options may read the column as what it is meant to be."""
        if self.number and not self.is_code:
            hint = code_hint(self.numbers)
            if hint is None and self.whole and names_persons(self.name) and self._repeats:
                return f"if it tells persons with several rows each, say --person '{self.name}' {_WITH}"
            return hint
        if self.lists or self.temporal is not None:
            return None
        if self.patterns and self.values:
            return date_hint(self.values)
        if self._meant is None and self._repeats:
            return (
                f"{self._different:,} different values in {self.rows:,} rows: if they are persons with several rows"
                f" each, say --person '{self.name}' {_WITH}; else most of them are too rare to be published"
            )
        return self._meant

    @cached_property
    def _meant(self) -> str | None:
        """What texts that are neither numbers nor dates as they stand seem to be."""
        return number_hint(self.values, self._style.signs) or text_hint(self.name, self.values)

    def _seconds(self, column: Any, place: Any) -> NDArray[np.float64]:
        """Dates of some rows as seconds, NaN where missing or where they are none."""
        nothing = np.full(len(column), np.nan)
        if self.temporal is None and (not self.patterns or not self.values or self.truth):
            return nothing
        pattern = None if self.temporal is not None else self.patterns[0]
        self._read_as.add(pattern)
        self.sure = self.sure and len(self._read_as) == 1
        try:
            moments, gone = seconds_of(column, place, self._tokens, pattern)
        except InputError:
            self.sure = False
            return nothing
        return np.where(gone, np.nan, moments)

    def kind(self) -> tuple[str, str]:
        """What the column is, one of `KINDS`, and why: for the curator to confirm, or to see what was left out."""
        filled = self.rows - self.gone
        if not self.plain:
            return "ignored", "its type cannot be modelled"
        if self.lists:
            return "items", "lists of items, found privately"
        if self.truth:
            return "boolean", "true or false"
        if self.temporal is not None:
            days = self.unit == "day" and filled > 0  # a date at midnight is a date
            return "date" if days else self.temporal, self._about_dates()
        if not self.values:
            return "ignored", "no row has a value in it"
        telling = self._different >= _DISTINCT * filled and filled >= _ENOUGH
        constant = ", always the same" if len(self.values) == 1 else ""
        if any({value.lower() for value in self.values} <= truth for truth in _TRUTH):
            return "boolean", "true or false"
        if self.is_code and telling:
            return "identifier", "numbers with leading zeros that differ in nearly every row: an identifier"
        if self.is_code:
            codes = "codes with leading zeros; those that many people have are found privately (a number: --kind"
            return "categorical", f"{codes} '{self.name}=integer')"
        if self.number and not (self.patterns == ["%Y%m%d"] and self.whole):
            all_differ = filled >= _ENOUGH and len(np.unique(self.numbers)) == filled
            numbered = np.ptp(self.numbers) < _NUMBERED * filled  # hardly any number between is left out
            rising = (np.diff(self.numbers) > 0).all()
            if self.whole and all_differ and (rising or called_id(self.name) or numbered):
                return "identifier", "whole numbers that differ in every row: an identifier"
            if self.whole and self.decimals < _MONEY:
                return "integer", f"whole numbers{constant}; their range is found privately"
            places = f" with {self.decimals} place{'s' if self.decimals != 1 else ''}"
            places = places if self.decimals <= MAX_DECIMALS else ""
            return "number", f"numbers{places}{constant}; their range is found privately"
        if self.patterns:
            # Spreadsheets write midnight beside a day.
            return "date" if self.unit == "day" else "datetime", self._about_dates()
        if telling and self._meant is not None:
            return "ignored", "texts that differ in nearly every row, and seem to be no identifiers (see below)"
        if telling and not any(" " in value or len(value) > _LONG for value in self.values):
            return "identifier", "texts that differ in nearly every row: an identifier"
        if telling:
            return "ignored", "free text: nearly every row has another"
        return "categorical", f"categories{constant}; values that many people have are found privately"

    def _about_dates(self) -> str:
        pattern = f" written {self.patterns[0]}" if self.patterns and self.patterns[0] is not None else ""
        return f"dates{pattern}; the years they lie in are found privately"

    def field(self, kind: str) -> Field | Unread:
        """The column as a field of this kind, everything else left open."""
        pattern = self.patterns[0] if self.patterns else None
        if kind in ("number", "integer"):
            whole = self.whole and self.decimals < _MONEY and kind != "number"
            places = self.decimals if 0 < self.decimals <= MAX_DECIMALS and not whole else None
            return Numeric(self.name, DISCOVER, DISCOVER, integer=kind == "integer" or whole, decimals=places)
        if kind == "date":
            return Date(self.name, DISCOVER, DISCOVER, pattern=pattern)
        if kind == "datetime":
            unit: Unit = "minute" if self.unit == "day" else self.unit
            return DateTime(self.name, DISCOVER, DISCOVER, unit=unit, pattern=pattern)
        if kind == "boolean":
            return Boolean(self.name, missing=self.gone > 0)
        if kind == "items":
            return ItemSet(self.name, discover=True)
        if kind == "identifier":
            return Identifier(self.name)
        return Ignored(self.name) if kind == "ignored" else Categorical(self.name, discover=True)
