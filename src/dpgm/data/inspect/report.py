"""`Inspection`: what a file holds, in lines for its curator. Nothing is private here."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from dpgm.data.inspect.drafting import Drafted
from dpgm.data.layouts import Source

_MAX_LISTED = 40  # fields in the printed inspection
_NAMED = 5  # columns in a line
_AMBIGUOUS = "Not a number here and a value elsewhere; correct the cells, or say --missing TEXT for all columns:"
_ROWS = (
    "Confirm that every row is another person; if not, name the column that identifies persons: --person COLUMN"
    " (with --item COLUMN or --rows-per-person K)."
)
_ORDERS = (
    "No row breaks these rules, but synthetic ones can; where one is public knowledge, state it in the draft under"
    " `constraints`:"
)
_CONFIRM = "Confirm that these are public knowledge: the names of the columns, and that they are"
_LEFT_OUT = "Left out (change it with --kind COLUMN=KIND, or drop more with --drop COLUMN):"
_ALL_MEMBERS = "only the lists of items are read; for a table of all members say --shape wide"
_AFTER = "the time since is then modelled, and nothing has to be left out"


@dataclass(frozen=True, kw_only=True)
class Inspection(Drafted):
    """The contents of a file. Computed from the data without privacy: for the curator only, not for publication."""

    file: str
    source: Source
    domain_is_draft: bool
    records: int
    empty: int
    mean_length: float
    median_length: float
    longest: int
    held_by_one: int = 0
    unread: tuple[str, ...] = ()
    dim_images: tuple[str, ...] = ()  # warnings about images without bright pixels

    def lines(self) -> list[str]:
        """The inspection as lines of text."""
        most = self.source.rows_per_person
        record = self.source.unit if most == 1 else f"row, of which a person keeps {most} at most"
        head = [
            f"{self.file} (curator only: computed on the data, do not publish)",
            f"records    {self.records:,} (a record is a {record}; shape {self.source.shape})",
        ]
        head += [f"persons    {sentence}" for sentence in self._persons()]
        if self.confirm:
            return [*head, *self._checklist()]
        origin = "draft, derived from the data" if self.domain_is_draft else "given or public by nature"
        listed = [f"  {field.name}: {field.described()}" for field in self.domain.fields[:_MAX_LISTED]]
        if len(self.domain.fields) > _MAX_LISTED:
            listed.append(f"  ... and {len(self.domain.fields) - _MAX_LISTED} more")
        return [
            *head,
            f"positions  {self.domain.width:,}",
            f"lengths    mean {self.mean_length:.2f}, median {self.median_length:g}, longest {self.longest:,},"
            f" empty records {self.empty:,}",
            f"fields     {len(self.domain.fields)} ({origin})",
            *listed,
            *([f"not read   {', '.join(self.unread)}: {_ALL_MEMBERS}"] if self.unread else []),
            *self.dim_images,
        ]

    def _persons(self) -> list[str]:
        """What a column that is named like an identifier of persons means, and which option protects persons."""
        names, advice = self.source.like_persons, []
        if names:
            person = shlex.quote(names[0])
            advice.append(
                f"{', '.join(map(repr, names))}: named like an identifier of persons; without --person a fit takes"
                " every row as another person and protects rows, not persons. To protect persons with all their rows"
                f" say --person {person} --rows-per-person K (or --person {person} --item COLUMN if rows are items);"
                f" --person {person} alone if every row is another person."
            )
        if self.events is not None:
            stated = " ".join(
                f"--{option} {shlex.quote(str(getattr(self.events, option)))}"
                for option in ("person", "item", "time")
            )
            advice.append(f"the rows seem to be events of persons: inspect them as a sequence with {stated}")
        return advice

    def _checklist(self) -> list[str]:
        """For a drafted table: what was left out, and what the curator must confirm."""

        def section(title: str, lines: Sequence[str]) -> list[str]:
            return [title, *(f"  {line}" for line in lines)] if lines else []

        hinted: dict[str, list[str]] = {}
        for name, hint in self.hints:
            hinted.setdefault(hint, []).append(name)
        return [
            f"fields     {len(self.domain.fields)} to be modelled, {len(self.left_out)} left out",
            *([_ROWS] if self.source.unit == "row" and not self.source.like_persons else []),
            *section(_CONFIRM, [f"[ ] {line}" for line in self.confirm]),
            *section(_LEFT_OUT, [f"{name}: {why}" for name, why in self.left_out]),
            *section(self._gaps_title(), self._gap_lines()),
            *section(_AMBIGUOUS, self._ambiguous_lines()),
            *section(
                "Perhaps not read as you mean:", [f"{_listed(names)}: {hint}" for hint, names in hinted.items()]
            ),
            *section(_ORDERS, [f"[ ] {rule}" for rule in self.orders]),
            *(f"  {suggest_after(first, last)}" for last, first in self.follows),
            self._values_held(),
        ]

    def _values_held(self) -> str:
        """What a drafted table tells of persons."""
        if self.domain.origin == "drafted":
            return (
                "The draft holds the period of the rows and no other value of any person: ranges, bins and categories"
                " are found privately by the fit. Once `from` and `to` are public, take out the line"
                " `drafted_from_data`."
            )
        return "The draft holds no value of any person: ranges, bins and categories are found privately by the fit."

    def _gaps_title(self) -> str:
        options = " ".join(f"--missing {shlex.quote(text)}" for text, _, values in self.gaps if not values)
        return f"Read as missing (`missing_texts` in the draft; the same as {options}):"

    def _gap_lines(self) -> list[str]:
        """One line for all spellings of a missing value that occur in the same columns."""
        spellings: dict[tuple[str, ...], list[str]] = {}
        for text, gaps, values in self.gaps:
            if not values:
                spellings.setdefault(gaps, []).append(repr(text))
        return [f"[ ] {', '.join(texts)} in {_listed(gaps)}" for gaps, texts in spellings.items()]

    def _ambiguous_lines(self) -> list[str]:
        """One line for every spelling that is missing in some columns and seems to be a value in others."""
        return [
            f"[ ] {text!r} in {_listed(gaps)}; seems to be a value in {_listed(values)}"
            for text, gaps, values in self.gaps
            if values
        ]


def _listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are.

    >>> _listed(["Q1", "Q2"]), _listed([f"Q{at}" for at in range(60)])
    ('Q1, Q2', 'Q0, Q1, Q2, Q3, Q4 and 55 more columns')
    """
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more column{'s' * (more > 1)}" if more > 0 else "")


def suggest_after(first: str, last: str) -> str:
    """Advice on two dates of which the last soon follows the first."""
    return f"or, better, `after: {first}` in the line of {last}: {_AFTER}"
