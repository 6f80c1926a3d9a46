"""How strongly pairs of columns depend on each other, by noisy tables of groups, and the tree of the strongest."""

from collections.abc import Sequence

import numpy as np

from dpgm.arrays import Floats, Ints
from dpgm.statistics.pair_blocks import FOURTHS, PairBlocks
from dpgm.statistics.statistic import Measured

ColumnPair = tuple[int, int]
_LEAST_VARIANCE = 1e-6  # of relative deviations, which it divides


def pair_values(measured: Measured[PairBlocks]) -> list[Floats]:
    """The noisy sums of every pair, (features of the first, features of the second)."""
    values, found, at = measured.value.double().numpy(), [], 0
    for i, j in measured.statistic.pairs.tolist():
        rows, columns = (measured.statistic.features[column].phi.shape[1] for column in (i, j))
        found.append(values[at : at + rows * columns].reshape(rows, columns))
        at += rows * columns
    return found


def mean_weights(blocks: PairBlocks, codes: Ints, prior: float) -> list[Floats]:
    """For every pair, the mean weight of rows in each cell of groups; a cell counts as `prior` more average rows."""
    groups = blocks.groups(codes)
    weights = blocks.row_weights(groups)
    narrow = np.ascontiguousarray(groups.astype(np.int32))
    weighed, counted = (blocks.layout.zeros(np.float64) for _ in range(2))
    blocks.layout.add(narrow, weights, weighed)
    blocks.layout.add(narrow, np.ones(len(codes)), counted)
    means = (weighed + prior * weights.mean()) / (counted + prior)
    return [blocks.layout.table(means, pair)[:-1, :-1] for pair in range(len(blocks.pairs))]


def information(deviations: Floats, noise: Floats | float, expected: Floats, rounds: int) -> float:
    """An estimate of the mutual information in nats, from noisy deviations of the shares of cells from independence.

    The relative deviations of cells are taken as draws of one variance, which is estimated with weights by how far
    cells stand out of their noise; what the noise, of the given variance, adds is subtracted.
    """
    real = expected > 0  # a missing value that no one has has no rows to expect
    deviations, noise, expected = deviations[real], np.broadcast_to(noise, expected.shape)[real], expected[real]
    surplus, variance = (deviations**2 - noise) / expected, 1.0
    for _ in range(rounds):
        trust = (variance * expected / (variance * expected + noise)) ** 2
        variance = max(float((trust * surplus).sum() / trust.sum()), _LEAST_VARIANCE)
    kept = variance * expected / (variance * expected + noise)
    return max(0.0, 0.5 * float((kept * surplus).sum()))


def pair_strengths(
    measured: Measured[PairBlocks], means: Sequence[Floats], shares: Sequence[Floats], records: int, rounds: int
) -> Floats:
    """The mutual information of every pair, in nats (see `information`)."""
    statistic, found = measured.statistic, []
    for pair, ((i, j), values) in enumerate(zip(statistic.pairs.tolist(), pair_values(measured), strict=True)):
        first, second = (np.bincount(statistic.features[at].groups[:-1], shares[at]) for at in (i, j))
        expected: Floats = np.outer(first, second).astype(np.float64)
        scale = records * statistic.emphasis[pair] / FOURTHS * means[pair]
        noise = (measured.std / scale) ** 2
        found.append(information(values / scale, noise, expected, rounds))
    return np.array(found)


def spanning_pairs(pairs: Sequence[ColumnPair], strength: Floats, columns: int) -> list[ColumnPair]:
    """The pairs of a spanning tree of largest total strength; pairs of strength 0 are left out."""
    tree, found = list(range(columns)), []
    for at in np.argsort(-strength, kind="stable").tolist():
        first, second = pairs[at]
        if strength[at] > 0 and tree[first] != tree[second]:
            tree = [tree[second] if one == tree[first] else one for one in tree]
            found.append((first, second))
    return found


def rooted(pairs: Sequence[ColumnPair], columns: int, root: int) -> tuple[int, ...]:
    """The parent of every column in the forest of these pairs, -1 for roots; `root` is one."""
    near: list[list[int]] = [[] for _ in range(columns)]
    for first, second in pairs:
        near[first].append(second)
        near[second].append(first)
    parents = [-2] * columns
    for start in (root, *range(columns)):
        waiting = [start] if parents[start] == -2 else []
        if waiting:
            parents[start] = -1
        while waiting:
            column = waiting.pop()
            for other in near[column]:
                if parents[other] == -2:
                    parents[other] = column
                    waiting.append(other)
    return tuple(parents)
