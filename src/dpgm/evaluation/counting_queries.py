"""Counting queries: how many records hold all (or any) of a set of items, and how far synthetic data is off.

Answers come from packed bits: for a block of records, one row of bits per item that any query mentions, then one
AND (or OR) and a population count per query. Inverted lists are as fast for rare items under "all of them", but
cost the whole index in memory and slow down by the list length under "any of them"; packed bits cost the same
for both readings, need 64 MB whatever the number of records, and nothing beyond numpy.

A user's own queries are read from a file: `.json` holds a list of lists of items; `.dat` one query per line, separated
by blanks; anything else one query per line, separated by commas (quotes as in CSV). Items are written as the domain
labels them, `field=value` in tables.
"""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm import validation
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import InputError, UsageError
from dpgm.evaluation.inputs import check_comparable, position_names

Queries: TypeAlias = Sequence[Sequence[int]]
Reading: TypeAlias = Literal["all", "any"]

SANITY = 0.001  # queries below 0.1 % of the records are measured against that many
_BLOCK_BYTES = 64 * 2**20
_MOST_QUERIES = 100_000


@dataclass(frozen=True)
class QueryError:
    """Relative errors of a workload: |Q(synthetic) - Q(real)| / max(Q(real), 0.1 % of N)."""

    mean: float
    median: float
    per_query: NDArray[np.float64]


def item_frequencies(records: Records) -> NDArray[np.int64]:
    """How many records hold each position."""
    counts = np.zeros(records.width, dtype=np.int64)
    for start in range(0, len(records.indices), 2**22):  # bincount widens its input to 64 bits
        counts += np.bincount(records.indices[start : start + 2**22], minlength=records.width)
    return counts


def popular_queries(records: Records, length: int, count: int = 300, seed: int = 0) -> tuple[tuple[int, ...], ...]:
    """`count` queries of `length` distinct items, drawn in proportion to how often they occur.

    Values of one table column exclude each other, so at most one of them enters a query.
    """
    validation.whole(at_least=1, length=length, count=count)
    weights = item_frequencies(records).astype(np.float64)
    owner = records.domain.column_of  # positions that share an owner exclude each other
    if len(np.unique(owner[weights > 0])) < length:
        raise UsageError(f"fewer than {length} items occur in the data, so no query of that length exists.")
    generator = np.random.default_rng([seed, length])
    queries = []
    for _ in range(count):
        left, drawn = weights.copy(), []
        for _ in range(length):
            item = int(np.searchsorted(np.cumsum(left), generator.random() * left.sum(), side="right"))
            drawn.append(item)
            left[owner == owner[item]] = 0.0
        queries.append(tuple(sorted(drawn)))
    return tuple(queries)


