"""Kernels of training on an accelerator, each one launch for what would be many. Written in Triton.

Every function returns False and does nothing where it cannot run: off CUDA, without Triton, in another precision.
Whoever calls then uses plain tensor operations, which give the same up to rounding. Matrices of records are
(tiles, places, width), dense in the last axis; `squared` receives squared norms of rows, (tiles, places).
"""

import os
from functools import cache
from typing import Any

import torch
from torch import Tensor

LONGEST = 1024  # columns at a time
STRETCH = 1024  # numbers per program in flat kernels


@cache
def _kernels() -> Any:
    from dpgm.compute import triton_kernels

    return triton_kernels if triton_kernels.HAS_TRITON else None


@cache
def _interpreted() -> bool:
    """Triton's interpreter runs the kernels on the CPU, slowly: for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def usable(*tensors: Tensor) -> bool:
    """Whether kernels can run on these tensors: floating-point ones in float32, dense in the last axis."""
    if not (tensors[0].is_cuda or _interpreted()) or _kernels() is None:
        return False
    return all(
        (not tensor.is_floating_point() or tensor.dtype == torch.float32)
        and (tensor.ndim == 0 or tensor.shape[-1] <= 1 or tensor.stride(-1) == 1)
        and tensor.numel() > 0
        for tensor in tensors
    )


def gather_rows(source: Tensor, rows: Tensor, out: Tensor, squared: Tensor) -> bool:
    """out[t, i] = row rows[t, i] of a matrix of bytes; squared = 1 + how many ones it has."""
    if not usable(out, source, rows, squared):
        return False
    block, warps = _block(out.shape[2])
    _kernels().gather_rows[(rows.numel(),)](
        source, rows, out, squared, *out.shape[1:], *out.stride()[:2], BLOCK=block, num_warps=warps
    )
    return True


def rectify(values: Tensor, squared: Tensor) -> bool:
    """Set negative values to zero in place; squared = 1 + squared norms."""
    if not usable(values, squared):
        return False
    block, warps = _block(values.shape[2])
    _kernels().rectify[(squared.numel(),)](
        values, squared, *values.shape[1:], *values.stride()[:2], BLOCK=block, num_warps=warps
    )
    return True


def gate(slopes: Tensor, values: Tensor, squared: Tensor) -> bool:
    """Zero the slopes in place where values are not above 0."""
    if not usable(slopes, values, squared):
        return False
    block, warps = _block(slopes.shape[2])
    strides = (*slopes.stride()[:2], *values.stride()[:2])
    _kernels().gate[(squared.numel(),)](
        slopes, values, squared, *slopes.shape[1:], *strides, BLOCK=block, num_warps=warps
    )
    return True


def sigmoid_residual(logits: Tensor, records: Tensor, squared: Tensor) -> bool:
    """Turn logits into sigmoid(logits) - records."""
    if not usable(logits, records, squared):
        return False
    block, warps = _block(logits.shape[2])
    strides = (*logits.stride()[:2], *records.stride()[:2])
    _kernels().residual[(squared.numel(),)](
        logits, records, squared, *logits.shape[1:], *strides, BLOCK=block, num_warps=warps
    )
    return True


def reparametrise(heads: Tensor, draws: Tensor, out: Tensor, squared: Tensor) -> bool:
    """Latent sample mean + exp(log-variance / 2) x draws of heads (mean, log-variance); squared = 1 + its squares."""
    if not usable(heads, draws, out, squared) or not draws.is_contiguous():
        return False
    places, latent = out.shape[1:]
    strides = (*heads.stride()[:2], *out.stride()[:2])
    block, warps = _block(latent, most=1 << 20)
    _kernels().reparametrise[(squared.numel(),)](
        heads, draws, out, squared, places, latent, *strides, BLOCK=block, num_warps=warps
    )
    return True


def latent_delta(slopes: Tensor, heads: Tensor, draws: Tensor, out: Tensor, squared: Tensor) -> bool:
    """Gradient of loss + KL at the heads, from the slopes at the latent sample."""
    if not usable(slopes, heads, draws, out, squared) or not draws.is_contiguous():
        return False
    places, latent = slopes.shape[1:]
    strides = (*slopes.stride()[:2], *heads.stride()[:2], *out.stride()[:2])
    block, warps = _block(latent, most=1 << 20)
    _kernels().latent_delta[(squared.numel(),)](
        slopes, heads, draws, out, squared, places, latent, *strides, BLOCK=block, num_warps=warps
    )
    return True


def bin_norms(squares: Tensor, rows: Tensor, padding: int, edges: Tensor, norms: Tensor, counts: Tensor) -> bool:
    """Norms, not a number where no row is placed; counts of the finite ones by bin are added to `counts`."""
    if not usable(squares, rows, norms, counts) or not squares.is_contiguous():
        return False
    count, bins = squares.numel(), _block(len(edges) + 1, most=1 << 20)[0]
    _kernels().bin_norms[(-(-count // 128),)](
        squares, rows, padding, edges, norms, counts, count, len(edges), EDGES=bins, BLOCK=128, num_warps=4
    )
    return True


def clip_weights(norms: Tensor, bound: Tensor, weights: Tensor, slack: float) -> bool:
    """Set weights = min(bound / slack / norm, 1), 0 where a norm is not finite; `bound` is one number in float64."""
    if not usable(norms, weights) or not norms.is_contiguous():
        return False
    grid = (-(-norms.numel() // 256),)
    _kernels().clip_weights[grid](norms, bound, weights, norms.numel(), SLACK=slack, BLOCK=256, num_warps=4)
    return True


def weigh(narrow: Tensor, wide: Tensor, weights: Tensor, out: Tensor) -> bool:
    """Set out = narrow x weights by rows; where a weight is 0, rows of `out` and `wide` become 0 whatever they held."""
    if not usable(narrow, wide, weights, out) or not weights.is_contiguous():
        return False
    block, warps = _block(narrow.shape[2])
    strides = (*narrow.stride()[:2], *wide.stride()[:2], *out.stride()[:2])
    _kernels().weigh[(weights.numel(),)](
        narrow,
        wide,
        weights,
        out,
        *narrow.shape[1:],
        wide.shape[2],
        *strides,
        BLOCK=max(block, 64),
        num_warps=warps,
    )
    return True


def update_bound(
    histogram: Tensor,
    state: Tensor,
    edges: Tensor,
    *,
    noise: float,
    decay: float,
    quantile: float | None,
    floor: float,
    cap: float,
) -> bool:
    """Do what `AdaptiveNormBound.update` does, on (average, squares, bound) in float64; no quantile means the mode."""
    if not (histogram.is_cuda or _interpreted()) or _kernels() is None:
        return False
    bins = len(histogram)
    _kernels().update_bound[(1,)](
        histogram,
        state,
        edges,
        bins,
        NOISE=noise,
        DECAY=decay,
        QUANTILE=quantile or 0.0,
        MODE=quantile is None,
        FLOOR=floor,
        CAP=cap,
        BINS=_block(bins, most=1 << 20)[0],
        num_warps=1,
    )
    return True


def add_rounded(exact: Tensor, noise: Tensor, sensitivity: Tensor) -> bool:
    """Set exact += sensitivity (one number) x noise in float64, rounded to 2^-20 or 2^-21 of the sensitivity."""
    if not usable(exact) or not exact.is_contiguous():
        return False
    grid = (-(-exact.numel() // STRETCH),)
    _kernels().add_rounded[grid](exact, noise, sensitivity, exact.numel(), BLOCK=STRETCH, num_warps=4)
    return True


def adam(
    parameters: Tensor,
    gradients: Tensor,
    first: Tensor,
    second: Tensor,
    average: Tensor | None,
    scales: Tensor,
    numbers: Tensor,
    *,
    beta1: float,
    beta2: float,
    tiny: float,
) -> bool:
    """One Adam step in place on (k, P) tensors, gradients of model s times scales[s].

    `numbers` holds the rate over 1 - beta1^step, 1 / sqrt(1 - beta2^step), and how far the average moves.
    """
    if not usable(parameters, gradients, first, second, scales, numbers) or not gradients.is_contiguous():
        return False
    models, size = parameters.shape
    _kernels().adam[(-(-size // STRETCH), models)](
        parameters,
        gradients,
        first,
        second,
        parameters if average is None else average,
        scales,
        numbers,
        size,
        BETA1=beta1,
        BETA2=beta2,
        TINY=tiny,
        AVERAGED=average is not None,
        BLOCK=STRETCH,
        num_warps=4,
    )
    return True


def _block(width: int, most: int = LONGEST) -> tuple[int, int]:
    """Columns and warps of a program for rows of that width."""
    block = 1
    while block < min(width, most):
        block *= 2
    return block, (4 if block >= 512 else 1)
