"""JSON files (one value per line, or one array) as named columns: an object per row, or a list of items per record.

The options and the domain say which members are read. Every value is converted by itself, so that a row with other
types changes no other row.
"""

import codecs
import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import IO, Any, TypeAlias

import pyarrow as pa

from dpgm.data.formats.lines import BLOCK_BYTES, MAX_LINE, blocks_of
from dpgm.data.formats.opening import Input, open_bytes
from dpgm.data.layouts import Shape
from dpgm.data.read.columns import Chunk, Columns
from dpgm.data.read.declared import UTF8
from dpgm.data.read.options import ReadOptions
from dpgm.data.values import Place, ValueReader, any_type, in_column, numbered, object_lists, object_texts
from dpgm.errors import InputError, UsageError

_DEFAULT_NAME = "items"  # of a list that is not a member of an object
_ROWS = 8_192  # per chunk: as objects, a short line takes a hundred times its bytes
_SPACE = re.compile(r"[ \t\r\n]*")
_Object: TypeAlias = dict[str, Any]
_Value: TypeAlias = _Object | list[Any]


def _refuse(_: str) -> None:
    raise ValueError


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def json_columns(source: Input, options: ReadOptions, *, array: bool, draft: bool) -> Columns:
    """A file of JSON lines, or of one array, as named columns: the members that the options and the domain name.

    For a `draft`, a member with objects, or with both lists and other values, is a column that cannot be modelled.
    """
    shape: Shape = options.stated_shape or "basket"
    members: dict[str, ValueReader] = {}
    lists: tuple[str, ...] = ()
    if options.person is not None:
        members[options.person] = object_texts
    if shape == "basket":
        lists = (options.item or _DEFAULT_NAME,)
        members[lists[0]] = object_lists
    elif shape == "long":
        members |= {name: object_texts for name in (options.item, options.count) if name is not None}
        if options.item is not None:
            members[options.item] = _scalars_or_lists if options.item_separator is None else _texts_to_split
    else:
        domain = options.public_domain
        if domain is None:
            raise UsageError(f"{source}: JSON lines in the wide shape need a `domain`, which names their members.")
        if domain.item_set is not None:
            members |= {str(label): object_texts for label in domain.item_set.items}
        else:
            for field in domain.fields:
                members[field.name] = object_lists if field.holds_lists else object_texts
    if draft:
        members = {name: any_type(read) for name, read in members.items()}
    chunks = _chunks(source, json_rows(source, options, array=array), options, shape, members)
    return Columns(str(source), tuple(members), lists, chunks, shape=shape)


def _scalars_or_lists(values: Sequence[Any], where: Place) -> Any:
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


def _texts_to_split(values: Sequence[Any], where: Place) -> Any:
    """The items of the long shape, several per text; a list among them would change the type of the whole column."""
    for row, value in enumerate(values):
        if isinstance(value, list):
            raise InputError(
                f"{where(row)}: is a list, but `item_separator` says that texts are split into items; leave one out."
            )
    return _scalars_or_lists(values, where)


def json_rows(source: Input, options: ReadOptions, *, array: bool) -> Iterator[tuple[list[_Value], Place]]:
    """The objects and lists of a file, `_ROWS` at a time, and the place of each."""
    what, kind = ("file", "element") if array else ("line", "line")
    values = _elements(source, options.encoding) if array else _lines(source, options)
    while piece := list(islice(values, _ROWS)):
        place = numbered(f"{source}: {kind}", [number for number, _ in piece])
        rows = [value for _, value in piece]
        for at, row in enumerate(rows):
            if not isinstance(row, (dict, list)):
                raise InputError(f"{place(at)}: is neither a JSON object nor a list; correct the {what}.")
        yield rows, place


def _lines(source: Input, options: ReadOptions) -> Iterator[tuple[int, Any]]:
    """The number and the value of every line."""
    for block in blocks_of(source, options, quoted=False):
        for number, line in enumerate(block.rows(), start=block.first_line):
            if line.strip():
                try:
                    yield number, _DECODER.decode(line.decode())
                except (ValueError, RecursionError):
                    raise InputError(
                        f"{source}: line {number}: is not a JSON object or list with finite numbers; correct the line."
                    ) from None


