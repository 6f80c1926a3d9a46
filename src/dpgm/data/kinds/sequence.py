"""`ItemSequence`: items in order, with repeats and perhaps times: an item set, and its order in `Records.events`."""

import datetime
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Codes
from dpgm.data.arrow import Array, Table, pa, pc
from dpgm.data.event_times import Times, clock_times, running_times, times_beside
from dpgm.data.events import Events, in_order
from dpgm.data.items import (
    Items,
    KnownItems,
    cell_lists,
    flat_column,
    is_list,
    item_codes,
    list_lengths,
    place_of_item,
)
from dpgm.data.kinds.base import Cells, CellStyle, Field, FieldReader, Recoder, Rng, list_array, lists_of
from dpgm.data.kinds.items import NOMINAL_ITEMS, SetField, check_items, joined_cells
from dpgm.data.labels import Label, checked_labels
from dpgm.data.number_format import SECONDS, is_day, is_pattern, is_whole, iso_seconds
from dpgm.data.open_columns import EventColumn, OpenColumn
from dpgm.data.rows import index_dtype, row_pointers
from dpgm.data.values import Place, as_written, in_column
from dpgm.data.vocabulary import Vocabulary, name_ranks
from dpgm.errors import InputError
from dpgm.validation import counted

if TYPE_CHECKING:
    from dpgm.data.inspect.seen import Seen

# Most people of public click streams and transit cards have fewer events, and memory of a fit grows with them.
USUAL_MAX_LENGTH = 200
_LONGEST = 100_000  # events of a person
_MOST_DAYS = 20 * 366  # of a period: minutes fit 32 bits
_KEYS = {"start": "from", "end": "to"}  # attributes that a domain file calls otherwise


