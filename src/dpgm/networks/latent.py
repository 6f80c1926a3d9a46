"""The latent variable of a VAE in plain tensor operations: what kernels compute faster."""

import torch
from torch import Tensor


def sample_latent(heads: Tensor, draws: Tensor, out: Tensor) -> None:
    """Mean + exp(log-variance / 2) x draws of heads (mean, log-variance), into `out`."""
    mean, log_variance = heads.chunk(2, dim=-1)
    torch.addcmul(mean, torch.exp(0.5 * log_variance), draws, out=out)


def latent_gradient(slope: Tensor, heads: Tensor, draws: Tensor, out: Tensor) -> None:
    """Gradient of loss + KL divergence at the heads, from the slope at the latent sample, into `out`."""
    mean, log_variance = heads.chunk(2, dim=-1)
    mean_part, variance_part = out.chunk(2, dim=-1)
    spread = torch.exp(0.5 * log_variance)
    torch.add(slope, mean, out=mean_part)
    variance_part.copy_((slope * draws * spread + spread.square() - 1) * 0.5)
