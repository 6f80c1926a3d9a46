"""The default method for sequences: a mixture of chains proposes, and a tilt reweights what it proposes.

    lengths   <- noisy numbers of people by number of events
    values    <- noisy numbers of people by value of each column of persons
    steps     <- noisy counts of which item comes after which
    chain     <- the chain of these steps; a pool of sequences drawn from it
    counts    <- noisy counts of steps by length, pairs of items, columns with each other and with events, and
                 the runs of 3 items that the pool has most often
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

from dpgm.arrays import Floats
from dpgm.data.domain import Domain
from dpgm.errors import UsageError
from dpgm.mechanisms.gateway import Gateway
from dpgm.sequences.chains import first_laws
from dpgm.sequences.evidence import Evidence, WeightedPool, popular_pairs, popular_runs
from dpgm.sequences.layout import PersonLayout, ranks_matter, sequence_of
from dpgm.sequences.mixture import ChainMixture, fit_mixture
from dpgm.sequences.model import Sequences
from dpgm.sequences.places import PlaceMixture, PlaceTables, fit_places, new_places
from dpgm.sequences.planning import pool_size, spends
from dpgm.sequences.pool import Pool
from dpgm.sequences.rules import SEQUENCE_RULES, SequenceRules, SequenceSettings
from dpgm.statistics.attribute_vectors import (
    ATTRIBUTE_PAIRS,
    ATTRIBUTES,
    ATTRIBUTES_BY_ITEM,
    ATTRIBUTES_BY_LENGTH,
    ATTRIBUTES_BY_STEP,
    AttributeCodes,
    AttributesByEvents,
    AttributeVectors,
)
from dpgm.statistics.clipped_vectors import ClippedVectors
from dpgm.statistics.event_vectors import (
    STEP_COUNTS,
    ItemPairs,
    Ngrams,
    SequenceLengths,
    StepCounts,
    person_events,
)
from dpgm.statistics.place_vectors import FIRST_PLACES, NEXT_PLACES, PLACES, OfRanks, PlaceVectors
from dpgm.statistics.shrinkage import onto_simplex
from dpgm.statistics.statistic import Measured, plan_descriptions
from dpgm.statistics.time_vectors import (
    FIRST_TIMES,
    TIME_STATISTICS,
    Clock,
    ItemHours,
    TimeVectors,
)
from dpgm.strategy.memory_rules import MemoryRules, Sizes
from dpgm.strategy.protocol import Budget, FitPlan, PublicFacts, RunContext, Strategy
from dpgm.strategy.settings import Config, FamilySettings, no_settings


def fit_chains(evidence: Evidence, domain: Domain, rng: np.random.Generator, context: RunContext) -> Sequences:
    """Measure and fit in turn: what is counted next is chosen from a pool that has what was counted before."""
    rules = evidence.rules
    layout = PersonLayout(domain, rules)
    items, longest, least = layout.symbols, sequence_of(domain).max_length, rules.pool.least_effective
    small = layout.by_rank or layout.clock is not None
    progress = context.percent("refine")

    def pool(mixture: ChainMixture, *, last: bool = False, places: PlaceMixture | None = None) -> Pool:
        return layout.draw(mixture, pool_size(domain, evidence.people, rules, last=last), rng, places)

    # First components, from lengths, values of columns, steps and times.
    lengths = evidence.ask(SequenceLengths(longest))
    values = attribute_shares(evidence, layout)
    even = even_pool(lengths, values, layout, evidence, rng)
    mixture = layout.first(*first_events(evidence, layout, lengths, even), values)
    found = evidence.tilt(pool(mixture), least=least)
    for _ in range(rules.pool.more_rounds if small else 0):  # people differ much in their days, hours and places
        mixture = fit_components(found, layout, rules, rng)
        found = evidence.tilt(pool(mixture), least=least)
    if small:
        mixture = fit_components(found, layout, rules, rng)
    classes = length_classes(found, rules.measure.length_classes)
    evidence.ask(layout.of_symbols(StepCounts(items, classes)), found)
    codes = AttributeCodes.coarse(domain, values, rules.measure.attribute_codes)
    ask_attributes(evidence, layout, codes, found)
    ask_times(evidence, layout, found)
    if not layout.by_rank:
        ask_items(evidence, layout, codes, found)

    # Runs of 3 symbols, then of 4 and 5; each time, components are fitted anew to the weighted pool.
    for orders in ((3,), (4, 5)):
        found = evidence.tilt(pool(mixture), progress, least=least)
        for order in orders:
            if order <= longest:
                evidence.ask(popular_runs(order, layout, found, evidence, ranks=True), found)
        mixture = fit_components(found, layout, rules, rng)

    # Places for ranks, and what is counted of items.
    places = None
    if layout.by_rank:
        found = evidence.tilt(pool(mixture), progress, least=least)
        mixture = fit_components(found, layout, rules, rng)
        places = ask_places(evidence, layout, found, rng)
        filled = WeightedPool.even(pool(mixture, places=places))
        ask_items(evidence, layout, codes, filled)
        for order in (2, 3, 4):
            if order <= longest:
                evidence.ask(popular_runs(order, layout, filled, evidence, ranks=False), filled)

    found = evidence.tilt(pool(mixture, last=True, places=places), progress, least=rules.pool.least_effective_last)
    return Sequences.of(layout, mixture, places, evidence.released, found)


def ask_places(
    evidence: Evidence, layout: PersonLayout, found: WeightedPool, rng: np.random.Generator
) -> PlaceMixture:
    """Release which places have which rank, and fit a mixture of products to them."""
    items, ranks = layout.items, layout.symbols
    asked = (PlaceVectors(name, items, ranks) for name in (FIRST_PLACES, PLACES, NEXT_PLACES))
    first, each, following = (evidence.ask(one, ones=one.ones, kept=False) for one in asked)
    tables = PlaceTables(
        first.value.reshape(items, items),
        each.value.reshape(ranks, items),
        following.value.reshape(items, items),
        (first.std, each.std, following.std),
        new_places(person_events(found.pool.records), found.weights, ranks),
    )
    return fit_places(tables, evidence.people, evidence.rules.places, rng)


def ask_items(evidence: Evidence, layout: PersonLayout, codes: AttributeCodes, on: WeightedPool) -> None:
    """Release which items people have, alone, in pairs, with columns and at which time of day."""
    pairs = popular_pairs(layout.items, on, evidence) if layout.by_rank else ItemPairs(layout.items)
    evidence.ask(pairs, on)
    if codes.sizes:
        evidence.ask(AttributesByEvents(ATTRIBUTES_BY_ITEM, codes, layout.items), on)
    if layout.clock is not None:
        evidence.ask(ItemHours(layout.items, layout.clock), on)


def first_events(
    evidence: Evidence, layout: PersonLayout, lengths: Measured[ClippedVectors], even: WeightedPool
) -> tuple[Tensor, Tensor]:
    """Weights and laws of events of first components, from noisy counts of steps; with times, also of these."""
    rules = evidence.rules.mixture
    if layout.days is None:
        steps = evidence.ask(layout.steps, even)
        laws = first_laws(steps.value.numpy(), layout.symbols + 1, rules.floor)
        if layout.by_rank:
            laws = torch.cat([laws, first_laws(lengths.value.numpy(), 1, rules.floor)])
        return torch.ones(1, dtype=torch.float64), laws[None]
    released = {STEP_COUNTS: evidence.ask(layout.steps, even).value.numpy()}
    for name in FIRST_TIMES:
        released[name] = ask_time(name, evidence, layout.days.clock, even).value.numpy()
    return layout.days.first(released, rules.floor, rules.levels)


def ask_time(name: str, evidence: Evidence, clock: Clock, on: WeightedPool) -> Measured[ClippedVectors]:
    """Release a statistic of times."""
    asked = TimeVectors(name, clock)
    return evidence.ask(asked, ones=asked.ones) if asked.ones else evidence.ask(asked, on)


def ask_times(evidence: Evidence, layout: PersonLayout, found: WeightedPool) -> None:
    """Release all that is counted of times, but for what the first component was made from."""
    if layout.clock is None:
        return
    for name in TIME_STATISTICS:
        if name not in FIRST_TIMES:
            ask_time(name, evidence, layout.clock, found)


def attribute_shares(evidence: Evidence, layout: PersonLayout) -> list[Floats]:
    """The share of every value of every column, from noisy counts."""
    sizes = layout.columns.sizes
    if not sizes:
        return []
    asked = AttributeVectors(ATTRIBUTES, layout.columns)
    counts = np.split(evidence.ask(asked, ones=asked.ones).value.numpy(), np.cumsum(sizes)[:-1])
    return [onto_simplex(one / max(one.sum(), 1.0), 1.0) for one in counts]


def ask_attributes(evidence: Evidence, layout: PersonLayout, codes: AttributeCodes, on: WeightedPool) -> None:
    """Release how columns go together, and how they go with lengths and steps."""
    if not codes.sizes:
        return
    for name in (ATTRIBUTE_PAIRS, ATTRIBUTES_BY_LENGTH):
        asked = AttributeVectors(name, codes)
        if asked.ones:
            evidence.ask(asked, ones=asked.ones)
    evidence.ask(layout.of_symbols(AttributesByEvents(ATTRIBUTES_BY_STEP, codes, layout.symbols)), on)


def even_pool(
    lengths: Measured[ClippedVectors],
    values: list[Floats],
    layout: PersonLayout,
    evidence: Evidence,
    rng: np.random.Generator,
) -> WeightedPool:
    """People with the released lengths and values, all items equally likely: before anything is known of the items."""
    sequence, count = sequence_of(layout.domain), evidence.rules.pool.first
    bins = SequenceLengths(sequence.max_length).bins  # the last ones may stand for longer lengths
    shares = onto_simplex(lengths.value.numpy() / evidence.people, 1.0)
    chances = (shares / np.bincount(bins))[bins]
    drawn = rng.choice(len(bins), count, p=chances / chances.sum())
    return WeightedPool.even(layout.even(drawn, values, rng))


def length_classes(on: WeightedPool, count: int) -> tuple[int, ...]:
    """The lengths at which all but the first of `count` classes start; classes have about equally many events."""
    lengths = person_events(on.pool.records).lengths
    events = np.bincount(lengths, on.weights * (lengths + 1))
    cuts = np.searchsorted(np.cumsum(events), np.arange(1, count) / count * events.sum()) + 1
    return tuple(sorted({int(cut) for cut in cuts if cut < len(events)}))


def fit_components(
    found: WeightedPool, layout: PersonLayout, rules: SequenceRules, rng: np.random.Generator
) -> ChainMixture:
    """Components fitted to a weighted pool, which stands for as many people as its effective size."""
    counts = layout.counts(found.pool.records)
    return fit_mixture(counts, found.weights, found.effective, layout.sizes, rules.mixture, rng)


@dataclass(frozen=True)
class SequenceStrategy(Strategy):
    """Domains with a sequence."""

    rules: SequenceRules = SEQUENCE_RULES
    name = Sequences.kind
    models_order = True
    settings_type = SequenceSettings
    measures = plan_descriptions(
        SequenceLengths.words,
        StepCounts.words,
        ItemPairs.words,
        Ngrams.words,
        AttributeVectors.words,
        AttributesByEvents.words,
        TimeVectors.words,
        OfRanks.words,
        PlaceVectors.words,
        ItemHours.words,
    )

    def refuses(self, config: Config, domain: Domain | None) -> str | None:
        """Refuses domains without a sequence, and the paper's preset."""
        if (paper := super().refuses(config, domain)) is not None:
            return paper
        if domain is None or domain.sequence is None:
            return "`model` sequences needs a domain with a field of kind `sequence`; use auto or another model."
        if len(domain.table_columns) + 1 < len(domain.fields):
            return (
                "a sequence is modelled beside columns of one value each; leave other lists and images out of the"
                " domain."
            )
        return None

    def settings(self, config: Config, facts: PublicFacts) -> FamilySettings:
        """The tuned numbers; a request changes none of them."""
        no_settings(config)
        return SequenceSettings(self.rules)

    def budget(self, facts: PublicFacts, settings: FamilySettings) -> Budget:
        """The whole budget goes to measurements."""
        if facts.domain is None or facts.domain.sequence is None:
            raise UsageError("`model` sequences needs a domain with a sequence; give it.")
        return Budget(spends(facts.domain, _rules(settings)))

    def architecture(self, settings: FamilySettings) -> dict[str, Any]:
        """The number of components."""
        return {"components": _rules(settings).mixture.components}

    def memory(self, plan: FitPlan, sizes: Sizes, domain: Domain | None, rules: MemoryRules) -> float:
        """Estimated memory of pools and their statistics."""
        family = _rules(plan.settings.family)
        if domain is None or domain.sequence is None:
            return 0.0
        small = domain.sequence.time or ranks_matter(domain, family)
        each = rules.small_proposal if small else rules.proposal
        return each * pool_size(domain, plan.records, family, last=True)

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
        return Sequences.from_state(architecture, tensors, domain, _rules(settings))


def _rules(settings: FamilySettings) -> SequenceRules:
    assert isinstance(settings, SequenceSettings)
    return settings.rules


SEQUENCES = SequenceStrategy()
