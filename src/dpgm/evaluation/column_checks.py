"""What a verdict says about the columns of a table: what is off in each column, and in pairs of columns.

`column_faults` judges one column; each check yields findings about all columns of an evaluation.
"""

import numpy as np
from numpy.typing import NDArray

from dpgm.data.labels import OTHER
from dpgm.evaluation.chance import deviations
from dpgm.evaluation.column_metrics import ColumnComparison, share_error
from dpgm.evaluation.evaluate import Evaluation
from dpgm.evaluation.findings import (
    CLOSE,
    NAMED,
    ROUGH,
    RULES,
    TOO_FEW,
    USEFUL,
    Finding,
    Findings,
    VerdictRules,
    beyond_chance,
    graded,
    listed,
    percent,
    share_text,
)
from dpgm.evaluation.raw_columns import value_text
from dpgm.validation import counted


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


def lacking_columns(evaluation: Evaluation) -> list[str]:
    """Names of the columns that the synthetic data should have and lacks."""
    return [column.name for column in evaluation.left_out if column.lacking]


def check_columns(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Columns that are missing or off, the worst by name, and how many match."""
    off, lacking, count = columns_off(evaluation, rules), lacking_columns(evaluation), len(evaluation.columns)
    level = ROUGH if len(off) + len(lacking) > rules.columns_off * (count + len(lacking)) else USEFUL
    if lacking:
        what = "a column" if len(lacking) == 1 else counted(len(lacking), "column")
        yield Finding(f"The synthetic data lacks {what} of the real data: {listed(lacking)}.", True, level)
    for column in off[: 2 * NAMED]:
        yield Finding(f"{column.name}: {'; '.join(column_faults(column, rules))}.", True, level)
    if len(off) > 2 * NAMED:
        yield Finding(
            f"{counted(len(off) - 2 * NAMED, 'more column is', 'more columns are')} off; see the table of columns.",
            True,
        )
    if len(off) < count:
        error = np.sqrt(1 / evaluation.records + 1 / evaluation.synthetic_records)
        wider = deviations(rules.false_alarm, rules.column_figures) * error > rules.mean_shift
        by_chance = ", or within what chance explains" if wider else ""
        compared = "compared columns" if evaluation.left_out else "columns"
        good = f"{count - len(off)} of the {count} {compared} match" if off else f"All {count} {compared} match"
        yield graded(
            CLOSE,
            f"{good if count > 1 else 'The column matches'} the real data: median and mean within a tenth of a"
            " standard deviation, shares of the most frequent value and of missing values within 5 percentage points"
            f"{by_chance}.",
        )


def check_rounding_and_weekdays(evaluation: Evaluation, rules: VerdictRules) -> Findings:
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
    yield from (Finding(text, True) for text in texts[:NAMED])
    if len(texts) > NAMED:
        more = counted(len(texts) - NAMED, "more column is", "more columns are")
        yield Finding(f"{more} rounded otherwise or on other weekdays.", True)


def check_pairs(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """How many rows would have to change for a pair of columns to match, on average and in the worst pair."""
    if (table := evaluation.table) is None:
        return
    gap = table.mean_total_variation
    text = (
        f"For a pair of columns to match the real data, {percent(gap)} of the rows would have to change on average"
    )
    rest = f"; the worst pair is {' and '.join(table.worst_pair)} ({percent(table.largest_total_variation)})"
    yield beyond_chance(evaluation, "pairs", gap, rules.column_pairs, "pairs of columns", text, rest)


def check_associations(evaluation: Evaluation, rules: VerdictRules) -> Findings:
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
        yield Finding(f"{TOO_FEW} associations between columns: that of {off}.", True)
        return
    text = f"Associations between columns match the real data: none is off by more than {gap:.2f} on a scale of 0 to 1."
    if level:
        scale = "0: no association, 1 or -1: one determines the other"
        text = f"The association of {columns} is {synthetic:.2f} instead of {real:.2f} ({scale})."
    yield graded(level, text, f"the association of {columns}")


def check_orders(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Pairs of columns that are out of order, and the rule to state so that a fit keeps their order."""
    z = deviations(rules.false_alarm, rules.column_figures)
    off = [
        order
        for order in evaluation.orders
        if rules.out_of_order.level(order.synthetic - order.real) and order.synthetic - order.real > z * order.error
    ]
    for order in off[:NAMED]:
        rule = f"`{order.first} <= {order.last}` under `constraints`"
        if order.kind == "date":
            rule = f"`after: {order.first}` in the line of {order.last}, or {rule},"
        yield Finding(
            f"{order.first} is {'later' if order.kind == 'date' else 'greater'} than {order.last} in"
            f" {share_text(order.synthetic)} of the synthetic rows that have both, and"
            f" {share_text(order.real)} of the real ones; if their order is a rule, state {rule} in the domain"
            " before the fit (docs/constraints.md).",
            True,
            rules.out_of_order.level(order.synthetic - order.real),
            f"the order of {order.first} and {order.last}",
        )
    if len(off) > NAMED:
        more = counted(len(off) - NAMED, "more pair of columns is", "more pairs of columns are")
        yield Finding(f"{more} out of order; the JSON output lists them.", True)


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
