"""Fixtures of more than one folder."""

from dataclasses import replace

import pytest

from dpgm.networks.strategy import RBMS, VAES
from dpgm.products.strategy import ProductStrategy
from dpgm.synthesis import strategies
from synthesis_data import SHORT


@pytest.fixture
def short_fits(monkeypatch):
    """Families whose rules ask for a few steps: fits are post-processing, and these show that all is joined up."""
    short = [ProductStrategy(SHORT), replace(VAES, products=SHORT), replace(RBMS, products=SHORT)]
    by_name = {strategy.name: strategy for strategy in short}
    for listed in ("STRATEGIES", "AUTO"):
        families = [by_name.get(strategy.name, strategy) for strategy in getattr(strategies, listed)]
        monkeypatch.setattr(strategies, listed, tuple(families))
