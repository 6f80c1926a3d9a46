"""What the columns of a table seem to be, for its curator: a draft in which every value is left to be found.

The draft states names and kinds of columns, whole numbers or places after the point, and no value of any person:
bounds, bins and categories are found privately by the fit. Kinds are judged by the rows, so the curator confirms them.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.data.condition_text import parse_constraints
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
    CodeCounts,
    DateOrders,
    NumberMarks,
    absent_words,
    called_id,
    clock_or_brackets,
    code_hint,
    far_dates,
    joining_mark,
    names_persons,
    order_rule,
    ways_of_dates,
)
from dpgm.data.items import flat_column, is_list
from dpgm.data.number_fields import DISCOVER, MAX_DECIMALS, SECONDS, Unit
from dpgm.data.read.columns import Columns, listed_names
from dpgm.data.read.options import ReadOptions
from dpgm.data.values import (
    DATE_PATTERNS,
    as_texts,
    fitting_patterns,
    floats,
    plain_texts,
    seconds_of,
    without_signs,
)
from dpgm.errors import InputError, UsageError
from dpgm.validation import near

KINDS = ("number", "integer", "date", "datetime", "boolean", "categorical", "items", "identifier", "ignored")
_DISTINCT = 0.9  # share of different values from which texts are no categories
_FEW = 0.1  # share of different values up to which texts are plainly categories
_ENOUGH = 20  # rows from which that share says anything
_NUMBERED = 1.5  # numbers between the first and the last per row, up to which rows seem to be numbered
_LONG = 40  # characters of a text that nobody would call an identifier
_MOST_VALUES = 100_000  # different texts kept per column while looking
_PADDED = 0.05  # share of whole numbers with leading zeros from which they are codes
_MONEY = 2  # places after the point that whole numbers would not be written with (5.0 is one with a gap near it)
_TRUTH = ({"true", "false"}, {"t", "f"})


@dataclass(frozen=True)
class Drafted:
    """A draft, why columns were left out, and what the curator is asked to confirm."""

    domain: Domain
    left_out: tuple[tuple[str, str], ...]
    confirm: tuple[str, ...]
    orders: tuple[str, ...] = ()  # rules on dates that every row meets
    follows: tuple[tuple[str, str], ...] = ()  # dates that come soon after others, and those
    hints: tuple[tuple[str, str], ...] = ()  # columns that other options would read as numbers


def draft_table(
    columns: Columns, options: ReadOptions, *, drop: Sequence[str] = (), kinds: Mapping[str, str] | None = None
) -> Drafted:
    """A domain drafted from the columns of a table, everything but names and kinds left open.

    Args:
        columns: the columns.
        options: how the file is read.
        drop: columns to ignore.
        kinds: what a column is, by its name (one of `KINDS`), where the curator knows better.
    """
    stated = dict(kinds or {})
    for name in (*drop, *stated):
        if name not in columns.names:
            raise UsageError(
                f"{columns.file}: there is no column {name!r}{near(name, columns.names)}; the columns are"
                f" {listed_names(columns)}."
            )
    stated = {name: "number" if kind == "numeric" else kind for name, kind in stated.items()}  # as domain files say
    for name, kind in stated.items():
        if kind not in KINDS:
            raise UsageError(
                f"a column is one of {', '.join(KINDS)}; got {kind!r} for {name!r}{near(kind, KINDS)}."
            )
    stated |= dict.fromkeys(drop, "ignored")
    seen = {name: _Column(name, options) for name in columns.names}
    orders = DateOrders()
    for chunk in columns.chunks:
        dates = {}
        for name, column in seen.items():
            cells = flat_column(chunk.table, name)
            column.see(cells, chunk.place)
            if (seconds := column.seconds(cells, chunk.place)) is not None:
                dates[name] = seconds
        orders.see(dates)
    fields: list[Field | Unread] = []
    left_out, confirm = [], []
    for name, column in seen.items():
        if name == options.person:
            fields.append(Identifier(name))
            left_out.append((name, "the column of persons: never read into records, samples carry fresh ones"))
            continue
        field, why = column.field(stated.get(name))
        fields.append(field)
        if isinstance(field, (Identifier, Ignored)):
            left_out.append((name, "as you said" if name in drop else why))
        else:
            confirm.append(f"{name}: {why}")
    schema = () if columns.schema is None else columns.schema.names
    left_out += [(name, "it is nested; flatten it to have it") for name in schema if name not in columns.names]
    if all(isinstance(field, (Identifier, Ignored)) for field in fields):
        raise UsageError(
            f"{columns.file}: no column is left to model ({left_out[0][0]!r}: {left_out[0][1]}); say what a column is"
            " with --kind COLUMN=KIND."
        )
    domain = Domain(tuple(fields))  # type: ignore[arg-type]
    dated = tuple(one.name for one in domain.fields if isinstance(one, (Date, DateTime)) and seen[one.name].sure)
    pairs = orders.found(dated)
    rules = tuple(rule for pair in pairs if _is_rule(rule := order_rule(*pair), domain))
    follows: dict[str, str] = {}
    for first, last in pairs:
        if orders.is_close(first, last) and first not in follows and last not in (*follows, *follows.values()):
            follows[last] = first
    told = ((name, column.hint()) for name, column in seen.items() if name not in (*stated, options.person))
    hints = tuple((name, hint) for name, hint in told if hint is not None)
    return Drafted(domain, tuple(left_out), tuple(confirm), rules, tuple(follows.items()), hints)


def _is_rule(rule: str, domain: Domain) -> bool:
    """Whether a rule can be written so that it is read as one: names of columns may hold anything."""
    try:
        (made,) = parse_constraints((rule,), domain.fields, ())
        return len(made.fields) == 2
    except UsageError:
        return False


class _Column:
    """What one column of a table looks like so far."""

    def __init__(self, name: str, options: ReadOptions) -> None:
        self.name, self._tokens = name, ("", *options.missing)
        self._style = options.number_style
        self.marks, self.codes = NumberMarks(), CodeCounts()
        self.sure = True  # dates of all rows were read in one pattern
        self._read_as: list[str | None] = []
        self.units: set[Unit] = {"day", "hour", "minute"}
        self.rows = self.gone = self.decimals = self.longest = self.padded = 0
        self.widths: set[int] = set()
        self.number = self.whole = self.rising = self.plain = True
        self.lists = self.truth = self.blanks = False
        self.temporal: str | None = None
        self.last = self.largest = -np.inf
        self.least = np.inf
        self.patterns: list[str | None] = [None, *DATE_PATTERNS]
        self.clock = False
        self.values: set[str] = set()

    def see(self, column: Any, place: Any) -> None:
        import pyarrow as pa

        self.rows += len(column)
        kinds = pa.types
        if is_list(column.type):
            self.lists = True
            return
        if kinds.is_boolean(column.type):
            self.truth = True
        if kinds.is_duration(column.type) or kinds.is_time(column.type):
            self.plain = False
            return
        if kinds.is_date(column.type) or kinds.is_timestamp(column.type):
            self.temporal = "date" if kinds.is_date(column.type) else "datetime"
            self.gone += column.null_count
            return
        try:
            texts = as_texts(column, place)
        except InputError:
            self.plain = False
            return
        self._see_texts(texts)
        if self.number:
            self._see_numbers(column, place)

    def _see_texts(self, texts: Any) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = pc.utf8_trim_whitespace(texts.cast(pa.string()))
        absent = pc.or_kleene(texts.is_null(), pc.is_in(texts, value_set=pa.array(self._tokens, type=pa.string())))
        present = texts.filter(pc.invert(absent))
        self.gone += len(texts) - len(present)
        if not len(present):
            return
        if len(self.values) <= _MOST_VALUES:
            self.values.update(present.unique().to_pylist())
        lengths = pc.utf8_length(present)
        self.longest = max(self.longest, pc.max(lengths).as_py())
        if self.number:
            self.widths.update(pc.min_max(lengths).as_py().values())
            self.padded += pc.sum(pc.match_substring_regex(present, "^0[0-9]+$")).as_py()
        self.blanks = self.blanks or bool(pc.any(pc.match_substring(present, " ")).as_py())
        if self.patterns:
            self.patterns = fitting_patterns(present, self.patterns)
            self.clock = self.clock or bool(pc.any(pc.match_substring(present, ":")).as_py())
        self.marks.see(without_signs(present, self._style.signs))
        if self.number:
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
        present = numbers[~gone]
        if len(present):
            self.whole = self.whole and bool(np.array_equal(present, np.floor(present)))
            inside = np.concatenate([[self.last], present])
            self.rising = self.rising and bool((inside[1:] > inside[:-1]).all())
            self.last = float(present[-1])
            self.least, self.largest = min(self.least, present.min()), max(self.largest, present.max())
            self.codes.see(present)

    def _plain(self, texts: Any) -> Any:
        """Texts with the marks that the options state made plain, where they are numbers."""
        import pyarrow as pa

        if self._style.is_plain or not pa.types.is_string(texts.type):
            return texts
        try:
            return plain_texts(texts, self._style, self._tokens, lambda row: "")
        except InputError:
            self.number = False
            return texts

    @property
    def _numbered(self) -> bool:
        """Whether whole numbers that all differ leave out hardly any between the least and the largest."""
        return self.largest - self.least < _NUMBERED * (self.rows - self.gone)

    @property
    def is_code(self) -> bool:
        """Whether whole numbers are codes such as 01067: with leading zeros, all of one width or many of them."""
        many = self.padded >= _PADDED * (self.rows - self.gone)
        return self.number and self.whole and self.padded > 0 and (many or len(self.widths) == 1)

    def hint(self) -> str | None:
        """Which options may read the column as what it is meant to be."""
        number = self.number and not self.is_code
        if number and (codes := self.codes.found()):
            return code_hint(codes)
        if number and self.whole and names_persons(self.name) and self._repeats:
            return f"if it tells persons with several rows each, say --person '{self.name}'"
        if number or self.lists or self.temporal is not None:
            return None
        if self.patterns and self.values:
            return far_dates(self.values)
        if (told := self.marks.hint()) is not None:
            return told
        told = absent_words(self.values) or ways_of_dates(self.values) or clock_or_brackets(self.values)
        if told is not None:
            return told
        separator = joining_mark(self.values)
        if separator is not None:
            said = f"--kind {shlex.quote(f'{self.name}=items')} --item-separator '{separator}'"
            return f"cells that hold several items each: read them as lists with {said}"
        if self._repeats:
            return (
                f"{len(self.values):,} different values in {self.rows:,} rows: if they are persons with several rows"
                f" each, say --person '{self.name}'; else most of them are too rare to be published"
            )
        return None

    @property
    def _repeats(self) -> bool:
        """Whether there are many values, and most of them occur several times, as persons in a list of visits do."""
        some = _FEW * self.rows < len(self.values) < _DISTINCT * (self.rows - self.gone)
        return some and self.rows >= _ENOUGH

    def seconds(self, column: Any, place: Any) -> "NDArray[np.float64] | None":
        """Dates of some rows as seconds, NaN where missing; None if they are none."""
        if self.temporal is None and (not self.patterns or not self.values or self.truth):
            return None
        pattern = None if self.temporal is not None else self.patterns[0]
        self._read_as.append(pattern)
        self.sure = self.sure and self._read_as[0] == pattern
        try:
            moments, gone = seconds_of(column, place, self._tokens, pattern)
        except InputError:
            self.sure = False
            return None
        for unit in ("day", "hour", "minute"):
            if ((moments % SECONDS[unit] != 0) & ~gone).any():
                self.units.discard(unit)
        return np.where(gone, np.nan, moments)

    @property
    def _unit(self) -> Unit:
        """The coarsest unit that all moments are whole ones of."""
        return next((unit for unit in ("day", "hour", "minute") if unit in self.units), "second")

    def field(self, stated: str | None) -> tuple[Field | Unread, str]:
        """The field, and why: for the curator to confirm, or to see what was left out."""
        if stated is not None:
            return self._stated(stated), f"{stated}, as you said"
        if not self.plain:
            return Ignored(self.name), "its type cannot be modelled"
        if self.lists:
            return self._stated("items"), "lists of items, found privately"
        if self.truth:
            return self._stated("boolean"), "true or false"
        if self.temporal is not None:
            days = self._unit == "day" and self.rows > self.gone  # a date at midnight is a date
            return self._stated("date" if days else self.temporal), self._about_dates()
        if not self.values:
            return Ignored(self.name), "no row has a value in it"
        filled = self.rows - self.gone
        telling = len(self.values) >= _DISTINCT * filled and filled >= _ENOUGH
        if any({value.lower() for value in self.values} <= truth for truth in _TRUTH):
            return self._stated("boolean"), "true or false"
        if self.is_code:
            if telling:
                return Identifier(
                    self.name
                ), "numbers with leading zeros that differ in nearly every row: an identifier"
            told = "codes with leading zeros; those that many people have are found privately (a number: --kind"
            return self._stated("categorical"), f"{told} '{self.name}=integer')"
        if self.number and not (self.patterns == ["%Y%m%d"] and self.whole):
            all_differ = len(self.values) == filled and filled >= _ENOUGH
            if self.whole and all_differ and (self.rising or called_id(self.name) or self._numbered):
                return Identifier(self.name), "whole numbers that differ in every row: an identifier"
            constant = ", always the same" if len(self.values) == 1 else ""
            if self.whole and self.decimals < _MONEY:
                return self._stated("integer"), f"whole numbers{constant}; their range is found privately"
            places = (
                f" with {self.decimals} {'place' if self.decimals == 1 else 'places'}"
                if self.decimals <= MAX_DECIMALS
                else ""
            )
            return self._stated("number"), f"numbers{places}{constant}; their range is found privately"
        if self.patterns:
            days = not self.clock or self._unit == "day"  # spreadsheets write midnight beside a day
            return self._stated("date" if days else "datetime"), self._about_dates()
        if telling and not self.blanks and self.longest <= _LONG:
            return Identifier(self.name), "texts that differ in nearly every row: an identifier"
        if telling:
            return Ignored(self.name), "free text: nearly every row has another"
        constant = ", always the same" if len(self.values) == 1 else ""
        return self._stated(
            "categorical"
        ), f"categories{constant}; values that many people have are found privately"

    def _about_dates(self) -> str:
        pattern = f" written {self.patterns[0]}" if self.patterns and self.patterns[0] is not None else ""
        return f"dates{pattern}; the years they lie in are found privately"

    def _stated(self, kind: str) -> Field | Unread:
        pattern = self.patterns[0] if self.patterns else None
        whole = self.number and self.whole and self.decimals < _MONEY and kind != "number"
        if kind in ("number", "integer"):
            places = self.decimals if 0 < self.decimals <= MAX_DECIMALS and not whole else None
            return Numeric(self.name, "discover", "discover", integer=kind == "integer" or whole, decimals=places)
        if kind == "date":
            return Date(self.name, DISCOVER, DISCOVER, pattern=pattern)
        if kind == "datetime":
            unit = "minute" if self._unit == "day" else self._unit
            return DateTime(self.name, DISCOVER, DISCOVER, unit=unit, pattern=pattern)
        if kind == "boolean":
            return Boolean(self.name, missing=self.gone > 0)
        if kind == "items":
            return ItemSet(self.name, discover=True)
        if kind == "identifier":
            return Identifier(self.name)
        return Ignored(self.name) if kind == "ignored" else Categorical(self.name, discover=True)
