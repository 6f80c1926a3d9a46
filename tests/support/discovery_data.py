"""Helpers for tests of discovery: run it on an open domain, and check that it is private."""

from collections.abc import Sequence
from typing import Any

from dpgm.data.domain import Domain
from dpgm.data.domain_file import domain_to_plain
from dpgm.data.read.frames import as_records
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.strategy.settings import Config
from dpgm.synthesis.domain_discovery import discover_domain
from dpgm.synthesis.plan import make_plan
from dpgm.testing import assert_playback_invariant, sensitivity_ratios


def discovered(table: Any, domain: Domain, *, epsilon: float = 1.0, seed: int = 0) -> tuple[Domain, Gateway]:
    """The closed domain that is discovered, and the gateway used."""
    records = as_records(table, domain)
    plan = make_plan(Config(epsilon), len(records), domain)
    gateway = Gateway(records, randomness=SeededRandomness(seed), allowance=plan.mechanisms)
    return discover_domain(gateway, plan, domain).domain, gateway


def assert_discovered_privately(domain: Domain, tables: Sequence[Any], extras: Sequence[Any]) -> dict[str, float]:
    """Check that the discovered domain depends on noisy values only, and that one more record respects sensitivities.

    Returns:
        The largest change of every release by a record of `extras`, relative to its sensitivity.
    """
    datasets = [as_records(table, domain) for table in tables]
    plan = make_plan(Config(1.0), len(datasets[0]), domain)

    def run(gateway: Gateway) -> Any:
        return domain_to_plain(discover_domain(gateway, plan, domain).domain)

    assert_playback_invariant(run, datasets, tapes=2, allowance=plan.mechanisms)
    moved = [sensitivity_ratios(run, datasets[0], as_records(extra, domain)) for extra in extras]
    largest = {name: max(ratios[name] for ratios in moved) for name in moved[0]}
    assert max(largest.values()) <= 1 + 1e-9
    return largest
