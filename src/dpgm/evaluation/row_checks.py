"""What a verdict finds in the rows of a table: in columns, in pairs and groups, and in rules that columns keep."""

import math
from collections.abc import Iterator

import numpy as np

from dpgm.data.labels import OTHER
from dpgm.evaluation.column_metrics import ColumnComparison
from dpgm.evaluation.compare_rows import RowRelations
from dpgm.evaluation.evidence import least_effect, needed_evidence
from dpgm.evaluation.findings import (
    CLOSE,
    NAMED,
    ROUGH,
    USEFUL,
    Finding,
    Findings,
    Limits,
    VerdictRules,
    beyond_chance,
    graded,
)
from dpgm.evaluation.relations import RelationGap
from dpgm.evaluation.results import Evaluation
from dpgm.evaluation.share_gaps import ShareGap

_MOMENT = 0.1  # effect on a share that is as bad as a mean or standard deviation at its limit
_TENTH = 0.1  # the share of the rows that a group worth judging has


def columns_off(evaluation: Evaluation) -> tuple[ColumnComparison, ...]:
    """The columns with a fault, the worst first."""

    def badness(column: ColumnComparison) -> float:
        return max([gap.surely for gap in column.gaps] + [_MOMENT * moment.effect for moment in column.moments])

    return tuple(sorted((column for column in evaluation.columns if column.off), key=badness, reverse=True))


def column_faults(column: ColumnComparison) -> tuple[Finding, ...]:
    """What is off in one column; empty if nothing is."""
    faults = []
    for gap in column.gaps:
        numbers = share_numbers(gap)
        if column.real.low is not None and column.real.high is not None:
            numbers |= {"low": column.real.low, "high": column.real.high}
        unpublished = gap.what.low == OTHER and gap.real == 0
        kind = "other_values" if unpublished else "share_of_column"
        faults.append(Finding(kind, USEFUL, numbers, (gap.what,)))
    for moment in column.moments:
        numbers = {"real": moment.real, "synthetic": moment.synthetic}
        faults.append(Finding(moment.moment, USEFUL, numbers, (column.kind,)))
    return tuple(faults)


def lacking_columns(evaluation: Evaluation) -> list[str]:
    """Names of the columns that the synthetic data should have and lacks."""
    return [column.name for column in evaluation.data.left_out if column.lacking]


