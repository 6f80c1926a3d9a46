"""Made-up people of any domain: what a rehearsal fits, so that nothing is spent and nobody is in it.

Everybody has a place on one hidden scale, and belongs to the made-up group of that part of it. Each column follows,
some closely and some hardly: numbers rise or fall along the scale, values belong to groups. So columns depend on each
other as those of real people do. What a domain leaves open gets made-up values, limits and dates.
"""

import datetime
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dpgm.arrays import Floats
from dpgm.data.arrow import Array, Table, pa
from dpgm.data.atomic import atomic_file
from dpgm.data.domain import Domain
from dpgm.data.domain_file import domain_to_plain
from dpgm.errors import UsageError
from dpgm.validation import whole

GROUPS = 6
_LEAN = 0.5  # how far a column follows the group: 0 not at all, 1 wholly
_ABSENT = 0.03  # share of missing values where a column may have them
_EVENNESS = 0.7  # shape of the gamma distribution of how many items people hold: small, and few people hold most
_ITEMS_HELD = 4.0  # mean number of items of a person, or a third of all items if there are fewer
_MOST_CERTAIN = 0.95  # chance that somebody holds an item, at most
_MOST_EVENTS = 100  # of a made-up person
_VALUES = [f"value {at}" for at in range(1, 9)]
_ITEMS = [f"item {at}" for at in range(1, 41)]
_LOW, _HIGH = 0.0, 100.0  # of numbers without limits
_FIRST, _LAST = datetime.date(2005, 1, 1), datetime.date(2024, 12, 31)
_DAY = 86_400  # seconds


def made_up_people(domain: Domain, records: int, *, seed: int, mean_length: float | None = None) -> Table:
    """So many made-up people, as a table with the columns of the domain; equal seeds give equal people.

    `mean_length` is the mean number of items of a person, where the domain has lists of items.
    """
    whole(records=records, at_least=1)
    whole(seed=seed)
    rng = np.random.default_rng([seed, records, len(domain.columns)])
    hidden = rng.random(records)
    columns: dict[str, Array] = {}
    for entry in domain_to_plain(domain)["fields"]:
        make = _KINDS.get(str(entry["kind"]))
        if make is None:
            raise UsageError(
                f"the field {entry['name']!r} ({entry['kind']}) cannot be made up; use data of your own."
            )
        column = make(entry | {"mean": mean_length}, hidden, rng)
        if entry.get("missing") is True:
            column = pa.array([None if gone else cell for cell, gone in _some(column, rng)], column.type)
        columns[str(entry["name"])] = column
    return pa.table(columns)


def write_made_up(domain: Domain, records: int, path: str | os.PathLike[str], *, seed: int) -> None:
    """The same as a Parquet file."""
    from pyarrow.parquet import write_table

    with atomic_file(path) as temporary:
        write_table(made_up_people(domain, records, seed=seed), temporary)


def _some(column: Array, rng: np.random.Generator) -> Any:
    return zip(column.to_pylist(), (rng.random(len(column)) < _ABSENT).tolist(), strict=True)


def _groups(hidden: Floats) -> Any:
    return (hidden * GROUPS).astype(np.int64)


def _levels(centre: Any, count: int, rng: np.random.Generator) -> Any:
    """One of `count` levels for everybody: near the centre, or by popularity."""
    near = np.clip(np.rint(centre + rng.normal(scale=max(0.6, count / 12), size=len(centre))), 0, count - 1)
    popular = rng.choice(count, size=len(centre), p=_popularity(count))
    return np.where(rng.random(len(centre)) < rng.random(), near, popular).astype(np.int64)


def _popularity(count: int) -> Floats:
    weights = np.arange(1, count + 1, dtype=np.float64) ** -0.8
    shares: Floats = weights / weights.sum()
    return shares


def _shares(hidden: Floats, rng: np.random.Generator) -> Any:
    """A number in [0, 1) for everybody, which rises or falls along the hidden scale."""
    along = hidden if rng.random() < 0.5 else 1 - hidden
    return (_levels(along * 50, 50, rng) + rng.random(len(hidden))) / 50


