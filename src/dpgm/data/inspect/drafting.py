"""Drafting the domain of a table: which kind each column has, judged by its values, for the curator to confirm.

The draft states the names and kinds of columns and the decimal places of numbers, but no value of any person: ranges,
bins and categories are left open, to be found privately by the fit.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpgm.data import kinds as kinds_of_columns
from dpgm.data.arrow import Array, pa
from dpgm.data.condition_text import parse_constraint
from dpgm.data.domain import Column, Domain, open_numbers
from dpgm.data.inspect.hints import follows_soon, ordered_dates, survey_codes
from dpgm.data.inspect.seen import NESTED, Seen
from dpgm.data.items import flat_column
from dpgm.data.stream import RowStream
from dpgm.data.values import (
    Conversion,
    NumberStyle,
    Place,
    ValueReader,
    is_missing,
    is_sequence,
    object_lists,
    object_texts,
)
from dpgm.errors import InputError, UsageError
from dpgm.validation import near

if TYPE_CHECKING:
    from dpgm.data.inspect.events import EventColumns

_TIMES = ((datetime.time, "time64[us]"), (datetime.timedelta, "duration[us]"))  # which drafts leave out


@dataclass(frozen=True)
class Drafted:
    """A drafted domain, and what the curator should know about it.

    Attributes:
        domain: the draft.
        left_out: columns that are not modelled, and why.
        confirm: sentences about the other columns, to be confirmed.
        orders: rules about the order of dates that every row meets.
        follows: pairs of dates of which the first comes soon after the second.
        hints: columns that other options may read better, and which options.
        gaps: usual spellings of a missing value, which the draft states as its `missing_texts`; the columns in which
            they are one, and those in which they seem to be values.
        events: the columns of persons, items and times of a table whose rows may be events.
    """

    domain: Domain
    left_out: tuple[tuple[str, str], ...] = ()
    confirm: tuple[str, ...] = ()
    orders: tuple[str, ...] = ()
    follows: tuple[tuple[str, str], ...] = ()
    hints: tuple[tuple[str, str], ...] = ()
    gaps: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()
    events: "EventColumns | None" = None


def drafted_columns(stream: RowStream) -> dict[str, Conversion]:
    """All columns of a table that has no domain yet; one that cannot be modelled becomes one of empty structures."""
    lists, others = Conversion(_any_type(object_lists)), Conversion(_objects, keeps_type=True)
    return {name: lists if name in stream.lists else others for name in stream.names}


def _objects(values: Sequence[Any], place: Place) -> Array:
    """Values of a column: lists if any is one, otherwise texts."""
    present = [value for value in values if not is_missing(value)]
    if any(is_sequence(value) for value in present):
        return _any_type(object_lists)(values, place)
    for kind, stored in _TIMES:
        if present and all(isinstance(value, kind) for value in present):
            try:
                return pa.array(values, type=stored, from_pandas=True)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                break  # out of the range of Arrow
    return _any_type(object_texts)(values, place)


def _any_type(read: ValueReader) -> ValueReader:
    """A reader that returns a column of empty structures, which drafts leave out, if `read` refuses the values."""

    def reader(values: Sequence[Any], where: Place) -> Array:
        try:
            return read(values, where)
        except InputError:
            return pa.nulls(len(values), pa.struct([]))

    return reader


def draft_table(
    stream: RowStream,
    person: str | None,
    missing: Sequence[str],
    style: NumberStyle,
    *,
    drop: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
) -> Drafted:
    """A domain drafted from the columns of a table, everything but names and kinds left open.

    `person` is the column of persons, `missing` are texts that mean a missing value, and `style` is how numbers are
    written. `drop` are columns to ignore; `kinds` gives the kinds of columns that the curator knows better.
    """
    stated = _stated_kinds(stream, drop, kinds or {})
    seen = {name: Seen(name, missing, style) for name in stream.names}
    for chunk in stream.read(drafted_columns(stream)):
        for name, column in seen.items():
            column.update(flat_column(chunk.table, name), chunk.place)
    for column in seen.values():
        column.settle()
    fields: list[Column] = []
    left_out, confirm = [], []
    for name, column in seen.items():
        if name == person:
            kind, reason = "identifier", "the column of persons: never read into records, samples carry fresh ones"
        elif name in stated:
            kind, reason = stated[name], "as you said" if name in drop else f"{stated[name]}, as you said"
        else:
            kind, reason = kinds_of_columns.judged(column)
        fields.append(kinds_of_columns.drafted(column, kind))
        if not fields[-1].is_read:
            left_out.append((name, reason))
        else:
            confirm.append(f"{name}: {reason}")
    schema = stream.schema.names
    left_out += [(name, NESTED) for name in schema if name not in stream.names]
    if not confirm:
        raise UsageError(
            f"{stream.name}: no column is left to model ({left_out[0][0]!r}: {left_out[0][1]}); say what a column is"
            " with --kind COLUMN=KIND."
        )
    names = [field.name for field in fields if field.is_read]
    texts = sorted({text for name in names for text in seen[name].gaps})
    # A text that is a value in another column is not stated: it would be missing there, too.
    clear = tuple(text for text in texts if not _columns_with(text, names, seen)[1])
    domain = Domain.of_columns(fields, missing_texts=clear)
    orders, follows = _date_orders(domain, seen)
    whole = [field.name for field in open_numbers(domain) if field.format.is_whole]
    shared = survey_codes({name: seen[name].numbers for name in whole if seen[name].is_number})
    hints = (
        (name, column.hint(shared.get(name, ()))) for name, column in seen.items() if name not in (*stated, person)
    )
    return Drafted(
        domain,
        tuple(left_out),
        tuple(confirm),
        orders,
        follows,
        hints=tuple((name, hint) for name, hint in hints if hint is not None),
        gaps=tuple((text, *_columns_with(text, names, seen)) for text in texts),
    )


def _columns_with(
    text: str, names: Sequence[str], seen: Mapping[str, Seen]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns in which a spelling of a missing value is a gap, and those in which it is a value."""
    gaps = tuple(name for name in names if text in seen[name].gaps)
    return gaps, tuple(name for name in names if text in seen[name].values)


