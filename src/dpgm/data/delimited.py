"""Delimited text as tables of columns, all of them texts."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpgm.data.chunks import Chunk, Columns
from dpgm.data.header import RowLayout, layout_of
from dpgm.data.items import Place
from dpgm.data.lines import MARK, TextBlock, blocks_of
from dpgm.data.opening import Input
from dpgm.data.options import ReadOptions
from dpgm.data.source import Shape
from dpgm.errors import InputError, UsageError

if TYPE_CHECKING:
    import pyarrow


def is_kept(row: bytes, comment: str | None) -> bool:
    """Whether a row is neither blank nor a comment."""
    return bool(row) and not (comment is not None and row.startswith(comment.encode()))


def holds_lines_of_items(options: ReadOptions) -> bool:
    """Whether rows are lists of items without columns: baskets where no header or column is spoken of."""
    return options.shape == "basket" and not options.header and options.item is None and options.person is None


def delimited_columns(source: Input, options: ReadOptions, default: str, *, is_table: bool = False) -> Columns:
    """A delimited file as named columns; with `is_table` they are fields of a table, even without a domain."""
    first, place = _first_row(source, options)
    if options.stated_shape is None and not options.header and not _zeros_and_ones(first, options, default):
        raise UsageError(
            f"{source}: the shape is not clear; say `--shape basket` (one row per record, a list of items), `--shape"
            " wide` (one 0/1 column per item), --person and --item (one row per person and item), or, for a table,"
            " draft its domain with `dpgm inspect FILE --draft-domain domain.yaml`, read it and give it with --domain."
        )
    layout = layout_of(first, options, default, place, is_table=is_table)
    shape: Shape | None = "wide" if options.stated_shape is None and not layout.header else None
    return Columns(str(source), layout.names, (), _chunks(source, options, layout), layout.certain, shape=shape)


def _zeros_and_ones(row: bytes, options: ReadOptions, default: str) -> bool:
    """Whether a first line is a record of 0/1 columns and can be nothing else: names would have to differ."""
    cells = [cell.strip() for cell in row.split((options.separator or default).encode())]
    return len(cells) > 2 and set(cells) <= {b"0", b"1"}


def _first_row(source: Input, options: ReadOptions) -> tuple[bytes, str]:
    """The first row that is not left out, and where it is."""
    for block in blocks_of(source, quoted=True, encoding=options.encoding, skip_lines=options.skip_lines):
        for at, row in enumerate(block.rows()):
            if is_kept(row, options.comment):
                return row, block.place(at)
    raise InputError(f"{source}: holds no records; give a file with at least one.")


def _chunks(source: Input, options: ReadOptions, layout: RowLayout) -> Iterator[Chunk]:
    skip_header, comment = layout.header, options.comment
    wanted = _wanted(layout.names, options)
    for block in blocks_of(source, quoted=True, encoding=options.encoding, skip_lines=options.skip_lines):
        text, kept = block.text, None
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
        yield Chunk(_parse(text, count, layout.names, wanted, layout.separator, place), place)


def _wanted(names: tuple[str, ...], options: ReadOptions) -> list[str]:
    """The columns that will be looked at; the rest is not unpacked."""
    if len(set(names)) < len(names):
        return list(names)
    chosen = {options.person, options.item, options.count} - {None}
    if options.item is not None and options.person is not None:
        return [name for name in names if name in chosen] or list(names)
    if options.table_domain is not None:
        chosen |= {field.name for field in options.table_domain.fields}
        return [name for name in names if name in chosen] or list(names)
    return list(names)


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

    if text.startswith(MARK):
        text = MARK + text  # the parser drops one at the start of what it gets
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
