"""Sums of sparse vectors, one per record, that are scaled down where they are long.

A record adds w v(x), where v is any public map from a record to a sparse vector of whole steps (`VectorMap`), and w is
min(1, C / |v(x)|), rounded down: its norm is at most C, the sensitivity. Whoever reads the noisy sums computes the same
scaled vectors on the records of a pool (`VectorFeatures`), so that scaling down causes no bias.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.data.records import Records
from dpgm.data.rows import pieces_of, row_pointers
from dpgm.kernels.sparse import SparseMatrix
from dpgm.mechanisms.query import Query, View
from dpgm.statistics.statistic import FULL_WEIGHT, GRID, MARGIN, STEPS, Descriptions


@dataclass(frozen=True, eq=False)
class Vectors:
    """A sparse vector for each of n records.

    Attributes:
        indptr: (n + 1) where the entries of every record start.
        cells: the cell of every entry; no cell comes twice in a record.
        steps: its value, in whole steps of 1 / STEPS.
    """

    indptr: Ints
    cells: Ints
    steps: Ints

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def rows(self) -> Ints:
        """The record of every entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    @classmethod
    def counted(cls, rows: Ints, cells: Ints, count: int, width: int) -> "Vectors":
        """How often each of `count` records has each cell, given the record and the cell of every occurrence.

        >>> found = Vectors.counted(np.array([1, 0, 1]), np.array([4, 2, 4]), 2, 5)
        >>> found.cells.tolist(), (found.steps // STEPS).tolist()
        ([2, 4], [1, 2])
        """
        keys = np.sort(rows * width + cells)
        first = np.ones(len(keys), dtype=np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=first[1:])
        starts = np.flatnonzero(first)
        times = np.diff(np.append(starts, len(keys)))
        row, cell = np.divmod(keys[starts], width)
        return cls(row_pointers(np.bincount(row, minlength=count)), cell, times * STEPS)

    @classmethod
    def joined(cls, parts: Sequence["Vectors"], widths: Sequence[int]) -> "Vectors":
        """The vectors of several maps, one after the other, given how many cells each has."""
        rows = np.concatenate([part.rows for part in parts])
        order = np.argsort(rows, kind="stable")
        cells = np.concatenate(
            [part.cells + start for part, start in zip(parts, row_pointers(np.array(widths)), strict=False)]
        )
        counts = np.bincount(rows, minlength=len(parts[0]))
        return cls(row_pointers(counts), cells[order], np.concatenate([part.steps for part in parts])[order])

    def present(self) -> "Vectors":
        """With 1 for every count."""
        return replace(self, steps=np.full(len(self.steps), STEPS))

    def logarithms(self) -> "Vectors":
        """With log2(1 + count), rounded to whole steps, for every count."""
        return replace(self, steps=np.rint(STEPS * np.log2(1 + self.steps / STEPS)).astype(np.int64))

    def weights(self, limit: int) -> Ints:
        """By what every vector is multiplied so that its norm is at most `limit` steps: grid steps, rounded down."""
        # Whole numbers: sums of squares are exact below 2^53, which is far above any limit².
        squares = np.bincount(self.rows, np.square(self.steps.astype(np.float64)), minlength=len(self))
        scaled = np.floor(FULL_WEIGHT * MARGIN * limit / np.sqrt(np.maximum(squares, 1.0)))
        return np.where(squares <= limit**2, FULL_WEIGHT, scaled).astype(np.int64)


class VectorMap(Protocol):
    """A public map from records to sparse vectors; what a record is mapped to depends on that record alone."""

    @property
    def name(self) -> str:
        """The name of the mechanism that releases its sums."""

    @property
    def width(self) -> int:
        """The number of cells."""

    def vectors(self, records: Records) -> Vectors:
        """The vector of every record."""


@dataclass(frozen=True, eq=False)
class ClippedVectors:
    """Sums of the vectors of a map, each scaled down to a norm of at most `limit` steps."""

    words: ClassVar[Descriptions] = {}  # the maps have sentences

    map: VectorMap
    limit: int  # in steps of 1 / STEPS

    @property
    def name(self) -> str:
        """The name of its mechanism in the plan."""
        return self.map.name

    @property
    def bound(self) -> float:
        """The largest norm of what a record adds."""
        return self.limit / STEPS

    def query(self) -> Query:
        """One number per cell; weights keep every record within the bound."""
        return Query(self._sum, self.bound, (self.map.width,), grid=GRID / STEPS)

    def energies(self, records: Records, theta: Floats) -> Floats:
        """(n,): the parameters times what every record adds."""
        found = self.map.vectors(records)
        sums = np.bincount(found.rows, theta[found.cells] * found.steps, minlength=len(found))
        return np.asarray(sums * found.weights(self.limit) * (GRID / STEPS), dtype=np.float64)

    def _sum(self, view: View) -> Tensor:
        total = np.zeros(self.map.width, dtype=np.int64)
        for piece in event_pieces(view.rows):
            found = self.map.vectors(piece)
            added = (found.steps * found.weights(self.limit)[found.rows]).astype(np.float64)
            # whole numbers far below 2^53: the floating-point sums are exact
            total += np.bincount(found.cells, added, minlength=self.map.width).astype(np.int64)
        return torch.from_numpy(total)


def event_pieces(records: Records) -> Iterator[Records]:
    """Consecutive parts of about a million events, or positions where there are no events."""
    pointers = records.indptr if records.events is None else records.events.indptr
    for first, last in pieces_of(pointers):
        yield records.rows(first, last)


class VectorFeatures:
    """The same scaled vectors of the records of a pool (`tilting.tilt.PoolFeatures`)."""

    def __init__(self, statistic: ClippedVectors, pool: Records) -> None:
        width, found = statistic.map.width, statistic.map.vectors(pool)
        values = np.multiply(found.steps * found.weights(statistic.limit)[found.rows], GRID / STEPS)
        self._by_record = SparseMatrix(found.indptr, found.cells, values, width)
        order = np.argsort(found.cells, kind="stable")
        pointers = row_pointers(np.bincount(found.cells, minlength=width))
        self._by_cell = SparseMatrix(pointers, found.rows[order], values[order], len(found))

    def energies(self, theta: Tensor) -> Tensor:
        """(n,): the parameters times what every record adds."""
        return self._by_record @ theta

    def sums(self, weights: Tensor) -> Tensor:
        """(cells,): the sums over the records with the given weights."""
        return self._by_cell @ weights

    def squares(self, weights: Tensor) -> Tensor:
        """(cells,): the sums of squares over the records with the given weights."""
        return self._by_cell.squared() @ weights
