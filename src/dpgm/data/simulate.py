"""Simulated public data in place of the paper's private data: people and the places of a city that they visited.

Places have coordinates, lie in districts and differ in popularity (Zipf-like). Each person has a home, a workplace
that is more likely near home, and a community with favourite places; most visits are near home or work, some follow
the community, a few are long trips. Record lengths are heavy-tailed. Sizes follow Table 1 of the paper. The city
is the same for every seed; the seed draws the people, in blocks, so that a longer run starts like a shorter one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain, ItemSet
from dpgm.data.records import Records, concatenate
from dpgm.data.rows import index_dtype, row_pointers, sorted_distinct
from dpgm.validation import whole

PEOPLE_AT_ONCE = 50_000  # people
_SLOTS = 4096  # quantiles per distribution
_ROUNDS = 10
# Shares of a person's visits: near home, near work, with the community; the rest are long trips.
_SHARES = np.cumsum([0.42, 0.26, 0.22])


@dataclass(frozen=True)
class Town:
    """Parameters of a simulated city."""

    field: str
    places: int
    mean_length: float
    longest: int
    districts: int
    communities: int
    zipf: float
    length_spread: float
    reach: float
    records: int


TRANSIT = Town("stations", 342, 5.26, 57, 9, 6, 0.75, 0.75, 0.035, 1_200_000)
CDR = Town("towers", 1303, 11.42, 422, 14, 10, 0.65, 1.1, 0.05, 4_427_486)


class City:
    """Lookup tables to draw from: each row has the ids at equally spaced quantiles of one distribution."""

    def __init__(self, town: Town) -> None:
        rng = np.random.default_rng([20171118, town.places])
        centres = rng.uniform(0.1, 0.9, (town.districts, 2))
        sizes = rng.dirichlet(np.full(town.districts, 4.0))
        district = rng.choice(town.districts, town.places, p=sizes)
        at = centres[district] + rng.normal(0, 0.06, (town.places, 2))
        popularity = np.arange(1, town.places + 1, dtype=float) ** -town.zipf
        rng.shuffle(popularity)
        offices = popularity * rng.lognormal(0, 0.8, town.places)  # workplaces cluster elsewhere than homes
        distance = np.linalg.norm(at[:, None] - at[None], axis=2)
        is_favourite = rng.random((town.communities, town.places)) < 12 / town.places
        favourite = is_favourite * rng.pareto(2.0, is_favourite.shape) + 1e-4 * popularity
        by_district = rng.dirichlet(np.full(town.communities, 0.35), town.districts)
        self.homes = _quantiles(popularity[None])[0]
        self.works = _quantiles(offices * np.exp(-distance / (5 * town.reach)))
        self.near = _quantiles(popularity * np.exp(-distance / town.reach))
        self.favourites = _quantiles(favourite)
        self.community = _quantiles(by_district[district])
        self.anywhere = _quantiles(popularity[None] ** 0.6)[0]
        self.length_cdf = _length_cdf(town)


def simulate_transit(records: int = TRANSIT.records, *, seed: int = 0) -> Records:
    """Passengers and the stations they used: 342 stations, 5.26 per passenger, at most 57.

    Args:
        records: How many passengers.
        seed: Draws the passengers; equal seeds give equal records.

    >>> simulate_transit(1000, seed=1) == simulate_transit(1000, seed=1)
    True
    """
    return concatenate(list(simulated_blocks(TRANSIT, records, seed)))


def simulate_cdr(records: int = CDR.records, *, seed: int = 0) -> Records:
    """Phone customers and the cell towers they were seen at: 1,303 towers, 11.42 per customer, at most 422.

    Args:
        records: How many customers.
        seed: Draws the customers; equal seeds give equal records.
    """
    return concatenate(list(simulated_blocks(CDR, records, seed)))


def town_domain(town: Town) -> Domain:
    """The public domain of a simulated city: its places, numbered."""
    return Domain((ItemSet(town.field, tuple(range(town.places))),))


def simulated_blocks(town: Town, records: int, seed: int) -> Iterator[Records]:
    """The records block by block, for constant memory."""
    whole(records=records, at_least=1)
    whole(seed=seed)
    city = City(town)
    for number, start in enumerate(range(0, records, PEOPLE_AT_ONCE)):
        block = simulated_block(town, number, seed, city)
        yield block.rows(0, records - start) if records - start < PEOPLE_AT_ONCE else block


def simulated_block(town: Town, number: int, seed: int = 0, city: "City | None" = None) -> Records:
    """One complete block of `simulated_blocks`, so that several processes can draw blocks."""
    rng = np.random.default_rng([seed, number, town.places])
    return _people(town, city or City(town), town_domain(town), rng)


def _quantiles(weights: NDArray[np.float64]) -> NDArray[np.int16]:
    """For every row of weights, the ids at equally spaced quantiles, so that an id is drawn by one look-up."""
    cumulative = np.cumsum(weights, axis=1)
    cumulative /= cumulative[:, -1:]
    middles = (np.arange(_SLOTS) + 0.5) / _SLOTS
    return np.stack([np.searchsorted(row, middles) for row in cumulative]).astype(np.int16)


def _length_cdf(town: Town) -> NDArray[np.float64]:
    """Distribution function of record lengths: log-normal, truncated, shifted to the town's mean by bisection."""
    logs = np.log(np.arange(1, town.longest + 1))
    low, high = -3.0, 6.0
    for _ in range(60):
        middle = (low + high) / 2
        weights = np.exp(-((logs - middle) ** 2) / (2 * town.length_spread**2) - logs)
        mean = float((weights * np.exp(logs)).sum() / weights.sum())
        low, high = (middle, high) if mean < town.mean_length else (low, middle)
    cdf: NDArray[np.float64] = np.cumsum(weights) / weights.sum()
    return cdf


