"""Fixtures of more than one folder."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings

import browsing
from dpgm.networks.strategy import RBMS, VAES
from dpgm.products.strategy import ProductStrategy
from dpgm.synthesis import strategies
from synthesis_data import SHORT

# No test asserts a time, so no example does: on a loaded machine any of them may take a second.
settings.register_profile("dpgm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dpgm")


@pytest.fixture
def short_fits(monkeypatch):
    """Families whose rules ask for a few steps: fits are post-processing, and these show that all is joined up."""
    short = [ProductStrategy(SHORT), replace(VAES, products=SHORT), replace(RBMS, products=SHORT)]
    by_name = {strategy.name: strategy for strategy in short}
    for listed in ("STRATEGIES", "AUTO"):
        families = [by_name.get(strategy.name, strategy) for strategy in getattr(strategies, listed)]
        monkeypatch.setattr(strategies, listed, tuple(families))


@pytest.fixture(scope="session")
def browser():
    """A real browser, shared by all tests of this process."""
    yield browsing.shared_browser()
    browsing.close()
