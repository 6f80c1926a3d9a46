"""MST (McKenna, Miklau, Sheldon 2021) for tables of categories, as a baseline; `spanning_tree.py` is for 0/1 columns.

The steps and thirds of the budget (zCDP) are those of the reference implementation: noisy single columns, of which
values below three standard deviations are merged; a spanning tree of pairs, each edge by the exponential mechanism on
how badly independence explains the pair; noisy pairs along the tree; the tree model of least squared error, by mirror
descent with exact marginals; records drawn with rounded counts. Noise is seeded: a measurement of the method, not a
private release.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from spanning_tree import zcdp

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
_STEPS = 3000
_CLEAR = 3  # standard deviations from which on a value is kept


def synthetic_codes(codes: Codes, sizes: Codes, epsilon: float, delta: float, seed: int) -> Codes:
    """As many rows as there are, drawn from the fitted tree.

    Args:
        codes: value numbers, (rows, columns).
        sizes: how many values every column has.
        epsilon: of the release.
        delta: of the release.
        seed: of the noise, of the choice of the tree and of the rows.
    """
    rng = np.random.default_rng(seed)
    rho, count, width = zcdp(epsilon, delta), len(codes), len(sizes)
    scale = math.sqrt(3 * width / (2 * rho))  # a record is in one cell of each of the columns
    merged, singles = [], []
    kept = []
    for at in range(width):
        noisy = np.bincount(codes[:, at], minlength=sizes[at]) + scale * rng.normal(size=sizes[at])
        clear = noisy >= _CLEAR * scale
        if not clear.any():
            clear[noisy.argmax()] = True
        number = np.where(clear, np.cumsum(clear) - 1, clear.sum())
        small = ~clear
        single = np.append(noisy[clear], noisy[small].sum()) if small.any() else noisy[clear]
        errors = np.append(np.ones(clear.sum()), math.sqrt(small.sum())) if small.any() else np.ones(clear.sum())
        merged.append(number[codes[:, at]])
        singles.append((single, 1 / errors**2))
        kept.append((np.flatnonzero(clear), np.flatnonzero(small)))
    table = np.stack(merged, axis=1)
    edges = _choose_tree(table, [single for single, _ in singles], rho / 3, rng)
    pair_scale = math.sqrt(3 * max(len(edges), 1) / (2 * rho))
    pairs = []
    for i, j in edges:
        shape = len(singles[i][0]), len(singles[j][0])
        cells = np.bincount(table[:, i] * shape[1] + table[:, j], minlength=shape[0] * shape[1]).reshape(shape)
        pairs.append(cells + pair_scale * rng.normal(size=shape))
    weights = [weight * (pair_scale / scale) ** 2 for _, weight in singles]
    model = _fitted(edges, [single for single, _ in singles], weights, pairs, count)
    drawn = _drawn(model, edges, count, rng)
    return np.stack([_unmerged(drawn[:, at], *kept[at], rng) for at in range(width)], axis=1)


def _choose_tree(
    table: Codes, singles: list[Floats], rho: float, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Edges one by one: of the pairs that join two trees, one by the exponential mechanism (Gumbel noise)."""
    width, count = len(singles), len(table)
    shares = [np.maximum(single, 0) / max(np.maximum(single, 0).sum(), 1) for single in singles]
    pairs = [(i, j) for i in range(width) for j in range(i + 1, width)]
    scores = []
    for i, j in pairs:
        cells = np.bincount(table[:, i] * len(shares[j]) + table[:, j], minlength=len(shares[i]) * len(shares[j]))
        scores.append(np.abs(cells - count * np.outer(shares[i], shares[j]).ravel()).sum())
    sharpness = 0.5 * math.sqrt(8 * rho / max(width - 1, 1))
    tree, edges = list(range(width)), []
    for _ in range(width - 1):
        apart = [at for at, (i, j) in enumerate(pairs) if tree[i] != tree[j]]
        values = np.array([sharpness * scores[at] + rng.gumbel() for at in apart])
        i, j = pairs[apart[int(values.argmax())]]
        edges.append((i, j))
        old, new = tree[j], tree[i]
        tree = [new if one == old else one for one in tree]
    return _from_root(edges, width)


