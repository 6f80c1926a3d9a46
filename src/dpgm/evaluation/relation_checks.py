"""What a verdict finds in relations between columns: the worst pairs, the worst groups, and impossible combinations."""

from collections.abc import Sequence

from dpgm.evaluation.column_checks import columns_off
from dpgm.evaluation.findings import CLOSE, NAMED, ROUGH, USEFUL, Finding, Findings, VerdictRules, graded
from dpgm.evaluation.groups import GroupGap
from dpgm.evaluation.relations import relation_gaps
from dpgm.evaluation.results import Evaluation


def check_relations(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """The pairs of ordered columns whose rank correlation differs most, or that all of them match."""
    ranks, groups = evaluation.relations.ranks, evaluation.relations.groups
    if ranks is None or groups is None or not ranks.comparisons:
        return
    gaps = relation_gaps(ranks, groups.needed)
    off = [gap for gap in gaps if rules.relation_gap.level(gap.effect)]
    for gap in off[:NAMED]:
        level = rules.relation_gap.level(gap.effect)
        yield graded("relation", level, {"real": gap.real, "synthetic": gap.synthetic}, (gap.first, gap.last))
    if len(off) > NAMED:
        yield Finding("more_relations", None, {"count": len(off) - NAMED})
    if not off:
        yield graded("relations_match", CLOSE, {"count": ranks.comparisons})


def check_value_shares(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Shares of values that are off in all rows, of columns about which nothing else has been said."""
    if (groups := evaluation.relations.groups) is None:
        return
    said = {column.name for column in columns_off(evaluation, rules)}
    off = [gap for gap in groups.alone if not said & {*gap.columns}]
    yield from (_finding("share", gap, USEFUL) for gap in off[: 2 * NAMED])
    if len(off) > 2 * NAMED:
        yield Finding("more_shares", None, {"count": len(off) - 2 * NAMED})


def check_groups(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """The groups of rows in which another column is off most, and what occurs in synthetic rows only."""
    if (groups := evaluation.relations.groups) is None:
        return
    gaps = sorted((*groups.pairs, *groups.triples), key=lambda gap: -gap.effect)
    impossible = [gap for gap in gaps if gap.impossible]
    possible = [gap for gap in gaps if not gap.impossible]
    yield from _named(possible, "group", rules)
    yield from _named(impossible, "impossible", rules)
    if not gaps:
        yield graded("groups_match", CLOSE, {"comparisons": groups.comparisons})


def _named(gaps: Sequence[GroupGap], kind: str, rules: VerdictRules) -> Findings:
    for gap in gaps[:NAMED]:
        level = ROUGH if rules.shares.level(gap.effect) == ROUGH and gap.share >= rules.wide_group else USEFUL
        yield _finding(kind, gap, level)
    if len(gaps) > NAMED:
        yield Finding(f"more_{kind}", None, {"count": len(gaps) - NAMED})


def _finding(kind: str, gap: GroupGap, level: int) -> Finding:
    numbers = {
        "real": gap.real,
        "synthetic": gap.synthetic,
        "real_rows": gap.real_rows,
        "synthetic_rows": gap.synthetic_rows,
        "impossible_rows": gap.impossible_rows,
        "share": gap.share,
    }
    if gap.medians is not None:
        numbers |= {"real_median": gap.medians[0], "synthetic_median": gap.medians[1]}
    return Finding(kind, level, numbers, (gap.group, gap.text, gap.trait, gap.kind))
