"""Normals from random words, added to a vector in one pass: `out = round(out + std * normal)` to a grid.

Box and Muller's method, 96 bits for two normals. A word of 64 gives the radius, sqrt(-2 log u), from a uniform u of
63 bits, so the tails are right up to 9.4 standard deviations. Half a word gives a point on the quarter circle (30
bits) and two signs: 2^32 directions, which is enough for a grid of 2^-13 standard deviations or more (see gaussian.py).
Nothing is rejected and nothing branches, so numba, where it is installed, turns the loop into vector instructions;
else numpy computes the same from the same words, to rounding. A fit of the paper's
preset (5,000 call records) takes 14 CPU seconds with the compiled loop and 120 without.
"""

import math
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dpgm.mechanisms.randomness import Randomness, RandomWords, WordFiller

NORMALS_AT_ONCE = 1 << 16  # normals at a time: their words stay in the cache between the cipher and the kernel
BELOW_ONE = 1 - 2.0**-53  # so that no radius is zero
LARGEST_UNIFORM = 2.0**63 * BELOW_ONE
DRAW_GRID = 2.0**-24  # what draws of records are rounded to: the precision of float32 at 1
_LIMITS = {np.dtype(kind): float(np.finfo(kind).max) for kind in (np.float32, np.float64)}
HalfWords: TypeAlias = NDArray[np.uint32]


