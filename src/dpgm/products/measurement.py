"""Measure low-order statistics once: what item sets and tables are generated from by default.

`measurement_spends` says what a plan must pay for, from public numbers alone. `measure` asks the gateway: record
lengths first, then item counts (in two stages where there are items alone: a pilot, then counts scaled by it), then
counts of pairs, triples and quadruples of the most popular items. Where triples cannot be afforded it measures how many
of these items records hold instead. How far long records are down-weighted, and whether pairs are centred, follows from
the values released before. `moment_targets` makes targets of a fit of it: which, shrunk how far, weighted how much.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import comb, sqrt

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.mechanisms.gateway import Gateway
from dpgm.privacy.calibration import Spend, gaussian_mu
from dpgm.products.enumerated import is_enumerated
from dpgm.products.fitting import FitSettings, Targets, fit_moments
from dpgm.products.rules import FitRules, ProductRules
from dpgm.statistics.centred_pairs import CentredPairs, centred_target
from dpgm.statistics.item_counts import (
    ITEMS,
    ItemCounts,
    choose_cap,
    clip_bound,
    item_profile,
    item_target,
    pilot_profile,
)
from dpgm.statistics.item_tuples import NAMES, ItemTuples, tuple_target
from dpgm.statistics.record_lengths import (
    LENGTHS,
    POPULAR,
    Known,
    PopularLengths,
    RecordLengths,
    length_target,
    mean_length,
    popular_targets,
)
from dpgm.statistics.scaled_items import SCALED, ScaledItems, ScaledReading, ask_table, read_scaled, scaled_target
from dpgm.statistics.statistic import Expected, Floats, Ints, Measured, Target, ask
from dpgm.strategy.protocol import PublicFacts


@dataclass(frozen=True)
class Measurements:
    """Everything that was released: noisy values with the statistics they belong to."""

    known: Known  # the lengths of records among it
    profile: Floats  # share of the records that hold each position, by the last release of item counts
    items: Measured[ItemCounts] | None  # none where discovery has released noisy sums of all items
    tuples: tuple[Measured[ItemTuples], ...] = ()
    centred: Measured[CentredPairs] | None = None  # instead of pairs among the tuples, where records are dense
    scaled: ScaledReading | None = None  # the second stage of item counts
    popular: Measured[PopularLengths] | None = None  # where triples are not measured


def measurement_spends(
    facts: PublicFacts,
    rules: ProductRules,
    *,
    share: float = 1.0,
    enumerate_few: bool = True,
    piloted: bool = False,
) -> tuple[Spend, ...]:
    """What to measure and the share of the budget (mu²) for each, from public numbers; `share` in all.

    Triples pay when their noise (with the whole budget) is below what matters, but not for tables; quadruples when,
    besides, there are few positions. With `enumerate_few`, few items have all possible records enumerated.
    `piloted`: discovery releases noisy sums of all items, so that no pilot release of their counts is needed.
    """
    domain, records, rule = facts.domain, facts.records, rules.budget
    width = rule.unknown_width if domain is None else domain.width
    free = width if domain is None else int(domain.item_positions.sum())
    columns = 0 if domain is None else len(domain.table_columns)
    sigma = facts.rows_per_person / gaussian_mu(facts.epsilon, facts.delta)
    enumerated = enumerate_few and domain is not None and is_enumerated(domain, rules.enumerated)
    order = _largest_sets(width, free, columns, sigma, records, enumerated, rules)
    first = _item_share(width, free, sigma, records, enumerated, rules)
    left = 1 - rule.lengths - first
    shares: tuple[float, ...] = {
        1: (rule.lengths, 1 - rule.lengths),
        2: (rule.lengths, first, left),
        3: (rule.lengths, first, rule.pairs_beside_triples * left, (1 - rule.pairs_beside_triples) * left),
        4: rule.quadruples_enumerated if enumerated else rule.quadruples,
    }[order]
    parts = dict(zip((LENGTHS, *(NAMES[n] for n in range(1, order + 1))), shares, strict=True))
    # Items alone: a pilot release of their counts, then scaled counts.
    if domain is not None and free == width and order > 1 and not enumerated:
        pilot = {} if piloted else {ITEMS: rule.pilot * parts[ITEMS]}
        scaled = {SCALED: parts.pop(ITEMS) - sum(pilot.values())}
        parts = {LENGTHS: parts.pop(LENGTHS)} | pilot | scaled | parts
        if order == 2 and width > rule.popular_groups[0]:
            parts[POPULAR] = rule.popular
    if free == 0:
        del parts[LENGTHS]
    total = sum(parts.values())
    return tuple(Spend(name, share * part / total) for name, part in parts.items())


def _largest_sets(
    width: int, free: int, columns: int, sigma: float, records: int, enumerated: bool, rules: ProductRules
) -> int:
    """The number of positions of the largest sets that are measured."""
    rule = rules.budget
    if free == 0 and columns == 1:
        return 1  # of one column there are no pairs
    matters = rules.sanity * records
    matters *= rule.enumerated_tolerance if enumerated else min(1.0, rule.triple_width / width)
    few_or_items = free == width or width <= rule.narrow  # else pairs, centred, say more at any budget
    noise = sigma * sqrt(comb(max(rule.triple_items, columns), 3) / rule.triple_share)
    if width > 2 and few_or_items and noise <= matters:
        return 4 if 3 < width <= rule.narrow else 3
    return 2 if width > 1 else 1


def _item_share(width: int, free: int, sigma: float, records: int, enumerated: bool, rules: ProductRules) -> float:
    """The share of item counts; the wider, the more numbers share the popular queries."""
    rule = rules.budget
    share = rule.items + rule.items_wide * min(1.0, width / rule.wide)
    if free == width:  # up to about a hundred items, pairs are easily found
        share += rule.items_few * min(1.0, max(0.0, 2 - width / rule.few_items))
    if free == width and not enumerated:  # the larger the noise beside what matters, the less pairs can be known
        noise = sigma / (rules.sanity * records) / rule.knowable
        share *= float(np.clip(noise**rule.knowable_power, 1.0, rule.most_items))
    return share


def measure(
    gateway: Gateway,
    domain: Domain,
    records: int,
    noises: Mapping[str, float],
    rules: ProductRules,
    pilot: Floats | None = None,
    *,
    device: str = "cpu",
) -> Measurements:
    """Release every statistic that `noises` names, the mechanisms of the plan with their multipliers.

    `pilot` has a noisy sum of every item that was released before: instead of item counts, where these are not named.
    """
    lengths = ask(gateway, RecordLengths(domain), noises[LENGTHS]) if LENGTHS in noises else None
    known = Known.read(lengths, domain, records, rules)
    items = scaled = popular = centred = None
    if ITEMS in noises:
        if domain.item_positions.any():
            items = ask(gateway, ItemCounts.choose(known, noises[ITEMS]), noises[ITEMS])
        else:
            items = ask_table(gateway, domain, records, noises[ITEMS])
        profile, ranking = item_profile(items, known), items.value.numpy()
    else:
        assert pilot is not None
        profile = ranking = pilot_profile(pilot, known)
    if SCALED in noises:
        released = ask(gateway, ScaledItems.choose(profile, known, noises[SCALED]), noises[SCALED])
        scaled = read_scaled(released, profile, known)
        profile = ranking = scaled.profile
    ranks = np.argsort(-ranking, kind="stable")
    if POPULAR in noises:
        popular = ask(gateway, PopularLengths.of(domain, ranks, rules.budget.popular_groups), noises[POPULAR])
    tuples: list[Measured[ItemTuples]] = []
    for order in (order for order in (2, 3, 4) if NAMES[order] in noises):
        noise = noises[NAMES[order]]
        chosen = ranks[: min(tracked(order, noise, records, rules), domain.width)]
        within = known.within(chosen, profile)
        cap, cost = choose_cap(order, within, profile[chosen], known, noise)
        if order == 2 and mean_length(within) >= rules.bound.dense:
            pairs, centred_cost = CentredPairs.choose(np.sort(chosen), within, profile, known, noise)
            if centred_cost < rules.bound.centred_gain * cost:
                centred = ask(gateway, replace(pairs, device=device), noise)
                continue
        tuples.append(ask(gateway, ItemTuples(domain, tuple(chosen.tolist()), order, cap, device), noise))
    return Measurements(known, profile, items, tuple(tuples), centred, scaled, popular)


def tracked(order: int, noise: float, records: int, rules: ProductRules) -> int:
    """Positions whose sets of `order` are counted."""
    budget = rules.budget
    enough = budget.more_triples_below * rules.sanity * records
    if order == 3 and noise * clip_bound(3, budget.triple_items) <= enough:
        return budget.more_triple_positions
    return {2: budget.pair_positions, 3: budget.triple_positions, 4: budget.narrow}[order]


# -- from released statistics to the targets of a fit --------------------------------------------------------------


def moment_targets(
    measurements: Measurements, rules: ProductRules, *, generator: torch.Generator, device: str = "cpu"
) -> Targets:
    """The measured counts, tuples shrunk toward what smaller sets suggest. Post-processing."""
    rule, known, profile = rules.fit, measurements.known, measurements.profile
    domain, records = known.domain, known.records
    narrow = domain.width <= rules.budget.narrow
    table = not domain.item_positions.any() and not narrow
    emphasis = rule.item_emphasis_narrow if narrow else rule.item_emphasis
    targets: list[Target[Expected]] = []
    if measurements.scaled is None:
        assert measurements.items is not None
        targets.append(item_target(measurements.items, known, emphasis))
    else:
        targets.append(scaled_target(measurements.scaled, known, emphasis))
    lengths = None
    if known.lengths is not None:
        items = np.nonzero(domain.item_positions)[0]
        lengths = length_target(items, known.lengths, known, _length_emphasis(measurements, records, rules))
    if measurements.popular is not None:
        targets += popular_targets(measurements.popular, known)
    if measurements.centred is not None:
        positions = measurements.centred.statistic.positions
        emphasis_of_pairs = _pair_emphasis(domain, positions, rule) if table else 1.0
        targets.append(centred_target(measurements.centred, profile, known, emphasis_of_pairs, shrunk=not table))
    larger = []
    for measured in measurements.tuples:
        sets = measured.statistic
        within = known.within(sets.positions, profile)
        if sets.order == 2:
            expected = None if table else profile[sets.positions][sets.tuples].prod(axis=1)
            emphasis_of_pairs = _pair_emphasis(domain, sets.positions, rule)
            targets.append(tuple_target(measured, expected, within, known, emphasis_of_pairs))
        elif narrow or mean_length(within) < rule.crowded:
            larger.append((measured, within))
    # Where nothing but single values is measured nothing is left open that entropy should decide.
    pairs = measurements.centred is not None or bool(measurements.tuples)
    fit = _fit_settings(known, narrow, table and pairs, rule)
    start = torch.from_numpy(profile).float()
    if larger:
        # What pairs alone suggest for larger sets: their noisy counts are shrunk toward it.
        brief = replace(fit, steps=fit.steps // 2)
        first = fit_moments(
            domain, records, Targets(start, targets, lengths, brief), generator=generator, device=device
        )
        for measured, within in larger:
            expected = measured.statistic.shares(first.probabilities, first.weights.float())
            targets.append(tuple_target(measured, expected, within, known, 1.0))
    return Targets(start, tuple(targets), lengths, fit)


def _fit_settings(known: Known, narrow: bool, table: bool, rule: FitRules) -> FitSettings:
    """How to fit: from the width of the domain and the lengths of records."""
    records = known.records
    return FitSettings(
        components=component_count(known.domain.width, records, rule),
        steps=rule.steps_narrow if narrow else rule.steps_table if table else rule.steps,
        learning_rate=rule.learning_rate_narrow if narrow else rule.learning_rate,
        penalty=rule.penalty_narrow / records if narrow else _penalty(known.whole, records, rule),
        misfit=rule.table_misfit if table else None,
        profile_rounds=rule.profile_rounds,
        descent=rule.descent,
    )


def _penalty(lengths: Floats, records: int, rules: FitRules) -> float:
    """Mutual-information penalty: lower where records are long, since n items make n² / 2 pairs that may depend."""
    level = min(rules.penalty, rules.penalty_records / records)
    return level * min(rules.most_penalty, (rules.penalty_length / max(mean_length(lengths), 1e-12)) ** 2)


def component_count(width: int, records: int, rules: FitRules) -> int:
    """Many, since one component can show only one kind of record; fewer where wide domains or few records forbid."""
    affordable = min(
        float(np.clip(width, rules.components, rules.components_wide)),
        max(rules.least_affordable, rules.component_cells / width),
    )
    least = min(int(affordable), max(rules.least_components, records // rules.records_per_component))
    return int(np.clip(sqrt(records) / 2, least, max(rules.components, least)))


def _pair_emphasis(domain: Domain, positions: Ints, rules: FitRules) -> Tensor | float:
    """Pairs with the label of a table weigh more: what predicts it is worth more than entropy."""
    label = domain.label_positions[positions]
    if not label.any():
        return 1.0
    return torch.from_numpy(np.where(label[:, None] | label, rules.label_emphasis, 1.0)).float()


def _length_emphasis(measurements: Measurements, records: int, rules: ProductRules) -> float:
    """Weight of the counts of lengths: the larger, the smaller the noise of pairs.

    Tens of thousands of pairs that are known very well would drown them.
    """
    pairs = [measured.std for measured in measurements.tuples if measured.statistic.order == 2]
    if not pairs:
        return 1.0
    noise = rules.fit.length_emphasis * max(pairs[0], 1e-9)
    return float(np.clip(rules.sanity * records / noise, 1.0, rules.fit.most_length_emphasis))
