"""How much memory a fit needs, from its plan; a fit that needs more than there is is refused before it is charged.

No record is read: the sizes are those of the plan (records, positions, components, batches), and the number of items
per record is guessed from the domain.
"""

import os

from dpgm.data.domain import Domain
from dpgm.data.stores import bytes_of, rows_share, size_text
from dpgm.errors import ResourceError
from dpgm.products.rules import ProductRules
from dpgm.strategy.memory_rules import MEMORY_RULES, MemoryRules, Sizes, open_domain_bytes
from dpgm.synthesis.plan import Plan
from dpgm.synthesis.strategies import strategy_of

MOST_OF_MEMORY = 0.9  # largest share of the machine's memory that a fit may need


def memory_of_fit(
    plan: Plan,
    domain: Domain | None,
    *,
    limit: int | None = None,
    processes: int = 1,
    grouped: bool = False,
    rules: MemoryRules = MEMORY_RULES,
) -> int:
    """The most bytes that a fit on a CPU needs, without reading the data.

    Rows beyond their share of the `limit` stay on disk; `processes` share the records. `grouped` are the rows of the
    long shape.
    """
    known = Domain.of_items(plan.width or ProductRules().budget.unknown_width) if domain is None else domain
    sizes = Sizes.of(plan.records, known, processes)
    most = float("inf") if limit is None else rows_share(limit)
    rows = min(sizes.row_bytes, most) * (1 + rules.joining + (rules.grouping if grouped else 0))
    rows += min(open_domain_bytes(sizes, known), most) if known.is_open else 0
    return int(rules.process + rows + strategy_of(plan.settings.model).memory(plan, sizes, domain, rules))


def check_memory(plan: Plan, domain: Domain, rules: MemoryRules = MEMORY_RULES) -> None:
    """Refuse a fit that needs, without its rows, more memory than this machine has."""
    family = strategy_of(plan.settings.model).memory(plan, Sizes.of(plan.records, domain), domain, rules)
    needed, available = rules.process + family, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > MOST_OF_MEMORY * available:
        raise ResourceError(
            f"this fit needs about {needed / 2**30:.1f} GB and this machine has {available / 2**30:.1f}; use a smaller "
            "domain, or fewer clusters where there are any."
        )


def check_limit(needed: int, memory: str | int) -> None:
    """Refuse a fit that needs more memory than it is allowed."""
    if needed > bytes_of(memory):
        raise ResourceError(
            f"this fit needs about {size_text(needed)} and `memory` allows {size_text(bytes_of(memory))};"
            " allow more, or use a smaller domain."
        )
