"""Estimates of the time and memory of a fit, from its plan and the speed of this machine.

No record is read: the sizes are those of the plan (records, positions, components, steps, batches), the number of items
per record is guessed from the domain, and the machine's speed is measured on a fixed computation.
"""

import os
import time
from dataclasses import dataclass

import torch

from dpgm.data.domain import Domain
from dpgm.data.stores import bytes_of, rows_share, size_text
from dpgm.errors import ResourceError
from dpgm.products.rules import ProductRules
from dpgm.strategy.rules import COST_RULES, CostRules, Sizes, open_domain_bytes
from dpgm.synthesis.plan import Plan
from dpgm.synthesis.strategies import strategy_of

MOST_OF_MEMORY = 0.9  # largest share of the machine's memory that a fit may need


@dataclass(frozen=True)
class Estimate:
    """The seconds that a fit takes on an otherwise idle machine, and the most bytes of memory it needs.

    >>> print(Estimate(700.0, 1_100_000_000))
    about 12 minutes, 1.1 GB
    """

    seconds: float
    memory: int

    def __str__(self) -> str:
        return f"about {_duration(self.seconds)}, {size_text(self.memory)}"


def _duration(seconds: float) -> str:
    for unit, length in (("hour", 3600.0), ("minute", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.{0 if seconds >= 10 * length else 1}f} {unit}s".replace(".0 ", " ")
    return f"{max(1, round(seconds))} second{'s' if round(seconds) > 1 else ''}"


def estimate_fit(
    plan: Plan,
    domain: Domain | None,
    speed: float,
    *,
    memory: int | None = None,
    processes: int = 1,
    grouped: bool = False,
    rules: CostRules = COST_RULES,
) -> Estimate:
    """Time and memory of a fit on a CPU of the given speed (see `machine_speed`), without reading the data.

    Rows beyond their share of the `memory` limit stay on disk; `processes` share the records. `grouped` are the rows of
    the long shape.
    """
    known = Domain.of_items(plan.width or ProductRules().budget.unknown_width) if domain is None else domain
    sizes = Sizes.of(plan.records, known, processes)
    seconds = rules.fixed + sizes.records * (rules.per_record + rules.per_item * sizes.items)
    most = float("inf") if memory is None else rows_share(memory)
    rows = min(sizes.row_bytes, most) * (1 + rules.joining + (rules.grouping if grouped else 0))
    rows += min(open_domain_bytes(sizes, known), most) if known.is_open else 0
    work = strategy_of(plan.settings.model).work(plan, sizes, domain, rules)
    most_bytes = int(rules.process + rows + work.memory)
    return Estimate((seconds + work.seconds) / speed, most_bytes)


def check_memory(plan: Plan, domain: Domain, rules: CostRules = COST_RULES) -> None:
    """Refuse a fit that needs, without its rows, more memory than this machine has."""
    work = strategy_of(plan.settings.model).work(plan, Sizes.of(plan.records, domain), domain, rules)
    needed, available = rules.process + work.memory, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > MOST_OF_MEMORY * available:
        raise ResourceError(
            f"this fit needs about {needed / 2**30:.1f} GB and this machine has {available / 2**30:.1f}; use a smaller "
            "domain, or fewer clusters where there are any."
        )


def check_limit(expected: Estimate, memory: str | int) -> None:
    """Refuse a fit that needs more memory than it is allowed."""
    if expected.memory > bytes_of(memory):
        raise ResourceError(
            f"this fit needs about {size_text(expected.memory)} and `memory` allows {size_text(bytes_of(memory))};"
            " allow more, or use a smaller domain."
        )


def machine_speed(rules: CostRules = COST_RULES) -> float:
    """Speed of this machine relative to the reference machine of the rules; takes a tenth of a second.

    The fastest of several rounds counts, so that other work on the machine matters little.
    """
    numbers = torch.linspace(0.01, 0.99, 400 * 300).view(400, 300)
    best = float("inf")
    for _ in range(rules.probe_rounds):
        start = time.perf_counter()
        product = numbers.T @ numbers
        chances = torch.sigmoid(numbers @ product * 1e-3)
        (chances * numbers).add_(chances).sum()
        best = min(best, time.perf_counter() - start)
    return rules.probe_seconds / best
