"""Chains of items: how a mixture of them is laid out in cells, started from noisy counts, and drawn from.

A component has a law for each item before: what comes next, an item or the end. The start counts as an item before.
"""

import numpy as np
import torch

from dpgm.arrays import Floats, Ints
from dpgm.data.events import Events
from dpgm.data.rows import index_dtype, row_pointers
from dpgm.sequences.mixture import ChainMixture
from dpgm.statistics.shrinkage import onto_simplex

_DRAWS = 1 << 22  # comparisons of a uniform number with running sums at once


def chain_sizes(items: int) -> tuple[int, ...]:
    """The groups of a chain: for each item before, and the start, the items and the end."""
    return (items + 1,) * (items + 1)


def first_chain(steps: Floats, items: int, floor: float) -> ChainMixture:
    """The chain of noisy counts of steps; each row is projected onto shares that are at least `floor` / items."""
    table = np.maximum(steps.reshape(items + 1, items + 1), 0.0)
    rows = [onto_simplex(row / max(row.sum(), 1e-9), 1.0, floor / (items + 1)) for row in table]
    chances = torch.from_numpy(np.concatenate(rows)[None]).float()
    return ChainMixture(torch.ones(1, dtype=torch.float64), chances, chain_sizes(items))


def uniform_events(lengths: Ints, items: int, rng: np.random.Generator) -> Events:
    """Events of people with the given lengths, all items equally likely."""
    codes = rng.integers(0, items, int(lengths.sum())).astype(index_dtype(items))
    return Events(row_pointers(lengths), codes)


def draw_events(
    mixture: ChainMixture, component: Ints, items: int, longest: int, rng: np.random.Generator
) -> Events:
    """The events of people of the given components; whoever has `longest` events ends there."""
    width = items + 1
    laws = mixture.chances[:, : width**2].reshape(-1, width)
    running = torch.cumsum(laws, dim=1).numpy()[:, :-1].copy()  # what exceeds all of them is the end
    alive, before = np.arange(len(component)), np.full(len(component), items)
    people, codes = [alive[:0]], [before[:0]]
    for _ in range(longest):
        after = _next(running, component[alive] * width + before, rng)
        goes_on = after < items
        alive, before = alive[goes_on], after[goes_on]
        if not len(alive):
            break
        people.append(alive)
        codes.append(before)
    owner = np.concatenate(people)
    order = np.argsort(owner, kind="stable")
    flat = np.concatenate(codes)[order].astype(index_dtype(items))
    return Events(row_pointers(np.bincount(owner, minlength=len(component))), flat)


def _next(running: np.ndarray, rows: Ints, rng: np.random.Generator) -> Ints:
    """A draw from the law of each row: how many of its running sums a uniform number exceeds."""
    found = np.empty(len(rows), dtype=np.int64)
    size = max(1, _DRAWS // max(running.shape[1], 1))
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        found[first : first + size] = (rng.random((len(part), 1), dtype=np.float32) > running[part]).sum(axis=1)
    return found
