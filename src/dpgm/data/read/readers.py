"""Reading the records of a file of any format and shape, or one process's share of them.

With `discover` values may still be unknown: item sets without a list of items, tables with no more than a schema. Names
and kinds of columns come from the user, the domain file or the schema of a Parquet file or frame, never from values.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np
import pyarrow as pa

from dpgm.data.domain import Domain, Ignored
from dpgm.data.formats import Guess, format_of, located, refuse_options
from dpgm.data.formats.opening import Input
from dpgm.data.kinds import column_of_type
from dpgm.data.layouts import Source
from dpgm.data.person_columns import person_advice
from dpgm.data.read.declared import Paths
from dpgm.data.read.keywords import ReadKeywords
from dpgm.data.read.options import ReadOptions, options_from
from dpgm.data.read.shapes import read_stream
from dpgm.data.records import Records
from dpgm.data.stream import RowStream, join_streams
from dpgm.errors import PrivacyWarning, UsageError

_DRAFT_ADVICE = (
    "draft its domain with `dpgm inspect FILE --shape wide --draft-domain domain.yaml` and give it as `domain`"
)
_NOT_MODELLED = (
    "of a type that cannot be modelled, so samples do not have it; turn it into numbers, texts or dates (a duration"
    " into seconds) to keep it."
)
_IDENTIFIER = (
    "an identifier, as its name says, so samples carry fresh ones; to have it modelled, give the column another name"
    " or state a domain."
)


def read_source(
    path: Paths | Sequence[Paths], options: ReadOptions | None = None, **keywords: Unpack[ReadKeywords]
) -> tuple[Records, Source]:
    """Records of a file, and the facts about how they were read that a certificate must state.

    Args:
        path: The file (`archive.zip::member` for one in a zip), a folder of Parquet files, or several files of one
            table.
        options: How it is read.
        keywords: Single fields of `ReadOptions`, which replace those of `options`.

    Raises:
        InputError: the file cannot be read with these options.
        UsageError: the items are not declared public, or the shape is not clear.
    """
    options = options_from(options, **keywords)
    stream = open_files(located(path, options.member), options)
    options = with_schema_domain(stream, options)
    _warn_of_unread_columns(stream, options)
    records, source = read_stream(stream, options, _attributes(options))
    warn_of_persons(stream, source)
    return records, source


def _attributes(options: ReadOptions) -> RowStream | None:
    """The rows of the file with the attributes of persons, if there is one."""
    if options.persons is None:
        return None
    domain = options.public_domain
    if domain is None or domain.sequence is None or len(domain.fields) == 1:
        raise UsageError(
            "`persons` has attributes of persons; list them in a `domain`, beside a field of kind `sequence`."
        )
    fields = tuple(field for field in domain.fields if field is not domain.sequence)
    table = replace(domain, fields=fields, unread=(), constraints=(), label=None, layout=None)
    own = dict.fromkeys(("item", "time", "persons", "count", "format", "member"))
    chosen = replace(options, domain=table, shape="wide", **own)  # type: ignore[arg-type]
    return open_files(located(options.persons), chosen)


def warn_of_persons(stream: RowStream, source: Source) -> None:
    """Warn if columns are named like identifiers of persons, and none is stated to be one."""
    if source.like_persons:
        warnings.warn(f"{stream.name}: {person_advice(source.like_persons)}.", PrivacyWarning, stacklevel=3)


def read_records(
    path: Paths | Sequence[Paths], options: ReadOptions | None = None, **keywords: Unpack[ReadKeywords]
) -> Records:
    """Records of a file; see `read_source`, which also returns how they were read.

    A fit that shall protect all rows of a person needs that, too: `fit(records, source=source)`.
    """
    records, source = read_source(path, options, **keywords)
    if source.rows_per_person > 1:
        warnings.warn(
            "records alone do not say whose rows they are, and a fit of them protects each row by itself; read them"
            " with `read_source` and pass its source to `fit` to protect all rows of a person.",
            PrivacyWarning,
            stacklevel=2,
        )
    return records


def open_files(files: Sequence[Input], options: ReadOptions, draft: Guess | None = None) -> RowStream:
    """The rows of one file, or of several with the same columns; for a `draft` those of a table without a domain."""
    return join_streams(_open(file, options, draft) for file in files)


def _open(file: Input, options: ReadOptions, draft: Guess | None) -> RowStream:
    format = format_of(file, options)
    refuse_options(format, file, options)
    return format.stream(file, options, draft)


def with_schema_domain(stream: RowStream, options: ReadOptions) -> ReadOptions:
    """The options; with `discover`, with the domain of a table's schema, where types are stated.

    A list column with nothing beside it that can be modelled is an item set, and so are boolean columns alone.
    """
    if not (options.discover and stream.typed and options.public_domain is None) or options.item is not None:
        return options
    modelled = [
        entry.name
        for entry in stream.schema
        if entry.name != options.person and column_of_type(entry.name, entry.type).is_read
    ]
    only_lists = len(modelled) == 1 and modelled[0] in stream.lists
    if options.stated_shape in ("basket", "long") or only_lists or set(stream.names) <= set(stream.booleans):
        return options
    domain = domain_of_schema(stream.schema, person=options.person)
    domain = replace(domain, origin="judged") if stream.inferred else domain
    return replace(options, domain=domain, shape="wide", discover=False)


def _warn_of_unread_columns(stream: RowStream, options: ReadOptions) -> None:
    """Warn if only a list of items will be read, although neither the options nor a domain say so.

    Messages must not depend on rows, and the members of JSON objects are known from rows only: for JSON the warning is
    always given.
    """
    if options.domain is not None or options.stated_shape is not None or options.item is not None:
        return
    if stream.more_columns:
        warning = (
            f"of JSON objects the only list is read, as a set of items, and no other member; to have a table of all of"
            f" them, {_DRAFT_ADVICE}; if the lists are all you want, say `shape='basket'`"
        )
    else:
        others = [repr(one) for one in stream.names if one not in (*stream.lists, options.person)]
        if options.discover or len(stream.lists) != 1 or not others:
            return
        warning = (
            f"only the lists of {stream.lists[0]!r} are read; left out: {', '.join(others)}; to have a table of all"
            f" columns, {_DRAFT_ADVICE}; if the lists are all you want, say `shape='basket'`"
        )
    warnings.warn(f"{stream.name}: {warning}.", UserWarning, stacklevel=3)


def domain_of_schema(schema: pa.Schema, *, person: str | None = None) -> Domain:
    """An open domain from names and types of columns; warns of types that cannot be modelled. `person` is ignored.

    >>> import pyarrow as pa
    >>> [field.kind for field in domain_of_schema(pa.schema({"age": pa.int64(), "ward": pa.string()})).fields]
    ['numeric', 'categorical']
    """
    columns = [
        Ignored(entry.name) if entry.name == person else column_of_type(entry.name, entry.type) for entry in schema
    ]
    if not any(column.is_read for column in columns):
        raise UsageError("no column has a type that can be modelled; state a domain.")
    for in_samples, reason in ((False, _NOT_MODELLED), (True, _IDENTIFIER)):
        unread = [one for one in columns if not one.is_read and one.name != person]
        names = [repr(one.name) for one in unread if one.in_samples == in_samples]
        if names:
            warnings.warn(f"{', '.join(names)}: {reason}", UserWarning, stacklevel=3)
    return Domain.of_columns(columns)


# -- shares of several processes -------------------------------------------------------------------------------------


def read_share(
    path: Paths | Sequence[Paths], options: ReadOptions, share: int, shares: int
) -> tuple[Records, Source]:
    """Share number `share` out of `shares` of the records of a file, or of a folder of Parquet files.

    Of files with a closed domain that have parts, a process reads only its own. Anything else is read whole by every
    process, which then keeps its own rows: the items of a file, or the rows of a person, may be anywhere in it.
    """
    if shares == 1:
        return read_source(path, options)
    if options.rows_per_person is not None:
        raise UsageError("`rows_per_person` chooses rows by a secret order of one process; fit with one process.")
    files = located(path, options.member)
    closed = options.public_domain is not None and not options.public_domain.is_open
    rows_are_records = options.stated_shape != "long" and options.person is None
    groups = _groups(files, options) if closed and rows_are_records else []
    if len(groups) < shares:
        records, source = read_source(files, options)
        return records.rows(len(records) * share // shares, len(records) * (share + 1) // shares), source
    mine = _share_of(groups, share, shares)
    selected = mine or groups[:1]  # a process without rows still needs the columns
    stream = join_streams(
        format_of(file, options).stream_of_parts(
            file, options, [number for one, number, _ in selected if one == file]
        )
        for file in dict.fromkeys(one for one, _, _ in selected)
    )
    records, source = read_stream(stream, options)
    return (records if mine else records.rows(0, 0)), source


def _groups(files: Sequence[Input], options: ReadOptions) -> list[tuple[Input, int, int]]:
    """File, number and size of every part that is not empty; none if a file has no parts."""
    parts = [(file, format_of(file, options).parts(file)) for file in files]
    if not all(sizes for _, sizes in parts):
        return []
    return [(file, number, rows) for file, sizes in parts for number, rows in enumerate(sizes) if rows]


def _share_of(groups: Sequence[tuple[Input, int, int]], share: int, shares: int) -> list[tuple[Input, int, int]]:
    """The parts whose middle falls into this share of all rows."""
    sizes = np.array([rows for _, _, rows in groups])
    owners = (np.cumsum(sizes) - sizes / 2) * shares // sizes.sum()
    return [group for group, owner in zip(groups, owners, strict=True) if owner == share]
