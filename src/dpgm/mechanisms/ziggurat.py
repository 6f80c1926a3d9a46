"""Normals from random words, added to a vector in one pass: `out = round(out + std * normal)` to a grid.

The ziggurat of Marsaglia and Tsang with 256 layers. A 64-bit word gives the layer (8 bits) and a signed uniform
of 54 bits; 98.5 % of the words settle a normal at once. The others wait in a list and are settled, exactly as the
method says, with further words: the wedge by comparison with the density, the tail beyond 3.65 by Marsaglia's
method, which reaches 13.8 standard deviations. Compiled by numba where it is installed; else Box and Muller in
numpy, which reaches 8.6.
"""

import math
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.mechanisms.counter_generators import Words
from dpgm.mechanisms.randomness import Randomness

LAYERS = 256
CHUNK = 1 << 15  # words at a time: they stay in the cache between the cipher and the kernel


def add_normals(out: NDArray[Any], std: float, grid: float, randomness: Randomness) -> None:
    """Add N(0, std²) to a flat float32 or float64 array, in place, and round to `grid`, a power of two."""
    # Adding and subtracting 1.5 x 2^52 grid steps rounds a double to the grid.
    rounder = 1.5 * 2.0**52 * grid
    kernels = _compiled()
    if kernels is None:
        _add_box_muller(out, std, rounder, randomness)
    else:
        _add_ziggurat(out, std, rounder, randomness, *kernels)


class _Workspace(threading.local):
    """Buffers of a thread, so that nothing is allocated from the second call on."""

    def __init__(self) -> None:
        self.words = np.empty(CHUNK, dtype=np.uint64)
        self.index = np.empty(2 * CHUNK, dtype=np.int64)
        self.waiting = np.empty(2 * CHUNK, dtype=np.int64)


_workspace = _Workspace()


def _add_ziggurat(
    out: NDArray[Any],
    std: float,
    rounder: float,
    randomness: Randomness,
    scan: Callable[..., int],
    settle: Callable[..., int],
) -> None:
    words, index, waiting = _workspace.words, _workspace.index, _workspace.waiting
    layers = _tables()
    pending = 0
    for start in range(0, len(out), CHUNK):
        part = out[start : start + CHUNK]
        fresh = words[: len(part)]
        randomness.fill(fresh)
        pending = scan(fresh.view(np.int64), part, start, std, rounder, *layers, index, waiting, pending)
        # Until another chunk might not fit in the list, or this was the last.
        while pending > CHUNK or (pending and start + CHUNK >= len(out)):
            rest = pending % (CHUNK // 2) or CHUNK // 2  # from the end of the list, two words each
            fresh = words[: 2 * rest]
            randomness.fill(fresh)
            first = pending - rest
            kept = settle(
                fresh.view(np.int64), out, std, rounder, *layers, index[first:pending], waiting[first:pending]
            )
            pending = first + kept


def _scan(
    words: NDArray[np.int64],
    out: NDArray[Any],
    start: int,
    std: float,
    rounder: float,
    edges: NDArray[np.float64],
    heights: NDArray[np.float64],
    widths: NDArray[np.float64],
    quick: NDArray[np.float64],
    index: NDArray[np.int64],
    waiting: NDArray[np.int64],
    pending: int,
) -> int:
    """One word an entry; entries that it does not settle join the list."""
    for i in range(len(words)):
        word = words[i]
        layer = word & 255
        uniform = float(word >> 10) + 0.5  # x 2^-53, signed
        if abs(uniform) < quick[layer]:
            out[i] = (out[i] + std * (uniform * widths[layer]) + rounder) - rounder
        else:
            index[pending] = start + i
            waiting[pending] = word
            pending += 1
    return pending


def _settle(
    words: NDArray[np.int64],
    out: NDArray[Any],
    std: float,
    rounder: float,
    edges: NDArray[np.float64],
    heights: NDArray[np.float64],
    widths: NDArray[np.float64],
    quick: NDArray[np.float64],
    index: NDArray[np.int64],
    waiting: NDArray[np.int64],
) -> int:
    """Two fresh words for every waiting entry; returns how many still wait, at the head of the list."""
    kept = 0
    for j in range(len(index)):
        word = waiting[j]
        layer = word & 255
        first = (float((words[2 * j] >> 11) & 0x1FFFFFFFFFFFFF) + 0.5) * 2.0**-53
        normal = (float(word >> 10) + 0.5) * widths[layer]
        settled = False
        if layer == 0:
            second = (float((words[2 * j + 1] >> 11) & 0x1FFFFFFFFFFFFF) + 0.5) * 2.0**-53
            beyond = -math.log(first) / edges[1]
            if -2.0 * math.log(second) > beyond * beyond:
                settled = True
                normal = edges[1] + beyond if word >= 0 else -edges[1] - beyond
        elif heights[layer] + first * (heights[layer + 1] - heights[layer]) < math.exp(-0.5 * normal * normal):
            settled = True
        else:  # rejected: start again with the second word
            word = words[2 * j + 1]
            layer = word & 255
            uniform = float(word >> 10) + 0.5
            if abs(uniform) < quick[layer]:
                settled = True
                normal = uniform * widths[layer]
        if settled:
            i = index[j]
            out[i] = (out[i] + std * normal + rounder) - rounder
        else:
            index[kept] = index[j]
            waiting[kept] = word
            kept += 1
    return kept


def _add_box_muller(out: NDArray[Any], std: float, rounder: float, randomness: Randomness) -> None:
    for start in range(0, len(out), CHUNK):
        part = out[start : start + CHUNK]
        words = randomness.words(2 * ((len(part) + 1) // 2))
        normals = _box_muller(words)[: len(part)]
        part[:] = (part + std * normals + rounder) - rounder


def _box_muller(words: Words) -> NDArray[np.float64]:
    radius, angle = (((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53).reshape(2, -1)
    radius = np.sqrt(-2 * np.log(radius))
    angle *= 2 * np.pi
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])


@cache
def _tables() -> tuple[NDArray[np.float64], ...]:
    """Edges x_0 > r = x_1 > ... > x_256 = 0 of layers of equal area, their heights, and what the scan needs."""
    low, high = 3.0, 4.0
    for _ in range(100):
        tail = (low + high) / 2
        edges = _edges(tail)
        if edges is None:
            low = tail
        else:
            high = tail
    edges = _edges(high)
    assert edges is not None
    heights = np.exp(-0.5 * edges * edges)
    return edges, heights, edges[:-1] * 2.0**-53, edges[1:] / edges[:-1] * 2.0**53


def _edges(tail: float) -> NDArray[np.float64] | None:
    """The layers' edges for a tail that starts there; None if they would rise above the density's top."""
    height = math.exp(-0.5 * tail * tail)
    area = tail * height + math.sqrt(math.pi / 2) * math.erfc(tail / math.sqrt(2))
    edges = [area / height, tail]
    while len(edges) < LAYERS:
        height = math.exp(-0.5 * edges[-1] ** 2) + area / edges[-1]
        if height >= 1:
            return None
        edges.append(math.sqrt(-2 * math.log(height)))
    if math.exp(-0.5 * edges[-1] ** 2) + area / edges[-1] > 1:
        return None
    return np.array([*edges, 0.0])


@cache
def _compiled() -> tuple[Callable[..., int], Callable[..., int]] | None:
    """The two kernels, from numba's cache on disk after the first time; None without numba."""
    try:
        from numba import njit
    except ImportError:
        return None
    try:
        return njit(cache=True)(_scan), njit(cache=True)(_settle)
    except RuntimeError:  # no folder to cache in
        return njit(_scan), njit(_settle)
