"""How a component of the mixture makes a person: where its laws lie, which cells a record has, how records are drawn.

A component has a chain of symbols, or laws of days (`dpgm.sequences.days`) where events have times, and a law of the
values of every column. Its laws are groups of cells, one after the other; given the component, events and columns are
independent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.data.domain import Domain
from dpgm.data.events import Events
from dpgm.data.kinds import ItemSequence
from dpgm.data.records import Records
from dpgm.data.rows import index_dtype, row_pointers
from dpgm.sequences.chains import chain_sizes, draw_events, draw_ranks, drawn_from, uniform_events
from dpgm.sequences.days import DayDrawer, DayLayout, even_times
from dpgm.sequences.mixture import ChainMixture
from dpgm.sequences.places import PlaceMixture
from dpgm.sequences.pool import Pool
from dpgm.sequences.rules import SequenceRules
from dpgm.statistics.attribute_vectors import AttributeCodes
from dpgm.statistics.clipped_vectors import VectorMap, Vectors
from dpgm.statistics.event_vectors import SequenceLengths, StepCounts, person_events, steps_of
from dpgm.statistics.place_vectors import OfRanks, ranked
from dpgm.statistics.time_vectors import Clock, DaySteps


def sequence_of(domain: Domain) -> ItemSequence:
    """The sequence of a domain that has one."""
    assert domain.sequence is not None
    return domain.sequence


def ranks_matter(domain: Domain, rules: SequenceRules) -> bool:
    """Whether a sequence has so many items that its chain is one of ranks of places."""
    return len(sequence_of(domain).items) > rules.places.most_items


@dataclass(frozen=True, eq=False)
class PersonLayout:
    """The laws of a component for persons of a domain."""

    domain: Domain
    rules: SequenceRules

    @property
    def items(self) -> int:
        """The number of items."""
        return len(sequence_of(self.domain).items)

    @property
    def by_rank(self) -> bool:
        """Whether the chain is one of ranks of places, since there are too many items."""
        return ranks_matter(self.domain, self.rules)

    @property
    def symbols(self) -> int:
        """The number of symbols of the chain: the items, or the ranks of places."""
        return self.rules.places.ranks if self.by_rank else self.items

    def of_symbols(self, statistic: VectorMap) -> VectorMap:
        """A statistic of symbols, given the one of items."""
        return OfRanks(statistic, self.symbols) if self.by_rank else statistic

    @cached_property
    def clock(self) -> Clock | None:
        """The period, if events have times."""
        sequence = sequence_of(self.domain)
        return Clock.of(sequence, self.rules.bins) if sequence.time else None

    @cached_property
    def days(self) -> DayLayout | None:
        """The laws of days, if events have times."""
        return None if self.clock is None else DayLayout(self.clock, self.symbols)

    @cached_property
    def columns(self) -> AttributeCodes:
        """The columns of a person, each value with a code of its own."""
        return AttributeCodes.fine(self.domain)

    @property
    def steps(self) -> VectorMap:
        """The statistic of steps, from which a first chain is made."""
        plain = StepCounts(self.symbols) if self.clock is None else DaySteps(self.symbols, self.clock)
        return self.of_symbols(plain)

    @cached_property
    def lengths(self) -> SequenceLengths:
        """The statistic of lengths."""
        return SequenceLengths(sequence_of(self.domain).max_length)

    @property
    def _event_sizes(self) -> tuple[int, ...]:
        if self.days is not None:
            return self.days.sizes
        return (*chain_sizes(self.symbols), self.lengths.width) if self.by_rank else chain_sizes(self.symbols)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of every group: those of events come first."""
        return (*self._event_sizes, *self.columns.sizes)

    def counts(self, records: Records) -> Vectors:
        """How often every record has each cell; in a pool of ranks, or one of items."""
        if self.by_rank:
            records = replace(records, events=ranked(person_events(records), self.symbols))
        widths = [sum(self._event_sizes), sum(self.columns.sizes)]
        if self.days is not None:
            events = self.days.counts(records)
        else:
            chain = Vectors.counted(*steps_of(person_events(records), self.symbols), len(records), widths[0])
            own = [sum(chain_sizes(self.symbols)), self.lengths.width]
            events = Vectors.joined([chain, self.lengths.vectors(records)], own) if self.by_rank else chain
        values = Vectors.counted(*self.columns.cells(records), len(records), widths[1])
        return Vectors.joined([events, values], widths)

    def first(self, weights: Tensor, laws: Tensor, columns: Sequence[Floats]) -> ChainMixture:
        """A mixture whose components differ in their laws of events alone."""
        values = torch.from_numpy(np.concatenate([np.empty(0), *columns])).float()
        chances = torch.cat([laws, values.expand(len(weights), -1)], dim=1)
        return ChainMixture(weights, chances, self.sizes)

    def draw(
        self, mixture: ChainMixture, count: int, rng: np.random.Generator, places: PlaceMixture | None = None
    ) -> Pool:
        """Records drawn from a mixture; their events have ranks for items, unless there are places for them.

        The set of their items, which nobody looks at, is left empty.
        """
        component = mixture.draw_components(count, rng)
        laws, columns = torch.split(mixture.chances, [sum(self._event_sizes), sum(self.columns.sizes)], dim=1)
        longest = sequence_of(self.domain).max_length
        if self.days is not None:
            events = DayDrawer(self.days, laws, component, rng, in_turn=self.by_rank).draw(longest)
        elif self.by_rank:
            chain, lengths = torch.split(laws, [sum(chain_sizes(self.symbols)), self.lengths.width], dim=1)
            events = draw_ranks(chain, component, self.symbols, self._lengths(lengths, component, rng), rng)
        else:
            events = draw_events(laws, component, self.symbols, longest, rng)
        if places is not None:
            events = places.fill(events, rng, self.rules.places.attempts)
        return self.pool(events, self._values(columns, component, rng))

    def even(self, lengths: Ints, shares: list[Floats], rng: np.random.Generator) -> Pool:
        """People with the given lengths and shares of values; all items, and all times, are equally likely."""
        events = uniform_events(lengths, self.items, rng)
        if self.clock is not None:
            events = replace(events, times=even_times(lengths, self.clock, rng))
        drawn = [rng.choice(len(share), len(lengths), p=share / share.sum()) for share in shares]
        return self.pool(events, np.stack(drawn, axis=1) if drawn else _no_columns(len(lengths)))

    def pool(self, events: Events, codes: Ints) -> Pool:
        """The pool of people with these events, and these values of the columns, (n, columns)."""
        starts = np.array([block.start for block in self.domain.table_columns], dtype=np.int64)
        positions = np.sort(codes + starts, axis=1).ravel().astype(index_dtype(self.domain.width))
        pointers = row_pointers(np.full(len(events), len(starts)))
        return Pool.merged(Records(self.domain, pointers, positions, events=events))

    def _lengths(self, laws: Tensor, component: Ints, rng: np.random.Generator) -> Ints:
        bins = drawn_from(torch.cumsum(laws, dim=1).numpy(), component, rng)
        edges = np.searchsorted(self.lengths.bins, np.arange(self.lengths.width + 1))
        return edges[bins] + np.floor(rng.random(len(bins)) * np.diff(edges)[bins]).astype(np.int64)

    def _values(self, laws: Tensor, component: Ints, rng: np.random.Generator) -> Ints:
        parts = torch.split(laws, list(self.columns.sizes), dim=1) if self.columns.sizes else ()
        drawn = [drawn_from(torch.cumsum(part, dim=1).numpy(), component, rng) for part in parts]
        return np.stack(drawn, axis=1) if drawn else _no_columns(len(component))


def _no_columns(count: int) -> Ints:
    return np.empty((count, 0), dtype=np.int64)
