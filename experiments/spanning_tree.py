"""MST (McKenna, Miklau, Sheldon 2021) for tables of 0/1 columns, as a baseline for wide item sets.

The three steps and thirds of the budget (zCDP) are those of the reference implementation: noisy single columns; a
spanning tree of pairs, each edge by the exponential mechanism on how badly independence explains the pair; noisy
pairs along the tree. The tree model of least squared error is then found exactly, cells being at least 0, where the
reference descends step by step; that is what makes a thousand columns a matter of seconds. Records are drawn with
rounded counts, as there. Columns are not merged ("compressed"): a 0/1 column has nothing to merge. Noise is seeded: a
measurement of the method, not a private release.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

from dpgm.data.domain import Domain
from dpgm.data.records import Records, concatenate
from dpgm.evaluation.marginals import pair_counts

Floats = NDArray[np.float64]
Edges = NDArray[np.int64]
_STEPS = 2000
_ROWS = 2**18


@dataclass(frozen=True)
class SpanningTree:
    """A tree of 0/1 columns: the share of ones of each, and of ones in both columns of each edge."""

    domain: Domain
    edges: Edges  # (m - 1, 2)
    single: Floats
    both: Floats

    @classmethod
    def fit(cls, records: Records, epsilon: float, delta: float, seed: int) -> "SpanningTree":
        """Measure single columns, choose the tree, measure its pairs, estimate."""
        generator = np.random.default_rng(seed)
        count, width = len(records), records.width
        rho = zcdp(epsilon, delta)
        # Each step has a third of rho; a record is in one cell of each of m (or m - 1) tables.
        scale = math.sqrt(3 / (2 * rho)) * math.sqrt(width)
        counts = pair_counts(records, np.arange(width, dtype=np.int64)).astype(np.float64)
        ones = np.diag(counts)
        columns = np.stack([count - ones, ones]) + generator.normal(0, scale, (2, width))
        guess = np.clip((columns[1] - columns[0] + count) / 2, 0, count)
        edges = choose_tree(counts, guess, count, rho / 3, generator)
        i, j = edges.T
        joint = counts[i, j]
        cells = np.stack([count - ones[i] - ones[j] + joint, ones[j] - joint, ones[i] - joint, joint])
        pairs = cells + generator.normal(0, scale, cells.shape)
        single, both = estimate(edges, columns, pairs, count)
        return cls(records.domain, edges, single, both)

    def sample(self, count: int, seed: int) -> Records:
        """`count` records: the root first, then every column given its parent, with rounded counts."""
        generator = np.random.default_rng([seed, 1])
        order = _from_root(self.edges, len(self.single))
        parts = []
        for start in range(0, count, _ROWS):
            rows = min(_ROWS, count - start)
            held = np.zeros((len(self.single), rows), dtype=np.bool_)
            for column, parent, edge in order:
                if parent < 0:
                    held[column] = _rounded(self.single[column], rows, generator)
                    continue
                for value in (False, True):
                    group = np.flatnonzero(held[parent] == value)
                    joint = self.both[edge] if value else self.single[column] - self.both[edge]
                    whole = self.single[parent] if value else 1 - self.single[parent]
                    held[column, group] = _rounded(joint / whole if whole > 0 else 0.0, len(group), generator)
            parts.append(Records.from_dense(held.T, self.domain))
        return concatenate(parts)


def zcdp(epsilon: float, delta: float) -> float:
    """The largest rho whose zero-concentrated privacy implies (epsilon, delta) (Canonne, Kamath, Steinke 2020)."""

    def implied(rho: float) -> float:
        low, high = 1.01, 1e5
        for _ in range(200):  # the best order alpha, where the derivative changes its sign
            alpha = (low + high) / 2
            slope = (2 * alpha - 1) * rho - epsilon + math.log1p(-1 / alpha)
            low, high = (alpha, high) if slope < 0 else (low, alpha)
        exponent = (alpha - 1) * (alpha * rho - epsilon) + alpha * math.log1p(-1 / alpha)
        return min(1.0, math.exp(exponent) / (alpha - 1))

    low, high = 0.0, epsilon + 1
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if implied(middle) <= delta else (low, middle)
    return low


def choose_tree(counts: Floats, guess: Floats, count: int, rho: float, generator: np.random.Generator) -> Edges:
    """Edges one by one: of the pairs that join two trees, one by the exponential mechanism (Gumbel noise)."""
    width = len(guess)
    first, second = np.triu_indices(width, 1)
    ones, both = np.diag(counts), counts[first, second]
    a, b, p, q = ones[first], ones[second], guess[first], guess[second]
    real = (count - a - b + both, b - both, a - both, both)
    model = ((count - p) * (count - q), (count - p) * q, p * (count - q), p * q)
    error = sum(np.abs(x - y / count) for x, y in zip(real, model, strict=True))
    score = 0.5 * math.sqrt(8 * rho / max(1, width - 1)) * error
    tree = np.arange(width)
    edges = []
    for _ in range(width - 1):
        chosen = int((score + generator.gumbel(size=len(score))).argmax())
        edges.append((first[chosen], second[chosen]))
        tree[tree == tree[second[chosen]]] = tree[first[chosen]]
        apart = tree[first] != tree[second]
        first, second, score = first[apart], second[apart], score[apart]
    return np.array(edges, dtype=np.int64).reshape(-1, 2)


def estimate(edges: Edges, columns: Floats, pairs: Floats, count: int) -> tuple[Floats, Floats]:
    """The tree model closest to all noisy cells, every cell being at least 0: a quadratic program, by ADMM."""
    width, number = columns.shape[1], len(edges)
    i, j, q = edges[:, 0], edges[:, 1], width + np.arange(number)
    at = np.arange(width)
    one = np.ones(number)
    # Cells as linear functions of the numbers of ones p and q: zeros and ones of columns, 00 01 10 11 of pairs.
    entries = [(at, at, -np.ones(width)), (width + at, at, np.ones(width))]
    rows = [2 * width + part * number + np.arange(number) for part in range(4)]
    entries += [(rows[0], i, -one), (rows[0], j, -one), (rows[0], q, one), (rows[1], j, one), (rows[1], q, -one)]
    entries += [(rows[2], i, one), (rows[2], q, -one), (rows[3], q, one)]
    row, column, value = (np.concatenate(part) for part in zip(*entries, strict=True))
    cells = sparse.csc_matrix((value, (row, column)), shape=(2 * width + 4 * number, width + number))
    offset = np.concatenate([np.full(width, count), np.zeros(width), np.full(number, count), np.zeros(3 * number)])
    noisy = np.concatenate([columns.ravel(), pairs.ravel()])
    solver = splu((cells.T @ cells).tocsc())
    least, dual = np.maximum(noisy, 0), np.zeros(len(noisy))
    for _ in range(_STEPS):
        numbers = solver.solve(cells.T @ ((noisy + least - dual) / 2 - offset))
        reached = cells @ numbers + offset
        least = np.maximum(reached + dual, 0)
        dual += reached - least
    single = np.clip(numbers[:width] / count, 0, 1)
    low, high = np.maximum(0, single[i] + single[j] - 1), np.minimum(single[i], single[j])
    return single, np.clip(numbers[width:] / count, low, high)


def _from_root(edges: Edges, width: int) -> list[tuple[int, int, int]]:
    """Columns with their parent and the edge to it (-1: none), parents first."""
    near: list[list[tuple[int, int]]] = [[] for _ in range(width)]
    for edge, (a, b) in enumerate(edges.tolist()):
        near[a].append((b, edge))
        near[b].append((a, edge))
    order, seen = [(0, -1, -1)], {0}
    for column, _, _ in order:
        for other, edge in near[column]:
            if other not in seen:
                seen.add(other)
                order.append((other, column, edge))
    return order


def _rounded(share: float, rows: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    ones = min(rows, int(share * rows + generator.random()))
    held = np.zeros(rows, dtype=np.bool_)
    held[generator.permutation(rows)[:ones]] = True
    return held
