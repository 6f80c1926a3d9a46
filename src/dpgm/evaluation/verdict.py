"""The evaluation in words: a grade, one headline and a few findings, for people who skip numbers."""

from dataclasses import dataclass
from typing import Literal

from dpgm.evaluation.evaluation import SYNTHETIC, Evaluation


@dataclass(frozen=True)
class Verdict:
    """A grade, a sentence that says it, and sentences that explain it."""

    grade: Literal["close", "useful", "rough"]
    headline: str
    findings: tuple[str, ...]


HEADLINES = {
    "close": "The synthetic data is a close stand-in for the real data.",
    "useful": "The synthetic data is useful for common patterns; check rare ones before relying on them.",
    "rough": "The synthetic data shows the outline only; do not draw detailed conclusions from it.",
}


def verdict(evaluation: Evaluation) -> Verdict:
    """Judge an evaluation by its main metric: pairs for sets and tables, learning for images."""
    findings: list[str] = []
    scores: list[int] = []
    _queries(evaluation, findings, scores)
    _table(evaluation, findings, scores)
    _learning(evaluation, findings, scores)
    _lengths(evaluation, findings)
    worst = max(scores, default=2)
    grade = ("close", "useful", "rough")[worst]
    return Verdict(grade, HEADLINES[grade], tuple(findings))  # type: ignore[arg-type]


def percent(share: float) -> str:
    """A share in words that fit its size.

    >>> percent(0.0042), percent(0.137), percent(3.0)
    ('0.42 %', '14 %', '300 %')
    """
    value = 100 * share
    if value == 0:
        return "0 %"
    return f"{value:.2g} %" if value < 9.95 else f"{value:.0f} %"


def _level(value: float, close: float, useful: float) -> int:
    return 0 if value <= close else 1 if value <= useful else 2


def _queries(evaluation: Evaluation, findings: list[str], scores: list[int]) -> None:
    if evaluation.kind == "images":
        return
    what = "value" if evaluation.kind == "table" else "item"
    single, pair = evaluation.query_means(1), evaluation.query_means(2)
    if single:
        ours = single[SYNTHETIC]
        findings.append(f"Counts of a single {what} are off by {percent(ours)} on average.")
        scores.append(_level(ours, 0.05, 0.15))
    if pair:
        ours, alone = pair[SYNTHETIC], pair.get("independent")
        text = f"Counts of two {what}s together are off by {percent(ours)}"
        if alone is not None:
            better = alone / max(ours, 1e-12)
            text += f"; {what}s drawn independently, at the same privacy, by {percent(alone)}"
            if ours == 0 or better >= 1.5:
                text += f" (the synthetic data is {min(better, 999):.2g} times as accurate)" if ours else ""
            elif better < 1:
                text += ": here the simple method is as good"
        findings.append(text + ".")
        scores.append(_level(ours, 0.15, 0.35))
    if evaluation.frequent_sets is not None:
        found = evaluation.frequent_sets.recall
        findings.append(
            f"{percent(found)} of the {len(evaluation.frequent_sets.real)} most frequent sets are found."
        )


def _table(evaluation: Evaluation, findings: list[str], scores: list[int]) -> None:
    if evaluation.table is None:
        return
    gap = evaluation.table.mean_total_variation
    first, second = evaluation.table.worst_pair
    findings.append(
        f"For a pair of columns, {percent(gap)} of the rows would have to change on average to match the real data; "
        f"the hardest pair is {first} and {second} ({percent(evaluation.table.largest_total_variation)})."
    )
    scores.append(_level(gap, 0.08, 0.2))


def _learning(evaluation: Evaluation, findings: list[str], scores: list[int]) -> None:
    if not evaluation.downstream:
        return
    best = max(evaluation.downstream, key=lambda accuracy: accuracy.real)
    findings.append(
        f"A {best.model} trained on synthetic records is right on {percent(best.synthetic)} of real ones; "
        f"trained on real records, on {percent(best.real)}."
    )
    gain = best.real - best.majority
    lost = (best.real - best.synthetic) / gain if gain > 0.01 else 0.0
    scores.append(_level(lost, 0.1, 0.35))


def _lengths(evaluation: Evaluation, findings: list[str]) -> None:
    if evaluation.lengths is None or evaluation.kind == "images":
        return
    gap = evaluation.lengths.total_variation
    findings.append(
        f"Records hold {evaluation.lengths.synthetic_mean:.2f} items on average (real: "
        f"{evaluation.lengths.real_mean:.2f}); {percent(gap)} of them would have to change their length to match."
    )
