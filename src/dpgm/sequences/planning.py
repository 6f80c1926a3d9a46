"""What a plan of sequences says before data is opened: budget shares and memory, from public numbers alone."""

from dpgm.data.domain import Domain
from dpgm.privacy.calibration import Spend
from dpgm.sequences.layout import sequence_of
from dpgm.sequences.rules import MeasureRules, SequenceRules
from dpgm.statistics.attribute_vectors import (
    ATTRIBUTE_PAIRS,
    ATTRIBUTES,
    ATTRIBUTES_BY_ITEM,
    ATTRIBUTES_BY_LENGTH,
    ATTRIBUTES_BY_STEP,
)
from dpgm.statistics.event_vectors import ITEM_PAIRS, NGRAMS, SEQUENCE_LENGTHS, STEP_COUNTS, STEPS_BY_LENGTH
from dpgm.statistics.time_vectors import ITEM_HOURS, TIME_STATISTICS

_OF_ATTRIBUTES = (ATTRIBUTES, ATTRIBUTE_PAIRS, ATTRIBUTES_BY_LENGTH, ATTRIBUTES_BY_STEP, ATTRIBUTES_BY_ITEM)


def spends(domain: Domain, rules: SequenceRules) -> tuple[Spend, ...]:
    """Shares of the budget: of the statistics of chains, of times, and of the columns of persons."""
    rule, columns, sequence = rules.measure, len(domain.table_columns), sequence_of(domain)
    shares = _chain_shares(sequence.max_length, rule)
    if sequence.time:
        scale = rule.times / (1 - rule.times) * sum(shares.values()) / sum(rule.time_parts)
        named = zip((*TIME_STATISTICS, ITEM_HOURS), rule.time_parts, strict=True)
        shares |= {name: scale * part for name, part in named}
    if columns:
        parts = dict(zip(_OF_ATTRIBUTES, rule.attribute_parts, strict=True))
        if columns == 1:
            del parts[ATTRIBUTE_PAIRS]
        scale = rule.attributes / (1 - rule.attributes) * sum(shares.values()) / sum(parts.values())
        shares |= {name: scale * part for name, part in parts.items()}
    total = sum(shares.values())
    return tuple(Spend(name, share / total) for name, share in shares.items())


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


def pool_size(people: int, rules: SequenceRules, *, last: bool, timed: bool = False) -> int:
    """How many sequences are drawn for a pool."""
    rule = rules.pool
    if timed:
        return int(min(max(rule.timed * people, rule.timed_least), rule.timed_most))
    wanted, least = (rule.proposals, rule.least) if last else (rule.proposals_before, rule.least_before)
    return int(min(max(wanted * people, least), rule.most))
