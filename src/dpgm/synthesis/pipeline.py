"""The stages of a fit, each behind the gateway. Everything it returns is post-processing of noisy values.

A fit is a function of (gateway, plan, domain, public draws): no row is visible here. That is what lets a test replace
the gateway by a tape of noisy values and demand the same release bit for bit.
"""

import torch

from dpgm.data.domain import Domain
from dpgm.mechanisms.gateway import Gateway
from dpgm.synthesis.cell_measurement import fit_cells, lists_cells, measure_cells
from dpgm.synthesis.context import RunContext
from dpgm.synthesis.generator import Generator
from dpgm.synthesis.measurement import measure
from dpgm.synthesis.plan import Plan
from dpgm.synthesis.products_fit import fit_products


def fit_generator(
    gateway: Gateway, plan: Plan, domain: Domain, *, draws: torch.Generator, context: RunContext
) -> Generator:
    """Measure, then make a generator that shows what was measured (products, images), or train networks."""
    if plan.settings.model == "products":
        context.progress("measure", 0, 1)
        if lists_cells(domain):
            listed = measure_cells(gateway, domain, plan.records, plan.noises)
            context.progress("measure", 1, 1)
            return fit_cells(listed, domain, plan.records, progress=context.percent("refine"))
        measured = measure(gateway, domain, plan.records, plan.noises)
        context.progress("measure", 1, 1)
        return fit_products(measured, domain, plan.records, generator=draws, progress=context.percent("refine"))
    if plan.settings.model == "image":
        from dpgm.synthesis.image_measurement import fit_image_generator, measure_images

        context.progress("measure", 0, 1)
        embedded = measure_images(gateway, domain, plan.records, plan.noises, device=context.device)
        context.progress("measure", 1, 1)
        return fit_image_generator(
            embedded, domain, generator=draws, device=context.device, progress=context.percent("refine")
        )
    from dpgm.synthesis.networks import fit_networks

    return fit_networks(gateway, plan, domain, draws=draws, context=context)
