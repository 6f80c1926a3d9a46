"""Publishing values that nobody listed: noisy sums over a private vocabulary; only what passes a threshold leaves.

A record with n distinct values (n <= cap; of more, `cap` are drawn by a fresh secret order) adds 1/sqrt(n) to the
sum of each, so one record moves all sums together by at most 1. Every sum gets Gaussian noise of standard deviation
`noise`, and the values whose noisy sum reaches the threshold are published, with these sums. Which sums exist
depends on the rows: the sum of a value that only one record holds appears only if that record is present. A value that
no record adds to, because long records left it out, has no sum and gets no noise: among many such values noise alone
would pass any threshold. So one record brings at most `cap` sums of its own, and the threshold is so high that the
probability that any of them passes is at most `delta`:

    threshold >= max over n <= cap of  1/sqrt(n) + noise x Phi^-1((1 - delta)^(1/n))

If a person has K rows, at most K x cap values are the person's alone, and none has a sum above K:

    threshold >= K + noise x Phi^-1((1 - delta)^(1 / (K cap))),  with noise K times that for one row

Cost: the Gaussian mechanism of sensitivity 1 and multiplier `noise`, and delta / (1 - delta) added to the total delta
(docs/privacy-proof.md, "Values that nobody listed").
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Label
from dpgm.errors import ArtefactError, DpgmError
from dpgm.kernels import parallel
from dpgm.mechanisms.query import Query, View
from dpgm.mechanisms.randomness import Randomness
from dpgm.mechanisms.rounded_gaussian import rounded_gaussian

STEP = 1 / 1024  # contributions are whole multiples of it, rounded down; noise and sums are integer and exact
LARGEST_ANSWER = 1 << 28  # bytes of a published list
USUAL_ANSWER = 1 << 20  # bytes set aside for one beforehand: public, unlike the number of sums
_PASSED_AT_ONCE = 1 << 20  # sums

# The field a value belongs to, and the value: a label, or the exact number of an atom.
Value: TypeAlias = tuple[str, Label | float]


class Held(Protocol):
    """Who holds what of a private vocabulary."""

    def sums(self, cap: int, randomness: Randomness) -> tuple[Sequence[Value], Tensor]:
        """The vocabulary, and the exact sums of its values in steps; a record adds to `cap` of its values at most."""
        ...


@dataclass(frozen=True)
class Holdings:
    """Who holds what, in private codes: the codes of record i are `codes[indptr[i]:indptr[i + 1]]`, all distinct."""

    indptr: NDArray[np.int64]
    codes: NDArray[np.int64]
    vocabulary: Sequence[Value]

    def sums(self, cap: int, randomness: Randomness) -> tuple[Sequence[Value], Tensor]:
        """See `Held`."""
        codes, weights = weighted(self.indptr, self.codes, cap, randomness)
        # whole numbers far below 2^53: the floating-point sums are exact
        total = np.bincount(codes, weights, minlength=len(self.vocabulary)).astype(np.int64)
        return self.vocabulary, torch.from_numpy(total)


@dataclass(frozen=True)
class Discovered:
    """What passed: values in their natural order, and the noisy sum of each."""

    values: tuple[Value, ...]
    sums: tuple[float, ...]

    def of(self, field: str) -> tuple[Label | float, ...]:
        """The values of one field."""
        return tuple(value for name, value in self.values if name == field)


@dataclass(frozen=True)
class ThresholdQuery(Query):
    """A sum over a private vocabulary, the threshold that values must pass, and the delta that it keeps.

    Made by `threshold_query`, which derives the threshold from delta, noise and cap: nobody retypes it.
    """

    holdings: Callable[[View], Held] = lambda view: _nothing()
    delta: float = 0.0
    cap: int = 1
    rows: int = 1
    threshold: float = math.inf

    def sums(self, view: View, randomness: Randomness) -> tuple[Sequence[Value], Tensor]:
        """The private vocabulary, and the exact sums of its values, in steps."""
        return self.holdings(view).sums(self.cap, randomness)

    def sums_of_all(self, view: View, randomness: Randomness) -> tuple[Sequence[Value], Tensor]:
        """The private vocabulary of all processes, each value once, and its exact sums over all of their rows.

        A row is in one process, which draws the secret order of a long one, so that a record adds what it adds to the
        sums of a single process.
        """
        mine, sums = self.sums(view, randomness)
        if not parallel.is_parallel():
            return mine, sums
        lists = parallel.bytes_of_all(json.dumps([list(value) for value in mine]).encode())
        values = ((str(name), _plain(label)) for part in lists for name, label in json.loads(part))
        place = {value: at for at, value in enumerate(dict.fromkeys(values))}
        total = torch.zeros(len(place), dtype=torch.int64)
        total.index_add_(0, torch.tensor([place[value] for value in mine], dtype=torch.int64), sums)
        return list(place), parallel.all_sum(total)

    def fits(self, value: Tensor) -> bool:
        """Whether a recorded value can be an answer to this question."""
        return value.dtype == torch.uint8 and value.ndim == 1


def threshold_query(
    holdings: Callable[[View], Held], *, noise: float, delta: float, cap: int, rows: int = 1
) -> ThresholdQuery:
    """The question which values many records hold, with the threshold that keeps delta.

    Args:
        holdings: who holds what.
        noise: standard deviation of the noise of every sum.
        delta: the probability that a value which one person alone holds is published.
        cap: values that a record adds at most.
        rows: records that a person has at most.
    """
    return ThresholdQuery(
        compute=_refuse,
        sensitivity=1.0,
        shape=(),
        grid=STEP,
        holdings=holdings,
        delta=delta,
        cap=cap,
        rows=rows,
        threshold=threshold_for(noise, delta, cap, rows),
    )


def threshold_for(noise: float, delta: float, cap: int, rows: int = 1) -> float:
    """The least multiple of the step that no value of one person alone reaches but with probability delta.

    >>> threshold_for(10.0, 1e-7, 1)
    52.99609375
    """
    if not noise > 0 or not 0 < delta < 1 or cap < 1 or rows < 1:
        raise DpgmError("a threshold needs noise above 0, a delta between 0 and 1 and a cap of at least 1.")
    sizes = np.arange(1, cap + 1, dtype=np.float64) if rows == 1 else np.array([float(rows) * cap])
    sums = 1 / np.sqrt(sizes) if rows == 1 else float(rows)
    # Phi^-1((1 - delta)^(1/n)) = -Phi^-1(1 - (1 - delta)^(1/n)), on the side where doubles keep their digits
    tails = -np.expm1(math.log1p(-delta) / sizes)
    quantiles = -torch.special.ndtri(torch.from_numpy(tails)).numpy()
    needed = float(np.max(sums + noise * quantiles)) * (1 + 1e-12)
    # Two steps up: one for rounding noise to integers, one for floating point.
    return (math.ceil(needed / STEP) + 2) * STEP


def contributions(cap: int) -> NDArray[np.int64]:
    """What a record of n = 0 .. `cap` values adds to each, in steps: 1/sqrt(n), rounded down."""
    sizes = np.maximum(np.arange(cap + 1, dtype=np.int64), 1)
    units = round(1 / STEP) ** 2
    steps = np.array([math.isqrt(units // int(n)) for n in sizes], dtype=np.int64)
    steps[0] = 0
    return steps


def weighted(
    indptr: NDArray[np.int64], codes: NDArray[np.int64], cap: int, randomness: Randomness
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The codes that records add to, at most `cap` of each, and what each adds in steps."""
    indptr, codes = capped(indptr, codes, cap, randomness)
    lengths = np.diff(indptr)
    return codes, np.repeat(contributions(cap)[lengths], lengths).astype(np.float64)


