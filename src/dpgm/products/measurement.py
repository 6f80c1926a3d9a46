"""Measure low-order statistics once: what item sets and tables are generated from by default.

`measurement_spends` says what a plan must pay for, from public numbers alone. `measure` asks the gateway: record
lengths first, then item counts (in two stages where there are items alone: a pilot, then counts scaled by it), then
counts of pairs, triples and quadruples of the most popular items. Where triples cannot be afforded it measures how many
of these items records hold instead. How far long records are down-weighted, and whether pairs are centred, follows from
the values released before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import comb, sqrt

import numpy as np

from dpgm.data.domain import Domain
from dpgm.mechanisms.gateway import Gateway
from dpgm.privacy.calibration import Spend, gaussian_mu
from dpgm.products.enumerated import is_enumerated
from dpgm.products.rules import ProductRules
from dpgm.statistics.centred_pairs import CentredPairs
from dpgm.statistics.item_counts import (
    ITEMS,
    ItemCounts,
    choose_cap,
    clip_bound,
    item_profile,
    mean_weight,
    pilot_profile,
)
from dpgm.statistics.item_tuples import NAMES, ItemTuples
from dpgm.statistics.record_lengths import LENGTHS, POPULAR, Known, PopularLengths, RecordLengths, mean_length
from dpgm.statistics.scaled_items import SCALED, ScaledItems, ScaledReading, ask_table, read_scaled
from dpgm.statistics.statistic import Floats, Measured, ask
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
    facts: PublicFacts, rules: ProductRules, *, share: float = 1.0, cells: bool = True, piloted: bool = False
) -> tuple[Spend, ...]:
    """What to measure and the share of the budget (mu²) for each, from public numbers; `share` in all.

    Triples pay when their noise (with the whole budget) is below what matters, but not for tables; quadruples when,
    besides, there are few positions. With `cells`, few items have all possible records enumerated. `piloted`: discovery
    releases noisy sums of all items, so that no pilot release of their counts is needed.
    """
    domain, records, rule = facts.domain, facts.records, rules.budget
    width = rule.unknown_width if domain is None else domain.width
    free = width if domain is None else int(domain.item_positions.sum())
    columns = 0 if domain is None else len(domain.table_columns)
    sigma = facts.rows_per_person / gaussian_mu(facts.epsilon, facts.delta)
    listed = cells and domain is not None and is_enumerated(domain, rules.enumerated)
    order = _largest_sets(width, free, columns, sigma, records, listed, rules)
    first = _item_share(width, free, sigma, records, listed, rules)
    left = 1 - rule.lengths - first
    shares: tuple[float, ...] = {
        1: (rule.lengths, 1 - rule.lengths),
        2: (rule.lengths, first, left),
        3: (rule.lengths, first, rule.pairs_beside_triples * left, (1 - rule.pairs_beside_triples) * left),
        4: rule.quadruples_enumerated if listed else rule.quadruples,
    }[order]
    names: tuple[str, ...] = (LENGTHS, *(NAMES[n] for n in range(1, order + 1)))
    # Items alone: a pilot release of their counts, then scaled counts.
    if domain is not None and free == width and order > 1 and not listed:
        pilot = () if piloted else (rule.pilot * shares[1],)
        shares = (shares[0], *pilot, shares[1] - sum(pilot), *shares[2:])
        names = (names[0], *names[1 : 1 + len(pilot)], SCALED, *names[2:])
        if order == 2 and width > rule.popular_groups[0]:
            shares, names = (*shares, rule.popular), (*names, POPULAR)
    if free == 0:
        shares, names = shares[1:], names[1:]
    total = sum(shares)
    return tuple(Spend(name, share * part / total) for name, part in zip(names, shares, strict=True))


def _largest_sets(
    width: int, free: int, columns: int, sigma: float, records: int, listed: bool, rules: ProductRules
) -> int:
    """The number of positions of the largest sets that are measured."""
    rule = rules.budget
    if free == 0 and columns == 1:
        return 1  # of one column there are no pairs
    matters = rules.sanity * records
    matters *= rule.enumerated_tolerance if listed else min(1.0, rule.triple_width / width)
    few_or_items = free == width or width <= rule.narrow  # else pairs, centred, say more at any budget
    noise = sigma * sqrt(comb(max(rule.triple_items, columns), 3) / rule.triple_share)
    if width > 2 and few_or_items and noise <= matters:
        return 4 if 3 < width <= rule.narrow else 3
    return 2 if width > 1 else 1


def _item_share(width: int, free: int, sigma: float, records: int, listed: bool, rules: ProductRules) -> float:
    """The share of item counts; the wider, the more numbers share the popular queries."""
    rule = rules.budget
    share = rule.items + rule.items_wide * min(1.0, width / rule.wide)
    if free == width:  # up to about a hundred items, pairs are easily found
        share += rule.items_few * min(1.0, max(0.0, 2 - width / rule.few_items))
    if free == width and not listed:  # the larger the noise beside what matters, the less pairs can be known
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
    """Release every statistic the plan pays for.

    Args:
        gateway: the door to the private rows.
        domain: the public domain.
        records: the public number of records.
        noises: multiplier of every mechanism of the plan; statistics that are not named are not measured.
        rules: tuned numbers.
        pilot: of every item, a noisy sum that was released before; instead of item counts, where these are not named.
        device: where sets are counted; the counts are the same everywhere.
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
        chosen = ranks[: min(_tracked(order, noise, records, rules), domain.width)]
        within = known.within(chosen, profile)
        cap, cost = choose_cap(order, within, profile[chosen], known, noise)
        if order == 2 and mean_length(within) >= rules.bound.dense:
            pairs, centred_cost = CentredPairs.choose(np.sort(chosen), within, profile, known, noise)
            if centred_cost < rules.bound.centred_gain * cost:
                centred = ask(gateway, replace(pairs, device=device), noise)
                continue
        tuples.append(ask(gateway, ItemTuples(domain, tuple(chosen.tolist()), order, cap, device), noise))
    return Measurements(known, profile, items, tuple(tuples), centred, scaled, popular)


def _tracked(order: int, noise: float, records: int, rules: ProductRules) -> int:
    """Positions whose sets of `order` are counted."""
    budget = rules.budget
    enough = budget.more_triples_below * rules.sanity * records
    if order == 3 and noise * clip_bound(3, budget.triple_items) <= enough:
        return budget.more_triple_positions
    return {2: budget.pair_positions, 3: budget.triple_positions, 4: budget.narrow}[order]


@dataclass(frozen=True)
class Profile:
    """Noisy item frequencies, and how records were down-weighted to measure them."""

    frequencies: Floats
    cap: int
    mean_weight: float


def measured_profile(measured: Measurements) -> Profile:
    """What record lengths and item counts say: the profile a mixture of networks starts from."""
    assert measured.items is not None
    return Profile(measured.profile, measured.items.statistic.cap, mean_weight(measured.items, measured.known))
