"""Simulated travel cards of a town: which stations a card was tapped at, and when, over four weeks.

The town has twelve districts around its centre: some to live in, some to work in, a college, a lake. A card is that of
an adult, a student, a senior or a visitor. Residents have a home, most of them a place of work or study, rather near,
and habits: a usual hour of leaving with a spread of their own, days off, places for the evening and the weekend,
perhaps a transfer on the way. Visitors stay a few days and walk from sight to sight. A card is tapped where a trip
begins. The town is the same for every seed; the seed draws the people, in blocks.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from dpgm.arrays import AnyArray, Floats, Ints, Mask
from dpgm.data.atomic import atomic_file
from dpgm.data.domain import Categorical, Domain, ItemSequence, Numeric
from dpgm.data.events import Events
from dpgm.data.layouts import Layout
from dpgm.data.records import Records, concatenate
from dpgm.data.rows import index_dtype, row_pointers
from dpgm.validation import whole

CARDS = 50_000  # simulated by default
CARDS_AT_ONCE = 10_000
DAYS = 28  # from a Monday on
TYPES = ("adult", "student", "senior", "visitor")
ZONES = 3  # of fares: rings around the centre
_MINUTES = 24 * 60
_TAPS = 8  # of a card on one day, at most
_LONGEST = 150  # taps of a card that count
_TYPE_SHARES = (0.52, 0.17, 0.19, 0.12)
_DISTRICTS = (
    *("Central", "Harbour", "Castle", "College", "Mill", "Garden"),
    *("Lake", "Forest", "Market", "Bridge", "Hill", "Airport"),
)
_KINDS = (
    *("Square", "Street", "Gate", "Park", "Road", "Lane"),
    *("Cross", "Green", "Yard", "Row", "Corner", "Terrace"),
)
# How far a district is from the centre (km), and how many people live, work and spend their time there.
_DISTANCE = (0.0, 1.8, 1.4, 2.4, 3.0, 3.6, 4.6, 5.2, 2.6, 2.2, 4.0, 6.5)
_LIVING = (0.5, 0.6, 0.7, 0.6, 1.5, 1.7, 0.8, 1.3, 1.2, 1.3, 1.6, 0.2)
_WORKING = (3.0, 2.2, 1.0, 1.4, 0.5, 0.3, 0.1, 0.1, 1.1, 0.7, 0.2, 1.0)
_LEISURE = (2.5, 1.5, 1.6, 0.8, 0.3, 0.6, 1.8, 0.9, 1.2, 0.7, 0.4, 0.1)


@dataclass(frozen=True)
class TripTown:
    """The stations: their names, places (km), zones, and tables of where trips lead from each (cumulative shares)."""

    names: tuple[str, ...]
    places: Floats
    zone: Ints
    homes: Floats
    works: Floats
    campuses: Floats
    leisure: Floats
    sights: Floats
    transfer: Ints


@cache
def trip_town() -> TripTown:
    """The town, always the same one."""
    rng = np.random.default_rng(20240304)
    names = tuple(f"{district} {kind}" for district in _DISTRICTS for kind in _KINDS)
    district = np.repeat(np.arange(len(_DISTRICTS)), len(_KINDS))
    angle = 2 * np.pi * np.arange(len(_DISTRICTS)) * 5 / len(_DISTRICTS) + rng.normal(0, 0.1, len(_DISTRICTS))
    centres = np.array(_DISTANCE)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    places = centres[district] + rng.normal(0, 0.45, (len(names), 2))
    far = np.linalg.norm(places[:, None] - places[None], axis=2)
    near = np.exp(-far / 2.5)
    living, working, leisure = (
        np.array(weights)[district] * rng.gamma(2.0, 0.5, len(names)) for weights in (_LIVING, _WORKING, _LEISURE)
    )
    campus = np.where(district == _DISTRICTS.index("College"), rng.gamma(1.0, 1.0, len(names)), 1e-9)
    from_centre = np.linalg.norm(places, axis=1)
    return TripTown(
        names,
        places,
        np.digitize(from_centre, (2.0, 4.2)),
        _cumulative(living),
        _cumulative(working * near),
        _cumulative(campus[None] * np.ones((len(names), 1))),
        _cumulative(leisure * near),
        _cumulative(leisure**2 * np.exp(-far / 0.9) * (far > 0)),
        np.argmin(far + far.T[:, :12].min(axis=1)[None] + 1.5 * (district != 0)[None], axis=1),
    )


def trip_domain() -> Domain:
    """The public domain of the simulated cards: card types, ages, zones, stations, and the four weeks."""
    stations = ItemSequence(
        "station", trip_town().names, max_length=_LONGEST, time=True, start="2024-03-04", end="2024-03-31"
    )
    return Domain(
        (
            Categorical("card", TYPES),
            Numeric("age", 6, 95, bins=18, integer=True),
            Categorical("zones", tuple(range(1, ZONES + 1))),
            stations,
        ),
        layout=Layout("long", "card_id", "station", "time"),
    )


def simulate_trips(records: int = CARDS, *, seed: int = 0) -> Records:
    """Travel cards of a town over four weeks: stations with times, card type, age and fare zones.

    Args:
        records: How many cards.
        seed: Draws the people; equal seeds give equal cards.

    >>> simulate_trips(500, seed=1) == simulate_trips(500, seed=1)
    True
    """
    return concatenate(list(simulated_trip_blocks(records, seed)))


def write_stations(path: str | os.PathLike[str], *, force: bool = True) -> None:
    """The stations and where they are, in km east and north of the centre, as a CSV file."""
    town = trip_town()
    rows = (f"{name},{east:.3f},{north:.3f}" for name, (east, north) in zip(town.names, town.places, strict=True))
    with atomic_file(Path(path), force=force) as temporary:
        temporary.write_text("\n".join(["station,east,north", *rows, ""]), "utf-8")


def simulated_trip_blocks(records: int, seed: int) -> Iterator[Records]:
    """The cards block by block, for constant memory."""
    whole(records=records, at_least=1)
    whole(seed=seed)
    for number, start in enumerate(range(0, records, CARDS_AT_ONCE)):
        cards = _Cards(np.random.default_rng([seed, number, 28])).records()
        yield cards.rows(0, min(records - start, CARDS_AT_ONCE))


def _cumulative(weights: Floats) -> Floats:
    total = np.cumsum(weights, axis=-1)
    shares: Floats = total / total[..., -1:]
    return shares


class _Cards:
    """One block of cards."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.town, self.count = rng, trip_town(), CARDS_AT_ONCE
        self.type = rng.choice(len(TYPES), self.count, p=_TYPE_SHARES)
        self.home = np.searchsorted(self.town.homes, rng.random(self.count))
        student = self.type == TYPES.index("student")
        tables = np.where(student[:, None], self.town.campuses[self.home], self.town.works[self.home])
        self.work = self._drawn(tables)
        self.favourites = np.stack([self._from(self.town.leisure, self.home) for _ in range(3)], axis=1)
        self.stations = np.full((self.count, DAYS, _TAPS), -1, dtype=np.int16)
        self.minutes = np.zeros((self.count, DAYS, _TAPS))

    def records(self) -> Records:
        """Everybody's taps, and what is known of the cards."""
        weekday = np.arange(DAYS) % 7
        is_workday = weekday < 5
        visitor, senior = self.type == TYPES.index("visitor"), self.type == TYPES.index("senior")
        at_work = self._work_days(weekday) & ~(visitor | senior)[:, None]
        self._commute(at_work)
        outings = self._outings(is_workday, senior) & ~visitor[:, None] & ~at_work
        self._go_out(outings, senior)
        self._visit(np.flatnonzero(visitor))
        return self._finished()

    # -- habits ------------------------------------------------------------------------------------------------------

    def _work_days(self, weekday: Ints) -> Mask:
        """When somebody goes to work: on a personal share of weekdays, and never on a weekday that is kept free."""
        rng = self.rng
        often = rng.beta(0.9, 1.2, self.count)
        free = np.where(rng.random(self.count) < 0.3, rng.integers(0, 5, self.count), -1)
        goes = rng.random((self.count, DAYS)) < often[:, None]
        works: Mask = goes & (weekday < 5) & (weekday != free[:, None])
        return works

    def _commute(self, days: Mask) -> None:
        """To work and back, perhaps by way of a transfer, and perhaps to another place in the evening."""
        rng, student = self.rng, self.type == TYPES.index("student")
        usual = rng.normal(7.8, 0.7, self.count) + 1.3 * student
        spread = rng.gamma(1.5, 0.2, self.count)
        stay = rng.normal(8.7, 0.6, self.count) - 3.0 * student
        transfers = (self.town.zone[self.home] != self.town.zone[self.work]) & (rng.random(self.count) < 0.4)
        evenings = rng.beta(1.0, 5.0, self.count)
        who, day = np.nonzero(days)
        leave = np.clip(usual[who] + spread[who] * rng.normal(size=len(who)), 4.5, 12.0)
        back = np.clip(leave + stay[who] + rng.normal(0, 0.4, len(who)), leave + 2.0, 21.0)
        goes_on = rng.random(len(who)) < evenings[who]
        choice = self.favourites[who, np.minimum(rng.geometric(0.6, len(who)) - 1, 2)]
        late = np.minimum(back + rng.uniform(1.3, 3.0, len(who)), 23.9)
        change = self.town.transfer[self.home]
        ride = rng.uniform(0.12, 0.3, (2, len(who)))
        self._tap(who, day, self.home[who], leave)
        self._tap(who, day, change[who], leave + ride[0], transfers[who])
        self._tap(who, day, self.work[who], back)
        self._tap(who, day, change[who], back + ride[1], transfers[who] & ~goes_on)
        self._tap(who, day, choice, late, goes_on)

    def _outings(self, is_workday: Mask, senior: Mask) -> Mask:
        """The days on which somebody who does not work goes out."""
        often = self.rng.beta(1.3, 2.5, self.count)
        chance = np.where(is_workday[None], np.where(senior, 1.0, 0.25)[:, None], 1.1) * often[:, None]
        out: Mask = self.rng.random((self.count, DAYS)) < chance
        return out

    def _go_out(self, days: Mask, senior: Mask) -> None:
        """From home to a favourite place, or another one, and back from there."""
        rng = self.rng
        usual = np.where(senior, rng.normal(10.2, 0.8, self.count), rng.normal(13.0, 1.8, self.count))
        who, day = np.nonzero(days)
        leave = np.clip(usual[who] + rng.normal(0, 1.0, len(who)), 6.0, 20.0)
        known = rng.random(len(who)) < 0.7
        rank = np.minimum(rng.geometric(0.6, len(who)) - 1, 2)
        place = np.where(known, self.favourites[who, rank], self._from(self.town.leisure, self.home[who]))
        back = np.minimum(leave + rng.gamma(3.0, 0.9, len(who)) + 0.6, 23.9)
        self._tap(who, day, self.home[who], leave)
        self._tap(who, day, place, back)

    def _visit(self, who: Ints) -> None:
        """A few days of sights: from a hotel (where residents have their home) on, and back to it."""
        rng = self.rng
        first = rng.integers(0, DAYS - 2, len(who))
        first = np.where(rng.random(len(who)) < 0.4, first // 7 * 7 + 4, first)  # from Friday on
        nights = rng.integers(2, 6, len(who))
        for after in range(6):
            there = (after < nights) & (first + after < DAYS)
            people, day = who[there], (first + after)[there]
            hour, at = rng.uniform(8.5, 11.0, len(people)), self.home[people]
            stops = rng.integers(1, 4, len(people))
            for stop in range(4):
                self._tap(people, day, at, hour, stop <= stops)
                at, hour = (
                    self._from(self.town.sights, at),
                    np.minimum(hour + rng.gamma(4.0, 0.5, len(people)), 23.9),
                )

    # -- taps --------------------------------------------------------------------------------------------------------

    def _drawn(self, tables: Floats) -> Ints:
        """A station for every row of cumulative shares."""
        drawn: Ints = (tables < self.rng.random((len(tables), 1))).sum(axis=1)
        return np.minimum(drawn, len(self.town.names) - 1)

    def _from(self, table: Floats, stations: AnyArray) -> Ints:
        return self._drawn(table[stations])

    def _tap(self, who: Ints, day: Ints, station: AnyArray, hour: Floats, mask: Mask | None = None) -> None:
        """One tap of every card and day listed (those of the mask), after the taps so far."""
        chosen = slice(None) if mask is None else mask
        who, day, station, hour = who[chosen], day[chosen], station[chosen], hour[chosen]
        place = (self.stations[who, day] >= 0).sum(axis=1)
        self.stations[who, day, place] = station
        self.minutes[who, day, place] = np.minimum(np.floor(60 * hour), _MINUTES - 1)

    def _finished(self) -> Records:
        unused = np.flatnonzero(~(self.stations >= 0).any(axis=(1, 2)))
        self._tap(
            unused, self.rng.integers(0, DAYS, len(unused)), self.home[unused], self.rng.uniform(9, 19, len(unused))
        )
        times = self.minutes + _MINUTES * np.arange(DAYS)[None, :, None]
        tapped = self.stations >= 0
        lengths = tapped.sum(axis=(1, 2))
        domain = trip_domain()
        codes = self.stations[tapped].astype(index_dtype(len(self.town.names)))
        events = Events(row_pointers(lengths), codes, times[tapped].astype(np.int32)).first(_LONGEST)
        return Records.of_events(events, domain, self._attributes(domain))

    def _attributes(self, domain: Domain) -> Records:
        rng, (cards, ages, zones, _) = self.rng, domain.blocks
        middle, spread = np.array([41.0, 20.0, 72.0, 38.0]), np.array([11.0, 3.0, 6.0, 14.0])
        age = np.clip(rng.normal(middle[self.type], spread[self.type]), 6, 95)
        age = np.where(self.type == TYPES.index("senior"), np.maximum(age, 65), age)
        bins = np.minimum((age - 6) * ages.width / 90, ages.width - 1).astype(np.int64)
        reach = np.where(np.isin(self.type, (2, 3)), 0, self.town.zone[self.work])
        zone = np.maximum(self.town.zone[self.home], reach)
        positions = np.stack([cards.start + self.type, ages.start + bins, zones.start + zone], axis=1)
        return Records.from_flat(positions.ravel(), np.full(self.count, 3), domain)
