"""JSON lines, or one JSON array: one object per row, or a bare list of items per record.

The members that are read come from the options and the domain; every value is read by itself, so that a row of
other types changes no other row.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from dpgm.data.domain import Image, ItemSet
from dpgm.data.formats import Shape
from dpgm.data.read.columns import Chunk, Columns
from dpgm.data.read.lines import UTF8, TextBlock, blocks_of
from dpgm.data.read.opening import Input, read_all
from dpgm.data.read.options import ReadOptions
from dpgm.data.values import Place, in_column, object_lists, object_texts
from dpgm.errors import InputError, UsageError

_BARE = "items"
_ROWS = 32_768  # at a time: a short line takes a hundred times its bytes as objects
_MAX_ARRAY = 1 << 30  # bytes of one array
_SPACE = re.compile(r"[ \t\r\n]*")
_Row = dict[str, Any]
_Piece = tuple[list[_Row | list[Any]], Place]
# How the values of a member become a column: values, the place of each row.
_Reader = Callable[[list[Any], Place], Any]


def json_columns(source: Input, options: ReadOptions, *, array: bool = False, draft: bool = False) -> Columns:
    """A file of JSON lines, or of one array, as named columns: those that the options and the domain name.

    For a `draft`, members of objects or of lists beside other values are columns of a type that is not modelled.
    """
    shape: Shape = options.stated_shape or "basket"
    members: dict[str, _Reader] = {}
    if options.person is not None:
        members[options.person] = object_texts
    if shape == "basket":
        members[options.item or _BARE] = object_lists
        lists: tuple[str, ...] = (options.item or _BARE,)
    elif shape == "long":
        lists = ()
        members |= {name: object_texts for name in (options.item, options.count) if name is not None}
        if options.item is not None:
            members[options.item] = _scalars_or_lists if options.item_separator is None else _texts_to_cut
    else:
        domain = options.public_domain
        if domain is None:
            raise UsageError(
                f"{source}: JSON lines in the wide shape need --domain FILE, which names their members."
            )
        lists = ()
        field = domain.item_set
        if field is not None:
            members |= {str(label): object_texts for label in field.items}
        else:
            for one in domain.fields:
                sets = isinstance(one, (ItemSet, Image))
                members[one.name] = object_lists if sets else object_texts
    if draft:
        members = {name: _any_type(read) for name, read in members.items()}
    pieces = array_elements(source, options.encoding) if array else line_elements(source, options.encoding)
    return Columns(
        str(source), tuple(members), lists, _chunks(source, pieces, options, shape, members), shape=shape
    )


def _any_type(read: _Reader) -> _Reader:
    """A reader that does not refuse values of other types: it makes a column of structures of them."""

    def reader(values: list[Any], where: Place) -> Any:
        try:
            return read(values, where)
        except InputError:
            return pa.nulls(len(values), pa.struct([]))

    return reader


def _scalars_or_lists(values: list[Any], where: Place) -> Any:
    """The items of the long shape: one per row, or several in a list."""
    if any(isinstance(value, list) for value in values):
        return object_lists(
            [value if isinstance(value, list) or value is None else [value] for value in values], where
        )
    for row, value in enumerate(values):
        if isinstance(value, bool) or (isinstance(value, (int, float)) and value < 0):
            raise InputError(
                f"{where(row)}: an item must be a text or a whole number that is not negative; correct the file."
            )
    return object_texts(values, where)


def _texts_to_cut(values: list[Any], where: Place) -> Any:
    """The items of the long shape, several in a text; a list beside them would change the type of the whole column."""
    for row, value in enumerate(values):
        if isinstance(value, list):
            raise InputError(
                f"{where(row)}: is a list, but --item-separator says that items are cut out of texts; leave one out."
            )
    return _scalars_or_lists(values, where)


def _refuse(_: str) -> None:
    raise ValueError


def _rows(block: TextBlock, first: int) -> tuple[list[_Row | list[Any]], list[int]]:
    """The objects and lists of some rows of a block, and the row of each."""
    rows: list[_Row | list[Any]] = []
    kept = []
    for at, line in enumerate(block.rows(first, first + _ROWS), start=first):
        if not line.strip():
            continue
        try:
            value = json.loads(line, parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise InputError(
                f"{block.place(at)}: is not a JSON object or list with finite numbers; correct the line."
            ) from None
        if not isinstance(value, (dict, list)):
            raise InputError(f"{block.place(at)}: is neither a JSON object nor a list; correct the line.")
        rows.append(value)
        kept.append(at)
    return rows, kept


def line_elements(source: Input, encoding: str) -> Iterator[_Piece]:
    """The rows of JSON lines, some at a time."""
    for block in blocks_of(source, quoted=False, encoding=encoding):
        for first in range(0, len(block.ends), _ROWS):
            rows, kept = _rows(block, first)
            if rows:
                yield rows, _line_places(block, kept)


def _line_places(block: TextBlock, kept: list[int]) -> Place:
    return lambda row: block.place(kept[row])


def array_elements(source: Input, encoding: str) -> Iterator[_Piece]:
    """The elements of one JSON array, some at a time; the text is held whole, the objects are not."""
    fault = f"{source}: is not one JSON array such as [{{...}}, {{...}}]; correct it, or save it as JSON lines."
    try:
        text = read_all(source, _MAX_ARRAY).decode("utf-8-sig" if encoding == UTF8 else encoding)
    except UnicodeError:
        raise InputError(f"{source}: is not {encoding} text; save it as UTF-8, or state its --encoding.") from None
    decoder = json.JSONDecoder(parse_constant=_refuse)
    at = _SPACE.match(text).end()  # type: ignore[union-attr]
    if text[at : at + 1] != "[":
        raise InputError(fault)
    at = _SPACE.match(text, at + 1).end()  # type: ignore[union-attr]
    ended, done = text[at : at + 1] == "]", 0
    rows: list[_Row | list[Any]] = []
    while not ended:
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            raise InputError(
                f"{source}: element {done + len(rows) + 1}: is not JSON with finite numbers; correct the file."
            ) from None
        if not isinstance(value, (dict, list)):
            raise InputError(
                f"{source}: element {done + len(rows) + 1}: is neither a JSON object nor a list; correct the file."
            )
        rows.append(value)
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        mark, at = text[at : at + 1], _SPACE.match(text, at + 1).end()  # type: ignore[union-attr]
        if mark not in ("]", ",") or not mark:
            raise InputError(fault)
        ended = mark == "]"
        if ended or len(rows) == _ROWS:
            yield rows, _element_places(str(source), done)
            done, rows = done + len(rows), []
    if not done:
        raise InputError(f"{source}: holds no records; give a file with at least one.")
    if _SPACE.match(text, at).end() != len(text):  # type: ignore[union-attr]
        raise InputError(fault)


def _element_places(file: str, first: int) -> Place:
    return lambda row: f"{file}: element {first + row + 1}"


def _chunks(
    source: Input, pieces: Iterator[_Piece], options: ReadOptions, shape: Shape, members: dict[str, _Reader]
) -> Iterator[Chunk]:
    field = options.item_set
    unseen = set(members)
    for rows, place in pieces:
        if shape == "basket":
            named = None if field is None else field.name
            objects = [_basket(row, options, named, place, at) for at, row in enumerate(rows)]
        else:
            for at, row in enumerate(rows):
                if isinstance(row, list):
                    raise InputError(f"{place(at)}: is a list where an object is expected; correct the line.")
            objects = rows  # type: ignore[assignment]
        if unseen:
            unseen -= {name for row in objects for name in row}
        columns = {
            name: read([row.get(name) for row in objects], in_column(place, name)) for name, read in members.items()
        }
        yield Chunk(pa.table(columns), place)
    if unseen and unseen != set(members):
        raise InputError(
            f"{source}: no row has the member {min(unseen)!r}, which the options or the domain name; correct them."
        )


def _basket(row: _Row | list[Any], options: ReadOptions, named: str | None, place: Place, at: int) -> _Row:
    """A row with its list of items under the expected name: the member of that name, or its only list."""
    target = options.item or _BARE
    if isinstance(row, list):
        return {target: row}
    if options.item is not None:
        if options.item not in row:
            raise InputError(f"{place(at)}: has no member {options.item!r}; correct the line, or --item.")
        return row
    lists = [name for name, value in row.items() if isinstance(value, list)]
    name = named if named in row else lists[0] if len(lists) == 1 else None
    if name is None:
        raise InputError(f"{place(at)}: which member holds the list of items? Say so with --item NAME.")
    person = {} if options.person is None else {options.person: row.get(options.person)}
    return person | {target: row[name]}
