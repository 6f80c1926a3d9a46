"""The default method for tables: measure columns and pairs of columns once, then tilt a mixture of trees to them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.mechanisms.gateway import Gateway
from dpgm.statistics.column_counts import ColumnCounts
from dpgm.statistics.list_vectors import ItemsByColumns, ItemsTogether, ListItems
from dpgm.statistics.pair_blocks import PairBlocks
from dpgm.statistics.statistic import plan_descriptions
from dpgm.strategy.memory_rules import MemoryRules, Sizes
from dpgm.strategy.protocol import Budget, FitPlan, PublicFacts, RunContext, Strategy
from dpgm.strategy.settings import Config, FamilySettings, no_settings, refuses_paper
from dpgm.trees.expectations import tree_expectations
from dpgm.trees.fitting import fit_trees
from dpgm.trees.measurement import measure_table
from dpgm.trees.model import Trees
from dpgm.trees.planning import tree_memory, tree_spends
from dpgm.trees.rules import TREE_RULES, TreeRules, TreeSettings


@dataclass(frozen=True)
class TreeStrategy(Strategy):
    """Tables, and lists of items beside columns."""

    rules: TreeRules = TREE_RULES
    name = Trees.kind
    settings_type = TreeSettings
    measures = plan_descriptions(
        ColumnCounts.words, PairBlocks.words, ListItems.words, ItemsByColumns.words, ItemsTogether.words
    )

    def refuses(self, config: Config, domain: Domain | None) -> str | None:
        """It needs columns, and no images."""
        if config.preset == "paper":
            return refuses_paper(config, self.name)
        if domain is None or not domain.table_columns:
            return "trees model the columns of a table; use model products for item sets."
        if domain.image is not None:
            return "trees do not model images; use model image or products."
        return None

    def settings(self, config: Config, facts: PublicFacts) -> FamilySettings:
        """The tuned numbers; a request changes none of them."""
        no_settings(config)
        return TreeSettings(self.rules)

    def budget(self, facts: PublicFacts, settings: FamilySettings) -> Budget:
        """The whole budget goes to measurements."""
        return Budget(tree_spends(facts, _rules(settings)))

    def memory(self, plan: FitPlan, sizes: Sizes, domain: Domain | None, rules: MemoryRules) -> float:
        """Estimated memory of fitting."""
        assert domain is not None
        return tree_memory(plan, sizes, domain, _rules(plan.settings.family), rules)

    def expectations(self, plan: FitPlan, domain: Domain) -> tuple[str, ...]:
        """Which relations of columns are measured, and how well."""
        return tree_expectations(plan, domain, _rules(plan.settings.family))

    def fit(
        self, gateway: Gateway, plan: FitPlan, domain: Domain, *, draws: torch.Generator, context: RunContext
    ) -> Trees:
        """Measure, then fit the mixture and its tilt to the released values."""
        rules = _rules(plan.settings.family)
        context.progress("measure", 0, 1)
        measured = measure_table(gateway, domain, plan.records, plan.noises, rules)
        context.progress("measure", 1, 1)
        return fit_trees(measured, rules, generator=draws, progress=context.percent("refine"))

    def load(
        self,
        architecture: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        domain: Domain,
        settings: FamilySettings,
    ) -> Trees:
        """A tilted mixture from an untrusted release."""
        return Trees.from_state(architecture, tensors, domain, _rules(settings).sampling)


def _rules(settings: FamilySettings) -> TreeRules:
    assert isinstance(settings, TreeSettings)
    return settings.rules


TREE_STRATEGY = TreeStrategy()
