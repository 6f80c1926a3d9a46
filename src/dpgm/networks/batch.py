"""A batch of records routed to k networks: products with parameters, and per-record gradients as pairs of factors.

A network is written once, against `Batch`, in plain torch on the last axis of (n, width) tensors; only products with
parameters and with records are left to the batch. There are two: `SegmentedBatch` (CPU) has sparse records sorted by
network, `TiledBatch` (accelerators) dense ones in tiles of a fixed size, so that a step can be recorded as a graph.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from dpgm.data.records import Records
from dpgm.data.rows import row_pointers, take_rows
from dpgm.networks.model import Outputs, ParameterLayout, Views, WeightMatrix

SMALLEST = 2.0**-126  # of float32 with all its digits
SQUARED_AT_ONCE = 1 << 18  # numbers squared in float64 at a time on the CPU, so that they stay in the cache
CACHE_LINE = 16  # float32 numbers


class SparseRecords:
    """Marks the records themselves as the activation, as at the input of a network."""


SPARSE_RECORDS: Final = SparseRecords()
Activation = Tensor | SparseRecords


@dataclass(frozen=True)
class Factor:
    """The per-record gradients of a block: the gradient of record i is (activation_i, 1) outer delta_i."""

    block: WeightMatrix
    activation: Activation
    delta: Tensor


class Batch(ABC):
    """Records routed to k networks, and the operations with parameters that a network needs.

    Args:
        draws: (n, model.draws_per_record) standard normal, fixed for this batch.
    """

    unused: Tensor | None = None  # (n,) places without a record, where there are any

    def __init__(self, draws: Tensor) -> None:
        self.draws = draws

    # -- what a network uses -------------------------------------------------------------------------------

    @abstractmethod
    def affine(self, block: WeightMatrix, activation: Activation) -> Tensor:
        """Product activation @ matrix + bias, with the parameters of each record's network."""

    @abstractmethod
    def backward(self, block: WeightMatrix, delta: Tensor) -> Tensor:
        """Product delta @ matrix transposed: the gradient at the block's input."""

    def residual(self, logits: Tensor, outputs: Outputs) -> Tensor:
        """Gradient of the summed loss at the logits, in place: probability - record.

        A softmax block in which the record has no value is not part of its loss, so the gradient is zero there.
        """
        outputs.probabilities(logits)
        if outputs.softmax:
            present = self._times(outputs.members(logits))
            for number, (start, stop) in enumerate(outputs.softmax):
                logits[:, start:stop] *= present[:, number : number + 1]
        return self._subtract_records(logits)

    @abstractmethod
    def dense(self) -> Tensor:
        """The records as a dense binary matrix; slow, for networks without sparse products."""

    @abstractmethod
    def parameters(self) -> Tensor:
        """The parameters of each record's network, (n, P); slow."""

    # -- what private SGD uses ------------------------------------------------------------------------------

    def squared_norms(self, factors: Sequence[Factor]) -> Tensor:
        """Squared norm of every record's gradient, (n,) in float64, without forming any gradient."""
        total = torch.zeros(self.draws.shape[0], dtype=torch.float64, device=self.draws.device)
        for factor in factors:
            if isinstance(factor.activation, SparseRecords):
                squares = self._record_squares()
            else:
                squares = row_squares(factor.activation)
            total.addcmul_(squares + factor.block.bias, row_squares(factor.delta))
        return total

    def weighted_sum(self, factors: Sequence[Factor], weights: Tensor, out: Views) -> Tensor:
        """Sum over records of weight x gradient for every network, into (k, P).

        A record of weight 0 contributes nothing, even if its factors are not finite. What float32 cannot hold to its
        last digit becomes 0, never more than it was.
        """
        scale, nothing = weights.unsqueeze(1), (weights == 0).unsqueeze(1)
        # 0 x infinity would not be zero. (A recorded graph cannot branch on what it computes.)
        emptied = nothing if weights.is_cuda or bool(nothing.any()) else None
        for factor in factors:
            block, delta = factor.block, _without(factor.delta, emptied)
            if isinstance(factor.activation, SparseRecords):
                weighted = functional.hardshrink(delta * scale, SMALLEST)
                self._set_record_products(block, weighted, out)
                continue
            left = with_one(factor.activation) if block.bias else factor.activation
            weighted = functional.hardshrink(_without(left * scale, emptied), SMALLEST)
            self._set_products(block, weighted, delta, out)
        return out.flat

    # -- how the two differ ---------------------------------------------------------------------------------

    @abstractmethod
    def _times(self, matrix: Tensor) -> Tensor:
        """Product records @ matrix (m, any), the same matrix for all networks."""

    @abstractmethod
    def _subtract_records(self, values: Tensor) -> Tensor:
        """The values (n, m) minus the records, in place."""

    @abstractmethod
    def _record_squares(self) -> Tensor:
        """Squared norms of the records: how many positions each has, (n,) in float64."""

    @abstractmethod
    def _set_products(self, block: WeightMatrix, left: Tensor, right: Tensor, out: Views) -> None:
        """Set every network's block to left' @ right over its records."""

    @abstractmethod
    def _set_record_products(self, block: WeightMatrix, right: Tensor, out: Views) -> None:
        """The same with (records, 1) on the left."""


