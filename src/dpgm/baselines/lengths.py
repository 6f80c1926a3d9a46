"""How long records may be before they are clipped, from one noisy histogram of lengths."""

import math

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain
from dpgm.mechanisms.gateway import Gateway
from dpgm.statistics.record_lengths import LENGTHS, RecordLengths


def noisy_lengths(gateway: Gateway, domain: Domain, noise: float) -> NDArray[np.float64]:
    """A noisy histogram of the number of items of a record; bins lost in the noise are set to 0.

    Privacy: one Gaussian release of multiplier `noise`; a record moves one bin by 1.
    """
    statistic = RecordLengths.of(domain)
    noisy = gateway.release(LENGTHS, statistic.query(), noise).numpy().astype(np.float64)
    # Without the threshold hundreds of empty bins would add up to a long tail that does not exist.
    threshold = noise * math.sqrt(2 * math.log(max(2, len(noisy))))
    return np.where(noisy > threshold, noisy, 0.0)


def quantile(histogram: NDArray[np.float64], share: float) -> int:
    """The shortest length that covers `share` of the records; at least 1."""
    total = histogram.sum()
    if total <= 0:
        return 1
    return max(1, int(np.searchsorted(np.cumsum(histogram) / total, share - 1e-12)))


def average(histogram: NDArray[np.float64]) -> float:
    """The mean length; 1 if nothing is left of the histogram."""
    total = histogram.sum()
    return float(histogram @ np.arange(len(histogram)) / total) if total > 0 else 1.0
