"""The paper's accounting exactly as printed, for its figures only. AS PRINTED; NOT A VALID BOUND.

Its moments accountant adds the clipping histogram and the gradient by Hoelder's inequality as if their coins were
independent, which they are not (docs/privacy-proof.md E4), counts a factor of two too little for a Gaussian
(E1) and charges for k models what one model costs (E5). Use `dpgm.privacy.accountant` for anything that is published.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpgm import validation
from dpgm.privacy.renyi import trapezium

NOT_VALID = "as printed; not a valid bound"
FINE_GRID: NDArray[np.float64] = np.arange(1, 200, dtype=np.float64) * 0.005
_FARTHEST = 120.0  # standard deviations
ELEVENTHS: NDArray[np.float64] = np.arange(1, 11) / 11


@dataclass(frozen=True)
class PrintedCost:
    """A figure of the paper: epsilon, the moment it was found at, and the words that must stand beside it."""

    epsilon: float
    moment: int
    note: str = NOT_VALID


def printed_cost(
    *,
    sampling_rate: float,
    steps: int,
    delta: float,
    gradient_noise: float,
    norm_noise: float,
    cluster_noise: float | None = None,
    cluster_steps: int = 0,
    grid: NDArray[np.float64] = FINE_GRID,
    largest_moment: int = 100,
) -> PrintedCost:
    """Epsilon of the paper's pipeline by its own formulas.

    Args:
        sampling_rate: q, the share of the records in a batch.
        steps: T, the number of SGD steps.
        delta: the paper's delta.
        gradient_noise: its sigma_G.
        norm_noise: its sigma_C.
        cluster_noise: its sigma_K; None leaves k-means out.
        cluster_steps: T_K.
        grid: the values of j_1 over which the Hoelder split is minimised.
        largest_moment: the largest lambda tried.
    """
    validation.probability(sampling_rate=sampling_rate, delta=delta)
    validation.positive(gradient_noise=gradient_noise, norm_noise=norm_noise)
    validation.whole(steps=steps, largest_moment=largest_moment, at_least=1)
    best = PrintedCost(math.inf, 0)
    for moment in range(1, largest_moment + 1):
        alpha = steps * split_moment(moment, sampling_rate, norm_noise, gradient_noise, grid)
        if cluster_noise is not None:
            alpha += cluster_steps * (moment**2 + moment) / (2 * cluster_noise**2)
        epsilon = (alpha - math.log(delta)) / moment
        if epsilon < best.epsilon:
            best = PrintedCost(float(epsilon), moment)
        elif epsilon > 3 * best.epsilon:
            break  # log moments are convex: from here on it only grows
    return best


def split_moment(
    moment: float, rate: float, norm_noise: float, gradient_noise: float, grid: NDArray[np.float64] = FINE_GRID
) -> float:
    """The printed bound on a step's log moment: Hoelder's inequality with the best split on the grid."""
    candidates: list[float] = []
    for split in grid.tolist():
        norms = log_moment(moment / split, rate, norm_noise) * split
        gradients = log_moment(moment / (1 - split), rate, gradient_noise) * (1 - split)
        candidates.append(norms + gradients)
    return min(candidates)


def log_moment(moment: float, rate: float, noise: float) -> float:
    """The log of max(E_1, E_2): the moments of the privacy loss of one sampled Gaussian, in both directions."""
    return max(log_first_moment(moment, rate, noise), log_second_moment(moment, rate, noise))


def log_first_moment(moment: float, rate: float, noise: float) -> float:
    """The log of E_1 = E_{x ~ N(0, s²)}[(N(0, s²) / mixture)^moment]."""
    return _log_mean(-moment, 0.0, rate, noise)


def log_second_moment(moment: float, rate: float, noise: float) -> float:
    """The log of E_2 = E_{x ~ mixture}[(mixture / N(0, s²))^moment]."""
    return _log_mean(moment + 1, (moment + 1) / noise, rate, noise)


def _log_mean(power: float, farthest: float, rate: float, noise: float) -> float:
    """The log of E[(1 - q + q e^((2 x - 1) / 2 s²))^power] over x ~ N(0, s²), by the trapezium rule."""
    if farthest > _FARTHEST:
        return math.inf  # so large that no split that needs it can be the best
    _, log_ratio, log_density = trapezium(1 / noise, rate, farthest)
    logs = power * log_ratio + log_density
    peak = float(logs.max())
    return peak + math.log(float(np.exp(logs - peak).sum()))
