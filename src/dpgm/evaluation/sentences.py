"""Every sentence of the verdict: findings in words, for people who do not read statistics.

`sentence` says one finding, `headline` the grade. Nothing else in this package writes sentences about findings, and
nothing reads them but people.
"""

from collections.abc import Callable, Mapping, Sequence

from dpgm.data.labels import OTHER
from dpgm.evaluation.findings import CLOSE, COPIES, NAMED, ROUGH, USEFUL, Finding
from dpgm.evaluation.raw_columns import figure_text
from dpgm.validation import counted

_HEADLINES = {
    CLOSE: "The synthetic data is a close stand-in for the real data.",
    USEFUL: "The synthetic data is useful for common patterns; check rare ones before relying on them.",
    ROUGH: "The synthetic data gives a rough outline only; do not draw detailed conclusions from it.",
    COPIES: "The synthetic data holds copies of real records: do not publish it.",
}
_COUNTS = {"single_counts": "counts of a single {}", "pair_counts": "counts of two {}s together"}
_MOST_TIMES = 999  # largest "times as accurate" that is printed
_SMALLEST_PERCENT = 0.01  # smaller shares are printed as "under 0.01 %"
_SIGN = 0.05  # smaller correlations have no sign worth mentioning
_ONE_PERCENT = 0.01  # shares from here on are printed with one decimal


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


def listed(names: Sequence[str]) -> str:
    """The first names and the number of the others.

    >>> listed(["age"]), listed(["a", "b", "c", "d", "e"])
    ('age', 'a, b, c and 2 more')
    """
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def sentence(finding: Finding) -> str:
    """A finding in words.

    >>> sentence(Finding("more_columns", None, {"count": 2}))
    '2 more columns are off; see the table of columns.'
    """
    return _SENTENCES[finding.kind](finding)


def headline(level: int, findings: Sequence[Finding], columns: Sequence[str]) -> str:
    """The grade in a sentence, with the columns that are off, or with the one thing that is worst."""
    if any(finding.kind == "real_empty" for finding in findings):
        return "The real data seems to be read wrongly: all of its records are empty."
    if level == CLOSE and any(finding.kind.startswith("too_few_") for finding in findings):
        return f"{_HEADLINES[level].removesuffix('.')}, as far as so few records can tell."
    if level in (CLOSE, COPIES):
        return _HEADLINES[level]
    worst = [finding for finding in findings if finding.level == level]
    topics = sorted((one for one in worst if one.kind in _TOPICS), key=lambda one: list(_TOPICS).index(one.kind))
    if topics and (len(worst) == 1 or not columns):
        others = ", among others" if level == USEFUL and len(worst) > 1 else ""
        return _except(level, _TOPICS[topics[0].kind](topics[0]) + others, "")
    if not columns:
        return _HEADLINES[level]
    return _except(level, listed(columns), "columns")


def _except(level: int, names: str, what: str) -> str:
    if level == USEFUL:
        return f"The synthetic data is useful, except for {f'some {what}: ' if what else ''}{names}."
    return f"The synthetic data gives a rough outline only; worst{f' {what}' if what else ''}: {names}."


# The subject of the headline if no column is off, or if this finding alone decides the grade; the plainest come first.
_TOPICS: dict[str, Callable[[Finding], str]] = {
    "order_of_numbers": lambda found: f"the order of {' and '.join(found.subject)}",
    "order_of_dates": lambda found: f"the order of {' and '.join(found.subject)}",
    "relation": lambda found: f"the relation of {' and '.join(found.subject)}",
    "association": lambda found: f"the association of {' and '.join(found.subject)}",
    "impossible": lambda found: f"combinations that no real row has ({found.subject[1]} with {found.subject[0]})",
    "group": lambda found: f"{found.subject[2]} among rows with {found.subject[0]}",
    "share": lambda found: f"the share of {found.subject[1]}",
}


