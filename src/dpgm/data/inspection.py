"""Inspecting data for its curator: shape, record lengths and a draft of a domain. Nothing is private here.

Shape, header and separator are guessed from the first rows if they are not stated. `inspect` and `evaluate` may guess,
because they release nothing. A fit may not: it uses what is stated.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np

from dpgm.data.domain import Domain
from dpgm.data.domain_file import save_domain
from dpgm.data.formats import format_of, located
from dpgm.data.formats.opening import Input
from dpgm.data.inspect.drafting import Drafted, draft_table, drafted_columns
from dpgm.data.inspect.events import EventColumns, draft_events, events_in
from dpgm.data.inspect.report import Inspection, suggest_after
from dpgm.data.items import flat_column
from dpgm.data.presence import is_binary
from dpgm.data.read.frames import checked_frame, column_names, frame_stream, is_frame
from dpgm.data.read.keywords import ReadKeywords
from dpgm.data.read.options import ReadOptions, options_from
from dpgm.data.read.readers import open_files
from dpgm.data.read.shapes import read_stream
from dpgm.data.records import Records
from dpgm.data.values import PLAIN_NUMBERS
from dpgm.errors import UsageError

_ITEMS_NOTE = (
    "curator only: derived from the data; remove anything that is not public knowledge\n"
    "(items and values that only some people have, and bounds taken from the rows)."
)
_TABLE_NOTE = (
    "drafted by dpgm inspect: names and kinds of columns, judged by the rows (the certificate says so), and no value\n"
    "of any person but usual words for a missing value. Confirm the kinds; values,\n"
    "ranges and bins that are left open are found privately by the fit. List values or ranges that are public\n"
    "knowledge: that saves budget."
)
_PERIOD_NOTE = (
    "\n`from` and `to` were taken from the rows: state the public period of the data, and take out the line\n"
    "`drafted_from_data`."
)
_ORDERS_NOTE = (
    "\nRules that no row breaks, seen in the data: take the # away from `constraints` and from those that are public\n"
    "knowledge (synthetic records then keep them), and remove the others.\nconstraints:\n"
)


def inspect_file(
    path: str | os.PathLike[str],
    options: ReadOptions | None = None,
    *,
    draft_domain: str | os.PathLike[str] | None = None,
    force: bool = False,
    drop: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    **keywords: Unpack[ReadKeywords],
) -> Inspection:
    """Counts, lengths and a draft domain of a file, or of a folder of Parquet files, for its curator.

    The options are those of `read_source`, but items need not be declared public, and a shape that is not stated is
    guessed from the first rows. Without a `domain`, one is drafted and written to the YAML or JSON file `draft_domain`,
    if given (an existing file is replaced only with `force`). The draft of a table states names and kinds of columns
    only, and leaves all values to be found privately; `drop` and `kinds` correct it by column. The draft of an item set
    lists its items and is marked as drafted: a fit refuses it until the curator declares it public.
    """
    options = replace(options_from(options, **keywords), assume_public_items=True, discover=False)
    files = located(path, options.member)
    drafted: Drafted | None = None
    if options.reads_events and options.domain is None and options.item is not None:
        options, drafted = _drafted_from_events(files, options, drop, kinds)
    guess = format_of(files[0], options).guess(files[0], options)
    options = guess.options
    if guess.table:
        stream = open_files(files, options, guess)
        drafted = draft_table(stream, options.person, options.missing, options.number_style, drop=drop, kinds=kinds)
        texts = (text for text, *_ in drafted.gaps)
        if options.person is None:
            drafted = replace(drafted, events=events_in(open_files(files, options, guess), drafted.domain))
        options = replace(options, domain=drafted.domain, shape="wide", missing=(*options.missing, *texts))
    elif (drop or kinds) and drafted is None:
        raise UsageError(
            f"{files[0]}: `drop` and `kinds` are for tables that are drafted; correct the domain file."
        )
    records, source = read_stream(open_files(files, options), options)
    lengths = records.lengths
    # Items come from the rows; the draft of a table contains nothing that does.
    domain = replace(records.domain, origin="drafted") if source.items_assumed_public else records.domain
    if drafted is not None:
        origin = "judged" if domain.sequence is None else drafted.domain.origin
        domain = replace(domain, origin=origin, missing_texts=drafted.domain.missing_texts)
    if draft_domain is not None:
        note = _ITEMS_NOTE if drafted is None else _TABLE_NOTE
        note += _PERIOD_NOTE if drafted is not None and domain.origin == "drafted" else ""
        if drafted is not None and drafted.orders:
            note += _ORDERS_NOTE + "\n".join(f"- {rule}" for rule in drafted.orders)
            note += "".join(f"\n{suggest_after(first, last)}" for last, first in drafted.follows)
        save_domain(domain, draft_domain, note=note, force=force)
    draft = Drafted(domain) if drafted is None else replace(drafted, domain=domain)
    return Inspection(
        **vars(draft),
        file=os.fspath(path) if len(files) > 1 else str(files[0]),
        source=source,
        domain_is_draft=drafted is not None or source.items_assumed_public,
        records=len(records),
        empty=int((lengths == 0).sum()),
        mean_length=float(lengths.mean()),
        median_length=float(np.median(lengths)),
        longest=int(lengths.max()),
        held_by_one=held_by_one(records),
        unread=guess.unread,
        dim_images=tuple(dim_image_warnings(records)),
    )


def _drafted_from_events(
    files: Sequence[Input], options: ReadOptions, drop: Sequence[str], kinds: Mapping[str, str] | None
) -> tuple[ReadOptions, Drafted]:
    """The options, with the domain drafted from rows of events, and the draft."""
    named = (options.person, str(options.item), options.time)
    events = EventColumns(*named, options.period, options.item_separator)
    as_table = replace(options, shape="wide", item=None, time=None, period=None)
    guess = format_of(files[0], as_table).guess(files[0], as_table)
    drafted = draft_events(
        lambda: open_files(files, guess.options, guess),
        events,
        options.missing,
        options.number_style,
        drop=drop,
        kinds=kinds,
    )
    missing = (*options.missing, *(text for text, *_ in drafted.gaps))
    shape = "long" if drafted.domain.layout.shape == "long" else "wide"  # type: ignore[union-attr]
    return replace(options, domain=drafted.domain, shape=shape, period=None, missing=missing), drafted


def draft_frame(
    data: object,
    *,
    drop: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    person: str | None = None,
    item: str | None = None,
    time: str | None = None,
    period: str | None = None,
) -> Domain:
    """A domain drafted from a frame, by the rules of `inspect_file`, for its curator."""
    data = checked_frame(data)
    if not is_frame(data) or not column_names(data):
        raise UsageError(
            "a domain is drafted from a frame of pandas, polars or pyarrow that has columns; `dpgm.inspect_file` reads"
            " files."
        )
    stream = frame_stream(data)
    if person is not None:
        stream.required(person, "person")
    if person is not None and item is not None:
        events = EventColumns(person, item, time, period)
        return draft_events(lambda: frame_stream(data), events, (), PLAIN_NUMBERS, drop=drop, kinds=kinds).domain
    items = [name for name in stream.names if name != person]
    if len(items) > 1 and not drop and not kinds:
        chunks = list(stream.read(drafted_columns(stream)))
        if all(is_binary(flat_column(chunk.table, name)) for name in items for chunk in chunks):
            return Domain.of_items(items)
    drafted = draft_table(stream, person, (), PLAIN_NUMBERS, drop=drop, kinds=kinds)
    return replace(drafted.domain, origin="judged")


def dim_image_warnings(records: Records) -> Iterator[str]:
    """A warning for every field of grey images in which no pixel has the highest level."""
    for field, start in zip(records.domain.fields, records.domain.offsets, strict=True):
        image = field.image
        if image is None or image.levels == 2:
            continue
        brightest = 0
        for piece in records.pieces():
            positions = piece.indices[(piece.indices >= start) & (piece.indices < start + image.width)]
            if len(positions):  # those of the first level come first
                brightest = max(brightest, 1 + (int(positions.max()) - start) // image.pixels)
        if brightest < image.levels - 1:
            white = f"{image.white} is" if image.white else "255 (1.0 in files of floats) is"
            yield (
                f"dark       {image.name}: no pixel is brighter than level {brightest} of 0 to {image.levels - 1},"
                f" where {white} white; if a lower value is, state it in the line of {image.name}, such as `white: 16`"
            )


def held_by_one(records: Records) -> int:
    """How many items and category values occur in exactly one record. For the curator only; not to be stored."""
    counts = np.zeros(records.width, dtype=np.int64)
    for chunk in records.pieces():
        counts += np.bincount(chunk.indices, minlength=records.width)
    total = 0
    for field, start in zip(records.domain.fields, records.domain.offsets, strict=True):
        if field.lists_values:
            total += int(np.count_nonzero(counts[start : start + len(field.labels)] == 1))
    return total


def rarity_warning(records: Records) -> str | None:
    """A warning for the curator if items or values of a domain taken from the data occur in one record only."""
    unique = held_by_one(records)
    if not unique:
        return None
    return (
        f"{unique:,} of the {records.width:,} items or values of the domain are held by one person only, and the domain"
        " is published: make sure that all of them are public knowledge (curator only: this number is stored nowhere)"
    )