class SegmentedBatch(Batch):
    """Sparse records sorted by network: rows[bounds[s]:bounds[s + 1]] belong to network s."""

    def __init__(
        self,
        parameters: Views,
        records: Records,
        rows: NDArray[np.int64],
        bounds: NDArray[np.int64],
        draws: Tensor,
    ) -> None:
        super().__init__(draws)
        self._views, self._width = parameters, records.width
        pointers, positions = take_rows(records.indptr, records.indices, rows)
        self._pointers, self._positions = torch.from_numpy(pointers).int(), torch.from_numpy(positions)
        self._items = self._positions.int()
        self._count = len(rows)
        self._sizes: list[int] = np.diff(bounds).tolist()
        self._item_sizes: list[int] = np.diff(pointers[bounds]).tolist()

    def affine(self, block: WeightMatrix, activation: Activation) -> Tensor:
        """Product activation @ matrix + bias, with the parameters of each record's network."""
        out = aligned_rows(self._views.flat, self._count, block.outputs)
        matrices = self._views.matrices[block.name]
        if isinstance(activation, SparseRecords):
            for bag, matrix, target in zip(self._bags, matrices, self._parts(out), strict=True):
                if bag is not None:
                    torch.add(_sums(*bag, matrix[: block.inputs]), matrix[-1], out=target)
            return out
        for size, part, matrix, target in zip(
            self._sizes, self._parts(activation), matrices, self._parts(out), strict=True
        ):
            if size and block.bias:
                torch.addmm(matrix[-1], part, matrix[:-1], out=target)
            elif size:
                torch.mm(part, matrix, out=target)
        return out

    def backward(self, block: WeightMatrix, delta: Tensor) -> Tensor:
        """Product delta @ matrix transposed: the gradient at the block's input."""
        out = delta.new_empty(self._count, block.inputs)
        for size, part, matrix, target in zip(
            self._sizes, self._parts(delta), self._views.transposed[block.name], self._parts(out), strict=True
        ):
            if size:
                torch.mm(part, matrix, out=target)
        return out

    def dense(self) -> Tensor:
        """The records as a dense binary matrix."""
        return self._subtract_records(self._views.flat.new_zeros(self._count, self._width)).neg_()

    def parameters(self) -> Tensor:
        """The parameters of each record's network, (n, P)."""
        return self._views.flat.repeat_interleave(torch.tensor(self._sizes), dim=0)

    def _parts(self, rows: Tensor) -> Sequence[Tensor]:
        """The rows of each network."""
        return (rows,) if len(self._sizes) == 1 else rows.split_with_sizes(self._sizes)

    @cached_property
    def _owners(self) -> Tensor:
        """The row of every item."""
        return torch.from_numpy(np.repeat(np.arange(self._count, dtype=np.int32), self._pointers.diff().numpy()))

    @cached_property
    def _bags(self) -> list[tuple[Tensor, Tensor] | None]:
        """For every network the items of its records, and where each record begins; None without records."""
        if len(self._sizes) == 1:
            return [(self._items, self._pointers)] if self._count else [None]
        found: list[tuple[Tensor, Tensor] | None] = []
        first = row = 0
        for items, size in zip(self._items.split_with_sizes(self._item_sizes), self._sizes, strict=True):
            found.append((items, self._pointers[row : row + size + 1] - first) if size else None)
            first, row = first + items.numel(), row + size
        return found

    @cached_property
    def _transposed(self) -> list[tuple[Tensor, Tensor]]:
        """For every network its rows, one per item, in the order of the items; and where each item begins."""
        found, sizes = [], self._item_sizes
        for owners, positions in zip(
            self._owners.split_with_sizes(sizes), self._positions.split_with_sizes(sizes), strict=True
        ):
            counts = np.bincount(positions.numpy(), minlength=self._width)
            starts = torch.from_numpy(row_pointers(counts)).int()
            found.append((owners.index_select(0, stable_order(positions)), starts))
        return found

    def _times(self, matrix: Tensor) -> Tensor:
        return _sums(self._items, self._pointers, matrix)

    def _subtract_records(self, values: Tensor) -> Tensor:
        stride = values.stride(0)
        places = (self._owners.long() * stride).add_(self._items)
        flat = values.as_strided((self._count * stride,), (1,))  # with the padding of aligned rows
        flat.scatter_add_(0, places, flat.new_full(places.shape, -1.0))
        return values

    def _record_squares(self) -> Tensor:
        return self._pointers.diff().double()

    def _set_products(self, block: WeightMatrix, left: Tensor, right: Tensor, out: Views) -> None:
        for size, part, other, matrix in zip(
            self._sizes, self._parts(left), self._parts(right), out.matrices[block.name], strict=True
        ):
            if size:
                torch.mm(part.T, other, out=matrix)
            else:
                matrix.zero_()

    def _set_record_products(self, block: WeightMatrix, right: Tensor, out: Views) -> None:
        for size, part, (rows, starts), matrix in zip(
            self._sizes, self._parts(right), self._transposed, out.matrices[block.name], strict=True
        ):
            if not size:
                matrix.zero_()
                continue
            # The sum over the records that hold an item is a sum of rows, too.
            matrix[: block.inputs] = _sums(rows, starts, right)
            if block.bias:
                torch.mv(part.T, part.new_ones(size), out=matrix[-1])


