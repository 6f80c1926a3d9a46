"""Brings the pair and triple counts of a sample nearer to those of its mixture than independent draws would.

Records of one component are independent draws, so a pair that should occur 25 times occurs 20 or 30 times. Here
items are exchanged between records of the same component (record lengths and item counts stay as they are) as long
as that brings the counts of pairs and triples, over all records, nearer to what the mixture says. Post-processing.
"""

import numpy as np
from numpy.typing import NDArray

from dpgm.compute.compiled import HAS_NUMBA
from dpgm.compute.swaps import balance
from dpgm.data.domain import Domain
from dpgm.products.rules import SAMPLING


def balanced(
    domain: Domain,
    weights: NDArray[np.float64],
    probabilities: NDArray[np.float32],
    keys: NDArray[np.int64],
    sizes: NDArray[np.int64],
    random: np.random.Generator,
) -> NDArray[np.int64]:
    """What all records hold after exchanges, as record x width + position, in no order.

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
