"""The evaluation in words: a grade, one headline, and what is good and what is off, for people who skip numbers."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from dpgm.evaluation.column_faults import column_faults, columns_off, percent, share_text
from dpgm.evaluation.evaluation import SYNTHETIC, Evaluation
from dpgm.evaluation.verdict_rules import RULES, Limits, VerdictRules

Grade: TypeAlias = Literal["close", "useful", "rough", "copies"]


@dataclass(frozen=True)
class Verdict:
    """A grade, a sentence that says it, and sentences that explain it: first what is off, then what is good."""

    grade: Grade
    headline: str
    bad: tuple[str, ...]
    good: tuple[str, ...]

    @property
    def findings(self) -> tuple[str, ...]:
        """All sentences, what is off first."""
        return self.bad + self.good

    @property
    def marked(self) -> list[tuple[str, str]]:
        """All sentences, each after the word "off" or "good"."""
        return [*(("off", text) for text in self.bad), *(("good", text) for text in self.good)]


HEADLINES: dict[Grade, str] = {
    "close": "The synthetic data is a close stand-in for the real data.",
    "useful": "The synthetic data is useful for common patterns; check rare ones before relying on them.",
    "rough": "The synthetic data shows the outline only; do not draw detailed conclusions from it.",
    "copies": "The synthetic data holds copies of real records: do not publish it.",
}
_RARE_ERROR = 0.25  # relative error of the worst item from which it is named
_NAMED = 3  # columns named in the headline


def verdict(evaluation: Evaluation, rules: VerdictRules = RULES) -> Verdict:
    """Judge an evaluation: no grade is better than the worst of its figures."""
    findings = _Findings()
    _columns(evaluation, findings, rules)
    _queries(evaluation, findings, rules)
    _lost(evaluation, findings, rules)
    _table(evaluation, findings, rules)
    _ties(evaluation, findings, rules)
    _learning(evaluation, findings, rules)
    _images(evaluation, findings, rules)
    _lengths(evaluation, findings, rules)
    copied = _copies(evaluation, findings, rules)
    grade: Grade = ("close", "useful", "rough")[max(findings.levels, default=2)]  # type: ignore[assignment]
    grade = "copies" if copied else grade
    return Verdict(grade, _headline(grade, evaluation, rules), tuple(findings.bad), tuple(findings.good))


class _Findings:
    """Sentences and levels as they are found."""

    def __init__(self) -> None:
        self.good: list[str] = []
        self.bad: list[str] = []
        self.levels: list[int] = []

    def add(self, level: int, text: str) -> None:
        self.levels.append(level)
        (self.bad if level else self.good).append(text)


def _headline(grade: Grade, evaluation: Evaluation, rules: VerdictRules) -> str:
    off = columns_off(evaluation, rules)
    if grade in ("close", "copies") or not off:
        return HEADLINES[grade]
    names = [column.name for column in off[:_NAMED]]
    more = len(off) - len(names)
    listed = ", ".join(names) + (f" and {more} more" if more else "")
    if grade == "useful":
        return f"The synthetic data is useful, but not for every column: mistrust {listed}."
    return f"The synthetic data shows the outline only; worst columns: {listed}."


def _columns(evaluation: Evaluation, findings: _Findings, rules: VerdictRules) -> None:
    if not evaluation.columns:
        return
    off = columns_off(evaluation, rules)
    count = len(evaluation.columns)
    for column in off[: 2 * _NAMED]:
        findings.bad.append(f"{column.name}: {'; '.join(column_faults(column, rules))}.")
    if len(off) > 2 * _NAMED:
        findings.bad.append(f"{len(off) - 2 * _NAMED} more columns are off; see the table of columns.")
    if off:
        findings.levels.append(2 if len(off) > rules.columns_off * count else 1)
    fine = count - len(off)
    if fine:
        findings.add(
            0,
            f"{'All' if not off else fine} of the {count} columns keep their medians and means (within a tenth of a "
            "standard deviation), their most frequent value and their share of missing values (within 5 points)."
            if count > 1
            else "The column keeps its median and mean, its most frequent value and its share of missing values.",
        )


def _queries(evaluation: Evaluation, findings: _Findings, rules: VerdictRules) -> None:
    if evaluation.kind == "images":
        return
    what = "value" if evaluation.kind == "table" else "item"
    single, pair = evaluation.query_means(1), evaluation.query_means(2)
    if single:
        ours = single[SYNTHETIC]
        counts = f"counts of a single {what}"
        level, aside = _beyond_chance(evaluation, findings, "pop1", ours, rules.single_counts, counts)
        if level is not None:
            findings.add(level, f"C{counts[1:]} are off by {percent(ours)} on average{aside}.")
    if pair:
        ours, alone = pair[SYNTHETIC], pair.get("independent")
        counts = f"counts of two {what}s together"
        level, aside = _beyond_chance(evaluation, findings, "pop2", ours, rules.pair_counts, counts)
        text = f"C{counts[1:]} are off by {percent(ours)}{aside}"
        if alone is not None:
            better = alone / max(ours, 1e-12)
            text += f"; {what}s drawn independently, at the same privacy, by {percent(alone)}"
            if ours == 0 or better >= 1.5:
                text += f" (the synthetic data is {min(better, 999):.2g} times as accurate)" if ours else ""
            elif better < 0.9:
                text += ": here the simple method is better"
            elif better < 1:
                text += ": here the simple method is as good"
        if level is not None:
            findings.add(level, text + ".")
    if evaluation.worst_items and evaluation.kind == "sets" and evaluation.worst_items[0].error > _RARE_ERROR:
        worst = evaluation.worst_items[0]
        findings.bad.append(
            f"Rare items are less exact: {worst.name} is held by {share_text(worst.synthetic)} of the records instead"
            f" of {share_text(worst.real)}."
        )
    if evaluation.frequent_sets is not None and evaluation.kind != "table":
        found = evaluation.frequent_sets.recall
        tone = findings.good if found >= 0.8 else findings.bad
        tone.append(f"{percent(found)} of the {len(evaluation.frequent_sets.real)} most frequent sets are found.")


def _beyond_chance(
    evaluation: Evaluation, findings: _Findings, figure: str, value: float, limits: Limits, what: str
) -> tuple[int | None, str]:
    """The level of what chance does not explain, and what to say of chance where it matters.

    The level is None, and `findings` say so, where there are too few records for the figure to say anything.
    """
    chance = evaluation.chance.get(figure, 0.0)
    excess = max(0.0, value**2 - chance**2) ** 0.5
    by = percent(chance) if chance <= 1 else "more than 100 %"
    level = limits.level(excess)
    if not level and value > limits.close and max(value, chance) > limits.useful:
        findings.bad.append(
            f"There are too few records to judge {what}: a fresh sample of the same people would be off by {by}."
        )
        return None, ""
    return level, f" (a fresh sample of the same people: {by})" if chance > value / 3 else ""


def _lost(evaluation: Evaluation, findings: _Findings, rules: VerdictRules) -> None:
    if evaluation.outside is not None and evaluation.outside.items:
        share = evaluation.outside.share
        findings.levels.append(rules.outside.level(share))
        findings.bad.append(
            f"{evaluation.outside.items:,} items of the real data are not in the domain, {percent(share)} of all that"
            " real records hold: no synthetic record holds them."
        )
    lost = evaluation.lost_items
    if lost is None or evaluation.kind == "images" or not lost.count:
        return
    what = "values" if evaluation.kind == "table" else "items"
    level = rules.lost_items.level(lost.count / lost.of)
    findings.levels.append(max(level, 1) if lost.largest > rules.share_gap else level)
    findings.bad.append(
        f"{lost.count:,} of the {lost.of:,} {what} that at least 0.1 % of the real records hold hardly ever occur"
        f" (such as {', '.join(lost.names[:_NAMED])})."
    )


def _table(evaluation: Evaluation, findings: _Findings, rules: VerdictRules) -> None:
    if evaluation.table is None:
        return
    gap = evaluation.table.mean_total_variation
    first, second = evaluation.table.worst_pair
    level, aside = _beyond_chance(evaluation, findings, "pairs", gap, rules.column_pairs, "pairs of columns")
    if level is not None:
        findings.add(
            level,
            f"For a pair of columns, {percent(gap)} of the rows would have to change on average to match the real data"
            f"{aside}; the hardest pair is {first} and {second} ({percent(evaluation.table.largest_total_variation)}).",
        )


def _ties(evaluation: Evaluation, findings: _Findings, rules: VerdictRules) -> None:
    """The pair of columns whose association differs most, by bins or by ranks of the raw values."""
    worst: tuple[float, str, str, float, float] | None = None
    if evaluation.table is not None and len(evaluation.table.fields) > 1:
        worst = _widest(
            evaluation.table.fields,
            np.asarray(evaluation.table.real_association),
            np.asarray(evaluation.table.synthetic_association),
        )
    if evaluation.correlations is not None:
        ranks = evaluation.correlations
        other = _widest(ranks.columns, ranks.rank_real, ranks.rank_synthetic)
        worst = other if worst is None or other[0] > worst[0] else worst
    if worst is None:
        return
    gap, first, second, ours, theirs = worst
    level = rules.association_gap.level(gap)
    if level:
        findings.add(
            level,
            f"{first} and {second} are tied with strength {theirs:.2f} instead of {ours:.2f} (0: not at all, 1: one"
            " tells the other).",
        )
    else:
        findings.add(0, f"Columns are tied as in the real data: no strength is off by more than {gap:.2f}.")


def _widest(
    names: tuple[str, ...], real: np.ndarray, synthetic: np.ndarray
) -> tuple[float, str, str, float, float]:
    gaps = np.abs(real - synthetic)
    first, second = (int(at) for at in np.unravel_index(int(gaps.argmax()), gaps.shape))
    if first == second:
        second = 1 if first == 0 else 0
    return (
        float(gaps[first, second]),
        names[first],
        names[second],
        float(real[first, second]),
        float(synthetic[first, second]),
    )


def _learning(evaluation: Evaluation, findings: _Findings, rules: VerdictRules) -> None:
    if not evaluation.downstream:
        return
    best = max(evaluation.downstream, key=lambda accuracy: accuracy.real)
    gain = best.real - best.majority
    lost = (best.real - best.synthetic) / gain if gain > 0.01 else 0.0
    findings.add(
        rules.learning_lost.level(lost),
        f"A {best.model} trained on synthetic records is right on {percent(best.synthetic)} of real ones; "
        f"trained on real records, on {percent(best.real)}.",
    )


def _images(evaluation: Evaluation, findings: _Findings, rules: VerdictRules) -> None:
    if evaluation.kind != "images" or evaluation.images is None:
        return
    measured = evaluation.images
    findings.add(
        rules.image_variety.level(abs(1 - measured.variety)),
        f"Images of one label vary {percent(measured.variety)} as much as real ones do.",
    )
    findings.add(
        rules.pixel_difference.level(measured.pixel_difference),
        f"The mean image of a label differs by {percent(measured.pixel_difference)} per pixel.",
    )
    if measured.label_gap is not None:
        findings.add(
            Limits(rules.share_gap, 3 * rules.share_gap).level(measured.label_gap),
            f"The share of a label is off by at most {100 * measured.label_gap:.1f} points.",
        )


def _lengths(evaluation: Evaluation, findings: _Findings, rules: VerdictRules) -> None:
    if evaluation.lengths is None or evaluation.kind == "images":
        return
    gap = evaluation.lengths.total_variation
    level, aside = _beyond_chance(evaluation, findings, "lengths", gap, rules.lengths, "lengths of records")
    if level is not None:
        findings.add(
            level,
            f"Records hold {evaluation.lengths.synthetic_mean:.2f} items on average (real: "
            f"{evaluation.lengths.real_mean:.2f}); {percent(gap)} of them would have to change their length to match"
            f"{aside}.",
        )


def _copies(evaluation: Evaluation, findings: _Findings, rules: VerdictRules) -> bool:
    measured = evaluation.copies
    if measured is None:
        return False
    if measured.real_distinct > 0:
        missing = 1 - measured.synthetic_distinct / measured.real_distinct
        level = rules.distinct_ratio.level(missing)
        if level:
            findings.add(
                level,
                f"The same records come again and again: {percent(measured.synthetic_distinct)} of them are distinct, "
                f"of as many real ones {percent(measured.real_distinct)}.",
            )
    by_chance = (
        rules.copies_factor * measured.expected + rules.copies_share + rules.copies_records / measured.records
    )
    copied = measured.copied > by_chance
    if copied:
        findings.bad.insert(
            0,
            f"{percent(measured.copied)} of the synthetic records equal a real record that occurs only once; chance "
            f"alone would give {percent(measured.expected)}. Were they made from the rows?",
        )
    return copied
