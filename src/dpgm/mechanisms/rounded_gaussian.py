"""Integer noise: round(N(0, std²)), sampled exactly.

Why rounded and not discrete: adding round(noise) to an integer is rounding (integer + noise), so the release is a
post-processing of the continuous Gaussian mechanism. Every total computed for that one, PLD included, covers
exactly what is drawn here. The discrete Gaussian has no such relation: its Renyi cost is bounded by the continuous
one's, its PLD is not (docs/privacy-proof.md 8). Both give exact integers without floating-point gaps.

How: inverse distribution function with a uniform of unlimited precision, of which only as many bits are drawn as
the answer needs. A 64-bit word is a sign and 63 bits of the tail probability p, so p lies in [k, k + 1) / 2^64. In
doubles, std * |Q^-1(p)| is known up to a margin that covers the width of that interval and a generous multiple of
the rounding error; if no half-integer lies within the margin, rounding settles the value. Else (about once in 10^7
times std) more bits are drawn and p is compared with the tail probability of the half-integer in decimal
arithmetic of growing precision, until the two are apart.
"""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray

from dpgm.errors import UsageError
from dpgm.mechanisms.randomness import Randomness

LARGEST_STD = 2.0**45  # beyond it doubles settle too little; nobody needs a grid that fine
QUANTILE_MARGIN = 1e-13  # relative; the error of ndtri in doubles is below 1e-15
_SIDE = np.uint64(2**63)
_DEEP = np.uint64(2**20)  # p below 2^-44: the interval is wide against p, let the slow path settle it
_CHUNK = 1 << 15  # temporaries stay in the cache
_FAR = 60  # Q(60) < 2^-2000


def rounded_gaussian(
    count: int, std: float, randomness: Randomness, *, margin: float = QUANTILE_MARGIN
) -> NDArray[np.int64]:
    """`count` independent values of round(N(0, std²)); a larger `margin` sends more of them the slow way."""
    if not 0 < std <= LARGEST_STD:
        raise UsageError(f"noise of {std:.3g} grid steps cannot be drawn exactly; use a coarser grid.")
    values = np.empty(count, dtype=np.int64)
    for start in range(0, count, _CHUNK):
        part = values[start : start + _CHUNK]
        words = randomness.words(len(part))
        part[:], unsettled = settle_in_doubles(words, std, margin)
        for index in np.flatnonzero(unsettled):
            part[index] = settle_exactly(int(words[index]), std, lambda: int(randomness.words(1)[0]))
    return values


def settle_in_doubles(
    words: NDArray[np.uint64], std: float, margin: float
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Values of the words, and which of them doubles cannot settle."""
    bits = words & ~_SIDE
    tail = bits.astype(np.float64) + 0.5
    size = -std * torch.special.ndtri(torch.from_numpy(tail * 2.0**-64)).numpy()
    # The interval's half width is std 2^-65 / density(normal), and p / density(normal) < 1.26 (Mills).
    reach = (size + std) * margin + 1.3 * std / tail
    nearest = np.rint(size)
    # From a reach of 1/2 on nothing is settled: no value is further than that from a half-integer.
    unsettled = (np.abs(np.abs(size - nearest) - 0.5) <= reach) | (bits < _DEEP)
    values = nearest.astype(np.int64)
    return np.where(words & _SIDE, -values, values), unsettled


def settle_exactly(word: int, std: float, more: Callable[[], int]) -> int:
    """The value of a word, drawing further 64-bit words with `more` as far as needed."""
    sign, bits, known = (-1 if word >> 63 else 1), word & (2**63 - 1), 64  # p in [bits, bits + 1) / 2^known
    scale = Fraction(std)
    while True:
        while bits < 2**53:  # enough leading bits for a first guess
            bits, known = (bits << 64) | more(), known + 64
        guess = max(0, round(std * -NormalDist().inv_cdf(min(bits / 2**known, 0.5))))
        value = _compare(bits, known, guess, scale)
        if value is not None:
            return sign * value
        bits, known = (bits << 64) | more(), known + 64


def _compare(bits: int, known: int, value: int, scale: Fraction) -> int | None:
    """The integer whose cell holds all of [bits, bits + 1) / 2^known, searched from `value`; None if none does."""
    while True:
        below, above = _tail(Fraction(2 * value + 1, 2) / scale, known)  # p under this: the value is larger
        if bits + 1 <= below:
            value += 1
        elif bits < above:
            return None
        elif value == 0:
            return value
        else:
            below, above = _tail(Fraction(2 * value - 1, 2) / scale, known)
            if bits + 1 <= below:
                return value
            if bits < above:
                return None
            value -= 1


def _tail(at: Fraction, known: int) -> tuple[Fraction, Fraction]:
    """Bounds of Q(at) x 2^known, less than 2^-20 apart: Q = 1/2 - density x (at + at³/3 + at⁵/(3 5) + ...)."""
    if at > _FAR:
        return Fraction(0), Fraction(2) ** (known - 2000)
    digits = math.ceil((known + 40) * math.log10(2)) + 8
    with localcontext() as context:
        context.prec = digits
        x = Decimal(at.numerator) / Decimal(at.denominator)
        square, term, total, terms = x * x, x, x, 1
        while term > total.scaleb(-digits) or 2 * terms < square:
            terms += 1
            term = term * square / (2 * terms - 1)
            total += term
        density = (-square / 2).exp() / (2 * _pi(digits)).sqrt()
        # All terms are positive, so rounding costs a few units in the last place a term, of a total below 1/2.
        error = Decimal(10 * terms + 200 + int(square)).scaleb(-digits)
        middle = Fraction(Decimal("0.5") - density * total)
        return (middle - Fraction(error)) * 2**known, (middle + Fraction(error)) * 2**known


@lru_cache(maxsize=64)
def _pi(digits: int) -> Decimal:
    """Machin: pi = 16 atan(1/5) - 4 atan(1/239)."""
    unit = 10 ** (digits + 10)

    def atan_inverse(n: int) -> int:
        power: int = unit // n
        total, k = power, 1
        while power:
            power //= -n * n
            k += 2
            total += power // k
        return total

    with localcontext() as context:
        context.prec = digits + 10
        return Decimal(16 * atan_inverse(5) - 4 * atan_inverse(239)).scaleb(-(digits + 10))
