"""What a verdict finds in the columns of a table: what is off in each column, and in pairs of columns.

`column_faults` judges one column; each check yields findings about all columns of an evaluation.
"""

import numpy as np
from numpy.typing import NDArray

from dpgm.data.labels import OTHER
from dpgm.evaluation.chance import deviations
from dpgm.evaluation.column_metrics import ColumnComparison, share_error
from dpgm.evaluation.findings import (
    CLOSE,
    NAMED,
    ROUGH,
    USEFUL,
    VERDICT_RULES,
    Finding,
    Findings,
    VerdictRules,
    beyond_chance,
    graded,
)
from dpgm.evaluation.results import Evaluation


def column_faults(column: ColumnComparison, rules: VerdictRules = VERDICT_RULES) -> tuple[Finding, ...]:
    """What is off in one column; empty if nothing is.

    A column that is empty in nearly all real rows is judged by its share of missing values alone.
    """
    faults = [figure for figure in _column_figures(column, rules) if figure.numbers["excess"] > 1]
    if 1 - column.real.missing < rules.share_gap:
        return tuple(fault for fault in faults if fault.kind == "missing_values")
    if column.lost:
        faults.append(Finding("lost_value", USEFUL, {}, (column.name, column.lost[0])))
    if column.distance > max(rules.column_distance, _chance_distance(column, rules)) and not faults:
        faults.append(Finding("distance", USEFUL, {"value": column.distance}, (column.name, column.kind)))
    return tuple(faults)


def columns_off(evaluation: Evaluation, rules: VerdictRules = VERDICT_RULES) -> tuple[ColumnComparison, ...]:
    """The columns with a fault, sorted by how far their worst figure exceeds its limit."""

    def badness(column: ColumnComparison) -> float:
        excess = [figure.numbers["excess"] for figure in _column_figures(column, rules)]
        return max(*excess, column.distance / rules.column_distance)

    off = [column for column in evaluation.columns if column_faults(column, rules)]
    return tuple(sorted(off, key=badness, reverse=True))


def lacking_columns(evaluation: Evaluation) -> list[str]:
    """Names of the columns that the synthetic data should have and lacks."""
    return [column.name for column in evaluation.data.left_out if column.lacking]


