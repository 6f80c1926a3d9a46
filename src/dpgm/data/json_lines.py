"""JSON lines: one object per row, or a bare list of items per record.

The members that are looked at come from the options and the domain; every value is read by itself, so that a row of
other types changes no other row.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from dpgm.data.chunks import Chunk, Columns, in_column
from dpgm.data.domain import Image, ItemSet
from dpgm.data.formats import Shape, set_field
from dpgm.data.items import Place
from dpgm.data.lines import TextBlock, blocks_of
from dpgm.data.opening import Input
from dpgm.data.options import ReadOptions
from dpgm.data.values import object_lists, object_texts
from dpgm.errors import InputError, UsageError

_BARE = "items"
_ROWS = 32_768  # at a time: a short line takes a hundred times its bytes as objects
_Row = dict[str, Any]
# How the values of a member become a column: values, the place of each row.
_Reader = Callable[[list[Any], Place], Any]


def json_columns(source: Input, options: ReadOptions) -> Columns:
    """A file of JSON lines as named columns: those that the options and the domain name."""
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
            members[options.item] = _scalars_or_lists
    else:
        domain = options.public_domain
        if domain is None:
            raise UsageError(
                f"{source}: JSON lines in the wide shape need --domain FILE, which names their members."
            )
        lists = ()
        field = set_field(domain)
        if field is not None:
            members |= {str(label): object_texts for label in field.items}
        else:
            for one in domain.fields:
                sets = isinstance(one, (ItemSet, Image))
                members[one.name] = object_lists if sets else object_texts
    return Columns(str(source), tuple(members), lists, _chunks(source, options, shape, members), shape=shape)


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


def _refuse(_: str) -> None:
    raise ValueError


def _rows(block: TextBlock, first: int) -> tuple[list[_Row | list[Any]], list[int]]:
    """The objects and lists of some rows of a block and the row that each stands in."""
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


def _chunks(source: Input, options: ReadOptions, shape: Shape, members: dict[str, _Reader]) -> Iterator[Chunk]:
    import pyarrow as pa

    field = None if options.public_domain is None else set_field(options.public_domain)
    unseen = set(members)
    pieces = ((block, at) for block in blocks_of(source, quoted=False) for at in range(0, len(block.ends), _ROWS))
    for block, first in pieces:
        rows, kept = _rows(block, first)
        if not rows:
            continue

        def place(row: int, block: TextBlock = block, kept: list[int] = kept) -> str:
            return block.place(kept[row])

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
    """A row with its list of items under the name that is asked for: by that name, or its only list."""
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