def _from_root(edges: list[tuple[int, int]], width: int) -> list[tuple[int, int]]:
    """(parent, child), parents first."""
    order, seen = [], {0}
    while len(seen) < width:
        for i, j in edges:
            for parent, child in ((i, j), (j, i)):
                if parent in seen and child not in seen:
                    order.append((parent, child))
                    seen.add(child)
    return order


@dataclass(frozen=True)
class _Tree:
    """Marginals of all columns, and of all edges."""

    singles: list[Floats]
    pairs: list[Floats]


def _fitted(
    edges: list[tuple[int, int]], singles: list[Floats], weights: list[Floats], pairs: list[Floats], count: int
) -> _Tree:
    """Mirror descent on the squared error of shares, with steps that grow while it falls."""
    wanted = _Tree([one / count for one in singles], [one / count for one in pairs])
    potentials = _Tree([np.zeros(len(one)) for one in singles], [np.zeros(one.shape) for one in pairs])
    step, now = 1.0, _marginals(potentials, edges)
    loss = _loss(now, wanted, weights)
    for _ in range(_STEPS):
        single = zip(potentials.singles, weights, now.singles, wanted.singles, strict=True)
        double = zip(potentials.pairs, now.pairs, wanted.pairs, strict=True)
        moved = _Tree([p - step * w * (m - y) for p, w, m, y in single], [p - step * (m - y) for p, m, y in double])
        tried = _marginals(moved, edges)
        new_loss = _loss(tried, wanted, weights)
        if new_loss > loss:
            step /= 2
            continue
        potentials, now, loss, step = moved, tried, new_loss, step * 1.1
    return now


def _loss(found: _Tree, wanted: _Tree, weights: list[Floats]) -> float:
    single = sum(
        float((w * (m - y) ** 2).sum()) for w, m, y in zip(weights, found.singles, wanted.singles, strict=True)
    )
    return single + sum(float(((m - y) ** 2).sum()) for m, y in zip(found.pairs, wanted.pairs, strict=True))


def _marginals(potentials: _Tree, edges: list[tuple[int, int]]) -> _Tree:
    """Exact marginals of the tree, by messages to the root and back."""
    up = [one.copy() for one in potentials.singles]
    messages: dict[int, Floats] = {}
    for at, (parent, child) in reversed([*enumerate(edges)]):
        messages[child] = logsumexp(_edge(potentials.pairs[at], up[child]), axis=1)
        up[parent] = up[parent] + messages[child]
    singles: list[Floats] = [np.empty(0)] * len(up)
    pairs = []
    singles[0] = np.exp(up[0] - logsumexp(up[0]))
    for at, (parent, child) in enumerate(edges):
        given = np.exp(_edge(potentials.pairs[at], up[child]) - messages[child][:, None])  # child given parent
        joint = singles[parent][:, None] * given
        pairs.append(joint)
        singles[child] = joint.sum(axis=0)
    return _Tree(singles, pairs)


def _edge(pair: Floats, below: Floats) -> Floats:
    result: Floats = pair + below[None, :]
    return result


def _drawn(model: _Tree, edges: list[tuple[int, int]], count: int, rng: np.random.Generator) -> Codes:
    """Rows with rounded counts: the root first, every other column given its parent."""
    rows = np.empty((count, len(model.singles)), dtype=np.int64)
    rows[:, 0] = _rounded(model.singles[0], count, rng)
    for at, (parent, child) in enumerate(edges):
        for value in np.unique(rows[:, parent]):
            group = np.flatnonzero(rows[:, parent] == value)
            rows[group, child] = _rounded(model.pairs[at][value], len(group), rng)
    return rows


def _rounded(shares: Floats, rows: int, rng: np.random.Generator) -> Codes:
    """As many rows with each value as its share says, the rest at random, in random order."""
    expected = shares / max(float(shares.sum()), 1e-300) * rows
    counts = np.floor(expected).astype(np.int64)
    rest = rows - int(counts.sum())
    if rest:
        left = expected - counts + 1e-300
        counts += np.bincount(rng.choice(len(shares), rest, p=left / left.sum()), minlength=len(shares))
    return rng.permutation(np.repeat(np.arange(len(shares)), counts))


def _unmerged(column: Codes, kept: Codes, small: Codes, rng: np.random.Generator) -> Codes:
    """Values of merged ones: any of those that were merged."""
    values = np.append(kept, -1)[column]
    merged = values < 0
    values[merged] = rng.choice(small, int(merged.sum())) if len(small) else kept[0]
    return values