def _elements(source: Input, encoding: str) -> Iterator[tuple[int, Any]]:
    """The number and the value of every element of one JSON array, whose text is read piece by piece."""
    fault = f"{source}: is not one JSON array such as [{{...}}, {{...}}]; correct it, or save it as JSON lines."
    with open_bytes(source) as stream:
        text = _Text(_decoded(stream, encoding, str(source)))
        if text.next_mark() != "[":
            raise InputError(fault)
        text.at += 1
        if text.next_mark() == "]":
            raise InputError(f"{source}: holds no records; give a file with at least one.")
        number, mark = 0, ","
        while mark == ",":
            number += 1
            try:
                yield number, text.next_value()
            except (ValueError, RecursionError):
                raise InputError(
                    f"{source}: element {number}: is not JSON with finite numbers, or is longer than"
                    f" {MAX_LINE >> 20} MB; correct the file."
                ) from None
            mark = text.next_mark()
            text.at += 1
        if mark != "]" or text.next_mark():
            raise InputError(fault)


def _decoded(stream: IO[bytes], encoding: str, file: str) -> Iterator[str]:
    """The text of a stream, piece by piece."""
    decoder = codecs.getincrementaldecoder("utf-8-sig" if encoding == UTF8 else encoding)("strict")
    for raw in chain(iter(partial(stream.read, BLOCK_BYTES), b""), [b""]):
        try:
            yield decoder.decode(raw, final=not raw)
        except UnicodeError:
            raise InputError(
                f"{file}: is not {encoding} text; save it as UTF-8, or state its `encoding`."
            ) from None


class _Text:
    """A text that comes in pieces and is parsed from `at` on; what was parsed is forgotten."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces, self._text, self.at = pieces, "", 0

    def _read_on(self) -> bool:
        piece = next(self._pieces, None)
        self._text, self.at = self._text[self.at :] + (piece or ""), 0
        return piece is not None

    def next_mark(self) -> str:
        """The next character that is not white space, which stays to be parsed; empty at the end."""
        while True:
            self.at = _SPACE.match(self._text, self.at).end()  # type: ignore[union-attr]
            if self.at < len(self._text) or not self._read_on():
                return self._text[self.at : self.at + 1]

    def next_value(self) -> Any:
        """The next value; an object or a list that the piece cuts is tried again with the next piece."""
        self.next_mark()
        while True:
            try:
                value, self.at = _DECODER.raw_decode(self._text, self.at)
                return value
            except (ValueError, RecursionError):
                if len(self._text) - self.at > MAX_LINE or not self._read_on():
                    raise


def _chunks(
    source: Input,
    pieces: Iterator[tuple[list[_Value], Place]],
    options: ReadOptions,
    shape: Shape,
    members: dict[str, ValueReader],
) -> Iterator[Chunk]:
    unseen, field = set(members), options.item_set
    as_object = partial(_basket, options, None if field is None else field.name) if shape == "basket" else _object
    for rows, place in pieces:
        objects = [as_object(row, place, at) for at, row in enumerate(rows)]
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


def _object(row: _Value, place: Place, at: int) -> _Object:
    if isinstance(row, list):
        raise InputError(f"{place(at)}: is a list where an object is expected; correct the line.")
    return row


def _basket(options: ReadOptions, field: str | None, row: _Value, place: Place, at: int) -> _Object:
    """A row with its list of items under the expected name: the member called as the field, or the only list."""
    target = options.item or _DEFAULT_NAME
    if isinstance(row, list):
        return {target: row}
    if options.item is not None:
        if options.item not in row:
            raise InputError(f"{place(at)}: has no member {options.item!r}; correct the line, or `item`.")
        return row
    lists = [name for name, value in row.items() if isinstance(value, list)]
    name = field if field in row else lists[0] if len(lists) == 1 else None
    if name is None:
        raise InputError(f"{place(at)}: which member holds the list of items? Say so with `item`.")
    person = {} if options.person is None else {options.person: row.get(options.person)}
    return person | {target: row[name]}