def add_normals(out: NDArray[Any], std: float, grid: float, randomness: WordFiller) -> bool:
    """Add N(0, std²) to a flat float32 or float64 array, in place, and round to `grid`, a power of two.

    Returns whether all of the noisy values are finite.
    """
    # Adding and subtracting 1.5 x 2^52 grid steps rounds a double to the grid.
    rounder = 1.5 * 2.0**52 * grid
    limit = _LIMITS[out.dtype]
    add_pairs = _compiled() or _add_pairs_in_numpy
    finite = True
    for start in range(0, len(out), NORMALS_AT_ONCE):
        part = out[start : start + NORMALS_AT_ONCE]
        half = (len(part) + 1) // 2
        words = _workspace.words[: half + (half + 1) // 2]
        randomness.fill(words)
        radii, angles = words[:half], words[half:].view(np.uint32)
        pairs = len(part) // 2
        finite &= add_pairs(radii[:pairs], angles[:pairs], part[:pairs], part[half:], std, rounder, limit)
        if pairs < half:  # the last normal has no partner
            spare = np.zeros(1, dtype=out.dtype)
            finite &= add_pairs(radii[pairs:], angles[pairs:half], part[pairs:half], spare, std, rounder, limit)
    return finite


class _Workspace(threading.local):
    """A thread's words, so that nothing is allocated from the second call on."""

    def __init__(self) -> None:
        self.words = np.empty(3 * NORMALS_AT_ONCE // 4, dtype=np.uint64)


_workspace = _Workspace()


def _add_pairs(
    radii: RandomWords,
    angles: HalfWords,
    first: NDArray[Any],
    second: NDArray[Any],
    std: float,
    rounder: float,
    limit: float,
) -> bool:
    """Two normals of every pair of words, added to `first` and `second`; returns whether all sums are below `limit`."""
    magnitude, sign = np.uint64(0x000FFFFFFFFFFFFF), np.uint64(1 << 63)
    one, powers = np.uint64(0x3FF << 52), np.uint64(0xFFF << 52)  # the bits of 1.0 and of every exponent
    root = np.uint64(0x3FE6A09E667F3BCD + (63 << 52))  # the bits of 2^63 x sqrt(1/2)
    spoiled = False
    for i in range(len(second)):
        # The uniform x 2^63, which saves scaling it.
        uniform = float(np.int64(radii[i] >> np.uint64(1))) + 0.5
        uniform = uniform if uniform < LARGEST_UNIFORM else LARGEST_UNIFORM
        # uniform = 2^exponent x part, part / 2^63 in [sqrt(1/2), sqrt(2)); the logarithm of that by the odd series
        # of s, with the coefficients of fdlibm: relative error 2^-58.
        bits = np.float64(uniform).view(np.uint64)
        exponent = np.uint64(bits - root) & powers  # x 2^52, signed
        part = np.uint64(bits - exponent).view(np.float64)
        s = (part - 2.0**63) / (part + 2.0**63)
        z = s * s
        series = 2.222219843214978396e-1 + z * (
            1.818357216161805012e-1 + z * (1.531383769920937332e-1 + z * 1.479819860511658591e-1)
        )
        series = 6.666666666666735130e-1 + z * (
            3.999999999940941908e-1 + z * (2.857142874366239149e-1 + z * series)
        )
        # Without the root of 2, which the quarter circle's middle brings: sin and cos of (pi/4 + y) are
        # (cos y +- sin y) / sqrt(2).
        minus_log = float(np.int64(exponent)) * (-0.6931471805599453 * 2.0**-52) - s * (2.0 + z * series)
        radius = std * math.sqrt(minus_log)
        # y in (-pi/4, pi/4); sine and cosine of fdlibm, relative error 2^-57.
        word = np.uint64(angles[i])
        y = np.uint64(((word << np.uint64(22)) & magnitude) | one).view(np.float64) - (1.5 - 2.0**-31)
        y *= math.pi / 2
        z = y * y
        sine = -1.98412698298579493134e-4 + z * (
            2.75573137070700676789e-6 + z * (-2.50507602534068634195e-8 + z * 1.58969099521155010221e-10)
        )
        sine = y + y * z * (-1.66666666666666324348e-1 + z * (8.33333333332248946124e-3 + z * sine))
        cosine = 2.48015872894767294178e-5 + z * (
            -2.75573143513906633035e-7 + z * (2.08757232129817482790e-9 - z * 1.13596475577881948265e-11)
        )
        cosine = 4.16666666666666019037e-2 + z * (-1.38888888888741095749e-3 + z * cosine)
        cosine = 1.0 + z * (-0.5 + z * cosine)
        up = np.float64(cosine + sine).view(np.uint64) ^ ((word << np.uint64(32)) & sign)
        across = np.float64(cosine - sine).view(np.uint64) ^ ((word << np.uint64(33)) & sign)
        one_sum = (first[i] + radius * np.uint64(up).view(np.float64) + rounder) - rounder
        other_sum = (second[i] + radius * np.uint64(across).view(np.float64) + rounder) - rounder
        first[i] = one_sum
        second[i] = other_sum
        spoiled |= not (abs(one_sum) <= limit and abs(other_sum) <= limit)
    return not spoiled


def _add_pairs_in_numpy(
    radii: RandomWords,
    angles: HalfWords,
    first: NDArray[Any],
    second: NDArray[Any],
    std: float,
    rounder: float,
    limit: float,
) -> bool:
    """The same in whole arrays."""
    uniform = np.minimum(((radii >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-63, BELOW_ONE)
    radius = std * np.sqrt(-2 * np.log(uniform))
    quarter = ((angles & np.uint32(2**30 - 1)).astype(np.float64) + 0.5) * (math.pi / 2 * 2.0**-30)
    up, across = radius * np.sin(quarter), radius * np.cos(quarter)
    up[angles >> np.uint32(31) == 1] *= -1
    across[(angles >> np.uint32(30)) & np.uint32(1) == 1] *= -1
    spoiled = False
    for values, normals in ((first, up), (second, across)):
        sums = (values + normals + rounder) - rounder
        spoiled |= not bool((np.abs(sums) <= limit).all())
        values[:] = sums
    return not spoiled


@cache
def _compiled() -> Callable[..., bool] | None:
    """The kernel, from numba's cache on disk after the first time; None without numba."""
    try:
        from numba import njit
    except ImportError:
        return None
    # Contracting a x b + c to one rounding is all that may change: the rounding to the grid must stay as written.
    options: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}, "nogil": True}
    try:
        return njit(cache=True, **options)(_add_pairs)  # type: ignore[no-any-return]
    except RuntimeError:  # no folder to cache in
        return njit(**options)(_add_pairs)  # type: ignore[no-any-return]


def fill_with_normals(out: Tensor, randomness: Randomness) -> None:
    """Independent standard normals into a contiguous tensor of floats, on the CPU or an accelerator.

    The secret draws of records inside a query, from entropy that is never stored. They are part of the mechanism:
    independent from record to record, unknown to everybody, drawn afresh whenever a sample is looked at, after a crash
    as well. Words and generator are apart from those of the noise, and every rank has its own.
    """
    if out.device.type == "cpu":
        add_normals(out.zero_().view(-1).numpy(), 1.0, DRAW_GRID, randomness.record_words())
    else:
        out.normal_(generator=randomness.record_generator(out.device))
