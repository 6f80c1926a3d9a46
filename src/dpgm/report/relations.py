"""What the report shows of relations between columns: the strongest, the pairs and groups that are off, and rules."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from dpgm.evaluation.findings import VERDICT_RULES, Finding
from dpgm.evaluation.relation_pictures import RelationPicture
from dpgm.evaluation.results import Evaluation
from dpgm.evaluation.row_checks import check_rules, share_numbers
from dpgm.evaluation.sentences import sentence
from dpgm.evaluation.share_gaps import ShareGap
from dpgm.evaluation.words import part_words, rows_with, share_text

_STRONGEST = 16  # relations that are listed
_WEAKEST = 0.05  # weaker ones are not worth a line
_GROUPS = 12  # groups that are listed
_LONGEST_NAME = 28  # characters of a value beside a picture


@dataclass(frozen=True)
class Strength:
    """How strongly two columns are related: signed, if both have an order."""

    names: tuple[str, str]
    signed: bool
    real: float
    synthetic: float

    @property
    def gap(self) -> float:
        """How far they differ."""
        return abs(self.real - self.synthetic)


def strengths(evaluation: Evaluation) -> list[Strength]:
    """The strongest relations of the real data, and the ones that differ most, strongest first."""
    found: dict[frozenset[str], Strength] = {}
    rows, pairs = evaluation.relations.rows, evaluation.relations.pairs
    if rows is not None:
        ranks = rows.ranks
        known = np.triu(ranks.real != 0, 1) | np.triu(ranks.synthetic != 0, 1)
        for a, b in zip(*np.nonzero(known), strict=True):
            names = ranks.names[a], ranks.names[b]
            found[frozenset(names)] = Strength(names, True, float(ranks.real[a, b]), float(ranks.synthetic[a, b]))
    if pairs is not None:
        for a, b in combinations(range(len(pairs.fields)), 2):
            names = pairs.fields[a], pairs.fields[b]
            real, synthetic = float(pairs.real_association[a, b]), float(pairs.synthetic_association[a, b])
            found.setdefault(frozenset(names), Strength(names, False, real, synthetic))
    listed = [one for one in found.values() if max(abs(one.real), abs(one.synthetic)) >= _WEAKEST]
    strongest = sorted(listed, key=lambda one: -abs(one.real))[: _STRONGEST // 2]
    rest = [one for one in listed if one not in strongest]
    chosen = strongest + sorted(rest, key=lambda one: -(one.gap + abs(one.real) / 4))[: _STRONGEST // 2]
    return sorted(chosen, key=lambda one: -max(abs(one.real), abs(one.synthetic)))


def relations(evaluation: Evaluation) -> dict[str, Any] | None:
    """Everything of the section; None if there is nothing to show."""
    rows = evaluation.relations.rows
    if evaluation.data.kind == "images" or (rows is None and evaluation.relations.pairs is None):
        return None
    strongest = strengths(evaluation)
    pictures = [] if rows is None else [_shown(picture) for picture in rows.pictures]
    groups: list[ShareGap] = []
    if rows is not None:
        groups = sorted((*rows.impossible.kept, *rows.groups.kept, *rows.triples.kept), key=lambda gap: -gap.surely)
    broken = [sentence(finding) for finding in check_rules(evaluation, VERDICT_RULES)]
    if not strongest and not groups and not broken:
        return None
    return {
        "strengths": strongest,
        "pictures": pictures,
        "groups": [_group(gap) for gap in groups[:_GROUPS]] + _related_otherwise(evaluation),
        "more_groups": max(0, _count(evaluation) - _GROUPS),
        "rules": broken,
        "scores": evaluation.relations.k_marginals,
    }


def _count(evaluation: Evaluation) -> int:
    rows = evaluation.relations.rows
    return 0 if rows is None else rows.groups.count + rows.impossible.count + rows.triples.count


def _group(gap: ShareGap) -> dict[str, Any]:
    """A group as a line of a table, with its whole sentence for whoever points at it."""
    kind = "impossible" if gap.impossible else "group"
    text = sentence(Finding(kind, None, share_numbers(gap), (gap.what, *gap.within)))
    return {
        "rows": rows_with(gap.within),
        "what": part_words(gap.what),
        "real": share_text(gap.real),
        "synthetic": share_text(gap.synthetic),
        "real_rows": gap.real_rows,
        "sentence": text,
    }


def _related_otherwise(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Groups in which two others are related otherwise, as lines of the same table."""
    rows = evaluation.relations.rows
    return [
        {
            "rows": rows_with([gap.within]),
            "what": f"rank correlation of {gap.names[0]} and {gap.names[1]}",
            "real": f"{gap.real:.2f}",
            "synthetic": f"{gap.synthetic:.2f}",
            "real_rows": gap.real_rows,
            "sentence": "",
        }
        for gap in (() if rows is None else rows.ranks.group_gaps[: _GROUPS // 2])
        if gap.within is not None
    ]


def _shown(picture: RelationPicture) -> dict[str, Any]:
    """A picture with texts for its rows and columns, and shares scaled to the largest of both sides."""
    return {
        "names": picture.names,
        "groups": [_short(part_words(cells), cells.trait) for cells in picture.groups],
        "values": [_short(part_words(cells), cells.trait) for cells in picture.values],
        "sides": (("real", picture.real), ("synthetic", picture.synthetic)),
        "full": max(float(picture.real.max(initial=0)), float(picture.synthetic.max(initial=0)), 1e-9),
    }


def _short(text: str, name: str) -> str:
    """The values without the name of their column.

    >>> _short("age from 20 to 30", "age"), _short("ward = heart", "ward"), _short("no bread", "bread")
    ('20 to 30', 'heart', 'no bread')
    """
    value = text.removeprefix(name).removeprefix(" = ").removeprefix(" from ").strip() or text
    return value if len(value) <= _LONGEST_NAME else value[: _LONGEST_NAME - 1] + "…"
