"""Exchange of rows of a sample against rows of the pool it was taken from, until counts are near their expectations."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.kernels.compiled import compiled

CellArray = NDArray[Any]


def exchange_rows(
    codes: CellArray,
    pairs: CellArray,
    starts: CellArray,
    strides: CellArray,
    errors: CellArray,
    penalties: CellArray,
    chosen: CellArray,
    room: CellArray,
    candidates: CellArray,
) -> None:
    """Replace rows of a sample, one after the other, by candidates that lower the sum of penalty x error², in place.

    Args:
        codes: (n, d) the code of every row of the pool in every column.
        pairs: (P, 2) pairs of columns; both may be the same one, with stride 0, for the counts of one column.
        starts: (P,) where the cells of each pair start.
        strides: (P,) the cell of the codes a and b is at start + a * stride + b.
        errors: count in the sample less its expectation, of all cells; kept up to date.
        penalties: of every cell.
        chosen: (m,) the rows of the sample.
        room: (n,) how many times more every row of the pool may be taken; kept up to date.
        candidates: rows of the pool; the t-th is tried in place t modulo m of the sample.
    """
    _exchange(
        codes,
        np.ascontiguousarray(pairs[:, 0]),
        np.ascontiguousarray(pairs[:, 1]),
        starts,
        strides,
        errors,
        penalties,
        chosen,
        room,
        candidates,
    )


@compiled
def _exchange(
    codes: CellArray,
    first: CellArray,
    second: CellArray,
    starts: CellArray,
    strides: CellArray,
    errors: CellArray,
    penalties: CellArray,
    chosen: CellArray,
    room: CellArray,
    candidates: CellArray,
) -> None:
    for number in range(len(candidates)):
        place = number % len(chosen)
        before, after = chosen[place], candidates[number]
        if room[after] <= 0:
            continue
        change = 0.0
        for pair in range(len(first)):
            off = starts[pair] + codes[before, first[pair]] * strides[pair] + codes[before, second[pair]]
            on = starts[pair] + codes[after, first[pair]] * strides[pair] + codes[after, second[pair]]
            if on != off:
                change += penalties[off] * (1 - 2 * errors[off]) + penalties[on] * (1 + 2 * errors[on])
        if change < 0:
            chosen[place] = after
            room[before] += 1
            room[after] -= 1
            for pair in range(len(first)):
                off = starts[pair] + codes[before, first[pair]] * strides[pair] + codes[before, second[pair]]
                on = starts[pair] + codes[after, first[pair]] * strides[pair] + codes[after, second[pair]]
                errors[off] -= 1
                errors[on] += 1
