"""A look at a data file for its curator: shape, lengths, and a draft of a domain. Nothing here is private."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from dpgm.data.chunks import Columns
from dpgm.data.columns import as_texts, flat_column, floats
from dpgm.data.domain import Boolean, Categorical, Date, Domain, Field, Image, ItemSet, Numeric, ShapedNumber
from dpgm.data.domain_file import save_domain
from dpgm.data.guessing import guess_options, table_columns
from dpgm.data.opening import locate
from dpgm.data.options import ReadKeywords, ReadOptions, options_from
from dpgm.data.rarity import held_by_one
from dpgm.data.readers import read_with
from dpgm.data.source import Source
from dpgm.errors import InputError, UsageError

DRAFT_NOTE = (
    "curator only: derived from the data; remove anything that is not public knowledge\n"
    "(items and values that only some people have, and bounds taken from the rows)."
)
_MAX_VALUES = 1000
_FEW_VALUES = 20
_BINS = 20


@dataclass(frozen=True)
class Inspection:
    """What a file holds. Computed on the data: for the curator's eyes, not for publication."""

    file: str
    source: Source
    domain: Domain
    domain_is_draft: bool
    records: int
    empty: int
    mean_length: float
    median_length: float
    longest: int
    held_by_one: int = 0

    def lines(self) -> list[str]:
        """The inspection as lines of text."""
        found = "draft, derived from the data" if self.domain_is_draft else "given or public by nature"
        shown = [f"  {field.name}: {_describe(field)}" for field in self.domain.fields[:40]]
        if len(self.domain.fields) > 40:
            shown.append(f"  ... and {len(self.domain.fields) - 40} more")
        return [
            f"{self.file} (curator only: computed on the data, do not publish)",
            f"records    {self.records:,} (a record is a {self.source.unit}; shape {self.source.shape})",
            f"positions  {self.domain.width:,}",
            f"lengths    mean {self.mean_length:.2f}, median {self.median_length:g}, longest {self.longest:,},"
            f" empty records {self.empty:,}",
            f"fields     {len(self.domain.fields)} ({found})",
            *shown,
        ]


def _describe(field: Field) -> str:
    missing = ", may be missing" if getattr(field, "missing", False) else ""
    if isinstance(field, ItemSet):
        return f"{field.width:,} items"
    if isinstance(field, Categorical):
        return f"{len(field.values):,} values{missing}"
    if isinstance(field, Numeric):
        kind = "whole numbers" if field.integer else "numbers"
        bins = "bins to be found" if field.bins is None else f"{field.bins} bins"
        return f"{kind} from {field.low} to {field.high}, {bins}{missing}"
    if isinstance(field, Image):
        return f"image of {field.height} x {field.columns}"
    if isinstance(field, Boolean):
        return f"true or false{missing}"
    if isinstance(field, ShapedNumber):
        return f"numbers, {len(field.atoms)} popular values and {len(field.starts)} bins{missing}"
    return f"{'dates' if isinstance(field, Date) else 'times'} from {field.low} to {field.high}"


def inspect_file(
    path: str | os.PathLike[str],
    options: ReadOptions | None = None,
    *,
    draft_domain: str | os.PathLike[str] | None = None,
    force: bool = False,
    **keywords: Unpack[ReadKeywords],
) -> Inspection:
    """Counts, lengths and a draft domain of a file (for its curator).

    The options are those of `read_source`, but the items of the file need no declaration, and a shape that is not
    stated is guessed from the first rows. Without a `domain`, one is drafted from the data, and `draft_domain` names a
    YAML or JSON file to write it to, marked as drafted: a fit refuses it until the curator declares it public (an
    existing file is replaced with `force` alone).
    """
    chosen = replace(options_from(options, **keywords), assume_public_items=True)
    source_file = locate(path, chosen.member)
    guess = guess_options(source_file, chosen)
    chosen = guess.options
    if guess.table:
        domain = draft_table_domain(table_columns(source_file, guess), chosen)
        chosen = replace(chosen, domain=domain, shape="wide")
    records, source = read_with(source_file, chosen)
    lengths = records.lengths
    drafted = guess.table or source.items_assumed_public
    domain = replace(records.domain, origin="drafted") if drafted else records.domain
    if draft_domain is not None:
        save_domain(domain, draft_domain, note=DRAFT_NOTE, force=force)
    return Inspection(
        file=str(source_file),
        source=source,
        domain=domain,
        domain_is_draft=drafted,
        held_by_one=held_by_one(records),
        records=len(records),
        empty=int((lengths == 0).sum()),
        mean_length=float(lengths.mean()),
        median_length=float(np.median(lengths)),
        longest=int(lengths.max()),
    )


class _Column:
    """What one column of a table looks like so far."""

    def __init__(self, name: str, told: str, missing: Sequence[str]) -> None:
        self.name, self.told, self._tokens = name, told, ("", *missing)
        self.numeric, self.whole, self.missing = True, True, False
        self.low, self.high = np.inf, -np.inf
        self.values: set[str] = set()

    def see(self, column: Any, place: Any) -> None:
        if self.numeric:
            try:
                numbers, gone = floats(column, place, self._tokens)
            except InputError:
                self.numeric = False
            else:
                present = numbers[~gone]
                self.missing |= bool(gone.any())
                if len(present):
                    self.low, self.high = min(self.low, present.min()), max(self.high, present.max())
                    self.whole &= bool(np.array_equal(present, np.floor(present)))
        if len(self.values) <= _MAX_VALUES:
            for value in as_texts(column, place).unique().to_pylist():
                if value is None or value.strip() in self._tokens:
                    self.missing = True
                else:
                    self.values.add(value.strip())

    def field(self) -> Field:
        whole = self.numeric and self.whole
        if self.numeric and np.isfinite(self.low) and self.low < self.high:
            few = whole and len(self.values) <= _FEW_VALUES and self.high - self.low < 100
            if not few:
                low, high = (int(self.low), int(self.high)) if whole else (float(self.low), float(self.high))
                bins = min(_BINS, int(high - low) + 1) if whole else _BINS
                return Numeric(self.name, low, high, bins, whole, self.missing)
        if len(self.values) > _MAX_VALUES:
            raise UsageError(
                f"column {self.told} holds more than {_MAX_VALUES:,} different texts, so no domain can be"
                " drafted; leave the column out, or write the domain file yourself."
            )
        if not self.values:
            raise UsageError(f"column {self.told} holds no value; leave it out.")
        if whole and all(str(int(value)) == value for value in self.values if value.lstrip("-").isdigit()):
            return Categorical(self.name, tuple(sorted(int(float(value)) for value in self.values)), self.missing)
        return Categorical(self.name, tuple(sorted(self.values)), self.missing)


def draft_table_domain(columns: Columns, options: ReadOptions) -> Domain:
    """A domain drafted from the columns of a table: for the curator to correct, never to be used as it stands."""
    names = [name for name in columns.names if name != options.person]
    # A first line that nobody called a header may be a record: errors give the column's number then.
    told = {name: repr(name) if columns.certain else str(at) for at, name in enumerate(columns.names, start=1)}
    seen = {name: _Column(name, told[name], options.missing) for name in names}
    for chunk in columns.chunks:
        for name, column in seen.items():
            column.see(flat_column(chunk.table, name), lambda row, chunk=chunk: chunk.place(row))
    try:
        return Domain(tuple(column.field() for column in seen.values()))
    except UsageError as error:
        raise UsageError(f"{columns.file}: {error}") from None