def column_fault(fault: Finding) -> str:
    """A fault of one column, without the column's name: part of a sentence."""
    numbers, about = fault.numbers, fault.subject[-1]
    real, synthetic = numbers.get("real", 0.0), numbers.get("synthetic", 0.0)
    shares = f"{share_text(synthetic)} instead of {share_text(real)}"
    days = " days" if about == "date" else ""
    match fault.kind:
        case "mode":
            return f"the value {about} makes up {shares}"
        case "other_values":
            return f"{share_text(synthetic)} of the values are {OTHER}, because they were too rare to be published"
        case "missing_values":
            return f"{share_text(synthetic)} of the values are missing instead of {share_text(real)}"
        case "median" | "mean":
            return f"the {fault.kind} is {_value(about, synthetic)} instead of {_value(about, real)}"
        case "deviation":
            texts = [f"{figure_text('number', value)}{days}" for value in (synthetic, real)]
            return f"the standard deviation is {texts[0]} instead of {texts[1]}"
        case "below" | "above":
            side = "below the smallest" if fault.kind == "below" else "above the largest"
            return f"{share_text(synthetic)} of the values are {side} real value, {_value(about, real)}"
        case "clock":
            return f"at least {percent(synthetic)} of the times are at the wrong hour of the day"
        case "lost_value":
            return f"the value {about} is missing or nearly missing"
        case "distance":  # the Kolmogorov distance of numbers and dates is a lower bound
            at_least = "" if about == "category" else "at least "
            return f"{at_least}{percent(numbers['value'])} of the values would have to change to match"
        case kind:
            raise ValueError(f"no words for {kind!r}")


def _value(kind: str, number: float) -> str:
    return figure_text("date" if kind == "date" else "number", number)


def _lacking_columns(found: Finding) -> str:
    what = "a column" if len(found.subject) == 1 else counted(len(found.subject), "column")
    return f"The synthetic data lacks {what} of the real data: {listed(found.subject)}."


def _columns_match(found: Finding) -> str:
    good, count = int(found.numbers["good"]), int(found.numbers["count"])
    compared = "compared columns" if found.numbers["left_out"] else "columns"
    which = f"All {count} {compared} match" if good == count else f"{good} of the {count} {compared} match"
    return (
        f"{which if count > 1 else 'The column matches'} the real data: median and mean within a tenth of a standard"
        " deviation, shares of the most frequent value and of missing values within 5 percentage points"
        f"{', or within what chance explains' if found.numbers['by_chance'] else ''}."
    )


def _rounding(found: Finding) -> str:
    what = "on a Saturday or Sunday"
    if found.kind == "rounding":
        what = f"multiples of {figure_text('number', found.numbers['size'])}"
    shares = [share_text(found.numbers[side]) for side in ("synthetic", "real")]
    return f"{found.subject[0]}: {shares[0]} of the values are {what} instead of {shares[1]}."


def _beside_chance(numbers: Mapping[str, float]) -> str:
    """What a new sample would give, where that explains a good part of the figure."""
    value, chance = numbers["value"], numbers["chance"]
    return f" (for a new sample of real records: {_by(chance)})" if chance > value / 3 else ""


def _by(chance: float) -> str:
    return percent(chance) if chance <= 1 else "more than 100 %"


def _too_few(found: Finding) -> str:
    what = {
        "too_few_column_pairs": "pairs of columns",
        "too_few_lengths": "lengths of records",
    }.get(found.kind) or _COUNTS[found.kind.removeprefix("too_few_")].format(found.subject[0])
    by = _by(found.numbers["chance"])
    return f"There are too few records to judge {what}: even a new sample of real records would be off by {by}."


def _too_few_associations(found: Finding) -> str:
    real, synthetic = found.numbers["real"], found.numbers["synthetic"]
    off = f"{' and '.join(found.subject)} is {synthetic:.2f} instead of {real:.2f}, which may be chance"
    return f"There are too few records to judge associations between columns: that of {off}."


def _counts(found: Finding) -> str:
    what = _COUNTS[found.kind].format(found.subject[0])
    off = f"{what.capitalize()} are off by {percent(found.numbers['value'])} on average"
    return f"{off}{_beside_chance(found.numbers)}{_with_independent(found)}."


def _with_independent(found: Finding) -> str:
    """Compare with items drawn independently."""
    numbers, what = found.numbers, found.subject[0]
    if "independent" not in numbers:
        return ""
    given = f" and all {what}s known beforehand" if numbers["given"] else ""
    off = percent(numbers["independent"])
    text = f"; {what}s drawn independently, with the same privacy{given}, are off by {off}"
    if "times" in numbers:
        return f"{text} (the synthetic data is {min(numbers['times'], _MOST_TIMES):.2g} times as accurate)"
    if "simple_is_better" in numbers:
        better = "better" if numbers["simple_is_better"] else "as good"
        unfair = f", but a release that finds its {what}s privately pays for that" if given else ""
        return f"{text}: here this simple method is {better}{unfair}"
    return text


