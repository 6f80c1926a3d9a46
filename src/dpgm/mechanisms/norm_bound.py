"""The norm bound of private SGD (Alg. 3): a noisy histogram of gradient norms, and a bound read off it.

One bin per record, so the histogram's sensitivity is 1. Bins are public and log-spaced: (e_{j-1}, e_j], the first
one down to zero, the last one up to infinity; a norm that is not finite counts nowhere. Everything after the
noise is post-processing: the bound is the upper edge of the fullest bin (the paper's choice) or of the bin of a
quantile (the default), from an average over past steps, so that it stays sound when a batch is small against
the noise.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from dpgm import validation
from dpgm.errors import ArtefactError, UsageError
from dpgm.mechanisms.query import Query, View

BoundRule: TypeAlias = float | Literal["mode"]


def norm_edges(bins: int = 24, low: float = 2.0**-6, high: float = 2.0**12) -> Tensor:
    """Upper edges of all bins but the last, which has none: `bins` - 1 log-spaced numbers from low to high."""
    validation.whole(at_least=3, norm_bins=bins)
    validation.positive(low=low, high=high)
    if high <= low:
        raise UsageError(f"`high` must be above `low`; got {high!r} and {low!r}.")
    return torch.logspace(math.log2(low), math.log2(high), bins - 1, base=2.0, dtype=torch.float64)


def norm_histogram(norms: Any, edges: Tensor) -> Tensor:
    """How many norms fall in each bin, int64; norms that are not finite count nowhere."""
    norms = torch.as_tensor(norms).reshape(-1).double()
    found = torch.bucketize(norms, edges.to(norms.device))
    found = torch.where(torch.isfinite(norms), found, -1)
    # No shape depends on the data, so it runs in a CUDA graph.
    return (found == torch.arange(len(edges) + 1, device=norms.device).unsqueeze(1)).sum(1)


def norm_query(norms: Callable[[View], Any], edges: Tensor) -> Query:
    """The histogram of the rows' norms as a query: one bin per record, so sensitivity 1."""
    return Query(lambda view: norm_histogram(norms(view), edges), 1.0, (len(edges) + 1,), grid=1.0)


def norm_bound(
    counts: list[float], uppers: list[float], quantile: BoundRule = 0.9, *, spread: float = 0.0
) -> float:
    """The upper edge of the fullest bin ("mode") or of the bin of a quantile; the last edge for the last bin.

    `spread` is the standard deviation of a count's noise. Norms gather in neighbouring bins, so the quantile is
    taken over the run of bins that stands out most from it, and noise in the empty bins elsewhere does not count.
    Plain numbers: for two dozen bins they are faster than tensors.
    """
    if quantile == "mode":
        return uppers[min(counts.index(max(counts)), len(uppers) - 1)]
    validation.probability(quantile=quantile)
    first, stop = _max_sum_run([count - spread for count in counts])
    # The least pinball loss uses all counts; where the running sum first passes the quantile, one noisy count
    # decides.
    inside = counts[first:stop]
    target = quantile * sum(inside)
    loss = least = running = 0.0
    found = first
    for place, count in enumerate(inside, first):
        if loss < least:
            least, found = loss, place
        running += count
        loss += running - target
    return uppers[min(found, len(uppers) - 1)]


def _max_sum_run(counts: list[float]) -> tuple[int, int]:
    """The run [first, stop) of bins with the largest sum."""
    best, running, start, found = -math.inf, 0.0, 0, (0, len(counts))
    for place, count in enumerate(counts):
        if running <= 0:
            running, start = 0.0, place
        running += count
        if running > best:
            best, found = running, (start, place + 1)
    return found


class AdaptiveNormBound:
    """The bound over steps, from an exponential average of the noisy histograms; within the edges' ends.

    Args:
        edges: the bins' edges, public.
        noise: multiplier of the histograms' noise; the bound moves only once the average stands out from it.
        quantile: which quantile of the norms, or "mode".
        decay: weight of the past at each step; about 1 / (1 - decay) steps are averaged.
        start: the bound before anything is known.
        clear: standard deviations of the noise that the fullest bin must reach, or the bound stays: the histogram may
            be noise alone.
    """

    def __init__(
        self,
        edges: Tensor,
        *,
        noise: float,
        quantile: BoundRule = 0.9,
        decay: float = 0.95,
        start: float = 1.0,
        clear: float = 4.0,
    ) -> None:
        validation.non_negative(noise=noise, decay=decay)
        if decay >= 1:
            raise UsageError(f"`decay` must be below 1; got {decay!r}.")
        self._edges = edges
        self._uppers: list[float] = edges.tolist()
        self.noise = noise
        self.quantile = quantile
        self.decay, self.clear = decay, clear
        self.floor, self.cap = self._uppers[0], self._uppers[-1]
        validation.positive(start=start)
        self._average = [0.0] * (len(edges) + 1)
        self._squares = 0.0  # of the weights in the average
        self.bound = self._limited(start)

    def update(self, noisy_histogram: Tensor) -> float:
        """Take in a step's noisy histogram; returns the bound to use."""
        decay, fresh = self.decay, 1 - self.decay
        counts = noisy_histogram.tolist()
        self._average = [decay * past + fresh * count for past, count in zip(self._average, counts, strict=True)]
        self._squares = decay**2 * self._squares + fresh**2
        spread = self.noise * math.sqrt(self._squares)
        if max(self._average) > self.clear * spread:
            self.bound = self._limited(norm_bound(self._average, self._uppers, self.quantile, spread=spread))
        return self.bound

    def _limited(self, bound: float) -> float:
        return min(max(bound, self.floor), self.cap)

    def state(self) -> dict[str, Tensor]:
        """Everything a checkpoint needs; all of it post-processing."""
        scalars = torch.tensor([self._squares, self.bound], dtype=torch.float64)
        return {"average": torch.tensor(self._average, dtype=torch.float64), "scalars": scalars}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a state; raises ArtefactError if it is not one."""
        average, scalars = state.get("average"), state.get("scalars")
        if average is None or scalars is None:
            raise ArtefactError("the norm bound's state is incomplete; it was made by something else.")
        good = average.shape == (len(self._average),) and scalars.shape == (2,)
        if not good or not bool(torch.isfinite(average).all() and torch.isfinite(scalars).all()):
            raise ArtefactError("the norm bound's state is damaged or belongs to other bins.")
        self._average = average.double().tolist()
        self._squares = float(scalars[0])
        self.bound = self._limited(float(scalars[1]))
