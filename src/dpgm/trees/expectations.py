"""What a plan of trees will measure, how well, and what will be lost: sentences from public numbers alone.

Errors are two standard deviations of the noise, before the fit smooths it. Rows are taken to be spread evenly over the
values of each column, and columns to be independent.
"""

from math import sqrt

from dpgm.data.domain import Domain
from dpgm.statistics.column_counts import COLUMNS
from dpgm.statistics.pair_blocks import COARSE, FULL, SMOOTH
from dpgm.strategy.protocol import FitPlan
from dpgm.trees.planning import bearable_groups, is_ordered
from dpgm.trees.rules import TreeRules
from dpgm.validation import counted

_NAMED = 5  # pairs that are named one by one


def tree_expectations(plan: FitPlan, domain: Domain, rules: TreeRules) -> tuple[str, ...]:
    """Sentences for a user who has not spent anything yet."""
    columns = len(domain.fields)
    if columns == 1:
        return (
            f"Each count of {domain.fields[0].name!r} is right within about {_rows(_column_error(plan, domain))}.",
        )
    found = [_all_pairs(plan, domain, rules)] if plan.pays_for(COARSE) else _too_wide(plan, domain, rules)
    if domain.pairs and plan.pays_for(FULL):
        named = ", ".join(f"{first} and {second}" for first, second in domain.pairs[:_NAMED])
        more = f" and {len(domain.pairs) - _NAMED:,} more" if len(domain.pairs) > _NAMED else ""
        found.append(f"Measured value by value, as you asked: {named}{more}.")
    if any(field.is_set for field in domain.fields):
        found.append(
            f"Items of lists have {rules.lists.share:.0%} of the budget, and do not crowd out the columns: each item by"
            " itself, beside every column, and in pairs."
        )
    return tuple(found)


def _all_pairs(plan: FitPlan, domain: Domain, rules: TreeRules) -> str:
    groups = int(min(rules.pairs.most_groups, max(2.0, bearable_groups(plan.facts(domain), rules))))
    cell = 2 * plan.noise(COARSE) * _norm([1 - 1 / max(2, min(groups, field.width)) for field in domain.fields])
    pairs = _pairs(domain)
    ranks = (
        f"; a rank correlation, within about {_rank_error(plan, domain, rules):.2g}"
        if plan.pays_for(SMOOTH)
        else ""
    )
    which = "The pair of columns is" if pairs == 1 else f"All {pairs:,} pairs of columns are"
    return (
        f"{which} measured as tables of up to {groups} groups of values per column. A count in such a table is right"
        f" within about {_rows(cell)}{ranks}."
    )


def _too_wide(plan: FitPlan, domain: Domain, rules: TreeRules) -> list[str]:
    return [
        f"{counted(plan.records, 'record')} at epsilon {plan.target_epsilon:g} are too few for tables of all"
        f" {_pairs(domain):,} pairs of columns. Of each pair the rank correlation is measured, right within about"
        f" {_rank_error(plan, domain, rules):.2g}, and each count of one column within about"
        f" {_rows(_column_error(plan, domain))}.",
        "Relations of other shapes, of values without an order and of more than two columns will be mostly lost. Leave"
        " out columns, or say which matter (`weight` of a field, `pairs` of the domain), to keep more.",
    ]


def _pairs(domain: Domain) -> int:
    return len(domain.fields) * (len(domain.fields) - 1) // 2


def _column_error(plan: FitPlan, domain: Domain) -> float:
    return 2 * plan.noise(COLUMNS) * sqrt(sum(1 - 1 / max(2, field.width) for field in domain.fields))


def _rank_error(plan: FitPlan, domain: Domain, rules: TreeRules) -> float:
    """Of a rank correlation: the mean square of a rank in [-1, 1] is 1/3, of the second polynomial 1/5."""
    alone = not plan.pays_for(COARSE)
    most = rules.pairs.rank_values_alone if alone else rules.pairs.rank_values
    degree = rules.pairs.rank_degree_alone if alone else rules.pairs.rank_degree
    ranks = sum(1 / (2 * power + 1) for power in range(1, degree + 1))
    lengths = [ranks if is_ordered(field) else 1 - 1 / max(2, min(field.width, most)) for field in domain.fields]
    return 2 * plan.noise(SMOOTH) * _norm(lengths) * 3 / plan.records


def _norm(lengths: list[float]) -> float:
    """The norm of the products of a row's features, whose squared lengths these are, over all pairs."""
    return sqrt(max(0.0, sum(lengths) ** 2 - sum(one**2 for one in lengths)) / 2)


def _rows(count: float) -> str:
    return counted(max(1, round(count)), "row")