def _people(town: Town, city: City, domain: Domain, rng: np.random.Generator) -> Records:
    """One block of people, each with a drawn number of distinct places."""
    lengths = np.searchsorted(city.length_cdf, rng.random(PEOPLE_AT_ONCE)) + 1
    lengths = np.minimum(lengths, town.longest)
    lengths[rng.integers(PEOPLE_AT_ONCE)] = town.longest  # so that the longest occurs in every block
    home = city.homes[rng.integers(_SLOTS, size=PEOPLE_AT_ONCE)]
    work = city.works[home, rng.integers(_SLOTS, size=PEOPLE_AT_ONCE)]
    community = city.community[home, rng.integers(_SLOTS, size=PEOPLE_AT_ONCE)]

    def draw(people: NDArray[np.int64], wander: float) -> NDArray[np.int16]:
        slot = rng.integers(_SLOTS, size=len(people))
        kind = np.searchsorted(_SHARES * (1 - wander), rng.random(len(people)))
        drawn: NDArray[np.int16] = city.anywhere[slot]
        for number, place in enumerate((home, work)):
            mask = kind == number
            drawn[mask] = city.near[place[people[mask]], slot[mask]]
        mask = kind == 2
        drawn[mask] = city.favourites[community[people[mask]], slot[mask]]
        return drawn

    everyone = np.arange(PEOPLE_AT_ONCE, dtype=np.int64)
    commuters = everyone[lengths > 1]
    keys = np.concatenate([everyone * town.places + home, commuters * town.places + work[commuters]])
    keys = _fill(sorted_distinct(keys), lengths, draw, town.places, rng)
    return Records(domain, row_pointers(lengths), (keys % town.places).astype(index_dtype(town.places)))


def _fill(
    keys: NDArray[np.int64],
    lengths: NDArray[np.int64],
    draw: Callable[[NDArray[np.int64], float], NDArray[np.int16]],
    places: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw until everyone has the required number of distinct places; later rounds have more long trips.

    A key is person * places + place.
    """
    done = []
    for number in range(_ROUNDS):
        owner = keys // places
        visited = np.bincount(owner, minlength=len(lengths))
        lacking = np.where(visited > 0, lengths - visited, 0)  # people without keys are complete already
        incomplete = lacking > 0
        done.append(keys[~incomplete[owner]])
        people = np.repeat(np.arange(len(lengths)), lacking)
        drawn = people * places + draw(people, min(1.0, number / (_ROUNDS - 2)))
        keys = sorted_distinct(np.concatenate([keys[incomplete[owner]], drawn]))
    starts = np.searchsorted(keys, np.arange(len(lengths) + 1) * places)
    for person in sorted_distinct(keys // places).tolist():
        own = keys[starts[person] : starts[person + 1]] - person * places
        if lengths[person] > len(own):
            free = np.setdiff1d(np.arange(places), own)
            more = rng.choice(free, int(lengths[person]) - len(own), replace=False)
            done.append(person * places + more)
    return np.sort(np.concatenate([*done, keys]))
