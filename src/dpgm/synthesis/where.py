"""What a user asks of a sample: `where` as text, as a list of texts or as a mapping."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from dpgm.data.condition_text import parse_condition
from dpgm.data.conditions import LABELLED, MISSING, All, Condition, OneOf, check_values, labels_of
from dpgm.data.domain import Domain
from dpgm.errors import UsageError

Where: TypeAlias = str | Sequence[str] | Mapping[str, Any]


def parse_where(where: Where | None, domain: Domain) -> Condition | None:
    """All that is asked as one condition; None if nothing is.

    A text is a label alone (`milk`), `field=value` with any label the domain lists, or a condition such as
    `age >= 65 and colour in [red, blue]`. A mapping gives a value or a list of values per field.

    Raises:
        UsageError: it refers to fields or values that the domain does not have, or can be read in two ways.
    """
    if not where:
        return None
    if not isinstance(where, (str, Mapping, Sequence)):
        raise UsageError(
            "`where` must be a text such as 'age >= 65', a list of such texts, or a mapping of fields to values."
        )
    if isinstance(where, Mapping):
        parts = [_entry(domain, name, value) for name, value in where.items()]
    else:
        parts = [_text(domain, one) for one in ([where] if isinstance(where, str) else where)]
    for part in parts:
        check_values(part, domain)
    return parts[0] if len(parts) == 1 else All(tuple(parts))


def _entry(domain: Domain, name: object, value: Any) -> Condition:
    field = domain.field(str(name))
    several = value if isinstance(value, (list, tuple, set, frozenset, range)) else [value]
    texts = [MISSING if one is None else str(one).lower() if isinstance(one, bool) else str(one) for one in several]
    if field.kind in LABELLED:
        return OneOf(field.name, tuple(_label(field, text) for text in texts))
    quoted = ", ".join(f'"{text}"' for text in texts)
    return parse_condition(f'"{field.name}" in [{quoted}]', domain.fields)


def _label(field: Any, text: str) -> str | None:
    return None if text == MISSING and MISSING not in labels_of(field) else text


def _text(domain: Domain, text: str) -> Condition:
    found = _named(domain, text)
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"the condition {text!r} can be read in several ways; write field=value.")
    try:
        return parse_condition(text, domain.fields)
    except UsageError as error:
        if any(mark in text for mark in "<>=! "):
            raise
        raise UsageError(
            f"the condition {text!r} names no item or category of the domain; write field=value with a value it"
            " lists, or a range such as age>=65."
        ) from error


def _named(domain: Domain, text: str) -> list[OneOf]:
    """Every reading of a text as a label alone or as `field=label`; names and labels may hold `=` themselves."""
    found = []
    for field in domain.fields:
        if field.kind not in LABELLED or field.kind == "image":
            continue
        labels = labels_of(field)
        readings = [text] if field.kind in ("items", "categorical") else []
        if text.startswith(f"{field.name}="):
            readings.append(text[len(field.name) + 1 :])
        for reading in dict.fromkeys(readings):
            may_be_missing = getattr(field, "missing", False) and reading == MISSING
            if reading in labels or may_be_missing:
                found.append(OneOf(field.name, (_label(field, reading),)))
    return found
