"""Rows of events: whether a table may hold them, and a domain drafted from them, for the curator."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpgm.arrays import AnyArray, Floats
from dpgm.data.domain import Domain, ItemSequence, open_numbers
from dpgm.data.inspect.drafting import Drafted, draft_table
from dpgm.data.inspect.seen import Seen
from dpgm.data.items import flat_column
from dpgm.data.layouts import Layout
from dpgm.data.number_format import SECONDS
from dpgm.data.person_columns import named_like_persons
from dpgm.data.read.columns import Columns
from dpgm.data.read.options import ReadOptions
from dpgm.errors import InputError
from dpgm.validation import counted

_ROWS = 1_000_000  # by which columns are judged
_CONSTANT = 0.99  # of the persons with several rows, for a column to be an attribute
_FEW_ROWS = 1.5  # per person, from which rows may be events
_VARIES = "differs between the rows of a person; an event has an item and a time only"


def events_in(columns: Columns, domain: Domain) -> tuple[str, str, str] | None:
    """The columns of persons, items and times of a table that may hold events: several rows per person, at times."""
    people = named_like_persons(columns.names)
    times = [field.name for field in open_numbers(domain) if field.format.is_temporal]
    items = [field.name for field in domain.fields if field.is_category]
    if not (people and times and items):
        return None
    judged = _Rows(columns, people[0])
    varying = [name for name in (*times, *items) if not judged.is_constant(name)]
    times, items = ([name for name in names if name in varying] for names in (times, items))
    if judged.rows_per_person < _FEW_ROWS or not times or not items:
        return None
    return people[0], max(items, key=judged.distinct), times[0]


def draft_events(
    open_columns: Callable[[], Columns],
    options: ReadOptions,
    *,
    drop: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
) -> Drafted:
    """A domain drafted from rows of events: a sequence, and as attributes the columns that are constant per person.

    `open_columns` opens the file; it is read twice.
    """
    columns = open_columns()
    person, item = columns.required(options.person, "person"), columns.required(options.item, "item")
    time = None if options.time is None else columns.required(options.time, "time")
    judged = _Rows(columns, person, time, options)
    own = (person, item, time)
    varying = [
        one for one in columns.names if one not in (*own, *drop, *(kinds or {})) and not judged.is_constant(one)
    ]
    left = [name for name in (*drop, *varying, time) if name is not None]
    drafted = draft_table(open_columns(), options, drop=left, kinds={item: "sequence"} | dict(kinds or {}))
    sequence, told = judged.sequence(item, options)
    fields = [
        sequence if one.name == item else one for one in drafted.domain.columns if one.name not in (person, time)
    ]
    from_rows = sequence.time and options.period is None
    domain = Domain.of_columns(
        [one for one in fields if one.is_read or one.name not in left],
        missing_texts=drafted.domain.missing_texts,
        layout=Layout("long", person, item, time),
        origin="drafted" if from_rows else "judged",
    )
    hidden = {person, time, *varying}
    return replace(
        drafted,
        domain=domain,
        confirm=(*told, *(line for line in drafted.confirm if not line.startswith(f"{item}: "))),
        left_out=(
            *((name, why) for name, why in drafted.left_out if name not in hidden),
            *((name, _VARIES) for name in varying),
        ),
    )


class _Rows:
    """The first rows of a table of events by person; and of the column of times all rows."""

    def __init__(
        self, columns: Columns, person: str, time: str | None = None, options: ReadOptions | None = None
    ) -> None:
        self._parts: list[pa.Table] = []
        self._time = None if time is None or options is None else Seen(time, options)
        rows = 0
        for chunk in columns.chunks:
            if rows < _ROWS:
                self._parts.append(chunk.table)
            rows += chunk.table.num_rows
            if self._time is not None:
                self._time.update(flat_column(chunk.table, self._time.name), chunk.place)
            elif rows >= _ROWS:
                break
        if self._time is not None:
            self._time.settle()
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

    def sequence(self, item: str, options: ReadOptions) -> tuple[ItemSequence, tuple[str, ...]]:
        """The field of the items, and what the curator must confirm about it."""
        longest = int(self._lengths.max())
        found = f"{item}: the items of a sequence; those that many people have are found privately"
        most = ItemSequence(item, discover=True).max_length
        told = f"of a person, the first {most} events count (the longest here has {counted(longest, 'row')})"
        time = self._time
        if time is None or time.looks not in ("dates", "times"):
            by = "the rows of a person in the file" if time is None else f"the numbers {time.name}"
            return replace(options, period=None).sequence_of(item), (f"{found}, in order of {by}; {told}",)
        start, end = options.period_ends or _days(time.dates)
        sequence = replace(replace(options, period=f"{start}..{end}").sequence_of(item), pattern=time.pattern)
        period = f"{time.name}: the times of events, from {start} to {end}"
        if options.period is None:
            period += ", taken from the rows: correct `from` and `to` to the public period of the data"
        return sequence, (f"{found}; {told}", period)


def _days(seconds: Floats) -> tuple[str, str]:
    """The first and the last day."""
    known = seconds[~np.isnan(seconds)]
    if not len(known):
        raise InputError("no event has a time; name another column with `time`.")
    ends = (int(known.min() // SECONDS["day"]), int(known.max() // SECONDS["day"]))
    first, last = (str(datetime.date(1970, 1, 1) + datetime.timedelta(days=day)) for day in ends)
    return first, last
