"""Numbers, names and groups of rows in words: parts of the sentences of `sentences.py`."""

from collections.abc import Sequence

from dpgm.data.kinds.base import ColumnKind
from dpgm.evaluation.findings import NAMED
from dpgm.evaluation.raw_columns import figure_text
from dpgm.evaluation.traits import Aspect, TraitPart

_SMALLEST_PERCENT = 0.01  # smaller shares are printed as "under 0.01 %"
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


def value_words(kind: ColumnKind, value: float | str) -> str:
    """A value as text."""
    return value if isinstance(value, str) else figure_text(kind, value)


def part_words(cells: TraitPart) -> str:
    """Some values of a trait in words: the rows that have them.

    >>> part_words(TraitPart("age", "values", "number", "up_to", 17.0))
    'age up to 17'
    >>> part_words(TraitPart("bread", "item", "category", "value", "no"))
    'no bread'
    """
    low, high = (value_words(cells.kind, value) for value in (cells.low, cells.high))
    if cells.aspect == "item":
        return cells.trait if low == "yes" else f"no {cells.trait}"
    match cells.which:
        case "value":
            return f"{cells.trait} = {low}"
        case "range":
            return f"{cells.trait} from {low} to {high}"
        case "up_to":
            return f"{cells.trait} up to {low}"
        case "other":
            return f"{cells.trait} other than {low}"
        case which:
            return f"{cells.trait} above {low}" if which == "above" else f"{cells.trait} {which}"


def rows_with(groups: Sequence[TraitPart]) -> str:
    """The rows, or records, that have some values of every one of several traits."""
    records = any(cells.aspect == "item" for cells in groups)
    return f"{'records' if records else 'rows'} with {' and '.join(map(part_words, groups))}"


# The share of the values of one column that have a property, without the column's name: what stands after "12 %".
_OF_COLUMN: dict[Aspect, tuple[str, str]] = {  # of one value, and of values up to a point
    "weekday": ("are on a {0}", "are on a {0} or before"),
    "month": ("are in month {0}", "are in the months up to {0}"),
    "day": ("are on day {0} of the month", "are on the days up to {0} of the month"),
    "hour": ("are at {0} o'clock", "are up to {0} o'clock"),
    "form": ("are written like {0}", ""),
    "values": ("are {0}", "are up to {0}"),
}


def of_column(cells: TraitPart) -> str:
    """What some values of a column do: "are multiples of 100", "are up to 38"."""
    if cells.aspect == "rounding":
        return _rounded(cells)
    low, high = (value_words(cells.kind, value) for value in (cells.low, cells.high))
    one, up_to = _OF_COLUMN.get(cells.aspect, _OF_COLUMN["values"])
    match cells.which:
        case "missing":
            return "are missing"
        case "present":
            return "are there"
        case "range":
            return f"are from {low} to {high}"
        case "up_to":
            return up_to.format(low)
        case "above":
            return up_to.replace("up to", "above").format(low)
        case _:
            return one.format(low)


def _rounded(cells: TraitPart) -> str:
    """How values are rounded: `low` is minus the step."""
    step = value_words("number", -float(cells.low)) + (" minutes" if cells.kind == "date" else "")
    match cells.which:
        case "up_to":
            return f"are multiples of {step}"
        case "above":
            return f"are not multiples of {step}"
        case _:
            return f"are multiples of {step} and of no larger step" if cells.low else "are not rounded"