def _category(entry: Mapping[str, Any], hidden: Floats, rng: np.random.Generator) -> Array:
    values = entry.get("values") or _VALUES
    centre = rng.permutation(GROUPS)[_groups(hidden)] * len(values) // GROUPS
    return pa.array([str(value) for value in values]).take(pa.array(_levels(centre, len(values), rng)))


def _number(entry: Mapping[str, Any], hidden: Floats, rng: np.random.Generator) -> Array:
    low = entry["low"] if isinstance(entry.get("low"), (int, float)) else _LOW
    high = entry["high"] if isinstance(entry.get("high"), (int, float)) else max(_HIGH, 2 * low)
    values = low + (high - low) * _shares(hidden, rng)
    if entry.get("integer"):
        return pa.array(np.clip(np.rint(values), np.ceil(low), np.floor(high)).astype(np.int64))
    return pa.array(np.round(values, entry.get("decimals") or 2))


def _seconds(entry: Mapping[str, Any], hidden: Floats, rng: np.random.Generator) -> Any:
    bounds = []
    for key, default in (("low", _FIRST), ("high", _LAST)):
        try:
            bounds.append(datetime.date.fromisoformat(str(entry.get(key))[:10]))
        except ValueError:
            bounds.append(default)
    first, last = ((day - datetime.date(1970, 1, 1)).days * _DAY for day in bounds)
    return (first + (last - first) * _shares(hidden, rng)).astype(np.int64)


def _date(entry: Mapping[str, Any], hidden: Floats, rng: np.random.Generator) -> Array:
    return pa.array((_seconds(entry, hidden, rng) // _DAY).astype(np.int32)).cast(pa.date32())


def _datetime(entry: Mapping[str, Any], hidden: Floats, rng: np.random.Generator) -> Array:
    return pa.array(_seconds(entry, hidden, rng)).cast(pa.timestamp("s"))


def _boolean(entry: Mapping[str, Any], hidden: Floats, rng: np.random.Generator) -> Array:
    return pa.array(_shares(hidden, rng) < rng.uniform(0.3, 0.7))


def _items(entry: Mapping[str, Any], hidden: Floats, rng: np.random.Generator) -> Array:
    items = [str(item) for item in entry.get("items") or _ITEMS]
    own = rng.dirichlet(np.full(len(items), 0.5), GROUPS)
    mean = entry.get("mean") or min(_ITEMS_HELD, len(items) / 3)
    chances = mean * (_LEAN * own + (1 - _LEAN) * _popularity(len(items)))
    busy = rng.gamma(_EVENNESS, 1 / _EVENNESS, size=(len(hidden), 1))
    held = rng.random((len(hidden), len(items))) < np.clip(chances[_groups(hidden)] * busy, 0.0, _MOST_CERTAIN)
    return pa.array([[items[at] for at in np.flatnonzero(row)] for row in held], pa.list_(pa.string()))


def _sequence(entry: Mapping[str, Any], hidden: Floats, rng: np.random.Generator) -> Array:
    """Events in order, of which each is as often as not the next item of the list; without times."""
    if entry.get("time"):
        raise UsageError(f"the field {entry['name']!r} has times and cannot be made up; use data of your own.")
    items = [str(item) for item in entry.get("items") or _ITEMS]
    most = min(int(entry.get("max_length") or _MOST_EVENTS), _MOST_EVENTS)
    lengths = np.minimum(rng.geometric(1 / (entry.get("mean") or _ITEMS_HELD), len(hidden)), most)
    starts = rng.permutation(GROUPS)[_groups(hidden)] * len(items) // GROUPS
    cells = []
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        steps = np.where(rng.random(length) < _LEAN, 1, rng.integers(0, len(items), length))
        cells.append([items[at % len(items)] for at in start + np.cumsum(steps)])
    return pa.array(cells, pa.list_(pa.string()))


def _identifier(entry: Mapping[str, Any], hidden: Floats, rng: np.random.Generator) -> Array:
    return pa.array([f"made up {at:07d}" for at in range(len(hidden))])


_KINDS: dict[str, Callable[[Mapping[str, Any], Floats, np.random.Generator], Array]] = {
    "categorical": _category,
    "numeric": _number,
    "date": _date,
    "datetime": _datetime,
    "boolean": _boolean,
    "items": _items,
    "sequence": _sequence,
    "identifier": _identifier,
    "ignored": _identifier,
}
