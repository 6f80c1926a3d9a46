"""The form of fields: from the draft of a domain and what the curator states to the domain of the fit.

A field starts as the draft has it: values and limits are found privately. Whoever states them says how they are known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpgm.data.domain import Domain
from dpgm.data.domain_file import domain_from_plain, domain_to_plain, load_domain, save_domain
from dpgm.data.kinds import draft_words
from dpgm.errors import UsageError

SOURCES = ("code book", "law or form", "common knowledge")  # how a curator may know values without the file
_OPEN = "discover"


@dataclass(frozen=True)
class FieldForm:
    """One column as the form shows it.

    `asks` is "limits" for numbers and dates, "values" for lists, "" where nothing can be stated.
    """

    name: str
    kind: str
    asks: str
    stated: bool
    low: str = ""
    high: str = ""
    values: str = ""
    known: str = ""
    note: str = ""


def forms(domain: Domain, known: Mapping[str, str], notes: Mapping[str, str]) -> list[FieldForm]:
    """Every column of a domain, in order."""
    return [_form(entry, known, notes) for entry in domain_to_plain(domain)["fields"]]


def _form(entry: Mapping[str, Any], known: Mapping[str, str], notes: Mapping[str, str]) -> FieldForm:
    name, kind = str(entry["name"]), str(entry["kind"])
    key = {"categorical": "values", "items": "items"}.get(kind, "")
    listed = entry.get(key, []) if key else []
    limits = [("" if value in (None, _OPEN) else str(value)) for value in (entry.get("low"), entry.get("high"))]
    asks = "values" if key else "limits" if "low" in entry or kind in ("numeric", "date", "datetime") else ""
    return FieldForm(
        name=name,
        kind=_word(entry),
        asks=asks,
        stated=bool(listed) or any(limits),
        low=limits[0],
        high=limits[1],
        values="\n".join(str(value) for value in listed),
        known=known.get(name, ""),
        note=notes.get(name, ""),
    )


def _word(entry: Mapping[str, Any]) -> str:
    """The kind as people choose it."""
    kind = str(entry["kind"])
    return ("integer" if entry.get("integer") else "number") if kind == "numeric" else kind


def kind_words() -> list[str]:
    """The kinds that a curator may choose."""
    return list(dict.fromkeys(draft_words().values()))


def stated(draft: Domain, form: Mapping[str, str], *, items: str = "stated") -> tuple[Domain, dict[str, str]]:
    """The domain that the form describes, and how each statement is known.

    Args:
        draft: every column, everything but its kind left open.
        form: what was sent: `low-N`, `high-N`, `values-N`, `known-N` and `use-N` of column N, and `label`.
        items: for lists of items, "stated" if the form lists them.

    Raises:
        UsageError: a statement makes no sense, or its source is not said.
    """
    plain = domain_to_plain(draft)
    known = {}
    for at, entry in enumerate(plain["fields"]):
        if form.get(f"use-{at}") != "stated":
            continue
        name = str(entry["name"])
        source = form.get(f"known-{at}", "")
        if source not in SOURCES:
            raise UsageError(f"{name!r}: say how you know its values or limits: {', '.join(SOURCES)}.")
        known[name] = source
        _state(entry, form, at, items)
    label = form.get("label", "")
    plain = {key: value for key, value in plain.items() if key != "label"} | ({"label": label} if label else {})
    return domain_from_plain(plain), known


def _state(entry: dict[str, Any], form: Mapping[str, str], at: int, items: str) -> None:
    name, kind = str(entry["name"]), str(entry["kind"])
    if kind in ("categorical", "items"):
        values = [line.strip() for line in form.get(f"values-{at}", "").splitlines() if line.strip()]
        if not values and items == "stated":
            raise UsageError(f"{name!r}: list its values, one on each line, or let them be found privately.")
        entry.pop(_OPEN, None)
        entry["items" if kind == "items" else "values"] = values
        return
    for key in ("low", "high"):
        text = form.get(f"{key}-{at}", "").strip()
        if text:
            entry[key] = text if kind in ("date", "datetime") else _number(text, name)
    if not any(form.get(f"{key}-{at}", "").strip() for key in ("low", "high")):
        raise UsageError(f"{name!r}: give a lowest or highest value, or let both be found privately.")


def _number(text: str, name: str) -> float | int:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{name!r}: {text[:20]!r} is not a number; write 1234.5.") from None
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def open_items(name: str) -> Domain:
    """The domain of lists whose items are found privately."""
    return domain_from_plain({"fields": [{"name": name, "kind": "items", _OPEN: True}]})


def read(path: Path) -> Domain | None:
    """A domain file of a project; None if there is none yet."""
    return load_domain(path) if path.is_file() else None


def save(domain: Domain, path: Path) -> None:
    """Write the domain of a fit."""
    save_domain(domain, path)
