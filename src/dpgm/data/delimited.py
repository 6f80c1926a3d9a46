"""Delimited text as tables of columns, and what its first rows show."""

import csv
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpgm.data.chunks import Chunk, Columns, plain_name
from dpgm.data.formats import set_field
from dpgm.data.items import Place
from dpgm.data.lines import TextBlock, blocks_of, first_block
from dpgm.data.opening import Input
from dpgm.data.source import Reading
from dpgm.errors import InputError, UsageError

if TYPE_CHECKING:
    import pyarrow

_SEPARATORS = (",", ";", "\t", "|")
_MAX_COLUMNS = 100_000


def split_cells(row: bytes, separator: str) -> list[str]:
    """The cells of one row."""
    text = row.decode()
    return next(csv.reader(io.StringIO(text, newline=""), delimiter=separator), [])


def is_kept(row: bytes, comment: str | None) -> bool:
    """Whether a row is neither blank nor a comment."""
    return bool(row) and not (comment is not None and row.startswith(comment.encode()))


class DelimitedFile:
    """What the first rows of a delimited file show."""

    def __init__(self, source: Input, reading: Reading, default: str) -> None:
        self.source, self.reading = source, reading
        block = first_block(source, quoted=True)
        rows = [row for row in block.rows()[:2000] if is_kept(row, reading.comment)]
        if not rows and reading.shape == "basket":  # blank lines are records without items
            rows = [b""]
        if not rows:
            raise InputError(f"{source}: holds no records; give a file with at least one.")
        self.separator = reading.separator or _guess_separator(rows[0], default)
        try:
            self.head = [split_cells(row, self.separator) for row in rows]
        except csv.Error:
            raise InputError(
                f"{source}: line 1 or after: a cell is longer than 128 kB; correct the file."
            ) from None
        if len(self.head[0]) > _MAX_COLUMNS and reading.shape != "basket":
            raise InputError(
                f"{source}: line 1: has more than {_MAX_COLUMNS:,} columns; use the basket or long shape."
            )

    @property
    def ragged(self) -> bool:
        """Whether the first rows differ in their number of cells."""
        return len({len(row) for row in self.head}) > 1

    @property
    def binary(self) -> bool:
        """Whether the first rows, but perhaps a header, hold nothing but 0 and 1."""
        body = self.head[1:] if self.has_header else self.head
        return len(self.head[0]) > 1 and all(cell.strip() in ("0", "1") for row in body for cell in row)

    @property
    def has_header(self) -> bool:
        """Whether the first row names the columns."""
        if self.reading.header is not None:
            return self.reading.header
        cells = {cell.strip() for cell in self.head[0]}
        if not cells <= {"0", "1"}:
            return True
        field = None if self.reading.domain is None else set_field(self.reading.domain)
        if field is not None and cells == {str(label) for label in field.items}:
            raise UsageError(f"{self.source}: line 1 may be a header or a record; say --header or --no-header.")
        return False

    def is_baskets(self) -> bool:
        """Whether rows are baskets: as asked, or where nothing else can be meant."""
        reading = self.reading
        if reading.shape is not None:
            return reading.shape == "basket"
        if reading.person is not None or reading.item is not None or reading.header:
            return False
        if reading.domain is not None and set_field(reading.domain) is None:
            return False
        return self.ragged and not self.binary

    def column_names(self) -> tuple[str, ...]:
        """Names from the header, from the domain, or numbers from 0."""
        reading, count = self.reading, len(self.head[0])
        if self.has_header:
            if reading.domain is not None and set_field(reading.domain) is not None and reading.item is None:
                return tuple(self.head[0])  # items may have white space around them
            return tuple(plain_name(cell.strip()) for cell in self.head[0])
        domain = reading.domain
        if domain is not None and set_field(domain) is None:
            if len(domain.fields) != count:
                raise InputError(
                    f"{self.source}: line 1: has {count} cells, but the domain has {len(domain.fields)} fields and the"
                    " file no header; correct the domain, or name the columns in a header."
                )
            return tuple(field.name for field in domain.fields)
        if domain is not None and set_field(domain).width == count:  # type: ignore[union-attr]
            return tuple(str(label) for label in set_field(domain).items)  # type: ignore[union-attr]
        return tuple(str(at) for at in range(count))

    def columns(self) -> Columns:
        """The file as named columns."""
        names = self.column_names()
        certain = self.reading.header is not None or not self.has_header
        return Columns(str(self.source), names, (), self._chunks(names), certain)

    def _chunks(self, names: tuple[str, ...]) -> Iterator[Chunk]:
        skip_header = self.has_header
        wanted = _wanted(names, self.reading)
        for block in blocks_of(self.source, quoted=True):
            text, kept = block.text, None
            comment = self.reading.comment
            if b"\n\n" in text or text.startswith(b"\n") or comment is not None or skip_header:
                rows = block.rows()
                kept = [at for at, row in enumerate(rows) if is_kept(row, comment)]
                if skip_header and kept:
                    kept, skip_header = kept[1:], False
                text = b"".join(rows[at] + b"\n" for at in kept)
            if not text:
                continue

            def place(row: int, block: TextBlock = block, kept: list[int] | None = kept) -> str:
                return block.place(row if kept is None else kept[row])

            count = len(block.ends) if kept is None else len(kept)
            yield Chunk(_parse(text, count, names, wanted, self.separator, place), place)


