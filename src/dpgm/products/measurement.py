"""Measure low-order statistics once: what item sets and tables are generated from by default.

`measurement_spends` says what a plan must pay for, from public numbers alone. `measure` asks the gateway: record
lengths first, then item counts (a rough look, and where there are items alone a second one on scales that suit them),
then counts of pairs, triples and quadruples of the items that rank highest (or, instead of triples that cannot be
afforded, how many of these items records hold); how far long records are down-weighted, and whether pairs are centred,
follows from the values released before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import comb, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain
from dpgm.mechanisms.gateway import Gateway
from dpgm.privacy.calibration import Spend, gaussian_mu
from dpgm.products.bound_choice import SANITY, choose_cap, choose_limit, draw_likely, popular_sets
from dpgm.products.cell_measurement import lists_cells
from dpgm.products.reading import Reading, item_profile, read, retained
from dpgm.products.scaled_measurement import ScaledReading, read_scaled, scaled_items
from dpgm.statistics.cell_sets import STEPS, offsets_near
from dpgm.statistics.centred_pairs import CentredPairs
from dpgm.statistics.item_counts import ItemCounts
from dpgm.statistics.item_tuples import NAMES, ItemTuples
from dpgm.statistics.popular_lengths import NAME as POPULAR
from dpgm.statistics.popular_lengths import PopularLengths
from dpgm.statistics.record_lengths import RecordLengths, item_positions, record_lengths
from dpgm.statistics.scaled_items import NAME as SCALED
from dpgm.statistics.statistic import Measured, ask, clip_bound
from dpgm.strategy.protocol import PublicFacts

Floats: TypeAlias = NDArray[np.float64]

NARROW = 24  # up to so many positions, quadruples are measured
UNKNOWN_WIDTH = 1000  # planned for when no domain is given
_SUBSET = {2: 300, 3: 30, 4: NARROW}
_DENSE = 8  # items and columns a record, and more: pairs are centred if that promises
_CLEARLY = 0.7  # of the error that counts promise, or less
_ROUGH = 0.1  # of what item counts get: for the first look, by which they are scaled
_POPULAR = (30, 100)  # items, of which records hold so and so many; triples say that too, where they are measured
_POPULAR_SHARE = 0.04
_MORE_TRIPLES = 50  # where noise is far below what matters


@dataclass(frozen=True)
class Measurements:
    """Everything that was released: noisy values with the statistics they belong to."""

    lengths: Measured[RecordLengths] | None
    items: Measured[ItemCounts]
    tuples: tuple[Measured[ItemTuples], ...] = ()
    centred: Measured[CentredPairs] | None = None  # instead of pairs among the tuples, where records are dense
    scaled: ScaledReading | None = None  # the second look at items, and what it says
    popular: Measured[PopularLengths] | None = None  # where triples are not measured


def measurement_spends(facts: PublicFacts, *, share: float = 1.0, cells: bool = True) -> tuple[Spend, ...]:
    """What to measure and the share of the budget (mu²) for each, from public numbers; `share` in all.

    Triples pay when their noise (with the whole budget) is below 0.1 % of the records, or 0.4 % where all possible
    records are listed (`cells`: see `measure_cells`), but not for tables; quadruples when, besides, there are few
    positions.
    """
    domain, records = facts.domain, facts.records
    width = UNKNOWN_WIDTH if domain is None else domain.width
    free = width if domain is None else int(item_positions(domain).sum())
    columns = 0 if domain is None else sum(block.softmax for block in domain.blocks)
    sigma = 1 / gaussian_mu(facts.epsilon, facts.delta)
    order = 2 if width > 1 else 1
    listed = cells and domain is not None and lists_cells(domain)
    matters = SANITY * records * (4.0 if listed else min(1.0, 350 / width))  # centred sums have less noise
    few_or_items = free == width or width <= NARROW  # else pairs, centred, say more at any budget
    if width > 2 and few_or_items and sigma * sqrt(comb(max(6, columns), 3) / 0.35) <= matters:
        order = 3
    if order == 3 and 3 < width <= NARROW:
        order = 4
    first = 0.24 + 0.18 * min(1.0, width / 1000)  # the wider, the more numbers share the popular queries
    if free == width:  # up to about a hundred items, pairs are easily found
        first += 0.21 * min(1.0, max(0.0, 2 - width / 65))
    if free == width and not listed:  # the larger the noise beside what matters, the less pairs can be known
        first *= float(np.clip((sigma / (SANITY * records) / 0.12) ** (1 / 3), 1.0, 1.25))
    shares = {
        1: (0.03, 0.97),
        2: (0.03, first, 0.97 - first),
        3: (0.03, first, 0.42 * (0.97 - first), 0.58 * (0.97 - first)),
        4: (0.03, 0.45, 0.21, 0.165, 0.145) if listed else (0.03, 0.20, 0.24, 0.27, 0.26),
    }[order]
    names = ("record lengths", *(NAMES[n] for n in range(1, order + 1)))
    # Items alone: the first look at them is a rough one.
    if domain is not None and free == width and order > 1 and not listed:
        shares = (shares[0], _ROUGH * shares[1], (1 - _ROUGH) * shares[1], *shares[2:])
        names = (*names[:2], SCALED, *names[2:])
        if order == 2 and width > _POPULAR[0]:
            shares, names = (*shares, _POPULAR_SHARE), (*names, POPULAR)
    if free == 0:
        shares, names = shares[1:], names[1:]
    total = sum(shares)
    return tuple(Spend(name, share * part / total) for name, part in zip(names, shares, strict=True))


def measure(gateway: Gateway, domain: Domain, records: int, noises: Mapping[str, float]) -> Measurements:
    """Release every statistic the plan pays for.

    Args:
        gateway: the door to the private rows.
        domain: the public domain.
        records: the public number of records.
        noises: multiplier of every mechanism of the plan; statistics that are not named are not measured.
    """
    lengths = None
    if "record lengths" in noises:
        asked = record_lengths(domain)
        lengths = ask(gateway, asked, noises[asked.name])
    reading = read(lengths, domain, records)
    noise = noises["item counts"]
    law = reading.whole
    zipf = 1 / (np.arange(domain.width) + 3.0)  # the popularity law assumed before anything is known
    guess = np.minimum(zipf / zipf.sum() * (law @ np.arange(len(law))), 1.0)
    items = ask(gateway, ItemCounts(domain, choose_cap(1, law, guess, records, noise)[0]), noise)
    profile, ranking = item_profile(items, reading, records), items.value.numpy()
    scaled = None
    if SCALED in noises:
        released = ask(gateway, scaled_items(profile, reading, records, noises[SCALED]), noises[SCALED])
        scaled = read_scaled(released, profile, reading, records)
        profile = ranking = scaled.profile
    ranks = np.argsort(-ranking, kind="stable")
    popular = None
    if POPULAR in noises:
        groups = tuple(tuple(ranks[:size].tolist()) for size in _POPULAR if size < domain.width)
        groups = groups or (tuple(ranks.tolist()),)  # discovery may find fewer items than were planned for
        popular = ask(gateway, PopularLengths(domain, groups), noises[POPULAR])
    orders = [order for order in _SUBSET if NAMES[order] in noises]
    tuples: list[Measured[ItemTuples]] = []
    centred = None
    for order in orders:
        noise, size = noises[NAMES[order]], _SUBSET[order]
        if order == 3 and noise * clip_bound(3, 6) <= 0.25 * SANITY * records:
            size = _MORE_TRIPLES
        chosen = ranks[: min(size, domain.width)]
        law = reading.within(chosen, profile)
        cap, cost = choose_cap(order, law, profile[chosen], records, noise)
        if order == 2 and law @ np.arange(len(law)) >= _DENSE:
            pairs, centred_cost = _centred_pairs(np.sort(chosen), law, profile, reading, records, noise)
            if centred_cost < _CLEARLY * cost:
                centred = ask(gateway, pairs, noise)
                continue
        sets = ItemTuples(domain, tuple(int(position) for position in chosen), order, cap)
        tuples.append(ask(gateway, sets, noise))
    return Measurements(lengths, items, tuple(tuples), centred, scaled, popular)


def _centred_pairs(
    chosen: NDArray[np.int64], law: Floats, profile: Floats, reading: Reading, records: int, noise: float
) -> tuple[CentredPairs, float]:
    """Centred sums of the pairs out of chosen positions, and what they cost in error (see `choose_cap`)."""
    domain, offsets = reading.domain, offsets_near(profile[chosen])
    items = law[reading.columns_within(chosen) :]  # without the columns, of which each record has all
    sizes = draw_likely(np.array(offsets) / STEPS, chosen, profile, items, domain).sizes
    expected, yardstick = popular_sets(2, law, profile[chosen], records)
    limit, cost = choose_limit(sizes, expected, yardstick, noise)
    steps = max(1, round(limit * STEPS**2))
    return CentredPairs(domain, tuple(int(position) for position in chosen), offsets, steps), cost


@dataclass(frozen=True)
class Profile:
    """Noisy item frequencies, and how records were down-weighted to measure them."""

    frequencies: Floats
    cap: int
    retained: float


def measured_profile(measured: Measurements, domain: Domain, records: int) -> Profile:
    """What record lengths and item counts say: the profile a mixture of networks starts from."""
    reading = read(measured.lengths, domain, records)
    cap, kept = measured.items.statistic.cap, retained(measured.items, reading)
    return Profile(last_profile(measured, reading, records), cap, kept)


def last_profile(measured: Measurements, reading: Reading, records: int) -> Floats:
    """Share of the records that hold each position, by the last look at them."""
    return item_profile(measured.items, reading, records) if measured.scaled is None else measured.scaled.profile
