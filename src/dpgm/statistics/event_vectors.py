"""What the events of a person add to the statistics of a sequence: maps from records to sparse vectors.

A step is a pair of consecutive events; a start comes before the first event and an end after the last one.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpgm.arrays import Ints
from dpgm.data.events import Events
from dpgm.data.records import Records
from dpgm.data.rows import row_pointers
from dpgm.mechanisms.query import Measures
from dpgm.statistics.clipped_vectors import Vectors
from dpgm.statistics.coded_rows import length_codes
from dpgm.statistics.statistic import STEPS, Descriptions

SEQUENCE_LENGTHS, STEP_COUNTS, STEPS_BY_LENGTH, ITEM_PAIRS = (
    "sequence lengths",
    "steps",
    "steps by length",
    "items and pairs",
)
NGRAMS = {order: f"{order} in a row" for order in (2, 3, 4, 5)}


def person_events(records: Records) -> Events:
    """The events of records of a domain with a sequence."""
    assert records.events is not None
    return records.events


def _one_each(cells: Ints) -> Vectors:
    return Vectors(np.arange(len(cells) + 1), cells, np.full(len(cells), STEPS))


@dataclass(frozen=True)
class SequenceLengths:
    """The bin of the number of events."""

    words: ClassVar[Descriptions] = {SEQUENCE_LENGTHS: Measures("measure", "people by number of events", "1")}

    longest: int
    name: str = SEQUENCE_LENGTHS

    @cached_property
    def bins(self) -> Ints:
        """The bin of every length; the lengths after the last share its bin."""
        return length_codes(self.longest)

    @property
    def width(self) -> int:
        """One cell per bin."""
        return int(self.bins[-1]) + 1

    def vectors(self, records: Records) -> Vectors:
        """1 in the bin of every person."""
        return _one_each(self.cells(records))

    def cells(self, records: Records) -> Ints:
        """The bin of every person."""
        return self.bins[np.minimum(person_events(records).lengths, len(self.bins) - 1)]


def item_events(events: Events) -> tuple[Ints, Ints]:
    """The person and the item of every event."""
    return events.people(), events.codes.astype(np.int64)


def steps_of(events: Events, items: int) -> tuple[Ints, Ints]:
    """The person of every step, and its cell: the item before x (items + 1) + the item after.

    The start counts as an item before, and the end as an item after, both with the number `items`.
    """
    people = np.repeat(np.arange(len(events)), events.lengths + 1)
    places = np.arange(len(events.codes)) + np.repeat(np.arange(len(events)), events.lengths)
    before, after = np.full((2, len(people)), items, dtype=np.int64)
    before[places + 1] = after[places] = events.codes
    return people, before * (items + 1) + after


@dataclass(frozen=True)
class StepCounts:
    """log2(1 + how often) for every step; or plain counts for each class of lengths.

    Classes end before the lengths that `classes` lists, in increasing order; the last one has no end.
    """

    words: ClassVar[Descriptions] = {
        STEP_COUNTS: Measures("measure", "log2(1 + how often) each item comes after each", "the bound on a norm"),
        STEPS_BY_LENGTH: Measures(
            "measure", "how often each item comes after each, by class of length", "the bound on a norm"
        ),
    }

    items: int
    classes: tuple[int, ...] | None = None

    @property
    def name(self) -> str:
        """The name of its mechanism in the plan."""
        return STEP_COUNTS if self.classes is None else STEPS_BY_LENGTH

    @property
    def width(self) -> int:
        """One cell for each step and class."""
        return (self.items + 1) ** 2 * (1 if self.classes is None else len(self.classes) + 1)

    def vectors(self, records: Records) -> Vectors:
        """Counts or logarithms of counts."""
        events = person_events(records)
        people, cells = steps_of(events, self.items)
        if self.classes is None:
            return Vectors.counted(people, cells, len(events), self.width).logarithms()
        classes = np.searchsorted(self.classes, events.lengths, side="right")
        return Vectors.counted(people, classes[people] * (self.items + 1) ** 2 + cells, len(events), self.width)


@dataclass(frozen=True, eq=False)
class ItemPairs:
    """1 for every item that a person has, and for every pair of different items; or for the chosen ones of these."""

    words: ClassVar[Descriptions] = {
        ITEM_PAIRS: Measures("measure", "people with each item, and with each pair of items", "the bound on a norm")
    }

    items: int
    chosen: Ints | None = None  # cells of the triangle, in increasing order; None for all
    name: str = ITEM_PAIRS

    @property
    def width(self) -> int:
        """One cell per item and pair: a triangle with its diagonal."""
        return self.items * (self.items + 1) // 2 if self.chosen is None else len(self.chosen)

    def vectors(self, records: Records) -> Vectors:
        """Items and pairs of items."""
        events = person_events(records)
        people, cells = pairs_of(events, self.items)
        if self.chosen is not None:
            people, cells = _among(self.chosen, people, cells)
        return Vectors.counted(people, cells, len(events), self.width)


def pairs_of(events: Events, items: int) -> tuple[Ints, Ints]:
    """The person and the cell of the triangle of every item, and of every pair of different items."""
    indptr, found = events.sets(items)
    people, first, second = _pairs_within(indptr, found.astype(np.int64))
    return people, second * (second + 1) // 2 + first


def _among(chosen: Ints, people: Ints, codes: Ints) -> tuple[Ints, Ints]:
    """Those of the codes that are chosen: the person, and the number among the chosen ones."""
    cells = np.minimum(np.searchsorted(chosen, codes), len(chosen) - 1)
    known = chosen[cells] == codes
    return people[known], cells[known]


def _pairs_within(indptr: Ints, values: Ints) -> tuple[Ints, Ints, Ints]:
    """Row, and the two values in order, of every pair of values of a row, each also with itself."""
    lengths = np.diff(indptr)
    row = np.repeat(np.arange(len(lengths)), lengths)
    rank = np.arange(len(values)) - indptr[row]
    second = np.repeat(np.arange(len(values)), rank + 1)
    pointers = row_pointers(rank + 1)
    first = indptr[row[second]] + np.arange(len(second)) - pointers[second]
    return row[second], values[first], values[second]


def ngrams_of(events: Events, order: int, items: int) -> tuple[Ints, Ints]:
    """The person, and the code in base `items`, of every run of `order` consecutive events."""
    codes, people = events.codes.astype(np.int64), events.people()
    count = max(len(codes) - order + 1, 0)
    found = np.zeros(count, dtype=np.int64)
    for at in range(order):
        found = found * items + codes[at : at + count]
    whole = people[:count] == people[order - 1 :]
    return people[:count][whole], found[whole]


@dataclass(frozen=True, eq=False)
class Ngrams:
    """1 for every chosen run of consecutive items that a person has."""

    words: ClassVar[Descriptions] = {
        name: Measures("measure", f"people with each of the commonest runs of {order} items", "the bound on a norm")
        for order, name in NGRAMS.items()
    }

    order: int
    items: int
    chosen: Ints  # codes in base `items`, in increasing order

    @property
    def name(self) -> str:
        """The name of its mechanism in the plan."""
        return NGRAMS[self.order]

    @property
    def width(self) -> int:
        """One cell per chosen run."""
        return len(self.chosen)

    def vectors(self, records: Records) -> Vectors:
        """The chosen runs of every person."""
        events = person_events(records)
        people, cells = _among(self.chosen, *ngrams_of(events, self.order, self.items))
        return Vectors.counted(people, cells, len(events), self.width).present()
