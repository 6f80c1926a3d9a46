"""Tables of pairs of columns over coded rows: sums of weights into their cells, and look-ups of their cells.

A row holds one code per column. The table of a pair starts at `starts[pair]` of a flat array; its cell for the codes a
and b is at `starts[pair] + a * strides[pair] + b`. Compiled by numba where it is installed, else one pass of numpy per
pair; sums of whole numbers are the same either way.
"""

import numpy as np

from dpgm.arrays import AnyArray
from dpgm.kernels.compiled import HAS_NUMBA, compiled


def add_pairs(
    codes: AnyArray, pairs: AnyArray, starts: AnyArray, strides: AnyArray, weights: AnyArray, total: AnyArray
) -> None:
    """Add the weight of every row to its cell in the table of every pair, in place.

    Args:
        codes: (n, d) the code of every row in every column.
        pairs: (P, 2) the two columns of each pair.
        starts: (P,) where the table of each pair starts in `total`.
        strides: (P,) the length of a row of each table.
        weights: (n,) whole or real numbers.
        total: all tables, flat, of the same type as the weights.
    """
    if HAS_NUMBA:
        _add(codes, pairs[:, 0].copy(), pairs[:, 1].copy(), starts, strides, weights, total)
        return
    for (first, second), start, stride in zip(pairs, starts, strides, strict=True):
        np.add.at(total, start + codes[:, first] * stride + codes[:, second], weights)


def read_pairs(codes: AnyArray, pairs: AnyArray, starts: AnyArray, strides: AnyArray, tables: AnyArray) -> AnyArray:
    """(n,): for every row, the sum over the pairs of its cells in their tables."""
    found = np.zeros(len(codes), dtype=tables.dtype)
    if HAS_NUMBA:
        _read(codes, pairs[:, 0].copy(), pairs[:, 1].copy(), starts, strides, tables, found)
        return found
    for (first, second), start, stride in zip(pairs, starts, strides, strict=True):
        found += tables[start + codes[:, first] * stride + codes[:, second]]
    return found


@compiled
def _add(
    codes: AnyArray,
    first: AnyArray,
    second: AnyArray,
    starts: AnyArray,
    strides: AnyArray,
    weights: AnyArray,
    total: AnyArray,
) -> None:
    for row in range(len(codes)):
        weight = weights[row]
        for pair in range(len(first)):
            cell = starts[pair] + codes[row, first[pair]] * strides[pair] + codes[row, second[pair]]
            total[cell] += weight


@compiled
def _read(
    codes: AnyArray,
    first: AnyArray,
    second: AnyArray,
    starts: AnyArray,
    strides: AnyArray,
    tables: AnyArray,
    found: AnyArray,
) -> None:
    for row in range(len(codes)):
        for pair in range(len(first)):
            cell = starts[pair] + codes[row, first[pair]] * strides[pair] + codes[row, second[pair]]
            found[row] += tables[cell]
