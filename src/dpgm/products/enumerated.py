"""Few items: all 2^m possible records are enumerated, sets are measured centred, and the fit is a convex problem."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from dpgm.data.domain import Domain
from dpgm.mechanisms.gateway import Gateway
from dpgm.products.enumerated_fit import TableTarget, fit_table
from dpgm.products.model import Products
from dpgm.products.rules import EnumeratedRules, ProductRules
from dpgm.statistics.enumerated_sets import EnumeratedSets, LengthCounts, enumerated_profile, set_sums
from dpgm.statistics.item_tuples import NAMES
from dpgm.statistics.record_lengths import LENGTHS, RecordLengths, read_lengths
from dpgm.statistics.statistic import Measured, ask


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
    lengths = ask(gateway, RecordLengths.of(domain), noises[LENGTHS])
    shares = read_lengths(lengths.value.numpy(), lengths.std, records, rules.read).shares
    # Before anything is known of the items, each is as frequent as the mean length says.
    least = rules.enumerated.least_frequency
    profile = np.full(domain.width, np.clip(shares @ np.arange(len(shares)) / domain.width, least, 1 - least))
    sums: list[Measured[EnumeratedSets]] = []
    for order in (order for order in NAMES if NAMES[order] in noises):
        noise, whole = noises[NAMES[order]], order in rules.enumerated.whole_orders
        statistic = EnumeratedSets.choose(order, profile, shares, domain, records, noise, rules, whole=whole)
        sums.append(ask(gateway, statistic, noise))
        if order == 1:
            profile = enumerated_profile(sums[0], shares, records, rules.read)
    return EnumeratedMeasurements(lengths, tuple(sums))


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
    profile = torch.from_numpy(enumerated_profile(measured.sums[0], seen.shares, records, rules.read)).float()
    targets: list[TableTarget] = []
    for released in measured.sums:
        penalty = _penalty(released.statistic.order, released.std, records, rules)
        targets += set_sums(released, penalty, rules.enumerated.whole_penalty)
    targets.append(LengthCounts.of(seen, domain.width, rules.enumerated.length_penalty))
    chances = fit_table(profile, records, targets, rules.enumerated, progress=progress)
    chosen = chances.argsort(descending=True)[: rules.enumerated.most_records]
    chosen = chosen[chances[chosen] > rules.enumerated.least_share / records]
    weights = chances[chosen] / chances[chosen].sum()
    present = (chosen[:, None] >> torch.arange(domain.width)) & 1
    return Products(domain, weights, present.float())


def _penalty(order: int, std: float, records: int, rules: ProductRules) -> float:
    """The noisier compared with what matters, the readier these counts give way to what the others imply."""
    least, most = rules.enumerated.least_penalty[order - 1], rules.enumerated.most_penalty[order - 1]
    return float(np.clip(std / (rules.sanity * records), least, most))
