"""JSON files (one value per line, or one array) as named columns: an object per row, or a list of items per record.

The options and the domain say which members are read. Every value is converted by itself, so that a row with other
types changes no other row.
"""

import codecs
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from dpgm.data.formats.base import Append, Format, Guess
from dpgm.data.formats.lines import BLOCK_BYTES, MAX_LINE, blocks_of
from dpgm.data.formats.opening import Input, open_bytes
from dpgm.data.formats.written import Written
from dpgm.data.layouts import Shape
from dpgm.data.nested import has_member, member_of
from dpgm.data.read.declared import UTF8
from dpgm.data.records import Records
from dpgm.data.stream import Chunk, Readers, RowStream
from dpgm.data.values import Place, in_column, numbered
from dpgm.errors import InputError, UsageError

if TYPE_CHECKING:
    from dpgm.data.read.options import ReadOptions

_DEFAULT_NAME = "items"  # of a list that is not a member of an object
_ROWS = 8_192  # per chunk: as objects, a short line takes a hundred times its bytes
_SPACE = re.compile(r"[ \t\r\n]*")
_Object: TypeAlias = dict[str, Any]
_Value: TypeAlias = _Object | list[Any]


def _refuse(_: str) -> None:
    raise ValueError


_DECODER = json.JSONDecoder(parse_constant=_refuse)


class _Json(Format):
    """Objects or lists; the members that the options and the domain name are the columns."""

    has = frozenset({"columns"})

    def values(self, source: Input, options: "ReadOptions") -> Iterator[tuple[int, Any]]:
        """The number and the value of every row."""
        raise NotImplementedError

    def place(self, source: Input, numbers: list[int]) -> Place:
        """The places of rows by their numbers."""
        raise NotImplementedError

    def rows(self, source: Input, options: "ReadOptions") -> Iterator[tuple[list[_Value], Place]]:
        """The objects and lists of a file, `_ROWS` at a time, and the place of each."""
        values = self.values(source, options)
        while piece := list(islice(values, _ROWS)):
            place = self.place(source, [number for number, _ in piece])
            rows = [value for _, value in piece]
            for at, row in enumerate(rows):
                if not isinstance(row, (dict, list)):
                    raise InputError(f"{place(at)}: is neither a JSON object nor a list; correct the file.")
            yield rows, place

    def stream(self, source: Input, options: "ReadOptions", draft: Guess | None = None) -> RowStream:
        """The columns that the options and the domain name; for a draft those that rows have."""
        shape: Shape = options.stated_shape or "basket"
        members = _members(source, options, shape) if draft is None else draft.columns
        field = options.item_set
        as_object = (
            partial(_basket, options, None if field is None else field.name) if shape == "basket" else _object
        )

        def rows(readers: Readers) -> Iterator[Chunk]:
            unseen = set(readers)
            for rows, place in self.rows(source, options):
                objects = [as_object(row, place, at) for at, row in enumerate(rows)]
                if unseen:
                    unseen -= {name for name in unseen for row in objects if has_member(row, name)}
                columns = {
                    name: how.read([member_of(row, name) for row in objects], in_column(place, name))
                    for name, how in readers.items()
                }
                yield Chunk(pa.table(columns), place)
            if unseen and unseen != set(readers):
                raise InputError(
                    f"{source}: no row has the member {min(unseen)!r}, which the options or the domain name; correct"
                    " them."
                )

        types = {name: pa.list_(pa.string()) if is_list else pa.string() for name, is_list in members.items()}
        return RowStream(str(source), pa.schema(types), rows, shape=shape, more_columns=draft is None)

    def guess(self, source: Input, options: "ReadOptions") -> Guess:
        """Whether the file holds lists of items, or a table of all members."""
        if options.stated_shape not in (None, "wide") or options.public_domain is not None:
            return Guess(options)
        pieces = self.rows(source, options)
        first = next(pieces, None)
        rows = [] if first is None else first[0]
        lists = {name for row in rows if isinstance(row, dict) for name in row if _is_item_list(row[name])}
        if options.shape is None and (options.item is not None or any(isinstance(row, list) for row in rows)):
            return Guess(replace(options, shape="basket"))
        members: dict[str, bool] = {}  # in order of first appearance, and whether they hold lists
        for row in chain(rows, *(others for others, _ in pieces)):
            if isinstance(row, dict):
                for name, value in _named_members(row):
                    members[name] = members.get(name, False) or isinstance(value, list)
        if options.shape is None and len(lists) == 1:
            (item,) = lists
            unread = tuple(one for one in members if one not in (item, options.person))
            return Guess(replace(options, item=item), unread=unread)
        named = {name: is_list for name, is_list in members.items() if name.strip()}
        return Guess(replace(options, shape="wide"), table=True, columns=named)


