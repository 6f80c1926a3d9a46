"""What the times of a person's events add: hours, elapsed times, active days and habits; maps from records to vectors.

A day is active if it has an event. Hours and days are those of the local clock of the sequence. A place's rank is the
order of its first appearance for this person: 0 for the first item, 1 for the next new one, and so on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpgm.arrays import Ints, Mask
from dpgm.data.events import Events
from dpgm.data.kinds import ItemSequence
from dpgm.data.number_format import SECONDS
from dpgm.data.records import Records
from dpgm.data.rows import row_pointers
from dpgm.mechanisms.query import Measures
from dpgm.statistics.clipped_vectors import Vectors
from dpgm.statistics.event_vectors import person_events
from dpgm.statistics.place_vectors import ranks_of
from dpgm.statistics.rules import TimeBins
from dpgm.statistics.statistic import STEPS, Descriptions

MINUTES = SECONDS["hour"] // SECONDS["minute"]  # of an hour
DAY = SECONDS["day"] // SECONDS["minute"]  # in minutes
DAY_HOURS = SECONDS["day"] // SECONDS["hour"]  # of a day
WEEK, WORKDAYS = 7, 5
HALVES = 2 * DAY_HOURS  # half hours of a day


@dataclass(frozen=True)
class Clock:
    """The public period of a sequence, and how its times are put into bins."""

    begins: int  # minute of the first day
    weekday: int  # of the first day
    minutes: int  # of the period
    bins: TimeBins

    @classmethod
    def of(cls, sequence: ItemSequence, bins: TimeBins) -> "Clock":
        """The clock of a sequence with times."""
        return cls(sequence.minute_of_day, sequence.weekday, sequence.minutes, bins)

    @cached_property
    def weekdays(self) -> Ints:
        """(days,): the weekday of every day of the period."""
        return (self.weekday + np.arange(-(-(self.begins + self.minutes) // DAY))) % WEEK

    @property
    def days(self) -> int:
        """The number of days."""
        return len(self.weekdays)

    @property
    def weekend(self) -> Mask:
        """(days,): whether a day is a Saturday or Sunday."""
        return self.weekdays >= WORKDAYS


@dataclass(frozen=True, eq=False)
class Timeline:
    """Events with their days, and the active days of people, in order."""

    events: Events
    clock: Clock

    @cached_property
    def people(self) -> Ints:
        """The person of every event."""
        return self.events.people()

    @cached_property
    def _since(self) -> Ints:
        assert self.events.times is not None
        return self.events.times.astype(np.int64) + self.clock.begins

    @property
    def days(self) -> Ints:
        """The day of every event."""
        return self._since // DAY

    @property
    def minutes(self) -> Ints:
        """The minute of the day of every event."""
        return self._since % DAY

    @cached_property
    def opens(self) -> Mask:
        """Whether an event is the first one of its day and person."""
        changes = np.ones(len(self.people), dtype=np.bool_)
        changes[1:] = (np.diff(self.people) != 0) | (np.diff(self.days) != 0)
        return changes

    @cached_property
    def weekend(self) -> Ints:
        """1 for events at weekends."""
        return self.clock.weekend[self.days].astype(np.int64)

    @cached_property
    def ranks(self) -> Ints:
        """The rank of the place of every event."""
        return ranks_of(self.events)

    @cached_property
    def pairs(self) -> Ints:
        """The numbers of the events that another one of the same person comes before."""
        return 1 + np.flatnonzero(np.diff(self.people) == 0)

    @cached_property
    def openings(self) -> Ints:
        """The numbers of the first events of active days."""
        return np.flatnonzero(self.opens)

    @cached_property
    def next_openings(self) -> tuple[Ints, Ints]:
        """The first events of active days that are not the first of a person, and those of the active days before."""
        owner = self.people[self.openings]
        again = np.flatnonzero(np.diff(owner) == 0)
        return self.openings[again + 1], self.openings[again]


Occurrences = tuple[Ints, Ints]  # persons, and cells


def _habits(line: Timeline) -> Occurrences:
    """The mean half hour of first events on weekdays x how far they deviate from it."""
    bins = line.clock.bins
    chosen = line.openings[line.weekend[line.openings] == 0]
    people, minutes = line.people[chosen], line.minutes[chosen].astype(np.float64)
    count = np.bincount(people, minlength=len(line.events))
    known = np.flatnonzero(count)
    mean = np.bincount(people, minutes, minlength=len(count))[known] / count[known]
    square = np.bincount(people, minutes**2, minlength=len(count))[known] / count[known]
    deviation = np.sqrt(np.maximum(square - mean**2, 0)) * np.sqrt(count[known] / np.maximum(count[known] - 1, 1))
    kind = np.where(count[known] > 1, 1 + np.searchsorted(bins.deviations, deviation, side="right"), 0)
    return known, (mean // (MINUTES // 2)).astype(np.int64) * habit_kinds(bins) + kind


def habit_kinds(bins: TimeBins) -> int:
    """How many classes of deviations there are; the first one is that of a single active weekday."""
    return len(bins.deviations) + 2


def _active_days(line: Timeline) -> Occurrences:
    """Active weekdays x active days of weekends; and active days x runs of active days without a gap."""
    count, people = len(line.events), line.people[line.openings]
    ends = np.bincount(people, line.weekend[line.openings], minlength=count).astype(np.int64)
    days = np.bincount(people, minlength=count)
    later, before = line.next_openings
    joined = np.bincount(line.people[later[line.days[later] - line.days[before] == 1]], minlength=count)
    edges, size = line.clock.bins.day_counts, day_count_bins(line.clock.bins)
    one, two = _binned(days - ends, edges), _binned(ends, edges)
    runs = size**2 + _binned(days, edges) * size + _binned(days - joined, edges)
    everyone = np.arange(count)
    return np.concatenate([everyone, everyone]), np.concatenate([one * size + two, runs])


def _binned(counts: Ints, edges: tuple[int, ...]) -> Ints:
    return np.searchsorted(edges, counts, side="right")


def day_count_bins(bins: TimeBins) -> int:
    """How many bins numbers of days have."""
    return len(bins.day_counts) + 1


def _classes(line: Timeline, most: int) -> Ints:
    return np.minimum(line.ranks, most - 1)


def _hours(line: Timeline) -> Occurrences:
    """First events of a day: weekend x half hour; others: class of rank x hour."""
    first = line.weekend * HALVES + line.minutes // (MINUTES // 2)
    later = 2 * HALVES + _classes(line, line.clock.bins.rank_classes) * DAY_HOURS + line.minutes // MINUTES
    return line.people, np.where(line.opens, first, later)


def _elapsed(line: Timeline) -> Occurrences:
    """Class of rank x hour of the event before x elapsed time, within a day."""
    bins, later = line.clock.bins, np.flatnonzero(~line.opens)
    waited = np.searchsorted(bins.elapsed, line.minutes[later] - line.minutes[later - 1], side="right") - 1
    cell = _classes(line, bins.rank_classes)[later] * DAY_HOURS + line.minutes[later - 1] // MINUTES
    return line.people[later], cell * len(bins.elapsed) + waited


def _hour_pairs(line: Timeline) -> Occurrences:
    """Same day or not x hour x hour of the next event."""
    later = line.pairs
    hours = line.minutes // MINUTES
    return line.people[later], (line.opens[later] * DAY_HOURS + hours[later - 1]) * DAY_HOURS + hours[later]


def _first_hours(line: Timeline) -> Occurrences:
    """Hour of the first event x hour of the first event of the next active day."""
    later, before = line.next_openings
    hours = line.minutes // MINUTES
    return line.people[later], hours[before] * DAY_HOURS + hours[later]


def _gaps(line: Timeline) -> Occurrences:
    """Weekday x days since the active day before x whether the first place is another than the person's first one."""
    later, before = line.next_openings
    edges = line.clock.bins.gaps
    gap = np.searchsorted(edges, line.days[later] - line.days[before], side="right")
    cell = line.clock.weekdays[line.days[later]] * (len(edges) + 1) + gap
    return line.people[later], cell * 2 + (line.ranks[later] > 0)


