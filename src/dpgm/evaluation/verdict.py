"""The evaluation in words: a grade, one headline, and what is good and what is off, for people who skip numbers.

`VerdictRules` holds every limit with its reason (but for copies: see `copies.py`). A check looks at one kind of figure
and yields what it finds; no grade is better than the worst finding.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.fields import OTHER
from dpgm.evaluation.column_metrics import ColumnComparison
from dpgm.evaluation.evaluate import SYNTHETIC, Evaluation
from dpgm.evaluation.raw_columns import value_text

Grade: TypeAlias = Literal["close", "useful", "rough", "copies"]
GRADES: tuple[Grade, ...] = ("close", "useful", "rough", "copies")  # by level
_CLOSE, _USEFUL, _ROUGH, _COPIES = range(4)
HEADLINES: dict[Grade, str] = {
    "close": "The synthetic data is a close stand-in for the real data.",
    "useful": "The synthetic data is useful for common patterns; check rare ones before relying on them.",
    "rough": "The synthetic data shows the outline only; do not draw detailed conclusions from it.",
    "copies": "The synthetic data holds copies of real records: do not publish it.",
}
_NAMED = 3  # columns named in the headline
_MOST_TIMES = 999  # times as accurate, in words


@dataclass(frozen=True)
class Limits:
    """Up to `close` a figure is good, up to `useful` it is usable with care, beyond that it is bad."""

    close: float
    useful: float

    def level(self, value: float) -> int:
        """0, 1 or 2.

        >>> [Limits(0.05, 0.2).level(value) for value in (0.05, 0.1, 0.3)]
        [0, 1, 2]
        """
        return 0 if value <= self.close else 1 if value <= self.useful else 2


@dataclass(frozen=True)
class VerdictRules:
    """Limits of the verdict.

    Relative errors and shares are fractions (0.05 = 5 %, or 5 points for a difference of shares).
    """

    # Mean relative error of popular counts: 5 % is what a survey of a few thousand people has by chance alone.
    single_counts: Limits = Limits(0.05, 0.15)
    # Pairs are rarer than single values, so the same survey is off by about three times as much.
    pair_counts: Limits = Limits(0.15, 0.35)
    # Share of the rows that would have to change for a pair of columns to match, averaged over pairs.
    column_pairs: Limits = Limits(0.08, 0.2)
    # Share of what a model can learn beyond guessing that is lost by learning from synthetic records.
    learning_lost: Limits = Limits(0.1, 0.35)
    # Share of the records that would have to change their length.
    lengths: Limits = Limits(0.1, 0.3)
    # Difference in the share of records that hold nothing from which on the report says so.
    empty_gap: float = 0.01
    # A difference of 5 points in the share of one value, or of missing values, changes what a reader concludes.
    share_gap: float = 0.05
    # A tenth of a standard deviation: what is called a negligible effect in statistics.
    median_shift: float = 0.1
    mean_shift: float = 0.1
    # Kolmogorov distance (or total variation of categories): a tenth of the rows is on the wrong side of some value.
    column_distance: float = 0.1
    # Standard deviation of a column relative to the real one: tails that are cut off or invented.
    deviation_ratio: tuple[float, float] = (2 / 3, 1.5)
    # Share of columns that may be off before the whole is no more than an outline.
    columns_off: float = 1 / 3
    # Difference of association (0 to 1) of one pair of columns: a tie that is lost or invented.
    association_gap: Limits = Limits(0.15, 0.4)
    # Share of the rows in which two columns are in an order that (nearly) no real row has: discharged, then admitted.
    out_of_order: Limits = Limits(0.01, 0.25)
    # Items or values of at least 0.1 % of the records that hardly ever occur, as a share of all such items.
    lost_items: Limits = Limits(0.05, 0.3)
    # Share of what real records hold that the domain does not list, so that it is missing from every synthetic record.
    outside: Limits = Limits(0.05, 0.2)
    # Distinct records relative to the real data: below, the same records come again and again.
    distinct_ratio: Limits = Limits(0.2, 0.5)  # of the missing part: 1 - ratio
    # Relative error of the worst item from which it is named, and share of the most frequent sets that should be found.
    rare_error: float = 0.25
    sets_found: float = 0.8
    # How many times as accurate as items drawn independently the data must be before the report says so, and the error
    # of the simple method, as a part of ours, below which it is called better rather than as good.
    worth_saying: float = 1.5
    simple_is_better: float = 0.9
    # What a model must learn beyond guessing (share of right answers) before a loss of it can be judged.
    least_learned: float = 0.01
    # Images: how much the pixels of one label vary, relative to the real images; and mean difference of a pixel.
    image_variety: Limits = Limits(0.3, 0.6)  # of |1 - ratio|
    pixel_difference: Limits = Limits(0.03, 0.08)


RULES = VerdictRules()


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


class _Finding(NamedTuple):
    """A sentence, whether it says that something is off, and the level of the grade that it asks for, if any."""

    text: str
    off: bool
    level: int | None = None


_Findings: TypeAlias = Iterator[_Finding]


def verdict(evaluation: Evaluation, rules: VerdictRules = RULES) -> Verdict:
    """Judge an evaluation: no grade is better than the worst of its figures."""
    findings = [finding for check in _CHECKS for finding in check(evaluation, rules)]
    findings.sort(key=lambda finding: finding.level != _COPIES)  # copies are said first
    grade = GRADES[max((finding.level for finding in findings if finding.level is not None), default=_ROUGH)]
    bad, good = (tuple(finding.text for finding in findings if finding.off == off) for off in (True, False))
    return Verdict(grade, _headline(grade, evaluation, rules), bad, good)


def percent(share: float) -> str:
    """A share in words that fit its size.

    >>> percent(0.0042), percent(0.137), percent(3.0)
    ('0.42 %', '14 %', '300 %')
    """
    value = 100 * share
    return "0 %" if value == 0 else f"{value:.2g} %" if value < 9.95 else f"{value:.0f} %"


def share_text(share: float) -> str:
    """A share with one place, so that 99.9 % does not become 100 %.

    >>> share_text(0.917), share_text(0.0005), share_text(0.0), share_text(1.0)
    ('91.7 %', '0.05 %', '0 %', '100 %')
    """
    value = 100 * share
    if value in (0, 100):
        return f"{value:.0f} %"
    return f"{value:.1f} %" if value >= 1 else f"{value:.2g} %"


def column_faults(column: ColumnComparison, rules: VerdictRules = RULES) -> tuple[str, ...]:
    """What is off in one column, the worst kind of fault first; empty if nothing is.

    Of a column in which hardly any row has a value, only the share of missing values counts.
    """
    figures = _column_figures(column, rules)
    if 1 - column.real.missing < rules.share_gap:
        return tuple(text for times, text in figures[1:2] if times > 1)
    faults = [text for times, text in figures if times > 1]
    if column.lost:
        faults.append(f"the value {column.lost[0]} hardly ever occurs")
    if column.distance > rules.column_distance and not faults:
        what = "values are" if column.kind == "category" else "values lie"
        faults.append(f"{percent(column.distance)} of the {what} in the wrong place")
    return tuple(faults)


def columns_off(evaluation: Evaluation, rules: VerdictRules = RULES) -> tuple[ColumnComparison, ...]:
    """The columns with a fault, first that whose worst figure is farthest beyond its limit."""

    def badness(column: ColumnComparison) -> float:
        times = [times for times, _ in _column_figures(column, rules)]
        return max(*times, column.distance / rules.column_distance)

    off = [column for column in evaluation.columns if column_faults(column, rules)]
    return tuple(sorted(off, key=badness, reverse=True))


def _column_figures(column: ColumnComparison, rules: VerdictRules) -> list[tuple[float, str]]:
    """How many times its limit each figure of a column is, and what to say beyond; missing values come second."""
    sides = (column.synthetic, column.real)
    gaps = [share_text(side.missing) for side in sides]
    mode = (
        f"the value {column.mode} makes up {share_text(column.synthetic_mode_share)} instead of"
        f" {share_text(column.real_mode_share)}"
    )
    if column.mode == OTHER and not column.real_mode_share:
        mode = (
            f"{share_text(column.synthetic_mode_share)} of the values are too rare to be published, and are {OTHER}"
        )
    figures = [
        (column.mode_gap / rules.share_gap, mode),
        (column.missing_gap / rules.share_gap, f"{gaps[0]} of the values are missing instead of {gaps[1]}"),
    ]
    if column.median_shift is not None and column.mean_shift is not None and column.deviation_ratio is not None:
        medians = [value_text(column.kind, side.quantiles[len(side.quantiles) // 2]) for side in sides]
        means = [value_text(column.kind, side.mean) for side in sides]
        days = " days" if column.kind == "date" else ""
        deviations = [value_text("number", side.deviation) + days for side in sides]
        low, high = rules.deviation_ratio
        ratio = max(low / max(column.deviation_ratio, 1e-9), column.deviation_ratio / high)
        figures += [
            (column.median_shift / rules.median_shift, f"the median is {medians[0]} instead of {medians[1]}"),
            (column.mean_shift / rules.mean_shift, f"the mean is {means[0]} instead of {means[1]}"),
            (ratio, f"the standard deviation is {deviations[0]} instead of {deviations[1]}"),
        ]
    if (clock := column.clock_distance) is not None:
        text = f"{percent(clock)} of the times lie at the wrong hour of the day"
        figures.append((clock / rules.column_distance, text))
    return figures


def _headline(grade: Grade, evaluation: Evaluation, rules: VerdictRules) -> str:
    off = columns_off(evaluation, rules)
    if grade in ("close", "copies") or not off:
        return HEADLINES[grade]
    names = ", ".join(column.name for column in off[:_NAMED])
    listed = f"{names} and {len(off) - _NAMED} more" if len(off) > _NAMED else names
    if grade == "useful":
        return f"The synthetic data is useful, but not for every column: mistrust {listed}."
    return f"The synthetic data shows the outline only; worst columns: {listed}."


def _graded(level: int, text: str) -> _Finding:
    return _Finding(text, level > 0, level)


def _columns(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    off, count = columns_off(evaluation, rules), len(evaluation.columns)
    level = _ROUGH if len(off) > rules.columns_off * count else _USEFUL
    for column in off[: 2 * _NAMED]:
        yield _Finding(f"{column.name}: {'; '.join(column_faults(column, rules))}.", True, level)
    if len(off) > 2 * _NAMED:
        yield _Finding(f"{len(off) - 2 * _NAMED} more columns are off; see the table of columns.", True)
    if count == 1 and not off:
        kept = "The column keeps its median and mean, its most frequent value and its share of missing values."
        yield _graded(_CLOSE, kept)
    elif len(off) < count:
        fine = count - len(off) if off else "All"
        yield _graded(
            _CLOSE,
            f"{fine} of the {count} columns keep their medians and means (within a tenth of a "
            "standard deviation), their most frequent value and their share of missing values (within 5 points).",
        )


def _queries(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    if evaluation.kind == "images":
        return
    what = "value" if evaluation.kind == "table" else "item"
    if single := evaluation.query_means(1):
        ours, counts = single[SYNTHETIC], f"counts of a single {what}"
        text = f"{counts.capitalize()} are off by {percent(ours)} on average"
        yield _beyond_chance(evaluation, "pop1", ours, rules.single_counts, counts, text)
    if pair := evaluation.query_means(2):
        ours, counts = pair[SYNTHETIC], f"counts of two {what}s together"
        text = f"{counts.capitalize()} are off by {percent(ours)}"
        beside = _beside_independent(ours, pair.get("independent"), what, rules)
        yield _beyond_chance(evaluation, "pop2", ours, rules.pair_counts, counts, text, beside)
    if evaluation.kind == "sets" and evaluation.worst_items:
        worst = evaluation.worst_items[0]
        if worst.error > rules.rare_error:
            yield _Finding(
                f"Rare items are less exact: {worst.name} is held by {share_text(worst.synthetic)} of the records "
                f"instead of {share_text(worst.real)}.",
                True,
            )
    if evaluation.frequent_sets is not None and evaluation.kind != "table":
        found, of = evaluation.frequent_sets.recall, len(evaluation.frequent_sets.real)
        yield _Finding(f"{percent(found)} of the {of} most frequent sets are found.", found < rules.sets_found)


def _beside_independent(ours: float, alone: float | None, what: str, rules: VerdictRules) -> str:
    """What drawing items independently would give."""
    if alone is None:
        return ""
    text = f"; {what}s drawn independently, at the same privacy, by {percent(alone)}"
    better = alone / max(ours, 1e-12)
    if better >= rules.worth_saying and ours:
        return f"{text} (the synthetic data is {min(better, _MOST_TIMES):.2g} times as accurate)"
    if better < 1 and ours:
        return f"{text}: here the simple method is {'better' if better < rules.simple_is_better else 'as good'}"
    return text


def _beyond_chance(
    evaluation: Evaluation, figure: str, value: float, limits: Limits, what: str, text: str, rest: str = ""
) -> _Finding:
    """The level of what chance does not explain, and what to say of chance where it matters.

    There is no level where there are too few records for the figure to say anything.
    """
    chance = evaluation.chance.get(figure, 0.0)
    level = limits.level(max(0.0, value**2 - chance**2) ** 0.5)
    by = percent(chance) if chance <= 1 else "more than 100 %"
    if not level and value > limits.close and max(value, chance) > limits.useful:
        few = f"There are too few records to judge {what}: a fresh sample of the same people would be off by {by}."
        return _Finding(few, True)
    aside = f" (a fresh sample of the same people: {by})" if chance > value / 3 else ""
    return _graded(level, f"{text}{aside}{rest}.")


def _lost(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    outside, lost = evaluation.outside, evaluation.lost_items
    if outside is not None and outside.items:
        yield _Finding(
            f"{outside.items:,} items of the real data are not in the domain, {percent(outside.share)} of all that"
            " real records hold: no synthetic record holds them.",
            True,
            rules.outside.level(outside.share),
        )
    if lost is not None and lost.count and evaluation.kind != "images":
        level = rules.lost_items.level(lost.count / lost.of)
        yield _Finding(
            f"{lost.count:,} of the {lost.of:,} {'values' if evaluation.kind == 'table' else 'items'} that at least"
            f" 0.1 % of the real records hold hardly ever occur (such as {', '.join(lost.names[:_NAMED])}).",
            True,
            max(level, _USEFUL) if lost.largest > rules.share_gap else level,
        )


def _table(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    if (table := evaluation.table) is None:
        return
    gap = table.mean_total_variation
    text = (
        f"For a pair of columns, {percent(gap)} of the rows would have to change on average to match the real data"
    )
    hardest = f"{' and '.join(table.worst_pair)} ({percent(table.largest_total_variation)})"
    rest = f"; the hardest pair is {hardest}"
    yield _beyond_chance(evaluation, "pairs", gap, rules.column_pairs, "pairs of columns", text, rest)


def _ties(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    """The pair of columns whose association differs most, by bins or by ranks of the raw values."""
    pairs = []
    if (table := evaluation.table) is not None:
        pairs.append(_widest(table.fields, table.real_association, table.synthetic_association))
    if (ranks := evaluation.correlations) is not None:
        pairs.append(_widest(ranks.columns, ranks.rank_real, ranks.rank_synthetic))
    if not pairs:
        return
    gap, columns, ours, theirs = max(pairs, key=lambda pair: pair[0])
    level = rules.association_gap.level(gap)
    text = f"Columns are tied as in the real data: no strength is off by more than {gap:.2f}."
    if level:
        strengths = f"{theirs:.2f} instead of {ours:.2f} (0: not at all, 1: one tells the other)"
        text = f"{columns} are tied with strength {strengths}."
    yield _graded(level, text)


def _orders(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    """Pairs of columns in an order that real rows do not have, and the rule that would keep it."""
    off = [order for order in evaluation.orders if rules.out_of_order.level(order.synthetic - order.real)]
    for order in off[:_NAMED]:
        rule = f"`{order.first} <= {order.last}` under `constraints`"
        if order.kind == "date":
            rule = f"`after: {order.first}` in the line of {order.last}, or {rule},"
        yield _Finding(
            f"{order.first} is {'later' if order.kind == 'date' else 'greater'} than {order.last} in"
            f" {share_text(order.synthetic)} of the rows, in {share_text(order.real)} of the real ones; if that is a"
            f" rule, state {rule} in the domain before the fit (docs/constraints.md).",
            True,
            rules.out_of_order.level(order.synthetic - order.real),
        )
    if len(off) > _NAMED:
        yield _Finding(f"{len(off) - _NAMED} more pairs of columns are out of order; --json lists them.", True)


def _widest(
    names: tuple[str, ...], real: NDArray[np.float64], synthetic: NDArray[np.float64]
) -> tuple[float, str, float, float]:
    gaps = np.abs(real - synthetic)
    first, second = (int(at) for at in np.unravel_index(int(gaps.argmax()), gaps.shape))
    if first == second:
        second = 1 if first == 0 else 0
    at = (first, second)
    return float(gaps[at]), f"{names[first]} and {names[second]}", float(real[at]), float(synthetic[at])


def _learning(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    if not evaluation.downstream:
        return
    best = max(evaluation.downstream, key=lambda accuracy: accuracy.real)
    gain = best.real - best.majority
    yield _graded(
        rules.learning_lost.level((best.real - best.synthetic) / gain if gain > rules.least_learned else 0.0),
        f"A {best.model} trained on synthetic records is right on {percent(best.synthetic)} of real ones; "
        f"trained on real records, on {percent(best.real)}.",
    )


def _images(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    if (measured := evaluation.images) is None:
        return
    variety, gap, label_gap = measured.variety, measured.pixel_difference, measured.label_gap
    text = f"Images of one label vary {percent(variety)} as much as real ones do."
    yield _graded(rules.image_variety.level(abs(1 - variety)), text)
    text = f"The mean image of a label differs by {percent(gap)} per pixel."
    yield _graded(rules.pixel_difference.level(gap), text)
    if label_gap is not None:
        text = f"The share of a label is off by at most {100 * label_gap:.1f} points."
        yield _graded(Limits(rules.share_gap, 3 * rules.share_gap).level(label_gap), text)


def _lengths(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    if (lengths := evaluation.lengths) is None or evaluation.kind == "images":
        return
    gap = lengths.total_variation
    text = (
        f"Records hold {lengths.synthetic_mean:.2f} items on average (real: {lengths.real_mean:.2f}); {percent(gap)} of"
        " them would have to change their length to match"
    )
    empty, real_empty = float(lengths.synthetic[0]), float(lengths.real[0])
    if abs(empty - real_empty) > rules.empty_gap:
        text += f" ({share_text(empty)} of them hold nothing; real: {share_text(real_empty)})"
    yield _beyond_chance(evaluation, "lengths", gap, rules.lengths, "lengths of records", text)


def _copies(evaluation: Evaluation, rules: VerdictRules) -> _Findings:
    if (measured := evaluation.copies) is None:
        return
    level = 0
    if measured.real_distinct > 0:
        level = rules.distinct_ratio.level(1 - measured.synthetic_distinct / measured.real_distinct)
    if level:
        yield _graded(
            level,
            f"The same records come again and again: {percent(measured.synthetic_distinct)} of them are distinct, "
            f"of as many real ones {percent(measured.real_distinct)}.",
        )
    if measured.copied > measured.limit:
        yield _graded(
            _COPIES,
            f"Of the {measured.records:,} synthetic records that are rare enough to tell, {percent(measured.copied)} "
            f"equal a real record that occurs only once; chance alone would give {percent(measured.expected)}. Were "
            "they made from the rows?",
        )


_CHECKS: tuple[Callable[[Evaluation, VerdictRules], _Findings], ...] = (
    _columns,
    _queries,
    _lost,
    _table,
    _ties,
    _orders,
    _learning,
    _images,
    _lengths,
    _copies,
)
