"""Any differentiable per-record loss as a model: per-record gradients by torch.func. Slower, same guarantee."""

from collections.abc import Callable

import torch
from torch import Tensor

from dpgm.networks.per_record_gradients import Batch, Block, Factor


def autograd_factor(block: Block, loss: Callable[[Tensor, Tensor, Tensor], Tensor], batch: Batch) -> Factor:
    """The gradient of `loss(parameters (P,), record (m,), draws)` for every record, as one factor.

    `block` has no inputs and P outputs: its delta is the whole gradient.
    """
    delta = batch.space(f"{block.name} delta", block.outputs)
    if delta.numel():  # torch.func cannot map over an empty batch
        records, parameters = batch.dense(), batch.parameters()
        gradient = torch.func.vmap(torch.func.grad(loss))
        flat = gradient(parameters.reshape(-1, block.outputs), records.flatten(0, -2), batch.draws.flatten(0, -2))
        delta.copy_(flat.reshape(delta.shape))
    return Factor(block, batch.signal(f"{block.name} one", 0), delta)
