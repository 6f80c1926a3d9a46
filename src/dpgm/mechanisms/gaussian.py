"""Gaussian noise: exact integers on a grid, or floats rounded to one.

Integers (a query with a grid) are exact: rounded_gaussian.py says why the accounting covers what is drawn.

Floats (gradient sums) are mitigated, not proved. The theorem is about real numbers; a sum of doubles has gaps
that reveal its inputs (Mironov 2012). Noise is drawn from 96 random bits per pair of normals, correct to 9.4
standard deviations, added in double precision, and the sum is rounded to a public grid of 2^-13 to 2^-12 of the
standard deviation (and no finer than 2^-21 of the sensitivity). The two normals of a pair are a point in the plane, on
one of 2^32 rays; a square of the grid is crossed by thousands of them (30,000 at 2.7 standard deviations), each with
its own 2^63 radii, so every grid point in reach is hit by a great many pairs of words whatever the exact value was and
the low-order bits, which the known attacks read, are gone. The device of Holohan and Braghin (adding several
independent normals, so that inverting one is harder) protects those low-order bits; with the rounding there is
nothing left for it to protect, so it is not used.

On an accelerator the normals are torch's double-precision ones, correct to 8.5 standard deviations.

In a parallel run every coordinate of a sum has one owner among the ranks, who alone draws noise for it, once, from its
own key. Integers belong to rank 0, which adds its noise to its own partial sum: then the partial sums of all ranks are
added, exactly. Floats on the CPU are cut into one part per rank. There the noise
comes after the sum, so that the rounding is last, and the owner of a part sees its sum without noise. Floats on
accelerators belong to rank 0.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from dpgm.errors import DpgmError, UsageError
from dpgm.kernels import parallel
from dpgm.mechanisms.normals import NORMALS_AT_ONCE, add_normals
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import Randomness
from dpgm.mechanisms.rounded_gaussian import rounded_gaussian

SMALLEST_SENSITIVITY = 1e-30  # below it float32 noise would be flushed to zero
_ROUNDER = 1.5 * 2.0**52  # steps of a grid: adding and subtracting them rounds a double to the grid


def noise_std(query: Query, noise: float, randomness: Randomness) -> float:
    """The standard deviation a release will have, at most; refuses what is not a valid multiplier.

    A multiplier of 0 is for tests, so it needs a source that is marked not private.
    """
    if not math.isfinite(noise) or noise < 0 or (noise == 0 and randomness.private):
        raise UsageError(f"`noise` must be a finite number above 0; got {noise!r}.")
    if not SMALLEST_SENSITIVITY <= query.sensitivity < math.inf:
        raise DpgmError(f"a query's sensitivity must be a finite number above 0; got {query.sensitivity!r}.")
    return float(noise) * float(query.sensitivity)


def add_noise(exact: Tensor, query: Query, noise: float, randomness: Randomness) -> Tensor:
    """The sum over all ranks of `exact`, plus noise of standard deviation `noise` x the query's sensitivity.

    Floats are changed in place. Raises DpgmError if the noisy value is not finite.
    """
    std = noise_std(query, noise, randomness)
    if tuple(exact.shape) != tuple(query.shape):
        raise DpgmError(f"a query of shape {tuple(query.shape)} returned shape {tuple(exact.shape)}.")
    if query.grid is not None:
        return _add_integers(exact, query.grid, std, randomness)
    if exact.dtype not in (torch.float32, torch.float64):
        raise DpgmError(f"a query without a grid must return float32 or float64; got {exact.dtype}.")
    add = _add_on_cpu if exact.device.type == "cpu" else _add_on_device
    finite = add(exact, noise, float(query.sensitivity), randomness)
    if not finite:
        raise DpgmError(
            "a noisy value is not finite, so it is not released (its budget stays spent); "
            "try a smaller learning rate."
        )
    return exact


def _add_integers(exact: Tensor, grid: float, std: float, randomness: Randomness) -> Tensor:
    if exact.dtype != torch.int64:
        raise DpgmError(f"a query with a grid must return int64 multiples of it; got {exact.dtype}.")
    fine = math.nextafter(std / grid, math.inf)  # up, so that the quotient's rounding never costs privacy
    if std > 0 and parallel.rank() == 0:
        units = rounded_gaussian(exact.numel(), fine, randomness).reshape(exact.shape)
    else:
        units = np.zeros(exact.shape, dtype=np.int64)
    if exact.device.type == "cpu" and not parallel.is_parallel():  # numpy is quicker on small histograms
        return torch.from_numpy((exact.numpy() + units) * grid)
    return parallel.all_sum(exact + torch.from_numpy(units).to(exact.device)).double() * grid


def _add_on_cpu(exact: Tensor, noise: float, sensitivity: float, randomness: Randomness) -> bool:
    """Whether all of the noisy values are finite."""
    grid = _grid_of(noise, sensitivity)
    flat = exact.detach().contiguous().view(-1)
    numbers = flat.numpy()  # cutting tensors takes longer than the noise of a small network
    pieces = [numbers[start : start + NORMALS_AT_ONCE] for start in range(0, len(numbers), NORMALS_AT_ONCE)]
    mine, lengths = slice(None), [flat.numel()]
    if parallel.is_parallel():
        owned = _pieces_of_ranks([len(piece) for piece in pieces], parallel.world_size())
        mine, lengths = owned[parallel.rank()], [sum(len(piece) for piece in pieces[own]) for own in owned]
    parallel.sum_on_owners(flat, lengths)
    parts = zip(pieces[mine], randomness.words_of_pieces(len(pieces))[mine], strict=True) if noise > 0 else ()
    finite = [add_normals(part, noise * sensitivity, grid, words) for part, words in parts]
    parallel.from_owners(flat, lengths)
    if flat.data_ptr() != exact.data_ptr():
        exact.copy_(flat.view(exact.shape))
    if parallel.is_parallel() or not finite:
        return math.isfinite(exact.sum().item())  # a sum is finite only if its terms are
    return all(finite)


def _grid_of(noise: float, sensitivity: float) -> float:
    """The public grid of the noisy values, a power of two."""
    return math.ldexp(1.0, math.frexp(max(noise, 2.0**-8) * sensitivity)[1] - 13)


def _pieces_of_ranks(lengths: Sequence[int], ranks: int) -> list[slice]:
    """Which pieces of a vector belong to which rank: consecutive ones, about as many numbers for each."""
    middles = np.cumsum(lengths) - np.asarray(lengths) / 2
    ends = np.searchsorted(middles, np.arange(1, ranks) * sum(lengths) / ranks, side="right").tolist()
    return [slice(first, last) for first, last in pairwise([0, *ends, len(lengths)])]


def _add_on_device(exact: Tensor, noise: float, sensitivity: float, randomness: Randomness) -> bool:
    """Whether all of the noisy values are finite."""
    parallel.sum_on_first(exact)
    if noise > 0 and parallel.rank() == 0:
        noisy = torch.empty(exact.shape, dtype=torch.float64, device=exact.device)
        noisy.normal_(0.0, noise * sensitivity, generator=randomness.device_noise(exact.device)).add_(exact)
        rounder = _ROUNDER * _grid_of(noise, sensitivity)
        exact.copy_(noisy.add_(rounder).sub_(rounder))
    parallel.from_first(exact)
    return math.isfinite(exact.sum().item())  # a sum is finite only if its terms are
