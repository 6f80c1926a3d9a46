"""Will this machine do? An estimate from public numbers, before anything is charged."""

import os

from dpgm.errors import ResourceError
from dpgm.synthesis.plan import Plan

FLOAT = 4


def memory_estimate(plan: Plan, width: int) -> int:
    """Bytes a fit needs beyond the records themselves, from public numbers alone; deliberately generous."""
    settings = plan.settings
    # components x items, with gradients and two moments, and one chunk of dense rows for pair counts
    base = 300 * 2**20 + 400 * width * FLOAT * 6 + 8192 * min(width, 2000) * FLOAT * 4
    if not settings.trains_networks:
        return base
    hidden = sum(settings.hidden) or 1
    parameters = settings.clusters * (
        2 * width * settings.hidden[0] + hidden * hidden + 2 * hidden * settings.latent
    )
    batch = plan.settings.sampling_rate * plan.records
    return int(base + 5 * parameters * FLOAT + 6 * batch * (width + hidden) * FLOAT)


def check_memory(plan: Plan, width: int) -> None:
    """Refuse a fit that cannot fit into memory, naming what to change."""
    needed = memory_estimate(plan, width)
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > 0.9 * available:
        advice = "a smaller domain" if not plan.settings.trains_networks else "fewer --clusters or a smaller domain"
        raise ResourceError(
            f"this fit needs about {needed / 2**30:.1f} GB and this machine has {available / 2**30:.1f}; use {advice}."
        )
