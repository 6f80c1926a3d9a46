"""The verdict on an evaluation: a grade, and the findings that explain it.

The findings come from the checks in `row_checks.py` and `record_checks.py`, each of which judges one kind of figure;
the grade is that of the worst finding. `sentences.py` says them in words, for people who do not read statistics.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from dpgm.evaluation.findings import COPIES, ROUGH, VERDICT_RULES, Finding, Findings, VerdictRules
from dpgm.evaluation.record_checks import (
    check_copies,
    check_counts,
    check_events,
    check_images,
    check_learning,
    check_lengths,
    check_lost_items,
    check_real_not_empty,
)
from dpgm.evaluation.results import Evaluation, plain_values
from dpgm.evaluation.row_checks import (
    check_columns,
    check_groups,
    check_pairs,
    check_power,
    check_relations,
    check_rules,
    check_value_shares,
    columns_off,
    lacking_columns,
)
from dpgm.evaluation.sentences import headline, sentence

Grade: TypeAlias = Literal["close", "useful", "rough", "copies"]
GRADES: tuple[Grade, ...] = ("close", "useful", "rough", "copies")  # by level
_CHECKS: tuple[Callable[[Evaluation, VerdictRules], Findings], ...] = (
    check_real_not_empty,
    check_columns,
    check_value_shares,
    check_rules,
    check_relations,
    check_groups,
    check_power,
    check_counts,
    check_lost_items,
    check_pairs,
    check_learning,
    check_images,
    check_lengths,
    check_events,
    check_copies,
)


@dataclass(frozen=True)
class Verdict:
    """A grade and the findings that explain it; `headline`, `bad`, `good` and `notes` say them in words."""

    grade: Grade
    headline: str
    findings: tuple[Finding, ...]
    not_compared: tuple[Finding, ...] = ()

    @property
    def bad(self) -> tuple[str, ...]:
        """Sentences about what is off."""
        return tuple(sentence(finding) for finding in self.findings if finding.off)

    @property
    def good(self) -> tuple[str, ...]:
        """Sentences about what is good."""
        return tuple(sentence(finding) for finding in self.findings if not finding.off and not finding.undecided)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about columns that were not compared, and figures that too few records cannot decide."""
        undecided = tuple(finding for finding in self.findings if finding.undecided)
        return tuple(map(sentence, (*self.not_compared, *undecided)))

    @property
    def marked(self) -> list[tuple[str, str]]:
        """All sentences, each with the word "off", "note" or "good" before it."""
        marks = (("off", self.bad), ("note", self.notes), ("good", self.good))
        return [(mark, text) for mark, texts in marks for text in texts]

    def to_dict(self) -> dict[str, Any]:
        """Grade, headline and findings as plain values, each finding with its sentence."""
        found = [plain_values(one) | {"sentence": sentence(one)} for one in (*self.findings, *self.not_compared)]
        return {"grade": self.grade, "headline": self.headline, "findings": found}


def verdict(evaluation: Evaluation, rules: VerdictRules = VERDICT_RULES) -> Verdict:
    """Judge an evaluation: no grade is better than the worst of its findings."""
    findings = [finding for check in _CHECKS for finding in check(evaluation, rules)]
    findings.sort(key=lambda finding: finding.level != COPIES)  # copies come first
    level = max((finding.level for finding in findings if finding.level is not None), default=ROUGH)
    names = [f"{name} (missing)" for name in lacking_columns(evaluation)]
    names += [column.name for column in columns_off(evaluation)]
    return Verdict(GRADES[level], headline(level, findings, names), tuple(findings), _not_compared(evaluation))


def _not_compared(evaluation: Evaluation) -> tuple[Finding, ...]:
    """For every reason, the columns left out for it that the synthetic data need not have."""
    by_reason: dict[str, list[str]] = {}
    for column in evaluation.data.left_out:
        if not column.lacking:
            by_reason.setdefault(column.reason, []).append(column.name)
    return tuple(Finding("not_compared", None, {}, (reason, *names)) for reason, names in by_reason.items())
