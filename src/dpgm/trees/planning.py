"""What a plan of trees says before data is opened: which statistics are measured, and their shares of the budget."""

from math import sqrt

from dpgm.data.domain import Domain, Field
from dpgm.privacy.calibration import Spend, gaussian_mu
from dpgm.statistics.column_counts import COLUMNS
from dpgm.statistics.list_vectors import ITEMS_BY_GROUPS, ITEMS_BY_VALUES, ITEMS_TOGETHER, LIST_ITEMS
from dpgm.statistics.pair_blocks import COARSE, FULL, SMOOTH
from dpgm.strategy.memory_rules import MemoryRules, Sizes
from dpgm.strategy.protocol import FitPlan, PublicFacts
from dpgm.trees.rules import RowPoolRules, TreeRules


def tree_spends(facts: PublicFacts, rules: TreeRules) -> tuple[Spend, ...]:
    """Which statistics are measured, and the share of the budget (mu²) of each."""
    assert facts.domain is not None
    columns = table_shares(facts, rules)
    lists = list_shares(facts.domain, rules)
    left = 1 - rules.lists.share if lists else 1.0
    parts = [(columns, left / sum(columns.values())), (lists, rules.lists.share / max(sum(lists.values()), 1e-9))]
    return tuple(Spend(name, share * scale) for shares, scale in parts for name, share in shares.items())


def table_shares(facts: PublicFacts, rules: TreeRules) -> dict[str, float]:
    """Relative shares of columns alone; of columns and ranks, where tables are too noisy; or of everything."""
    assert facts.domain is not None
    shares = rules.shares
    if len(facts.domain.fields) == 1:
        return {COLUMNS: 1.0}
    ordered = any(is_ordered(field) for field in facts.domain.fields)
    if is_wide(facts, rules):
        stated = {FULL: shares.full} if facts.domain.pairs else {}
        return {COLUMNS: shares.columns_wide, **stated, SMOOTH: 1 - shares.columns_wide - sum(stated.values())}
    found = {COLUMNS: shares.columns, COARSE: shares.coarse, FULL: shares.full}
    return found | ({SMOOTH: shares.ranks} if ordered else {})


def is_wide(facts: PublicFacts, rules: TreeRules) -> bool:
    """Whether tables of all pairs would drown in noise, so that ranks are all that is measured of most pairs."""
    return bearable_groups(facts, rules) < rules.pairs.least_groups


def list_shares(domain: Domain, rules: TreeRules) -> dict[str, float]:
    """Relative shares within what goes to lists; none without a list."""
    items = sum(field.width for field in domain.fields if field.is_set)
    if items == 0:
        return {}
    lists = rules.lists
    found = {LIST_ITEMS: lists.items, ITEMS_BY_GROUPS: lists.by_groups, ITEMS_BY_VALUES: lists.by_values}
    return found | ({ITEMS_TOGETHER: lists.together} if items > 1 else {})


def is_ordered(field: Field) -> bool:
    """Whether the values of a field have an order, as far as the stated domain says."""
    two = not field.is_open and field.width - field.may_be_missing == 2
    return field.is_set or field.open_number is not None or field.position_ranges() is not None or two


def bearable_groups(facts: PublicFacts, rules: TreeRules) -> float:
    """How many groups per column the noise bears, if all columns are spread evenly over their values."""
    assert facts.domain is not None
    spread = [1 - 1 / max(2, field.width) for field in facts.domain.fields]
    norm = sqrt((sum(spread) ** 2 - sum(one**2 for one in spread)) / 2)
    mu = gaussian_mu(facts.epsilon, facts.delta) / facts.rows_per_person
    shares = rules.shares
    share = shares.coarse / (shares.columns + shares.coarse + shares.full + shares.ranks)
    return sqrt(facts.records * mu * sqrt(share) / (rules.pairs.cell_noises * norm))


# -- memory --------------------------------------------------------------------------------------------------------


def tree_memory(plan: FitPlan, sizes: Sizes, domain: Domain, rules: TreeRules, memory: MemoryRules) -> float:
    """Estimated memory: the pool with its codes and groups, and the joint shares of all pairs in the base."""
    joint = memory.joint_number * rules.base.components * float(sizes.width) ** 2
    rows = pool_rows(plan.records, len(domain.fields), rules.pool)
    return memory.mixture + joint + memory.pool_code * rows * len(domain.fields)


def pool_rows(records: int, columns: int, rules: RowPoolRules) -> int:
    """How many rows are tilted."""
    pairs = max(1, columns * (columns - 1) // 2)
    wanted = round(rules.per_record * records)
    return int(min(max(wanted, min(rules.least, rules.cells / pairs)), rules.most))
