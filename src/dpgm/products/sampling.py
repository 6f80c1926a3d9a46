"""Arranges a sample of a mixture of products, so that it varies less than independent draws. Post-processing.

The number of records of a component, and of those that hold an item, is fixed up to rounding (`rounded`, `one_of_many`,
`subsets`); where components leave nothing to chance the rounding is arranged so that items and pairs come out right
(`evened`); else items are exchanged between records of a component until counts of pairs and triples come nearer to
the mixture's (`balanced`).
"""

import numpy as np
from numpy.typing import NDArray

from dpgm.compute.compiled import HAS_NUMBA
from dpgm.compute.set_kernels import balance
from dpgm.data.domain import Domain
from dpgm.products.rules import SAMPLING


def rounded(shares: NDArray[np.float64], offset: float | NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole numbers next to `shares` (along the first axis) whose running sums are off by less than 1."""
    running = np.floor(np.cumsum(shares, axis=0) + offset + 1e-9).astype(np.int64)
    if shares.ndim == 1:
        total = round(float(shares.sum()))
        running = np.minimum(running, total)
        running[-1:] = total
    return np.diff(running, axis=0, prepend=np.zeros_like(running[:1]))


def one_of_many(
    probabilities: NDArray[np.float32], sizes: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.int64]:
    """A value for every place of every component: shares rounded, then dealt out at random."""
    values = []
    for row, size in zip(probabilities, sizes, strict=True):
        exact = row.astype(np.float64)
        grid = (np.arange(size) + random.random()) / size * exact.sum()
        dealt = np.minimum(np.searchsorted(np.cumsum(exact), grid, side="right"), len(row) - 1)
        values.append(random.permutation(dealt))
    return np.concatenate(values) if values else np.empty(0, dtype=np.int64)


def subsets(
    probabilities: NDArray[np.float32],
    sizes: NDArray[np.int64],
    starts: NDArray[np.int64],
    random: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places and items of all ones: each item goes to its rounded number of places of each component.

    Distinct places come from drawing with repetition and drawing the repeated ones again; items held by more
    than half of a component are dealt by choosing who does not get them.
    """
    width = probabilities.shape[1]
    expected = probabilities.astype(np.float64) * sizes[:, None]
    counts = np.clip(rounded(expected, random.random(width)), 0, sizes[:, None])
    absent = 2 * counts > sizes[:, None]
    drawn = np.where(absent, sizes[:, None] - counts, counts)
    rows, items = np.nonzero(drawn)
    repeats = drawn[rows, items]
    keys = _distinct(rows, items, repeats, sizes, starts, width, random)
    out = absent[np.searchsorted(starts, keys // width, side="right") - 1, keys % width]
    if not absent.any():
        return keys // width, keys % width
    given = [keys[~out]]
    without = np.sort(keys[out])
    everywhere = absent & (drawn == 0)
    rows, items = np.nonzero(everywhere)
    places = np.repeat(starts[rows] - (np.cumsum(sizes[rows]) - sizes[rows]), sizes[rows])
    given.append((places + np.arange(len(places))) * width + np.repeat(items, sizes[rows]))
    for component, item in zip(*np.nonzero(absent & ~everywhere), strict=True):
        everyone = np.arange(starts[component], starts[component] + sizes[component]) * width + item
        places = np.searchsorted(without, everyone)
        places[places == len(without)] = 0
        given.append(everyone[without[places] != everyone])
    keys = np.concatenate(given)
    return keys // width, keys % width


def _distinct(
    rows: NDArray[np.int64],
    items: NDArray[np.int64],
    repeats: NDArray[np.int64],
    sizes: NDArray[np.int64],
    starts: NDArray[np.int64],
    width: int,
    random: np.random.Generator,
) -> NDArray[np.int64]:
    """For each (component, item) pair that many distinct places of the component, as place * width + item."""
    keys = np.empty(0, dtype=np.int64)
    group = np.repeat(np.arange(len(rows)), repeats)
    while len(group):
        places = starts[rows[group]] + (random.random(len(group)) * sizes[rows[group]]).astype(np.int64)
        fresh = places * width + items[group]
        joined = np.concatenate([keys, fresh])
        sorted_order = np.argsort(joined, kind="stable")  # older ones first among equals
        ordered = joined[sorted_order]
        again = np.zeros(len(joined), dtype=np.bool_)
        again[sorted_order[1:]] = ordered[1:] == ordered[:-1]
        group = group[again[len(keys) :]]
        keys = joined[~again]
    return keys


def balanced(
    domain: Domain,
    weights: NDArray[np.float64],
    probabilities: NDArray[np.float32],
    keys: NDArray[np.int64],
    sizes: NDArray[np.int64],
    random: np.random.Generator,
) -> NDArray[np.int64]:
    """What all records hold after exchanges, as record x width + position, in no order.

    Records of one component are independent draws, so a pair that should occur 25 times occurs 20 or 30 times. Items
    are exchanged between records of the same component (record lengths and item counts stay as they are) as long as
    that brings the counts of pairs and triples, over all records, nearer to what the mixture says.

    Args:
        domain: the public domain.
        weights: (k,) shares of the components.
        probabilities: (k, m).
        keys: what they hold before, in the same form; records of a component follow each other.
        sizes: how many records each component has.
        random: source of the exchanges tried.
    """
    count = int(sizes.sum())
    certain = bool(((probabilities == 0) | (probabilities == 1)).all())  # nothing is left to chance
    if not HAS_NUMBA or certain or not 1 < count <= SAMPLING.balanced_records:
        return keys
    frequent = np.argsort(-(weights @ probabilities), kind="stable")
    rank = np.empty(domain.width, dtype=np.int64)
    rank[frequent] = np.arange(domain.width)
    groups = np.zeros(domain.width, dtype=np.int64)
    for number, column in enumerate(domain.table_columns, start=1):
        groups[rank[column]] = number
    chances = probabilities[:, frequent[: SAMPLING.pairs]].astype(np.float64)
    shares = weights[:, None] / weights.sum()
    pairs = count * (chances * shares).T @ chances
    few = chances[:, : SAMPLING.triples]
    triples = count * np.einsum("ca,cb,cd->abd", few * shares, few, few, optimize=True)
    rows, positions = np.divmod(np.sort(keys), domain.width)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
    items = rank[positions]
    balance(
        indptr, items, np.cumsum(sizes) - sizes, sizes, groups,
        -pairs, _weights(pairs, count), -triples, _weights(triples, count),
        SAMPLING.sweeps, random.integers(2**62, size=1, dtype=np.uint64),
    )  # fmt: skip
    exchanged: NDArray[np.int64] = rows * domain.width + frequent[items]
    return exchanged


def _weights(expected: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """What a squared excess costs: errors count relative to what is expected."""
    return 1 / np.maximum(expected, SAMPLING.sanity * count) ** 2


def evened(
    expected: NDArray[np.float64],
    sizes: NDArray[np.int64],
    present: NDArray[np.bool_],
    random: np.random.Generator,
) -> NDArray[np.int64]:
    """Sizes with the same total, each next to its expectation, whose items and pairs are nearer to the expected ones.

    For components of one possible record each. Rounded one by one, thousands of sizes leave the counts of items off by
    chance. Here single records move from component to component, rounded up here and down there, as long as that
    brings the counts of items and pairs nearer to what they should be.

    Args:
        expected: (k,) records that each component should have.
        sizes: (k,) whole numbers to start from.
        present: (k, m) what the records of each component hold.
        random: source of the moves tried.
    """
    sizes = sizes.copy()
    up, down = np.flatnonzero(sizes < expected), np.flatnonzero(sizes > expected)
    if not len(up) or not len(down):
        return sizes
    first, second = np.triu_indices(present.shape[1])
    target = (present * expected[:, None]).T @ present
    yardstick = np.maximum(target[first, second], SAMPLING.sanity * expected.sum())

    def features(chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        marked: NDArray[np.float64] = (present[chosen][:, first] & present[chosen][:, second]) / yardstick
        return marked

    gap = ((present * (sizes - expected)[:, None]).T @ present)[first, second] / yardstick
    moves = stale = 0
    while moves < SAMPLING.moves and stale < SAMPLING.stale_draws:
        gain, lose = (
            random.choice(side, min(len(side), SAMPLING.candidates // 2), replace=False) for side in (up, down)
        )
        gained, lost = features(gain), features(lose)
        gain_squares, lose_squares = (gained**2).sum(axis=1), (lost**2).sum(axis=1)
        free_gain, free_lose = np.ones(len(gain), dtype=np.bool_), np.ones(len(lose), dtype=np.bool_)
        before = moves
        while moves < SAMPLING.moves and free_gain.any() and free_lose.any():
            fall = np.where(free_lose, lose_squares - 2 * lost @ gap, np.inf)
            off = int(fall.argmin())
            rise = np.where(free_gain, gain_squares + 2 * gained @ (gap - lost[off]), np.inf)
            on = int(rise.argmin())
            if fall[off] + rise[on] >= -1e-15:
                break
            gap += gained[on] - lost[off]
            sizes[gain[on]] += 1
            sizes[lose[off]] -= 1
            free_gain[on] = free_lose[off] = False
            moves += 1
        stale = stale + 1 if moves == before else 0
        up, down = np.flatnonzero(sizes < expected), np.flatnonzero(sizes > expected)
        if not len(up) or not len(down):
            break
    return sizes
