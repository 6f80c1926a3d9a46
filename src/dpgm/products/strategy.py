"""Mixtures of products as a family: measure low-order statistics once, then fit a generator that shows them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpgm.data.domain import Domain, ItemSet
from dpgm.mechanisms.gateway import Gateway
from dpgm.products.enumerated import fit_enumerated, is_enumerated, measure_enumerated
from dpgm.products.measurement import measure, measurement_spends
from dpgm.products.model import Products
from dpgm.products.rules import RULES, ProductRules
from dpgm.products.targets import component_count, fit_products
from dpgm.statistics.centred_pairs import CentredPairs
from dpgm.statistics.enumerated_sets import EnumeratedSets
from dpgm.statistics.item_counts import ItemCounts
from dpgm.statistics.item_tuples import ItemTuples
from dpgm.statistics.popular_lengths import PopularLengths
from dpgm.statistics.record_lengths import RecordLengths
from dpgm.statistics.scaled_items import ScaledItems
from dpgm.statistics.statistic import in_words
from dpgm.strategy.config import Config
from dpgm.strategy.context import RunContext
from dpgm.strategy.protocol import Budget, FitPlan, PublicFacts
from dpgm.strategy.settings import FamilySettings, no_settings

FLOAT = 4  # bytes


@dataclass(frozen=True)
class ProductSettings(FamilySettings):
    """The tuned numbers; a request changes none of them."""

    rules: ProductRules = RULES


def _rules(settings: FamilySettings) -> ProductRules:
    assert isinstance(settings, ProductSettings)
    return settings.rules


@dataclass(frozen=True)
class ProductStrategy:
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

    def refuses(self, config: Config, domain: Domain | None) -> str | None:
        """Any domain will do; the paper knows no products."""
        if config.preset == "paper":
            return f"`preset` paper trains vae or rbm; got model {self.name!r}."
        return None

    def settings(self, config: Config, facts: PublicFacts) -> FamilySettings:
        """The rules, as they are."""
        no_settings(config)
        return ProductSettings(self.rules)

    def budget(self, facts: PublicFacts, settings: FamilySettings) -> Budget:
        """All of it for measurements."""
        return Budget(measurement_spends(facts, _rules(settings), piloted=_discovers_all(facts.domain)))

    def architecture(self, settings: FamilySettings) -> dict[str, Any]:
        """No setting decides it."""
        return {}

    def memory(self, facts: PublicFacts, settings: FamilySettings) -> int:
        """See `products_memory`."""
        rules, domain = _rules(settings), facts.domain
        width = rules.budget.unknown_width if domain is None else domain.width
        columns = 0 if domain is None else len(domain.table_columns)
        return products_memory(width, columns, component_count(width, facts.records, rules.fit))

    def fit(
        self, gateway: Gateway, plan: FitPlan, domain: Domain, *, draws: torch.Generator, context: RunContext
    ) -> Products:
        """Measure, then make a mixture of products that shows what was measured."""
        rules, percent = _rules(plan.settings.family), context.percent("refine")
        context.progress("measure", 0, 1)
        # What was discovered may be few, where the plan was made for many.
        if is_enumerated(domain, rules.enumerated) and not plan.pays_for("discovered values"):
            listed = measure_enumerated(gateway, domain, plan.records, plan.noises, rules)
            context.progress("measure", 1, 1)
            return fit_enumerated(listed, domain, plan.records, rules, progress=percent)
        measured = measure(gateway, domain, plan.records, plan.noises, rules, context.pilot, device=context.device)
        context.progress("measure", 1, 1)
        return fit_products(
            measured, domain, plan.records, rules, generator=draws, device=context.device, progress=percent
        )

    def load(self, architecture: Mapping[str, Any], tensors: Mapping[str, Tensor], domain: Domain) -> Products:
        """A mixture of products from an untrusted release."""
        return Products.from_state(architecture, tensors, domain)


def _discovers_all(domain: Domain | None) -> bool:
    """Whether every item of the domain is found privately, and comes with a noisy sum."""
    return domain is not None and all(isinstance(field, ItemSet) and field.discover for field in domain.fields)


def products_memory(width: int, columns: int = 0, components: int = RULES.fit.components) -> int:
    """Bytes that a fit takes, measured on tables of 40 x 20 and of 5,000 values (docs/performance.md) and generous.

    Components x positions, with gradients and two moments; one chunk of dense rows for pair counts; of tables, pairs of
    components for every column, which the gradient of the entropy needs.
    """
    fixed = 600 * 2**20  # libraries and the plan among it
    fitted = components * width * FLOAT * 8 + components**2 * columns * FLOAT * 3
    return fixed + fitted + 8192 * min(width, 2000) * FLOAT * 4


PRODUCTS = ProductStrategy()
