"""Normals from random words, added to a vector in one pass: `out = round(out + std * normal)` to a grid.

Box and Muller's method, two words for two normals. The first gives the radius, sqrt(-2 log u), from a uniform u of
63 bits, so the tails are right up to 9.4 standard deviations. The second gives a point on the quarter circle (52
bits) and two signs. No word is rejected and nothing branches, so numba, where it is installed, turns the loop into
vector instructions; else numpy computes the same from the same words, to rounding. The functions are Chebyshev
polynomials with an error below 2^-45 of a radius. That is less than a millionth of a step of the grid that sums are
rounded to, and smooth, so that it changes the law by as little and leaves no holes.
"""

import math
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.compute.compiled import wide_vectors
from dpgm.mechanisms.counter_generators import Words
from dpgm.mechanisms.randomness import Randomness

CHUNK = 1 << 16  # words at a time: they stay in the cache between the cipher and the kernel
BELOW_ONE = 1 - 2.0**-53  # so that no radius is zero
LARGEST = 2.0**63 * BELOW_ONE


def add_normals(out: NDArray[Any], std: float, grid: float, randomness: Randomness) -> bool:
    """Add N(0, std²) to a flat float32 or float64 array, in place, and round to `grid`, a power of two.

    Returns whether all of the noisy values are finite.
    """
    # Adding and subtracting 1.5 x 2^52 grid steps rounds a double to the grid.
    rounder = 1.5 * 2.0**52 * grid
    add_pairs = _compiled() or _add_pairs_in_numpy
    spoiled = 0
    for start in range(0, len(out), CHUNK):
        part = out[start : start + CHUNK]
        half = (len(part) + 1) // 2
        words = _workspace.words[: 2 * half]
        randomness.fill(words)
        if len(part) % 2:  # the last normal has no partner
            spare = np.zeros(1, dtype=out.dtype)
            spoiled += add_pairs(words[half - 1 : half], words[-1:], part[half - 1 : half], spare, std, rounder)
        pairs = len(part) // 2
        spoiled += add_pairs(words[:pairs], words[half : half + pairs], part[:pairs], part[half:], std, rounder)
    return spoiled == 0


class _Workspace(threading.local):
    """A thread's words, so that nothing is allocated from the second call on."""

    def __init__(self) -> None:
        self.words = np.empty(CHUNK, dtype=np.uint64)


_workspace = _Workspace()


def _add_pairs(
    radii: Words, angles: Words, first: NDArray[Any], second: NDArray[Any], std: float, rounder: float
) -> int:
    """Two normals of every pair of words, added to `first` and `second`; returns how many pairs are not finite then."""
    magnitude, sign = np.uint64(0x000FFFFFFFFFFFFF), np.uint64(1 << 63)
    one, powers = np.uint64(0x3FF << 52), np.uint64(0xFFF << 52)  # the bits of 1.0 and of every exponent
    root = np.uint64(0x3FE6A09E667F3BCD + (63 << 52))  # the bits of 2^63 x sqrt(1/2)
    wide_vectors()
    for i in range(len(second)):
        # The uniform x 2^63, which saves scaling it.
        uniform = float(np.int64(radii[i] >> np.uint64(1))) + 0.5
        uniform = uniform if uniform < LARGEST else LARGEST
        # uniform = 2^exponent x part, part / 2^63 in [sqrt(1/2), sqrt(2)); the logarithm of that is f x a polynomial of
        # f = part / 2^63 - 1, its even and odd terms apart so that neither waits for the other: relative error 2^-45.
        bits = np.float64(uniform).view(np.uint64)
        exponent = np.uint64(bits - root) & powers  # x 2^52, signed
        f = np.uint64(bits - exponent).view(np.float64) * 2.0**-63 - 1.0
        z = f * f
        even = 0.11110667407062838 + z * (
            0.091026777139586 + z * (0.07525682174652285 + z * (0.07808645964311096 + z * 0.03550255209682033))
        )
        even = 0.9999999999999978 + z * (
            0.3333333333366278 + z * (0.19999999913523026 + z * (0.14285723158995764 + z * even))
        )
        odd = -0.1000239910190662 + z * (
            -0.0830874085245487 + z * (-0.07175470440668202 + z * -0.07434589714878563)
        )
        odd = -0.5000000000005124 + z * (
            -0.24999999980097665 + z * (-0.16666668870064102 + z * (-0.12499895335731784 + z * odd))
        )
        # Without the root of 2, which the quarter circle's middle brings: sin and cos of (pi/4 + y) are
        # (cos y +- sin y) / sqrt(2).
        minus_log = float(np.int64(exponent)) * (-0.6931471805599453 * 2.0**-52) - f * (even + f * odd)
        radius = std * math.sqrt(minus_log)
        # y in (-pi/4, pi/4); error of sine and cosine 2^-45.
        word = angles[i]
        y = np.uint64(((word >> np.uint64(10)) & magnitude) | one).view(np.float64) - (1.5 - 2.0**-53)
        y *= math.pi / 2
        z = y * y
        sine = -0.00019841266916985966 + z * (2.755599092956532e-06 + z * -2.4805636241834762e-08)
        sine = y + y * z * (-0.16666666666663885 + z * (0.008333333331079223 + z * sine))
        cosine = 2.4801585210990515e-05 + z * (-2.7556369695573007e-07 + z * 2.0700600483433117e-09)
        cosine = 0.04166666666666468 + z * (-0.0013888888887277342 + z * cosine)
        cosine = 1.0 + z * (-0.5 + z * cosine)
        up = np.float64(cosine + sine).view(np.uint64) ^ (word & sign)
        across = np.float64(cosine - sine).view(np.uint64) ^ ((word << np.uint64(1)) & sign)
        first[i] = (first[i] + radius * np.uint64(up).view(np.float64) + rounder) - rounder
        second[i] = (second[i] + radius * np.uint64(across).view(np.float64) + rounder) - rounder
    # In a loop of its own: a count would make the compiler unroll the one above beyond the registers.
    spoiled = 0
    for i in range(len(second)):
        spoiled += (first[i] - first[i] != 0) | (second[i] - second[i] != 0)
    return spoiled


def _add_pairs_in_numpy(
    radii: Words, angles: Words, first: NDArray[Any], second: NDArray[Any], std: float, rounder: float
) -> int:
    """The same in whole arrays."""
    uniform = np.minimum(((radii >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-63, BELOW_ONE)
    radius = std * np.sqrt(-2 * np.log(uniform))
    quarter = ((angles >> np.uint64(10)) & np.uint64(2**52 - 1)).astype(np.float64)
    quarter = (quarter + 0.5) * (math.pi / 2 * 2.0**-52)
    up, across = radius * np.sin(quarter), radius * np.cos(quarter)
    up[angles >> np.uint64(63) == 1] *= -1
    across[(angles >> np.uint64(62)) & np.uint64(1) == 1] *= -1
    first[:] = (first + up + rounder) - rounder
    second[:] = (second + across + rounder) - rounder
    return int((~np.isfinite(first) | ~np.isfinite(second)).sum())


@cache
def _compiled() -> Callable[..., int] | None:
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
