"""Rows of real and synthetic tables compared: every trait, every pair of traits, every three, and rules of columns."""

from collections.abc import Sequence
from dataclasses import dataclass

from dpgm.evaluation.findings import VerdictRules
from dpgm.evaluation.group_gaps import MOST_TRAITS, compare_groups
from dpgm.evaluation.kept_rules import BrokenRule, broken_rules
from dpgm.evaluation.raw_columns import RawColumn
from dpgm.evaluation.relation_pictures import RelationPicture, relation_pictures
from dpgm.evaluation.relations import RankRelations, rank_relations
from dpgm.evaluation.share_gaps import Gaps, ShareGap, compare_alone
from dpgm.evaluation.traits import Trait
from dpgm.evaluation.triple_gaps import compare_triples
from dpgm.evaluation.unseen_pairs import UnseenPair, compare_unseen

_FAMILIES = 7  # kinds of comparisons that share the probability of a false alarm


@dataclass(frozen=True)
class RowRelations:
    """How rows differ beyond chance: in single traits, pairs and triples of them, and rules that real rows keep.

    Attributes:
        traits: how many traits were compared.
        left_out: traits that were not paired, as there are too many.
        alone: shares in all rows.
        groups: shares within groups of rows.
        impossible: what occurs in a group of synthetic rows, and in none of the real ones.
        triples: shares within groups of two traits.
        unseen: pairs of columns whose combinations are new too often, or not often enough.
        ranks: signed rank correlations.
        rules: orders, sums and products that synthetic rows break.
        pictures: the pairs that are worst.
    """

    traits: int
    left_out: int
    alone: Gaps
    groups: Gaps
    impossible: Gaps
    triples: Gaps
    unseen: tuple[UnseenPair, ...]
    ranks: RankRelations
    rules: tuple[BrokenRule, ...]
    pictures: tuple[RelationPicture, ...]


def compare_rows(traits: Sequence[Trait], columns: Sequence[RawColumn], rules: VerdictRules) -> RowRelations:
    """Compare all traits, with equal shares of the probability of a false alarm for every kind of comparison."""
    limit, false_alarm = rules.shares.close, rules.false_alarm / _FAMILIES
    alone, drift = compare_alone(traits, limit, false_alarm)
    paired = _paired(traits)
    groups, impossible = compare_groups(paired, drift, limit, false_alarm)
    known = (*alone.kept, *groups.kept, *impossible.kept)
    unseen = compare_unseen(paired, columns, {gap.traits for gap in known}, limit, false_alarm)
    ranks = rank_relations(paired, rules.relation_gap.close, false_alarm / 2)
    return RowRelations(
        traits=len(traits),
        left_out=sum(not trait.alone for trait in traits) - len(paired),
        alone=alone,
        groups=groups,
        impossible=impossible,
        triples=compare_triples(paired, known, limit, false_alarm),
        unseen=unseen,
        ranks=ranks,
        rules=broken_rules(columns, limit, false_alarm),
        pictures=relation_pictures(paired, _worst_pairs(ranks, unseen, groups, impossible)),
    )


def _paired(traits: Sequence[Trait]) -> list[Trait]:
    """The traits that are paired: all if they are not too many, else the columns themselves first."""
    free = [trait for trait in traits if not trait.alone]
    if len(free) > MOST_TRAITS:
        free.sort(key=lambda trait: trait.aspect != "values")
    return free[:MOST_TRAITS]


def _worst_pairs(ranks: RankRelations, unseen: Sequence[UnseenPair], *families: Gaps) -> list[tuple[str, str]]:
    """Pairs of names, the worst of each kind by turns."""
    listed = [[gap.names for gap in ranks.gaps], [gap.names for gap in unseen]]
    listed += [[_names(gap) for gap in family.kept] for family in families]
    most = max(map(len, listed))
    return [pairs[at] for at in range(most) for pairs in listed if at < len(pairs)]


def _names(gap: ShareGap) -> tuple[str, str]:
    return gap.within[0].trait, gap.what.trait
