"""Draws records from a mixture of products so that counts vary less than in independent draws.

The size of a component in the sample, and the number of its records that hold an item, are fixed up to rounding
(`round_shares`, `draw_values`, `draw_items`). Then, in samples that are not too large:

- where every component is a single possible record, the rounding of sizes is chosen so that items and pairs come out
  right (`improve_rounding`);
- else items are exchanged between records of a component until the counts of pairs and triples are nearer to the
  mixture's (`balance_records`).
"""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.data.rows import index_dtype, row_pointers
from dpgm.kernels.compiled import HAS_NUMBA
from dpgm.kernels.item_swaps import balance as exchange_items
from dpgm.kernels.rounded_draws import draw_items, round_shares
from dpgm.products.rules import SamplingRules


def draw_records(
    domain: Domain,
    weights: Tensor,
    probabilities: Tensor,
    count: int,
    phase: float,
    random: np.random.Generator,
    rules: SamplingRules,
    *,
    balance: bool,
) -> Records:
    """`count` records in random order.

    Args:
        domain: the public domain.
        weights: (k,) shares of the components.
        probabilities: (k, m) of the positions in each component.
        count: number of records.
        phase: offset in [0, 1) at which the sizes of the components are rounded.
        random: source of all draws.
        rules: what is balanced, and how far.
        balance: whether to reduce the errors of pairs as well, over the whole sample.
    """
    order = _similar_next_to_each_other(weights, probabilities, rules)
    shares, chances = weights.numpy()[order], probabilities.numpy()
    expected = count * shares / shares.sum()
    sizes = round_shares(expected, phase)
    if balance and _single_records(probabilities, rules):
        sizes = improve_rounding(expected, sizes, chances[order] > 0.5, random, rules)
    used = sizes > 0
    sizes, order = sizes[used], order[used]
    starts = np.cumsum(sizes) - sizes
    parts = [np.empty(0, dtype=np.int64)]  # of record x width + position
    for block in domain.blocks:
        own = chances[order, block.start : block.stop]
        if block.softmax:
            values = draw_values(own, sizes, random)
            parts.append(np.arange(count) * domain.width + block.start + values)
        else:
            rows, items = draw_items(own, sizes, starts, random)
            parts.append(rows * domain.width + block.start + items)
    keys = np.concatenate(parts)
    if balance:
        keys = balance_records(domain, weights.numpy(), chances, keys, sizes, random, rules)
    rows = keys // domain.width
    shuffled = random.permutation(count)
    keys = np.sort((shuffled[rows] - rows) * domain.width + keys)
    rows = keys // domain.width
    positions = keys - rows * domain.width
    indptr = row_pointers(np.bincount(rows, minlength=count))
    return Records(domain, indptr, positions.astype(index_dtype(domain.width)))


def drawn_at_once(weights: Tensor, probabilities: Tensor, count: int, rules: SamplingRules) -> bool:
    """Whether `count` records are few enough to be balanced, or to have their rounding improved as a whole."""
    if count <= rules.balanced_records:
        return True
    mean_length = float(weights @ probabilities.double().sum(dim=1))
    return _single_records(probabilities, rules) and count * (1 + mean_length) <= rules.rounded_cells


def _single_records(probabilities: Tensor, rules: SamplingRules) -> bool:
    """Whether there are few positions and every component has one possible record."""
    few = probabilities.shape[1] <= rules.certain_positions
    return few and bool(((probabilities == 0) | (probabilities == 1)).all())


def _similar_next_to_each_other(weights: Tensor, probabilities: Tensor, rules: SamplingRules) -> Ints:
    """Components ordered by the items they are likely to hold, the most frequent items first.

    Rounding carries its error over to the next component, so a similar one makes up for it.
    """
    frequent = np.argsort(-(weights @ probabilities.double()).numpy(), kind="stable")[: rules.sorted_by]
    return np.lexsort((probabilities.numpy()[:, frequent[::-1]] > 0.5).T)


def draw_values(probabilities: NDArray[np.float32], sizes: Ints, random: np.random.Generator) -> Ints:
    """One value of a table column for every record: shares are rounded within a component, then shuffled."""
    values = []
    for row, size in zip(probabilities, sizes, strict=True):
        exact = row.astype(np.float64)
        grid = (np.arange(size) + random.random()) / size * exact.sum()
        drawn = np.minimum(np.searchsorted(np.cumsum(exact), grid, side="right"), len(row) - 1)
        values.append(random.permutation(drawn))
    return np.concatenate(values) if values else np.empty(0, dtype=np.int64)