def _stated_kinds(stream: RowStream, drop: Sequence[str], kinds: Mapping[str, str]) -> dict[str, str]:
    """The kinds that the curator states, checked; columns to drop are ignored ones."""
    for name in (*drop, *kinds):
        if name not in stream.names:
            raise UsageError(
                f"{stream.name}: there is no column {name!r}{near(name, stream.names)}; the columns are"
                f" {stream.listed()}."
            )
    words = kinds_of_columns.draft_words()
    for name, kind in kinds.items():
        if kind not in words:
            listed = list(dict.fromkeys(words.values()))
            raise UsageError(
                f"a column is one of {', '.join(listed)}; got {kind!r} for {name!r}{near(kind, listed)}."
            )
    return {name: words[kind] for name, kind in kinds.items()} | dict.fromkeys(drop, "ignored")


def _date_orders(domain: Domain, seen: Mapping[str, Seen]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """`orders` and `follows` of the draft."""
    dated = [one.name for one in open_numbers(domain) if one.format.is_temporal and seen[one.name].one_pattern]
    dates = {name: seen[name].dates for name in dated}
    pairs = ordered_dates(dates)
    follows: dict[str, str] = {}
    for first, last in pairs:
        is_free = first not in follows and last not in follows and last not in follows.values()
        if is_free and follows_soon(dates[first], dates[last]):
            follows[last] = first
    rules = (_rule(first, last, domain) for first, last in pairs)
    return tuple(rule for rule in rules if rule is not None), tuple(follows.items())


def _rule(first: str, last: str, domain: Domain) -> str | None:
    """The rule `first <= last` as a domain file states it; None if it cannot state it with these names."""
    rule = " <= ".join(name if name.isidentifier() else f'"{name}"' for name in (first, last))
    try:
        return rule if len(parse_constraint(rule, domain.fields).fields) == 2 else None
    except UsageError:
        return None
