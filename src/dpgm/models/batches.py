"""Batches of records on their way through k models: sorted by model on the CPU, padded elsewhere.

`SegmentedBatch` keeps records sparse and sorted by model; matrix products run over one segment a model, everything
else over the whole batch at once. `PaddedBatch` is dense, (k, n, width), for batched products on an accelerator.
Both compute the same numbers; both write into a `Workspace` so that a steady state allocates nothing.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.compute import kernels
from dpgm.data.records import Records
from dpgm.models.factors import Activation, Block, Factor, Layout, Signal, _Records
from dpgm.models.outputs import Outputs

LINE = 16  # buffers' rows start at multiples of this many numbers: one cache line in float32


class Workspace:
    """Named buffers that grow when a batch is larger than any before."""

    def __init__(self, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> None:
        self.dtype = dtype
        self.device = torch.device(device)
        self._held: dict[str, Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], *, ones: bool = False) -> Tensor:
        """A view of that shape, contents undefined; with `ones` its last column is one."""
        rows, width = shape[-2:]
        line = -(-width // LINE) * LINE
        held = self._held.get(name)
        if held is None or held.shape[-2] < rows or held.shape[:-2] != shape[:-2] or held.shape[-1] != line:
            held = torch.zeros((*shape[:-2], rows + rows // 8 + LINE, line), dtype=self.dtype, device=self.device)
            if ones:
                held[..., width - 1] = 1
            self._held[name] = held
        return held[..., :rows, :width]


class BlockViews:
    """Every block of (k, P) parameters as matrices, one a model; made once, since making views takes time."""

    def __init__(self, layout: Layout, flat: Tensor) -> None:
        self.flat, self.layout = flat, layout
        self.matrices = {block.name: list(layout.matrix(flat, block)) for block in layout.blocks}
        self.transposed = {
            block.name: [matrix[: block.inputs].T for matrix in self.matrices[block.name]]
            for block in layout.blocks
        }


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
        self._views, self._workspace = parameters, workspace
        self._csr = (records.indptr, records.indices, rows)
        self._lengths = records.indptr[rows + 1] - records.indptr[rows]
        self._bounds = bounds
        self._count, self._width = len(rows), records.width
        edges = bounds.tolist()
        self._segments = [(s, start, stop) for s, (start, stop) in enumerate(pairwise(edges)) if stop > start]

    def signal(self, name: str, width: int) -> Signal:
        """A buffer for activations that the model fills itself."""
        whole = self._workspace.take(f"{name} +1", (self._count, width + 1), ones=True)
        return Signal(whole, whole[:, :width])

    def space(self, name: str, width: int) -> Tensor:
        """A buffer for anything else."""
        return self._workspace.take(name, (self._count, width))

    def affine(self, block: Block, activation: Activation) -> Signal:
        """Product activation @ matrix + bias, of each record's own model."""
        out = self.signal(block.name, block.outputs)
        if isinstance(activation, _Records):
            views = self._views
            start = views.layout.offsets[block.name]
            kernels.sparse_affine(
                *self._csr, self._bounds, views.flat.numpy(), start, block.inputs, block.outputs, _lines(out.values)
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
        if len(self._segments) == 1:
            torch.mm(left, matrices[self._segments[0][0]], out=out)
            return
        for s, start, stop in self._segments:
            torch.mm(left[start:stop], matrices[s], out=out[start:stop])

    def rectify(self, signal: Signal) -> Signal:
        """The signal with negative values set to zero, in place."""
        squared = torch.empty(self._count, dtype=torch.float64)
        if kernels.rectify(_lines(signal.values), signal.values.shape[1], squared.numpy()):
            return Signal(signal.with_one, signal.values, squared)
        signal.values.clamp_(min=0)
        return signal

    def gate(self, slope: Tensor, signal: Signal) -> Tensor | None:
        """Zero the slopes where a rectified signal is zero, in place; returns their squared norms if free."""
        squared = torch.empty(self._count, dtype=torch.float64)
        if kernels.gate(_lines(slope), _lines(signal.values), slope.shape[1], squared.numpy()):
            return squared
        slope.mul_(signal.values > 0)
        return None

    def reparametrise(self, heads: Tensor) -> Signal:
        """A latent sample from heads (mean, log-variance)."""
        latent = heads.shape[1] // 2
        out = self.signal("latent sample", latent)
        if not kernels.HAS_NUMBA:
            _reparametrise(heads, self.draws, out.values)
            return out
        squared = torch.empty(self._count, dtype=torch.float64)
        kernels.reparametrise(_lines(heads), self.draws.numpy(), latent, _lines(out.values), squared.numpy())
        return Signal(out.with_one, out.values, squared)

    def latent_delta(self, slope: Tensor, heads: Tensor) -> tuple[Tensor, Tensor | None]:
        """Gradient at the heads from the slope at the latent sample."""
        latent = heads.shape[1] // 2
        out = self.space("latent delta", 2 * latent)
        if not kernels.HAS_NUMBA:
            _latent_delta(slope, heads, self.draws, out)
            return out, None
        squared = torch.empty(self._count, dtype=torch.float64)
        kernels.latent_delta(_lines(slope), _lines(heads), self.draws.numpy(), latent, _lines(out), squared.numpy())
        return out, squared

    def residual(self, outputs: Outputs, logits: Tensor) -> Tensor | None:
        """Turn logits into (probability - record) in place; returns squared norms where the kernel gives them."""
        squared = torch.empty(self._count, dtype=torch.float64)
        fused = not outputs.softmax and kernels.sigmoid_residual(
            *self._csr, outputs.width, _lines(logits), squared.numpy()
        )
        if fused:
            return squared
        outputs.probabilities(logits)
        kernels.subtract_records(*self._csr, *outputs.softmax_ranges, logits.numpy())
        return None

    def dense(self) -> Tensor:
        """The records as a dense binary matrix."""
        out = torch.zeros((self._count, self._width), dtype=self._views.flat.dtype)
        none = np.empty(0, dtype=np.int64)
        kernels.subtract_records(*self._csr, none, none, out.numpy())
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
        if len(self._segments) < len(self._bounds) - 1:
            out.flat.zero_()
        scale = weights.to(out.flat.dtype)
        column = scale.unsqueeze(1)
        for factor in factors:
            block, delta = factor.block, factor.delta
            if isinstance(factor.activation, _Records):
                start = out.layout.offsets[block.name]
                kernels.sparse_outer(
                    *self._csr, self._bounds, scale.numpy(), _lines(delta), block.outputs, block.bias, start,
                    block.inputs, out.flat.numpy(),
                )  # fmt: skip
                continue
            left = _left(block, factor.activation)
            # The narrower of the two carries the weights.
            if left.shape[1] <= delta.shape[1]:
                left = torch.mul(left, column, out=self.space(f"{block.name} weighted", left.shape[1]))
            else:
                delta = torch.mul(delta, column, out=self.space(f"{block.name} weighted", delta.shape[1]))
            matrices = out.matrices[block.name]
            if len(self._segments) == 1:
                torch.mm(left.T, delta, out=matrices[self._segments[0][0]])
                continue
            for s, start, stop in self._segments:
                torch.mm(left[start:stop].T, delta[start:stop], out=matrices[s])
        return out.flat

    def _activation_squares(self, factor: Factor) -> NDArray[np.float64]:
        if isinstance(factor.activation, _Records):
            return self._lengths.astype(np.float64) + factor.block.bias
        known = factor.activation.squared if factor.block.bias else None
        return self._squares(_left(factor.block, factor.activation), known)

    def _squares(self, values: Tensor, known: Tensor | None) -> NDArray[np.float64]:
        if known is not None:
            return known.numpy()
        out = np.empty(self._count)
        kernels.row_squares(_lines(values), values.shape[1], out)
        return out


def _reparametrise(heads: Tensor, draws: Tensor, out: Tensor) -> None:
    mean, log_variance = heads.chunk(2, dim=-1)
    torch.addcmul(mean, torch.exp(0.5 * log_variance), draws, out=out)


def _latent_delta(slope: Tensor, heads: Tensor, draws: Tensor, out: Tensor) -> None:
    mean, log_variance = heads.chunk(2, dim=-1)
    mean_part, variance_part = out.chunk(2, dim=-1)
    spread = torch.exp(0.5 * log_variance)
    torch.add(slope, mean, out=mean_part)
    variance_part.copy_((slope * draws * spread + spread.square() - 1) * 0.5)


def _left(block: Block, signal: Signal) -> Tensor:
    return signal.with_one if block.bias else signal.values


def _lines(values: Tensor) -> NDArray[np.generic]:
    """A buffer's rows at full length, as the C-contiguous array the kernels want."""
    rows, width = values.shape
    line = values.stride(0) if rows > 1 else max(width, 1)
    if values.stride(1) != 1 and width > 1:
        values, line = values.contiguous(), width
    return torch.as_strided(values, (rows, line), (line, 1)).numpy()


class PaddedBatch:
    """Dense records (k, n, m) and which of the n places of every model are taken, (k, n)."""

    def __init__(
        self,
        layout: Layout,
        parameters: Tensor,
        records: Tensor,
        taken: Tensor,
        workspace: Workspace,
        draws: Tensor,
    ) -> None:
        self.draws = draws
        self._layout, self._flat, self._workspace = layout, parameters, workspace
        self._records, self._taken = records, taken
        self._places = records.shape[:2]

    def signal(self, name: str, width: int) -> Signal:
        """A buffer for activations that the model fills itself."""
        whole = self._workspace.take(f"{name} +1", (*self._places, width + 1), ones=True)
        return Signal(whole, whole[..., :width])

    def space(self, name: str, width: int) -> Tensor:
        """A buffer for anything else."""
        return self._workspace.take(name, (*self._places, width))

    def affine(self, block: Block, activation: Activation) -> Signal:
        """Product activation @ matrix + bias, of each record's own model."""
        out = self.signal(block.name, block.outputs)
        matrix = self._layout.matrix(self._flat, block)
        if isinstance(activation, _Records):
            product = torch.baddbmm(matrix[:, block.inputs :], self._records, matrix[:, : block.inputs])
        else:
            product = torch.bmm(activation.with_one if block.bias else activation.values, matrix)
        out.values.copy_(product)
        return out

    def back(self, block: Block, delta: Tensor) -> Tensor:
        """Product delta @ matrix transposed: the gradient at the block's input."""
        matrix = self._layout.matrix(self._flat, block)[:, : block.inputs]
        return torch.bmm(delta, matrix.transpose(1, 2))

    def rectify(self, signal: Signal) -> Signal:
        """The signal with negative values set to zero, in place."""
        signal.values.clamp_(min=0)
        return signal

    def gate(self, slope: Tensor, signal: Signal) -> Tensor | None:
        """Zero the slopes where a rectified signal is zero, in place."""
        slope.mul_(signal.values > 0)
        return None

    def reparametrise(self, heads: Tensor) -> Signal:
        """A latent sample from heads (mean, log-variance)."""
        out = self.signal("latent sample", heads.shape[-1] // 2)
        _reparametrise(heads, self.draws, out.values)
        return out

    def latent_delta(self, slope: Tensor, heads: Tensor) -> tuple[Tensor, Tensor | None]:
        """Gradient at the heads from the slope at the latent sample."""
        out = self.space("latent delta", heads.shape[-1])
        _latent_delta(slope, heads, self.draws, out)
        return out, None

    def residual(self, outputs: Outputs, logits: Tensor) -> Tensor | None:
        """Turn logits into (probability - record) in place."""
        outputs.residual(logits, self._records)
        return None

    def dense(self) -> Tensor:
        """The records as a dense binary tensor."""
        return self._records

    def parameters(self) -> Tensor:
        """The parameters of each record's model, (k, n, P) without copying."""
        return self._flat.unsqueeze(1).expand(*self._places, -1)

    # -- what training asks for ------------------------------------------------------------------------------

    def squared_norms(self, factors: Sequence[Factor]) -> Tensor:
        """Squared norm of every record's gradient, (k, n); places not taken have none (not a number)."""
        # Few, large operations: on an accelerator their number is what a small batch pays for.
        sizes = torch.stack([torch.linalg.vector_norm(factor.delta, dim=-1) for factor in factors])
        sizes.mul_(torch.stack([self._activation_norm(factor) for factor in factors]))
        return sizes.square_().sum(0).masked_fill_(~self._taken, torch.nan)

    def silence(self, factors: Sequence[Factor], unusable: Tensor) -> None:
        """Zero what the given records contribute, so that a weight of zero removes them whatever they hold."""
        places = unusable.unsqueeze(-1)
        for factor in factors:
            factor.delta.masked_fill_(places, 0)
            if isinstance(factor.activation, Signal):
                factor.activation.values.masked_fill_(places, 0)

    def weighted_sum(self, factors: Sequence[Factor], weights: Tensor, out: Tensor) -> Tensor:
        """Sum over records of weight x gradient for every model, into (k, P)."""
        scale = weights.to(out.dtype).unsqueeze(-1)
        for factor in factors:
            block = factor.block
            matrix = self._layout.matrix(out, block)
            if isinstance(factor.activation, _Records):
                scaled = factor.delta * scale
                matrix[:, : block.inputs].copy_(torch.bmm(self._records.transpose(1, 2), scaled))
                if block.bias:
                    matrix[:, block.inputs].copy_(scaled.sum(1))
                continue
            left, delta = factor.activation.with_one if block.bias else factor.activation.values, factor.delta
            if left.shape[-1] <= delta.shape[-1]:
                left = left * scale
            else:
                delta = delta * scale
            matrix.copy_(torch.bmm(left.transpose(1, 2), delta))
        return out

    def _activation_norm(self, factor: Factor) -> Tensor:
        if isinstance(factor.activation, _Records):
            return self._records.sum(-1).add_(float(factor.block.bias)).sqrt_()
        norms: Tensor = torch.linalg.vector_norm(_left(factor.block, factor.activation), dim=-1)
        return norms
