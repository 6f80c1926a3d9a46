"""What is off in single columns, in words, and how shares and numbers are written in them."""

from dpgm.evaluation.column_metrics import ColumnComparison
from dpgm.evaluation.evaluation import Evaluation
from dpgm.evaluation.raw_columns import date_text, number_text
from dpgm.evaluation.verdict_rules import RULES, VerdictRules


def percent(share: float) -> str:
    """A share in words that fit its size.

    >>> percent(0.0042), percent(0.137), percent(3.0)
    ('0.42 %', '14 %', '300 %')
    """
    value = 100 * share
    if value == 0:
        return "0 %"
    return f"{value:.2g} %" if value < 9.95 else f"{value:.0f} %"


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
    faults = []
    if 1 - column.real.missing < rules.share_gap:
        if column.missing_gap > rules.share_gap:
            faults.append(_missing_fault(column))
        return tuple(faults)
    if column.mode_gap > rules.share_gap:
        ours, theirs = share_text(column.synthetic_mode_share), share_text(column.real_mode_share)
        faults.append(f"the value {column.mode} makes up {ours} instead of {theirs}")
    if column.missing_gap > rules.share_gap:
        faults.append(_missing_fault(column))
    if column.median_shift is not None and column.median_shift > rules.median_shift:
        at = len(column.real.quantiles) // 2
        ours, theirs = (value_text(column, side.quantiles[at]) for side in (column.synthetic, column.real))
        faults.append(f"the median is {ours} instead of {theirs}")
    if column.mean_shift is not None and column.mean_shift > rules.mean_shift:
        faults.append(
            f"the mean is {value_text(column, column.synthetic.mean)} instead of {value_text(column, column.real.mean)}"
        )
    if column.deviation_ratio is not None:
        low, high = rules.deviation_ratio
        if not low <= column.deviation_ratio <= high:
            ours, theirs = (number_text(side.deviation or 0.0) for side in (column.synthetic, column.real))
            days = " days" if column.kind == "date" else ""
            faults.append(f"the standard deviation is {ours}{days} instead of {theirs}{days}")
    if column.clock_distance is not None and column.clock_distance > rules.column_distance:
        faults.append(f"{percent(column.clock_distance)} of the times lie at the wrong hour of the day")
    if column.lost:
        faults.append(f"the value {column.lost[0]} hardly ever occurs")
    if column.distance > rules.column_distance and not faults:
        what = "values are" if column.kind == "category" else "values lie"
        faults.append(f"{percent(column.distance)} of the {what} in the wrong place")
    return tuple(faults)


def _missing_fault(column: ColumnComparison) -> str:
    ours, theirs = share_text(column.synthetic.missing), share_text(column.real.missing)
    return f"{ours} of the values are missing instead of {theirs}"


def columns_off(evaluation: Evaluation, rules: VerdictRules = RULES) -> tuple[ColumnComparison, ...]:
    """The columns with a fault, the worst first."""
    off = [column for column in evaluation.columns if column_faults(column, rules)]
    return tuple(sorted(off, key=lambda column: -_badness(column, rules)))


def value_text(column: ColumnComparison, value: float | None) -> str:
    """A number of a column as people write it."""
    if value is None:
        return "–"
    return date_text(value) if column.kind == "date" else number_text(value)


def _badness(column: ColumnComparison, rules: VerdictRules) -> float:
    """How many times its limit the worst figure of a column is."""
    low, high = rules.deviation_ratio
    ratio = column.deviation_ratio or 1.0
    return max(
        column.mode_gap / rules.share_gap,
        column.missing_gap / rules.share_gap,
        (column.median_shift or 0.0) / rules.median_shift,
        (column.mean_shift or 0.0) / rules.mean_shift,
        column.distance / rules.column_distance,
        (column.clock_distance or 0.0) / rules.column_distance,
        max(low / max(ratio, 1e-9), ratio / high),
    )