def paper_workload(records: Records, seed: int, count: int = 1000) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """The paper's random queries in 5 subsets: lengths uniform in [1, i max|x| / 5], items uniform and distinct.

    Nearly all of them have the answer 0 on sparse data, so "answer 0" looks excellent on them: always report
    popular queries too.
    """
    validation.whole(at_least=5, count=count)
    generator = np.random.default_rng([seed, 5])
    longest = int(records.lengths.max(initial=1))
    subsets = []
    for part in range(1, 6):
        most = min(records.width, max(1, part * longest // 5))
        lengths = generator.integers(1, most + 1, size=count // 5)
        subsets.append(
            tuple(tuple(sorted(generator.choice(records.width, int(n), replace=False).tolist())) for n in lengths)
        )
    return tuple(subsets)


def count_queries(records: Records, queries: Queries, reading: Reading = "all") -> NDArray[np.int64]:
    """How many records hold all (or any) of the items of each query.

    >>> from dpgm.data.domain import Domain
    >>> records = Records.from_lists([[0, 1], [1], [2]], Domain.of_items(3))
    >>> count_queries(records, [[1], [0, 1], [0, 2]]).tolist()
    [2, 1, 0]
    >>> count_queries(records, [[0, 2]], reading="any").tolist()
    [2]
    """
    validation.one_of(("all", "any"), reading=reading)
    positions = [np.unique(np.asarray(query, dtype=np.int64)) for query in queries]
    if any(len(query) and (query[0] < 0 or query[-1] >= records.width) for query in positions):
        raise UsageError(f"a query names a position outside [0, {records.width}).")
    used = np.unique(np.concatenate(positions)) if positions else np.empty(0, dtype=np.int64)
    place = np.full(records.width, len(used), dtype=np.int64)  # unused items share one discarded row
    place[used] = np.arange(len(used))
    frequency = item_frequencies(records)
    # rarest items first: an AND that has become empty stops early
    plans = [place[query[np.argsort(frequency[query], kind="stable")]] for query in positions]
    counts = np.zeros(len(positions), dtype=np.int64)
    rows = max(64, _BLOCK_BYTES // (len(used) + 1) // 64 * 64)
    count = _count_all if reading == "all" else _count_any
    for block in records.chunks(min(rows, 65536)):
        bits = packed_bits(block, place, len(used))
        counts += np.array([count(bits, plan, len(block)) for plan in plans], dtype=np.int64)
    return counts


def packed_bits(block: Records, place: NDArray[np.int64], used: int) -> NDArray[np.uint64]:
    """One row of bits per place, one bit per record; `place` maps positions to rows, unused ones to row `used`."""
    padded = -(-len(block) // 64) * 64
    present = np.zeros((used + 1, padded), dtype=np.bool_)
    present[place[block.indices], np.repeat(np.arange(len(block)), block.lengths)] = True
    return np.packbits(present, axis=1).view(np.uint64)


def _count_all(bits: NDArray[np.uint64], plan: NDArray[np.int64], rows: int) -> int:
    if len(plan) == 0:
        return rows
    both = bits[plan[0]].copy()
    for item in plan[1:]:
        both &= bits[item]
        if not both.any():
            return 0
    return int(np.bitwise_count(both).sum())


def _count_any(bits: NDArray[np.uint64], plan: NDArray[np.int64], rows: int) -> int:
    return int(np.bitwise_count(np.bitwise_or.reduce(bits[plan], axis=0)).sum())


def query_error(
    real: Records,
    synthetic: Records,
    queries: Queries,
    *,
    reading: Reading = "all",
    sanity: float = SANITY,
    real_counts: NDArray[np.int64] | None = None,
) -> QueryError:
    """Relative errors of the synthetic answers, scaled to the number of real records; for the curator only.

    True counts below the share `sanity` of the records are not taken as the yardstick. `real_counts` are the real
    answers, if they are known already.
    """
    check_comparable(real, synthetic)
    if len(queries) == 0:
        raise UsageError("the workload holds no queries; give at least one.")
    validation.fraction(sanity=sanity)
    truth = count_queries(real, queries, reading) if real_counts is None else real_counts
    answers = count_queries(synthetic, queries, reading) * (len(real) / len(synthetic))
    errors: NDArray[np.float64] = np.abs(answers - truth) / np.maximum(truth, sanity * len(real))
    return QueryError(float(errors.mean()), float(np.median(errors)), errors)


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
        where = f"{path}, {'query' if path.suffix == '.json' else 'line'} {number}"
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
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not valid JSON; write a list of lists of items.") from error
        if not isinstance(value, list) or not all(isinstance(query, list) for query in value):
            raise InputError(f"{path} must hold a list of lists of items.")
        return [(at, [str(item) for item in query]) for at, query in enumerate(value, 1)]
    if path.suffix == ".dat":
        return [(at, line.split()) for at, line in enumerate(text.splitlines(), 1) if line.strip()]
    try:
        rows = list(csv.reader(text.splitlines(), skipinitialspace=True))
    except csv.Error as error:
        raise InputError(f"{path} is not comma-separated text: {error}.") from error
    return [(at, [cell.strip() for cell in row]) for at, row in enumerate(rows, 1) if any(row)]