def _activity(line: Timeline) -> Vectors:
    """Whether the day before was active x weekday x whether the day is active, for all days of the period."""
    people, days = line.people[line.openings], line.days[line.openings]
    weekdays, count = line.clock.weekdays, len(line.events)
    follows = np.zeros(len(people), dtype=np.int64)
    follows[1:] = (np.diff(people) == 0) & (np.diff(days) == 1)
    on = (follows * WEEK + weekdays[days]) * 2 + 1
    # The day after an active one is quiet, unless the next active day is that day or the period ends.
    quiet = np.flatnonzero((np.append(follows[1:], 0) == 0) & (days + 1 < len(weekdays)))
    off = (WEEK + weekdays[(days + 1) % len(weekdays)][quiet]) * 2
    cells = np.concatenate([people, people[quiet]]) * 4 * WEEK + np.concatenate([on, off])
    dense = np.bincount(cells, minlength=count * 4 * WEEK).reshape(count, 2, WEEK, 2)
    # All other days are quiet, as the days before them.
    dense[:, 0, :, 0] = np.bincount(weekdays, minlength=WEEK) - dense.sum(axis=(1, 3))
    return Vectors(
        row_pointers(np.full(count, 4 * WEEK)), np.tile(np.arange(4 * WEEK), count), dense.ravel() * STEPS
    )


