"""Every sentence of the verdict: findings in words, for people who do not read statistics.

`sentence` says one finding, `headline` the grade. Nothing else in this package writes sentences about findings, and
nothing reads them but people. Their parts are in `words.py`.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from dpgm.data.labels import OTHER
from dpgm.evaluation.findings import CLOSE, COPIES, NAMED, ROUGH, USEFUL, Finding
from dpgm.evaluation.raw_columns import figure_text
from dpgm.evaluation.traits import TraitPart
from dpgm.evaluation.words import listed, of_column, part_words, percent, rows_with, share_text, value_words
from dpgm.validation import counted

_HEADLINES = {
    CLOSE: "The synthetic data is a close stand-in for the real data.",
    USEFUL: "The synthetic data is useful for common patterns; check rare ones before relying on them.",
    ROUGH: "The synthetic data gives a rough outline only; do not draw detailed conclusions from it.",
    COPIES: "The synthetic data holds copies of real records: do not publish it.",
}
_COUNTS = {"single_counts": "counts of a single {}", "pair_counts": "counts of two {}s together"}
_PLAIN_NAME = re.compile(r"[^\W\d][\w./-]*")  # names that need no quotes in a constraint
_MOST_TIMES = 999  # largest "times as accurate" that is printed
_SIGN = 0.05  # smaller correlations have no sign worth mentioning
_NEAR = 0.02  # correlations that differ by less are printed with four decimals


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
    if level == CLOSE and any(finding.undecided for finding in findings):
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
    "order_of_numbers": lambda found: f"the order of {_names(found, ' and ')}",
    "order_of_dates": lambda found: f"the order of {_names(found, ' and ')}",
    "sum": lambda found: f"{_equation(found)} does not hold",
    "product": lambda found: f"{_equation(found)} does not hold",
    "line": lambda found: f"the relation of {_names(found, ' and ')}",
    "relation": lambda found: f"the relation of {_names(found, ' and ')}",
    "impossible": lambda found: f"combinations that no real row has ({_what(found)} with {_within(found)})",
    "group": lambda found: f"{_parts(found)[0].trait} among {rows_with(_parts(found)[1:])}",
    "relation_in_group": lambda found: f"the relation of {_pair(found)} among {rows_with(_parts(found))}",
    "triple": lambda found: f"{_parts(found)[0].trait} among {rows_with(_parts(found)[1:])}",
    "unseen": lambda found: f"combinations of {_pair(found)}",
    "share": lambda found: f"the share of {_what(found)}",
}


def _parts(found: Finding) -> list[TraitPart]:
    return [one for one in found.subject if isinstance(one, TraitPart)]


def _names(found: Finding, between: str = ", ") -> str:
    return between.join(one for one in found.subject if isinstance(one, str))


def _pair(found: Finding) -> str:
    return _names(found, " and ")


def _what(found: Finding) -> str:
    return part_words(_parts(found)[0])


def _within(found: Finding) -> str:
    return " and ".join(map(part_words, _parts(found)[1:]))


def column_fault(fault: Finding) -> str:
    """A fault of one column, without the column's name: part of a sentence."""
    numbers, about = fault.numbers, fault.subject[0]
    real, synthetic = numbers["real"], numbers["synthetic"]
    if isinstance(about, TraitPart):
        return _share_of_column(about, numbers, fault.kind)
    texts = [f"{_value(about, value)}" for value in (synthetic, real)]
    if fault.kind == "mean":
        return f"the mean is {texts[0]} instead of {texts[1]}"
    days = " days" if about == "date" else ""
    texts = [f"{figure_text('number', value)}{days}" for value in (synthetic, real)]
    return f"the standard deviation is {texts[0]} instead of {texts[1]}"


def _share_of_column(cells: TraitPart, numbers: Mapping[str, float], kind: str) -> str:
    real, synthetic = share_text(numbers["real"]), share_text(numbers["synthetic"])
    if kind == "other_values":
        return f"{synthetic} of the values are {OTHER}, because they were too rare to be published"
    if cells.aspect == "values" and not numbers["real"] and "low" in numbers:
        edge = _value(cells.kind, numbers["low"]), _value(cells.kind, numbers["high"])
        if float(cells.last) < numbers["low"]:
            return f"{synthetic} of the values are below the smallest real value, {edge[0]}"
        if float(cells.low) >= numbers["high"]:
            return f"{synthetic} of the values are above the largest real value, {edge[1]}"
    if cells.aspect == "values" and cells.which == "value":
        return f"the value {value_words(cells.kind, cells.low)} makes up {synthetic} instead of {real}"
    medians = _medians(numbers, cells) if cells.aspect == "values" and cells.which != "missing" else ""
    return f"{synthetic} of the values {of_column(cells)} instead of {real}{medians}"


