"""The default method for item sets and tables: measure low-order statistics once, then fit a mixture of products.

    lengths   <- noisy histogram of record lengths (item sets only)
    pilot     <- noisy item counts, for a small share of the item budget
    items     <- noisy item counts, scaled and centred by the pilot's frequencies (item sets only)
    sets      <- the most popular positions, and bounds on long records that balance noise against distortion
    counts    <- noisy counts of pairs, triples and quadruples of these positions
    targets   <- all counts, shrunk toward what lengths, items and smaller sets suggest
    generator <- a mixture of products whose expected counts are near the targets

`measure` does the first five steps and spends the whole privacy budget; `fit_products` does the last two, which are
post-processing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats
from dpgm.data.domain import Domain
from dpgm.mechanisms.gateway import Gateway
from dpgm.products.enumerated import fit_enumerated, is_enumerated, measure_enumerated
from dpgm.products.fitting import fit_moments
from dpgm.products.model import Products, joined
from dpgm.products.planning import discovers_all, measurement_spends, product_memory, tracked
from dpgm.products.rules import PRODUCT_RULES, ProductRules, ProductSettings
from dpgm.products.targets import Measurements, moment_targets
from dpgm.statistics.centred_pairs import CentredPairs
from dpgm.statistics.clipping import choose_cap
from dpgm.statistics.enumerated_sets import EnumeratedSets
from dpgm.statistics.item_counts import ITEMS, ItemCounts, item_profile, pilot_profile
from dpgm.statistics.item_tuples import NAMES, ItemTuples
from dpgm.statistics.record_lengths import (
    LENGTHS,
    POPULAR,
    PopularLengths,
    RecordLengths,
    ReleasedFacts,
    mean_length,
)
from dpgm.statistics.scaled_items import SCALED, ScaledItems, ask_table, read_scaled
from dpgm.statistics.statistic import Measured, plan_descriptions, release
from dpgm.strategy.memory_rules import MemoryRules, Sizes
from dpgm.strategy.protocol import Budget, FitPlan, PublicFacts, RunContext, Strategy
from dpgm.strategy.settings import Config, FamilySettings, no_settings


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
    """Release every statistic that the plan pays for; values released earlier decide how later ones are bounded.

    `noises` maps the mechanisms of the plan to their noise multipliers. `pilot` holds noisy sums of all items, released
    by domain discovery; they replace the pilot release of item counts where the plan has none.
    """
    # Record lengths; tables have none.
    lengths = release(gateway, RecordLengths(domain), noises[LENGTHS]) if LENGTHS in noises else None
    known = ReleasedFacts.read(lengths, domain, records, rules)

    # Item counts: a pilot release, then (item sets only) counts that are scaled and centred by its frequencies.
    items = scaled = popular = centred = None
    if ITEMS not in noises:
        assert pilot is not None
        profile = ranking = pilot_profile(pilot, known)
    else:
        if domain.item_positions.any():
            items = release(gateway, ItemCounts.choose(known, noises[ITEMS]), noises[ITEMS])
        else:
            items = ask_table(gateway, domain, records, noises[ITEMS])
        profile, ranking = item_profile(items, known), items.value.numpy()
    if SCALED in noises:
        released = release(gateway, ScaledItems.choose(profile, known, noises[SCALED]), noises[SCALED])
        scaled = read_scaled(released, profile, known)
        profile = ranking = scaled.profile

    # Where triples are too expensive: how many of the most popular items records hold.
    most_popular = np.argsort(-ranking, kind="stable")
    if POPULAR in noises:
        groups = rules.budget.popular_groups
        popular = release(gateway, PopularLengths.of(domain, most_popular, groups), noises[POPULAR])

    # Pairs, triples and quadruples of the most popular positions; pairs are centred where records are dense.
    tuples: list[Measured[ItemTuples]] = []
    for order in (order for order in (2, 3, 4) if NAMES[order] in noises):
        noise = noises[NAMES[order]]
        chosen = most_popular[: tracked(order, noise, records, rules)]
        within = known.within(chosen, profile)
        cap, cost = choose_cap(order, within, profile[chosen], known, noise)
        if order == 2 and mean_length(within) >= rules.bound.dense:
            pairs, centred_cost = CentredPairs.choose(np.sort(chosen), within, profile, known, noise)
            if centred_cost < rules.bound.centred_gain * cost:
                centred = release(gateway, replace(pairs, device=device), noise)
                continue
        tuples.append(release(gateway, ItemTuples(domain, tuple(chosen.tolist()), order, cap, device), noise))
    return Measurements(known, profile, items, tuple(tuples), centred, scaled, popular)


def fit_products(
    measurements: Measurements,
    rules: ProductRules,
    *,
    generator: torch.Generator,
    device: str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> Products:
    """Shrink the noisy counts, then fit a mixture of products that reproduces them; tables average several fits."""
    domain, records = measurements.known.domain, measurements.known.records
    targets = moment_targets(measurements, rules, generator=generator, device=device)
    fits = rules.fit.fits_table if targets.settings.misfit is not None else 1

    def report(number: int, done: float) -> None:
        if progress is not None:
            progress((number + done) / fits)

    fitted = [
        fit_moments(domain, records, targets, generator=generator, device=device, progress=partial(report, number))
        for number in range(fits)
    ]
    return joined(fitted)


@dataclass(frozen=True)
class ProductStrategy(Strategy):
    """Item sets and tables; with few items all possible records are enumerated (`enumerated.py`)."""

    rules: ProductRules = PRODUCT_RULES
    name = Products.kind
    settings_type = ProductSettings
    measures = plan_descriptions(
        RecordLengths.words,
        ItemCounts.words,
        ScaledItems.words,
        PopularLengths.words,
        ItemTuples.words,
        CentredPairs.words,
        EnumeratedSets.words,
    )

    def settings(self, config: Config, facts: PublicFacts) -> FamilySettings:
        """The tuned numbers; a request changes none of them."""
        no_settings(config)
        return ProductSettings(self.rules)

    def budget(self, facts: PublicFacts, settings: FamilySettings) -> Budget:
        """The whole budget goes to measurements."""
        return Budget(measurement_spends(facts, _rules(settings), piloted=discovers_all(facts.domain)))

    def memory(self, plan: FitPlan, sizes: Sizes, domain: Domain | None, rules: MemoryRules) -> float:
        """Of the components and, for tables, of pairs of components."""
        return product_memory(plan.records, sizes, domain, _rules(plan.settings.family), rules)

    def fit(
        self, gateway: Gateway, plan: FitPlan, domain: Domain, *, draws: torch.Generator, context: RunContext
    ) -> Products:
        """Measure, then fit a mixture of products to the released values."""
        rules, progress = _rules(plan.settings.family), context.percent("refine")
        context.progress("measure", 0, 1)
        # A discovered domain may be small, but its plan was made for many items and pays for other statistics.
        if is_enumerated(domain, rules.enumerated) and not plan.pays_for("discovered values"):
            sums = measure_enumerated(gateway, domain, plan.records, plan.noises, rules)
            context.progress("measure", 1, 1)
            return fit_enumerated(sums, rules, progress=progress)
        measured = measure(gateway, domain, plan.records, plan.noises, rules, context.pilot, device=context.device)
        context.progress("measure", 1, 1)
        return fit_products(measured, rules, generator=draws, device=context.device, progress=progress)

    def load(
        self,
        architecture: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        domain: Domain,
        settings: FamilySettings,
    ) -> Products:
        """A mixture of products from an untrusted release."""
        return Products.from_state(architecture, tensors, domain, _rules(settings).sampling)


def _rules(settings: FamilySettings) -> ProductRules:
    assert isinstance(settings, ProductSettings)
    return settings.rules


PRODUCTS = ProductStrategy()
