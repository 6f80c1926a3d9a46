"""Counts of the sets of two, three or four positions that sparse records hold, record by record."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.compute.compiled import compiled


@compiled
def count_sets(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    place: NDArray[np.int64],
    steps: NDArray[np.int64],
    order: int,
    most: int,
    pairs: NDArray[np.int64],
    held: NDArray[np.int64],
    total: NDArray[np.int64],
) -> None:
    """Add the weight of every record of at most `most` tracked positions to each set of `order` of these.

    Args:
        indptr: (n + 1,) where records begin and end in `indices`.
        indices: positions of the domain, rising within each record.
        place: of every position of the domain, its place among the tracked ones, rising; -1 for the others.
        steps: weight of a record that holds 0, 1, 2, ... tracked positions.
        order: 2, 3 or 4.
        most: records that hold more are left out.
        pairs: (tracked, tracked) the row of every pair of places in `total`, for orders 3 and 4.
        held: (n,) filled with how many tracked positions each record holds.
        total: places x places for order 2, pairs x places for 3, pairs x pairs for 4; only rising sets are counted.
    """
    found = np.empty(most, dtype=np.int64)
    for row in range(len(indptr) - 1):
        n = 0
        for at in range(indptr[row], indptr[row + 1]):
            here = place[indices[at]]
            if here >= 0:
                if n < most:
                    found[n] = here
                n += 1
        held[row] = n
        if n < order or n > most:
            continue
        weight = steps[n]
        if weight == 0:
            continue
        for a in range(n):
            for b in range(a + 1, n):
                if order == 2:
                    total[found[a], found[b]] += weight
                    continue
                first = pairs[found[a], found[b]]
                for c in range(b + 1, n):
                    if order == 3:
                        total[first, found[c]] += weight
                        continue
                    for d in range(c + 1, n):
                        total[first, pairs[found[c], found[d]]] += weight
