"""The middle of every fit: behind the books, from a plan to a generator, and from what ran to a certificate."""

from dataclasses import dataclass, replace

import torch

from dpgm import __version__
from dpgm.data.domain import Domain
from dpgm.data.domain_file import domain_to_plain
from dpgm.data.layouts import Source
from dpgm.kernels import parallel
from dpgm.kernels.agreement import agree
from dpgm.mechanisms.gateway import Gateway
from dpgm.privacy.accountant import ACCOUNTANT, cost, replace_one_epsilon
from dpgm.privacy.certificate import Certificate, LedgerMark
from dpgm.privacy.odds import odds
from dpgm.strategy.protocol import Generator, RunContext
from dpgm.synthesis.books import Books
from dpgm.synthesis.domain_discovery import discover_domain, discovery_statements
from dpgm.synthesis.measurements import MeasurementTable
from dpgm.synthesis.plan import Plan
from dpgm.synthesis.readme import SEEDED, statements_of
from dpgm.synthesis.strategies import fit_generator


@dataclass(frozen=True)
class Fitted:
    """What a fit makes of its rows: the closed domain, the generator, and the statistics that it released."""

    domain: Domain
    generator: Generator
    measurements: MeasurementTable


def discover_and_fit(
    gateway: Gateway,
    books: Books,
    plan: Plan,
    domain: Domain,
    context: RunContext,
    draws: torch.Generator | None = None,
) -> Fitted:
    """The generator of the plan's family and what comes with it: as an earlier process saved it, or fitted now.

    `draws` is the generator of public draws; by default that of the books.
    """
    if domain.is_open:
        context.progress("discover", 0, 1)
    discovered = discover_domain(books.discovery_gateway(gateway), plan, domain)
    if domain.is_open:
        context.progress("discover", 1, 1)
    if parallel.is_parallel():
        agree({"the values that were found": domain_to_plain(discovered.domain)})
    finished = books.finished(discovered.domain)
    if finished is not None:
        return Fitted(discovered.domain, *finished)
    draws = books.draws(gateway.randomness) if draws is None else draws
    context = replace(context, checkpoint=books.checkpoint, pilot=discovered.sums)
    generator = fit_generator(gateway, plan, discovered.domain, draws=draws, context=context)
    return Fitted(discovered.domain, generator, MeasurementTable.of(gateway.released, discovered.domain))


def certify(
    plan: Plan,
    books: Books,
    gateway: Gateway,
    generator: Generator,
    source: Source,
    domain: Domain,
    mark: LedgerMark | None,
    stated: tuple[str, ...] = (),
) -> Certificate:
    """The certificate: what ran, what it cost, and where all processes of the fit took their noise from.

    `stated` are statements beside those about how the records were read.
    """
    noise_sources, private = books.noise_sources(gateway.randomness)
    spent = cost(gateway.spent, plan.delta)
    found = discovery_statements(domain, plan.delta, plan.settings.discovery)
    return Certificate(
        epsilon=spent.epsilon,
        delta=plan.delta,
        adjacency=plan.adjacency,
        epsilon_replace_one=replace_one_epsilon(gateway.spent, plan.delta),
        unit=source.unit,
        records=plan.records,
        planned=plan.mechanisms,
        mechanisms=gateway.spent,
        accountant=ACCOUNTANT,
        randomness="; ".join(sorted(noise_sources)),
        private=private,
        software=f"dpgm {__version__}",
        model={"kind": generator.kind} | generator.architecture,
        files={},
        warnings=() if private else (SEEDED,),
        statements=(*statements_of(source, found, domain), *stated),
        plan=plan.public_numbers(domain),
        odds=odds(gateway.spent, plan.delta),
        ledger=mark,
    )