def _lost_items(found: Finding) -> str:
    count, of = int(found.numbers["count"]), int(found.numbers["of"])
    what, *names = found.subject
    are = "is" if count == 1 else "are"
    return (
        f"Of the {of:,} {what}s in at least 0.1 % of the real records, {count:,} {are} missing or nearly missing from"
        f" the synthetic data ({'for example ' if count > NAMED else ''}{', '.join(names)})."
    )


def _unlisted_items(found: Finding) -> str:
    count = int(found.numbers["count"])
    return (
        f"{counted(count, 'item of the real data is', 'items of the real data are')} not in the domain"
        f" ({percent(found.numbers['share'])} of all items in real records), so no synthetic record holds them."
    )


def _lengths(found: Finding) -> str:
    numbers = found.numbers
    rest = ""
    if "empty" in numbers:
        rest = f"; {share_text(numbers['empty'])} of them are empty (real: {share_text(numbers['real_empty'])})"
    return (
        f"Records hold {numbers['synthetic']:.2f} items on average (real: {numbers['real']:.2f});"
        f" {percent(numbers['value'])} of them would need a different number of items to match"
        f"{_beside_chance(numbers)}{rest}."
    )


def _column_pairs(found: Finding) -> str:
    return (
        f"For a pair of columns to match the real data, {percent(found.numbers['value'])} of the rows would have to"
        f" change on average{_beside_chance(found.numbers)}; the worst pair is {' and '.join(found.subject)}"
        f" ({percent(found.numbers['worst'])})."
    )


def _association(found: Finding) -> str:
    real, synthetic = found.numbers["real"], found.numbers["synthetic"]
    scale = "0: no association, 1 or -1: one determines the other"
    return f"The association of {' and '.join(found.subject)} is {synthetic:.2f} instead of {real:.2f} ({scale})."


def _associations_match(found: Finding) -> str:
    gap = abs(found.numbers["real"] - found.numbers["synthetic"])
    return f"Associations between columns match the real data: none is off by more than {gap:.2f} on a scale of 0 to 1."


def _relation(found: Finding) -> str:
    real, synthetic = found.numbers["real"], found.numbers["synthetic"]
    what = f"The rank correlation of {' and '.join(found.subject)} is {synthetic:.2f} instead of {real:.2f}"
    if real * synthetic < 0 and min(abs(real), abs(synthetic)) > _SIGN:
        return (
            f"{what}: where one grows, the other {'grows' if synthetic > 0 else 'falls'} instead of the opposite."
        )
    return f"{what} (0: no relation, 1 or -1: one always grows or falls with the other)."


def _share(found: Finding) -> str:
    return f"{found.subject[1]}: {_shares(found)} of the rows{_medians(found)}."


def _group(found: Finding) -> str:
    group, text, *_ = found.subject
    rows = int(found.numbers["real_rows"])
    return f"Among rows with {group} ({rows:,} real ones), {text} in {_shares(found)}{_medians(found)}."


def _impossible(found: Finding) -> str:
    group, text, *_ = found.subject
    rows, synthetic = int(found.numbers["impossible_rows"]), share_text(found.numbers["synthetic"])
    return (
        f"No real row with {group} has {text}, but {counted(rows, 'synthetic row')} ({synthetic} of those with {group})"
        f"{' has' if rows == 1 else ' have'}{_medians(found)}."
    )


def _shares(found: Finding) -> str:
    return f"{share_text(found.numbers['synthetic'])} instead of {share_text(found.numbers['real'])}"


def _medians(found: Finding) -> str:
    """The medians of the column in these rows, if they differ."""
    numbers, kind = found.numbers, found.subject[-1]
    if "real_median" not in numbers or numbers["real_median"] == numbers["synthetic_median"]:
        return ""
    real, synthetic = (_value(kind, numbers[f"{side}_median"]) for side in ("real", "synthetic"))
    return f"; the median of {found.subject[2]} is {synthetic} instead of {real}"


def _order(found: Finding) -> str:
    first, last = found.subject
    dates = found.kind == "order_of_dates"
    rule = f"`{first} <= {last}` under `constraints`"
    if dates:
        rule = f"`after: {first}` in the line of {last}, or {rule},"
    return (
        f"{first} is {'later' if dates else 'greater'} than {last} in {share_text(found.numbers['synthetic'])} of the"
        f" synthetic rows that have both, and {share_text(found.numbers['real'])} of the real ones; if their order is a"
        f" rule, state {rule} in the domain before the fit (docs/constraints.md)."
    )


