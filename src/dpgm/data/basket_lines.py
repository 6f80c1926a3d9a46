"""Text with one record per line, its items separated: FIMI files and comma-separated baskets."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpgm.data.columns import split_lists
from dpgm.data.domain import MAX_WIDTH
from dpgm.data.gathering import BasketGatherer
from dpgm.data.header import cells_of
from dpgm.data.items import Place, parse_integers, refuse_joined, refuse_negative
from dpgm.data.layout import Layout
from dpgm.data.lines import TextBlock, blocks_of
from dpgm.data.opening import Input
from dpgm.data.options import ReadOptions
from dpgm.data.records import Records
from dpgm.data.shapes import goal_for
from dpgm.data.source import Source
from dpgm.data.tokens import integer_tokens, text_tokens
from dpgm.errors import InputError, UsageError

if TYPE_CHECKING:
    import pyarrow

_MARKS = (b'"', b",", b";", b"|", b"\t")


def read_basket_lines(
    source: Input, options: ReadOptions, separator: str, *, integers: bool
) -> tuple[Records, Source]:
    """One record per line, its items separated; a blank line is a record without items.

    With `integers` items are numbers whatever the domain (FIMI); else they are texts, and `01` is not `1` unless
    the domain lists numbers.
    """
    if options.person is not None or options.item is not None:
        raise UsageError(f"{source}: lines of items have no columns; leave out --person and --item.")
    gatherer = BasketGatherer(goal_for(options, str(source)), options.room)
    for block in blocks_of(source, quoted=not integers, encoding=options.encoding):
        add_basket_block(gatherer, block, separator, integers=integers, options=options)
    records = gatherer.finish(str(source))
    if not len(records):
        raise InputError(f"{source}: holds no records; give a file with at least one.")
    return records, Source("row", options.domain is None, "basket", Layout("basket"))


def add_basket_block(
    gatherer: BasketGatherer, block: TextBlock, separator: str, *, integers: bool, options: ReadOptions
) -> None:
    """Append the lines of a block: by whole arrays where they are plain, else cell by cell; with the same result."""
    import pyarrow as pa

    text, kept = block.text, None
    if options.comment is not None:
        rows = block.rows()
        kept = [at for at, row in enumerate(rows) if not row.startswith(options.comment.encode())]
        text = b"".join(rows[at] + b"\n" for at in kept)

    def place_of_row(row: int) -> str:
        return block.place(row if kept is None else kept[row])

    items = gatherer.goal.items
    numbers = integers or items.integers
    parsed = integer_tokens(text, separator) if numbers and options.item_separator is None else None
    if parsed is not None:
        values, lengths = parsed
        cells = None
    else:
        plain = None if integers else text_tokens(text, separator)
        if plain is not None:
            cells, lengths = plain
        else:
            rows = block.rows()
            rows = rows if kept is None else [rows[at] for at in kept]
            found = [_items_of(row, separator, block.quoted, at, place_of_row) for at, row in enumerate(rows)]
            lengths = np.fromiter((len(row) for row in found), dtype=np.int64, count=len(found))
            cells = pa.array([cell for row in found for cell in row], type=pa.string())
        if options.item_separator:
            cells, lengths = _split_again(cells, lengths, options.item_separator)
    if len(lengths) and lengths.max() > MAX_WIDTH:
        raise InputError(
            f"{place_of_row(int(lengths.argmax()))}: has more than {MAX_WIDTH:,} items; correct the file."
        )
    ends = np.cumsum(lengths)

    def place(at: int) -> str:
        return place_of_row(int(np.searchsorted(ends, at, side="right")))

    if cells is None:
        codes = items.from_integers(values, place)
    elif integers:
        whole = parse_integers(cells, place)
        refuse_negative(whole, place)
        codes = items.from_integers(whole, place)
    else:
        marked = any(mark in text for mark in _MARKS if mark != separator.encode())
        if marked and options.item_separator is None and not items.integers:
            refuse_joined(cells, items, place)
        codes = items.from_texts(cells, place)
    keep = codes >= 0
    if not keep.all():
        rows_of = np.repeat(np.arange(len(lengths)), lengths)[keep]
        codes, lengths = codes[keep], np.bincount(rows_of, minlength=len(lengths))
    gatherer.add(codes, lengths)


def _split_again(
    cells: "pyarrow.Array", lengths: NDArray[np.int64], separator: str
) -> "tuple[pyarrow.Array, NDArray[np.int64]]":
    """The items of cells that hold several, and how many there are in each line."""
    import pyarrow.compute as pc

    lists = split_lists(cells, separator, lambda at: "")
    items = lists.flatten()
    row_of = np.repeat(np.arange(len(lengths)), lengths)
    several = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    present = items.is_valid().to_numpy(zero_copy_only=False)
    rows = np.repeat(row_of, several)[present]
    return items.drop_null(), np.bincount(rows, minlength=len(lengths))


def _items_of(row: bytes, separator: str, quoted: bool, at: int, place: Place) -> list[str]:
    if not row.strip():
        return []
    if not quoted:
        return row.decode().split() if separator == " " else row.decode().split(separator)
    cells = cells_of(row, separator, lambda: place(at))
    if not all(cells):
        raise InputError(f"{place(at)}: an item is empty; correct the file.")
    return cells
