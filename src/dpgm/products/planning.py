"""What a plan of products says before data is opened: budget shares, and the memory that a fit needs.

Everything here follows from public numbers: the domain, the number of records, the budget and the rules.
"""

from math import comb, sqrt
from typing import TypeGuard

import numpy as np

from dpgm.data.domain import Domain
from dpgm.privacy.calibration import Spend, gaussian_mu
from dpgm.products.enumerated import is_enumerated
from dpgm.products.rules import FitRules, ProductRules
from dpgm.statistics.clipping import clip_bound
from dpgm.statistics.item_counts import ITEMS
from dpgm.statistics.item_tuples import NAMES
from dpgm.statistics.record_lengths import LENGTHS, POPULAR
from dpgm.statistics.scaled_items import SCALED
from dpgm.strategy.memory_rules import MemoryRules, Sizes
from dpgm.strategy.protocol import PublicFacts


def measurement_spends(
    facts: PublicFacts,
    rules: ProductRules,
    *,
    share: float = 1.0,
    enumerate_few: bool = True,
    piloted: bool = False,
) -> tuple[Spend, ...]:
    """Which statistics to measure, and the share of the budget (mu²) of each.

    Args:
        facts: the domain, the number of records and the budget.
        rules: the tuned numbers.
        share: the sum of all shares.
        enumerate_few: whether all possible records are enumerated where there are few items.
        piloted: domain discovery releases noisy sums of all items, so no pilot release of their counts is needed.
    """
    domain, records, rule = facts.domain, facts.records, rules.budget
    width = rule.unknown_width if domain is None else domain.width
    items = width if domain is None else int(domain.item_positions.sum())
    columns = 0 if domain is None else len(domain.table_columns)
    sigma = facts.rows_per_person / gaussian_mu(facts.epsilon, facts.delta)  # noise of the whole budget on a count
    enumerated = enumerate_few and domain is not None and is_enumerated(domain, rules.enumerated)
    largest = _largest_order(width, items, columns, sigma, records, enumerated, rules)
    first = _item_share(width, items, sigma, records, enumerated, rules)
    rest = 1 - rule.lengths - first
    shares: tuple[float, ...] = {
        1: (rule.lengths, 1 - rule.lengths),
        2: (rule.lengths, first, rest),
        3: (rule.lengths, first, rule.pairs_beside_triples * rest, (1 - rule.pairs_beside_triples) * rest),
        4: rule.quadruples_enumerated if enumerated else rule.quadruples,
    }[largest]
    parts = dict(zip((LENGTHS, *(NAMES[order] for order in range(1, largest + 1))), shares, strict=True))
    # Item sets: a pilot release of the item counts, then scaled counts.
    if domain is not None and items == width and largest > 1 and not enumerated:
        pilot = {} if piloted else {ITEMS: rule.pilot * parts[ITEMS]}
        scaled = {SCALED: parts.pop(ITEMS) - sum(pilot.values())}
        parts = {LENGTHS: parts.pop(LENGTHS)} | pilot | scaled | parts
        if largest == 2 and width > rule.popular_groups[0]:
            parts[POPULAR] = rule.popular
    if items == 0:
        del parts[LENGTHS]
    total = sum(parts.values())
    return tuple(Spend(name, share * part / total) for name, part in parts.items())


def discovers_all(domain: Domain | None) -> bool:
    """Whether domain discovery finds all items, and so releases a noisy sum of each."""
    return domain is not None and all(field.finds_labels and field.is_set for field in domain.fields)


def _largest_order(
    width: int, items: int, columns: int, sigma: float, records: int, enumerated: bool, rules: ProductRules
) -> int:
    """The size of the largest sets of positions that are measured, 1 to 4.

    Triples are worth measuring if their noise, with the whole budget, is below the counts that matter; not in tables,
    where centred pairs say more at any budget, unless they are narrow. Narrow domains then get quadruples too.
    """
    rule = rules.budget
    if items == 0 and columns == 1:
        return 1  # no pairs within a column
    threshold = rules.sanity * records
    threshold *= rule.enumerated_tolerance if enumerated else min(1.0, rule.triple_width / width)
    noise = sigma * sqrt(comb(max(rule.triple_items, columns), 3) / rule.triple_share)
    if width > 2 and (items == width or width <= rule.narrow) and noise <= threshold:
        return 4 if 3 < width <= rule.narrow else 3
    return 2 if width > 1 else 1


def _item_share(width: int, items: int, sigma: float, records: int, enumerated: bool, rules: ProductRules) -> float:
    """Budget share of item counts: larger in wide domains, where popular queries are spread over more items."""
    rule = rules.budget
    share = rule.items + rule.items_wide * min(1.0, width / rule.wide)
    if items == width:  # pairs of up to about a hundred items are found easily
        share += rule.items_few * min(1.0, max(0.0, 2 - width / rule.few_items))
    if items == width and not enumerated:  # the larger the noise, the less can be learned of pairs
        noise = sigma / (rules.sanity * records) / rule.knowable
        share *= float(np.clip(noise**rule.knowable_power, 1.0, rule.most_items))
    return share


def tracked(order: int, noise: float, records: int, rules: ProductRules) -> int:
    """The number of most popular positions whose sets of size `order` are counted."""
    budget = rules.budget
    enough = budget.more_triples_below * rules.sanity * records
    if order == 3 and noise * clip_bound(3, budget.triple_items) <= enough:
        return budget.more_triple_positions
    return {2: budget.pair_positions, 3: budget.triple_positions, 4: budget.narrow}[order]


def component_count(width: int, records: int, rules: FitRules) -> int:
    """Number of components: each models one kind of record, but wide domains and few records afford fewer."""
    affordable = min(
        float(np.clip(width, rules.components, rules.components_wide)),
        max(rules.least_affordable, rules.component_cells / width),
    )
    least = min(int(affordable), max(rules.least_components, records // rules.records_per_component))
    return int(np.clip(sqrt(records) / 2, least, max(rules.components, least)))


def product_memory(
    records: int, sizes: Sizes, domain: Domain | None, rules: ProductRules, memory: MemoryRules
) -> float:
    """Bytes that a fit needs: components and, for tables, pairs of components."""
    components = component_count(sizes.width, records, rules.fit)
    needed = memory.mixture + memory.component_number * components * sizes.width
    if _maximises_entropy(domain, rules):
        needed += memory.overlap_column * components**2 * len(domain.table_columns)
    return needed


def _maximises_entropy(domain: Domain | None, rules: ProductRules) -> TypeGuard[Domain]:
    """Whether the fit maximises the entropy: tables of several columns that are not narrow."""
    if domain is None or domain.item_positions.any() or domain.width <= rules.budget.narrow:
        return False
    return len(domain.table_columns) > 1
