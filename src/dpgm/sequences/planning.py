"""What a plan of sequences says before data is opened: budget shares and memory, from public numbers alone."""

from collections.abc import Mapping

from dpgm.data.domain import Domain
from dpgm.privacy.calibration import Spend
from dpgm.sequences.layout import ranks_matter, sequence_of
from dpgm.sequences.rules import MeasureRules, SequenceRules
from dpgm.statistics.attribute_vectors import (
    ATTRIBUTE_PAIRS,
    ATTRIBUTES,
    ATTRIBUTES_BY_ITEM,
    ATTRIBUTES_BY_LENGTH,
    ATTRIBUTES_BY_STEP,
)
from dpgm.statistics.event_vectors import ITEM_PAIRS, NGRAMS, SEQUENCE_LENGTHS, STEP_COUNTS, STEPS_BY_LENGTH
from dpgm.statistics.place_vectors import FIRST_PLACES, NEXT_PLACES, OF_RANKS, PLACES
from dpgm.statistics.time_vectors import ITEM_HOURS, TIME_STATISTICS

_OF_ATTRIBUTES = (ATTRIBUTES, ATTRIBUTE_PAIRS, ATTRIBUTES_BY_LENGTH, ATTRIBUTES_BY_STEP, ATTRIBUTES_BY_ITEM)


def spends(domain: Domain, rules: SequenceRules) -> tuple[Spend, ...]:
    """Shares of the budget: of the statistics of events, of times, and of the columns of persons."""
    rule, columns, sequence = rules.measure, len(domain.table_columns), sequence_of(domain)
    ranked = ranks_matter(domain, rules)
    shares = _place_shares(sequence.max_length, rules) if ranked else _chain_shares(sequence.max_length, rule)
    if sequence.time:
        named = zip((*TIME_STATISTICS, ITEM_HOURS), rule.time_parts, strict=True)
        shares |= _scaled(dict(named), rule.times / (1 - rule.times) * sum(shares.values()))
    if columns:
        parts = dict(zip(_OF_ATTRIBUTES, rule.attribute_parts, strict=True))
        if columns == 1:
            del parts[ATTRIBUTE_PAIRS]
        if ranked:
            parts[OF_RANKS + ATTRIBUTES_BY_STEP] = parts.pop(ATTRIBUTES_BY_STEP)
        shares |= _scaled(parts, rule.attributes / (1 - rule.attributes) * sum(shares.values()))
    return tuple(Spend(name, share) for name, share in _scaled(shares, 1.0).items())


def _scaled(shares: Mapping[str, float], total: float) -> dict[str, float]:
    return {name: total * share / sum(shares.values()) for name, share in shares.items()}


def _chain_shares(longest: int, rule: MeasureRules) -> dict[str, float]:
    """Runs longer than any sequence are left out."""
    shares = {
        SEQUENCE_LENGTHS: rule.lengths,
        STEP_COUNTS: rule.steps,
        STEPS_BY_LENGTH: rule.steps_by_length,
        ITEM_PAIRS: rule.pairs,
    }
    runs = zip((3, 4, 5), rule.runs, strict=True)
    return shares | {NGRAMS[order]: share for order, share in runs if order <= longest}


def _place_shares(longest: int, rules: SequenceRules) -> dict[str, float]:
    """Of chains of ranks, of the places of ranks, and of items."""
    rule = rules.places
    chains = _chain_shares(longest, rules.measure)
    del chains[ITEM_PAIRS]
    chains = {name if name == SEQUENCE_LENGTHS else OF_RANKS + name: share for name, share in chains.items()}
    places = dict(zip((FIRST_PLACES, PLACES, NEXT_PLACES), rule.place_parts, strict=True))
    parts = zip((1, 2, 3, 4), (ITEM_PAIRS, *(NGRAMS[order] for order in (2, 3, 4))), rule.item_parts, strict=True)
    items = {name: share for order, name, share in parts if order <= longest}
    blocks = zip((chains, places, items), rule.shares, strict=True)
    return {name: share for block, total in blocks for name, share in _scaled(block, total).items()}


def pool_size(domain: Domain, people: int, rules: SequenceRules, *, last: bool) -> int:
    """How many sequences are drawn for a pool; fewer where a person adds to many statistics."""
    rule, timed, ranked = rules.pool, sequence_of(domain).time, ranks_matter(domain, rules)
    if timed or ranked:
        size = int(min(max(rule.small * people, rule.small_least), rule.small_most))
        return max(size, rule.ranked_least) if last and not timed else size
    wanted, least = (rule.proposals, rule.least) if last else (rule.proposals_before, rule.least_before)
    return int(min(max(wanted * people, least), rule.most))
