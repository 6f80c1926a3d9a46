"""Drafting the domain of a table: which kind each column has, judged by its values, for the curator to confirm.

The draft states the names and kinds of columns and the decimal places of numbers, but no value of any person: ranges,
bins and categories are left open, to be found privately by the fit.
"""

from collections import Counter
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
    is_identifier,
    is_index,
    missing_spellings,
    names_persons,
    never_values,
    number_hint,
    ordered_dates,
    survey_codes,
    text_hint,
    written_like_numbers,
)
from dpgm.data.items import flat_column, is_list
from dpgm.data.number_fields import DISCOVER, LARGEST_TICK, SECONDS, Unit
from dpgm.data.number_grids import MOST_PLACES
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
_NEARLY_UNIQUE = 0.9  # texts are no categories if at least this share of the values is distinct
_FEW_DISTINCT = 0.1  # texts are clearly categories if at most this share of the rows has a distinct value
_MIN_ROWS = 20  # from which such a share is meaningful
_PERSON_OPTIONS = "with --item COLUMN (one row per person and item) or --rows-per-person K"
_MAX_NUMBERING = 1.5  # rows seem to be numbered if their numbers span at most this many times the number of rows
_MAX_IDENTIFIER = 40  # characters; a longer text is no identifier
_MOST_VALUES = 100_000  # distinct texts stored per column
_SAMPLED = 16  # beyond, one in 16: 6,000 texts or more, which give the number of distinct ones to 1.3 %
PADDED_SHARE = 0.05  # whole numbers are codes if at least this share has leading zeros
_MONEY_DECIMALS = 2  # 5.00 is an amount; 5.0 is a whole number, as pandas writes it in a column with gaps
_NESTED = (
    "it is nested (objects, or lists among other values); flatten it to include it, for example with"
    " pandas.json_normalize"
)
_BOOLEANS = ({"true", "false"}, {"t", "f"})
# How files write true and false, in small letters.
_TRUTH_WORDS = (
    *(("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("ja", "nein"), ("j", "n"), ("wahr", "falsch")),
    *(("oui", "non"), ("o", "n"), ("vrai", "faux"), ("sí", "no"), ("si", "no"), ("sì", "no"), ("sim", "não")),
)


@dataclass(frozen=True)
class Drafted:
    """A drafted domain, and what the curator should know about it.

    Attributes:
        domain: the draft.
        left_out: columns that are not modelled, and why.
        confirm: sentences about the other columns, to be confirmed.
        orders: rules about the order of dates that every row meets.
        follows: pairs of dates of which the first comes soon after the second.
        hints: columns that other options may read better, and which options.
        gaps: usual spellings of a missing value, which the draft states as its `missing_texts`; the columns in which
            they are one, and those in which they seem to be values.
    """

    domain: Domain
    left_out: tuple[tuple[str, str], ...] = ()
    confirm: tuple[str, ...] = ()
    orders: tuple[str, ...] = ()
    follows: tuple[tuple[str, str], ...] = ()
    hints: tuple[tuple[str, str], ...] = ()
    gaps: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()


def draft_table(
    columns: Columns, options: ReadOptions, *, drop: Sequence[str] = (), kinds: Mapping[str, str] | None = None
) -> Drafted:
    """A domain drafted from the columns of a table, everything but names and kinds left open.

    `drop` are columns to ignore; `kinds` gives the kinds of columns (of `KINDS`) that the curator knows better.
    """
    stated = _stated_kinds(columns, drop, kinds or {})
    seen = {name: _Column(name, options) for name in columns.names}
    for chunk in columns.chunks:
        for name, column in seen.items():
            column.update(flat_column(chunk.table, name), chunk.place)
    for column in seen.values():
        column.settle()
    fields: list[Field | Unread] = []
    left_out, confirm = [], []
    for name, column in seen.items():
        if name == options.person:
            kind, reason = "identifier", "the column of persons: never read into records, samples carry fresh ones"
        elif name in stated:
            kind, reason = stated[name], "as you said" if name in drop else f"{stated[name]}, as you said"
        else:
            kind, reason = column.kind()
        fields.append(column.field(kind))
        if kind in ("identifier", "ignored"):
            left_out.append((name, reason))
        else:
            confirm.append(f"{name}: {reason}")
    schema = () if columns.schema is None else columns.schema.names
    left_out += [(name, _NESTED) for name in schema if name not in columns.names]
    if not confirm:
        raise UsageError(
            f"{columns.file}: no column is left to model ({left_out[0][0]!r}: {left_out[0][1]}); say what a column is"
            " with --kind COLUMN=KIND."
        )
    names = [field.name for field in fields if not isinstance(field, (Identifier, Ignored))]
    texts = sorted({text for name in names for text in seen[name].gaps})
    # A text that is a value in another column is not stated: it would be missing there, too.
    clear = tuple(text for text in texts if not _columns_with(text, names, seen)[1])
    domain = Domain(tuple(fields), missing_texts=clear)  # type: ignore[arg-type]
    orders, follows = _date_orders(domain, seen)
    whole = [field.name for field in domain.fields if isinstance(field, Numeric) and field.integer]
    shared = survey_codes({name: seen[name].numbers for name in whole if seen[name].is_number})
    hints = (
        (name, column.hint(shared.get(name, ())))
        for name, column in seen.items()
        if name not in (*stated, options.person)
    )
    return Drafted(
        domain,
        tuple(left_out),
        tuple(confirm),
        orders,
        follows,
        hints=tuple((name, hint) for name, hint in hints if hint is not None),
        gaps=tuple((text, *_columns_with(text, names, seen)) for text in texts),
    )


def _columns_with(
    text: str, names: Sequence[str], seen: Mapping[str, "_Column"]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns in which a spelling of a missing value is a gap, and those in which it is a value."""
    gaps = tuple(name for name in names if text in seen[name].gaps)
    return gaps, tuple(name for name in names if text in seen[name].values)


def _stated_kinds(columns: Columns, drop: Sequence[str], kinds: Mapping[str, str]) -> dict[str, str]:
    """The kinds that the curator states, checked; columns to drop are ignored ones."""
    for name in (*drop, *kinds):
        if name not in columns.names:
            raise UsageError(
                f"{columns.file}: there is no column {name!r}{near(name, columns.names)}; the columns are"
                f" {columns.listed()}."
            )
    stated = {
        name: "number" if kind == "numeric" else kind for name, kind in kinds.items()
    }  # the domain file's word
    for name, kind in stated.items():
        if kind not in KINDS:
            raise UsageError(
                f"a column is one of {', '.join(KINDS)}; got {kind!r} for {name!r}{near(kind, KINDS)}."
            )
    return stated | dict.fromkeys(drop, "ignored")


def _date_orders(
    domain: Domain, seen: Mapping[str, "_Column"]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """`orders` and `follows` of the draft."""
    dated = [one.name for one in domain.fields if isinstance(one, (Date, DateTime)) and seen[one.name].one_pattern]
    dates = {name: seen[name].dates for name in dated}
    pairs = ordered_dates(dates)
    follows: dict[str, str] = {}
    for first, last in pairs:
        is_free = first not in follows and last not in follows and last not in follows.values()
        if is_free and follows_soon(dates[first], dates[last]):
            follows[last] = first
    rules = (_rule(first, last, domain) for first, last in pairs)
    return tuple(rule for rule in rules if rule is not None), tuple(follows.items())


def _rule(first: str, last: str, domain: Domain) -> str | None:
    """The rule `first <= last` as a domain file states it; None if it cannot state it with these names."""
    rule = " <= ".join(name if name.isidentifier() else f'"{name}"' for name in (first, last))
    try:
        return rule if len(parse_constraint(rule, domain.fields).fields) == 2 else None
    except UsageError:
        return None


class _Column:
    """What is known of one column of a table, updated chunk by chunk."""

    def __init__(self, name: str, options: ReadOptions) -> None:
        self.name, self._missing_texts, self._style = name, ("", *options.missing), options.number_style
        self.rows = self.missing = self.decimals = self.padded = 0
        self.is_number = True
        self._unsupported = ""  # why the column cannot be modelled
        self.is_list = self.is_boolean = self.is_fraction = False  # by the type of the column
        self.values: set[str] = set()
        self._spellings: Counter[str] = Counter()  # usual ones of a missing value, and their rows: gaps, or values
        self.gaps: frozenset[str] = frozenset()  # those of them that are gaps
        self._sample: set[str] = set()  # of the values, chosen by hash, to estimate how many there are
        self.temporal: str | None = None
        self.patterns: list[str | None] = [*ISO_PATTERNS, None, *DATE_PATTERNS]  # in which all values can be read
        self.one_pattern = True  # the dates of all rows were read in the same pattern
        self._patterns_used: set[str | None] = set()
        self._numbers: list[NDArray[np.float64]] = []  # without missing ones
        self._dates: list[NDArray[np.float64]] = []  # seconds per row, NaN if missing or not a date

    def update(self, column: Any, place: Any) -> None:
        self.rows += len(column)
        kinds = pa.types
        self.is_list = self.is_list or is_list(column.type)
        self.is_boolean = self.is_boolean or kinds.is_boolean(column.type)
        self.is_fraction = self.is_fraction or kinds.is_floating(column.type) or kinds.is_decimal(column.type)
        if kinds.is_date(column.type) or kinds.is_timestamp(column.type):
            self.temporal = "date" if kinds.is_date(column.type) else "datetime"
            self.missing += column.null_count
        elif kinds.is_duration(column.type) or kinds.is_time(column.type):
            self._unsupported = "a duration or time of day; write it as numbers of seconds or minutes to include it"
        elif not is_list(column.type):
            try:
                self._update_texts(as_texts(column, place))
                if self.is_number:
                    self._update_numbers(column, place)
            except InputError:
                self._unsupported = _NESTED if kinds.is_nested(column.type) else "its type cannot be modelled"
        self._dates.append(self._dates_in(column, place))

    def _update_texts(self, texts: Any) -> None:
        texts = pc.utf8_trim_whitespace(texts.cast(pa.string()))
        tokens = pa.array(self._missing_texts, type=pa.string())
        present = texts.filter(pc.invert(pc.or_(texts.is_null(), pc.is_in(texts, value_set=tokens))))
        self.missing += len(texts) - len(present)
        spelt = missing_spellings(present)
        for one in present.filter(spelt).value_counts().to_pylist():
            self._spellings[one["values"]] += one["counts"]
        present = present.filter(pc.invert(spelt))
        if not len(present):
            return
        found = present.unique().to_pylist()
        self._sample.update(value for value in found if crc32(value.encode()) % _SAMPLED == 0)
        if len(self.values) <= _MOST_VALUES:
            self.values.update(found)
        if self.patterns:
            self.patterns = fitting_patterns(present, self.patterns)
        if self.is_number:
            self.padded += pc.sum(pc.match_substring_regex(present, "^0[0-9]+$")).as_py()
            present = self._plain_numbers(present)
            places = pc.utf8_length(pc.replace_substring_regex(present, r"^[^.]*\.?", ""))
            exponents = bool(pc.any(pc.match_substring_regex(present, "[eE]")).as_py())
            self.decimals = max(self.decimals, MOST_PLACES + 1 if exponents else pc.max(places).as_py())

    def _update_numbers(self, column: Any, place: Any) -> None:
        try:
            numbers, missing = floats(self._plain_numbers(column), place, (*self._missing_texts, *self._spellings))
        except InputError:
            self.is_number = False
            return
        self._numbers.append(numbers[~missing])

    def _plain_numbers(self, texts: Any) -> Any:
        """Texts with numbers rewritten without the thousands separators and other marks that the options state."""
        if self._style.is_plain or not pa.types.is_string(texts.type):
            return texts
        try:
            missing = (*self._missing_texts, *self._spellings)
            return plain_texts(texts, self._style, missing, lambda row: "")
        except InputError:
            self.is_number = False
            return texts

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        return np.concatenate([np.empty(0), *self._numbers])

    @cached_property
    def dates(self) -> NDArray[np.float64]:
        return np.concatenate([np.empty(0), *self._dates])

    @cached_property
    def is_whole(self) -> bool:
        return self.is_number and np.array_equal(self.numbers, np.floor(self.numbers))

    @property
    def written_as_whole(self) -> bool:
        return self.is_whole and self.decimals < _MONEY_DECIMALS

    @cached_property
    def unit(self) -> Unit:
        """The coarsest unit of which all times are multiples."""
        present = self.dates[~np.isnan(self.dates)]
        units: tuple[Unit, ...] = ("day", "hour", "minute")
        return next((unit for unit in units if not (present % SECONDS[unit]).any()), "second")

    @property
    def is_code(self) -> bool:
        """Whether values are codes such as 01067: whole numbers of equal length, or many of them with leading zeros."""
        many = self.padded >= PADDED_SHARE * (self.rows - self.missing)
        return self.is_whole and self.padded > 0 and (many or len(set(map(len, self.values))) == 1)

    @property
    def _distinct(self) -> int:
        """The number of distinct values; an estimate if not all are stored."""
        return len(self.values) if len(self.values) <= _MOST_VALUES else _SAMPLED * len(self._sample)

    @property
    def _repeats(self) -> bool:
        """Whether there are many values of which most occur several times, like persons in a list of visits."""
        several = _FEW_DISTINCT * self.rows < self._distinct < _NEARLY_UNIQUE * (self.rows - self.missing)
        return several and self.rows >= _MIN_ROWS

    def settle(self) -> None:
        """Once all rows were seen: decide which spellings of a missing value are gaps here, and which are values."""
        is_truth = any({value.lower() for value in self.values} <= words for words in _BOOLEANS)
        is_read = bool(self.values) and (self.is_number or bool(self.patterns) or is_truth)
        all_gaps = is_read or written_like_numbers(self.values)
        self.gaps = frozenset(self._spellings if all_gaps else never_values(self._spellings))
        self.missing += sum(self._spellings[text] for text in self.gaps)
        values = set(self._spellings) - self.gaps
        if values:
            self.values |= values
            self._sample |= values
            self.is_number, self.patterns = False, []

    def hint(self, shared_codes: Sequence[float] = ()) -> str | None:
        """Options that may read the column better; `shared_codes` are usual codes that most columns hold."""
        if self.is_number and not self.is_code:
            hint = code_hint(self.numbers, shared_codes)
            if hint is None and self.is_whole and names_persons(self.name) and self._repeats:
                return (
                    f"if it identifies persons with several rows each, say --person '{self.name}' {_PERSON_OPTIONS}"
                )
            return hint
        if self.is_list or self.temporal is not None:
            return None
        if self.patterns and self.values:
            return date_hint(self.values)
        if self._text_hint is None and self._repeats:
            return (
                f"{self._distinct:,} different values in {self.rows:,} rows: if they are persons with several rows"
                f" each, say --person '{self.name}' {_PERSON_OPTIONS}; else most of them are too rare to be published"
            )
        return self._text_hint

    @cached_property
    def _text_hint(self) -> str | None:
        """A hint for texts that are read neither as numbers nor as dates, but may be meant so."""
        return number_hint(self.values, self._style.signs) or text_hint(self.name, self.values)

    def _dates_in(self, column: Any, place: Any) -> NDArray[np.float64]:
        """The dates of a chunk in seconds, NaN if missing or not a date."""
        no_dates = np.full(len(column), np.nan)
        if self.temporal is None and (not self.patterns or not self.values or self.is_boolean):
            return no_dates
        pattern = self._pattern
        self._patterns_used.add(pattern)
        self.one_pattern = self.one_pattern and len(self._patterns_used) == 1
        try:
            seconds, missing = seconds_of(column, place, (*self._missing_texts, *self._spellings), pattern)
        except InputError:
            self.one_pattern = False
            return no_dates
        return np.where(missing, np.nan, seconds)

    def kind(self) -> tuple[str, str]:
        """The kind of the column, one of `KINDS`, and the reason for the curator."""
        filled = self.rows - self.missing
        if self._unsupported:
            return "ignored", self._unsupported
        if self.is_list:
            return "items", "lists of items, found privately"
        if self.is_boolean:
            return "boolean", "true or false"
        if self.temporal is not None:
            days = self.unit == "day" and filled > 0  # a date at midnight is a date
            kind = "date" if days else self.temporal
            return kind, self._dates_reason(kind)
        if is_identifier(self.name) and not self.is_fraction:  # as `domain_of_schema` judges
            reason = (
                f"an identifier, as its name says, so samples carry fresh ones (to model it: --kind '{self.name}="
            )
            return "identifier", f"{reason}{'integer' if self.is_whole else 'categorical'}')"
        if not self.values:
            return "ignored", "no row has a value in it"
        nearly_unique = self._distinct >= _NEARLY_UNIQUE * filled and filled >= _MIN_ROWS
        constant = ", always the same" if len(self.values) == 1 else ""
        if any({value.lower() for value in self.values} <= words for words in _BOOLEANS):
            return "boolean", "true or false"
        if is_index(self.name) and self._distinct >= _NEARLY_UNIQUE * filled:
            return "identifier", "numbers or names of the rows, which no header names: an identifier"
        if self.is_code and nearly_unique:
            return "identifier", "numbers with leading zeros that differ in nearly every row: an identifier"
        if self.is_code:
            codes = "codes with leading zeros; those that many people have are found privately (a number: --kind"
            return "categorical", f"{codes} '{self.name}=integer')"
        if self.is_number and not (self.patterns == ["%Y%m%d"] and self.is_whole):
            all_differ = filled >= _MIN_ROWS and len(np.unique(self.numbers)) == filled
            numbered = np.ptp(self.numbers) < _MAX_NUMBERING * filled  # with few gaps
            rising = (np.diff(self.numbers) > 0).all()
            if self.is_whole and all_differ and (rising or called_id(self.name) or numbered):
                return "identifier", "whole numbers that differ in every row: an identifier"
            if self.written_as_whole:
                return "integer", f"whole numbers{constant}; their range is found privately"
            places = f" with {self.decimals} place{'s' if self.decimals != 1 else ''}"
            places = places if self._has_step else ""
            return "number", f"numbers{places}{constant}; their range is found privately"
        if self.patterns:
            # Days are dates even if written with a time: spreadsheets write 00:00 after a date.
            kind = "date" if self.unit == "day" else "datetime"
            return kind, self._dates_reason(kind)
        if nearly_unique and self._text_hint is not None:
            return "ignored", "texts that differ in nearly every row, and seem to be no identifiers (see below)"
        if nearly_unique and not any(" " in value or len(value) > _MAX_IDENTIFIER for value in self.values):
            return "identifier", "texts that differ in nearly every row: an identifier"
        if nearly_unique:
            return "ignored", "free text: nearly every row has another"
        return "categorical", f"categories{constant}; values that many people have are found privately"

    @property
    def _has_step(self) -> bool:
        """Whether the numbers have so few decimal places, by the rule of discovery, and digits that steps are exact."""
        return (
            self.decimals <= MOST_PLACES
            and np.abs(self.numbers).max(initial=0) * 10.0**self.decimals <= LARGEST_TICK
        )

    @property
    def _pattern(self) -> str | None:
        """The pattern in which texts are dates; None for ISO, and for columns whose type is a date."""
        return self.patterns[0] if self.patterns and self.temporal is None else None

    def _dates_reason(self, kind: str) -> str:
        written = "" if self._pattern is None else f" written {self._pattern}"
        what = "dates" if kind == "date" else "dates with a time of day"
        return f"{what}{written}; their range is found privately"

    @property
    def _truth_words(self) -> str | None:
        """How the column writes true and false, for the curator to confirm; None for true and false themselves."""
        styles = (str.lower, str.upper, str.capitalize)
        spellings = (tuple(map(style, words)) for words in _TRUTH_WORDS for style in styles)
        found = next((words for words in spellings if self.values and self.values <= set(words)), None)
        return None if found in (None, ("true", "false")) or self.is_boolean else "/".join(found or ())

    def field(self, kind: str) -> Field | Unread:
        """A field of this kind for the column, everything else left open."""
        if kind in ("number", "integer"):
            has_decimals = self._has_step and self.decimals > 0 and (kind == "number" or not self.written_as_whole)
            decimals = self.decimals if has_decimals else None
            return Numeric(self.name, DISCOVER, DISCOVER, integer=kind == "integer", decimals=decimals)
        if kind == "date":
            return Date(self.name, DISCOVER, DISCOVER, pattern=self._pattern)
        if kind == "datetime":
            unit: Unit = "minute" if self.unit == "day" else self.unit
            return DateTime(self.name, DISCOVER, DISCOVER, unit=unit, pattern=self._pattern)
        if kind == "boolean":
            return Boolean(self.name, missing=self.missing > 0, written=self._truth_words)
        if kind == "items":
            return ItemSet(self.name, discover=True)
        if kind == "identifier":
            return Identifier(self.name)
        return Ignored(self.name) if kind == "ignored" else Categorical(self.name, discover=True)
