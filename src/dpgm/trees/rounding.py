"""Takes rows from a weighted pool so that counts vary less than in independent draws.

Rows are first taken evenly along the columns of the forest. Then single rows are exchanged for others of the pool as
long as that brings the counts of columns and of pairs of columns nearer to their expectations. Of independent draws the
error of a pair of columns would be larger than that of the measured noise.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from dpgm.arrays import Floats, Ints
from dpgm.kernels.compiled import HAS_NUMBA
from dpgm.kernels.pair_kernels import add_pairs
from dpgm.kernels.row_swaps import exchange_rows
from dpgm.trees.rules import TreeSamplingRules


def choose_rows(
    codes: Ints,
    sizes: Sequence[int],
    order: Sequence[int],
    log_weights: Floats,
    count: int,
    rng: np.random.Generator,
    rules: TreeSamplingRules,
) -> Ints:
    """`count` rows in random order; one of weight w is taken at most w times its share, rounded up.

    Args:
        codes: (n, d) the codes of the pool.
        sizes: the number of codes of every column.
        order: columns in the order of the forest.
        log_weights: (n,) logarithms of the weights.
        count: the number of rows.
        rng: source of all draws.
        rules: how many rows are tried.
    """
    weights = np.exp(log_weights - log_weights.max())
    weights *= count / weights.sum()
    along = np.lexsort(codes[:, list(order)[::-1]].T)
    chosen = rng.permutation(_evenly(weights, along, count, rng))
    if not HAS_NUMBA or count > rules.whole or codes.shape[1] < 2:
        return chosen
    cells = _Cells(codes, sizes, rules)
    expected = cells.sums(np.arange(len(codes)), weights)
    errors = cells.sums(chosen, np.ones(count)) - expected
    penalties = 1 / np.maximum(expected, 1.0)
    penalties[cells.single :] *= rules.column_penalty
    room = np.ceil(weights).astype(np.int64) - np.bincount(chosen, minlength=len(codes))
    for _ in range(cells.sweeps(count)):
        candidates = rng.permutation(_evenly(weights, along, count, rng))
        cells.exchange(errors, penalties, chosen, room, candidates)
    return chosen


def _evenly(weights: Floats, along: Ints, count: int, rng: np.random.Generator) -> Ints:
    """Rows in proportion to their weights, evenly spread over the rows in a given order."""
    ends = np.cumsum(weights[along])
    at = (np.arange(count) + rng.random()) / count * ends[-1]
    rows: Ints = along[np.minimum(np.searchsorted(ends, at, side="right"), len(along) - 1)]
    return rows


class _Cells:
    """The cells of all pairs of columns, and then those of single columns, in one flat array."""

    def __init__(self, codes: Ints, sizes: Sequence[int], rules: TreeSamplingRules) -> None:
        self._rules = rules
        # A row without a value has the code after the last one. Long columns are cut into coarser codes.
        widths = np.minimum(np.array(sizes) + 1, rules.most_codes)
        self._codes = np.ascontiguousarray((codes * widths // (np.array(sizes) + 1)).astype(np.int32))
        columns = range(len(sizes))
        self._pairs = np.array([*combinations(columns, 2), *((one, one) for one in columns)], dtype=np.int64)
        first, second = widths[self._pairs[:, 0]], widths[self._pairs[:, 1]]
        alone = self._pairs[:, 0] == self._pairs[:, 1]
        self._strides = np.where(alone, 0, second).astype(np.int64)
        lengths = np.where(alone, first, first * second)
        self._starts = (np.cumsum(lengths) - lengths).astype(np.int64)
        self._total = int(lengths.sum())
        self.single = int(self._starts[-len(sizes)])

    def sums(self, rows: Ints, weights: Floats) -> Floats:
        """The weight of the rows in every cell."""
        total = np.zeros(self._total)
        add_pairs(self._codes[rows], self._pairs, self._starts, self._strides, weights, total)
        return total

    def sweeps(self, count: int) -> int:
        """How often every row of the sample is tried."""
        affordable = self._rules.tried_cells // (count * len(self._pairs) + 1)
        return int(np.clip(affordable, 1, self._rules.sweeps))

    def exchange(self, errors: Floats, penalties: Floats, chosen: Ints, room: Ints, candidates: Ints) -> None:
        """Try every candidate in the place of one chosen row."""
        exchange_rows(
            self._codes, self._pairs, self._starts, self._strides, errors, penalties, chosen, room, candidates
        )
