"""Gaussian noise: exact integers on a grid, or floats rounded to one."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.errors import DpgmError, UsageError
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import Randomness


def noise_std(query: Query, noise: float, randomness: Randomness) -> float:
    """The standard deviation a release will have; refuses what is not a valid multiplier."""
    if not math.isfinite(noise) or noise < 0 or (noise == 0 and randomness.private):
        raise UsageError(f"`noise` must be a finite number above 0; got {noise!r}.")
    if not math.isfinite(query.sensitivity) or query.sensitivity <= 0:
        raise DpgmError(f"a query's sensitivity must be a finite number above 0; got {query.sensitivity!r}.")
    return float(noise) * float(query.sensitivity)


def add_noise(exact: Tensor, query: Query, noise: float, randomness: Randomness) -> Tensor:
    """The exact value plus noise of standard deviation `noise` x the query's sensitivity."""
    std = noise_std(query, noise, randomness)
    if query.grid is not None:
        units = np.rint(_normals(exact.numel(), randomness) * (std / query.grid)).astype(np.int64)
        return (exact + torch.from_numpy(units).reshape(exact.shape)).double() * query.grid
    normals = torch.from_numpy(_normals(exact.numel(), randomness)).reshape(exact.shape)
    return exact.add_(normals.to(exact), alpha=std)


def _normals(count: int, randomness: Randomness) -> NDArray[np.float64]:
    words = randomness.words(2 * count)
    u, v = ((words >> np.uint64(11)).astype(np.float64) + 0.5).reshape(2, count) * 2.0**-53
    normals: NDArray[np.float64] = np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)
    return normals
