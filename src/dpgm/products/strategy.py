"""Mixtures of products as a family: measure low-order statistics once, then fit a generator that shows them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import comb
from typing import Any, TypeGuard

import torch
from torch import Tensor

from dpgm.data.domain import Domain, ItemSet
from dpgm.mechanisms.gateway import Gateway
from dpgm.products.enumerated import fit_enumerated, is_enumerated, measure_enumerated
from dpgm.products.fitting import fit_moments
from dpgm.products.measurement import (
    Measurements,
    component_count,
    measure,
    measurement_spends,
    moment_targets,
    tracked,
)
from dpgm.products.model import Products, joined
from dpgm.products.rules import RULES, ProductRules
from dpgm.statistics.centred_pairs import CentredPairs
from dpgm.statistics.enumerated_sets import EnumeratedSets
from dpgm.statistics.item_counts import ItemCounts
from dpgm.statistics.item_tuples import ItemTuples
from dpgm.statistics.record_lengths import PopularLengths, RecordLengths
from dpgm.statistics.scaled_items import ScaledItems
from dpgm.statistics.statistic import in_words
from dpgm.strategy.protocol import Budget, FitPlan, PublicFacts, RunContext, Strategy
from dpgm.strategy.rules import CostRules, Sizes, Work, counting_seconds
from dpgm.strategy.settings import Config, FamilySettings, no_settings


@dataclass(frozen=True)
class ProductSettings(FamilySettings):
    """The tuned numbers; a request changes none of them."""

    rules: ProductRules = RULES


def _rules(settings: FamilySettings) -> ProductRules:
    assert isinstance(settings, ProductSettings)
    return settings.rules


@dataclass(frozen=True)
class ProductStrategy(Strategy):
    """Item sets and tables; with up to 17 items all possible records are enumerated (`enumerated.py`)."""

    rules: ProductRules = RULES
    name = Products.kind
    settings_type = ProductSettings
    measures = in_words(
        RecordLengths.words,
        ItemCounts.words,
        ScaledItems.words,
        PopularLengths.words,
        ItemTuples.words,
        CentredPairs.words,
        EnumeratedSets.words,
    )

    def fit(
        self, gateway: Gateway, plan: FitPlan, domain: Domain, *, draws: torch.Generator, context: RunContext
    ) -> Products:
        """Measure, then make a mixture of products that shows what was measured."""
        rules, percent = _rules(plan.settings.family), context.percent("refine")
        context.progress("measure", 0, 1)
        # What was discovered may be few, where the plan was made for many.
        if is_enumerated(domain, rules.enumerated) and not plan.pays_for("discovered values"):
            sums = measure_enumerated(gateway, domain, plan.records, plan.noises, rules)
            context.progress("measure", 1, 1)
            return fit_enumerated(sums, rules, progress=percent)
        measured = measure(gateway, domain, plan.records, plan.noises, rules, context.pilot, device=context.device)
        context.progress("measure", 1, 1)
        return fit_products(measured, rules, generator=draws, device=context.device, progress=percent)

    def settings(self, config: Config, facts: PublicFacts) -> FamilySettings:
        """The rules, as they are."""
        no_settings(config)
        return ProductSettings(self.rules)

    def budget(self, facts: PublicFacts, settings: FamilySettings) -> Budget:
        """All of it for measurements."""
        return Budget(measurement_spends(facts, _rules(settings), piloted=_discovers_all(facts.domain)))

    def work(self, plan: FitPlan, sizes: Sizes, domain: Domain | None, costs: CostRules) -> Work:
        """Counting, and moving the mixture; components, and for tables all pairs of them."""
        rules = _rules(plan.settings.family)
        components = component_count(sizes.width, plan.records, rules.fit)
        memory = costs.component_number * components * sizes.width
        if _has_entropy(domain, rules):
            memory += costs.overlap_column * components**2 * len(domain.table_columns)
        return Work(product_seconds(plan, sizes, domain, rules, costs), memory)

    def load(self, architecture: Mapping[str, Any], tensors: Mapping[str, Tensor], domain: Domain) -> Products:
        """A mixture of products from an untrusted release."""
        return Products.from_state(architecture, tensors, domain)


def fit_products(
    measurements: Measurements,
    rules: ProductRules,
    *,
    generator: torch.Generator,
    device: str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> Products:
    """A mixture of products that shows the measured statistics. Post-processing: no data, no budget."""
    domain, records = measurements.known.domain, measurements.known.records
    targets = moment_targets(measurements, rules, generator=generator, device=device)
    fits = rules.fit.fits_table if targets.rule.misfit is not None else 1
    fitted = []
    for number in range(fits):

        def part(done: float, before: int = number) -> None:
            if progress is not None:
                progress((before + done) / fits)

        fitted.append(fit_moments(domain, records, targets, generator=generator, device=device, progress=part))
    return joined(fitted)


def _discovers_all(domain: Domain | None) -> bool:
    """Whether every item of the domain is found privately, and comes with a noisy sum."""
    return domain is not None and all(isinstance(field, ItemSet) and field.discover for field in domain.fields)


def product_seconds(
    plan: FitPlan, sizes: Sizes, domain: Domain | None, rules: ProductRules, costs: CostRules, factor: float = 1.0
) -> float:
    """Of counting, and of moving the mixture, which does not depend on the number of records.

    `factor` is how much more the part of a step costs that goes with positions.
    """
    seconds = counting_seconds(sizes, costs)
    if domain is not None and is_enumerated(domain, rules.enumerated):
        return seconds + sum(rules.enumerated.rounds) * 2.0**sizes.width * costs.enumerated_record
    fit, budget = rules.fit, rules.budget
    narrow = sizes.width <= budget.narrow
    table = domain is not None and not domain.item_positions.any() and not narrow
    steps = fit.steps_narrow if narrow else fit.steps_table if table else fit.steps
    components = component_count(sizes.width, plan.records, fit)
    moved = costs.step_position * sizes.width * factor
    pairs = costs.step + components * (moved + costs.step_pair * min(budget.pair_positions, sizes.width) ** 2)
    if _has_entropy(domain, rules):
        pairs += costs.step_overlap * components**2 * sizes.width
        steps *= fit.fits_table
    if not plan.pays_for("triple counts"):
        return seconds + steps * pairs
    positions = min(tracked(3, plan.noise("triple counts"), plan.records, rules), sizes.width)
    larger = comb(positions, 2) * (costs.step_triple_pair + costs.step_triple * positions)
    return seconds + costs.steps_with_triples * steps * pairs + steps * components * larger


def _has_entropy(domain: Domain | None, rules: ProductRules) -> TypeGuard[Domain]:
    """Whether this is a table that is fitted with the largest entropy: of several columns, and not a narrow one."""
    if domain is None or domain.item_positions.any() or domain.width <= rules.budget.narrow:
        return False
    return len(domain.table_columns) > 1


PRODUCTS = ProductStrategy()
