"""Text with a record a line, its items separated: FIMI files and comma-separated baskets."""

import csv

import numpy as np

from dpgm.data.delimited import split_cells
from dpgm.data.domain import MAX_WIDTH
from dpgm.data.gathering import BasketGatherer
from dpgm.data.items import Place, parse_integers, refuse_negative
from dpgm.data.lines import TextBlock, blocks_of
from dpgm.data.opening import Input
from dpgm.data.records import Records
from dpgm.data.shapes import goal_for
from dpgm.data.source import Reading, Source
from dpgm.data.tokens import integer_tokens
from dpgm.errors import InputError, UsageError


def read_basket_lines(
    source: Input, reading: Reading, separator: str, *, integers: bool, quoted: bool
) -> tuple[Records, Source]:
    """A record a line, its items separated; a blank line is a record without items."""
    if reading.person is not None or reading.item is not None:
        raise UsageError(f"{source}: lines of items have no columns; leave out --person and --item.")
    gatherer = BasketGatherer(goal_for(reading, str(source)))
    for block in blocks_of(source, quoted=quoted):
        add_basket_block(gatherer, block, separator, integers=integers, comment=reading.comment)
    records = gatherer.finish(str(source))
    if not len(records):
        raise InputError(f"{source}: holds no records; give a file with at least one.")
    return records, Source("row", reading.domain is None, "basket")


def add_basket_block(
    gatherer: BasketGatherer, block: TextBlock, separator: str, *, integers: bool, comment: str | None = None
) -> None:
    """Append the lines of a block: by whole arrays where they hold numbers only, else cell by cell."""
    import pyarrow as pa

    text, kept = block.text, None
    if comment is not None:
        rows = block.rows()
        kept = [at for at, row in enumerate(rows) if not row.startswith(comment.encode())]
        text = b"".join(rows[at] + b"\n" for at in kept)

    def place_of_row(row: int) -> str:
        return block.place(row if kept is None else kept[row])

    parsed = integer_tokens(text, separator)
    if parsed is not None:
        values, lengths = parsed
    else:
        rows = block.rows()
        rows = rows if kept is None else [rows[at] for at in kept]
        cells = [_items_of(row, separator, block.quoted, at, place_of_row) for at, row in enumerate(rows)]
        lengths = np.fromiter((len(row) for row in cells), dtype=np.int64, count=len(cells))
    ends = np.cumsum(lengths)

    def place(at: int) -> str:
        return place_of_row(int(np.searchsorted(ends, at, side="right")))

    items = gatherer.goal.items
    if parsed is not None:
        codes = items.from_integers(values, place)
    else:
        texts = pa.array([cell for row in cells for cell in row], type=pa.string())
        if integers:
            numbers = parse_integers(texts, place)
            refuse_negative(numbers, place)
            codes = items.from_integers(numbers, place)
        else:
            codes = items.from_texts(texts, place)
    keep = codes >= 0
    if not keep.all():
        rows_of = np.repeat(np.arange(len(lengths)), lengths)[keep]
        codes, lengths = codes[keep], np.bincount(rows_of, minlength=len(lengths))
    gatherer.add(codes, lengths)


def _items_of(row: bytes, separator: str, quoted: bool, at: int, place: Place) -> list[str]:
    if not row:
        return []
    if not quoted:
        return row.decode().split() if separator == " " else row.decode().split(separator)
    try:
        cells = split_cells(row, separator)
    except csv.Error:
        raise InputError(f"{place(at)}: a cell is longer than 128 kB; correct the file.") from None
    if len(cells) > MAX_WIDTH:
        raise InputError(f"{place(at)}: has more than {MAX_WIDTH:,} items; correct the file.")
    if not all(cells):
        raise InputError(f"{place(at)}: an item is empty; correct the file.")
    return cells
