"""Records on their way through k models on the CPU: sparse, sorted by model.

Matrix products run over one segment per model, everything else over the whole batch at once. Results go into a
`Workspace`, so that a steady state allocates next to nothing.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.compute import layer_kernels, sparse_kernels
from dpgm.data.records import Records
from dpgm.networks.outputs import Outputs
from dpgm.networks.per_record_gradients import Activation, Block, Factor, Signal, Squares, _Records
from dpgm.networks.vae import latent_gradient, sample_latent
from dpgm.networks.workspace import BlockViews, Workspace


class SegmentedBatch:
    """Sparse records sorted by model: rows[bounds[s]:bounds[s + 1]] belong to model s."""

    def __init__(
        self,
        parameters: BlockViews,
        records: Records,
        rows: NDArray[np.int64],
        bounds: NDArray[np.int64],
        workspace: Workspace,
        draws: Tensor,
    ) -> None:
        self.draws = draws
        self._drawn = draws.numpy()
        self._views, self._workspace = parameters, workspace
        self._lengths = records.indptr[rows + 1] - records.indptr[rows]
        self._csr = (records.indptr, records.indices, rows)
        if len(bounds) > 2:
            self._gather()
        self._bounds = bounds
        self._count, self._width = len(rows), records.width
        self._sizes: list[int] = np.diff(bounds).tolist()

    def _gather(self) -> None:
        """Copy the records: sorted by model they are in another order than they lie in memory."""
        indptr, indices, rows = self._csr
        pointers = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(self._lengths, out=pointers[1:])
        copy = self._workspace.array("items", int(pointers[-1]), indices.dtype)
        if sparse_kernels.gather(indptr, indices, rows, pointers, copy):
            self._csr = (pointers, copy, np.arange(len(rows)))

    def signal(self, name: str, width: int) -> Signal:
        """A buffer for activations that the model fills itself."""
        return self._workspace.signal(name, (self._count, width))

    def space(self, name: str, width: int) -> Tensor:
        """A buffer for anything else."""
        return self._workspace.take(name, (self._count, width))

    def affine(self, block: Block, activation: Activation) -> Signal:
        """Product activation @ matrix + bias, of each record's own model."""
        out = self.signal(block.name, block.outputs)
        if isinstance(activation, _Records):
            views = self._views
            start = views.layout.offsets[block.name]
            sparse_kernels.sparse_affine(
                *self._csr,
                self._bounds,
                views.array,
                start,
                block.inputs,
                block.outputs,
                self._workspace.lines(out.values),
            )
            return out
        self._product(_left(block, activation), self._views.matrices[block.name], out.values)
        return out

    def back(self, block: Block, delta: Tensor) -> Tensor:
        """Product delta @ matrix transposed: the gradient at the block's input."""
        out = self.space(f"{block.name} back", block.inputs)
        self._product(delta, self._views.transposed[block.name], out)
        return out

    def _product(self, left: Tensor, matrices: Sequence[Tensor], out: Tensor) -> None:
        """Every model's rows of `left` times its own matrix."""
        if len(matrices) == 1:
            torch.mm(left, matrices[0], out=out)
            return
        for part, matrix, target in zip(
            left.split_with_sizes(self._sizes), matrices, out.split_with_sizes(self._sizes), strict=True
        ):
            if len(part):
                torch.mm(part, matrix, out=target)

    def rectify(self, signal: Signal) -> Signal:
        """The signal with negative values set to zero, in place."""
        squared = np.empty(self._count)
        if layer_kernels.rectify(self._workspace.lines(signal.values), signal.values.shape[1], squared):
            return Signal(signal.with_one, signal.values, squared)
        signal.values.clamp_(min=0)
        return signal

    def gate(self, slope: Tensor, signal: Signal) -> Squares | None:
        """Zero the slopes where a rectified signal is zero, in place; returns their squared norms if free."""
        squared = np.empty(self._count)
        if layer_kernels.gate(
            self._workspace.lines(slope), self._workspace.lines(signal.values), slope.shape[1], squared
        ):
            return squared
        slope.mul_(signal.values > 0)
        return None

    def reparametrise(self, heads: Tensor) -> Signal:
        """A latent sample from heads (mean, log-variance)."""
        latent = heads.shape[1] // 2
        out = self.signal("latent sample", latent)
        squared, lines = np.empty(self._count), self._workspace.lines
        if layer_kernels.reparametrise(lines(heads), self._drawn, latent, lines(out.values), squared):
            return Signal(out.with_one, out.values, squared)
        sample_latent(heads, self.draws, out.values)
        return out

    def latent_delta(self, slope: Tensor, heads: Tensor) -> tuple[Tensor, Squares | None]:
        """Gradient at the heads from the slope at the latent sample."""
        latent = heads.shape[1] // 2
        out = self.space("latent delta", 2 * latent)
        squared, lines = np.empty(self._count), self._workspace.lines
        if layer_kernels.latent_delta(lines(slope), lines(heads), self._drawn, latent, lines(out), squared):
            return out, squared
        latent_gradient(slope, heads, self.draws, out)
        return out, None

    def reconstruct(
        self, block: Block, activation: Signal, outputs: Outputs
    ) -> tuple[Tensor, Squares | None, Tensor]:
        """The last layer: probability - record, its squared norms if free, and the gradient at the layer's input.

        Model by model, while the widest of all matrices are in the cache.
        """
        delta = self.signal(block.name, block.outputs).values
        slope, squared = self.space(f"{block.name} back", block.inputs), np.empty(self._count)
        free, sizes = True, self._sizes
        for model, (left, part, back) in enumerate(
            zip(
                _left(block, activation).split_with_sizes(sizes),
                delta.split_with_sizes(sizes),
                slope.split_with_sizes(sizes),
                strict=True,
            )
        ):
            if len(part):
                torch.mm(left, self._views.matrices[block.name][model], out=part)
                free = self._residual(outputs, delta, squared, *self._bounds[model : model + 2].tolist())
                torch.mm(part, self._views.transposed[block.name][model], out=back)
        return delta, squared if free else None, slope

    def _residual(
        self, outputs: Outputs, logits: Tensor, squared: NDArray[np.float64], start: int, stop: int
    ) -> bool:
        """Turn some records' logits into probability - record; whether their squared norms came along."""
        indptr, indices, rows = self._csr
        csr, lines = (indptr, indices, rows[start:stop]), self._workspace.lines(logits)[start:stop]
        if not outputs.softmax and sparse_kernels.sigmoid_residual(*csr, outputs.width, lines, squared[start:stop]):
            return True
        outputs.probabilities(logits[start:stop])
        sparse_kernels.subtract_records(*csr, *outputs.softmax_ranges, logits[start:stop].numpy())
        return False

    def dense(self) -> Tensor:
        """The records as a dense binary matrix."""
        out = torch.zeros((self._count, self._width), dtype=self._views.flat.dtype)
        none = np.empty(0, dtype=np.int64)
        sparse_kernels.subtract_records(*self._csr, none, none, out.numpy())
        return out.neg_()

    def parameters(self) -> Tensor:
        """The parameters of each record's model, (n, P)."""
        return self._views.flat[np.repeat(np.arange(len(self._bounds) - 1), np.diff(self._bounds))]

    # -- what training asks for ------------------------------------------------------------------------------

    def squared_norms(self, factors: Sequence[Factor]) -> Tensor:
        """Squared norm of every record's gradient, (n,) in float64."""
        total = np.zeros(self._count)
        for factor in factors:
            total += self._squares(factor.delta, factor.squared) * self._activation_squares(factor)
        return torch.from_numpy(total)

    def silence(self, factors: Sequence[Factor], unusable: Tensor) -> None:
        """Zero what the given records contribute, so that a weight of zero removes them whatever they hold."""
        for factor in factors:
            factor.delta[unusable] = 0
            if isinstance(factor.activation, Signal):
                factor.activation.values[unusable] = 0

    def weighted_sum(self, factors: Sequence[Factor], weights: Tensor, out: BlockViews) -> Tensor:
        """Sum over records of weight x gradient for every model, into (k, P); models without records get zero."""
        if 0 in self._sizes:
            out.flat.zero_()
        scale = weights.to(out.flat.dtype).numpy()
        for factor in factors:
            block, delta = factor.block, factor.delta
            if isinstance(factor.activation, _Records):
                start = out.layout.offsets[block.name]
                lines = self._workspace.lines(delta)
                sparse_kernels.sparse_outer(
                    *self._csr, self._bounds, scale, lines, block.outputs, block.bias, start,
                    block.inputs, out.array,
                )  # fmt: skip
                continue
            left = _left(block, factor.activation)
            # The narrower of the two carries the weights.
            if left.shape[1] <= delta.shape[1]:
                left = self._weighted(block, left, scale)
            else:
                delta = self._weighted(block, delta, scale)
            matrices = out.matrices[block.name]
            if len(matrices) == 1:
                torch.mm(left.T, delta, out=matrices[0])
                continue
            # Splitting takes one call where slicing takes one per model.
            for part, slope, matrix in zip(
                left.T.split_with_sizes(self._sizes, 1), delta.split_with_sizes(self._sizes), matrices, strict=True
            ):
                if len(slope):
                    torch.mm(part, slope, out=matrix)
        return out.flat

    def _weighted(self, block: Block, values: Tensor, scale: NDArray[np.generic]) -> Tensor:
        """Rows times their weights."""
        width = values.shape[1]
        out = self.space(f"{block.name} weighted", width)
        lines = self._workspace.lines
        np.multiply(lines(values)[:, :width], scale[:, None], out=lines(out)[:, :width])
        return out

    def _activation_squares(self, factor: Factor) -> NDArray[np.float64]:
        if isinstance(factor.activation, _Records):
            return self._lengths.astype(np.float64) + factor.block.bias
        known = factor.activation.squared if factor.block.bias else None
        return self._squares(_left(factor.block, factor.activation), known)

    def _squares(self, values: Tensor, known: Squares | None) -> NDArray[np.float64]:
        if known is not None:
            return known if isinstance(known, np.ndarray) else known.numpy()
        out = np.empty(self._count)
        layer_kernels.row_squares(self._workspace.lines(values), values.shape[1], out)
        return out


def _left(block: Block, signal: Signal) -> Tensor:
    return signal.with_one if block.bias else signal.values
