"""A mixture of components, each with a law over every group of cells, and its fit to a weighted pool by EM.

A record is described by how often it has each cell. Cells come in groups, such as what follows an item, or the values
of a column; within a component each occurrence is an independent draw from the law of its group. Post-processing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.data.rows import row_pointers
from dpgm.kernels.sparse import SparseMatrix
from dpgm.sequences.rules import MixtureRules
from dpgm.statistics.clipped_vectors import Vectors
from dpgm.statistics.statistic import STEPS

_ROWS = 1 << 15  # records whose chances under all components are held at once
_LEAST = 1e-12  # chance


@dataclass(frozen=True, eq=False)
class ChainMixture:
    """Weights (K,), chances (K, cells) that sum to 1 within each group, and the number of cells of each group."""

    weights: Tensor
    chances: Tensor
    sizes: tuple[int, ...]

    @property
    def components(self) -> int:
        """The number K."""
        return len(self.weights)

    def draw_components(self, count: int, rng: np.random.Generator) -> Ints:
        """The component of each of `count` records, in random order; their numbers are rounded shares."""
        running = np.cumsum(self.weights.double().numpy())
        places = (np.arange(count) + rng.random()) / max(count, 1) * running[-1]
        drawn = np.minimum(np.searchsorted(running, places, side="right"), self.components - 1)
        return rng.permutation(drawn)


def normalised(counts: Tensor, sizes: Sequence[int]) -> Tensor:
    """Counts (K, cells) divided by the sum of their group."""
    parts = torch.split(counts, list(sizes), dim=1)
    return torch.cat([part / part.sum(dim=1, keepdim=True).clamp(min=_LEAST) for part in parts], dim=1)


def fit_mixture(
    counts: Vectors,
    weights: Floats,
    people: float,
    sizes: Sequence[int],
    rules: MixtureRules,
    rng: np.random.Generator,
) -> ChainMixture:
    """EM on a pool whose records have the given weights, which stand for so many people.

    Every component is shrunk toward the law of all: that law counts as much as `rules.shrink` more draws in each group.
    It starts from the law of a few random records of the pool.
    """
    width, blocks = sum(sizes), list(_blocks(counts, sum(sizes)))
    shares = torch.from_numpy(weights / weights.sum()).float()
    parts = torch.split(shares, [block.rows for block in blocks])
    overall = sum(
        (block.by_cell @ part[:, None] for block, part in zip(blocks, parts, strict=True)), torch.zeros(1)
    )
    common = normalised(overall.T + _LEAST, sizes)
    weights_of = torch.full((rules.components,), 1 / rules.components)
    chances = normalised(_start(counts, weights, width, rules, rng) + rules.shrink * common, sizes)
    for _ in range(rules.iterations):
        logs, log_weights = chances.clamp(min=_LEAST).log().T.contiguous(), weights_of.clamp(min=_LEAST).log()
        found, weights_of = torch.zeros(width, rules.components), torch.zeros(rules.components)
        for block, part in zip(blocks, parts, strict=True):
            belonging = torch.softmax(block.by_record @ logs + log_weights, dim=1).mul_(part[:, None])
            weights_of += belonging.sum(dim=0)
            found += block.by_cell @ belonging
        chances = normalised(people * found.T + rules.shrink * common, sizes)
    return ChainMixture((weights_of / weights_of.sum()).double(), chances, tuple(sizes))


@dataclass(frozen=True, eq=False)
class _Block:
    """Some records: how often each has each cell, by record and by cell."""

    rows: int
    by_record: SparseMatrix
    by_cell: SparseMatrix


def _blocks(counts: Vectors, width: int) -> Iterator[_Block]:
    for first in range(0, len(counts), _ROWS):
        pointers = counts.indptr[first : first + _ROWS + 1]
        part = slice(int(pointers[0]), int(pointers[-1]))
        cells, times = counts.cells[part], (counts.steps[part] / STEPS).astype(np.float32)
        rows = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
        order, starts = np.argsort(cells, kind="stable"), row_pointers(np.bincount(cells, minlength=width))
        yield _Block(
            len(pointers) - 1,
            SparseMatrix(pointers - pointers[0], cells, times, width, torch.float32),
            SparseMatrix(starts, rows[order], times[order], len(pointers) - 1, torch.float32),
        )


def _start(counts: Vectors, weights: Floats, width: int, rules: MixtureRules, rng: np.random.Generator) -> Tensor:
    """(K, cells): the counts of a few random records for each component."""
    running = np.cumsum(weights)
    drawn = np.searchsorted(running, rng.random(rules.components * rules.seeds) * running[-1])
    drawn = np.minimum(drawn, len(counts) - 1)
    starts, lengths = counts.indptr[drawn], np.diff(counts.indptr)[drawn]
    entry = (
        np.repeat(starts, lengths) + np.arange(int(lengths.sum())) - np.repeat(row_pointers(lengths)[:-1], lengths)
    )
    component = np.repeat(np.repeat(np.arange(rules.components), rules.seeds), lengths)
    cells = component * width + counts.cells[entry]
    found = np.bincount(cells, counts.steps[entry] / STEPS, minlength=rules.components * width)
    return torch.from_numpy(found.reshape(rules.components, width)).float()
