"""From released statistics to the targets of a fit: which ones, shrunk how far, weighted how much. Post-processing."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import comb, sqrt
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from dpgm.data.domain import Domain
from dpgm.products.fitting import FitSettings, fit_moments
from dpgm.products.measurement import Measurements, last_profile
from dpgm.products.model import Products
from dpgm.products.noisy_items import Reading, item_counts, read
from dpgm.products.noisy_lengths import Lengths, read_lengths
from dpgm.products.rules import FitRules, ProductRules
from dpgm.products.scaled_items import scaled_target
from dpgm.products.shrinkage import shrink, shrink_signed
from dpgm.products.targets import CentredTarget, LengthTarget, MomentTarget, Target, moments
from dpgm.statistics.centred_pairs import CentredPairs
from dpgm.statistics.enumerated_sets import STEPS
from dpgm.statistics.item_counts import ItemCounts
from dpgm.statistics.item_tuples import ItemTuples, pair_places
from dpgm.statistics.popular_lengths import PopularLengths
from dpgm.statistics.statistic import GRID, Measured, clip_steps

Floats: TypeAlias = NDArray[np.float64]


def fit_products(
    measurements: Measurements,
    domain: Domain,
    records: int,
    rules: ProductRules,
    *,
    generator: torch.Generator,
    progress: Callable[[float], None] | None = None,
) -> Products:
    """A mixture of products that shows the measured statistics. Post-processing: no data, no budget."""
    targets = moment_targets(measurements, domain, records, rules, generator=generator)
    return fit_moments(
        domain,
        records,
        targets.profile,
        targets.moments,
        targets.lengths,
        targets.rule,
        generator=generator,
        progress=progress,
    )


@dataclass(frozen=True)
class Targets:
    """What a generator should show, as far as it was measured, and how to fit it."""

    profile: torch.Tensor
    moments: tuple[Target, ...]
    lengths: LengthTarget | None
    rule: FitSettings


def moment_targets(
    measurements: Measurements, domain: Domain, records: int, rules: ProductRules, *, generator: torch.Generator
) -> Targets:
    """The measured counts, tuples shrunk toward what smaller sets suggest. Post-processing."""
    rule = rules.fit
    reading = read(measurements.lengths, domain, records, rules.read)
    profile = last_profile(measurements, reading, records, rules.read)
    narrow = domain.width <= rules.budget.narrow
    emphasis = rule.item_emphasis_narrow if narrow else rule.item_emphasis
    targets: list[Target] = []
    if measurements.scaled is None:
        assert measurements.items is not None
        targets.append(_item_target(measurements.items, reading, emphasis, rules))
    else:
        targets.append(scaled_target(measurements.scaled, records, emphasis, rules))
    lengths = None
    if reading.lengths is not None:
        lengths = _length_target(reading.lengths, measurements, domain, records, rules)
    table = not domain.item_positions.any() and not narrow
    fit = FitSettings(
        components=_components(domain.width, records, rule),
        steps=rule.steps_narrow if narrow else rule.steps_table if table else rule.steps,
        learning_rate=rule.learning_rate_narrow if narrow else rule.learning_rate,
        penalty=rule.penalty_narrow / records if narrow else _penalty(reading.whole, records, rule),
        misfit=rule.table_misfit if table else None,
        descent=rule.descent,
    )
    targets += _popular_targets(measurements.popular, records, rules)
    start = torch.from_numpy(profile).float()
    if measurements.centred is not None:
        targets.append(_centred_target(measurements.centred, profile, records, rules, shrunk=not table))
    for measured in measurements.tuples:
        if measured.statistic.order == 2:
            expected = (
                None if table else profile[measured.statistic.positions][measured.statistic.tuples].prod(axis=1)
            )
            targets.append(_tuple_target(measured, expected, profile, reading, records, rules))
    higher = [
        measured
        for measured in measurements.tuples
        if measured.statistic.order > 2 and (narrow or _items_within(measured, profile, reading) < rule.crowded)
    ]
    if higher:
        # What pairs alone suggest for larger sets: their noisy counts are shrunk toward it.
        brief = replace(fit, steps=fit.steps // 2)
        first = fit_moments(domain, records, start, targets, lengths, brief, generator=generator)
        targets += [
            _tuple_target(m, _predicted(first, m.statistic), profile, reading, records, rules) for m in higher
        ]
    return Targets(start, tuple(targets), lengths, fit)


def _items_within(measured: Measured[ItemTuples], profile: Floats, reading: Reading) -> float:
    """How many of the positions whose sets were counted a record holds on average."""
    law = reading.within(measured.statistic.positions, profile)
    return float(law @ np.arange(len(law)) / max(law.sum(), 1e-12))


def _penalty(law: Floats, records: int, rules: FitRules) -> float:
    """Mutual-information penalty: lower where records are long, since n items make n² / 2 pairs that may depend."""
    mean = float(law @ np.arange(len(law)) / max(law.sum(), 1e-12))
    level = min(rules.penalty, rules.penalty_records / records)
    return level * min(rules.most_penalty, (rules.penalty_length / max(mean, 1e-12)) ** 2)


def _components(width: int, records: int, rules: FitRules) -> int:
    """Many, since one component can show only one kind of record; fewer where wide domains or few records forbid."""
    affordable = min(
        float(np.clip(width, rules.components, rules.components_wide)),
        max(rules.least_affordable, rules.component_cells / width),
    )
    least = min(int(affordable), max(rules.least_components, records // rules.records_per_component))
    return int(np.clip(sqrt(records) / 2, least, max(rules.components, least)))


def _predicted(model: Products, sets: ItemTuples) -> Floats:
    """Share of the model's records that hold each of the sets."""
    chances = model.probabilities[:, torch.from_numpy(sets.positions)]
    whole, none = torch.ones(model.components), torch.zeros(model.components)
    predicted = moments(sets.order, chances, model.weights.float(), whole, none)
    return predicted[_places(sets)].double().numpy()