def _image_variety(found: Finding) -> str:
    which = "Images with the same label" if found.numbers["labelled"] else "Images"
    return f"{which} vary {percent(found.numbers['value'])} as much as real ones do."


def _mean_image(found: Finding) -> str:
    differ = "mean image differs from the real one"
    if found.numbers["labelled"]:
        differ = "mean images of the labels differ from the real ones"
    return f"The {differ} by {percent(found.numbers['value'])} per pixel."


def _more(one: str, many: str) -> Callable[[Finding], str]:
    return lambda found: f"{counted(int(found.numbers['count']), f'more {one}', f'more {many}')}."


_SENTENCES: dict[str, Callable[[Finding], str]] = {
    "real_empty": lambda found: (
        "All real records are empty, so the real data seems to be read wrongly; check the reading options."
    ),
    "column": lambda found: f"{found.subject[0]}: {'; '.join(map(column_fault, found.parts))}.",
    "lacking_columns": _lacking_columns,
    "more_columns": _more("column is off; see the table of columns", "columns are off; see the table of columns"),
    "columns_match": _columns_match,
    "rounding": _rounding,
    "weekend": _rounding,
    "more_rounding_and_weekdays": _more(
        "column is rounded otherwise or on other weekdays", "columns are rounded otherwise or on other weekdays"
    ),
    "single_counts": _counts,
    "pair_counts": _counts,
    "too_few_single_counts": _too_few,
    "too_few_pair_counts": _too_few,
    "worst_item": lambda found: (
        f"The least exact item is {found.subject[0]}: {share_text(found.numbers['synthetic'])} of the synthetic records"
        f" hold it, and {share_text(found.numbers['real'])} of the real ones."
    ),
    "frequent_sets": lambda found: (
        f"Of the {int(found.numbers['count'])} most frequent item sets of the real data,"
        f" {percent(found.numbers['found'])} are also among the most frequent of the synthetic data."
    ),
    "unlisted_items": _unlisted_items,
    "lost_items": _lost_items,
    "lengths": _lengths,
    "too_few_lengths": _too_few,
    "column_pairs": _column_pairs,
    "too_few_column_pairs": _too_few,
    "association": _association,
    "associations_match": _associations_match,
    "too_few_associations": _too_few_associations,
    "order_of_numbers": _order,
    "order_of_dates": _order,
    "more_orders": _more(
        "pair of columns is out of order; the JSON output lists them",
        "pairs of columns are out of order; the JSON output lists them",
    ),
    "relation": _relation,
    "more_relations": _more(
        "pair of columns is related otherwise; the JSON output lists it",
        "pairs of columns are related otherwise; the JSON output lists them",
    ),
    "relations_match": lambda found: (
        "Columns rise and fall together as in the real data: all rank correlations are within 0.1, or within chance."
    ),
    "share": _share,
    "more_shares": _more("share of values is off", "shares of values are off"),
    "group": _group,
    "more_group": _more(
        "pair of columns differs in some group of rows; the JSON output lists it",
        "pairs of columns differ in some group of rows; the JSON output lists them",
    ),
    "impossible": _impossible,
    "more_impossible": _more(
        "combination occurs in synthetic rows only; the JSON output lists it",
        "combinations occur in synthetic rows only; the JSON output lists them",
    ),
    "groups_match": lambda found: (
        "Within groups of rows, such as those with one value of a column, the other columns match the real data, too."
    ),
    "learning": lambda found: (
        f"A {found.subject[0]} trained on synthetic records predicts the label of"
        f" {percent(found.numbers['synthetic'])} of real records correctly; trained on real records, of"
        f" {percent(found.numbers['real'])}."
    ),
    "image_variety": _image_variety,
    "mean_image": _mean_image,
    "label_shares": lambda found: (
        f"The shares of the labels are off by at most {100 * found.numbers['value']:.1f} percentage points."
    ),
    "repeated": lambda found: (
        f"Records are repeated: {percent(found.numbers['synthetic'])} of the synthetic records are distinct, and"
        f" {percent(found.numbers['real'])} of equally many real ones."
    ),
    "copies": lambda found: (
        f"Of the {int(found.numbers['records']):,} synthetic records that are rare enough to judge,"
        f" {percent(found.numbers['copied'])} equal a real record that occurs only once; by chance it would be"
        f" {percent(found.numbers['expected'])}. Were they copied from the real data?"
    ),
    "not_compared": lambda found: f"Not compared: {listed(found.subject[1:])}, because {found.subject[0]}",
}
