"""Swaps of items between sampled records, toward target counts of pairs and triples.

A swap exchanges an item of one record for an item of another, so record lengths and item counts do not change. One swap
depends on those before it, so it is a loop, compiled by numba; without numba nothing is swapped.
"""

import numpy as np

from dpgm.arrays import AnyArray
from dpgm.kernels.compiled import compiled


@compiled
def _draw(state: AnyArray, below: int) -> int:
    """A number in [0, below) from a linear congruential generator; privacy does not depend on it."""
    state[0] = state[0] * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
    return int((state[0] >> np.uint64(33)) % np.uint64(below))


@compiled
def _others(indptr: AnyArray, items: AnyArray, record: int, left_out: int, found: AnyArray) -> int:
    """Write the items of a record except one into `found`; returns their number."""
    count = 0
    for place in range(indptr[record], indptr[record + 1]):
        if place != left_out:
            found[count] = items[place]
            count += 1
    return count


@compiled
def _mark(own: AnyArray, count: int, theirs: AnyArray, their_count: int, shared: AnyArray) -> None:
    """Mark the items of a record that the other record has too."""
    for one in range(count):
        shared[one] = False
        for two in range(their_count):
            if own[one] == theirs[two]:
                shared[one] = True


@compiled
def _change(
    own: AnyArray, count: int, shared: AnyArray, lost: int, won: int, pairs: AnyArray, pair_weights: AnyArray,
    triples: AnyArray, triple_weights: AnyArray,
) -> float:  # fmt: skip
    """Change of the weighted sum of squared errors if a record loses the item `lost` and gets `won`."""
    change = 0.0
    for one in range(count):
        x = own[one]
        if x >= len(pairs):
            continue
        if not shared[one]:
            if lost < len(pairs):
                change += pair_weights[x, lost] * (1 - 2 * pairs[x, lost])
            if won < len(pairs):
                change += pair_weights[x, won] * (1 + 2 * pairs[x, won])
        if x >= len(triples):
            continue
        for two in range(one):
            y = own[two]
            if y >= len(triples) or (shared[one] and shared[two]):
                continue
            if lost < len(triples):
                change += triple_weights[x, y, lost] * (1 - 2 * triples[x, y, lost])
            if won < len(triples):
                change += triple_weights[x, y, won] * (1 + 2 * triples[x, y, won])
    return change


@compiled
def _count(own: AnyArray, count: int, item: int, by: int, pairs: AnyArray, triples: AnyArray) -> None:
    """Add `by` to the counts of all pairs and triples of `item` with the other items of its record."""
    for one in range(count):
        x = own[one]
        if x < len(pairs) and item < len(pairs):
            pairs[x, item] += by
            pairs[item, x] += by
        if x >= len(triples) or item >= len(triples):
            continue
        for two in range(one):
            y = own[two]
            if y < len(triples):
                triples[x, y, item] += by
                triples[y, x, item] += by
                triples[x, item, y] += by
                triples[y, item, x] += by
                triples[item, x, y] += by
                triples[item, y, x] += by


@compiled
def balance(
    indptr: AnyArray, items: AnyArray, starts: AnyArray, sizes: AnyArray, groups: AnyArray, pairs: AnyArray,
    pair_weights: AnyArray, triples: AnyArray, triple_weights: AnyArray, sweeps: int, state: AnyArray,
) -> int:  # fmt: skip
    """Swap items (in place) within each run of records wherever that lowers the error; returns the number of swaps.

    Args:
        indptr: where the items of each record start.
        items: the items of all records, in any order within a record; numbers from 0, tracked items first.
        starts: first record of every run.
        sizes: number of records of every run.
        groups: items are swapped within a group: 0 for free items, else the column, of which a record has one value.
        pairs: minus the target counts of pairs; the counts of the records are added, so these are errors.
        pair_weights: weights of squared errors.
        triples: the same for triples of the first items.
        triple_weights: the same for triples.
        sweeps: swaps tried per record.
        state: one unsigned number that seeds the choice of swaps.
    """
    longest = 1
    for record in range(len(indptr) - 1):
        longest = max(longest, indptr[record + 1] - indptr[record])
    mine, yours = np.empty(longest, np.int64), np.empty(longest, np.int64)
    mine_shared, yours_shared = np.zeros(longest, np.bool_), np.zeros(longest, np.bool_)
    for record in range(len(indptr) - 1):
        for place in range(indptr[record], indptr[record + 1]):
            before = place - indptr[record]
            for earlier in range(before):
                mine[earlier] = items[indptr[record] + earlier]
            _count(mine, before, items[place], 1, pairs, triples)
    swaps = 0
    for _ in range(sweeps):
        for run in range(len(sizes)):
            for record in range(starts[run], starts[run] + sizes[run]):
                other = starts[run] + _draw(state, sizes[run])
                length, other_length = indptr[record + 1] - indptr[record], indptr[other + 1] - indptr[other]
                if other == record or length == 0 or other_length == 0:
                    continue
                place = indptr[record] + _draw(state, length)
                other_place = indptr[other] + _draw(state, other_length)
                if groups[items[place]] > 0:  # swap the two values of this column
                    for candidate in range(indptr[other], indptr[other + 1]):
                        if groups[items[candidate]] == groups[items[place]]:
                            other_place = candidate
                lost, won = items[place], items[other_place]
                if lost == won or groups[lost] != groups[won]:
                    continue
                count = _others(indptr, items, record, place, mine)
                other_count = _others(indptr, items, other, other_place, yours)
                repeated = False
                for at in range(count):
                    repeated = repeated or mine[at] == won
                for at in range(other_count):
                    repeated = repeated or yours[at] == lost
                if repeated:
                    continue
                _mark(mine, count, yours, other_count, mine_shared)
                _mark(yours, other_count, mine, count, yours_shared)
                change = _change(mine, count, mine_shared, lost, won, pairs, pair_weights, triples, triple_weights)
                change += _change(
                    yours, other_count, yours_shared, won, lost, pairs, pair_weights, triples, triple_weights
                )
                if change >= 0:
                    continue
                _count(mine, count, lost, -1, pairs, triples)
                _count(mine, count, won, 1, pairs, triples)
                _count(yours, other_count, won, -1, pairs, triples)
                _count(yours, other_count, lost, 1, pairs, triples)
                items[place], items[other_place] = won, lost
                swaps += 1
    return swaps
