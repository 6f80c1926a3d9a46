"""Rows of events: whether a table may hold them, and a domain drafted from them, for the curator."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpgm.arrays import AnyArray, Floats
from dpgm.data.domain import Domain, ItemSequence, open_numbers
from dpgm.data.inspect.drafting import Drafted, draft_table, drafted_columns
from dpgm.data.inspect.seen import Seen
from dpgm.data.items import cell_lists, flat_column, is_list, list_lengths
from dpgm.data.layouts import Layout, Shape
from dpgm.data.number_format import SECONDS
from dpgm.data.person_columns import named_like_persons
from dpgm.data.stream import RowStream
from dpgm.data.values import NumberStyle, in_column
from dpgm.errors import InputError
from dpgm.validation import counted

_EPOCH = datetime.date(1970, 1, 1).toordinal()  # the day from which times are counted
_ROWS = 1_000_000  # by which columns are judged
_CONSTANT = 0.99  # of the persons with several rows, for a column to be an attribute
_SEVERAL_ROWS = 1.5  # per person, from which rows may be events
_VARIES = "differs between the rows of a person; an event has an item and a time only"


@dataclass(frozen=True)
class EventColumns:
    """The columns of persons, items and times, and the public period of the times, as the curator states them.

    Without a column of persons, or if items are lists, every row is a person; `separator` is between items in texts.
    """

    person: str | None
    item: str
    time: str | None = None
    period: str | None = None
    separator: str | None = None


def events_in(stream: RowStream, domain: Domain) -> EventColumns | None:
    """The columns of a table that may hold events: several rows per person, at different times."""
    people = named_like_persons(stream.names)
    times = [field.name for field in open_numbers(domain) if field.format.is_temporal]
    items = [field.name for field in domain.fields if field.is_category]
    if not (people and times and items):
        return None
    judged = _Rows(stream, people[0])
    varying = [name for name in (*times, *items) if not judged.is_constant(name)]
    times, items = ([name for name in names if name in varying] for names in (times, items))
    if judged.rows_per_person < _SEVERAL_ROWS or not times or not items:
        return None
    return EventColumns(people[0], max(items, key=judged.distinct), times[0])


def draft_events(
    open_stream: Callable[[], RowStream],
    events: EventColumns,
    missing: Sequence[str],
    numbers: NumberStyle,
    *,
    drop: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
) -> Drafted:
    """A domain drafted from rows of events: a sequence, and as attributes the columns that are constant per person.

    `open_stream` opens the rows, which are read twice.
    """
    stream, kinds = open_stream(), dict(kinds or {})
    named = {"person": events.person, "item": events.item, "time": events.time}
    own = [stream.required(name, option) for option, name in named.items() if name is not None]
    in_lists = events.person is None or events.item in stream.lists
    times = None if events.time is None else Seen(events.time, missing, numbers)
    varying = []
    if in_lists:
        longest = _longest_list(stream, events, times)
    else:
        judged = _Rows(stream, str(events.person), times)
        longest = judged.longest
        free = [name for name in stream.names if name not in (*own, *drop, *kinds)]
        varying = [name for name in free if not judged.is_constant(name)]
    left = [name for name in (*drop, *varying, events.time) if name is not None]
    kinds[events.item] = "sequence"
    drafted = draft_table(open_stream(), events.person, missing, numbers, drop=left, kinds=kinds)
    sequence, told = _sequence(events, times, longest)
    fields = [sequence if one.name == events.item else one for one in drafted.domain.columns]
    fields = [one for one in fields if one.name not in left and (in_lists or one.name != events.person)]
    shape: Shape = "wide" if sum(one.is_read for one in fields) > 1 else "basket"
    domain = Domain.of_columns(
        fields,
        missing_texts=drafted.domain.missing_texts,
        layout=Layout(shape, None, events.item, events.time) if in_lists else Layout("long", *named.values()),
        origin="drafted" if sequence.time and events.period is None else "judged",
    )
    others = [(name, why) for name, why in drafted.left_out if name not in (*own, *varying)]
    return replace(
        drafted,
        domain=domain,
        confirm=(*told, *(line for line in drafted.confirm if not line.startswith(f"{events.item}: "))),
        left_out=(*others, *((name, _VARIES) for name in varying)),
    )


def _longest_list(stream: RowStream, events: EventColumns, times: Seen | None) -> int:
    """The most items in a list; `times` sees all lists of times."""
    longest = 0
    for chunk in stream.read(drafted_columns(stream)):
        for name in (events.item, events.time):
            if name is None:
                continue
            column = flat_column(chunk.table, name)
            if pa.types.is_string(column.type):
                column = cell_lists(column, events.separator, in_column(chunk.place, name))
            if not is_list(column.type):
                raise InputError(
                    f"{stream.name}: the column {name!r} holds no lists; name `person` if rows are events."
                )
            longest = max(longest, int(list_lengths(column).max(initial=0)))
            if times is not None and name == times.name:
                times.update(pc.list_flatten(column), chunk.place)
    if times is not None:
        times.settle()
    return longest


def _sequence(events: EventColumns, times: Seen | None, longest: int) -> tuple[ItemSequence, tuple[str, ...]]:
    """The field of the items, and what the curator must confirm about it."""
    found = f"{events.item}: the items of a sequence; those that many people have are found privately"
    plain = ItemSequence.to_find(events.item)
    told = (
        f"of a person, the first {plain.max_length} events count (the longest here has {counted(longest, 'row')})"
    )
    if times is None or times.looks not in ("dates", "times"):
        by = "the rows of a person in the file" if times is None else f"the numbers {times.name}"
        return plain, (f"{found}, in order of {by}; {told}",)
    period = events.period or _days(times.dates)
    sequence = replace(ItemSequence.to_find(events.item, period), pattern=times.pattern)
    spanned = f"{times.name}: the times of events, from {sequence.start} to {sequence.end}"
    if events.period is None:
        spanned += ", taken from the rows: correct `from` and `to` to the public period of the data"
    return sequence, (f"{found}; {told}", spanned)


def _days(seconds: Floats) -> str:
    """The first and the last day, as a period."""
    known = seconds[~np.isnan(seconds)]
    if not len(known):
        raise InputError("no event has a time; name another column with `time`.")
    ends = (int(known.min() // SECONDS["day"]), int(known.max() // SECONDS["day"]))
    return "..".join(str(datetime.date.fromordinal(_EPOCH + day)) for day in ends)


class _Rows:
    """The first rows of a table of events by person; `times` sees its column in all rows."""

    def __init__(self, stream: RowStream, person: str, times: Seen | None = None) -> None:
        self._parts: list[pa.Table] = []
        rows = 0
        for chunk in stream.read(drafted_columns(stream)):
            if rows < _ROWS:
                self._parts.append(chunk.table)
            rows += chunk.table.num_rows
            if times is not None:
                times.update(flat_column(chunk.table, times.name), chunk.place)
            elif rows >= _ROWS:
                break
        if times is not None:
            times.settle()
        self._people = self._codes(person)
        self._lengths = np.bincount(self._people[self._people >= 0], minlength=1)

    def _codes(self, name: str) -> AnyArray:
        """A number for every different value of a column; -1 for a missing one."""
        parts = [flat_column(part, name) for part in self._parts]
        if pa.types.is_nested(parts[0].type):
            return np.arange(sum(map(len, parts)))
        encoded = pa.concat_arrays([part.cast(pa.string()) for part in parts]).dictionary_encode()
        codes: AnyArray = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        blank = pc.index(encoded.dictionary, "").as_py()
        return codes if blank < 0 else np.where(codes == blank, -1, codes)

    @property
    def longest(self) -> int:
        """The most rows of a person."""
        return int(self._lengths.max())

    @property
    def rows_per_person(self) -> float:
        """On average."""
        return float(self._lengths[self._lengths > 0].mean())

    def distinct(self, name: str) -> int:
        """How many values a column has."""
        return len(np.unique(self._codes(name)))

    def is_constant(self, name: str) -> bool:
        """Whether a column has one value for nearly every person with several rows, besides missing ones."""
        codes = self._codes(name)
        known, width = np.flatnonzero((codes >= 0) & (self._people >= 0)), int(codes.max(initial=0)) + 1
        pairs = np.unique(self._people[known].astype(np.int64) * width + codes[known])
        values = np.bincount(pairs // width, minlength=len(self._lengths))
        several = self._lengths > 1
        return not several.any() or float((values[several] <= 1).mean()) >= _CONSTANT
