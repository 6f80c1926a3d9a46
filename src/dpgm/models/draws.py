"""Latent draws addressed by record: a normal number is a function of (seed, step, row, column) alone.

So a record's draws do not depend on who else is in its batch, on the order of the batch or on the device, and
drawing them moves no shared generator: what happens inside a query leaves no trace outside. The seed is public;
privacy holds for every value of these draws.
"""

import math

import torch
from torch import Tensor

from dpgm.compute import draw_kernels, fused


def latent_draws(key: int | Tensor, rows: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """Standard normal numbers, (*rows.shape, width), of a step's key for the given row numbers.

    The key may be an int64 tensor, so that a recorded CUDA graph can be replayed for another step.
    """
    if isinstance(key, int) and rows.device.type == "cpu":
        out = torch.empty((rows.numel(), width), dtype=dtype)
        if draw_kernels.hashed_normals(key % 2**64, rows.reshape(-1).numpy(), out.numpy()):
            return out.reshape(*rows.shape, width)
    if not isinstance(key, int):
        out = torch.empty((*rows.shape, width), dtype=dtype, device=rows.device)
        if fused.hashed_normals(key, rows, out):
            return out
    pairs = -(-width // 2)
    columns = torch.arange(pairs, device=rows.device)
    base = rows * _signed(draw_kernels.ROW_STEP) + key
    mixed = _mix(base.unsqueeze(-1) + columns * _signed(draw_kernels.COLUMN_STEP))
    # 32 bits for the radius, 31 for the angle.
    radius = torch.sqrt(-2 * torch.log((((mixed >> 32) & 0xFFFFFFFF).double() + 0.5) * 2.0**-32))
    angle = ((mixed & 0x7FFFFFFF).double() + 0.5) * (2 * math.pi * 2.0**-31)
    both = torch.stack((radius * torch.cos(angle), radius * torch.sin(angle)), dim=-1)
    return both.flatten(-2)[..., :width].to(dtype)


def step_key(seed: int, step: int) -> int:
    """A signed 64-bit key of a step, by splitmix64."""
    z = (seed + (step + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return _signed(z ^ (z >> 31))


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


def _mix(z: Tensor) -> Tensor:
    """The finaliser of splitmix64 on int64 tensors; shifts are logical."""
    z = (z ^ ((z >> 30) & (2**34 - 1))) * _signed(0xBF58476D1CE4E5B9)
    z = (z ^ ((z >> 27) & (2**37 - 1))) * _signed(0x94D049BB133111EB)
    return z ^ ((z >> 31) & (2**33 - 1))
