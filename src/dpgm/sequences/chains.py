"""Chains of symbols: how their laws are laid out in cells, started from noisy counts, and drawn from.

A chain has a law for each symbol before: what comes next, a symbol or the end. The start counts as a symbol before.
"""

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.data.events import Events
from dpgm.data.rows import index_dtype, row_pointers
from dpgm.statistics.shrinkage import onto_simplex

_DRAWS = 1 << 22  # comparisons of a uniform number with running sums at once


def chain_sizes(symbols: int) -> tuple[int, ...]:
    """The groups of a chain: for each symbol before, and the start, the symbols and the end."""
    return (symbols + 1,) * (symbols + 1)


def first_laws(counts: Floats, rows: int, floor: float) -> Tensor:
    """The laws of noisy counts, one after the other; each is projected onto shares that are at least `floor` / size.

    Counts of either sign count, since noise that is cut off at 0 would look like rare symbols.
    """
    table = counts.reshape(rows, -1)
    totals = np.maximum(table.sum(axis=1), np.maximum(table, 0).sum(axis=1) / 2).clip(1e-9)
    laws = [onto_simplex(row / total, 1.0, floor / len(row)) for row, total in zip(table, totals, strict=True)]
    return torch.from_numpy(np.concatenate(laws)).float()


def uniform_events(lengths: Ints, items: int, rng: np.random.Generator) -> Events:
    """Events of people with the given lengths, all items equally likely."""
    codes = rng.integers(0, items, int(lengths.sum())).astype(index_dtype(items))
    return Events(row_pointers(lengths), codes)


def draw_events(laws: Tensor, component: Ints, symbols: int, longest: int, rng: np.random.Generator) -> Events:
    """The events of people of the given components, whose chains are the rows of `laws`.

    Whoever has `longest` events ends there.
    """
    width = symbols + 1
    # The end comes first, so that what is allowed is at the beginning of a row.
    running = torch.cumsum(torch.roll(laws.reshape(-1, width), 1, dims=1), dim=1).numpy()
    alive, before = np.arange(len(component)), np.full(len(component), symbols)
    people, codes = [alive[:0]], [before[:0]]
    for _ in range(longest):
        after = drawn_from(running, component[alive] * width + before, rng) - 1
        goes_on = after >= 0
        alive, before = alive[goes_on], after[goes_on]
        if not len(alive):
            break
        people.append(alive)
        codes.append(before)
    return _by_person(people, codes, len(component), symbols)


def draw_ranks(laws: Tensor, component: Ints, symbols: int, lengths: Ints, rng: np.random.Generator) -> Events:
    """Ranks of people with the given lengths, by the chains of their components.

    A rank comes for the first time only after those before it; the last one may come again as another place.
    """
    width = symbols + 1
    running = torch.cumsum(torch.roll(laws.reshape(-1, width), 1, dims=1), dim=1).numpy()
    before, seen = np.full(len(component), symbols), np.zeros(len(component), dtype=np.int64)
    people, codes = [before[:0]], [before[:0]]
    for at in range(int(lengths.max(initial=0))):
        alive = np.flatnonzero(lengths > at)
        allowed = np.minimum(seen[alive] + 2, width)
        rows = component[alive] * width + before[alive]
        before[alive] = np.maximum(drawn_from(running, rows, rng, allowed, least=1) - 1, 0)
        seen[alive] = np.maximum(seen[alive], before[alive] + 1)
        people.append(alive)
        codes.append(before[alive])
    return _by_person(people, codes, len(component), symbols)


def _by_person(people: list[Ints], codes: list[Ints], count: int, symbols: int) -> Events:
    owner = np.concatenate(people)
    order = np.argsort(owner, kind="stable")
    flat = np.concatenate(codes)[order].astype(index_dtype(symbols))
    return Events(row_pointers(np.bincount(owner, minlength=count)), flat)


def drawn_from(
    running: np.ndarray, rows: Ints, rng: np.random.Generator, allowed: Ints | None = None, least: int = 0
) -> Ints:
    """A draw from the law of each row, given its running sums; from `least` on, among the first `allowed` values."""
    found = np.empty(len(rows), dtype=np.int64)
    size = max(1, _DRAWS // max(running.shape[1], 1))
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        uniform = rng.random((len(part), 1), dtype=np.float32)
        last = running.shape[1] if allowed is None else allowed[first : first + size]
        if allowed is not None:
            low = running[part, least - 1] if least else np.float32(0)
            uniform = (low + uniform[:, 0] * (running[part, last - 1] - low))[:, None]
        drawn = (uniform > running[part]).sum(axis=1)
        found[first : first + size] = np.minimum(drawn, last - 1)
    return found
