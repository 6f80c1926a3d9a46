"""Counts of pairs of positions, and the most frequent item sets."""

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dpgm import validation
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.evaluation.comparable import check_comparable
from dpgm.evaluation.counting_queries import count_queries, item_frequencies

_CHUNK = 8192


def most_frequent(records: Records, most: int) -> NDArray[np.int64]:
    """Positions that occur, the most frequent first (ties by position), at most `most` of them."""
    counts = item_frequencies(records)
    order = np.argsort(-counts, kind="stable")[:most]
    return order[counts[order] > 0].astype(np.int64)


def pair_counts(records: Records, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Records that hold both positions, (n, n) for the n positions asked; the diagonal holds single counts."""
    place = np.full(records.width, -1, dtype=np.int64)
    place[positions] = np.arange(len(positions))
    total = np.zeros((len(positions), len(positions)), dtype=np.int64)
    for chunk in records.chunks(_CHUNK):
        columns = place[chunk.indices]
        held = columns >= 0
        rows = np.repeat(np.arange(len(chunk)), chunk.lengths)[held]
        ones = np.ones(len(rows), dtype=np.float32)
        matrix = sparse.csr_array((ones, (rows, columns[held])), shape=(len(chunk), len(positions)))
        if matrix.nnz > 0.02 * len(chunk) * len(positions):  # dense enough for one matrix product
            dense = matrix.toarray()
            total += (dense.T @ dense).astype(np.int64)  # exact: a chunk is far below 2^24 records
        else:
            total += (matrix.T @ matrix).toarray().astype(np.int64)
    return total


@dataclass(frozen=True)
class CoOccurrence:
    """For the most frequent items: of the records with the row's item, the share that hold the column's."""

    positions: tuple[int, ...]
    real: NDArray[np.float64]
    synthetic: NDArray[np.float64]
    mean_difference: float


def co_occurrence(real: Records, synthetic: Records, most: int = 20) -> CoOccurrence:
    """Conditional shares of the `most` items most frequent in the real data."""
    check_comparable(real, synthetic)
    positions = most_frequent(real, most)
    if len(positions) < 2:
        raise UsageError("fewer than two items occur in the real data.")
    shares = []
    for records in (real, synthetic):
        counts = pair_counts(records, positions).astype(np.float64)
        shares.append(counts / np.maximum(np.diag(counts), 1.0)[:, None])
    off = ~np.eye(len(positions), dtype=bool)
    difference = float(np.abs(shares[0] - shares[1])[off].mean())
    return CoOccurrence(tuple(positions.tolist()), shares[0], shares[1], difference)


@dataclass(frozen=True)
class FrequentSets:
    """The most frequent item sets of both sides, and how many the synthetic data gets right."""

    precision: float
    recall: float
    real: tuple[tuple[tuple[int, ...], float], ...]  # item set and the share of records holding it
    synthetic: tuple[tuple[tuple[int, ...], float], ...]


def frequent_sets(real: Records, synthetic: Records, top: int = 100) -> FrequentSets:
    """Precision and recall of the synthetic data's `top` most frequent item sets.

    A set counts as right if it is at least as frequent in the real data as the real top's last one, so ties at
    the border cost nothing.
    """
    check_comparable(real, synthetic)
    validation.whole(at_least=1, top=top)
    ours, theirs = top_sets(real, top), top_sets(synthetic, top)
    if not ours:
        raise UsageError("the real data holds no items.")
    border_real, border_synthetic = ours[-1][1], theirs[-1][1] if theirs else np.inf
    right = count_queries(real, [items for items, _ in theirs]) >= border_real
    found = count_queries(synthetic, [items for items, _ in ours]) >= border_synthetic
    return FrequentSets(
        precision=float(right.mean()) if theirs else 0.0,
        recall=float(found.mean()),
        real=tuple((items, count / len(real)) for items, count in ours),
        synthetic=tuple((items, count / len(synthetic)) for items, count in theirs),
    )


def top_sets(records: Records, top: int) -> list[tuple[tuple[int, ...], int]]:
    """The `top` most frequent non-empty item sets with their counts.

    Best first: a set is never more frequent than the set without its last item, so taking the most frequent
    candidate and adding its extensions finds them in order. Only the `top` most frequent items can take part.
    """
    items = most_frequent(records, top)
    place = np.full(records.width, len(items), dtype=np.int64)
    place[items] = np.arange(len(items))
    bits = _packed_rows(records, place, len(items))
    queue: list[tuple[int, tuple[int, ...]]] = []
    queue += [(-int(np.bitwise_count(row).sum()), (at,)) for at, row in enumerate(bits)]
    heapq.heapify(queue)
    found: list[tuple[tuple[int, ...], int]] = []
    while queue and len(found) < top:
        negative, members = heapq.heappop(queue)
        found.append((tuple(sorted(int(items[at]) for at in members)), -negative))
        both = np.bitwise_and.reduce(bits[list(members)], axis=0)
        for at in range(members[-1] + 1, len(items)):
            count = int(np.bitwise_count(both & bits[at]).sum())
            if count:
                heapq.heappush(queue, (-count, (*members, at)))
    return found


def _packed_rows(records: Records, place: NDArray[np.int64], used: int) -> NDArray[np.uint64]:
    blocks = []
    for chunk in records.chunks(65536):
        present = np.zeros((used + 1, -(-len(chunk) // 64) * 64), dtype=np.bool_)
        present[place[chunk.indices], np.repeat(np.arange(len(chunk)), chunk.lengths)] = True
        blocks.append(np.packbits(present[:used], axis=1).view(np.uint64))
    return np.concatenate(blocks, axis=1)