def _wanted(names: tuple[str, ...], reading: Reading) -> list[str]:
    """The columns that will be looked at; the rest is not unpacked."""
    if len(set(names)) < len(names):
        return list(names)
    chosen = {reading.person, reading.item, reading.count} - {None}
    if reading.item is not None and reading.person is not None:
        return [name for name in names if name in chosen] or list(names)
    if reading.domain is not None and set_field(reading.domain) is None:
        chosen |= {field.name for field in reading.domain.fields}
        return [name for name in names if name in chosen] or list(names)
    return list(names)


def _guess_separator(row: bytes, default: str) -> str:
    if default == "\t":
        return default
    text = "".join(row.decode().split('"')[::2])  # outside of quotes
    counts = {mark: text.count(mark) for mark in _SEPARATORS}
    best = max(_SEPARATORS, key=lambda mark: counts[mark])
    return best if counts[best] > counts[default] else default


def _parse(
    text: bytes, rows: int, names: tuple[str, ...], wanted: list[str], separator: str, place: Place
) -> "pyarrow.Table":
    """The wanted columns of `rows` rows of text, all as texts."""
    import pyarrow as pa
    import pyarrow.csv

    ragged: list[tuple[int, int]] = []

    def note(row: object) -> str:
        ragged.append((row.number, row.actual_columns))  # type: ignore[attr-defined]
        return "skip"

    # Names as numbers: column names of the file may repeat, which is refused later with a better sentence.
    keys = {name: str(at) for at, name in enumerate(names)}
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(text),
            pyarrow.csv.ReadOptions(
                use_threads=False, block_size=len(text) + 1, column_names=[str(at) for at in range(len(names))]
            ),
            pyarrow.csv.ParseOptions(
                delimiter=separator, newlines_in_values=True, ignore_empty_lines=False, invalid_row_handler=note
            ),
            pyarrow.csv.ConvertOptions(
                column_types={key: pa.string() for key in keys.values()},
                include_columns=[keys[name] for name in wanted],
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )
    except pa.ArrowInvalid:
        raise InputError(
            f"{place(0)} or after: the text cannot be read as rows of cells; check its quotes."
        ) from None
    if table.num_rows + len(ragged) != rows:
        raise InputError(
            f"{place(0)} or after: a quotation mark stands within a cell; put the whole cell in quotes and double"
            " the mark."
        )
    if ragged:
        number, cells = ragged[0]
        raise InputError(
            f"{place(number - 1)}: has {cells} cells where {len(names)} are expected; correct the row, or say"
            " `--shape basket` if rows are lists of items."
        )
    return table.rename_columns(wanted)
