"""Records on their way through k models on an accelerator: dense and padded, (k, n, width), for batched products."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dpgm.models.factors import Activation, Block, Factor, Layout, Signal, _Records
from dpgm.models.latent import latent_gradient, sample_latent
from dpgm.models.outputs import Outputs
from dpgm.models.workspace import Workspace


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
        return self._workspace.signal(name, (*self._places, width))

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
        sample_latent(heads, self.draws, out.values)
        return out

    def latent_delta(self, slope: Tensor, heads: Tensor) -> tuple[Tensor, Tensor | None]:
        """Gradient at the heads from the slope at the latent sample."""
        out = self.space("latent delta", heads.shape[-1])
        latent_gradient(slope, heads, self.draws, out)
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


def _left(block: Block, signal: Signal) -> Tensor:
    return signal.with_one if block.bias else signal.values
