"""What the columns of a table look like, judged by all their values: for drafts, which a curator confirms.

A fit judges nothing: what a row is read as must not depend on other rows.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, TypeAlias
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpgm.data.inspect.hints import (
    code_hint,
    date_hint,
    missing_spellings,
    never_values,
    number_hint,
    text_hint,
    written_like_numbers,
)
from dpgm.data.items import is_list
from dpgm.data.number_format import LARGEST_TICK, MOST_PLACES, SECONDS, Unit
from dpgm.data.person_columns import called_id, is_identifier, is_index, names_persons
from dpgm.data.values import (
    DATE_PATTERNS,
    ISO_PATTERNS,
    NumberStyle,
    as_texts,
    fitting_patterns,
    floats,
    plain_texts,
    seconds_of,
)
from dpgm.errors import InputError

Looks: TypeAlias = Literal[
    "unsupported", "list", "truth", "dates", "times", "named", "empty", "codes", "numbers", "texts"
]
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
NESTED = (
    "it is nested (objects, or lists among other values); flatten it to include it, for example with"
    " pandas.json_normalize"
)
_BOOLEANS = ({"true", "false"}, {"t", "f"})


class Seen:
    """What the values of one column of a table look like, updated chunk by chunk."""

    def __init__(self, name: str, missing: Sequence[str], style: NumberStyle) -> None:
        self.name, self._missing_texts, self._style = name, ("", *missing), style
        self.rows = self.missing = self.decimals = self.padded = 0
        self.is_number = True
        self.unsupported = ""  # why the column cannot be modelled
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
        """Look at one chunk more."""
        self.rows += len(column)
        kinds = pa.types
        self.is_list = self.is_list or is_list(column.type)
        self.is_boolean = self.is_boolean or kinds.is_boolean(column.type)
        self.is_fraction = self.is_fraction or kinds.is_floating(column.type) or kinds.is_decimal(column.type)
        if kinds.is_date(column.type) or kinds.is_timestamp(column.type):
            self.temporal = "date" if kinds.is_date(column.type) else "datetime"
            self.missing += column.null_count
        elif kinds.is_duration(column.type) or kinds.is_time(column.type):
            self.unsupported = "a duration or time of day; write it as numbers of seconds or minutes to include it"
        elif not is_list(column.type):
            try:
                self._update_texts(as_texts(column, place))
                if self.is_number:
                    self._update_numbers(column, place)
            except InputError:
                self.unsupported = NESTED if kinds.is_nested(column.type) else "its type cannot be modelled"
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
        """The numbers of all rows, without missing ones."""
        return np.concatenate([np.empty(0), *self._numbers])

    @cached_property
    def dates(self) -> NDArray[np.float64]:
        """The dates of all rows in seconds, NaN if missing or not a date."""
        return np.concatenate([np.empty(0), *self._dates])

    @cached_property
    def is_whole(self) -> bool:
        """Whether all values are whole numbers."""
        return self.is_number and np.array_equal(self.numbers, np.floor(self.numbers))

    @property
    def written_as_whole(self) -> bool:
        """Whether they are, and not amounts such as 5.00."""
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
        if self.text_hint is None and self._repeats:
            return (
                f"{self._distinct:,} different values in {self.rows:,} rows: if they are persons with several rows"
                f" each, say --person '{self.name}' {_PERSON_OPTIONS}; else most of them are too rare to be published"
            )
        return self.text_hint

    @cached_property
    def text_hint(self) -> str | None:
        """A hint for texts that are read neither as numbers nor as dates, but may be meant so."""
        return number_hint(self.values, self._style.signs) or text_hint(self.name, self.values)

    def _dates_in(self, column: Any, place: Any) -> NDArray[np.float64]:
        """The dates of a chunk in seconds, NaN if missing or not a date."""
        no_dates = np.full(len(column), np.nan)
        if self.temporal is None and (not self.patterns or not self.values or self.is_boolean):
            return no_dates
        pattern = self.pattern
        self._patterns_used.add(pattern)
        self.one_pattern = self.one_pattern and len(self._patterns_used) == 1
        try:
            seconds, missing = seconds_of(column, place, (*self._missing_texts, *self._spellings), pattern)
        except InputError:
            self.one_pattern = False
            return no_dates
        return np.where(missing, np.nan, seconds)

    # -- what the values look like, for the kinds ---------------------------------------------------------------------

    @cached_property
    def looks(self) -> Looks:
        """What the type and the values of the column say that it holds."""
        if self.unsupported:
            return "unsupported"
        if self.is_list:
            return "list"
        if self.is_boolean:
            return "truth"
        if self.temporal is not None:  # a date at midnight is a date
            return "dates" if self.temporal == "date" or (self.unit == "day" and self._filled > 0) else "times"
        if is_identifier(self.name) and not self.is_fraction:  # as `Identifier.of_type` judges
            return "named"
        if not self.values:
            return "empty"
        if any({value.lower() for value in self.values} <= words for words in _BOOLEANS):
            return "truth"
        if self.is_code:
            return "codes"
        if self.is_number and not (self.patterns == ["%Y%m%d"] and self.is_whole):
            return "numbers"
        if self.patterns:
            return "dates" if self.unit == "day" else "times"
        return "texts"

    @property
    def _filled(self) -> int:
        return self.rows - self.missing

    @property
    def constant(self) -> str:
        """What to say if all values are the same."""
        return ", always the same" if len(self.values) == 1 else ""

    @property
    def nearly_unique(self) -> bool:
        """Whether nearly every row has a value of its own."""
        return self._distinct >= _NEARLY_UNIQUE * self._filled and self._filled >= _MIN_ROWS

    @property
    def is_index(self) -> bool:
        """Whether the name is that of a first column without one, and nearly every row has a value of its own."""
        written = self.looks in ("codes", "numbers", "texts") or (self.temporal is None and bool(self.patterns))
        return written and is_index(self.name) and self._distinct >= _NEARLY_UNIQUE * self._filled

    @property
    def numbers_rows(self) -> bool:
        """Whether whole numbers differ in every row, as those that number rows do."""
        all_differ = self._filled >= _MIN_ROWS and len(np.unique(self.numbers)) == self._filled
        numbered = np.ptp(self.numbers) < _MAX_NUMBERING * self._filled  # with few gaps
        rising = bool((np.diff(self.numbers) > 0).all())
        return self.is_whole and all_differ and (rising or called_id(self.name) or bool(numbered))

    @property
    def are_short(self) -> bool:
        """Whether the values are short texts without spaces, as identifiers are."""
        return not any(" " in value or len(value) > _MAX_IDENTIFIER for value in self.values)

    @property
    def has_step(self) -> bool:
        """Whether the numbers have so few decimal places, by the rule of discovery, and digits that steps are exact."""
        return (
            self.decimals <= MOST_PLACES
            and np.abs(self.numbers).max(initial=0) * 10.0**self.decimals <= LARGEST_TICK
        )

    @property
    def pattern(self) -> str | None:
        """The pattern in which texts are dates; None for ISO, and for columns whose type is a date."""
        return self.patterns[0] if self.patterns and self.temporal is None else None

    def option_of(self, word: str) -> str:
        """The option of the command line that says the column is of this kind."""
        return f"--kind '{self.name}={word}'"

    def reason_for_dates(self, what: str) -> str:
        """Why the column is one of dates, for the curator."""
        written = "" if self.pattern is None else f" written {self.pattern}"
        return f"{what}{written}; their range is found privately"
