"""Per-record gradient norms and the sum of clipped gradients of a Poisson sample, on the CPU, in one pass.

Records are sparse and sorted by network. Matrix products run over one segment per network, everything else over the
whole batch at once, by compiled kernels; results go into a `Workspace`, so that later steps allocate next to nothing.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.records import Records
from dpgm.data.rows import row_pointers
from dpgm.kernels import network_kernels
from dpgm.mechanisms.query import View
from dpgm.networks.batch import (
    Activation,
    Batch,
    Factor,
    Signal,
    SparseRecords,
    Squares,
    Workspace,
    aligned_copy,
    padded_array,
)
from dpgm.networks.model import Block, Layout, Model, Outputs

SLACK = 1 + 1e-5  # norms are rounded: clip slightly below the bound rather than slightly above


class GradientPass(Protocol):
    """The exact values of a step's two queries, from one pass over its sample.

    A pass stores private values between the two queries of a step, and is called from inside queries only. A record
    whose gradient is not finite contributes nothing to either.
    """

    def histogram(self, view: View, step: int) -> Tensor:
        """Counts of gradient norms by bin, int64; one bin per record."""
        ...

    def clipped_sum(self, view: View, step: int, bound: float | Tensor) -> Tensor:
        """Sum of gradients, each scaled to a norm of at most `bound`, for every network: (k, P)."""
        ...


class SegmentedPass:
    """The pass on the CPU: sparse records sorted by network."""

    def __init__(self, model: Model, parameters: Tensor, edges: Tensor) -> None:
        self._model, self._parameters, self._edges = model, parameters, edges
        self._workspace = Workspace(parameters.dtype)
        self._views = BlockViews(model.layout, parameters)
        self._sum = BlockViews(model.layout, aligned_copy(torch.zeros_like(parameters)))
        self._counts = np.zeros(len(edges) + 1, dtype=np.int64)
        self._step = -1
        self._sample: NDArray[np.int64] | None = None
        self._batch: SegmentedBatch | None = None
        self._factors: Sequence[Factor] = ()
        self._norms = torch.empty(0)

    def histogram(self, view: View, step: int) -> Tensor:
        """Counts of gradient norms by bin."""
        self._pass_over(view, step)
        return torch.from_numpy(self._counts.copy())

    def clipped_sum(self, view: View, step: int, bound: float | Tensor) -> Tensor:
        """Sum of clipped gradients for every network."""
        bound, batch = float(bound), self._pass_over(view, step)
        weights = torch.empty(len(self._norms), dtype=self._parameters.dtype)
        network_kernels.clip_weights(self._norms.numpy(), bound / SLACK, weights.numpy())
        return batch.weighted_sum(self._factors, weights, self._sum)

    def _pass_over(self, view: View, step: int) -> "SegmentedBatch":
        # The two releases of a step share one sample; a new sample is never answered from an older pass.
        if self._batch is not None and step == self._step and view.sample is self._sample:
            return self._batch
        batch = self._make_batch(view)
        squared = batch.squared_norms(self._factors)
        self._norms = torch.empty_like(squared)
        self._counts[:] = 0
        usable = network_kernels.bin_norms(squared.numpy(), self._edges.numpy(), self._norms.numpy(), self._counts)
        if usable < len(squared):
            batch.remove(self._factors, ~torch.isfinite(self._norms))
        self._step, self._sample, self._batch = step, view.sample, batch
        return batch

    def _make_batch(self, view: View) -> "SegmentedBatch":
        rows, bounds = sorted_by_model(view, len(self._parameters))
        draws = torch.empty((len(rows), self._model.draws_per_record), dtype=self._parameters.dtype)
        if draws.numel():
            view.fill_normals(rows, draws)
        batch = SegmentedBatch(self._views, view.records, rows, bounds, self._workspace, draws)
        self._factors = self._model.factors(batch)
        return batch


def sorted_by_model(view: View, clusters: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sampled rows sorted by cluster, and (k + 1,) where the rows of each cluster start and end."""
    rows = np.arange(len(view.records), dtype=np.int64) if view.sample is None else view.sample
    if clusters == 1:
        return rows, np.array([0, len(rows)], dtype=np.int64)
    routed = np.asarray(view.kept["clusters"])[rows]
    # numpy sorts 16-bit integers by radix, in a fraction of the time.
    order = np.argsort(routed.astype(np.uint16) if clusters <= 2**16 else routed, kind="stable")
    return rows[order], row_pointers(np.bincount(routed, minlength=clusters))


