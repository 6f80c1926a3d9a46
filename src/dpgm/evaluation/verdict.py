"""The verdict on an evaluation: a grade, a headline, and sentences that say what is off and what is good.

The sentences are for people who do not read statistics. `VerdictRules` holds every limit with its reason (except that
for copies, which is in `copies.py`). Each check looks at one kind of figure and yields findings; the grade is that of
the worst finding.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.fields import OTHER
from dpgm.evaluation.chance import deviations
from dpgm.evaluation.column_metrics import ColumnComparison, share_error
from dpgm.evaluation.evaluate import INDEPENDENT, SYNTHETIC, Evaluation
from dpgm.evaluation.marginals import LengthDistance
from dpgm.evaluation.raw_columns import value_text

Grade: TypeAlias = Literal["close", "useful", "rough", "copies"]
GRADES: tuple[Grade, ...] = ("close", "useful", "rough", "copies")  # by level
_CLOSE, _USEFUL, _ROUGH, _COPIES = range(4)
HEADLINES: dict[Grade, str] = {
    "close": "The synthetic data is a close stand-in for the real data.",
    "useful": "The synthetic data is useful for common patterns; check rare ones before relying on them.",
    "rough": "The synthetic data gives a rough outline only; do not draw detailed conclusions from it.",
    "copies": "The synthetic data holds copies of real records: do not publish it.",
}
_TOO_FEW = "There are too few records to judge"  # begins a sentence about a figure that only reflects chance
_NAMED = 3  # columns named in the headline, and examples named in a sentence
_MOST_TIMES = 999  # largest "times as accurate" that is printed
_SMALLEST_PERCENT = 0.01  # smaller shares are printed as "under 0.01 %"
_ONE_PERCENT = 0.01  # shares from here on are printed with one decimal


@dataclass(frozen=True)
class Limits:
    """A figure up to `close` is good, one up to `useful` is usable with care, a larger one is bad."""

    close: float
    useful: float

    def level(self, value: float) -> int:
        """The level of a figure: 0 (close), 1 (useful) or 2 (rough).

        >>> [Limits(0.05, 0.2).level(value) for value in (0.05, 0.1, 0.3)]
        [0, 1, 2]
        """
        return 0 if value <= self.close else 1 if value <= self.useful else 2


@dataclass(frozen=True)
class VerdictRules:
    """Limits of the verdict.

    Relative errors and shares are fractions (0.05 = 5 %, or 5 percentage points for a difference of shares).
    """

    # Mean relative error of popular counts: 5 % is the sampling error of a survey of a few thousand people.
    single_counts: Limits = Limits(0.05, 0.15)
    # Pairs are rarer than single values, so the same survey has about three times that error.
    pair_counts: Limits = Limits(0.15, 0.35)
    # Share of the rows that would have to change for a pair of columns to match, averaged over pairs.
    column_pairs: Limits = Limits(0.08, 0.2)
    # Accuracy of a model beyond guessing: the share of it that is lost by training on synthetic records.
    learning_lost: Limits = Limits(0.1, 0.35)
    # Share of the records whose length would have to change.
    lengths: Limits = Limits(0.1, 0.3)
    # Difference of the mean length, relative to the real mean: totals of all items are off by as much.
    mean_length: Limits = Limits(0.1, 0.3)
    # Difference in the share of empty records above which it is mentioned.
    empty_gap: float = 0.01
    # A difference of 5 points in the share of one value, or of missing values, changes a reader's conclusions.
    share_gap: float = 0.05
    # A tenth of a standard deviation: called a negligible effect in statistics.
    median_shift: float = 0.1
    mean_shift: float = 0.1
    # Share of the values between the two medians: medians of few distinct values jump although hardly a value
    # changes. A tenth of a standard deviation is 4 % of a normal distribution.
    median_mass: float = 0.04
    # Probability that a new sample of the real population is called off by one family of figures.
    false_alarm: float = 0.01
    # Figures of columns that a table has, about: each may be off by chance.
    column_figures: int = 50
    # Kolmogorov distance (total variation of categories): at least a tenth of the rows would have to change.
    column_distance: float = 0.1
    # Standard deviation relative to that of the real column: outside of this, tails are cut off or invented.
    deviation_ratio: tuple[float, float] = (2 / 3, 1.5)
    # Share of the values below the smallest or above the largest real value: impossible values, such as -1 children.
    outside_range: float = 0.01
    # Share of columns that may be off before the grade is "rough".
    columns_off: float = 1 / 3
    # Difference in the association (0 to 1) of any pair of columns: a dependence that is lost or invented.
    association_gap: Limits = Limits(0.15, 0.4)
    # Share of the rows in which two columns are in an order that (nearly) no real row has: discharged before admitted.
    out_of_order: Limits = Limits(0.01, 0.25)
    # Lost items or values (see `marginals.LostItems`), as a share of those in at least 0.1 % of the real records.
    lost_items: Limits = Limits(0.05, 0.3)
    # Share of the real records' items that the domain does not list, so that no synthetic record holds them.
    outside: Limits = Limits(0.05, 0.2)
    # 1 - (share of distinct synthetic records / share of distinct real records): records that are repeated.
    distinct_ratio: Limits = Limits(0.2, 0.5)
    # Relative error above which the worst item is named.
    rare_error: float = 0.25
    # Share of the most frequent sets that should be found.
    sets_found: float = 0.8
    # How many times as accurate as independent items the data must be before that is mentioned.
    worth_saying: float = 1.5
    # Error of independent items, relative to that of the data, below which they are called better rather than as good.
    simple_is_better: float = 0.9
    # Accuracy that a model must gain over guessing before a loss of it can be judged.
    least_learned: float = 0.01
    # |1 - variety of the images of one label relative to the real ones|.
    image_variety: Limits = Limits(0.3, 0.6)
    # Mean difference per pixel between the mean images of the labels.
    pixel_difference: Limits = Limits(0.03, 0.08)


RULES = VerdictRules()


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


class _Finding(NamedTuple):
    """A sentence, whether it says that something is off, and the best level that it allows, if it limits the grade.

    `subject` is the pair of columns that the headline names if nothing else is as bad.
    """

    text: str
    off: bool
    level: int | None = None
    subject: str = ""


_Findings: TypeAlias = Iterator[_Finding]


def verdict(evaluation: Evaluation, rules: VerdictRules = RULES) -> Verdict:
    """Judge an evaluation: no grade is better than the worst of its figures."""
    findings = [finding for check in _CHECKS for finding in check(evaluation, rules)]
    findings.sort(key=lambda finding: finding.level != _COPIES)  # copies come first
    grade = GRADES[max((finding.level for finding in findings if finding.level is not None), default=_ROUGH)]
    bad, good = (tuple(finding.text for finding in findings if finding.off == off) for off in (True, False))
    headline = _headline(grade, findings, evaluation, rules)
    return Verdict(grade, headline, bad, good, _not_compared(evaluation))


def percent(share: float) -> str:
    """A share or relative error in percent, with two significant digits below 10 %.

    >>> percent(0.0042), percent(0.137), percent(3.0), percent(8.6e-11)
    ('0.42 %', '14 %', '300 %', 'under 0.01 %')
    """
    value = 100 * share
    if 0 < value < _SMALLEST_PERCENT:
        return f"under {_SMALLEST_PERCENT} %"
    return "0 %" if value == 0 else f"{value:.2g} %" if value < 9.95 else f"{value:.0f} %"


def share_text(share: float) -> str:
    """A share in percent with one decimal, so that 99.9 % does not become 100 %.

    >>> share_text(0.917), share_text(0.0005), share_text(0.0), share_text(1.0)
    ('91.7 %', '0.05 %', '0 %', '100 %')
    """
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    return f"{100 * share:.1f} %" if share >= _ONE_PERCENT else percent(share)


def column_faults(column: ColumnComparison, rules: VerdictRules = RULES) -> tuple[str, ...]:
    """What is off in one column; empty if nothing is.

    A column that is empty in nearly all real rows is judged by its share of missing values alone.
    """
    figures = _column_figures(column, rules)
    if 1 - column.real.missing < rules.share_gap:
        return tuple(text for ratio, text in figures[1:2] if ratio > 1)
    faults = [text for ratio, text in figures if ratio > 1]
    if column.lost:
        faults.append(f"the value {column.lost[0]} is missing or nearly missing")
    if column.distance > max(rules.column_distance, _chance_distance(column, rules)) and not faults:
        at_least = "" if column.kind == "category" else "at least "  # the Kolmogorov distance is a lower bound
        faults.append(f"{at_least}{percent(column.distance)} of the values would have to change to match")
    return tuple(faults)


def columns_off(evaluation: Evaluation, rules: VerdictRules = RULES) -> tuple[ColumnComparison, ...]:
    """The columns with a fault, sorted by how far their worst figure exceeds its limit."""

    def badness(column: ColumnComparison) -> float:
        ratios = [ratio for ratio, _ in _column_figures(column, rules)]
        return max(*ratios, column.distance / rules.column_distance)

    off = [column for column in evaluation.columns if column_faults(column, rules)]
    return tuple(sorted(off, key=badness, reverse=True))


def _column_figures(column: ColumnComparison, rules: VerdictRules) -> list[tuple[float, str]]:
    """Each figure of a column as a multiple of its limit, and its fault in words; missing values come second."""
    sides = (column.synthetic, column.real)
    gaps = [share_text(side.missing) for side in sides]
    synthetic_share, real_share = share_text(column.synthetic_mode_share), share_text(column.real_mode_share)
    mode = f"the value {column.mode} makes up {synthetic_share} instead of {real_share}"
    if column.mode == OTHER and not column.real_mode_share:
        mode = f"{synthetic_share} of the values are {OTHER}, because they were too rare to be published"
    z = deviations(rules.false_alarm, rules.column_figures)
    real, synthetic = column.real, column.synthetic
    counts = max(real.present, 1), max(synthetic.present, 1)
    mode_error = share_error(column.real_mode_share, counts[0], column.synthetic_mode_share, counts[1])
    missing_error = share_error(real.missing, real.rows, synthetic.missing, synthetic.rows)
    figures = [
        (column.mode_gap / max(rules.share_gap, z * mode_error), mode),
        (
            column.missing_gap / max(rules.share_gap, z * missing_error),
            f"{gaps[0]} of the values are missing instead of {gaps[1]}",
        ),
    ]
    scale = float(np.sqrt(1 / counts[0] + 1 / counts[1]))
    if column.median_shift is not None and column.median_mass is not None and column.mean_shift is not None:
        medians = [value_text(column.kind, side.quantiles[len(side.quantiles) // 2]) for side in sides]
        means = [value_text(column.kind, side.mean) for side in sides]
        days = " days" if column.kind == "date" else ""
        spreads = [value_text("number", side.deviation) + days for side in sides]
        ratio = max(column.deviation_ratio or 0.0, 1e-9)
        low, high = rules.deviation_ratio
        # The larger one for both sides: a sample may lack the tail of its population.
        kurtosis = max(real.kurtosis or 1.0, synthetic.kurtosis or 1.0)
        ratio_error = scale * np.sqrt(kurtosis - 1) / 2
        ratio_limit = max(np.log(high if ratio > 1 else 1 / low), z * ratio_error)
        mass = column.median_mass / max(rules.median_mass, z * scale / 2)
        mean_error = np.sqrt(1 / counts[0] + ratio**2 / counts[1])
        figures += [
            (
                min(column.median_shift / rules.median_shift, mass),
                f"the median is {medians[0]} instead of {medians[1]}",
            ),
            (
                column.mean_shift / max(rules.mean_shift, z * mean_error),
                f"the mean is {means[0]} instead of {means[1]}",
            ),
            (abs(np.log(ratio)) / ratio_limit, f"the standard deviation is {spreads[0]} instead of {spreads[1]}"),
        ]
    # One more synthetic value beyond the largest of all has about this probability, if all are of one population.
    beyond = counts[1] / sum(counts)
    outside_by_chance = np.log(rules.false_alarm / rules.column_figures) / np.log(beyond) / counts[1]
    for share, side, end in (
        (column.below, "below the smallest", real.low),
        (column.above, "above the largest", real.high),
    ):
        text = f"{share_text(share)} of the values are {side} real value, {value_text(column.kind, end)}"
        figures.append((share / max(rules.outside_range, outside_by_chance), text))
    if (clock := column.clock_distance) is not None:
        text = f"at least {percent(clock)} of the times are at the wrong hour of the day"
        figures.append((clock / max(rules.column_distance, _chance_distance(column, rules)), text))
    return figures


def _chance_distance(column: ColumnComparison, rules: VerdictRules) -> float:
    """Distance of a column that hardly any new sample of the real rows exceeds.

    For numbers by the inequality of Dvoretzky, Kiefer and Wolfowitz. The standard deviation of the total variation of
    categories is at most half of `scale`; for two categories this limit is that of a normal deviate.
    """
    alarm = rules.false_alarm / rules.column_figures
    scale = np.sqrt(1 / max(column.real.present, 1) + 1 / max(column.synthetic.present, 1))
    if column.kind != "category":
        return float(scale * np.sqrt(-np.log(alarm / 2) / 2))
    beyond_mean = deviations(alarm) - np.sqrt(2 / np.pi)
    return float(column.chance_distance + beyond_mean * scale / 2)


def _headline(grade: Grade, findings: Sequence[_Finding], evaluation: Evaluation, rules: VerdictRules) -> str:
    """The grade in a sentence, with the names of the columns that are off, or of the one figure that is worst."""
    if _nothing_real(evaluation):
        return "The real data seems to be read wrongly: all of its records are empty."
    off = columns_off(evaluation, rules)
    names = [f"{name} (missing)" for name in _lacking(evaluation)] + [column.name for column in off]
    worst = [finding.subject for finding in findings if finding.level == GRADES.index(grade)]
    if grade == "close" and any(finding.text.startswith(_TOO_FEW) for finding in findings):
        return f"{HEADLINES[grade].removesuffix('.')}, as far as so few records can tell."
    if grade in ("close", "copies"):
        return HEADLINES[grade]
    if len(worst) == 1 and worst[0]:
        useful = f"The synthetic data is useful, except for {worst[0]}."
        return useful if grade == "useful" else f"The synthetic data gives a rough outline only; worst: {worst[0]}."
    if not names:
        return HEADLINES[grade]
    listed = _listed(names)
    if grade == "useful":
        return f"The synthetic data is useful, except for some columns: {listed}."
    return f"The synthetic data gives a rough outline only; worst columns: {listed}."


def _graded(level: int, text: str, subject: str = "") -> _Finding:
    return _Finding(text, level > 0, level, subject)


def _listed(names: Sequence[str]) -> str:
    """The first names and the number of the others.

    >>> _listed(["age"]), _listed(["a", "b", "c", "d", "e"])
    ('age', 'a, b, c and 2 more')
    """
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _lacking(evaluation: Evaluation) -> list[str]:
    return [column.name for column in evaluation.left_out if column.lacking]


def _not_compared(evaluation: Evaluation) -> tuple[str, ...]:
    """A sentence for every reason why columns that the synthetic data need not have were left out."""
    by_reason: dict[str, list[str]] = {}
    for column in evaluation.left_out:
        if not column.lacking:
            by_reason.setdefault(column.reason, []).append(column.name)
    return tuple(f"Not compared: {_listed(names)}, because {reason}" for reason, names in by_reason.items())


def _columns(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    off, lacking, count = columns_off(evaluation, rules), _lacking(evaluation), len(evaluation.columns)
    level = _ROUGH if len(off) + len(lacking) > rules.columns_off * (count + len(lacking)) else _USEFUL
    if lacking:
        what = "a column" if len(lacking) == 1 else f"{len(lacking)} columns"
        yield _Finding(f"The synthetic data lacks {what} of the real data: {_listed(lacking)}.", True, level)
    for column in off[: 2 * _NAMED]:
        yield _Finding(f"{column.name}: {'; '.join(column_faults(column, rules))}.", True, level)
    if len(off) > 2 * _NAMED:
        yield _Finding(f"{len(off) - 2 * _NAMED} more columns are off; see the table of columns.", True)
    if len(off) < count:
        error = np.sqrt(1 / evaluation.records + 1 / evaluation.synthetic_records)
        wider = deviations(rules.false_alarm, rules.column_figures) * error > rules.mean_shift
        by_chance = ", or within what chance explains" if wider else ""
        compared = "compared columns" if evaluation.left_out else "columns"
        good = f"{count - len(off)} of the {count} {compared} match" if off else f"All {count} {compared} match"
        yield _graded(
            _CLOSE,
            f"{good if count > 1 else 'The column matches'} the real data: median and mean within a tenth of a"
            " standard deviation, shares of the most frequent value and of missing values within 5 percentage points"
            f"{by_chance}.",
        )


def _forms(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    """Numbers that are not rounded like the real ones, and dates on other days of the week; they limit no grade."""
    z = deviations(rules.false_alarm, rules.column_figures)
    texts = []
    for column in evaluation.columns:
        counts = column.real.present, column.synthetic.present
        for form in (column.step, column.weekend):
            if form is None:
                continue
            error = share_error(form.real, counts[0], form.synthetic, counts[1])
            gap = form.real - form.synthetic if form is column.step else abs(form.real - form.synthetic)
            if gap <= max(rules.share_gap, z * error):
                continue
            what = (
                f"multiples of {value_text('number', form.size)}"
                if form is column.step
                else "on a Saturday or Sunday"
            )
            shares = share_text(form.synthetic), share_text(form.real)
            texts.append(f"{column.name}: {shares[0]} of the values are {what} instead of {shares[1]}.")
    yield from (_Finding(text, True) for text in texts[:_NAMED])
    if len(texts) > _NAMED:
        yield _Finding(f"{len(texts) - _NAMED} more columns are rounded otherwise or on other weekdays.", True)


def _nothing_real(evaluation: Evaluation) -> bool:
    """Whether all real records of sets or images are empty."""
    domain, singles = evaluation.real_sample.domain, evaluation.one_way
    if evaluation.kind not in ("sets", "images") or singles is None:
        return False
    parts = [
        singles.real[b.start : b.stop]
        for f, b in zip(domain.fields, domain.blocks, strict=True)
        if f.name != domain.label
    ]
    return not any(part.any() for part in parts)


def _empty(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    if _nothing_real(evaluation):
        text = "All real records are empty, so the real data seems to be read wrongly; check the reading options."
        yield _Finding(text, True, _ROUGH)


def _queries(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    if evaluation.kind == "images":
        return
    what = "value" if evaluation.kind == "table" else "item"
    for length, limits, counts in (
        (1, rules.single_counts, f"counts of a single {what}"),
        (2, rules.pair_counts, f"counts of two {what}s together"),
    ):
        if errors := evaluation.query_means(length):
            error = errors[SYNTHETIC]
            text = f"{counts.capitalize()} are off by {percent(error)} on average"
            # Independent items have the right single counts by design: only their pairs say something.
            rest = _with_independent(evaluation, error, errors.get(INDEPENDENT), what, rules) if length > 1 else ""
            yield _beyond_chance(evaluation, f"pop{length}", error, limits, counts, text, rest)
    if evaluation.kind == "sets" and evaluation.worst_items:
        worst = evaluation.worst_items[0]
        if worst.error > rules.rare_error:
            yield _Finding(
                f"The least exact item is {worst.name}: {share_text(worst.synthetic)} of the synthetic records hold it,"
                f" and {share_text(worst.real)} of the real ones.",
                True,
            )
    if evaluation.frequent_sets is not None and evaluation.kind != "table":
        found, number = evaluation.frequent_sets.recall, len(evaluation.frequent_sets.real)
        yield _Finding(
            f"Of the {number} most frequent item sets of the real data, {percent(found)} are also among the most"
            " frequent of the synthetic data.",
            found < rules.sets_found,
        )


def _with_independent(
    evaluation: Evaluation, error: float, independent: float | None, what: str, rules: VerdictRules
) -> str:
    """Compare an error with that of items drawn independently, which may have been given the items for free."""
    if independent is None:
        return ""
    given = f" and all {what}s known beforehand" if evaluation.values_from_data else ""
    text = f"; {what}s drawn independently, with the same privacy{given}, are off by {percent(independent)}"
    times = independent / max(error, 1e-12)
    if times >= rules.worth_saying and error:
        return f"{text} (the synthetic data is {min(times, _MOST_TIMES):.2g} times as accurate)"
    if times < 1 and error:
        better = "better" if times < rules.simple_is_better else "as good"
        unfair = f", but a release that finds its {what}s privately pays for that" if given else ""
        return f"{text}: here this simple method is {better}{unfair}"
    return text


def _beyond_chance(
    evaluation: Evaluation, figure: str, value: float, limits: Limits, what: str, text: str, rest: str = ""
) -> _Finding:
    """Grade the part of a figure that chance does not explain; `text` and `rest` are the sentence.

    If there are too few records for the figure to mean anything, the sentence says that instead, without a level.
    """
    chance, most = evaluation.chance.get(figure, 0.0), evaluation.chance_most.get(figure, 0.0)
    level = limits.level(max(0.0, value**2 - most**2) ** 0.5)
    by = percent(chance) if chance <= 1 else "more than 100 %"
    if not level and value > limits.close and max(value, chance) > limits.useful:
        few = f"{_TOO_FEW} {what}: even a new sample of real records would be off by {by}."
        return _Finding(few, True)
    aside = f" (for a new sample of real records: {by})" if chance > value / 3 else ""
    return _graded(level, f"{text}{aside}{rest}.")


def _lost(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    outside, lost = evaluation.outside, evaluation.lost_items
    if outside is not None and outside.items:
        yield _Finding(
            f"{outside.items:,} items of the real data are not in the domain ({percent(outside.share)} of all items in"
            " real records), so no synthetic record holds them.",
            True,
            rules.outside.level(outside.share),
        )
    if lost is not None and lost.count and evaluation.kind != "images":
        level = rules.lost_items.level(lost.count / lost.of)
        what = "values" if evaluation.kind == "table" else "items"
        yield _Finding(
            f"Of the {lost.of:,} {what} in at least 0.1 % of the real records, {lost.count:,}"
            f" {'is' if lost.count == 1 else 'are'} missing or nearly missing from the synthetic data"
            f" ({'for example ' if lost.count > _NAMED else ''}{', '.join(lost.names[:_NAMED])}).",
            True,
            max(level, _USEFUL) if lost.largest > rules.share_gap else level,
        )


def _column_pairs(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    if (table := evaluation.table) is None:
        return
    gap = table.mean_total_variation
    text = (
        f"For a pair of columns to match the real data, {percent(gap)} of the rows would have to change on average"
    )
    rest = f"; the worst pair is {' and '.join(table.worst_pair)} ({percent(table.largest_total_variation)})"
    yield _beyond_chance(evaluation, "pairs", gap, rules.column_pairs, "pairs of columns", text, rest)


def _associations(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    """The pair of columns whose association differs most, measured on bins or as rank correlation of raw values."""
    pairs = []
    if (table := evaluation.table) is not None:
        both = table.real_association, table.synthetic_association
        pairs.append(_widest(table.fields, *both, table.association_bias, table.association_error, rules))
    if (ranks := evaluation.correlations) is not None:
        no_bias = np.zeros_like(ranks.error)
        pairs.append(_widest(ranks.columns, ranks.rank_real, ranks.rank_synthetic, no_bias, ranks.error, rules))
    if not pairs:
        return
    _, columns, real, synthetic, level = max(pairs, key=lambda pair: (pair[-1], pair[0]))
    gap = abs(real - synthetic)
    fewest = min(evaluation.records, evaluation.synthetic_records)
    too_few = deviations(rules.false_alarm) / np.sqrt(fewest) > rules.association_gap.useful
    if not level and (too_few or gap > rules.association_gap.close):
        off = f"{columns} is {synthetic:.2f} instead of {real:.2f}, which may be chance"
        yield _Finding(f"{_TOO_FEW} associations between columns: that of {off}.", True)
        return
    text = f"Associations between columns match the real data: none is off by more than {gap:.2f} on a scale of 0 to 1."
    if level:
        scale = "0: no association, 1 or -1: one determines the other"
        text = f"The association of {columns} is {synthetic:.2f} instead of {real:.2f} ({scale})."
    yield _graded(level, text, f"the association of {columns}")


def _orders(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    """Pairs of columns that are out of order, and the rule to state so that a fit keeps their order."""
    z = deviations(rules.false_alarm, rules.column_figures)
    off = [
        order
        for order in evaluation.orders
        if rules.out_of_order.level(order.synthetic - order.real) and order.synthetic - order.real > z * order.error
    ]
    for order in off[:_NAMED]:
        rule = f"`{order.first} <= {order.last}` under `constraints`"
        if order.kind == "date":
            rule = f"`after: {order.first}` in the line of {order.last}, or {rule},"
        yield _Finding(
            f"{order.first} is {'later' if order.kind == 'date' else 'greater'} than {order.last} in"
            f" {share_text(order.synthetic)} of the synthetic rows and {share_text(order.real)} of the real ones; if"
            f" their order is a rule, state {rule} in the domain before the fit (docs/constraints.md).",
            True,
            rules.out_of_order.level(order.synthetic - order.real),
            f"the order of {order.first} and {order.last}",
        )
    if len(off) > _NAMED:
        yield _Finding(
            f"{len(off) - _NAMED} more pairs of columns are out of order; the JSON output lists them.", True
        )


def _widest(
    names: tuple[str, ...],
    real: NDArray[np.float64],
    synthetic: NDArray[np.float64],
    bias: NDArray[np.float64],
    error: NDArray[np.float64],
    rules: VerdictRules,
) -> tuple[float, str, float, float, int]:
    """The pair of columns with the largest gap beyond chance: the gap, the names, both values, and the level."""
    z = deviations(rules.false_alarm, max(len(names) * (len(names) - 1) // 2, 1))
    gaps = np.maximum(np.abs(real - synthetic) - bias, 0.0)
    clear = np.where(gaps > z * error, gaps, 0.0)
    level = rules.association_gap.level(float(clear.max()))
    gaps = clear if level else np.abs(real - synthetic)
    first, second = (int(at) for at in np.unravel_index(int(gaps.argmax()), gaps.shape))
    if first == second:  # only on the diagonal if all gaps are 0
        second = 1 if first == 0 else 0
    at = (first, second)
    return float(gaps[at]), f"{names[first]} and {names[second]}", float(real[at]), float(synthetic[at]), level


def _learning(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    if not evaluation.downstream:
        return
    best = max(evaluation.downstream, key=lambda accuracy: accuracy.real)
    gain, lost = best.real - best.majority, best.real - best.synthetic
    spread = sum(share * (1 - share) for share in (best.real, best.synthetic))
    clear = lost > deviations(rules.false_alarm) * np.sqrt(spread / max(best.test_records, 1))
    yield _graded(
        rules.learning_lost.level(lost / gain if clear and gain > rules.least_learned else 0.0),
        f"A {best.model} trained on synthetic records predicts the label of {percent(best.synthetic)} of real records"
        f" correctly; trained on real records, of {percent(best.real)}.",
    )


def _images(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    if (measured := evaluation.images) is None:
        return
    variety, gap, label_gap = measured.variety, measured.pixel_difference, measured.label_gap
    text = f"Images with the same label vary {percent(variety)} as much as real ones do."
    yield _graded(rules.image_variety.level(abs(1 - variety)), text)
    text = f"The mean images of the labels differ from the real ones by {percent(gap)} per pixel."
    yield _graded(rules.pixel_difference.level(gap), text)
    if label_gap is not None:
        text = f"The shares of the labels are off by at most {100 * label_gap:.1f} percentage points."
        error = np.sqrt(1 / evaluation.records + 1 / evaluation.synthetic_records) / 2
        clear = label_gap > deviations(rules.false_alarm, rules.column_figures) * error
        yield _graded(Limits(rules.share_gap, 3 * rules.share_gap).level(label_gap if clear else 0.0), text)


def _lengths(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    if (lengths := evaluation.lengths) is None or evaluation.kind == "images":
        return
    gap = lengths.total_variation
    text = (
        f"Records hold {lengths.synthetic_mean:.2f} items on average (real: {lengths.real_mean:.2f}); {percent(gap)} of"
        " them would need a different number of items to match"
    )
    empty, real_empty = float(lengths.synthetic[0]), float(lengths.real[0])
    rest = ""
    if abs(empty - real_empty) > rules.empty_gap:
        rest = f"; {share_text(empty)} of them are empty (real: {share_text(real_empty)})"
    finding = _beyond_chance(evaluation, "lengths", gap, rules.lengths, "lengths of records", text, rest)
    means = abs(lengths.synthetic_mean - lengths.real_mean) / max(lengths.real_mean, 1e-12)
    level = rules.mean_length.level(means)
    clear = means * lengths.real_mean > deviations(rules.false_alarm) * _mean_length_error(evaluation, lengths)
    if clear and level > (finding.level or 0):
        finding = _graded(level, f"{text}{rest}.")
    yield finding


def _mean_length_error(evaluation: Evaluation, lengths: LengthDistance) -> float:
    """Standard error of the difference of the mean lengths."""
    variance = 0.0
    for shares, mean, count in (
        (lengths.real, lengths.real_mean, evaluation.records),
        (lengths.synthetic, lengths.synthetic_mean, evaluation.synthetic_records),
    ):
        variance += float(shares @ (np.arange(len(shares)) - mean) ** 2) / count
    return float(np.sqrt(variance))


def _copies(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    if (measured := evaluation.copies) is None:
        return
    level = 0
    if measured.real_distinct > 0:
        level = rules.distinct_ratio.level(1 - measured.synthetic_distinct / measured.real_distinct)
    if level:
        yield _graded(
            level,
            f"Records are repeated: {percent(measured.synthetic_distinct)} of the synthetic records are distinct, and"
            f" {percent(measured.real_distinct)} of equally many real ones.",
        )
    if measured.copied > measured.limit:
        yield _graded(
            _COPIES,
            f"Of the {measured.records:,} synthetic records that are rare enough to judge, {percent(measured.copied)}"
            f" equal a real record that occurs only once; by chance it would be {percent(measured.expected)}. Were they"
            " copied from the real data?",
        )


_CHECKS: tuple[Callable[[Evaluation, VerdictRules], _Findings], ...] = (
    _empty,
    _columns,
    _forms,
    _queries,
    _lost,
    _column_pairs,
    _associations,
    _orders,
    _learning,
    _images,
    _lengths,
    _copies,
)