def check_columns(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Columns that are missing or off, the worst by name, and how many match."""
    off, lacking, count = columns_off(evaluation), lacking_columns(evaluation), len(evaluation.columns)
    far = sum(bool(one.moments) or any(gap.effect > rules.shares.close for gap in one.gaps) for one in off)
    level = ROUGH if far + len(lacking) > rules.columns_off * (count + len(lacking)) else USEFUL
    if lacking:
        yield Finding("lacking_columns", level, subject=tuple(lacking))
    for column in off[: 2 * NAMED]:
        yield Finding("column", level, subject=(column.name,), parts=column_faults(column))
    yield from _more("more_columns", len(off), 2 * NAMED)
    if len(off) < count and rules.shares.level(_least_effect(evaluation, rules, 1.0)) < ROUGH:
        numbers = {"good": count - len(off), "count": count, "left_out": len(evaluation.data.left_out)}
        yield graded("columns_match", CLOSE, numbers)


def check_value_shares(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Shares in all rows of what belongs to no column alone: times between dates, and items of lists."""
    if (rows := evaluation.relations.rows) is None:
        return
    own = {gap.what for column in evaluation.columns for gap in column.gaps}
    off = [gap for gap in rows.alone.kept if gap.what not in own]
    for gap in off[: 2 * NAMED]:
        yield Finding("share", _level(gap, rules), share_numbers(gap), (gap.what,))
    yield from _more("more_shares", len(off), 2 * NAMED)


def check_relations(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """The pairs of ordered columns whose rank correlation differs most, in all rows and within groups."""
    if (rows := evaluation.relations.rows) is None or not rows.ranks.comparisons:
        return
    for kind, gaps in (("relation", rows.ranks.gaps), ("relation_in_group", rows.ranks.group_gaps)):
        for gap in gaps[:NAMED]:
            yield _relation(kind, gap, rules)
        yield from _more(f"more_{kind}", len(gaps), NAMED)
    if not rows.ranks.gaps and not rows.ranks.group_gaps:
        yield graded("relations_match", CLOSE, {"count": rows.ranks.comparisons})


def check_groups(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """The groups of rows in which another column is off most, and what occurs in synthetic rows only."""
    if (rows := evaluation.relations.rows) is None:
        return
    found = [("group", rows.groups), ("impossible", rows.impossible), ("triple", rows.triples)]
    for kind, gaps in found:
        for gap in gaps.kept[:NAMED]:
            yield Finding(kind, _level(gap, rules), share_numbers(gap), (gap.what, *gap.within))
        yield from _more(f"more_{kind}", gaps.count, NAMED)
    for pair in rows.unseen[:NAMED]:
        level = max(rules.shares.level(pair.surely), USEFUL)
        yield Finding("unseen", level, {"real": pair.real, "synthetic": pair.synthetic}, pair.names)
    yield from _more("more_unseen", len(rows.unseen), NAMED)
    undecided = rules.shares.level(_least_effect(evaluation, rules, _TENTH)) == ROUGH
    if rows.groups.comparisons and not undecided and not rows.unseen and not any(gaps.count for _, gaps in found):
        numbers = {"comparisons": _comparisons(rows), "rows": _rows_to_tell(evaluation, rules)}
        yield graded("groups_match", CLOSE, numbers)


def check_rules(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Orders, sums and products that the real rows keep and synthetic rows break."""
    if (rows := evaluation.relations.rows) is None:
        return
    for one in rows.rules[:NAMED]:
        level = max(rules.shares.level(one.surely), USEFUL)
        yield Finding(one.rule, level, {"real": one.real, "synthetic": one.synthetic}, one.columns)
    yield from _more("more_rules", len(rows.rules), NAMED)


def check_pairs(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """How many rows would have to change for a pair of columns to match, on average and in the worst pair."""
    if (table := evaluation.relations.pairs) is None:
        return
    chance = evaluation.chance
    yield beyond_chance(
        "column_pairs",
        table.mean_total_variation,
        chance.expected.get("pairs", 0.0),
        chance.most.get("pairs", 0.0),
        rules.column_pairs,
        {"worst": table.largest_total_variation},
        table.worst_pair,
    )


def check_power(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Whether so few rows can show what differs in a tenth of them."""
    if (rows := evaluation.relations.rows) is None or not rows.groups.comparisons:
        return
    effect = _least_effect(evaluation, rules, _TENTH)
    if rules.shares.level(effect) == ROUGH:
        shares = [float(np.sin(np.pi / 4 + sign * min(effect, np.pi / 2) / 2) ** 2) for sign in (-1, 1)]
        numbers = {"rows": max(_TENTH * evaluation.data.records, 1), "real": shares[0], "synthetic": shares[1]}
        yield Finding("too_few_rows", None, numbers, off=False, undecided=True)


def _least_effect(evaluation: Evaluation, rules: VerdictRules, share: float) -> float:
    """The smallest effect that a share of the rows can tell from chance, among all comparisons of groups."""
    data, rows = evaluation.data, evaluation.relations.rows
    comparisons = 1 if rows is None else _comparisons(rows)
    real, synthetic = (share * max(count, 1) for count in (data.records, data.synthetic_records))
    return least_effect(real, synthetic, needed_evidence(comparisons, rules.false_alarm))


def _rows_to_tell(evaluation: Evaluation, rules: VerdictRules) -> int:
    """How many real rows a group needs for a bad share to be told from chance, in steps of ten."""
    alone = _least_effect(evaluation, rules, 1 / max(evaluation.data.records, 1))  # of a group of one real row
    return 10 * math.ceil((alone / rules.shares.useful) ** 2 / 10)


def _level(gap: ShareGap, rules: VerdictRules) -> int:
    """At most "useful"; worse only if much is off in many rows."""
    return ROUGH if rules.shares.level(gap.surely) == ROUGH and gap.share >= rules.wide_group else USEFUL


def _relation(kind: str, gap: RelationGap, rules: VerdictRules) -> Finding:
    limits = Limits(rules.relation_gap.close, rules.relation_gap.useful)
    wide = gap.share >= rules.wide_group
    level = ROUGH if limits.level(gap.surely) == ROUGH and wide else USEFUL
    numbers = {"real": gap.real, "synthetic": gap.synthetic, "rows": gap.real_rows}
    return Finding(kind, level, numbers, (*gap.names, *(() if gap.within is None else (gap.within,))))


def share_numbers(gap: ShareGap) -> dict[str, float]:
    """The numbers of a finding about a share."""
    numbers: dict[str, float] = {
        "real": gap.real,
        "synthetic": gap.synthetic,
        "real_rows": gap.real_rows,
        "synthetic_rows": gap.synthetic_rows,
    }
    if gap.medians is not None:
        numbers |= {"real_median": gap.medians[0], "synthetic_median": gap.medians[1]}
    return numbers


def _comparisons(rows: RowRelations) -> int:
    return sum(gaps.comparisons for gaps in (rows.alone, rows.groups, rows.triples))


def _more(kind: str, count: int, named: int) -> Iterator[Finding]:
    if count > named:
        yield Finding(kind, None, {"count": count - named})