def _rank_hours(line: Timeline) -> Occurrences:
    """Rank of the place x hour."""
    return line.people, _classes(line, line.clock.bins.ranks) * DAY_HOURS + line.minutes // MINUTES


def _day_events(line: Timeline) -> Occurrences:
    """Weekend or not x number of events of an active day."""
    most = line.clock.bins.day_events
    sizes = np.diff(np.append(line.openings, len(line.people)))
    return line.people[line.openings], line.weekend[line.openings] * most + np.minimum(sizes, most) - 1


@dataclass(frozen=True)
class _Kind:
    """A statistic of times: its sentence, how many cells it has, what they are, and whether counts are plain."""

    sentence: str
    width: Callable[[TimeBins], int]
    cells: Callable[[Timeline], Occurrences | Vectors]
    plain: bool = False  # counts; otherwise log2(1 + counts)
    ones: int = 0  # how many ones everybody has at most; 0 if vectors have any norm

    @property
    def called(self) -> str:
        """The sentence, with what is summed."""
        return self.sentence if self.plain or self.ones else f"log2(1 + number) of {self.sentence}"


HABITS, ACTIVE_DAYS, HOURS_OF_EVENTS, ELAPSED, HOUR_PAIRS, FIRST_HOURS, GAPS, ACTIVITY, RANK_HOURS, DAY_EVENTS = (
    "habits",
    "active days",
    "hours",
    "elapsed times",
    "hours in a row",
    "first hours",
    "gaps of days",
    "activity",
    "hours by rank",
    "events of days",
)
ITEM_HOURS = "items by hour"
_KINDS: Mapping[str, _Kind] = {
    HABITS: _Kind(
        "people by usual hour of their first event, and how far they deviate",
        lambda bins: HALVES * habit_kinds(bins),
        _habits,
        ones=1,
    ),
    ACTIVE_DAYS: _Kind(
        "people by active days, at weekends and in a row",
        lambda bins: 2 * day_count_bins(bins) ** 2,
        _active_days,
        ones=2,
    ),
    HOURS_OF_EVENTS: _Kind("events by hour", lambda bins: 2 * HALVES + bins.rank_classes * DAY_HOURS, _hours),
    ELAPSED: _Kind(
        "events by hour and time until the next",
        lambda bins: bins.rank_classes * DAY_HOURS * len(bins.elapsed),
        _elapsed,
    ),
    HOUR_PAIRS: _Kind("events by hour and hour of the next", lambda _: 2 * DAY_HOURS**2, _hour_pairs),
    FIRST_HOURS: _Kind("active days by first hour and that of the next", lambda _: DAY_HOURS**2, _first_hours),
    GAPS: _Kind(
        "active days by weekday and days since the last", lambda bins: 2 * WEEK * (len(bins.gaps) + 1), _gaps
    ),
    ACTIVITY: _Kind(
        "days by weekday, whether they and the days before are active", lambda _: 4 * WEEK, _activity, plain=True
    ),
    RANK_HOURS: _Kind(
        "events by hour and rank of their place", lambda bins: bins.ranks * DAY_HOURS, _rank_hours, plain=True
    ),
    DAY_EVENTS: _Kind("active days by number of events", lambda bins: 2 * bins.day_events, _day_events, plain=True),
}
TIME_STATISTICS = tuple(_KINDS)
FIRST_TIMES = (ACTIVITY, HABITS, ACTIVE_DAYS, HOURS_OF_EVENTS, ELAPSED)  # from which a first component is made


