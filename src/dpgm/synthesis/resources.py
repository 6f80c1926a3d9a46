"""Will this machine do? An estimate from public numbers, before anything is charged."""

import os

from dpgm.data.domain import Domain
from dpgm.errors import ResourceError
from dpgm.strategy.protocol import PublicFacts
from dpgm.synthesis.plan import Plan
from dpgm.synthesis.strategies import strategy_of


def check_memory(plan: Plan, domain: Domain) -> None:
    """Refuse a fit that cannot fit into memory, naming what to change."""
    facts = PublicFacts(domain, plan.records, plan.target_epsilon, plan.delta, plan.rows_per_person)
    needed = strategy_of(plan.settings.model).memory(facts, plan.settings.family)
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > 0.9 * available:
        raise ResourceError(
            f"this fit needs about {needed / 2**30:.1f} GB and this machine has {available / 2**30:.1f}; use a smaller "
            "domain, or fewer clusters where there are any."
        )
