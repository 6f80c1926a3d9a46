"""Two public click logs in formats of their own: msweb (UCI, `C` and `V` lines) and msnbc (sequences)."""

import csv
import io
from collections.abc import Iterator

import numpy as np

from dpgm.data.domain import Domain, ItemSet
from dpgm.data.formats import Source
from dpgm.data.items import kept_codes
from dpgm.data.read.basket_lines import add_basket_block
from dpgm.data.read.gathering import BasketGatherer, ItemGoal
from dpgm.data.read.lines import TextBlock, blocks_of
from dpgm.data.read.opening import Input
from dpgm.data.read.options import ReadOptions
from dpgm.data.records import Records
from dpgm.errors import InputError

_SEQUENCES = b"% Sequences:"


def looks_like_msweb(first_row: bytes) -> bool:
    """Whether the first line is that of UCI's anonymous web data."""
    return first_row.startswith(b'I,4,"www.microsoft.com"')


def read_msweb(source: Input, options: ReadOptions) -> tuple[Records, Source]:
    """Visitors (`C` lines) and the areas they saw (`V` lines); the file's own list of areas (`A` lines) is public."""
    areas: dict[int, int] = {}
    goal: ItemGoal | None = ItemGoal(options.public_domain) if options.public_domain is not None else None
    lengths: list[int] = []
    votes: list[int] = []
    places: list[int] = []
    for line, row in _rows(source):
        kind = row[:2]
        try:
            if kind == b"A,":
                areas[_number(row)] = 0
            elif kind == b"C,":
                next(csv.reader(io.StringIO(row.decode())))
                lengths.append(0)
            elif kind == b"V,":
                votes.append(_number(row))
                lengths[-1] += 1
                places.append(line)
            elif kind not in (b"I,", b"T,", b"N,") and row.strip():
                raise ValueError
        except (ValueError, IndexError, csv.Error):
            raise InputError(
                f"{source}: line {line}: is not a line of the msweb format (A, C or V lines); correct the file."
            ) from None
    if not lengths:
        raise InputError(f"{source}: holds no visitors (C lines); give a file with at least one.")
    if goal is None:
        if not areas:
            raise InputError(f"{source}: lists no areas (A lines); give --domain FILE.")
        goal = ItemGoal(Domain((ItemSet("areas", tuple(sorted(areas))),)))
    codes = goal.items.from_integers(np.asarray(votes, dtype=np.int64), lambda at: f"{source}: line {places[at]}")
    gatherer = BasketGatherer(goal, options.room)
    gatherer.add(*kept_codes(codes, np.array(lengths)))
    return gatherer.finish(str(source)), Source("row", False, "basket")


def _number(row: bytes) -> int:
    digits = row.split(b",", 2)[1]
    if not digits.isdigit() or len(digits) > 18:
        raise ValueError
    return int(digits)


def _rows(source: Input) -> Iterator[tuple[int, bytes]]:
    line = 0
    for block in blocks_of(source, quoted=False):
        for row in block.rows():
            line += 1
            yield line, row


def read_msnbc(source: Input, options: ReadOptions) -> tuple[Records, Source]:
    """One line per visitor: the numbers (from 1) of the page categories seen, which the file's header names."""
    gatherer: BasketGatherer | None = None
    header: list[bytes] = []
    for block in blocks_of(source, quoted=False):
        if gatherer is None:
            rows = block.rows()
            start = next((at for at, row in enumerate(rows) if row.startswith(_SEQUENCES)), None)
            if start is None:
                raise InputError(f"{source}: the header ('% Sequences:') is missing; get the file again.")
            header = rows[:start]
            gatherer = BasketGatherer(ItemGoal(options.public_domain or _categories(header, source)), options.room)
            # Exactly one blank line follows the header; the next one would be a visitor who saw nothing.
            start += 1
            if start >= len(rows) or rows[start].strip():
                raise InputError(
                    f"{block.place(start - 1)}: the line after '% Sequences:' must be blank; get the file again."
                )
            cut = int(block.ends[start]) + 1
            block = TextBlock(block.text[cut:], block.line_of(start) + 1, block.file, False)
            if not block.text:
                continue
        add_basket_block(gatherer, block, " ", integers=True, options=options)
    if gatherer is None:
        raise InputError(f"{source}: holds no records; give a file with at least one.")
    return gatherer.finish(str(source)), Source("row", False, "basket")


def _categories(header: list[bytes], source: Input) -> Domain:
    for row in header:
        names = row.decode().split()
        if names and not row.startswith(b"%"):
            return Domain.of_items(range(1, len(names) + 1), "categories")
    raise InputError(f"{source}: the header does not list the categories; give --domain FILE.")