@dataclass(frozen=True)
class ItemSequence(SetField):
    """Items in order, the same one any number of times: stations, clicks, diagnoses, states of a process.

    Only the first `max_length` events of a person count. With `time` every event has a time, to the minute, within the
    public period from `start` to `end` (ISO texts or dates; an `end` without a time of day includes that day); events
    outside of it are dropped. Times with an offset are converted to the time zone `zone`, if one is stated, and others
    are taken as local times; `pattern` is how text files write them, in strptime notation (ISO by default).
    With `discover` the items are not listed: those that many people have are found privately.

    Events are sorted by time and, where times are equal, in the order in which items are listed (to be found: by name).
    An event that repeats person, item and time of another counts once, and one without a time does not count. Without
    times, lists are taken as they are.

    In a domain file, `start` and `end` are called `from` and `to`.
    """

    items: tuple[Label, ...] = ()
    discover: bool = False
    max_length: int = USUAL_MAX_LENGTH
    time: bool = False
    start: str | None = None
    end: str | None = None
    zone: str | None = None
    pattern: str | None = None
    separator: str | None = field(default=None, compare=False)

    kind: ClassVar[str] = "sequence"
    draft_kinds: ClassVar[tuple[str, ...]] = ("sequence",)
    lists_values: ClassVar[bool] = True
    list_key: ClassVar[str | None] = "items"
    may_identify: ClassVar[bool] = True
    _nominal_count: ClassVar[int] = NOMINAL_ITEMS

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("items", checked_labels(self.name, self.items, "items", self.discover))
        check_items(self.name, self.items, self.separator)
        if not is_whole(self.max_length, 1, _LONGEST):
            raise self._error(f"max_length must be a whole number from 1 to {_LONGEST:,}")
        if not isinstance(self.time, bool):
            raise self._error("time must be true or false")
        self._check_period()

    def _check_period(self) -> None:
        if not self.time and not self.start is self.end is self.zone is self.pattern is None:
            raise self._error(
                "'from', 'to', 'zone' and 'pattern' belong to `time: true`; add it, or leave them out"
            )
        if not self.time:
            return
        for key, called in _KEYS.items():
            bound = getattr(self, key)
            if isinstance(bound, datetime.date):  # YAML parses dates
                bound = bound.isoformat()
                self._set(key, bound)
            try:
                iso_seconds(bound)
            except (TypeError, ValueError):
                raise self._error(
                    f"`time: true` needs a public period: '{called}' must be a date such as 2024-03-01"
                ) from None
        if not 0 < self.minutes <= _MOST_DAYS * SECONDS["day"] // SECONDS["minute"]:
            raise self._error("'from' must be before 'to', by twenty years at most")
        if self.zone is not None and not _is_zone(self.zone):
            raise self._error("zone must be the name of a time zone such as Europe/Paris")
        if self.pattern is not None and not is_pattern(self.pattern):
            raise self._error("pattern must be written as for strptime, such as %d.%m.%Y %H:%M")

    @classmethod
    def to_find(cls, name: str, period: str | None = None) -> "ItemSequence":
        """A sequence of items to be found; with times if a period is stated, such as 2024-03-01..2024-03-31."""
        if period is None:
            return cls(name, discover=True)
        start, _, end = period.partition("..")
        return cls(name, discover=True, time=True, start=start.strip(), end=end.strip())

    # -- the period ------------------------------------------------------------------------------------------------

    @cached_property
    def begin(self) -> int:
        """The first minute of the period, in minutes since 1970 by the local clock."""
        return int(iso_seconds(str(self.start)) // SECONDS["minute"])

    @cached_property
    def minutes(self) -> int:
        """How many minutes the period has; 0 without times."""
        if not self.time:
            return 0
        text = str(self.end)
        last = iso_seconds(text) + (SECONDS["day"] if is_day(text) else SECONDS["minute"])
        return int(last // SECONDS["minute"]) - self.begin

    @property
    def minute_of_day(self) -> int:
        """The time of day at which the period begins, in minutes."""
        return self.begin % (SECONDS["day"] // SECONDS["minute"])

    @property
    def weekday(self) -> int:
        """The day of the week on which the period begins; Monday is 0."""
        return datetime.datetime.fromisoformat(str(self.start)).weekday()

    # -- as a field ------------------------------------------------------------------------------------------------

    @property
    def as_sequence(self) -> "ItemSequence":
        """The field itself."""
        return self

    @property
    def _value_count(self) -> int | None:
        return None if self.discover else len(self.items)

    @property
    def _value_names(self) -> list[str]:
        return self.labels

    @property
    def finds_labels(self) -> bool:
        """Whether the items are to be found."""
        return self.discover

    def with_labels(self, labels: tuple[Label, ...], *, other: bool) -> "ItemSequence":
        """The sequence of the items that were found; events of others are dropped."""
        return replace(self, items=labels, discover=False)

    def with_separator(self, separator: str) -> "ItemSequence":
        """The sequence with this text between items."""
        return replace(self, separator=separator)

    # -- reading ---------------------------------------------------------------------------------------------------

    def reader(self, style: CellStyle, others: Mapping[str, Field]) -> FieldReader:
        """Reads lists of items, or texts with items, and those of their times; unlisted items are dropped silently."""
        items = self.item_codes()
        separator = self.separator if style.item_separator is None else style.item_separator

        def read(table: Table, place: Place) -> EventColumn:
            columns = (
                [(self.name, separator)]
                if style.time is None
                else [(self.name, separator), (style.time, separator)]
            )
            lists = [_lists(table, name, mark, place) for name, mark in columns]
            lengths = list_lengths(lists[0])
            at = place_of_item(lengths, place)
            codes = item_codes(pc.list_flatten(lists[0]), items, in_column(at, self.name))
            times = None
            if style.time is not None:
                column = times_beside(lists[1], lengths, in_column(place, style.time))
                column = column.filter(pa.array(np.repeat(lengths, np.maximum(lengths, 1)) > 0))
                times = self.times_of(column, in_column(at, style.time), style)
            people = np.repeat(np.arange(len(lengths)), lengths)
            return self.column(people, len(lengths), codes, times, items)

        return read

    def item_codes(self) -> Items:
        """What numbers the items of one file after the other: the public list, or a vocabulary if there is none."""
        return Vocabulary() if self.is_open else KnownItems(self.items)

    def times_of(self, column: Array, where: Place, style: CellStyle) -> Times:
        """The times of events, as clocks show them; without times in the domain, any numbers that rise with time."""
        if not self.time:
            return running_times(column, where, style.missing)
        return clock_times(column, where, style.missing, self.pattern, self.zone)

    def column(
        self, people: NDArray[Any], count: int, codes: Codes, times: Times | None, items: Items
    ) -> EventColumn:
        """The events that count of `count` people, in order.

        Args:
            people: the person of every event, from 0 on; in ascending order if there are no times.
            count: how many people there are.
            codes: the number of each event's item by `items`; -1 for those to be dropped.
            times: by `times_of`; None if events are in order as they are.
            items: by `item_codes`.
        """
        known = codes >= 0 if times is None else (codes >= 0) & ~np.isnan(times)
        if self.time and times is not None:
            minutes = np.floor(times / SECONDS["minute"]) - self.begin
            known &= (minutes >= 0) & (minutes < self.minutes)  # False where missing
        chosen = np.flatnonzero(known)
        if times is not None:
            ranks = self.ranks(codes[chosen], items)
            chosen = chosen[in_order(people[chosen], times[chosen], ranks)]
        indptr = row_pointers(np.bincount(people[chosen], minlength=count))
        vocabulary = items if isinstance(items, Vocabulary) else None
        kind = np.int32 if vocabulary is not None else index_dtype(self.width)
        within = minutes[chosen].astype(np.int32) if self.time and times is not None else None
        events = Events(indptr, codes[chosen].astype(kind), within)
        return EventColumn(events if self.is_open else events.first(self.max_length), vocabulary)

    @staticmethod
    def ranks(codes: NDArray[Any], items: Items) -> NDArray[Any]:
        """By what events at the same time are sorted: the public list, or the names of items, whoever has them."""
        return name_ranks(codes, items)[0] if isinstance(items, Vocabulary) else codes

    def recoder(self, column: OpenColumn, fallback: int | None) -> Recoder:
        """Events of items that are not published are dropped, and then those beyond the greatest length."""
        position_of = self.positions_in(column.vocabulary)

        def recode(part: EventColumn) -> EventColumn:
            codes = part.events.codes if position_of is None else position_of[part.events.codes]
            known = np.flatnonzero(codes >= 0)
            lengths = np.bincount(part.events.people()[known], minlength=len(part))
            times = None if part.events.times is None else part.events.times[known]
            events = Events(row_pointers(lengths), codes[known].astype(index_dtype(self.width)), times)
            return EventColumn(events.first(self.max_length))

        return recode

    # -- writing ---------------------------------------------------------------------------------------------------

    def drawn(self, cells: Cells, rng: Rng) -> Array:
        """Lists of items, in order."""
        if cells.events is None:
            return super().drawn(cells, rng)
        return lists_of(cells.events.codes.astype(np.int64), cells.events.indptr, self.items)

    def times_drawn(self, events: Events) -> Array:
        """The times of events as they are written; without times in the domain, numbers from 1 on for each person."""
        if events.times is None:
            return pa.array(np.arange(1, len(events.codes) + 1) - np.repeat(events.indptr[:-1], events.lengths))
        seconds = (events.times.astype(np.int64) + self.begin) * SECONDS["minute"]
        return pa.array(seconds).cast(pa.timestamp("s"))

    def times_as_written(self, column: Any) -> Any:
        """A column of times, or of lists of them, as text files have it."""
        pattern = self.pattern or "%Y-%m-%d %H:%M:%S"
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if pa.types.is_nested(column.type):
            values = self.times_as_written(column.flatten())
            return list_array(column.offsets.to_numpy().astype(np.int64) - column.offsets[0].as_py(), values)
        return as_written(column, pattern) if self.time else column

    def as_cells(self, column: Array) -> Array | None:
        """Items joined by the separator, where one is stated and no item would be read as another."""
        return joined_cells(self, column)

    # -- in a domain file ------------------------------------------------------------------------------------------

    @classmethod
    def keys(cls) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Required and optional keys."""
        required, optional = super().keys()
        return required, tuple(_KEYS.get(key, key) for key in optional)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """From the keys of a domain file."""
        attribute = {key: name for name, key in _KEYS.items()}
        return super().from_plain({attribute.get(key, key): value for key, value in plain.items()})

    def to_plain(self) -> dict[str, Any]:
        """With the keys of a domain file; the greatest length is always stated."""
        plain = super().to_plain() | {"max_length": self.max_length}
        return {_KEYS.get(key, key): value for key, value in plain.items()}

    @classmethod
    def drafted(cls, seen: "Seen", word: str) -> "ItemSequence":
        """With its items left open."""
        return cls(seen.name, discover=True)

    def described(self) -> str:
        """How many items there are, and the period."""
        period = f", from {self.start} to {self.end}" if self.time else ""
        return f"{counted(self.width, 'item')} in order, at most {counted(self.max_length, 'event')}{period}"


def _lists(table: Table, name: str, separator: str | None, place: Place) -> Array:
    """A column of lists, or of texts with items, as lists."""
    column, where = flat_column(table, name), in_column(place, name)
    if pa.types.is_string(column.type):
        return cell_lists(column, separator, where)
    if not is_list(column.type):
        raise InputError(f"{where(0)}: the column does not hold lists; choose another column or shape.")
    return column


def _is_zone(name: object) -> bool:
    try:
        zoneinfo.ZoneInfo(name)  # type: ignore[arg-type]
    except (zoneinfo.ZoneInfoNotFoundError, TypeError, ValueError, OSError):
        return False
    return True