def capped(
    indptr: NDArray[np.int64], codes: NDArray[np.int64], cap: int, randomness: Randomness
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """At most `cap` codes of every record; of more, the first by a fresh secret order."""
    lengths = np.diff(indptr)
    long = np.flatnonzero(lengths > cap)
    if not len(long):
        return indptr, codes
    keep = np.ones(len(codes), dtype=np.bool_)
    for row in long.tolist():
        start, stop = int(indptr[row]), int(indptr[row + 1])
        order = np.argsort(randomness.words(stop - start), kind="stable")
        keep[start + order[cap:]] = False
    shorter = np.zeros(len(indptr), dtype=np.int64)
    np.cumsum(np.minimum(lengths, cap), out=shorter[1:])
    return shorter, codes[keep]


def passed(
    labels: Sequence[Value], exact: Tensor, query: ThresholdQuery, noise: float, randomness: Randomness
) -> Tensor:
    """The published list as bytes: field, value and noisy sum of everything at or above the threshold, sorted."""
    std = math.nextafter(noise * query.sensitivity / STEP, math.inf)
    found = []
    for start in range(0, len(exact), _PASSED_AT_ONCE):
        sums = exact[start : start + _PASSED_AT_ONCE].numpy()
        # A long record may hold far more values than `cap`; delta covers those it adds to, and no others take part.
        held = np.flatnonzero(sums)
        noisy = sums[held] + (rounded_gaussian(len(held), std, randomness) if len(held) else 0)
        above = np.flatnonzero(noisy >= round(query.threshold / STEP))
        found += [(labels[start + int(held[at])], int(noisy[at]) * STEP) for at in above.tolist()]
    # The order in which rows first showed the values is private: sort by what is published.
    found.sort(key=lambda one: (one[0][0], isinstance(one[0][1], str), one[0][1]))
    document = json.dumps([[name, value, total] for (name, value), total in found], ensure_ascii=False)
    return torch.frombuffer(bytearray(document.encode()), dtype=torch.uint8)


def read_discovered(answer: Tensor) -> Discovered:
    """A published list from its bytes, which may come from a file."""
    try:
        if answer.dtype != torch.uint8 or answer.numel() > LARGEST_ANSWER:
            raise ValueError
        rows = json.loads(answer.numpy().tobytes())
        if not isinstance(rows, list):
            raise ValueError
        values = tuple((str(name), _plain(value)) for name, value, _ in rows)
        return Discovered(values, tuple(float(total) for _, _, total in rows))
    except (ValueError, TypeError, RecursionError):
        raise ArtefactError("the list of discovered values is damaged; start again in another folder.") from None


def _plain(value: object) -> Label | float:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError
    return value


def _refuse(view: View) -> Tensor:
    raise DpgmError("sums over a private vocabulary are discovered, not released.")


def _nothing() -> Holdings:
    return Holdings(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64), ())