def _value(kind: str | TraitPart, number: float) -> str:
    return figure_text("date" if kind == "date" else "number", number)


def _lacking_columns(found: Finding) -> str:
    what = "a column" if len(found.subject) == 1 else counted(len(found.subject), "column")
    return f"The synthetic data lacks {what} of the real data: {listed([str(one) for one in found.subject])}."


def _columns_match(found: Finding) -> str:
    good, count = int(found.numbers["good"]), int(found.numbers["count"])
    compared = "compared columns" if found.numbers["left_out"] else "columns"
    which = f"All {count} {compared} match" if good == count else f"{good} of the {count} {compared} match"
    return (
        f"{which if count > 1 else 'The column matches'} the real data: no share of their values is off by more than a"
        " small effect (55 % instead of 45 %, or 1 % instead of 0 %), or by more than chance explains."
    )


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
        "too_few_event_steps": "which item follows which",
        "too_few_event_runs": "common runs of three items",
        "too_few_event_ends": "where sequences start and end",
        "too_few_event_hours": "hours of events",
        "too_few_event_gaps": "days between events",
    }.get(found.kind) or _COUNTS[found.kind.removeprefix("too_few_")].format(found.subject[0])
    by = _by(found.numbers["chance"])
    return f"There are too few records to judge {what}: even a new sample of real records would be off by {by}."


def _too_few_rows(found: Finding) -> str:
    numbers = found.numbers
    return (
        f"There are too few records to judge groups of rows: in a group of {int(numbers['rows']):,} real rows, only"
        f" differences such as {percent(numbers['synthetic'])} instead of {percent(numbers['real'])} can be told from"
        " chance."
    )


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
    what, *names = (str(one) for one in found.subject)
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


def _event_distance(found: Finding) -> str:
    what = {
        "event_steps": "{} of the steps from one item to the next would have to change",
        "event_runs": "Numbers of people with a common run of three items are off by {} on average",
        "event_ends": "{} of the pairs of first and last item would have to change",
        "event_hours": "{} of the events would have to be at another hour of the day",
        "event_gaps": "{} of the gaps between events of a person, in days, would have to change",
    }[found.kind].format(percent(found.numbers["value"]))
    chain = ""
    if "chain" in found.numbers:
        chain = f"; a first-order chain of the real data is off by {percent(found.numbers['chain'])}"
    return f"{what}{_beside_chance(found.numbers)}{chain}."


def _column_pairs(found: Finding) -> str:
    change = (
        f"For a pair of columns to match the real data, {percent(found.numbers['value'])} of the rows would have to"
        f" change on average{_beside_chance(found.numbers)}"
    )
    worst = f"; the worst pair is {_names(found, ' and ')} ({percent(found.numbers['worst'])})" if found.off else ""
    return f"{change}{worst}."


def _relation(found: Finding) -> str:
    real, synthetic = found.numbers["real"], found.numbers["synthetic"]
    digits = 4 if abs(real - synthetic) < _NEAR else 2
    of = f"rank correlation (-1 to 1) of {_pair(found)}"
    what = f"The {of} is {synthetic:.{digits}f} instead of {real:.{digits}f}"
    if found.kind == "relation_in_group":
        rows = int(found.numbers["rows"])
        what = f"Among {rows_with(_parts(found))} ({rows:,} real ones), t{what[1:]}"
    if real * synthetic < 0 and min(abs(real), abs(synthetic)) > _SIGN:
        return (
            f"{what}: where one grows, the other {'grows' if synthetic > 0 else 'falls'} instead of the opposite."
        )
    return f"{what}."


def _share(found: Finding) -> str:
    return f"{_what(found)}: {_shares(found)} of the rows{_medians(found.numbers, _parts(found)[0])}."


def _group(found: Finding) -> str:
    rows = int(found.numbers["real_rows"])
    medians = _medians(found.numbers, _parts(found)[0])
    return (
        f"Among {rows_with(_parts(found)[1:])} ({rows:,} real ones), {_what(found)} in {_shares(found)}{medians}."
    )


def _impossible(found: Finding) -> str:
    numbers, group = found.numbers, rows_with(_parts(found)[1:])
    count, synthetic = round(numbers["synthetic_rows"] * numbers["synthetic"]), share_text(numbers["synthetic"])
    noun, with_group = group.split(" with ", 1)
    return (
        f"No real {noun[:-1]} with {with_group} has {_what(found)}, but {counted(count, f'synthetic {noun[:-1]}')}"
        f" ({synthetic} of those with {with_group}) {'has' if count == 1 else 'have'}"
        f"{_medians(numbers, _parts(found)[0])}."
    )


