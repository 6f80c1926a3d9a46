"""Fixtures of more than one folder; and no chance: whatever a test draws, it draws in every run."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings

import browsing
from dpgm.networks.strategy import RBMS, VAES
from dpgm.products.strategy import ProductStrategy
from dpgm.synthesis import strategies
from synthesis_data import SHORT

# No test asserts a time, so no example does: on a loaded machine any of them may take a second. Examples are the same in
# every run; `make assure RUNS=slow` looks for others.
settings.register_profile(
    "dpgm",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="DPGM_OTHER_EXAMPLES" not in os.environ,
)
settings.load_profile("dpgm")

# The entropy of the operating system is replaced by numbers that follow from the name of the test, or of the fixture
# that is made, in this process alone: unseeded fits then come out alike in every run.
_process, _urandom = os.getpid(), os.urandom
_drawing: list[random.Random] = []


def _repeatable(count: int) -> bytes:
    here = _drawing and os.getpid() == _process
    return _drawing[-1].randbytes(count) if here else _urandom(count)


os.urandom = random._urandom = _repeatable  # type: ignore[attr-defined]


@contextmanager
def _entropy_of(name: str) -> Iterator[None]:
    _drawing.append(random.Random(name))
    try:
        yield
    finally:
        _drawing.pop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    with _entropy_of(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    parameter = getattr(request, "param_index", 0)
    with _entropy_of(f"{fixturedef.baseid} {fixturedef.argname} {parameter} {request.node.nodeid}"):
        return (yield)


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
