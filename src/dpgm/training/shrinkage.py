"""Empirical Bayes for many noisy counts: pull each toward its expectation as far as all of them together suggest.

A count is its expectation times a *lift*. The law of the lifts is unknown; it is estimated from the noisy counts
themselves (a mixture on a grid, by expectation maximisation), apart for counts of different size, and gives every
count a posterior mean and deviation. Counts of which nothing is expected have a law of their own, estimated alike:
where most items are rare, a small count is mostly noise. Post-processing: only released values enter.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LIFTS = np.concatenate([[0.0], np.geomspace(0.05, 60.0, 24)])
_WIDTHS = 0.05 + 0.16 * _LIFTS  # neighbouring grid points overlap
_ROUNDS = 60
_EDGES = np.array([0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
_PSEUDO = 20.0
_FEW = 5.0
_SIZES = 60  # of counts, on the grid


def shrink(noisy: Floats, std: float, expected: Floats) -> tuple[Floats, Floats]:
    """Posterior mean and standard deviation of every count, given its noisy value and its expectation.

    Args:
        noisy: measured counts.
        std: standard deviation of the noise.
        expected: positive expectations, e.g. under independence.
    """
    mean, deviation = np.empty_like(noisy), np.empty_like(noisy)
    stratum = np.digitize(expected / max(std, 1e-12), _EDGES)
    for level in np.unique(stratum):
        chosen = stratum == level
        mean[chosen], deviation[chosen] = _shrink_alike(noisy[chosen], std, expected[chosen])
    return mean, deviation


def shrink_alone(noisy: Floats, std: float) -> tuple[Floats, Floats]:
    """Posterior mean and standard deviation of every count, given nothing but all the noisy values."""
    std = max(std, 1e-12)
    centres = np.concatenate([[0.0], np.geomspace(0.05 * std, 1.05 * max(float(noisy.max()), 3 * std), _SIZES)])
    widths = 0.5 * np.gradient(centres)
    start = np.full(len(centres), 1 / len(centres))
    return _posterior(noisy, std, centres[None, :], widths[None, :], start, _FEW)


def _shrink_alike(noisy: Floats, std: float, expected: Floats) -> tuple[Floats, Floats]:
    start = np.exp(-0.5 * np.log(np.maximum(_LIFTS, 0.02)) ** 2)
    start /= start.sum()
    return _posterior(noisy, std, expected[:, None] * _LIFTS, expected[:, None] * _WIDTHS, start, _PSEUDO)


def _posterior(
    noisy: Floats, std: float, centres: Floats, widths: Floats, start: Floats, pseudo: float
) -> tuple[Floats, Floats]:
    """Counts are drawn from normal laws (centres, widths) in unknown shares; `start` counts as `pseudo` of them."""
    prior_variance = widths**2
    total = prior_variance + std**2
    log_likelihood = -0.5 * ((noisy[:, None] - centres) ** 2 / total + np.log(total))
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    law = start.copy()
    for _ in range(_ROUNDS):
        joint = likelihood * law
        joint /= joint.sum(axis=1, keepdims=True)
        law = (joint.sum(axis=0) + pseudo * start) / (len(noisy) + pseudo)
    joint = likelihood * law
    joint /= joint.sum(axis=1, keepdims=True)
    gain = prior_variance / total
    means = centres + gain * (noisy[:, None] - centres)
    mean = (joint * means).sum(axis=1)
    variance = (joint * (gain * std**2 + means**2)).sum(axis=1) - mean**2
    return mean, np.sqrt(np.maximum(variance, 1e-12))