class TiledBatch(Batch):
    """Dense records in tiles of places, each of one network: products of all tiles are one batched product.

    Args:
        layout: where each block lies in the parameters of a network.
        parameters: (k, P).
        owners: (tiles,) the network of every tile.
        records: (tiles x places, m) zeros and ones.
        unused: (tiles x places,) the places without a record.
        draws: standard normal draws, a row for every place.
    """

    def __init__(
        self,
        layout: ParameterLayout,
        parameters: Tensor,
        owners: Tensor,
        records: Tensor,
        unused: Tensor,
        draws: Tensor,
    ) -> None:
        super().__init__(draws)
        self._layout, self._models, self._tiles = layout, len(parameters), len(owners)
        self._owners, self._records, self.unused = owners, records, unused
        self._one = self._models == self._tiles == 1
        self._flat = parameters if self._one else parameters.index_select(0, owners)

    def affine(self, block: WeightMatrix, activation: Activation) -> Tensor:
        """Product activation @ matrix + bias, with the parameters of each record's network."""
        left = self._in_tiles(self._records if isinstance(activation, SparseRecords) else activation)
        matrix = self._layout.weight(self._flat, block)
        if not block.bias:
            return torch.bmm(left, matrix).flatten(0, 1)
        return torch.baddbmm(self._layout.bias(self._flat, block), left, matrix).flatten(0, 1)

    def backward(self, block: WeightMatrix, delta: Tensor) -> Tensor:
        """Product delta @ matrix transposed: the gradient at the block's input."""
        matrix = self._layout.weight(self._flat, block)
        return torch.bmm(self._in_tiles(delta), matrix.transpose(1, 2)).flatten(0, 1)

    def dense(self) -> Tensor:
        """The records as a dense binary matrix."""
        return self._records

    def parameters(self) -> Tensor:
        """The parameters of each record's network, (n, P)."""
        return self._flat.repeat_interleave(len(self._records) // self._tiles, dim=0)

    def _in_tiles(self, rows: Tensor) -> Tensor:
        return rows.view(self._tiles, -1, rows.shape[1])

    def _times(self, matrix: Tensor) -> Tensor:
        return self._records @ matrix

    def _subtract_records(self, values: Tensor) -> Tensor:
        return values.sub_(self._records)

    def _record_squares(self) -> Tensor:
        return self._records.sum(1, dtype=torch.float64)

    def _set_products(self, block: WeightMatrix, left: Tensor, right: Tensor, out: Views) -> None:
        sums = torch.bmm(self._in_tiles(left).transpose(1, 2), self._in_tiles(right))
        if not self._one:
            # Sum the tiles of each network by a product with zeros and ones: the order of additions is fixed.
            belongs = self._owners == torch.arange(self._models, device=sums.device).unsqueeze(1)
            sums = (belongs.to(sums) @ sums.flatten(1)).view(self._models, *sums.shape[1:])
        self._layout.matrix(out.flat, block).copy_(sums)

    def _set_record_products(self, block: WeightMatrix, right: Tensor, out: Views) -> None:
        self._set_products(block, with_one(self._records) if block.bias else self._records, right, out)


def autograd_factor(block: WeightMatrix, loss: Callable[[Tensor, Tensor, Tensor], Tensor], batch: Batch) -> Factor:
    """The gradient of `loss(parameters (P,), record (m,), draws)` for every record, as one factor.

    For any differentiable loss, by torch.func: slower than gradients derived by hand, with the same guarantee. `block`
    has no inputs and P outputs: its delta is the whole gradient.
    """
    records, parameters = batch.dense(), batch.parameters()
    if len(records):  # torch.func cannot map over an empty batch
        delta = torch.func.vmap(torch.func.grad(loss))(parameters, records, batch.draws)
    else:
        delta = records.new_zeros(0, block.outputs)
    return Factor(block, records[:, :0], delta)


def row_squares(values: Tensor) -> Tensor:
    """Squared norms of rows, in float64.

    In float32 squares overflow and vanish long before the numbers do, and a norm that is too small lets a record exceed
    its bound.
    """
    rows = SQUARED_AT_ONCE // max(values.shape[1], 1) + 1
    if values.shape[0] > rows and not values.is_cuda:
        return torch.cat([row_squares(part) for part in torch.split(values, rows)])
    squares: Tensor = torch.linalg.vector_norm(values, dim=1, dtype=torch.float64).square_()
    return squares


def with_one(values: Tensor) -> Tensor:
    """The values (n, width) with a column of ones, the activation of a bias."""
    return torch.cat([values, values.new_ones(values.shape[0], 1)], dim=1)


def aligned_rows(like: Tensor, rows: int, width: int) -> Tensor:
    """An uninitialised (rows, width) matrix whose rows start at cache lines: products into it take half the time."""
    return like.new_empty(rows, -(-width // CACHE_LINE) * CACHE_LINE)[:, :width]


def stable_order(values: Tensor) -> Tensor:
    """The order that sorts integers. Of 16 bits by radix: many are faster in torch, and few in numpy."""
    if values.numel() >= 1 << 15:
        return torch.sort(values, stable=True).indices
    return torch.from_numpy(np.argsort(values.numpy(), kind="stable"))


def _sums(rows: Tensor, starts: Tensor, matrix: Tensor) -> Tensor:
    """Sums of rows of a matrix: sum i is over rows[starts[i]:starts[i + 1]]."""
    return functional.embedding_bag(rows, matrix, starts, mode="sum", include_last_offset=True)


def _without(values: Tensor, rows: Tensor | None) -> Tensor:
    """The values with the given rows (n, 1) set to zero."""
    return values if rows is None else values.masked_fill(rows, 0)
