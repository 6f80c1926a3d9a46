"""Measure low-order statistics once, then fit a mixture of products to them: the default for item sets and tables.

`measurement_spends` says what a plan must pay for, from public numbers alone. `measure` asks the gateway: record
lengths first, then item counts (a rough look, and where there are items alone a second one on scales that suit them),
then counts of pairs, triples and quadruples of the items that rank highest; how far long records are down-weighted,
and whether pairs are centred, follows from the values released before. `fit_products` is post-processing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import comb, sqrt
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from dpgm.data.domain import Domain
from dpgm.mechanisms.gateway import Gateway
from dpgm.models.products import Products
from dpgm.privacy.calibration import Spend, gaussian_mu
from dpgm.statistics.cell_sets import STEPS, offsets_near
from dpgm.statistics.centred_pairs import CentredPairs
from dpgm.statistics.item_counts import ItemCounts
from dpgm.statistics.item_tuples import NAMES, ItemTuples, column_of, pair_places
from dpgm.statistics.record_lengths import RecordLengths, item_positions, record_lengths
from dpgm.statistics.scaled_items import NAME as SCALED
from dpgm.statistics.statistic import GRID, Measured, ask, clip_bound, clip_steps
from dpgm.synthesis.bound_choice import (
    SANITY,
    choose_cap,
    choose_limit,
    likely_records_of,
    popular_sets,
)
from dpgm.synthesis.cell_measurement import lists_cells
from dpgm.synthesis.length_histogram import Lengths
from dpgm.synthesis.reading import Reading, item_counts, item_profile, read, retained
from dpgm.synthesis.scaled_measurement import ScaledReading, read_scaled, scaled_items, scaled_target
from dpgm.training.refinement import FitRule, fit_moments
from dpgm.training.shrinkage import shrink, shrink_signed
from dpgm.training.targets import CentredTarget, LengthTarget, MomentTarget, Target, moments

Floats: TypeAlias = NDArray[np.float64]

NARROW = 24  # up to so many positions, quadruples are measured
UNKNOWN_WIDTH = 1000  # planned for when no domain is given
_SUBSET = {2: 300, 3: 30, 4: NARROW}
_DENSE = 8  # items and columns a record, and more: pairs are centred if that promises
_CLEARLY = 0.7  # of the error that counts promise, or less
_ROUGH = 0.1  # of what item counts get: for the first look, by which they are scaled
_CROWDED = 15  # items a record of those whose triples were counted, and more: the fit to triples comes to no end
_FEW = 0.0003  # share of the records by which counts of lengths may be off
_MORE_TRIPLES = 50  # where noise is far below what matters


@dataclass(frozen=True)
class Measurements:
    """Everything that was released: noisy values with the statistics they belong to."""

    lengths: Measured[RecordLengths] | None
    items: Measured[ItemCounts]
    tuples: tuple[Measured[ItemTuples], ...] = ()
    centred: Measured[CentredPairs] | None = None  # instead of pairs among the tuples, where records are dense
    scaled: ScaledReading | None = None  # the second look at items, and what it says


def measurement_spends(
    domain: Domain | None, records: int, epsilon: float, delta: float, *, share: float = 1.0, cells: bool = True
) -> tuple[Spend, ...]:
    """What to measure and the share of the budget (mu²) for each, from public numbers; `share` in all.

    Triples pay when their noise (with the whole budget) is below 0.1 % of the records, or 0.4 % where all possible
    records are listed (`cells`: see `measure_cells`), but not for tables; quadruples when, besides, there are few
    positions.
    """
    width = UNKNOWN_WIDTH if domain is None else domain.width
    free = width if domain is None else int(item_positions(domain).sum())
    columns = 0 if domain is None else sum(block.softmax for block in domain.blocks)
    sigma = 1 / gaussian_mu(epsilon, delta)
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
    shares = {
        1: (0.03, 0.97),
        2: (0.03, first, 0.97 - first),
        3: (0.03, first, 0.42 * (0.97 - first), 0.58 * (0.97 - first)),
        4: (0.03, 0.45, 0.21, 0.165, 0.145) if listed else (0.03, 0.20, 0.24, 0.27, 0.26),
    }[order]
    names = ("record lengths", *(NAMES[n] for n in range(1, order + 1)))
    if (
        domain is not None and free == width and order > 1 and not listed
    ):  # items alone: the first look is a rough one
        shares = (shares[0], _ROUGH * shares[1], (1 - _ROUGH) * shares[1], *shares[2:])
        names = (*names[:2], SCALED, *names[2:])
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
    ranks = 1 / (np.arange(domain.width) + 3.0)  # the popularity law assumed before anything is known
    guess = np.minimum(ranks / ranks.sum() * (law @ np.arange(len(law))), 1.0)
    items = ask(gateway, ItemCounts(domain, choose_cap(1, law, guess, records, noise)[0]), noise)
    profile, ranking = item_profile(items, reading, records), items.value.numpy()
    scaled = None
    if SCALED in noises:
        released = ask(gateway, scaled_items(profile, reading, records, noises[SCALED]), noises[SCALED])
        scaled = read_scaled(released, profile, reading, records)
        profile = ranking = scaled.profile
    orders = [order for order in _SUBSET if NAMES[order] in noises]
    tuples: list[Measured[ItemTuples]] = []
    centred = None
    for order in orders:
        noise, size = noises[NAMES[order]], _SUBSET[order]
        if order == 3 and noise * clip_bound(3, 6) <= 0.25 * SANITY * records:
            size = _MORE_TRIPLES
        chosen = np.argsort(-ranking, kind="stable")[: min(size, domain.width)]
        law = reading.within(chosen, profile)
        cap, cost = choose_cap(order, law, profile[chosen], records, noise)
        if order == 2 and law @ np.arange(len(law)) >= _DENSE:
            pairs, centred_cost = _centred_pairs(np.sort(chosen), law, profile, reading, records, noise)
            if centred_cost < _CLEARLY * cost:
                centred = ask(gateway, pairs, noise)
                continue
        sets = ItemTuples(domain, tuple(int(position) for position in chosen), order, cap)
        tuples.append(ask(gateway, sets, noise))
    return Measurements(lengths, items, tuple(tuples), centred, scaled)


def _centred_pairs(
    chosen: NDArray[np.int64], law: Floats, profile: Floats, reading: Reading, records: int, noise: float
) -> tuple[CentredPairs, float]:
    """Centred sums of the pairs out of chosen positions, and what they cost in error (see `choose_cap`)."""
    domain, offsets = reading.domain, offsets_near(profile[chosen])
    items = law[reading.columns_within(chosen) :]  # without the columns, of which each record has all
    sizes = likely_records_of(np.array(offsets) / STEPS, chosen, profile, items, domain).sizes
    expected, yardstick = popular_sets(2, law, profile[chosen], records)
    limit, cost = choose_limit(sizes, expected, yardstick, noise)
    steps = max(1, round(limit * STEPS**2))
    return CentredPairs(domain, tuple(int(position) for position in chosen), offsets, steps), cost


def fit_products(
    measurements: Measurements,
    domain: Domain,
    records: int,
    *,
    generator: torch.Generator,
    progress: Callable[[float], None] | None = None,
) -> Products:
    """A mixture of products that shows the measured statistics. Post-processing: no data, no budget."""
    wanted = moment_targets(measurements, domain, records, generator=generator)
    return fit_moments(
        domain,
        records,
        wanted.profile,
        wanted.moments,
        wanted.lengths,
        wanted.rule,
        generator=generator,
        progress=progress,
    )


@dataclass(frozen=True)
class Targets:
    """What a generator should show, as far as it was measured, and how to fit it."""

    profile: torch.Tensor
    moments: tuple[Target, ...]
    lengths: LengthTarget | None
    rule: FitRule


def moment_targets(
    measurements: Measurements, domain: Domain, records: int, *, generator: torch.Generator
) -> Targets:
    """The measured counts, tuples shrunk toward what smaller sets suggest. Post-processing."""
    reading = read(measurements.lengths, domain, records)
    profile = _profile(measurements, reading, records)
    narrow = domain.width <= NARROW
    emphasis = 3.0 if narrow else 30.0
    targets: list[Target] = []
    if measurements.scaled is None:
        targets.append(_item_target(measurements.items, reading, emphasis))
    else:
        targets.append(scaled_target(measurements.scaled, records, emphasis))
    lengths = None if reading.lengths is None else _length_target(reading.lengths, measurements, records)
    rule = FitRule(
        components=_components(domain.width, records),
        steps=2000 if narrow else 800,
        learning_rate=0.2 if narrow else 0.1,
        coupling=300 / records if narrow else _coupling(reading.whole, records),
    )
    start = torch.from_numpy(profile).float()
    if measurements.centred is not None:
        targets.append(_centred_target(measurements.centred, profile, records))
    for measured in measurements.tuples:
        if measured.statistic.order == 2:
            expected = profile[measured.statistic.positions][measured.statistic.tuples].prod(axis=1)
            targets.append(_tuple_target(measured, expected, profile, reading, records))
    higher = [
        measured
        for measured in measurements.tuples
        if measured.statistic.order > 2 and (narrow or _items_within(measured, profile, reading) < _CROWDED)
    ]
    if higher:
        # What pairs alone suggest for larger sets: their noisy counts are shrunk toward it.
        brief = replace(rule, steps=rule.steps // 2)
        first = fit_moments(domain, records, start, targets, lengths, brief, generator=generator)
        targets += [_tuple_target(m, _shown(first, m.statistic), profile, reading, records) for m in higher]
    return Targets(start, tuple(targets), lengths, rule)


def _items_within(measured: Measured[ItemTuples], profile: Floats, reading: Reading) -> float:
    """How many of the positions whose sets were counted a record holds on average."""
    law = reading.within(measured.statistic.positions, profile)
    return float(law @ np.arange(len(law)) / max(law.sum(), 1e-12))


def _coupling(law: Floats, records: int) -> float:
    """The price of dependence: lower where records are long, since n items make n² / 2 pairs that may depend."""
    mean = float(law @ np.arange(len(law)) / max(law.sum(), 1e-12))
    return min(0.02, 3000 / records) * min(2.0, (5 / max(mean, 1e-12)) ** 2)


def _components(width: int, records: int) -> int:
    """Many, since one component can show only one kind of record; fewer where wide domains or few records forbid."""
    affordable = np.clip(120_000 / width, min(250.0, 400_000 / width), 400.0)
    least = min(int(max(affordable, 100)), max(4, records // 20))
    return int(np.clip(sqrt(records) / 2, least, 400))


def _shown(model: Products, sets: ItemTuples) -> Floats:
    """Share of the model's records that hold each of the sets."""
    chances = model.probabilities[:, torch.from_numpy(sets.positions)]
    whole, none = torch.ones(model.components), torch.zeros(model.components)
    shown = moments(sets.order, chances, model.weights.float(), whole, none)
    return shown[_places(sets)].double().numpy()