def _kept(order: int, cap: int, longest: int) -> torch.Tensor:
    return torch.from_numpy(clip_steps(longest, order, cap) * GRID).float()


def _room(law: Floats, size: int, rules: FitRules) -> int:
    """Longest record the fit reckons with: what was seen, and some room."""
    return int(min(size, len(law) + max(rules.room, len(law) // 2)))


def _item_target(
    items: Measured[ItemCounts], reading: Reading, emphasis: float, rules: ProductRules
) -> MomentTarget:
    longest = _room(reading.whole, items.statistic.domain.width, rules.fit)
    counts, stds = item_counts(items, rules.read)
    return MomentTarget(
        order=1,
        positions=torch.from_numpy(items.statistic.positions),
        kept=_kept(1, items.statistic.cap, longest),
        values=torch.from_numpy(counts).float(),
        variances=torch.from_numpy(stds**2).float(),
        emphasis=emphasis,
        tolerance=rules.fit.descent.tolerance,
    )


def _tuple_target(
    measured: Measured[ItemTuples],
    expected: Floats | None,
    profile: Floats,
    reading: Reading,
    records: int,
    rules: ProductRules,
) -> MomentTarget:
    """Counts shrunk toward what is expected of them, if anything."""
    sets = measured.statistic
    law = reading.within(sets.positions, profile)
    values, stds = measured.value.numpy(), np.full(len(measured.value), measured.std)
    if expected is not None:
        values, stds = _shrunk(measured, expected, law, records, rules)
    size = len(sets.positions)
    pairs = size * (size - 1) // 2
    shape = {2: (size, size), 3: (pairs, size), 4: (pairs, pairs)}[sets.order]
    where = _places(sets)
    target, variance = np.zeros(shape), np.full(shape, np.inf)
    target[where], variance[where] = values, stds**2
    return MomentTarget(
        order=sets.order,
        positions=torch.from_numpy(sets.positions),
        kept=_kept(sets.order, sets.cap, _room(law, size, rules.fit)),
        values=torch.from_numpy(target).float(),
        variances=torch.from_numpy(variance).float(),
        emphasis=_pair_emphasis(sets.domain, sets.positions, rules.fit) if sets.order == 2 else 1.0,
        tolerance=rules.fit.descent.tolerance,
    )


def _shrunk(
    measured: Measured[ItemTuples], expected: Floats, law: Floats, records: int, rules: ProductRules
) -> tuple[Floats, Floats]:
    """Counts shrunk toward what is expected of them, up to a factor that brings down-weighting to account."""
    sets, values = measured.statistic, measured.value.numpy()
    kept = clip_steps(len(law) - 1, sets.order, sets.cap) * GRID
    total = records * float(
        (law * kept) @ np.array([comb(n, sets.order) for n in range(len(law))], dtype=np.float64)
    )
    doubt = (measured.std**2 * len(values), (rules.fit.total_doubt * total) ** 2)
    total = max(float(values.sum() * doubt[1] + total * doubt[0]) / max(sum(doubt), 1e-9), rules.fit.least_total)
    expected = np.maximum(total * expected / max(float(expected.sum()), 1e-12), 1e-6)
    return shrink(values, measured.std, expected, rules.read.shrink)


def _pair_emphasis(domain: Domain, positions: NDArray[np.int64], rules: FitRules) -> torch.Tensor | float:
    """Pairs with the label of a table weigh more: what predicts it is worth more than entropy."""
    label = domain.label_positions[positions]
    if not label.any():
        return 1.0
    return torch.from_numpy(np.where(label[:, None] | label, rules.label_emphasis, 1.0)).float()


def _centred_target(
    measured: Measured[CentredPairs], profile: Floats, records: int, rules: ProductRules, *, shrunk: bool
) -> CentredTarget:
    """Centred sums; with `shrunk`, shrunk toward independence, whose sums are near 0."""
    sets = measured.statistic
    chances, offsets = profile[sets.positions], np.array(sets.offsets) / STEPS
    i, j = sets.tuples.T
    values, stds = measured.value.numpy(), np.full(len(i), measured.std)
    if shrunk:
        off, spread = chances - offsets, np.sqrt(chances * (1 - chances))
        values, stds = shrink_signed(
            values, measured.std, records * off[i] * off[j], records * spread[i] * spread[j], rules.read.shrink
        )
    shape = (len(chances), len(chances))
    target, variance = np.zeros(shape), np.full(shape, np.inf)
    target[i, j], variance[i, j] = values, stds**2
    return CentredTarget(
        positions=torch.from_numpy(sets.positions),
        owners=torch.from_numpy(np.unique(sets.domain.column_of[sets.positions], return_inverse=True)[1]),
        offsets=torch.from_numpy(offsets).float(),
        limit=sets.limit / STEPS**2,
        values=torch.from_numpy(target).float(),
        variances=torch.from_numpy(variance).float(),
        size=torch.from_numpy(records * np.outer(chances, chances)).float(),
        emphasis=1.0 if shrunk else _pair_emphasis(sets.domain, sets.positions, rules.fit),
        tolerance=rules.fit.descent.tolerance,
    )


def _places(sets: ItemTuples) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the sets stand in the matrices of `moments`."""
    listed = sets.tuples.T
    if sets.order == 2:
        return listed[0], listed[1]
    place = pair_places(len(sets.positions))
    return place[listed[0], listed[1]], listed[2] if sets.order == 3 else place[listed[2], listed[3]]


def _length_target(
    lengths: Lengths, measurements: Measurements, domain: Domain, records: int, rules: ProductRules
) -> LengthTarget:
    """Counts of lengths.

    Tens of thousands of pairs that are known very well would drown them, so they count the more, the smaller the noise
    of pairs.
    """
    pairs = [measured.std for measured in measurements.tuples if measured.statistic.order == 2]
    emphasis, most = 1.0, rules.fit.most_length_emphasis
    if pairs:
        noise = rules.fit.length_emphasis * max(pairs[0], 1e-9)
        emphasis = float(np.clip(rules.budget.sanity * records / noise, 1.0, most))
    return _counts_of_lengths(np.nonzero(domain.item_positions)[0], lengths, records, rules.fit, emphasis)


def _popular_targets(
    popular: Measured[PopularLengths] | None, records: int, rules: ProductRules
) -> list[LengthTarget]:
    """Counts of records by how many of the most popular items they hold."""
    if popular is None:
        return []
    return [
        _counts_of_lengths(
            np.array(group),
            read_lengths(noisy[: len(group) + 1], popular.std, records, rules.read, few=True),
            records,
            rules.fit,
        )
        for group, noisy in zip(popular.statistic.groups, popular.value.numpy(), strict=True)
    ]


def _counts_of_lengths(
    positions: NDArray[np.int64], lengths: Lengths, records: int, rules: FitRules, emphasis: float = 1.0
) -> LengthTarget:
    """Counts of records by the number of positions they hold; a few records in ten thousand do not matter.

    Else, where noise is small, a length that nobody has (the empty record) would cost more than all others together:
    products that are never empty are seldom short.
    """
    stds = np.maximum(lengths.stds, rules.length_tolerance * records)
    return LengthTarget(
        positions=torch.from_numpy(positions),
        groups=torch.from_numpy(lengths.groups),
        values=torch.from_numpy(lengths.counts).float(),
        variances=torch.from_numpy(stds**2).float(),
        emphasis=emphasis,
        tolerance=rules.descent.tolerance,
    )
