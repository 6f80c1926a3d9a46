"""Few items: all 2^m possible records are enumerated, sets are measured centred, and the fit is a convex problem."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import comb
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from dpgm.data.domain import Domain
from dpgm.mechanisms.gateway import Gateway
from dpgm.products.bounds import choose_bound, popular_sets
from dpgm.products.enumerated_fit import LengthCounts, SetSums, fit_table
from dpgm.products.model import Products
from dpgm.products.noisy_items import possible_shares
from dpgm.products.noisy_lengths import read_lengths
from dpgm.products.rules import EnumeratedRules, ProductRules, ReadRules
from dpgm.statistics.enumerated_sets import STEPS, EnumeratedSets, offsets_near
from dpgm.statistics.item_tuples import NAMES
from dpgm.statistics.record_lengths import RecordLengths, record_lengths
from dpgm.statistics.statistic import GRID, Measured, ask

Floats: TypeAlias = NDArray[np.float64]


def is_enumerated(domain: Domain, rules: EnumeratedRules) -> bool:
    """Whether all possible records are enumerated: the domain has few items, and items alone."""
    return domain.width <= rules.widest and not domain.table_columns


@dataclass(frozen=True)
class EnumeratedMeasurements:
    """Everything that was released: record lengths, and centred sums of items, pairs and larger sets."""

    lengths: Measured[RecordLengths]
    sums: tuple[Measured[EnumeratedSets], ...]


def measure_enumerated(
    gateway: Gateway, domain: Domain, records: int, noises: Mapping[str, float], rules: ProductRules
) -> EnumeratedMeasurements:
    """Release every statistic the plan pays for; arguments as in `measure`."""
    statistic = record_lengths(domain)
    lengths = ask(gateway, statistic, noises[statistic.name])
    law = read_lengths(lengths.value.numpy(), lengths.std, records, rules.read).law
    # Before anything is known of the items, each is as frequent as the mean length says.
    least = rules.enumerated.least_frequency
    profile = np.full(domain.width, np.clip(law @ np.arange(len(law)) / domain.width, least, 1 - least))
    sums: list[Measured[EnumeratedSets]] = []
    for order in (order for order in NAMES if NAMES[order] in noises):
        sums.append(_ask_sums(gateway, domain, order, profile, law, records, noises[NAMES[order]], rules))
        if order == 1:
            profile = _profile(sums[0], law, records, rules.read)
    return EnumeratedMeasurements(lengths, tuple(sums))


def _ask_sums(
    gateway: Gateway,
    domain: Domain,
    order: int,
    profile: Floats,
    law: Floats,
    records: int,
    noise: float,
    rules: ProductRules,
) -> Measured[EnumeratedSets]:
    """Centred sums of sets, within the bound that balances noise against what scaling down distorts."""
    chances = likely_records(profile, law)
    held = np.bitwise_count(np.arange(1 << domain.width))
    parted = chances * np.array([comb(n, order) for n in range(domain.width + 1)], dtype=np.float64)[held]
    popular, doubt = popular_sets(order, law, profile, records, rules), rules.bound.enumerated_doubt[order - 1]
    tried = []
    for candidate in rules.bound.offset_candidates:
        offsets, whole = offsets_near(profile + candidate * (0.5 - profile)), order in rules.enumerated.whole_orders
        free = EnumeratedSets(domain, order, offsets, 1.0, whole=whole)
        parted[free.whole_records] = 0.0
        bounds = np.unique(free.norms.round(1)) if parted.any() else np.empty(0)
        bounds = bounds[bounds > 0]
        best, best_cost = float(free.norms.max()), np.inf
        if len(bounds):
            weights = (np.minimum(1.0, bound / np.maximum(free.norms, 1e-12)) for bound in bounds)
            retained = np.array([float((parted * kept).sum() / parted.sum()) for kept in weights])
            errors = popular.noise(noise * bounds, retained), popular.distortion(order, retained, rules, doubt)
            best, best_cost = choose_bound(bounds.tolist(), *errors)
        tried.append((best_cost, replace(free, bound=max(best, 1 / STEPS**order))))
    plain, moved = tried[0], min(tried[1:], key=lambda found: found[0])
    gain = rules.bound.enumerated_gain[order - 1] ** 2
    return ask(gateway, (moved if moved[0] < gain * plain[0] else plain)[1], noise)


def _profile(items: Measured[EnumeratedSets], law: Floats, records: int, rules: ReadRules) -> Floats:
    """Share of the records that hold each item, from sums with one offset for all items."""
    statistic = items.statistic
    sizes = np.arange(min(len(law), statistic.width + 1))
    law = law[: len(sizes)] / max(law[: len(sizes)].sum(), 1e-12)
    kept = statistic.weight_steps[(1 << sizes) - 1] * GRID  # with one offset for all, a matter of length alone
    retained = (law * sizes * kept).sum() / max((law * sizes).sum(), 1e-12)
    held = items.value.numpy() / records + statistic.offsets[0] / STEPS * (law @ kept)
    return possible_shares(held / max(retained, rules.least_weight), items.std, records, rules)


def likely_records(profile: Floats, law: Floats) -> Floats:
    """A guess at the share of each of the 2^m possible records, from item frequencies and the law of lengths."""
    cells = np.arange(1 << len(profile))
    odds = np.log(profile) - np.log1p(-profile)
    chances = np.exp(((cells[:, None] >> np.arange(len(profile))) & 1) @ odds)
    sizes = np.bitwise_count(cells)
    shares = np.zeros(len(profile) + 1)
    shares[: len(law)] = law[: len(profile) + 1]
    guess: Floats = chances * (shares / np.bincount(sizes, chances))[sizes]
    return guess


def fit_enumerated(
    measured: EnumeratedMeasurements,
    domain: Domain,
    records: int,
    rules: ProductRules,
    *,
    progress: Callable[[float], None] | None = None,
) -> Products:
    """The records that are likely to occur become components of one record each. Post-processing."""
    seen = read_lengths(measured.lengths.value.numpy(), measured.lengths.std, records, rules.read)
    profile = torch.from_numpy(_profile(measured.sums[0], seen.law, records, rules.read)).float()
    targets = []
    for released in measured.sums:
        statistic = released.statistic
        sums, whole = released.value[: len(statistic.sets)], released.value[len(statistic.sets) :]
        targets.append(
            SetSums(
                sets=torch.from_numpy(statistic.sets),
                values=sums,
                variances=torch.full_like(sums, released.std**2),
                weights=torch.from_numpy(statistic.weight_steps * GRID),
                offsets=torch.tensor(statistic.offsets) / STEPS,
                penalty=_penalty(statistic.order, released.std, records, rules),
            )
        )
        if statistic.whole:
            targets.append(
                SetSums(
                    sets=torch.from_numpy(statistic.whole_records),
                    values=whole / statistic.whole_weight,
                    variances=torch.full_like(whole, (released.std / statistic.whole_weight) ** 2),
                    weights=None,
                    penalty=rules.enumerated.whole_penalty,
                )
            )
    lengths = LengthCounts(
        torch.from_numpy(seen.groups), torch.from_numpy(seen.counts), torch.from_numpy(seen.stds**2)
    )
    chances = fit_table(profile, records, targets, lengths, rules.enumerated, progress=progress)
    chosen = chances.argsort(descending=True)[: rules.enumerated.most_records]
    chosen = chosen[chances[chosen] > rules.enumerated.least_share / records]
    weights = chances[chosen] / chances[chosen].sum()
    held = (chosen[:, None] >> torch.arange(domain.width)) & 1
    return Products(domain, weights, held.float())


def _penalty(order: int, std: float, records: int, rules: ProductRules) -> float:
    """The noisier compared with what matters, the readier these counts give way to what the others imply."""
    least, most = rules.enumerated.least_penalty[order - 1], rules.enumerated.most_penalty[order - 1]
    return float(np.clip(std / (rules.budget.sanity * records), least, most))
