"""The keywords of functions that read files. Written by `tools/docs_reference.py` from `declared`."""

from collections.abc import Sequence
from typing import TypedDict

from dpgm.data.domain_file import DomainLike
from dpgm.data.read.declared import Paths


class FileKeywords(TypedDict, total=False):
    """What `Synthesizer.fit` takes for a file, besides its own arguments."""

    assume_public_items: bool
    assume_public_domain: bool
    format: str | None
    shape: str | None
    count: str | None
    threshold: float | None
    labels: Paths | None
    member: str | None
    table: str | None
    query: str | None
    separator: str | None
    item_separator: str | None
    header: bool | None
    missing: Sequence[str]
    comment: str | None
    skip_lines: int
    strip_suffix: str
    encoding: str
    decimal: str
    thousands: str | None
    strip_from_numbers: Sequence[str]
    cache: Paths | None


class ReadKeywords(FileKeywords, total=False):
    """What `read_records`, `read_source` and `inspect_file` take."""

    domain: DomainLike | None
    discover: bool
    person: str | None
    rows_per_person: int | None
    item: str | None
    time: str | None
    period: str | None
    persons: Paths | None
    memory: str | int | None
