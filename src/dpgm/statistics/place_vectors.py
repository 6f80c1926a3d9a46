"""Sequences as ranks of places, and which places have which rank: maps from records to sparse vectors.

The rank of a place is the order of its first appearance for this person: 0 for the first item, 1 for the next new one.
All ranks from `ranks` - 1 on are one: whoever has it may mean another place each time.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dpgm.arrays import Ints
from dpgm.data.events import Events
from dpgm.data.records import Records
from dpgm.data.rows import index_dtype, row_pointers
from dpgm.mechanisms.query import Measures
from dpgm.statistics.attribute_vectors import ATTRIBUTES_BY_ITEM, AttributesByEvents
from dpgm.statistics.clipped_vectors import VectorMap, Vectors
from dpgm.statistics.event_vectors import NGRAMS, Ngrams, StepCounts, person_events
from dpgm.statistics.statistic import Descriptions

OF_RANKS = "ranks: "
FIRST_PLACES, PLACES, NEXT_PLACES = "first two places", "places", "next places"


def ranks_of(events: Events) -> Ints:
    """The rank of the place of every event."""
    people = events.people()
    items = int(events.codes.max(initial=0)) + 1
    _, first, place = np.unique(people * items + events.codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    owners = people[first[order]]
    starts = row_pointers(np.bincount(owners, minlength=len(events)))
    rank = np.empty(len(first), dtype=np.int64)
    rank[order] = np.arange(len(first)) - starts[owners]
    return rank[place]


def ranked(events: Events, ranks: int) -> Events:
    """The same events with ranks below `ranks` in the place of items."""
    return replace(events, codes=np.minimum(ranks_of(events), ranks - 1).astype(index_dtype(ranks)))


@dataclass(frozen=True, eq=False)
class OfRanks:
    """A statistic of the ranks of places; the same for events whose items are ranks already."""

    words: ClassVar[Descriptions] = {
        OF_RANKS + name: measures._replace(sentence=f"{measures.sentence}, for ranks of places")
        for words in (StepCounts.words, Ngrams.words, AttributesByEvents.words)
        for name, measures in words.items()
        if name not in (NGRAMS[2], ATTRIBUTES_BY_ITEM)  # steps are pairs of ranks; items are not ranks
    }

    map: VectorMap
    ranks: int

    @property
    def name(self) -> str:
        """The name of its mechanism in the plan."""
        return OF_RANKS + self.map.name

    @property
    def width(self) -> int:
        """Those of the statistic of items."""
        return self.map.width

    def vectors(self, records: Records) -> Vectors:
        """The vectors of the ranks."""
        return self.map.vectors(replace(records, events=ranked(person_events(records), self.ranks)))


@dataclass(frozen=True)
class PlaceVectors:
    """1 for the places of the first two ranks, for the place of each rank, or for each new place and the one before."""

    words: ClassVar[Descriptions] = {
        FIRST_PLACES: Measures("measure", "people by their first and their second place", "1"),
        PLACES: Measures("measure", "people with each place at each rank", "the bound on a norm"),
        NEXT_PLACES: Measures(
            "measure", "people with each new place after each, from the third place on", "the bound on a norm"
        ),
    }

    name: str
    items: int
    ranks: int

    @property
    def width(self) -> int:
        """One cell per place and rank, or per pair of places."""
        return self.items * (self.ranks if self.name == PLACES else self.items)

    @property
    def ones(self) -> int:
        """How many ones a person has at most."""
        return {FIRST_PLACES: 1, PLACES: self.ranks}.get(self.name, self.ranks - 2)

    def vectors(self, records: Records) -> Vectors:
        """What the first events at each of the first places add; who has one place has it twice in a row."""
        events = person_events(records)
        codes, people = events.codes.astype(np.int64), events.people()
        ranks = ranks_of(events)
        keys = people * (int(ranks.max(initial=0)) + 1) + ranks
        first = np.sort(np.unique(keys, return_index=True)[1])  # the first event at every place
        first = first[ranks[first] < self.ranks]
        if self.name == PLACES:
            rows, cells = people[first], ranks[first] * self.items + codes[first]
        elif self.name == NEXT_PLACES:
            later = first[ranks[first] >= 2]
            rows, cells = people[later], codes[later - 1] * self.items + codes[later]
        else:
            home, other = first[ranks[first] == 0], first[ranks[first] == 1]
            second = codes[home]
            second[np.searchsorted(people[home], people[other])] = codes[other]
            rows, cells = people[home], codes[home] * self.items + second
        return Vectors.counted(rows, cells, len(records), self.width).present()