def _unseen(found: Finding) -> str:
    real, synthetic = (share_text(found.numbers[side]) for side in ("real", "synthetic"))
    return (
        f"{_pair(found)}: {synthetic} of the synthetic rows combine values that no row of one half of the real data"
        f" combines; of the rows of the other half, {real} do."
    )


def _shares(found: Finding) -> str:
    return f"{share_text(found.numbers['synthetic'])} instead of {share_text(found.numbers['real'])}"


def _medians(numbers: Mapping[str, float], cells: TraitPart) -> str:
    """The medians of the trait in these rows, if they differ."""
    if "real_median" not in numbers or numbers["real_median"] == numbers["synthetic_median"]:
        return ""
    real, synthetic = (_value(cells.kind, numbers[f"{side}_median"]) for side in ("real", "synthetic"))
    return f"; the median of {cells.trait} is {synthetic} instead of {real}" if real != synthetic else ""


def _order(found: Finding) -> str:
    first, last = (str(one) for one in found.subject)
    dates = found.kind == "order_of_dates"
    rule = f"`{_quoted(first)} <= {_quoted(last)}` under `constraints`"
    if dates:
        rule = f"`after: {first}` in the line of {last}, or {rule},"
    return (
        f"{first} is {'later' if dates else 'greater'} than {last} in {share_text(found.numbers['synthetic'])} of the"
        f" synthetic rows that have both, and {share_text(found.numbers['real'])} of the real ones; if their order is a"
        f" rule, state {rule} in the domain before the fit (docs/constraints.md)."
    )


def _quoted(name: str) -> str:
    """A column's name as constraints write it."""
    return name if _PLAIN_NAME.fullmatch(name) else f'"{name}"'


def _equation(found: Finding) -> str:
    result, *terms = (str(one) for one in found.subject)
    sign = " × " if found.kind == "product" else " + "
    return f"{result} = {sign.join(terms)}"


def _broken_equation(found: Finding) -> str:
    shares = [share_text(1 - found.numbers[side]) for side in ("synthetic", "real")]
    what = f"{_equation(found)} holds"
    if found.kind == "line":
        what = f"{found.subject[0]} follows from {found.subject[1]} by a straight line"
    return f"{what} in {shares[0]} of the rows instead of {shares[1]}."


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
    "too_few_rows": _too_few_rows,
    "lengths": _lengths,
    "too_few_lengths": _too_few,
    **dict.fromkeys((f"event_{name}" for name in ("steps", "runs", "ends", "hours", "gaps")), _event_distance),
    **dict.fromkeys((f"too_few_event_{name}" for name in ("steps", "runs", "ends", "hours", "gaps")), _too_few),
    "column_pairs": _column_pairs,
    "too_few_column_pairs": _too_few,
    "order_of_numbers": _order,
    "order_of_dates": _order,
    "sum": _broken_equation,
    "product": _broken_equation,
    "line": _broken_equation,
    "more_rules": _more(
        "rule of columns is broken; the JSON output lists it",
        "rules of columns are broken; the JSON output lists them",
    ),
    "relation": _relation,
    "more_relation": _more(
        "pair of columns is related otherwise; the JSON output lists it",
        "pairs of columns are related otherwise; the JSON output lists them",
    ),
    "relation_in_group": _relation,
    "more_relation_in_group": _more(
        "column has groups of rows in which others are related otherwise; the JSON output lists it",
        "columns have groups of rows in which others are related otherwise; the JSON output lists them",
    ),
    "relations_match": lambda found: (
        "Columns rise and fall together as in the real data, in all rows and within groups of them: all rank"
        " correlations are within 0.1, or within chance."
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
        "pair of columns has combinations in synthetic rows only; the JSON output lists it",
        "pairs of columns have combinations in synthetic rows only; the JSON output lists them",
    ),
    "triple": _group,
    "more_triple": _more(
        "column differs in some group of rows by two others; the JSON output lists it",
        "columns differ in groups of rows by two others; the JSON output lists them",
    ),
    "unseen": _unseen,
    "more_unseen": _more(
        "pair of columns combines values otherwise than real rows; the JSON output lists it",
        "pairs of columns combine values otherwise than real rows; the JSON output lists them",
    ),
    "groups_match": lambda found: (
        "Within groups of rows, such as those with one value of a column, the other columns match the real data, too."
        f" Groups of fewer than {int(found.numbers['rows']):,} rows are too small to show even 70 % instead of 30 %."
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
    "not_compared": lambda found: (
        f"Not compared: {listed([str(one) for one in found.subject[1:]])}, because {found.subject[0]}"
    ),
}