def check_columns(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Columns that are missing or off, the worst by name, and how many match."""
    off, lacking, count = columns_off(evaluation, rules), lacking_columns(evaluation), len(evaluation.columns)
    level = ROUGH if len(off) + len(lacking) > rules.columns_off * (count + len(lacking)) else USEFUL
    if lacking:
        yield Finding("lacking_columns", level, subject=tuple(lacking))
    for column in off[: 2 * NAMED]:
        yield Finding("column", level, subject=(column.name,), parts=column_faults(column, rules))
    if len(off) > 2 * NAMED:
        yield Finding("more_columns", None, {"count": len(off) - 2 * NAMED})
    if len(off) < count:
        facts = evaluation.data
        error = np.sqrt(1 / facts.records + 1 / facts.synthetic_records)
        by_chance = deviations(rules.false_alarm, rules.column_figures) * error > rules.mean_shift
        numbers = {
            "good": count - len(off),
            "count": count,
            "by_chance": by_chance,
            "left_out": len(facts.left_out),
        }
        yield graded("columns_match", CLOSE, numbers)


def check_rounding_and_weekdays(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Numbers that are not rounded like the real ones, and dates on other days of the week; they limit no grade."""
    z = deviations(rules.false_alarm, rules.column_figures)
    found = []
    for column in evaluation.columns:
        counts = column.real.present, column.synthetic.present
        for kind, form in (("rounding", column.step), ("weekend", column.weekend)):
            if form is None:
                continue
            error = share_error(form.real, counts[0], form.synthetic, counts[1])
            gap = form.real - form.synthetic if kind == "rounding" else abs(form.real - form.synthetic)
            if gap > max(rules.share_gap, z * error):
                numbers = {"real": form.real, "synthetic": form.synthetic, "size": form.size}
                found.append(Finding(kind, None, numbers, (column.name,)))
    yield from found[:NAMED]
    if len(found) > NAMED:
        yield Finding("more_rounding_and_weekdays", None, {"count": len(found) - NAMED})


def check_pairs(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """How many rows would have to change for a pair of columns to match, on average and in the worst pair."""
    if (table := evaluation.relations.pairs) is None:
        return
    chance = evaluation.chance
    yield beyond_chance(
        "column_pairs",
        table.mean_total_variation,
        chance.expected.get("pairs", 0.0),
        chance.most.get("pairs", 0.0),
        rules.column_pairs,
        {"worst": table.largest_total_variation},
        table.worst_pair,
    )


def check_associations(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """The pair of columns without an order whose association differs most."""
    if (table := evaluation.relations.pairs) is None:
        return
    ranks = evaluation.relations.ranks
    in_order = np.isin(table.fields, () if ranks is None else ranks.names)
    if in_order.all():
        return
    # Pairs of ordered columns are compared by their rank correlation, which has a sign.
    judged = ~np.outer(in_order, in_order)
    both = np.where(judged, table.real_association, 0.0), np.where(judged, table.synthetic_association, 0.0)
    widest = _widest(table.fields, *both, table.association_bias, table.association_error, rules)
    _, columns, real, synthetic, level = widest
    numbers = {"real": real, "synthetic": synthetic}
    fewest = min(evaluation.data.records, evaluation.data.synthetic_records)
    too_few = deviations(rules.false_alarm) / np.sqrt(fewest) > rules.association_gap.useful
    if not level and (too_few or abs(real - synthetic) > rules.association_gap.close):
        yield Finding("too_few_associations", None, numbers, columns)
        return
    yield graded("association" if level else "associations_match", level, numbers, columns)


def check_orders(evaluation: Evaluation, rules: VerdictRules) -> Findings:
    """Pairs of columns that are out of order, and the rule to state so that a fit keeps their order."""
    z = deviations(rules.false_alarm, rules.column_figures)
    off = [
        order
        for order in evaluation.relations.orders
        if rules.out_of_order.level(order.synthetic - order.real) and order.synthetic - order.real > z * order.error
    ]
    for order in off[:NAMED]:
        level = rules.out_of_order.level(order.synthetic - order.real)
        numbers = {"real": order.real, "synthetic": order.synthetic}
        kind = "order_of_dates" if order.kind == "date" else "order_of_numbers"
        yield Finding(kind, level, numbers, (order.first, order.last))
    if len(off) > NAMED:
        yield Finding("more_orders", None, {"count": len(off) - NAMED})


def _column_figures(column: ColumnComparison, rules: VerdictRules) -> list[Finding]:
    """Each figure of a column as a fault; its number `excess` is the figure as a multiple of its limit."""

    def fault(kind: str, excess: float, real: float | None, synthetic: float | None, about: str = "") -> Finding:
        numbers = {"excess": float(excess), "real": real or 0.0, "synthetic": synthetic or 0.0}
        return Finding(kind, USEFUL, numbers, (column.name, about or column.kind))

    z = deviations(rules.false_alarm, rules.column_figures)
    real, synthetic = column.real, column.synthetic
    counts = max(real.present, 1), max(synthetic.present, 1)
    mode_error = share_error(column.real_mode_share, counts[0], column.synthetic_mode_share, counts[1])
    missing_error = share_error(real.missing, real.rows, synthetic.missing, synthetic.rows)
    mode_kind = "other_values" if column.mode == OTHER and not column.real_mode_share else "mode"
    mode_excess = column.mode_gap / max(rules.share_gap, z * mode_error)
    missing_excess = column.missing_gap / max(rules.share_gap, z * missing_error)
    figures = [
        fault(mode_kind, mode_excess, column.real_mode_share, column.synthetic_mode_share, column.mode),
        fault("missing_values", missing_excess, real.missing, synthetic.missing),
    ]
    scale = float(np.sqrt(1 / counts[0] + 1 / counts[1]))
    if column.median_shift is not None and column.median_mass is not None and column.mean_shift is not None:
        ratio = max(column.deviation_ratio or 0.0, 1e-9)
        low, high = rules.deviation_ratio
        # The larger one for both sides: a sample may lack the tail of its population.
        kurtosis = max(real.kurtosis or 1.0, synthetic.kurtosis or 1.0)
        ratio_error = scale * np.sqrt(kurtosis - 1) / 2
        ratio_limit = max(np.log(high if ratio > 1 else 1 / low), z * ratio_error)
        mass = column.median_mass / max(rules.median_mass, z * scale / 2)
        mean_error = np.sqrt(1 / counts[0] + ratio**2 / counts[1])
        figures += [
            fault("median", min(column.median_shift / rules.median_shift, mass), real.median, synthetic.median),
            fault("mean", column.mean_shift / max(rules.mean_shift, z * mean_error), real.mean, synthetic.mean),
            fault("deviation", abs(np.log(ratio)) / ratio_limit, real.deviation, synthetic.deviation),
        ]
    # One more synthetic value beyond the largest of all has about this probability, if all are of one population.
    beyond = counts[1] / sum(counts)
    outside_by_chance = np.log(rules.false_alarm / rules.column_figures) / np.log(beyond) / counts[1]
    limit = max(rules.outside_range, outside_by_chance)
    figures += [
        fault("below", column.below / limit, real.low, column.below),
        fault("above", column.above / limit, real.high, column.above),
    ]
    if (clock := column.clock_distance) is not None:
        limit = max(rules.column_distance, _chance_distance(column, rules))
        figures.append(fault("clock", clock / limit, 0.0, clock))
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
) -> tuple[float, tuple[str, str], float, float, int]:
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
    return float(gaps[at]), (names[first], names[second]), float(real[at]), float(synthetic[at]), level
