"""The verdict on an evaluation: a grade, a headline, and sentences that say what is off and what is good.

The sentences are for people who do not read statistics. They come from the checks in `column_checks.py` and
`record_checks.py`, each of which judges one kind of figure; the grade is that of the worst finding.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dpgm.evaluation.column_checks import (
    check_associations,
    check_columns,
    check_orders,
    check_pairs,
    check_rounding_and_weekdays,
    columns_off,
    lacking_columns,
)
from dpgm.evaluation.evaluate import Evaluation
from dpgm.evaluation.findings import COPIES, ROUGH, RULES, TOO_FEW, Finding, Findings, VerdictRules, listed
from dpgm.evaluation.record_checks import (
    all_real_empty,
    check_copies,
    check_counts,
    check_images,
    check_learning,
    check_lengths,
    check_lost_items,
    check_real_not_empty,
)

Grade: TypeAlias = Literal["close", "useful", "rough", "copies"]
GRADES: tuple[Grade, ...] = ("close", "useful", "rough", "copies")  # by level
HEADLINES: dict[Grade, str] = {
    "close": "The synthetic data is a close stand-in for the real data.",
    "useful": "The synthetic data is useful for common patterns; check rare ones before relying on them.",
    "rough": "The synthetic data gives a rough outline only; do not draw detailed conclusions from it.",
    "copies": "The synthetic data holds copies of real records: do not publish it.",
}
_CHECKS: tuple[Callable[[Evaluation, VerdictRules], Findings], ...] = (
    check_real_not_empty,
    check_columns,
    check_rounding_and_weekdays,
    check_counts,
    check_lost_items,
    check_pairs,
    check_associations,
    check_orders,
    check_learning,
    check_images,
    check_lengths,
    check_copies,
)


@dataclass(frozen=True)
class Verdict:
    """A grade, a headline, and the sentences that explain it: what is off, what is good, and what was not compared."""

    grade: Grade
    headline: str
    bad: tuple[str, ...]
    good: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[str, ...]:
        """All sentences, what is off first."""
        return self.bad + self.notes + self.good

    @property
    def marked(self) -> list[tuple[str, str]]:
        """All sentences, each with the word "off", "note" or "good" before it."""
        marks = (("off", self.bad), ("note", self.notes), ("good", self.good))
        return [(mark, text) for mark, texts in marks for text in texts]


def verdict(evaluation: Evaluation, rules: VerdictRules = RULES) -> Verdict:
    """Judge an evaluation: no grade is better than the worst of its figures."""
    findings = [finding for check in _CHECKS for finding in check(evaluation, rules)]
    findings.sort(key=lambda finding: finding.level != COPIES)  # copies come first
    grade = GRADES[max((finding.level for finding in findings if finding.level is not None), default=ROUGH)]
    bad, good = (tuple(finding.text for finding in findings if finding.off == off) for off in (True, False))
    headline = _headline(grade, findings, evaluation, rules)
    return Verdict(grade, headline, bad, good, _not_compared(evaluation))


def _headline(grade: Grade, findings: Sequence[Finding], evaluation: Evaluation, rules: VerdictRules) -> str:
    """The grade in a sentence, with the names of the columns that are off, or of the one figure that is worst."""
    if all_real_empty(evaluation):
        return "The real data seems to be read wrongly: all of its records are empty."
    off = columns_off(evaluation, rules)
    names = [f"{name} (missing)" for name in lacking_columns(evaluation)] + [column.name for column in off]
    worst = [finding.subject for finding in findings if finding.level == GRADES.index(grade)]
    if grade == "close" and any(finding.text.startswith(TOO_FEW) for finding in findings):
        return f"{HEADLINES[grade].removesuffix('.')}, as far as so few records can tell."
    if grade in ("close", "copies"):
        return HEADLINES[grade]
    if len(worst) == 1 and worst[0]:
        useful = f"The synthetic data is useful, except for {worst[0]}."
        return useful if grade == "useful" else f"The synthetic data gives a rough outline only; worst: {worst[0]}."
    if not names:
        return HEADLINES[grade]
    columns = listed(names)
    if grade == "useful":
        return f"The synthetic data is useful, except for some columns: {columns}."
    return f"The synthetic data gives a rough outline only; worst columns: {columns}."


def _not_compared(evaluation: Evaluation) -> tuple[str, ...]:
    """A sentence for every reason why columns that the synthetic data need not have were left out."""
    by_reason: dict[str, list[str]] = {}
    for column in evaluation.left_out:
        if not column.lacking:
            by_reason.setdefault(column.reason, []).append(column.name)
    return tuple(f"Not compared: {listed(names)}, because {reason}" for reason, names in by_reason.items())
