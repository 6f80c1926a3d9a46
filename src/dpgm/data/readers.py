"""Reading records from a file, whatever its format and shape."""

import os
from collections.abc import Sequence

from dpgm.data.arrays import is_idx, read_idx, read_npy, read_npz, refuse_labels
from dpgm.data.basket_lines import read_basket_lines
from dpgm.data.chunks import Columns, joined
from dpgm.data.delimited import DelimitedFile
from dpgm.data.domain import Domain
from dpgm.data.domain_file import load_domain
from dpgm.data.formats import check_shape, format_of
from dpgm.data.json_lines import json_columns
from dpgm.data.lines import first_block
from dpgm.data.opening import Input, locate
from dpgm.data.parquet import parquet_columns
from dpgm.data.records import Records
from dpgm.data.shapes import read_columns
from dpgm.data.source import Reading, Source
from dpgm.data.web_logs import looks_like_msnbc, looks_like_msweb, read_msnbc, read_msweb
from dpgm.errors import InputError, UsageError

Paths = str | os.PathLike[str]


def read_source(
    path: Paths | Sequence[Paths],
    *,
    domain: Domain | Paths | None = None,
    assume_public_items: bool = False,
    format: str | None = None,
    shape: str | None = None,
    person: str | None = None,
    item: str | None = None,
    count: str | None = None,
    threshold: float | None = None,
    labels: Paths | None = None,
    member: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    missing: Sequence[str] = (),
    comment: str | None = None,
    strip_suffix: str = "",
) -> tuple[Records, Source]:
    """Records of a file, and the facts about the reading that a certificate must state.

    Args:
        path: The file (`archive.zip::member` for one in a zip), or several files of one table.
        domain: The public domain, or the YAML or JSON file of it.
        assume_public_items: Declare that the set of items occurring in the file is public knowledge.
        format: Only where the ending does not tell: `parquet`, `csv`, `tsv`, `jsonl`, `fimi`, `npz`, `npy`, `idx`,
            `msweb` or `msnbc`.
        shape: `basket` (a row a record, a list of items), `long` (a row a person and item) or `wide` (a column a
            field, or a 0/1 column an item); detected where only one is possible.
        person: The column of persons. In the long shape their rows are grouped; in the others it must be distinct.
        item: The column of items (long) or of lists of items (basket).
        count: In the long shape, a column of counts: 0 means that the item is not there.
        threshold: For numbers where 0 and 1 are expected: above it means present (idx images: 127).
        labels: For idx images, the idx file of their labels; they become a field named `label`.
        member: The file to read within a .zip.
        separator: The character between cells (guessed from the first line otherwise).
        header: Whether the first line names the columns (guessed only for 0/1 columns; assumed otherwise).
        missing: Texts that stand for a missing value, besides the empty cell.
        comment: Lines that start with this text are left out.
        strip_suffix: Taken off the end of category values, such as a dot.

    Raises:
        InputError: the file cannot be read as asked.
        UsageError: the items are not declared public, or the shape is not clear.
    """
    reading = reading_from(
        domain=domain,
        assume_public_items=assume_public_items,
        format=format,
        shape=shape,
        person=person,
        item=item,
        count=count,
        threshold=threshold,
        labels=labels,
        member=member,
        separator=separator,
        header=header,
        missing=missing,
        comment=comment,
        strip_suffix=strip_suffix,
    )
    if isinstance(path, (str, os.PathLike)):
        return read_with(locate(path, member), reading)
    files = [locate(one, member) for one in path]
    if not files:
        raise UsageError("no file to read; give at least one.")
    if len(files) == 1:
        return read_with(files[0], reading)
    return read_columns(joined(columns_of(file, reading) for file in files), reading)


def read_records(
    path: Paths | Sequence[Paths],
    *,
    domain: Domain | Paths | None = None,
    assume_public_items: bool = False,
    format: str | None = None,
    shape: str | None = None,
    person: str | None = None,
    item: str | None = None,
    count: str | None = None,
    threshold: float | None = None,
    labels: Paths | None = None,
    member: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    missing: Sequence[str] = (),
    comment: str | None = None,
    strip_suffix: str = "",
) -> Records:
    """Records of a file; see `read_source`, which also tells how they were read."""
    records, _ = read_source(
        path,
        domain=domain,
        assume_public_items=assume_public_items,
        format=format,
        shape=shape,
        person=person,
        item=item,
        count=count,
        threshold=threshold,
        labels=labels,
        member=member,
        separator=separator,
        header=header,
        missing=missing,
        comment=comment,
        strip_suffix=strip_suffix,
    )
    return records


def reading_from(
    *,
    domain: Domain | Paths | None,
    assume_public_items: bool,
    format: str | None,
    shape: str | None,
    person: str | None,
    item: str | None,
    count: str | None,
    threshold: float | None,
    labels: Paths | None,
    member: str | None,
    separator: str | None,
    header: bool | None,
    missing: Sequence[str],
    comment: str | None,
    strip_suffix: str,
) -> Reading:
    """What the user says about a file, checked; a domain file is loaded."""
    if domain is not None and not isinstance(domain, Domain):
        domain = load_domain(domain)
    if isinstance(missing, str):
        raise UsageError("`missing` must be a list of texts that stand for a missing value.")
    return Reading(
        domain=domain,
        assume_public_items=assume_public_items,
        format=format,
        shape=check_shape(shape),
        person=person,
        item=item,
        count=count,
        threshold=threshold,
        labels=None if labels is None else os.fspath(labels),
        member=member,
        separator=separator,
        header=header,
        missing=tuple(missing),
        comment=comment,
        strip_suffix=strip_suffix,
    )


def format_name(source: Input, reading: Reading) -> str:
    """The format, from its ending and, for text that several formats share, its first line."""
    name = format_of(source.name, reading.format).name
    if reading.format is None and name in ("csv", "msnbc"):
        first_row = first_block(source, quoted=False).text.split(b"\n", 1)[0]
        if looks_like_msweb(first_row):
            return "msweb"
        if looks_like_msnbc(first_row):
            return "msnbc"
    return name


def read_with(source: Input, reading: Reading) -> tuple[Records, Source]:
    """Records of one file, read as said."""
    name = format_name(source, reading)
    if name == "idx":
        if not is_idx(source):
            raise InputError(f"{source}: is not an idx file of images; get it again.")
        return read_idx(source, reading)
    refuse_labels(source, reading)
    if name == "npz":
        return read_npz(source, reading)
    if name == "npy":
        return read_npy(source, reading)
    if name == "msweb":
        return read_msweb(source, reading)
    if name == "msnbc":
        return read_msnbc(source, reading)
    if name == "fimi":
        if reading.shape not in (None, "basket"):
            raise UsageError(f"{source}: FIMI files hold baskets; leave out the shape.")
        return read_basket_lines(source, reading, " ", integers=True, quoted=False)
    if name in ("csv", "tsv"):
        file = DelimitedFile(source, reading, "\t" if name == "tsv" else ",")
        if file.is_baskets():
            return read_basket_lines(source, reading, file.separator, integers=False, quoted=True)
        return read_columns(file.columns(), reading)
    return read_columns(columns_of(source, reading), reading)


def columns_of(source: Input, reading: Reading) -> Columns:
    """A file as named columns."""
    name = format_name(source, reading)
    if name == "parquet":
        return parquet_columns(source, reading)
    if name == "jsonl":
        return json_columns(source)
    if name in ("csv", "tsv"):
        return DelimitedFile(source, reading, "\t" if name == "tsv" else ",").columns()
    raise UsageError(f"{source}: several files can be read together only as Parquet, CSV or JSON lines.")
