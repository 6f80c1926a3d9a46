"""What a verdict finds in records: counts, lost items, lengths, models trained on them, images and copies.

Each check looks at one kind of figure of an evaluation and yields findings; rows of tables are in `row_checks.py`.
"""

from collections.abc import Mapping

import numpy as np

from dpgm.evaluation.chance import deviations
from dpgm.evaluation.evaluate import INDEPENDENT, SYNTHETIC
from dpgm.evaluation.event_figures import FIRST_ORDER, JUDGED_RUN
from dpgm.evaluation.evidence import angles, clear, deviances, needed_evidence
from dpgm.evaluation.findings import (
    CLOSE,
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
)
from dpgm.evaluation.marginals import LengthDistance
from dpgm.evaluation.results import Evaluation


def all_real_empty(evaluation: Evaluation) -> bool:
    """Whether all real records of sets or images are empty."""
    domain, singles = evaluation.samples.real.domain, evaluation.items.single
    if evaluation.data.kind not in ("sets", "images"):
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
        yield Finding("real_empty", ROUGH)


def check_counts(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Counts of single items and of pairs, the least exact item, and the most frequent item sets."""
    kind, items, chance = evaluation.data.kind, evaluation.items, evaluation.chance
    if kind == "images":
        return
    what = "value" if kind == "table" else "item"
    for length, limits in ((1, rules.single_counts), (2, rules.pair_counts)):
        if errors := evaluation.counting.means(length):
            name = f"pop{length}"
            numbers = {} if length == 1 else _independent(evaluation, errors, rules)
            yield beyond_chance(
                "single_counts" if length == 1 else "pair_counts",
                errors[SYNTHETIC],
                chance.expected.get(name, 0.0),
                chance.most.get(name, 0.0),
                limits,
                numbers,
                (what,),
            )
    if kind == "sets" and items.worst and items.worst[0].error > rules.rare_error:
        worst = items.worst[0]
        yield Finding("worst_item", None, {"real": worst.real, "synthetic": worst.synthetic}, (worst.name,))
    if items.frequent_sets is not None and kind != "table":
        found = items.frequent_sets.recall
        numbers = {"found": found, "count": len(items.frequent_sets.real)}
        yield Finding("frequent_sets", None, numbers, off=found < rules.sets_found)


def check_lost_items(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Items that the domain does not list, and frequent ones that are missing from the synthetic data."""
    kind, outside, lost = evaluation.data.kind, evaluation.data.outside, evaluation.items.lost
    if outside is not None and outside.items:
        level = rules.outside.level(outside.share)
        yield Finding("unlisted_items", level, {"count": outside.items, "share": outside.share})
    if lost.count and kind != "images":
        level = rules.lost_items.level(lost.count / lost.of)
        level = max(level, USEFUL) if lost.largest > rules.share_gap else level
        what = "value" if kind == "table" else "item"
        yield Finding("lost_items", level, {"count": lost.count, "of": lost.of}, (what, *lost.names[:NAMED]))


def check_lengths(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Numbers of items per record: their distribution and their mean."""
    if (lengths := evaluation.items.lengths) is None or evaluation.data.kind == "images":
        return
    gap, chance = lengths.total_variation, evaluation.chance
    empty, real_empty = float(lengths.synthetic[0]), float(lengths.real[0])
    numbers = {"real": lengths.real_mean, "synthetic": lengths.synthetic_mean}
    if abs(empty - real_empty) > rules.empty_gap:
        numbers |= {"empty": empty, "real_empty": real_empty}
    expected, most = chance.expected.get("lengths", 0.0), chance.most.get("lengths", 0.0)
    finding = beyond_chance("lengths", gap, expected, most, rules.lengths, numbers)
    means = abs(lengths.synthetic_mean - lengths.real_mean) / max(lengths.real_mean, 1e-12)
    level = rules.mean_length.level(means)
    clear = means * lengths.real_mean > deviations(rules.false_alarm) * _mean_length_error(evaluation, lengths)
    if clear and level > (finding.level or 0):
        finding = graded("lengths", level, {"value": gap, "chance": 0.0} | numbers)
    yield finding


def check_events(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Sequences: what follows what, where they start and end, how often common runs come, and when events are."""
    if (figures := evaluation.events) is None:
        return
    values = {**figures.distances, "runs": figures.run_errors[JUDGED_RUN]}
    limits = {
        "steps": ("event_steps", rules.event_steps),
        "runs": ("event_runs", rules.event_runs),
        "ends": ("event_ends", rules.event_steps),
        "hours": ("event_hours", rules.event_times),
        "gaps": ("event_gaps", rules.event_times),
    }
    for name, (kind, limit) in limits.items():
        if name in values:
            expected, most = (
                figure.get(name, 0.0) for figure in (evaluation.chance.expected, evaluation.chance.most)
            )
            others = {"chain": values[name][FIRST_ORDER]} if FIRST_ORDER in values[name] else {}
            yield beyond_chance(kind, values[name][SYNTHETIC], expected, most, limit, others)


def check_learning(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """The accuracy of a model trained on synthetic records, compared with one trained on real records."""
    if not evaluation.learning.accuracies:
        return
    best = max(evaluation.learning.accuracies, key=lambda accuracy: accuracy.real)
    gain, lost = best.real - best.majority, best.real - best.synthetic
    spread = sum(share * (1 - share) for share in (best.real, best.synthetic))
    clear = lost > deviations(rules.false_alarm) * np.sqrt(spread / max(best.test_records, 1))
    level = rules.learning_lost.level(lost / gain if clear and gain > rules.least_learned else 0.0)
    yield graded("learning", level, {"real": best.real, "synthetic": best.synthetic}, (best.model,))


def check_images(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """The variety of the images of a label, their mean image, and the shares of the labels."""
    if evaluation.images is None:
        return
    measured, facts = evaluation.images.figures, evaluation.data
    variety, gap, label_gap = measured.variety, measured.pixel_difference, measured.label_gap
    labelled = {"labelled": float(label_gap is not None)}
    yield graded("image_variety", rules.image_variety.level(abs(1 - variety)), {"value": variety} | labelled)
    yield graded("mean_image", rules.pixel_difference.level(gap), {"value": gap} | labelled)
    if label_gap is not None:
        error = np.sqrt(1 / facts.records + 1 / facts.synthetic_records) / 2
        certain = label_gap > deviations(rules.false_alarm, facts.width) * error
        level = Limits(rules.share_gap, 3 * rules.share_gap).level(label_gap if certain else 0.0)
        yield graded("label_shares", level, {"value": label_gap})


def check_copies(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Synthetic records that repeat each other, and those that are copies of real records."""
    if (measured := evaluation.copies) is None:
        return
    level = 0
    if measured.real_distinct > 0:
        level = rules.distinct_ratio.level(1 - measured.synthetic_distinct / measured.real_distinct)
        level = max(level, _level_of_repeated_rows(evaluation, rules))
    if level:
        numbers = {"real": measured.real_distinct, "synthetic": measured.synthetic_distinct}
        yield graded("repeated", level, numbers)
    if measured.copied > measured.limit:
        numbers = {"records": measured.records, "copied": measured.copied, "expected": measured.expected}
        yield graded("copies", COPIES, numbers)


def _level_of_repeated_rows(evaluation: Evaluation, rules: VerdictRules) -> int:
    """Rows of tables that repeat each other: the share of distinct ones as an effect beyond chance."""
    facts, measured = evaluation.data, evaluation.copies
    if measured is None or facts.kind not in ("table", "mixed"):
        return CLOSE
    rows = np.full(1, float(min(facts.records, facts.synthetic_records)))
    real, synthetic = rows * measured.real_distinct, rows * measured.synthetic_distinct
    effect = np.maximum(angles(real, rows) - angles(synthetic, rows), 0.0)
    needed = needed_evidence(1, rules.false_alarm)
    left = clear(effect, deviances(real, rows, synthetic, rows), needed)
    return min(rules.shares.level(float(left[0])), USEFUL)


def _independent(evaluation: Evaluation, errors: Mapping[str, float], rules: VerdictRules) -> dict[str, float]:
    """The error of items drawn independently, which may have been given the items for free; if it was computed.

    Independent items have the right single counts by design: only their pairs say something.
    """
    independent = errors.get(INDEPENDENT)
    if independent is None:
        return {}
    times = independent / max(errors[SYNTHETIC], 1e-12) if errors[SYNTHETIC] else 0.0
    numbers = {"independent": independent, "given": float(evaluation.data.values_from_data)}
    if times >= rules.worth_saying:
        numbers["times"] = times
    elif 0 < times < 1:
        numbers["simple_is_better"] = float(times < rules.simple_is_better)
    return numbers


def _mean_length_error(evaluation: Evaluation, lengths: LengthDistance) -> float:
    """Standard error of the difference of the mean lengths."""
    variance = 0.0
    for shares, mean, count in (
        (lengths.real, lengths.real_mean, evaluation.data.records),
        (lengths.synthetic, lengths.synthetic_mean, evaluation.data.synthetic_records),
    ):
        variance += float(shares @ (np.arange(len(shares)) - mean) ** 2) / count
    return float(np.sqrt(variance))
