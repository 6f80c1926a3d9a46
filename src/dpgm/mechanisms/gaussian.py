"""Gaussian noise: exact integers on a grid, or floats rounded to one.

Integers (a query with a grid) are exact: rounded_gaussian.py says why the accounting covers what is drawn.

Floats (gradient sums) are mitigated, not proved. The theorem is about real numbers; a sum of doubles has holes
that can betray its summands (Mironov 2012). Noise is drawn from two 64-bit words a pair of normals, correct to 9.4
standard deviations, added in double precision, and the sum is rounded to a public grid of about 2^-20 of the
sensitivity, so that every grid point in reach is hit by a great many pairs of words whatever the exact value was
and the low-order bits, which the known attacks read, are gone. The device of Holohan and Braghin (adding several
independent normals, so that inverting one is harder) protects those low-order bits; with the rounding there is
nothing left for it to protect, so it is not used.

On an accelerator the normals are torch's double-precision ones, correct to 8.5 standard deviations.

In a parallel run rank 0 draws and adds the noise, and every rank receives the noisy value.
"""

import math
from collections.abc import MutableMapping

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from dpgm.compute import fused, parallel
from dpgm.compute.cuda_graphs import Recorded
from dpgm.errors import DpgmError, UsageError
from dpgm.mechanisms.normals import add_normals
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import Randomness
from dpgm.mechanisms.rounded_gaussian import few_rounded_gaussians

SMALLEST_SENSITIVITY = 1e-30  # below it float32 noise would be flushed to zero


def noise_std(query: Query, noise: float, randomness: Randomness) -> float:
    """The standard deviation a release will have; refuses what is not a valid multiplier.

    A multiplier of 0 is for tests, so it needs a source that is marked not private.
    """
    if not math.isfinite(noise) or noise < 0 or (noise == 0 and randomness.private):
        raise UsageError(f"`noise` must be a finite number above 0; got {noise!r}.")
    if not SMALLEST_SENSITIVITY <= query.sensitivity < math.inf:
        raise DpgmError(f"a query's sensitivity must be a finite number above 0; got {query.sensitivity!r}.")
    return float(noise) * float(query.sensitivity)


def add_noise(exact: Tensor, query: Query, noise: float, randomness: Randomness) -> Tensor:
    """The exact value plus noise of standard deviation `noise` x the query's sensitivity.

    Floats are changed in place. Raises DpgmError if the noisy value is not finite.
    """
    std = noise_std(query, noise, randomness)
    if tuple(exact.shape) != tuple(query.shape):
        raise DpgmError(f"a query of shape {tuple(query.shape)} returned shape {tuple(exact.shape)}.")
    if query.grid is not None:
        return _add_integers(exact, query.grid, std, randomness)
    if exact.dtype not in (torch.float32, torch.float64):
        raise DpgmError(f"a query without a grid must return float32 or float64; got {exact.dtype}.")
    known = None
    if std > 0 and parallel.rank() == 0:
        grid = math.ldexp(1.0, math.frexp(query.sensitivity)[1] - 21)
        if exact.device.type == "cpu":
            known = _add_on_cpu(exact, std, grid, randomness)
        else:
            _add_on_device(exact, std, grid, randomness)
    noisy = parallel.from_first(exact)
    if query.check_later and exact.device.type != "cpu":
        return noisy
    if known is None or parallel.is_parallel():
        # A sum is finite only if its terms are: one cheap pass, and it looks at noisy values alone.
        known = math.isfinite(noisy.sum().item())
    if not known:
        raise DpgmError(
            "a noisy value is not finite, so it is not released (its budget stays spent); "
            "try a smaller learning rate."
        )
    return noisy


def _add_integers(exact: Tensor, grid: float, std: float, randomness: Randomness) -> Tensor:
    if exact.dtype != torch.int64:
        raise DpgmError(f"a query with a grid must return int64 multiples of it; got {exact.dtype}.")
    alone = not parallel.is_parallel()
    if std > 0 and (alone or parallel.rank() == 0):
        # Up, so that the quotient's rounding never costs privacy.
        units = few_rounded_gaussians(exact.numel(), math.nextafter(std / grid, math.inf), randomness)
    else:
        units = np.zeros(exact.numel(), dtype=np.int64)
    if alone and exact.device.type == "cpu":  # numpy is quicker on small histograms
        return torch.from_numpy((exact.numpy() + units.reshape(exact.shape)) * grid)
    shared = parallel.from_first(torch.from_numpy(units).to(exact.device)).reshape(exact.shape)
    return (exact + shared).double() * grid


def _add_on_cpu(exact: Tensor, std: float, grid: float, randomness: Randomness) -> bool:
    """Whether all of the noisy values are finite."""
    flat = exact.detach().contiguous()
    finite = add_normals(flat.numpy().reshape(-1), std, grid, randomness)
    if not exact.is_contiguous():
        exact.copy_(flat)
    return finite


class _DeviceNoise:
    """Noise for one tensor on an accelerator: its buffer, and the addition, recorded from the second time on."""

    def __init__(self, exact: Tensor) -> None:
        self._exact = exact.detach()  # another object: an entry of `_noise_of` must not keep its own key alive
        self._noise = torch.empty(exact.shape, dtype=torch.float64, device=exact.device)
        self._rounder = torch.zeros((), dtype=torch.float64, device=exact.device)
        self._recorded = Recorded(self._add, exact.device, [self._exact])
        self._grid = 0.0

    def add(self, std: float, grid: float, generator: torch.Generator) -> None:
        self._noise.normal_(0.0, std, generator=generator)
        add = self._recorded if self._grid else self._add
        if grid != self._grid:
            # Adding and subtracting 1.5 x 2^52 grid steps rounds to the grid.
            self._rounder.fill_(1.5 * 2.0**52 * grid)
            self._grid = grid
        add()

    def _add(self) -> None:
        if not fused.add_rounded(self._exact, self._noise, self._rounder):
            torch.sub(self._exact + self._noise + self._rounder, self._rounder, out=self._exact)


_noise_of: MutableMapping[Tensor, _DeviceNoise] = WeakIdKeyDictionary()


def _add_on_device(exact: Tensor, std: float, grid: float, randomness: Randomness) -> None:
    noise = _noise_of.get(exact)
    if noise is None:
        noise = _noise_of[exact] = _DeviceNoise(exact)
    noise.add(std, grid, randomness.device_noise(exact.device))
