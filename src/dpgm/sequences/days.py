"""Persons whose events have times: how their laws are laid out in cells, started from noisy counts, and drawn from.

A component has, for every weekday, the chance that a day is active, after an active day and after a quiet one; a law of
habits, which are the usual time of the first event on weekdays and how far a person deviates from it; a law of first
half hours at weekends; a law of the time until the next event of a day, by hour and rank of its place; and a chain of
symbols, whose days end, and start from the last symbol of the active day before.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.data.events import Events
from dpgm.data.records import Records
from dpgm.data.rows import index_dtype, row_pointers
from dpgm.sequences.chains import drawn_from, first_laws
from dpgm.statistics.clipped_vectors import Vectors
from dpgm.statistics.event_vectors import person_events
from dpgm.statistics.shrinkage import onto_simplex
from dpgm.statistics.time_vectors import (
    ACTIVE_DAYS,
    ACTIVITY,
    DAY,
    ELAPSED,
    HABITS,
    HALVES,
    HOURS_OF_EVENTS,
    MINUTES,
    WEEK,
    WORKDAYS,
    Clock,
    Timeline,
    TimeVectors,
    day_chain_rows,
    day_count_bins,
    day_steps_of,
    habit_kinds,
)

_BLOCKS = 6  # of hours, for laws of elapsed times
_LEAST = 2**-9  # chance that a day is active, or quiet, in a first component
_KNOWN = {"activity": ACTIVITY, "habits": HABITS}


@dataclass(frozen=True)
class DayLayout:
    """Where the laws of a component lie."""

    clock: Clock
    symbols: int

    @property
    def groups(self) -> dict[str, tuple[int, int]]:
        """The number of laws of every kind, and the number of cells of each."""
        bins = self.clock.bins
        return {
            "chain": (day_chain_rows(self.symbols), self.symbols + 1),
            "activity": (2 * WEEK, 2),
            "habits": (1, HALVES * habit_kinds(bins)),
            "weekend": (1, HALVES),
            "elapsed": (bins.rank_classes * _BLOCKS, len(bins.elapsed)),
        }

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of every law."""
        return tuple(size for count, size in self.groups.values() for _ in range(count))

    def laws(self, chances: Tensor) -> dict[str, Tensor]:
        """(K x laws, cells) of every kind, from the cells of all."""
        widths = [count * size for count, size in self.groups.values()]
        parts = zip(self.groups.items(), torch.split(chances, widths, dim=1), strict=True)
        return {name: part.reshape(-1, size) for (name, (_, size)), part in parts}

    def counts(self, records: Records) -> Vectors:
        """How often every record has each cell."""
        line, count = Timeline(person_events(records), self.clock), len(records)
        opens = line.openings[line.weekend[line.openings] == 1]
        later = np.flatnonzero(~line.opens)
        bins = self.clock.bins
        waited = np.searchsorted(bins.elapsed, line.minutes[later] - line.minutes[later - 1], side="right") - 1
        law = np.minimum(line.ranks[later], bins.rank_classes - 1) * _BLOCKS + _block(line.minutes[later - 1])
        found = {
            "chain": day_steps_of(line, self.symbols),
            "weekend": (line.people[opens], line.minutes[opens] // (MINUTES // 2)),
            "elapsed": (line.people[later], law * len(bins.elapsed) + waited),
        }
        widths = {name: laws * size for name, (laws, size) in self.groups.items()}
        vectors = {name: Vectors.counted(*cells, count, widths[name]) for name, cells in found.items()}
        vectors |= {name: TimeVectors(called, self.clock).vectors(records) for name, called in _KNOWN.items()}
        return Vectors.joined([vectors[name] for name in widths], list(widths.values()))

    def first(self, released: Mapping[str, Floats], floor: float, levels: int) -> tuple[Tensor, Tensor]:
        """The weights (K,) and laws (K, cells) of components with several levels of activity, from noisy counts."""
        bins = self.clock.bins
        waits = released[ELAPSED].reshape(bins.rank_classes, _BLOCKS, -1, len(bins.elapsed)).sum(axis=2)
        counts = {
            "chain": released["steps"],
            "activity": released[ACTIVITY],
            "habits": released[HABITS],
            "weekend": released[HOURS_OF_EVENTS][HALVES : 2 * HALVES],
            "elapsed": waits.ravel(),
        }
        laws = {name: first_laws(counts[name], number, floor) for name, (number, _) in self.groups.items()}
        size = day_count_bins(bins)
        weights, chances = self._levels(released[ACTIVE_DAYS][: size**2].reshape(size, size), levels)
        activity = self._activity_of(counts["activity"], weights, chances)
        parts = [activity if name == "activity" else law.expand(len(weights), -1) for name, law in laws.items()]
        return torch.from_numpy(weights), torch.cat(parts, dim=1)

    def _levels(self, table: Floats, levels: int) -> tuple[Floats, Floats]:
        """Shares of people (K,), and how likely their weekdays and days of weekends are active (K, 2)."""
        shares = onto_simplex(table.ravel() / max(table.sum(), 1.0), 1.0).reshape(table.shape)
        counts = np.array((0, *self.clock.bins.day_counts))
        ends = int(self.clock.weekend.sum())
        chances = [np.minimum(counts / max(days, 1), 1.0) for days in (self.clock.days - ends, ends)]
        groups = [np.minimum((chance * levels).astype(np.int64), levels - 1) for chance in chances]
        group = groups[0][:, None] * levels + groups[1]
        weights = np.bincount(group.ravel(), shares.ravel(), minlength=levels**2)
        both = np.broadcast_arrays(chances[0][:, None], chances[1][None])
        means = [np.bincount(group.ravel(), (shares * one).ravel(), minlength=levels**2) for one in both]
        kept = weights > 0
        return weights[kept] / weights.sum(), np.stack(means, axis=1)[kept] / weights[kept, None]

    def _activity_of(self, counts: Floats, weights: Floats, chances: Floats) -> Tensor:
        """(K, cells): the laws of activity of each level; days are active alike after active and quiet days."""
        daily = np.maximum(counts.reshape(2, WEEK, 2).sum(axis=0), 1.0)
        shift = _log_odds(chances) - _log_odds((weights[:, None] * chances).sum(axis=0))
        at = (np.arange(WEEK) >= WORKDAYS).astype(np.int64)
        likely = 1 / (1 + np.exp(np.log(daily[:, 0] / daily[:, 1]) - shift[:, at]))
        laws = np.tile(np.stack([1 - likely, likely], axis=-1).reshape(len(weights), -1), 2)
        return torch.from_numpy(laws).float()


def _log_odds(chances: Floats) -> Floats:
    found: Floats = np.log(np.clip(chances, _LEAST, 1)) - np.log(np.clip(1 - chances, _LEAST, 1))
    return found


def _block(minutes: Ints) -> Ints:
    return minutes // (DAY // _BLOCKS)


class DayDrawer:
    """Draws the events of people day by day."""

    def __init__(
        self, layout: DayLayout, chances: Tensor, component: Ints, rng: np.random.Generator, *, in_turn: bool
    ) -> None:
        self.layout, self.clock, self.component, self.rng = layout, layout.clock, component, rng
        laws = layout.laws(chances)
        laws["chain"] = torch.roll(laws["chain"], 1, dims=1)  # the end comes first
        self.running = {name: torch.cumsum(law, dim=1).numpy() for name, law in laws.items()}
        self.in_turn, self.symbols, count = in_turn, layout.symbols, len(component)
        self.last, self.total = np.full(count, layout.symbols), np.zeros(count, dtype=np.int64)
        self.minute, self.new = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self.ranks = np.full((count, layout.symbols), -1, dtype=np.int16)
        self.parts: list[tuple[Ints, Ints, Ints]] = []
        bins, kinds = self.clock.bins, habit_kinds(self.clock.bins)
        habit = drawn_from(self.running["habits"], component, rng)
        self.usual = (habit // kinds + rng.random(count)) * (MINUTES // 2)
        self.deviation = np.array((bins.deviations_drawn[0], *bins.deviations_drawn))[habit % kinds]
        self.starts = np.array((*bins.elapsed, DAY))

    def draw(self, longest: int) -> Events:
        """The events of everybody; whoever has `longest` ends there."""
        active = np.zeros(len(self.component), dtype=np.int64)
        for day in range(self.clock.days):
            law = (self.component * 2 + active) * WEEK + self.clock.weekdays[day]
            active = drawn_from(self.running["activity"], law, self.rng)
            self._day(day, np.flatnonzero((active == 1) & (self.total < longest)), longest)
        people, codes, times = (np.concatenate(column) for column in zip(*self.parts, strict=True))
        order = np.argsort(people, kind="stable")
        lengths = np.bincount(people, minlength=len(self.component))
        flat = codes[order].astype(index_dtype(self.symbols))
        return Events(row_pointers(lengths), flat, times[order].astype(np.int32))

    def _day(self, day: int, people: Ints, longest: int) -> None:
        low = self.clock.begins if day == 0 else 0
        high = min(DAY, self.clock.begins + self.clock.minutes - day * DAY) - 1
        self.minute[people] = np.clip(self._first_minutes(people, weekend=bool(self.clock.weekend[day])), low, high)
        people = self._next(people, 1 + int(self.clock.weekend[day]))
        self._add(day, people)
        while len(people := people[(self.total[people] < longest) & (self.minute[people] < high)]):
            people = self._next(people, 0)
            self._wait(people, high)
            self._add(day, people)

    def _first_minutes(self, people: Ints, *, weekend: bool) -> Ints:
        if weekend:
            half = drawn_from(self.running["weekend"], self.component[people], self.rng)
            return ((half + self.rng.random(len(people))) * (MINUTES // 2)).astype(np.int64)
        away = self.deviation[people] * self.rng.standard_normal(len(people))
        return np.floor(self.usual[people] + away).astype(np.int64)

    def _next(self, people: Ints, kind: int) -> Ints:
        """Draws the next symbol; returns those whose day goes on."""
        width = self.symbols + 1
        rows = (self.component[people] * 3 + kind) * width + self.last[people]
        allowed = np.minimum(self.new[people] + 2, width) if self.in_turn else None
        after = drawn_from(self.running["chain"], rows, self.rng, allowed) - 1
        if kind:  # an active day has an event
            after = np.maximum(after, 0)
        people, after = people[after >= 0], after[after >= 0]
        first = self.ranks[people, after] < 0
        self.ranks[people[first], after[first]] = self.new[people[first]]
        self.new[people[first]] += 1
        self.last[people] = after
        return people

    def _wait(self, people: Ints, high: int) -> None:
        """Draws the time until the next event of the day, at least a minute, and before the day ends."""
        bins, before = self.clock.bins, self.minute[people]
        law = np.minimum(self.ranks[people, self.last[people]], bins.rank_classes - 1) * _BLOCKS + _block(before)
        left = high - before
        allowed = np.searchsorted(self.starts[:-1], left, side="right")
        row = self.component[people] * (bins.rank_classes * _BLOCKS) + law
        waited = drawn_from(self.running["elapsed"], row, self.rng, allowed)
        low, above = self.starts[waited], np.minimum(self.starts[waited + 1], left + 1)
        drawn = low + np.floor(self.rng.random(len(people)) * (above - low)).astype(np.int64)
        self.minute[people] = before + np.clip(drawn, 1, left)

    def _add(self, day: int, people: Ints) -> None:
        self.parts.append((people, self.last[people], day * DAY + self.minute[people] - self.clock.begins))
        self.total[people] += 1


def even_times(lengths: Ints, clock: Clock, rng: np.random.Generator) -> NDArray[np.int32]:
    """Times of people with so many events, all minutes of the period equally likely, in order."""
    people = np.repeat(np.arange(len(lengths)), lengths)
    times = rng.integers(0, clock.minutes, len(people))
    return times[np.lexsort((times, people))].astype(np.int32)