class BlockViews:
    """Every block of (k, P) parameters as matrices, one per network; made once, since making views takes time.

    `array` is the same memory for the kernels; its rows may include padding.
    """

    def __init__(self, layout: Layout, flat: Tensor) -> None:
        self.flat, self.layout = flat, layout
        self.array = padded_array(flat)
        self.matrices = {block.name: list(layout.matrix(flat, block)) for block in layout.blocks}
        self.transposed = {
            block.name: [matrix[: block.inputs].T for matrix in self.matrices[block.name]]
            for block in layout.blocks
        }

    def place(self, block: Block) -> tuple[int, int, int]:
        """Where a block lies in every row of `array`: its offset, inputs and outputs."""
        return self.layout.offsets[block.name], block.inputs, block.outputs


class SegmentedBatch(Batch):
    """A `Batch` of sparse records sorted by network: rows[bounds[s]:bounds[s + 1]] belong to network s."""

    kernels = network_kernels

    def __init__(
        self,
        parameters: BlockViews,
        records: Records,
        rows: NDArray[np.int64],
        bounds: NDArray[np.int64],
        workspace: Workspace,
        draws: Tensor,
    ) -> None:
        super().__init__(workspace, (len(rows),), draws)
        self._views = parameters
        self._lengths = records.indptr[rows + 1] - records.indptr[rows]
        self._csr = (records.indptr, records.indices, rows)
        if len(bounds) > 2:
            self._gather()
        self._bounds = bounds
        self._count, self._width = len(rows), records.width
        self._sizes: list[int] = np.diff(bounds).tolist()

    def _gather(self) -> None:
        """Copy the records in the order of the batch: sorted by network they are scattered in memory."""
        pointers = row_pointers(self._lengths)
        copy = self._workspace.array("items", int(pointers[-1]), self._csr[1].dtype)
        network_kernels.gather(self._csr, pointers, copy)
        self._csr = (pointers, copy, np.arange(len(self._lengths)))

    def affine(self, block: Block, activation: Activation) -> Signal:
        """Product activation @ matrix + bias, with the parameters of each record's network."""
        out, views = self.signal(block.name, block.outputs), self._views
        if isinstance(activation, SparseRecords):
            target = self._for_kernel(out.values)
            network_kernels.sparse_affine(self._csr, self._bounds, views.array, views.place(block), target)
        else:
            self._product(activation.left(block), views.matrices[block.name], out.values)
        return out

    def backward(self, block: Block, delta: Tensor) -> Tensor:
        """Product delta @ matrix transposed: the gradient at the block's input."""
        out = self.buffer(f"{block.name} back", block.inputs)
        self._product(delta, self._views.transposed[block.name], out)
        return out

    def _product(self, left: Tensor, matrices: Sequence[Tensor], out: Tensor) -> None:
        """The rows of each network times its own matrix."""
        if len(matrices) == 1:
            torch.mm(left, matrices[0], out=out)
            return
        for part, matrix, target in zip(
            left.split_with_sizes(self._sizes), matrices, out.split_with_sizes(self._sizes), strict=True
        ):
            if len(part):
                torch.mm(part, matrix, out=target)

    def reconstruct(
        self, block: Block, activation: Signal, outputs: Outputs
    ) -> tuple[Tensor, Squares | None, Tensor]:
        """The last layer, one network at a time, while the widest of all matrices are in the cache."""
        delta = self.signal(block.name, block.outputs).values
        slope, sizes = self.buffer(f"{block.name} back", block.inputs), self._sizes
        # A fused kernel computes squared norms along with the residual.
        squared = np.empty(self._count) if not outputs.softmax and delta.dtype == torch.float32 else None
        for model, (left, part, back) in enumerate(
            zip(
                activation.left(block).split_with_sizes(sizes),
                delta.split_with_sizes(sizes),
                slope.split_with_sizes(sizes),
                strict=True,
            )
        ):
            if len(part):
                torch.mm(left, self._views.matrices[block.name][model], out=part)
                self._residual(outputs, delta, squared, *self._bounds[model : model + 2].tolist())
                torch.mm(part, self._views.transposed[block.name][model], out=back)
        return delta, squared, slope

    def _residual(
        self, outputs: Outputs, logits: Tensor, squared: NDArray[np.float64] | None, start: int, stop: int
    ) -> None:
        """Turn the logits of some records into probability - record, and fill `squared` if it is given."""
        indptr, indices, rows = self._csr
        csr = (indptr, indices, rows[start:stop])
        if squared is not None:
            array = self._for_kernel(logits)[start:stop]
            network_kernels.sigmoid_residual(csr, outputs.width, array, squared[start:stop])
            return
        outputs.probabilities(logits[start:stop])
        network_kernels.subtract_records(csr, *outputs.softmax_ranges, logits[start:stop].numpy())

    def dense(self) -> Tensor:
        """The records as a dense binary matrix."""
        out = torch.zeros((self._count, self._width), dtype=self._views.flat.dtype)
        none = np.empty(0, dtype=np.int64)
        network_kernels.subtract_records(self._csr, none, none, out.numpy())
        return out.neg_()

    def parameters(self) -> Tensor:
        """The parameters of each record's network, (n, P)."""
        return self._views.flat[np.repeat(np.arange(len(self._sizes)), self._sizes)]

    # -- norms and clipped sums, for training ----------------------------------------------------------------

    def squared_norms(self, factors: Sequence[Factor]) -> Tensor:
        """Squared norm of every record's gradient, (n,) in float64."""
        total = np.zeros(self._count)
        for factor in factors:
            total += self._squares(factor.delta, factor.squared) * self._activation_squares(factor)
        return torch.from_numpy(total)

    def remove(self, factors: Sequence[Factor], unusable: Tensor) -> None:
        """Zero the factors of the given records: 0 x infinity would not be zero."""
        for factor in factors:
            factor.delta[unusable] = 0
            if isinstance(factor.activation, Signal):
                factor.activation.values[unusable] = 0

    def weighted_sum(self, factors: Sequence[Factor], weights: Tensor, out: BlockViews) -> Tensor:
        """Sum over records of weight x gradient for every network, into (k, P); networks without records get zero."""
        if 0 in self._sizes:
            out.flat.zero_()
        scale = weights.to(out.flat.dtype).numpy()
        for factor in factors:
            block, delta = factor.block, factor.delta
            if isinstance(factor.activation, SparseRecords):
                network_kernels.sparse_outer(
                    self._csr, self._bounds, scale, self._for_kernel(delta), out.place(block), block.bias, out.array
                )
                continue
            left = factor.activation.left(block)
            # The narrower of the two is multiplied by the weights.
            if left.shape[1] <= delta.shape[1]:
                left = self._weighted(block, left, scale)
            else:
                delta = self._weighted(block, delta, scale)
            matrices = out.matrices[block.name]
            if len(matrices) == 1:
                torch.mm(left.T, delta, out=matrices[0])
                continue
            # Splitting takes one call where slicing takes one per network.
            for part, slope, matrix in zip(
                left.T.split_with_sizes(self._sizes, 1), delta.split_with_sizes(self._sizes), matrices, strict=True
            ):
                if len(slope):
                    torch.mm(part, slope, out=matrix)
        return out.flat

    def _weighted(self, block: Block, values: Tensor, scale: NDArray[np.generic]) -> Tensor:
        """Rows times their weights."""
        width = values.shape[1]
        out = self.buffer(f"{block.name} weighted", width)
        network_kernels.weigh(self._for_kernel(values), width, scale, self._for_kernel(out))
        return out

    def _activation_squares(self, factor: Factor) -> NDArray[np.float64]:
        if isinstance(factor.activation, SparseRecords):
            return self._lengths.astype(np.float64) + factor.block.bias
        known = factor.activation.squared if factor.block.bias else None
        return self._squares(factor.activation.left(factor.block), known)

    def _squares(self, values: Tensor, known: Squares | None) -> NDArray[np.float64]:
        if isinstance(known, np.ndarray):
            return known
        out = np.empty(self._count)
        network_kernels.row_squares(self._for_kernel(values), values.shape[1], out)
        return out

    def _for_kernel(self, values: Tensor) -> NDArray[np.generic]:
        return self._workspace.padded_array(values)

    def _per_record(self) -> NDArray[np.float64]:
        return np.empty(self._count)
