"""The default method for sequences: a mixture of chains proposes, and a tilt reweights what it proposes.

    lengths   <- noisy numbers of people by number of events
    steps     <- noisy counts of which item comes after which
    chain     <- the chain of these steps; a pool of sequences drawn from it
    counts    <- noisy counts of steps by length, pairs of items, and the runs of 3 items that the pool has most often
    tilt      <- weights of the pool by which it has all noisy counts
    chains    <- a mixture of chains fitted to the weighted pool; a new pool
    runs      <- noisy counts of the commonest runs of 4 and 5 items; a tilt, chains and a pool again
    generator <- the last chains with the tilt of their pool

Every count is a sum of vectors of people that are scaled down where they are long; the tilt reads the same sums off a
pool, scaled down alike, so nothing needs a closed form. All but the noisy counts is post-processing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.errors import UsageError
from dpgm.mechanisms.gateway import Gateway
from dpgm.sequences.chains import chain_sizes, first_chain, uniform_events
from dpgm.sequences.evidence import Evidence, WeightedPool, popular_runs
from dpgm.sequences.mixture import ChainMixture, fit_mixture
from dpgm.sequences.model import Sequences, proposed, sequence_of
from dpgm.sequences.planning import chain_spends, pool_size
from dpgm.sequences.pool import Pool
from dpgm.sequences.rules import SEQUENCE_RULES, SequenceRules, SequenceSettings
from dpgm.statistics.clipped_vectors import ClippedVectors, Vectors
from dpgm.statistics.event_vectors import (
    ItemPairs,
    Ngrams,
    SequenceLengths,
    StepCounts,
    person_events,
    steps_of,
)
from dpgm.statistics.shrinkage import onto_simplex
from dpgm.statistics.statistic import Measured, plan_descriptions
from dpgm.strategy.memory_rules import MemoryRules, Sizes
from dpgm.strategy.protocol import Budget, FitPlan, PublicFacts, RunContext, Strategy
from dpgm.strategy.settings import Config, FamilySettings, no_settings


def fit_chains(evidence: Evidence, domain: Domain, rng: np.random.Generator, context: RunContext) -> Sequences:
    """Measure and fit in turn: what is counted next is chosen from a pool that has what was counted before."""
    items, longest = len(sequence_of(domain).items), sequence_of(domain).max_length
    progress = context.percent("refine")

    def pool(chains: ChainMixture, *, last: bool = False) -> Pool:
        return proposed(chains, domain, pool_size(evidence.people, evidence.rules, last=last), rng)

    # A first chain, from lengths and steps.
    lengths = evidence.ask(SequenceLengths(longest))
    steps = evidence.ask(StepCounts(items), even_pool(lengths, domain, evidence, rng))
    chains = first_chain(steps.value.numpy(), items, evidence.rules.mixture.floor)
    found = evidence.tilt(pool(chains))
    evidence.ask(StepCounts(items, length_classes(found, evidence.rules.measure.length_classes)), found)
    evidence.ask(ItemPairs(items), found)

    # Runs of 3 items, then of 4 and 5; each time, chains are fitted anew to the weighted pool.
    for orders in ((3,), (4, 5)):
        found = evidence.tilt(pool(chains), progress)
        for order in orders:
            if order <= longest:
                evidence.ask(popular_runs(order, items, found, evidence), found)
        chains = fit_chains_to(found, items, evidence.rules, rng)

    found = evidence.tilt(pool(chains, last=True), progress)
    return Sequences.of(domain, chains, evidence.released, found, evidence.rules.draw)


def even_pool(
    lengths: Measured[ClippedVectors], domain: Domain, evidence: Evidence, rng: np.random.Generator
) -> WeightedPool:
    """People with the released lengths and all items equally likely: before anything is known of the items."""
    sequence = sequence_of(domain)
    bins = SequenceLengths(sequence.max_length).bins  # the last ones may stand for longer lengths
    shares = onto_simplex(lengths.value.numpy() / evidence.people, 1.0)
    chances = (shares / np.bincount(bins))[bins]
    drawn = rng.choice(len(bins), evidence.rules.pool.first, p=chances / chances.sum())
    events = uniform_events(drawn, len(sequence.items), rng)
    return WeightedPool.even(Pool.of_events(events, domain))


def length_classes(on: WeightedPool, count: int) -> tuple[int, ...]:
    """The lengths at which all but the first of `count` classes start; classes have about equally many events."""
    lengths = person_events(on.pool.records).lengths
    events = np.bincount(lengths, on.weights * (lengths + 1))
    cuts = np.searchsorted(np.cumsum(events), np.arange(1, count) / count * events.sum()) + 1
    return tuple(sorted({int(cut) for cut in cuts if cut < len(events)}))


def fit_chains_to(found: WeightedPool, items: int, rules: SequenceRules, rng: np.random.Generator) -> ChainMixture:
    """Chains fitted to a weighted pool, which stands for as many people as its effective size."""
    events, sizes = person_events(found.pool.records), chain_sizes(items)
    counts = Vectors.counted(*steps_of(events, items), len(events), sum(sizes))
    return fit_mixture(counts, found.weights, found.effective, sizes, rules.mixture, rng)


@dataclass(frozen=True)
class SequenceStrategy(Strategy):
    """Domains with a sequence."""

    rules: SequenceRules = SEQUENCE_RULES
    name = Sequences.kind
    models_order = True
    settings_type = SequenceSettings
    measures = plan_descriptions(SequenceLengths.words, StepCounts.words, ItemPairs.words, Ngrams.words)

    def refuses(self, config: Config, domain: Domain | None) -> str | None:
        """Refuses domains without a sequence, and the paper's preset."""
        if (paper := super().refuses(config, domain)) is not None:
            return paper
        if domain is None or domain.sequence is None:
            return "`model` sequences needs a domain with a field of kind `sequence`; use auto or another model."
        return None

    def settings(self, config: Config, facts: PublicFacts) -> FamilySettings:
        """The tuned numbers; a request changes none of them."""
        no_settings(config)
        return SequenceSettings(self.rules)

    def budget(self, facts: PublicFacts, settings: FamilySettings) -> Budget:
        """The whole budget goes to measurements."""
        if facts.domain is None or facts.domain.sequence is None:
            raise UsageError("`model` sequences needs a domain with a sequence; give it.")
        return Budget(chain_spends(facts.domain.sequence.max_length, _rules(settings)))

    def architecture(self, settings: FamilySettings) -> dict[str, Any]:
        """The number of components."""
        return {"components": _rules(settings).mixture.components}

    def memory(self, plan: FitPlan, sizes: Sizes, domain: Domain | None, rules: MemoryRules) -> float:
        """Estimated memory of pools and their statistics."""
        return rules.proposal * pool_size(plan.records, _rules(plan.settings.family), last=True)

    def fit(
        self, gateway: Gateway, plan: FitPlan, domain: Domain, *, draws: torch.Generator, context: RunContext
    ) -> Sequences:
        """Measure and fit in turn."""
        context.progress("measure", 0, 1)
        evidence = Evidence(gateway, plan, _rules(plan.settings.family))
        rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=draws)))
        fitted = fit_chains(evidence, domain, rng, context)
        context.progress("measure", 1, 1)
        return fitted

    def load(
        self,
        architecture: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        domain: Domain,
        settings: FamilySettings,
    ) -> Sequences:
        """A generator from the parts of an untrusted release."""
        return Sequences.from_state(architecture, tensors, domain, _rules(settings).draw)


def _rules(settings: FamilySettings) -> SequenceRules:
    assert isinstance(settings, SequenceSettings)
    return settings.rules


SEQUENCES = SequenceStrategy()
