"""A user's own counting queries, read from a file.

`.json` holds a list of lists of items; `.dat` one query per line, separated by blanks; anything else one query per
line, separated by commas (quotes as in CSV). Items are written as the domain labels them, `field=value` in tables.
"""

import csv
import json
from pathlib import Path

from dpgm.data.domain import Domain
from dpgm.errors import InputError
from dpgm.evaluation.comparable import position_names

_MOST_QUERIES = 100_000


def read_workload(path: str | Path, domain: Domain) -> tuple[tuple[int, ...], ...]:
    """The queries of a file as sorted positions of the domain.

    Raises:
        InputError: unreadable file, no queries, an empty query, or an item the domain does not have.
    """
    path = Path(path)
    names = position_names(domain)
    place = {name: at for at, name in enumerate(names)}
    for field, start in zip(domain.fields, domain.offsets, strict=True):
        if field.kind == "items":
            for at in range(field.width):
                place.setdefault(f"{field.name}={names[start + at]}", start + at)
    queries = []
    for number, items in _lines(path):
        where = f"{path}, query {number}" if path.suffix == ".json" else f"{path}, line {number}"
        unknown = [item for item in items if item not in place]
        if unknown:
            raise InputError(f"{where}: the item {unknown[0][:40]!r} is not in the domain; correct or remove it.")
        if not items:
            raise InputError(f"{where}: the query is empty; name at least one item.")
        queries.append(tuple(sorted({place[item] for item in items})))
    if not queries:
        raise InputError(f"{path} holds no queries; write one per line, items separated by commas.")
    if len(queries) > _MOST_QUERIES:
        raise InputError(f"{path} holds more than {_MOST_QUERIES:,} queries; split it.")
    return tuple(queries)


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text; save it as UTF-8.") from error
    if path.suffix == ".json":
        return _from_json(path, text)
    if path.suffix == ".dat":
        return [(at, line.split()) for at, line in enumerate(text.splitlines(), 1) if line.strip()]
    try:
        rows = list(csv.reader(text.splitlines(), skipinitialspace=True))
    except csv.Error as error:
        raise InputError(f"{path} is not comma-separated text: {error}.") from error
    return [(at, [cell.strip() for cell in row]) for at, row in enumerate(rows, 1) if any(row)]


def _from_json(path: Path, text: str) -> list[tuple[int, list[str]]]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON; write a list of lists of items.") from error
    if not isinstance(value, list) or not all(isinstance(query, list) for query in value):
        raise InputError(f"{path} must hold a list of lists of items.")
    return [(at, [str(item) for item in query]) for at, query in enumerate(value, 1)]