class JsonLines(_Json):
    """One object, or one list of items, per line."""

    writes = "stream"

    def begins(self, head: bytes) -> bool:
        """By an object, or by a list that ends in the first of several lines."""
        lines = [line.strip() for line in head.splitlines() if line.strip()]
        first = lines[0] if lines else b""
        return first.startswith(b"{") or (first.startswith(b"[") and first.endswith(b"]") and len(lines) > 1)

    def place(self, source: Input, numbers: list[int]) -> Place:
        """Lines."""
        return numbered(f"{source}: line", numbers)

    def values(self, source: Input, options: "ReadOptions") -> Iterator[tuple[int, Any]]:
        """The number and the value of every line."""
        for block in blocks_of(source, options, quoted=False):
            for number, line in enumerate(block.rows(), start=block.first_line):
                if line.strip():
                    try:
                        yield number, _DECODER.decode(line.decode())
                    except (ValueError, RecursionError):
                        raise InputError(
                            f"{source}: line {number}: is not a JSON object or list with finite numbers; correct the"
                            " line."
                        ) from None

    @contextmanager
    def writer(self, target: IO[bytes], written: Written) -> Iterator[Append]:
        """One object per row."""

        def append(records: Records, first: int) -> None:
            rows = written.together(written.texts(records, first)).to_pylist()
            target.write("".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows).encode())

        yield append


class JsonArray(_Json):
    """One array of objects or lists, which can be read but not written."""

    def begins(self, head: bytes) -> bool:
        """By a list."""
        return head.lstrip().startswith(b"[")

    def place(self, source: Input, numbers: list[int]) -> Place:
        """Elements."""
        return numbered(f"{source}: element", numbers)

    def values(self, source: Input, options: "ReadOptions") -> Iterator[tuple[int, Any]]:
        """The number and the value of every element, whose text is read piece by piece."""
        fault = f"{source}: is not one JSON array such as [{{...}}, {{...}}]; correct it, or save it as JSON lines."
        with open_bytes(source) as stream:
            text = _Text(_decoded(stream, options.encoding, str(source)))
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


def _members(source: Input, options: "ReadOptions", shape: Shape) -> dict[str, bool]:
    """The members that the options and the domain name, and whether they hold lists."""
    members = {} if options.person is None else {options.person: False}
    if shape == "basket":
        times = {} if options.time is None else {options.time: True}
        return members | {options.item or _DEFAULT_NAME: True} | times
    if shape == "long":
        named = (options.item, options.time, options.count, *options.field_columns)
        return members | {name: False for name in named if name is not None}
    if options.time is not None:
        members[options.time] = True
    domain = options.public_domain
    if domain is None:
        raise UsageError(f"{source}: JSON lines in the wide shape need a `domain`, which names their members.")
    if domain.item_set is not None:
        return members | {str(label): False for label in domain.item_set.items}
    called = {} if domain.sequence is None else {domain.sequence.name: options.item or domain.sequence.name}
    return members | {called.get(field.name, field.name): field.holds_lists for field in domain.fields}


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


def _object(row: _Value, place: Place, at: int) -> _Object:
    if isinstance(row, list):
        raise InputError(f"{place(at)}: is a list where an object is expected; correct the line.")
    return row


def _basket(options: "ReadOptions", field: str | None, row: _Value, place: Place, at: int) -> _Object:
    """A row with its list of items under the expected name: the member called as the field, or the only list."""
    target = options.item or _DEFAULT_NAME
    if isinstance(row, list):
        return {target: row}
    if options.item is not None:
        if not has_member(row, options.item):
            raise InputError(f"{place(at)}: has no member {options.item!r}; correct the line, or `item`.")
        return row
    lists = [name for name, value in row.items() if isinstance(value, list)]
    name = field if field in row else lists[0] if len(lists) == 1 else None
    if name is None:
        raise InputError(f"{place(at)}: which member holds the list of items? Say so with `item`.")
    person = {} if options.person is None else {options.person: row.get(options.person)}
    return person | {target: row[name]}


def _named_members(row: _Object) -> Iterator[tuple[str, Any]]:
    """The members of an object; a list of objects has a list for each of theirs."""
    for name, value in row.items():
        objects = value if isinstance(value, list) and all(isinstance(one, dict) for one in value) else []
        for inner in dict.fromkeys(member for one in objects for member in one):
            yield f"{name}.{inner}", [one.get(inner) for one in objects]
        if not objects:
            yield name, value


def _is_item_list(value: object) -> bool:
    return isinstance(value, list) and not any(isinstance(item, (dict, list)) for item in value)
