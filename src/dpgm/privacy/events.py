"""What a mechanism is, as data. An algorithm records mechanisms; only the accountant turns them into epsilon.

The plan, the gateway's list of calls and the certificate all refer to `Mechanism`s; `events_of` turns such a
list into the kinds of event the accountant knows. Kinds are never removed and never change meaning.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from dpgm.errors import UsageError

SMALLEST_NOISE, LARGEST_NOISE = 1e-10, 1e100  # multipliers; beyond, what they cost leaves the range of floats


class Adjacency(StrEnum):
    """Which pairs of data sets are neighbours."""

    ADD_REMOVE = "add-remove"  # numerically the same as zero-out, where N is public
    REPLACE_ONE = "replace-one"


@dataclass(frozen=True)
class Mechanism:
    """A Gaussian release: `noise` = standard deviation / sensitivity, run `count` times.

    `sampling_rate` below 1 means that each run sees a fresh Poisson sample. Mechanisms that share one sample
    carry the same `sample` name, rate and count, and are accounted together (docs/privacy-proof.md 3.2).

    A mechanism that publishes which values passed a threshold has a `delta`: the probability that a value which one
    record alone holds passes, in one run. It comes on top of the Gaussian cost (docs/privacy-proof.md, thresholding).
    """

    name: str
    noise: float
    count: int = 1
    sampling_rate: float = 1.0
    sample: str | None = None
    delta: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain values by name; `delta` only where there is one, as in documents written before it existed."""
        values = asdict(self)
        if self.delta == 0:
            del values["delta"]
        return values


@dataclass(frozen=True)
class GaussianRelease:
    """`count` adaptive Gaussian releases of multiplier `noise` on the whole data."""

    noise: float
    count: int = 1


@dataclass(frozen=True)
class SampledSteps:
    """`steps` Gaussian releases of multiplier `noise`, each on a fresh Poisson sample."""

    noise: float
    sampling_rate: float
    steps: int


@dataclass(frozen=True)
class CountsAndSums:
    """`count` times the counts of disjoint cells and the sums over them, as k-means asks for.

    The same as two Gaussian releases, except that replacing a record cannot move both as far as each alone.
    """

    count_noise: float
    sum_noise: float
    count: int = 1


@dataclass(frozen=True)
class Parallel:
    """Branches of events on disjoint parts of the data: each record is in one (docs/privacy-proof.md 3.3)."""

    branches: tuple[tuple["GaussianRelease | SampledSteps", ...], ...]


@dataclass(frozen=True)
class Threshold:
    """`count` lists of values that passed a threshold, each exposing a value of one record with probability `delta`.

    The noise on the sums behind the list is a release of its own; this is only what the list adds.
    """

    delta: float
    count: int = 1


Event: TypeAlias = GaussianRelease | SampledSteps | CountsAndSums | Parallel | Threshold


def threshold_delta(thresholds: Iterable[Threshold], *, records: int = 1) -> float:
    """What thresholds add to the delta of everything else: 1 / product of (1 - delta) - 1.

    With one threshold that is delta / (1 - delta). `records` is how many records differ: 2 where one is replaced.

    >>> round(threshold_delta([Threshold(0.01), Threshold(0.01)]), 6)
    0.020304
    """
    logs = (records * entry.count * math.log1p(-float(entry.delta)) for entry in thresholds)
    return math.expm1(-math.fsum(logs))


def merged_noise(noises: Iterable[float]) -> float:
    """Multiplier of several Gaussian releases on one sample: 1/z² = sum of 1/z_i² (docs/privacy-proof.md 3.2)."""
    total = sum(1.0 / float(noise) ** 2 for noise in noises)
    return math.inf if total == 0 else 1.0 / math.sqrt(total)


def events_of(mechanisms: Sequence[Mechanism]) -> tuple[Event, ...]:
    """The events a list of mechanisms amounts to; those that share a sample are merged."""
    events: list[Event] = []
    shared: dict[str, list[Mechanism]] = {}
    for mechanism in mechanisms:
        if mechanism.sample is not None:
            shared.setdefault(mechanism.sample, []).append(mechanism)
        elif mechanism.sampling_rate < 1.0:
            events.append(SampledSteps(mechanism.noise, mechanism.sampling_rate, mechanism.count))
        else:
            events.append(GaussianRelease(mechanism.noise, mechanism.count))
        if mechanism.delta:
            if mechanism.sampling_rate < 1.0 or mechanism.sample is not None:
                raise UsageError(
                    f"the mechanism {mechanism.name!r} thresholds a sample, which is not accounted for."
                )
            events.append(Threshold(mechanism.delta, mechanism.count))
    for name, members in shared.items():
        rates = {member.sampling_rate for member in members}
        counts = {member.count for member in members}
        if len(rates) > 1 or len(counts) > 1:
            raise UsageError(f"mechanisms of the sample {name!r} must share one rate and one count.")
        noise = merged_noise(member.noise for member in members)
        events.append(SampledSteps(noise, rates.pop(), counts.pop()))
    return tuple(events)
