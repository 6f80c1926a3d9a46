"""A minimal generator family: noisy item counts, independent items."""

import torch

from dpgm.privacy.calibration import Spend
from dpgm.products.model import Products
from dpgm.statistics.item_counts import ItemCounts
from dpgm.statistics.statistic import release
from dpgm.strategy.protocol import Budget
from dpgm.strategy.settings import FamilySettings, no_settings
from dpgm.synthesis import strategies

CAP = 4


class Coins(Products):
    """A generator with one coin per item."""

    kind = "coins"


class CoinStrategy:
    """Measures noisy counts of item sets."""

    name = Coins.kind
    models_order = False
    settings_type = FamilySettings
    measures = ItemCounts.words

    def refuses(self, config, domain):
        return "coins need item sets." if domain and domain.table_columns else None

    def settings(self, config, facts):
        return no_settings(config)

    def budget(self, facts, settings):
        return Budget((Spend("item counts", 1.0),))

    def architecture(self, settings):
        return {"components": 1}

    def memory(self, plan, sizes, domain, rules):
        return 0.0

    def fit(self, gateway, plan, domain, *, draws, context):
        counts = release(gateway, ItemCounts(domain, CAP), plan.noise("item counts")).value
        context.progress("measure", 1, 1)
        return Coins(domain, torch.ones(1), (counts / plan.records).clamp(0, 1)[None])

    def load(self, architecture, tensors, domain, settings):
        return Coins.from_state(architecture, tensors, domain)


def add() -> None:
    """Register the family, which takes one line in `strategies.py`."""
    strategies.STRATEGIES = (*strategies.STRATEGIES, CoinStrategy())
