"""What a verdict says about records: counts, lost items, lengths, models trained on them, images and copies.

Each check looks at one kind of figure of an evaluation and yields findings; columns are in `column_checks.py`.
"""

import numpy as np

from dpgm.evaluation.chance import deviations
from dpgm.evaluation.evaluate import INDEPENDENT, SYNTHETIC, Evaluation
from dpgm.evaluation.findings import (
    COPIES,
    NAMED,
    ROUGH,
    USEFUL,
    Finding,
    Findings,
    Limits,
    VerdictRules,
    beyond_chance,
    graded,
    percent,
    share_text,
)
from dpgm.evaluation.marginals import LengthDistance
from dpgm.validation import counted

_MOST_TIMES = 999  # largest "times as accurate" that is printed


def all_real_empty(evaluation: Evaluation) -> bool:
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


def check_real_not_empty(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Real data in which all records are empty was probably read wrongly."""
    if all_real_empty(evaluation):
        text = "All real records are empty, so the real data seems to be read wrongly; check the reading options."
        yield Finding(text, True, ROUGH)


def check_counts(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Counts of single items and of pairs, the least exact item, and the most frequent item sets."""
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
            yield beyond_chance(evaluation, f"pop{length}", error, limits, counts, text, rest)
    if evaluation.kind == "sets" and evaluation.worst_items:
        worst = evaluation.worst_items[0]
        if worst.error > rules.rare_error:
            yield Finding(
                f"The least exact item is {worst.name}: {share_text(worst.synthetic)} of the synthetic records hold it,"
                f" and {share_text(worst.real)} of the real ones.",
                True,
            )
    if evaluation.frequent_sets is not None and evaluation.kind != "table":
        found, number = evaluation.frequent_sets.recall, len(evaluation.frequent_sets.real)
        yield Finding(
            f"Of the {number} most frequent item sets of the real data, {percent(found)} are also among the most"
            " frequent of the synthetic data.",
            found < rules.sets_found,
        )


def check_lost_items(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Items that the domain does not list, and frequent ones that are missing from the synthetic data."""
    outside, lost = evaluation.outside, evaluation.lost_items
    if outside is not None and outside.items:
        of_real = counted(outside.items, "item of the real data is", "items of the real data are")
        yield Finding(
            f"{of_real} not in the domain ({percent(outside.share)} of all items in"
            " real records), so no synthetic record holds them.",
            True,
            rules.outside.level(outside.share),
        )
    if lost is not None and lost.count and evaluation.kind != "images":
        level = rules.lost_items.level(lost.count / lost.of)
        what = "values" if evaluation.kind == "table" else "items"
        yield Finding(
            f"Of the {lost.of:,} {what} in at least 0.1 % of the real records, {lost.count:,}"
            f" {'is' if lost.count == 1 else 'are'} missing or nearly missing from the synthetic data"
            f" ({'for example ' if lost.count > NAMED else ''}{', '.join(lost.names[:NAMED])}).",
            True,
            max(level, USEFUL) if lost.largest > rules.share_gap else level,
        )


def check_lengths(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Numbers of items per record: their distribution and their mean."""
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
    finding = beyond_chance(evaluation, "lengths", gap, rules.lengths, "lengths of records", text, rest)
    means = abs(lengths.synthetic_mean - lengths.real_mean) / max(lengths.real_mean, 1e-12)
    level = rules.mean_length.level(means)
    clear = means * lengths.real_mean > deviations(rules.false_alarm) * _mean_length_error(evaluation, lengths)
    if clear and level > (finding.level or 0):
        finding = graded(level, f"{text}{rest}.")
    yield finding


def check_learning(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """The accuracy of a model trained on synthetic records, compared with one trained on real records."""
    if not evaluation.downstream:
        return
    best = max(evaluation.downstream, key=lambda accuracy: accuracy.real)
    gain, lost = best.real - best.majority, best.real - best.synthetic
    spread = sum(share * (1 - share) for share in (best.real, best.synthetic))
    clear = lost > deviations(rules.false_alarm) * np.sqrt(spread / max(best.test_records, 1))
    yield graded(
        rules.learning_lost.level(lost / gain if clear and gain > rules.least_learned else 0.0),
        f"A {best.model} trained on synthetic records predicts the label of {percent(best.synthetic)} of real records"
        f" correctly; trained on real records, of {percent(best.real)}.",
    )


def check_images(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """The variety of the images of a label, their mean image, and the shares of the labels."""
    if (measured := evaluation.images) is None:
        return
    variety, gap, label_gap = measured.variety, measured.pixel_difference, measured.label_gap
    labelled = label_gap is not None
    which = "Images with the same label" if labelled else "Images"
    text = f"{which} vary {percent(variety)} as much as real ones do."
    yield graded(rules.image_variety.level(abs(1 - variety)), text)
    differ = (
        "mean images of the labels differ from the real ones"
        if labelled
        else "mean image differs from the real one"
    )
    text = f"The {differ} by {percent(gap)} per pixel."
    yield graded(rules.pixel_difference.level(gap), text)
    if label_gap is not None:
        text = f"The shares of the labels are off by at most {100 * label_gap:.1f} percentage points."
        error = np.sqrt(1 / evaluation.records + 1 / evaluation.synthetic_records) / 2
        clear = label_gap > deviations(rules.false_alarm, rules.column_figures) * error
        yield graded(Limits(rules.share_gap, 3 * rules.share_gap).level(label_gap if clear else 0.0), text)


def check_copies(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Synthetic records that repeat each other, and those that are copies of real records."""
    if (measured := evaluation.copies) is None:
        return
    level = 0
    if measured.real_distinct > 0:
        level = rules.distinct_ratio.level(1 - measured.synthetic_distinct / measured.real_distinct)
    if level:
        yield graded(
            level,
            f"Records are repeated: {percent(measured.synthetic_distinct)} of the synthetic records are distinct, and"
            f" {percent(measured.real_distinct)} of equally many real ones.",
        )
    if measured.copied > measured.limit:
        yield graded(
            COPIES,
            f"Of the {measured.records:,} synthetic records that are rare enough to judge, {percent(measured.copied)}"
            f" equal a real record that occurs only once; by chance it would be {percent(measured.expected)}. Were they"
            " copied from the real data?",
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


def _mean_length_error(evaluation: Evaluation, lengths: LengthDistance) -> float:
    """Standard error of the difference of the mean lengths."""
    variance = 0.0
    for shares, mean, count in (
        (lengths.real, lengths.real_mean, evaluation.records),
        (lengths.synthetic, lengths.synthetic_mean, evaluation.synthetic_records),
    ):
        variance += float(shares @ (np.arange(len(shares)) - mean) ** 2) / count
    return float(np.sqrt(variance))
