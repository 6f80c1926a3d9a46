"""What a plan of sequences says before data is opened: budget shares and memory, from public numbers alone."""

from dpgm.privacy.calibration import Spend
from dpgm.sequences.rules import SequenceRules
from dpgm.statistics.event_vectors import ITEM_PAIRS, NGRAMS, SEQUENCE_LENGTHS, STEP_COUNTS, STEPS_BY_LENGTH


def chain_spends(longest: int, rules: SequenceRules) -> tuple[Spend, ...]:
    """Shares of the budget for the statistics of chains; runs longer than any sequence are left out."""
    rule = rules.measure
    shares = {
        SEQUENCE_LENGTHS: rule.lengths,
        STEP_COUNTS: rule.steps,
        STEPS_BY_LENGTH: rule.steps_by_length,
        ITEM_PAIRS: rule.pairs,
    }
    runs = zip((3, 4, 5), rule.runs, strict=True)
    shares |= {NGRAMS[order]: share for order, share in runs if order <= longest}
    total = sum(shares.values())
    return tuple(Spend(name, share / total) for name, share in shares.items())


def pool_size(people: int, rules: SequenceRules, *, last: bool) -> int:
    """How many sequences are drawn for a pool."""
    rule = rules.pool
    wanted, least = (rule.proposals, rule.least) if last else (rule.proposals_before, rule.least_before)
    return int(min(max(wanted * people, least), rule.most))
