"""How much two samples of one population differ by chance, so that the verdict can allow for it."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.evaluation import marginals
from dpgm.evaluation.counting_queries import popular_queries, query_error
from dpgm.evaluation.event_figures import event_distances

_MOST_HALVED = 16_384  # real records in each of the two halves that are compared
_SPLITS = (3, 6)  # fewest and most random splits into halves; more for few records, where chance matters most
_COMPARED = 60_000  # records in the first halves of all splits together
_EXCESS = 3.0  # standard deviations between the mean over splits and what hardly any new sample exceeds


@dataclass(frozen=True)
class Chance:
    """A figure of a new sample of the real population: what to expect, and what hardly any such sample exceeds."""

    expected: float
    most: float


def deviations(false_alarm: float, figures: int = 1) -> float:
    """Standard deviations that none of `figures` normal deviates exceeds, but for a probability of `false_alarm`.

    >>> round(deviations(0.05), 2), round(deviations(0.05, 10), 2)
    (1.96, 2.81)
    """
    return NormalDist().inv_cdf(1 - false_alarm / (2 * figures))


def chance_figures(real: Records, synthetic_records: int, seed: int) -> dict[str, Chance]:
    """The figures "lengths", "pairs", "pop1" and "pop2" to expect of a new sample of the population of `real`.

    Halves of the real data are compared, in several random splits. Differences by chance fall with the square root of
    the number of records, or more slowly if most cells hold hardly a record. The exponent is taken from halves of the
    halves, and the figures are extrapolated to the actual numbers of records.
    """
    size = min(len(real) // 2, _MOST_HALVED)
    if size < 2:
        return {}

    def count_errors(length: int) -> Callable[[Records, Records], float]:
        queries = popular_queries(real, length, seed=seed)
        return lambda first, second: query_error(first, second, queries).mean

    computations: dict[str, Callable[[Records, Records], float]] = {
        "lengths": lambda first, second: marginals.record_lengths(first, second).total_variation,
        "pairs": lambda first, second: marginals.table_pairs(first, second).mean_total_variation,
    }
    computations |= event_distances(real)
    for length in (1, 2):
        with suppress(UsageError):
            computations[f"pop{length}"] = count_errors(length)
    random = np.random.default_rng([seed, 14])
    fewest, most = _SPLITS
    large: dict[str, list[float]] = {name: [] for name in computations}
    small: dict[str, list[float]] = {name: [] for name in computations}
    for _ in range(min(max(_COMPARED // size, fewest), most)):
        order = random.permutation(len(real))
        for figures, part in ((large, size), (small, size // 2)):
            first, second = real.take(order[:part]), real.take(order[part : 2 * part])
            for name, compute in computations.items():
                with suppress(UsageError, MemoryError):
                    figures[name].append(compute(first, second))
    growth = 2 / (1 / len(real) + 1 / synthetic_records) / size
    return {
        name: _extrapolated(np.array(large[name]), np.array(small[name]), growth)
        for name in computations
        if large[name] and small[name]
    }


def _extrapolated(large: NDArray[np.float64], small: NDArray[np.float64], growth: float) -> Chance:
    """From figures of halves, and of halves of them, to samples that are `growth` times as large as the halves."""
    halving = float(np.clip(large.mean() / max(small.mean(), 1e-12), np.sqrt(0.5), 1.0))
    scale = growth ** np.log2(halving)
    return Chance(float(scale * large.mean()), float(scale * (large.mean() + _EXCESS * large.std())))
