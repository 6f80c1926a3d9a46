"""Training on an accelerator by fused Triton kernels: one launch each instead of many.

Matrices of records are (tiles, places, width), dense in the last axis; `squared` receives squared norms of rows,
(tiles, places), in float64: in float32 squares overflow and vanish long before the numbers do, and a norm that is too
small lets a record exceed its bound. Where the kernels cannot run (not on CUDA, without Triton, in another precision)
plain tensor operations give the same up to rounding; functions that return a bool do nothing then and return False: the
caller has the fallback.
"""

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

SMALLEST = 2.0**-126  # of float32 with all its digits
LONGEST = 1024  # columns per iteration in kernels with one program per row
STRETCH = 1024  # numbers per program in flat kernels
UNCUT = 1 << 20  # column limit of kernels that take a row in one piece


@cache
def _kernels() -> Any:
    from dpgm.kernels import triton_kernels

    return triton_kernels if triton_kernels.HAS_TRITON else None


@cache
def _interpreted() -> bool:
    """Whether Triton's interpreter runs the kernels on the CPU, slowly: for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def usable(*tensors: Tensor) -> bool:
    """Whether kernels can run on these tensors: not empty, float32 if floating-point, dense in the last axis."""
    if not (tensors[0].is_cuda or _interpreted()) or _kernels() is None:
        return False
    return all(
        (not tensor.is_floating_point() or tensor.dtype == torch.float32)
        and (tensor.ndim == 0 or tensor.shape[-1] <= 1 or tensor.stride(-1) == 1)
        and tensor.numel() > 0
        for tensor in tensors
    )


def _by_rows(
    name: str, tensors: Sequence[Tensor], squared: Tensor, width: int, lines: Sequence[Tensor], most: int = LONGEST
) -> bool:
    """Launch a kernel with one program per row; `lines` are the tensors whose strides it needs."""
    if not usable(*tensors):
        return False
    block, warps = _block(width, most)
    strides = [stride for tensor in lines for stride in tensor.stride()[:2]]
    kernel = getattr(_kernels(), name)[(squared.numel(),)]
    kernel(*tensors, squared, squared.shape[1], width, *strides, BLOCK=block, num_warps=warps)
    return True


def gather_rows(source: Tensor, rows: Tensor, out: Tensor, squared: Tensor) -> None:
    """out[t, i] = row rows[t, i] of a matrix of bytes; squared = 1 + its number of ones."""
    if not _by_rows("gather_rows", [source, rows, out], squared, out.shape[2], [out]):
        out.copy_(source.index_select(0, rows.reshape(-1)).view(out.shape))
        squared.copy_(out.sum(-1)).add_(1)


def rectify(values: Tensor, width: int, squared: Tensor) -> None:
    """ReLU in place; squared = 1 + squared norms."""
    if not _by_rows("rectify", [values], squared, width, [values]):
        squared.copy_(row_squares(values.clamp_(min=0))).add_(1)


def gate(slopes: Tensor, values: Tensor, width: int, squared: Tensor) -> None:
    """Zero the slopes in place where values are not above 0; squared = their squared norms."""
    if not _by_rows("gate", [slopes, values], squared, width, [slopes, values]):
        squared.copy_(row_squares(slopes.mul_(values > 0)))


def sigmoid_residual(logits: Tensor, records: Tensor, squared: Tensor) -> bool:
    """Turn logits into sigmoid(logits) - records, in place; squared = squared norms."""
    return _by_rows("residual", [logits, records], squared, logits.shape[2], [logits, records])


def reparametrise(heads: Tensor, draws: Tensor, latent: int, out: Tensor, squared: Tensor) -> None:
    """Latent sample mean + exp(log-variance / 2) x draws of heads (mean, log-variance); squared = 1 + squared norms."""
    if draws.is_contiguous() and _by_rows(
        "reparametrise", [heads, draws, out], squared, latent, [heads, out], UNCUT
    ):
        return
    mean, log_variance = heads.chunk(2, dim=-1)
    torch.addcmul(mean, torch.exp(0.5 * log_variance), draws, out=out)
    squared.copy_(row_squares(out)).add_(1)


def latent_delta(slopes: Tensor, heads: Tensor, draws: Tensor, latent: int, out: Tensor, squared: Tensor) -> None:
    """Gradient of loss + KL divergence at the heads, from the slopes at the latent sample."""
    if draws.is_contiguous() and _by_rows(
        "latent_delta", [slopes, heads, draws, out], squared, latent, [slopes, heads, out], UNCUT
    ):
        return
    mean, log_variance = heads.chunk(2, dim=-1)
    mean_part, variance_part = out.chunk(2, dim=-1)
    spread = torch.exp(0.5 * log_variance)
    torch.add(slopes, mean, out=mean_part)
    variance_part.copy_((slopes * draws * spread + spread.square() - 1) * 0.5)
    squared.copy_(row_squares(out))


def row_squares(values: Tensor) -> Tensor:
    """Squared norms of rows, in float64."""
    return torch.linalg.vector_norm(values, dim=-1, dtype=torch.float64).square_()  # type: ignore[no-any-return]


def bin_norms(squares: Tensor, rows: Tensor, padding: int, edges: Tensor, norms: Tensor, counts: Tensor) -> bool:
    """Norms, NaN at unused places; numbers of finite norms per bin are added to `counts`."""
    if not usable(rows, counts) or not squares.is_contiguous():
        return False
    count, bins = squares.numel(), _block(len(edges) + 1, UNCUT)[0]
    _kernels().bin_norms[(-(-count // 128),)](
        squares, rows, padding, edges, norms, counts, count, len(edges), EDGES=bins, BLOCK=128, num_warps=4
    )
    return True


def clip_weights(norms: Tensor, bound: Tensor, weights: Tensor, slack: float) -> None:
    """Set weights = min(bound / slack / norm, 1), or 0 where a norm is not finite or too large for a weight in float32.

    `bound` and the norms are in float64.
    """
    if usable(weights) and norms.is_contiguous():
        grid = (-(-norms.numel() // 256),)
        _kernels().clip_weights[grid](norms, bound, weights, norms.numel(), SLACK=slack, BLOCK=256, num_warps=4)
        return
    torch.div(bound, norms * slack, out=weights).clamp_(max=1.0)
    weights.masked_fill_(~(torch.isfinite(norms) & (weights >= SMALLEST)), 0.0)


def weigh(narrow: Tensor, wide: Tensor, weights: Tensor, out: Tensor) -> None:
    """Set out = narrow x weights by rows; rows of weight 0 become 0 in `out` and `wide`, also if not finite.

    What float32 cannot hold to its last digit becomes 0, never more than it was.
    """
    if usable(narrow, wide, weights, out) and weights.is_contiguous():
        block, warps = _block(narrow.shape[2])
        strides = (*narrow.stride()[:2], *wide.stride()[:2], *out.stride()[:2])
        sizes = (*narrow.shape[1:], wide.shape[2])
        kernel = _kernels().weigh[(weights.numel(),)]
        kernel(narrow, wide, weights, out, *sizes, *strides, BLOCK=max(block, 64), num_warps=warps)
        return
    nothing = (weights == 0).unsqueeze(-1)
    torch.mul(narrow, weights.to(out.dtype).unsqueeze(-1), out=out)
    out.masked_fill_(nothing | ~(out.abs() >= SMALLEST), 0)
    wide.masked_fill_(nothing, 0)


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
    """`AdaptiveNormBound.update` on the state (average, squares, bound) in float64; no quantile means the mode."""
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
        BINS=_block(bins, UNCUT)[0],
        num_warps=1,
    )
    return True


def add_rounded(exact: Tensor, noise: Tensor, sensitivity: Tensor) -> bool:
    """Add sensitivity (one number) x noise to `exact` in float64, rounded to 2^-20 or 2^-21 of the sensitivity."""
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
    """One Adam step in place on (k, P) tensors; gradients of model s are multiplied by scales[s].

    `numbers` are the rate over 1 - beta1^step, 1 / sqrt(1 - beta2^step), and the weight of the step in the average.
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
    """Columns per iteration and warps of a program for rows of that width."""
    block = 1
    while block < min(width, most):
        block *= 2
    return block, (4 if block >= 512 else 1)