@dataclass(frozen=True)
class TimeVectors:
    """Counts of one kind of times, or log2(1 + counts)."""

    words: ClassVar[Descriptions] = {
        name: Measures("measure", kind.called, "the bound on a norm") for name, kind in _KINDS.items()
    }

    name: str
    clock: Clock

    @property
    def width(self) -> int:
        """The number of cells."""
        return _KINDS[self.name].width(self.clock.bins)

    @property
    def ones(self) -> int:
        """How many ones everybody has; 0 if vectors have any norm."""
        return _KINDS[self.name].ones

    def vectors(self, records: Records) -> Vectors:
        """Counts or logarithms of counts."""
        kind = _KINDS[self.name]
        found = kind.cells(Timeline(person_events(records), self.clock))
        counted = found if isinstance(found, Vectors) else Vectors.counted(*found, len(records), self.width)
        return counted if kind.plain or kind.ones else counted.logarithms()


def day_chain_rows(symbols: int) -> int:
    """After each symbol of the same day, and after each last one of the active day before, on weekdays and weekends."""
    return 3 * (symbols + 1)


def day_steps_of(line: Timeline, symbols: int) -> Occurrences:
    """Like `steps_of`, for a chain of days: each day ends, and starts from the last symbol of the active day before."""
    codes, width = line.events.codes.astype(np.int64), symbols + 1
    before = np.full(len(codes), symbols, dtype=np.int64)
    before[line.pairs] = codes[line.pairs - 1]
    kind = np.where(line.opens, 1 + line.weekend, 0)
    last = np.append(line.openings[1:], len(codes)) - 1 if len(codes) else line.openings
    steps, ends = (kind * width + before) * width + codes, codes[last] * width + symbols
    return np.concatenate([line.people, line.people[last]]), np.concatenate([steps, ends])


@dataclass(frozen=True)
class DaySteps:
    """How often every step of a chain of days comes; its days end often, and so counts are plain."""

    symbols: int
    clock: Clock
    name: str = "steps"

    @property
    def width(self) -> int:
        """One cell per step."""
        return day_chain_rows(self.symbols) * (self.symbols + 1)

    def vectors(self, records: Records) -> Vectors:
        """Counts."""
        people, cells = day_steps_of(Timeline(person_events(records), self.clock), self.symbols)
        return Vectors.counted(people, cells, len(records), self.width)


@dataclass(frozen=True)
class ItemHours:
    """log2(1 + how often) for every item and block of hours."""

    words: ClassVar[Descriptions] = {
        ITEM_HOURS: Measures("measure", "log2(1 + events) by item and time of day", "the bound on a norm")
    }

    items: int
    clock: Clock
    name: str = ITEM_HOURS

    @property
    def _blocks(self) -> int:
        return DAY_HOURS // self.clock.bins.item_hours

    @property
    def width(self) -> int:
        """One cell per item and block."""
        return self.items * self._blocks

    def vectors(self, records: Records) -> Vectors:
        """Logarithms of counts."""
        line = Timeline(person_events(records), self.clock)
        block = line.minutes // (MINUTES * self.clock.bins.item_hours)
        cells = line.events.codes.astype(np.int64) * self._blocks + block
        return Vectors.counted(line.people, cells, len(records), self.width).logarithms()
