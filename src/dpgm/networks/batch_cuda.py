"""Records on their way through models on an accelerator: dense, in tiles of places, for batched products.

A tile holds places for records of one model; tensors are (tiles, places, width), and `parameters` has a line for
every tile. Few and large operations: on an accelerator their number is what a small batch pays for.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from dpgm.compute import fused
from dpgm.networks.outputs import Outputs
from dpgm.networks.per_record_gradients import Activation, Block, Factor, Layout, Signal, Squares, _Records
from dpgm.networks.vae import latent_gradient, sample_latent
from dpgm.networks.workspace import Workspace


class PaddedBatch:
    """Dense records with their squared norms (the column of ones counted), and the parameters of every tile's model."""

    def __init__(
        self, layout: Layout, parameters: Tensor, records: Signal, workspace: Workspace, draws: Tensor
    ) -> None:
        self.draws = draws
        self._layout, self._flat, self._workspace = layout, parameters, workspace
        self._records = records
        self._places = records.values.shape[:2]

    def signal(self, name: str, width: int) -> Signal:
        """A buffer for activations that the model fills itself."""
        return self._workspace.signal(name, (*self._places, width))

    def space(self, name: str, width: int) -> Tensor:
        """A buffer for anything else."""
        return self._workspace.take(name, (*self._places, width))

    def affine(self, block: Block, activation: Activation) -> Signal:
        """Product activation @ matrix + bias, of each record's own model."""
        out = self.signal(block.name, block.outputs)
        torch.bmm(self._left(block, activation), self._layout.matrix(self._flat, block), out=out.values)
        return out

    def back(self, block: Block, delta: Tensor) -> Tensor:
        """Product delta @ matrix transposed: the gradient at the block's input."""
        matrix = self._layout.matrix(self._flat, block)[:, : block.inputs]
        out = self.space(f"{block.name} back", block.inputs)
        return torch.bmm(delta, matrix.transpose(1, 2), out=out)

    def rectify(self, signal: Signal) -> Signal:
        """The signal with negative values set to zero, in place."""
        squared = self._vector()
        if fused.rectify(signal.values, squared):
            return Signal(signal.with_one, signal.values, squared)
        signal.values.clamp_(min=0)
        return signal

    def gate(self, slope: Tensor, signal: Signal) -> Tensor | None:
        """Zero the slopes where a rectified signal is zero, in place; returns their squared norms if free."""
        squared = self._vector()
        if fused.gate(slope, signal.values, squared):
            return squared
        slope.mul_(signal.values > 0)
        return None

    def reparametrise(self, heads: Tensor) -> Signal:
        """A latent sample from heads (mean, log-variance)."""
        out, squared = self.signal("latent sample", heads.shape[-1] // 2), self._vector()
        if fused.reparametrise(heads, self.draws, out.values, squared):
            return Signal(out.with_one, out.values, squared)
        sample_latent(heads, self.draws, out.values)
        return out

    def latent_delta(self, slope: Tensor, heads: Tensor) -> tuple[Tensor, Tensor | None]:
        """Gradient at the heads from the slope at the latent sample."""
        out, squared = self.space("latent delta", heads.shape[-1]), self._vector()
        if fused.latent_delta(slope, heads, self.draws, out, squared):
            return out, squared
        latent_gradient(slope, heads, self.draws, out)
        return out, None

    def reconstruct(
        self, block: Block, activation: Signal, outputs: Outputs
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """The last layer: probability - record, its squared norms if free, and the gradient at the layer's input."""
        delta, squared = self.affine(block, activation).values, self._vector()
        free = not outputs.softmax and fused.sigmoid_residual(delta, self._records.values, squared)
        if not free:
            outputs.residual(delta, self._records.values)
        return delta, squared if free else None, self.back(block, delta)

    def dense(self) -> Tensor:
        """The records as a dense binary tensor."""
        return self._records.values

    def parameters(self) -> Tensor:
        """The parameters of each record's model, (tiles, places, P) without copying."""
        return self._flat.unsqueeze(1).expand(*self._places, -1)

    # -- what training asks for ------------------------------------------------------------------------------

    def squared_norms(self, factors: Sequence[Factor]) -> Tensor:
        """Squared norm of the gradient at every place, taken or not, (tiles, places)."""
        total: Tensor | None = None
        for factor in factors:
            delta, activation = _squares(factor.delta, factor.squared), self._activation_squares(factor)
            total = delta * activation if total is None else total.addcmul_(delta, activation)
        assert total is not None
        return total

    def weighted_sum(self, factors: Sequence[Factor], weights: Tensor, out: Tensor) -> Tensor:
        """Sum over records of weight x gradient for every tile, into (tiles, P).

        A record of weight 0 contributes nothing, whatever its factors hold.
        """
        for factor in factors:
            block, delta = factor.block, factor.delta
            signal = self._signal(factor.activation)
            left = self._left(block, signal)
            # The narrower of the two carries the weights.
            if left.shape[-1] <= delta.shape[-1]:
                left = self._weighted(block, left, delta, weights)
            else:
                delta = self._weighted(block, delta, signal.values, weights)  # its column of ones must stay
            torch.bmm(left.transpose(1, 2), delta, out=self._layout.matrix(out, block))
        return out

    def _weighted(self, block: Block, narrow: Tensor, wide: Tensor, weights: Tensor) -> Tensor:
        out = self.space(f"{block.name} weighted", narrow.shape[-1])
        if not fused.weigh(narrow, wide, weights, out):
            nothing = (weights == 0).unsqueeze(-1)
            torch.mul(narrow, weights.to(out.dtype).unsqueeze(-1), out=out).masked_fill_(nothing, 0)
            wide.masked_fill_(nothing, 0)
        return out

    def _signal(self, activation: Activation) -> Signal:
        return self._records if isinstance(activation, _Records) else activation

    def _left(self, block: Block, activation: Activation) -> Tensor:
        signal = self._signal(activation)
        return signal.with_one if block.bias else signal.values

    def _activation_squares(self, factor: Factor) -> Tensor:
        signal = self._signal(factor.activation)
        if signal.squared is None:
            return _squares(self._left(factor.block, signal), None)
        known = _squares(signal.values, signal.squared)
        return known if factor.block.bias else known - 1

    def _vector(self) -> Tensor:
        return torch.empty(self._places, dtype=self._flat.dtype, device=self._flat.device)


def _squares(values: Tensor, known: Squares | None) -> Tensor:
    if isinstance(known, Tensor):
        return known
    return torch.linalg.vector_norm(values, dim=-1).square_()  # type: ignore[no-any-return]