def _kept(order: int, cap: int, longest: int) -> torch.Tensor:
    return torch.from_numpy(clip_steps(longest, order, cap) * GRID).float()


def _room(law: Floats, size: int) -> int:
    """Longest record the fit reckons with: what was seen, and some room."""
    return int(min(size, len(law) + max(16, len(law) // 2)))


def _item_target(items: Measured[ItemCounts], reading: Reading, emphasis: float) -> MomentTarget:
    longest = _room(reading.whole, items.statistic.domain.width)
    counts, stds = item_counts(items)
    return MomentTarget(
        order=1,
        positions=torch.from_numpy(items.statistic.positions),
        kept=_kept(1, items.statistic.cap, longest),
        values=torch.from_numpy(counts).float(),
        variances=torch.from_numpy(stds**2).float(),
        emphasis=emphasis,
    )


def _tuple_target(
    measured: Measured[ItemTuples], expected: Floats, profile: Floats, reading: Reading, records: int
) -> MomentTarget:
    """Counts shrunk toward what is expected of them, up to a factor that brings down-weighting to account."""
    sets = measured.statistic
    law = reading.within(sets.positions, profile)
    values = measured.value.numpy()
    kept = clip_steps(len(law) - 1, sets.order, sets.cap) * GRID
    total = records * float(
        (law * kept) @ np.array([comb(n, sets.order) for n in range(len(law))], dtype=np.float64)
    )
    doubt = (measured.std**2 * len(values), (0.1 * total) ** 2)
    total = max(float(values.sum() * doubt[1] + total * doubt[0]) / max(sum(doubt), 1e-9), 1e-3)
    expected = np.maximum(total * expected / max(float(expected.sum()), 1e-12), 1e-6)
    values, stds = shrink(values, measured.std, expected)
    size = len(sets.positions)
    pairs = size * (size - 1) // 2
    shape = {2: (size, size), 3: (pairs, size), 4: (pairs, pairs)}[sets.order]
    where = _places(sets)
    target, variance = np.zeros(shape), np.full(shape, np.inf)
    target[where], variance[where] = values, stds**2
    return MomentTarget(
        order=sets.order,
        positions=torch.from_numpy(sets.positions),
        kept=_kept(sets.order, sets.cap, _room(law, size)),
        values=torch.from_numpy(target).float(),
        variances=torch.from_numpy(variance).float(),
    )


def _centred_target(measured: Measured[CentredPairs], profile: Floats, records: int) -> CentredTarget:
    """Centred sums shrunk toward independence, whose sums are near 0."""
    sets = measured.statistic
    chances, offsets = profile[sets.positions], np.array(sets.offsets) / STEPS
    i, j = sets.tuples.T
    off, spread = chances - offsets, np.sqrt(chances * (1 - chances))
    values, stds = shrink_signed(
        measured.value.numpy(), measured.std, records * off[i] * off[j], records * spread[i] * spread[j]
    )
    shape = (len(chances), len(chances))
    target, variance = np.zeros(shape), np.full(shape, np.inf)
    target[i, j], variance[i, j] = values, stds**2
    return CentredTarget(
        positions=torch.from_numpy(sets.positions),
        owners=torch.from_numpy(np.unique(column_of(sets.domain)[sets.positions], return_inverse=True)[1]),
        offsets=torch.from_numpy(offsets).float(),
        limit=sets.limit / STEPS**2,
        values=torch.from_numpy(target).float(),
        variances=torch.from_numpy(variance).float(),
        size=torch.from_numpy(records * np.outer(chances, chances)).float(),
    )


def _places(sets: ItemTuples) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the sets stand in the matrices of `moments`."""
    listed = sets.tuples.T
    if sets.order == 2:
        return listed[0], listed[1]
    place = pair_places(len(sets.positions))
    return place[listed[0], listed[1]], listed[2] if sets.order == 3 else place[listed[2], listed[3]]


def _length_target(lengths: Lengths, measurements: Measurements, records: int) -> LengthTarget:
    """Counts of lengths; a few records in ten thousand do not matter.

    Else, where noise is small, a length that nobody has (the empty record) would cost more than all others together:
    products that are never empty are seldom short. On the other hand, tens of thousands of pairs that are known very
    well would drown the lengths, which count the more, the smaller the noise of pairs.
    """
    stds = np.maximum(lengths.stds, _FEW * records)
    pairs = [measured.std for measured in measurements.tuples if measured.statistic.order == 2]
    return LengthTarget(
        groups=torch.from_numpy(lengths.groups),
        values=torch.from_numpy(lengths.counts).float(),
        variances=torch.from_numpy(stds**2).float(),
        emphasis=float(np.clip(SANITY * records / (3 * max(pairs[0], 1e-9)), 1.0, 5.0)) if pairs else 1.0,
    )


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
    return Profile(_profile(measured, reading, records), cap, kept)


def _profile(measured: Measurements, reading: Reading, records: int) -> Floats:
    """Share of the records that hold each position, by the last look at them."""
    return item_profile(measured.items, reading, records) if measured.scaled is None else measured.scaled.profile
