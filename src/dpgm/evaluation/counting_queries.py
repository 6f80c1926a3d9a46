"""Counting queries: how many records hold all (or any) items of a query, and the error of synthetic answers.

Queries are answered from bitmaps: for a block of records, one row of bits per item that any query mentions, then one
AND (or OR) and a population count per query. Inverted lists would be as fast for "all" queries of rare items, but
keep the whole index in memory and are slow for "any" queries. Bitmaps cost the same for both, and need 64 MB
whatever the number of records.

A user's own queries are read from a file: `.json` holds a list of lists of items; `.dat` one query per line, separated
by blanks; any other file one query per line, separated by commas (quoted as in CSV). Items are written as the domain
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
from dpgm.data.formats import by_ending
from dpgm.data.records import Records
from dpgm.errors import InputError, UsageError
from dpgm.evaluation.inputs import check_comparable, position_names

Queries: TypeAlias = Sequence[Sequence[int]]
Reading: TypeAlias = Literal["all", "any"]

SANITY = 0.001  # relative errors divide by at least this share of the records
_BLOCK_BYTES = 64 * 2**20
_MOST_QUERIES = 100_000
_PAPER_SUBSETS, _PAPER_QUERIES = 5, 200  # of the paper's workload, and the queries of each subset


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
    """`count` queries of `length` distinct items, each item drawn in proportion to its frequency.

    Values of one table column exclude each other, so a query holds at most one value per column.
    """
    validation.whole(at_least=1, length=length, count=count)
    weights = item_frequencies(records).astype(np.float64)
    column_of = records.domain.column_of  # positions of one column exclude each other
    if len(np.unique(column_of[weights > 0])) < length:
        raise UsageError(f"fewer than {length} items occur in the data, so no query of that length exists.")
    generator = np.random.default_rng([seed, length])
    queries = []
    for _ in range(count):
        remaining, drawn = weights.copy(), []
        for _ in range(length):
            item = int(np.searchsorted(np.cumsum(remaining), generator.random() * remaining.sum(), side="right"))
            drawn.append(item)
            remaining[column_of == column_of[item]] = 0.0
        queries.append(tuple(sorted(drawn)))
    return tuple(queries)


def paper_workload(records: Records, seed: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """The paper's 1,000 random queries in 5 subsets: lengths uniform in [1, i max|x| / 5], items uniform and distinct.

    On sparse data nearly all of them have the answer 0, so the baseline "answer 0" looks excellent: always report
    popular queries too.
    """
    generator = np.random.default_rng([seed, 5])
    longest = int(records.lengths.max(initial=1))
    subsets = []
    for part in range(1, _PAPER_SUBSETS + 1):
        most = min(records.width, max(1, part * longest // _PAPER_SUBSETS))
        lengths = generator.integers(1, most + 1, size=_PAPER_QUERIES)
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
    row_of = np.full(records.width, len(used), dtype=np.int64)  # unused items share one discarded row
    row_of[used] = np.arange(len(used))
    frequency = item_frequencies(records)
    # Rarest items first: an AND that has become empty stops early.
    query_rows = [row_of[query[np.argsort(frequency[query], kind="stable")]] for query in positions]
    counts = np.zeros(len(positions), dtype=np.int64)
    block_size = max(64, _BLOCK_BYTES // (len(used) + 1) // 64 * 64)
    count = _count_all if reading == "all" else _count_any
    for block in records.chunks(min(block_size, 65536)):
        bits = packed_bits(block, row_of, len(used))
        counts += np.array([count(bits, rows, len(block)) for rows in query_rows], dtype=np.int64)
    return counts


def packed_bits(block: Records, row_of: NDArray[np.int64], used: int) -> NDArray[np.uint64]:
    """Bitmaps of one bit per record; `row_of` maps positions to rows, positions that are not needed to row `used`."""
    padded = -(-len(block) // 64) * 64
    present = np.zeros((used + 1, padded), dtype=np.bool_)
    present[row_of[block.indices], np.repeat(np.arange(len(block)), block.lengths)] = True
    return np.packbits(present, axis=1).view(np.uint64)


def _count_all(bits: NDArray[np.uint64], rows: NDArray[np.int64], records: int) -> int:
    if len(rows) == 0:
        return records
    all_held = bits[rows[0]].copy()
    for row in rows[1:]:
        all_held &= bits[row]
        if not all_held.any():
            return 0
    return int(np.bitwise_count(all_held).sum())


def _count_any(bits: NDArray[np.uint64], rows: NDArray[np.int64], records: int) -> int:
    return int(np.bitwise_count(np.bitwise_or.reduce(bits[rows], axis=0)).sum())


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

    Errors are relative to the true count, or to the share `sanity` of the real records where that is larger.
    `real_counts` are the true counts, if they are known already.
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
    position_of = {name: at for at, name in enumerate(names)}
    for field, start in zip(domain.fields, domain.offsets, strict=True):
        if field.is_set and field.image is None:
            for at in range(field.width):
                position_of.setdefault(f"{field.name}={names[start + at]}", start + at)
    queries = []
    for number, items in _numbered_queries(path):
        where = f"{path}, {'query' if path.suffix == '.json' else 'line'} {number}"
        unknown = [item for item in items if item not in position_of]
        if unknown:
            raise InputError(f"{where}: the item {unknown[0][:40]!r} is not in the domain; correct or remove it.")
        if not items:
            raise InputError(f"{where}: the query is empty; name at least one item.")
        queries.append(tuple(sorted({position_of[item] for item in items})))
    if not queries:
        raise InputError(f"{path} holds no queries; write one per line, items separated by commas.")
    if len(queries) > _MOST_QUERIES:
        raise InputError(f"{path} holds more than {_MOST_QUERIES:,} queries; split it.")
    return tuple(queries)


def _numbered_queries(path: Path) -> list[tuple[int, list[str]]]:
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
    named = by_ending(path)
    if named is not None and named.format.only_shape == "basket":  # lines of items with spaces between them
        return [(at, line.split()) for at, line in enumerate(text.splitlines(), 1) if line.strip()]
    try:
        rows = list(csv.reader(text.splitlines(), skipinitialspace=True))
    except csv.Error as error:
        raise InputError(f"{path} is not comma-separated text: {error}.") from error
    return [(at, [cell.strip() for cell in row]) for at, row in enumerate(rows, 1) if any(row)]