def balance_records(
    domain: Domain,
    weights: Floats,
    probabilities: NDArray[np.float32],
    keys: Ints,
    sizes: Ints,
    random: np.random.Generator,
    rules: SamplingRules,
) -> Ints:
    """Exchange items between records of a component, so that pairs and triples are nearer to their expectations.

    Records of one component are independent draws, so a pair that should occur 25 times occurs 20 or 30 times. An
    exchange leaves record lengths and item counts as they are. `keys` lists what records hold, as record x width +
    position, and so does the result, in no order; `sizes` are the numbers of records of the components, which follow
    each other.
    """
    count = int(sizes.sum())
    nothing_random = bool(((probabilities == 0) | (probabilities == 1)).all())
    if not HAS_NUMBA or nothing_random or not 1 < count <= rules.balanced_records:
        return keys
    frequent = np.argsort(-(weights @ probabilities), kind="stable")
    rank = np.empty(domain.width, dtype=np.int64)
    rank[frequent] = np.arange(domain.width)
    groups = np.zeros(domain.width, dtype=np.int64)
    for number, column in enumerate(domain.table_columns, start=1):
        groups[rank[column]] = number
    chances = probabilities[:, frequent[: rules.pairs]].astype(np.float64)
    shares = weights[:, None] / weights.sum()
    pairs = count * (chances * shares).T @ chances
    few = chances[:, : rules.triples]
    triples = count * np.einsum("ca,cb,cd->abd", few * shares, few, few, optimize=True)
    rows, positions = np.divmod(np.sort(keys), domain.width)
    indptr = row_pointers(np.bincount(rows, minlength=count))
    items = rank[positions]
    exchange_items(
        indptr, items, np.cumsum(sizes) - sizes, sizes, groups,
        -pairs, _penalty_weights(pairs, count, rules), -triples, _penalty_weights(triples, count, rules),
        rules.sweeps, random.integers(2**62, size=1, dtype=np.uint64),
    )  # fmt: skip
    exchanged: Ints = rows * domain.width + frequent[items]
    return exchanged


def _penalty_weights(expected: Floats, count: int, rules: SamplingRules) -> Floats:
    """Weights of squared errors: errors are relative to the expected count, or to the least count that matters."""
    return 1 / np.maximum(expected, rules.sanity * count) ** 2


def improve_rounding(
    expected: Floats,
    sizes: Ints,
    present: NDArray[np.bool_],
    random: np.random.Generator,
    rules: SamplingRules,
) -> Ints:
    """Sizes with the same total, each next to its expectation, whose counts of items and pairs have smaller errors.

    For components of one possible record each, `present` (k, m). Thousands of sizes that are rounded one by one leave
    random errors in the item counts. Here single records move from a component that was rounded up to one that was
    rounded down, as long as that reduces the squared relative errors of items and pairs.
    """
    sizes = sizes.copy()
    up, down = np.flatnonzero(sizes < expected), np.flatnonzero(sizes > expected)
    if not len(up) or not len(down):
        return sizes
    first, second = np.triu_indices(present.shape[1])
    target = (present * expected[:, None]).T @ present
    yardstick = np.maximum(target[first, second], rules.sanity * expected.sum())

    def features(chosen: Ints) -> Floats:
        marked: Floats = (present[chosen][:, first] & present[chosen][:, second]) / yardstick
        return marked

    errors = ((present * (sizes - expected)[:, None]).T @ present)[first, second] / yardstick
    moves = stale = 0
    while moves < rules.moves and stale < rules.stale_draws:
        gain, lose = (
            random.choice(side, min(len(side), rules.candidates // 2), replace=False) for side in (up, down)
        )
        gained, lost = features(gain), features(lose)
        gain_squares, lose_squares = (gained**2).sum(axis=1), (lost**2).sum(axis=1)
        free_gain, free_lose = np.ones(len(gain), dtype=np.bool_), np.ones(len(lose), dtype=np.bool_)
        before = moves
        while moves < rules.moves and free_gain.any() and free_lose.any():
            # Change of the squared errors if one record is taken away, and then another one added.
            removal = np.where(free_lose, lose_squares - 2 * lost @ errors, np.inf)
            off = int(removal.argmin())
            addition = np.where(free_gain, gain_squares + 2 * gained @ (errors - lost[off]), np.inf)
            on = int(addition.argmin())
            if removal[off] + addition[on] >= -1e-15:
                break
            errors += gained[on] - lost[off]
            sizes[gain[on]] += 1
            sizes[lose[off]] -= 1
            free_gain[on] = free_lose[off] = False
            moves += 1
        stale = stale + 1 if moves == before else 0
        up, down = np.flatnonzero(sizes < expected), np.flatnonzero(sizes > expected)
        if not len(up) or not len(down):
            break
    return sizes
