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
_SPREADS = np.geomspace(0.003, 1.0, 12)


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


def shrink_alone(noisy: Floats, std: float | Floats) -> tuple[Floats, Floats]:
    """Posterior mean and standard deviation of every count, given nothing but all the noisy values.

    Args:
        noisy: measured counts.
        std: standard deviation of the noise, of all or of each.
    """
    std = np.maximum(std, 1e-12)
    least = float(np.min(std))
    centres = np.concatenate([[0.0], np.geomspace(0.05 * least, 1.05 * max(float(noisy.max()), 3 * least), _SIZES)])
    widths = 0.5 * np.gradient(centres)
    start = np.full(len(centres), 1 / len(centres))
    return _posterior(
        noisy, np.broadcast_to(std, noisy.shape)[:, None], centres[None, :], widths[None, :], start, _FEW
    )


def shrink_signed(noisy: Floats, std: float, expected: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Posterior mean and deviation of numbers that lie on both sides of what is expected of them.

    Args:
        noisy: measured numbers.
        std: standard deviation of the noise.
        expected: of every number.
        scale: positive; deviations from the expectation are normal, of unknown size on this scale.
    """
    prior_variance = (scale[:, None] * _SPREADS) ** 2
    total = prior_variance + std**2
    off = (noisy - expected)[:, None]
    log_likelihood = -0.5 * (off**2 / total + np.log(total))
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    start = np.full(len(_SPREADS), 1 / len(_SPREADS))
    joint = _weigh(likelihood, start, _PSEUDO)
    gain = prior_variance / total
    mean = (joint * gain * off).sum(axis=1)
    variance = (joint * (gain * std**2 + (gain * off) ** 2)).sum(axis=1) - mean**2
    return expected + mean, np.sqrt(np.maximum(variance, 1e-12))


def _shrink_alike(noisy: Floats, std: float, expected: Floats) -> tuple[Floats, Floats]:
    start = np.exp(-0.5 * np.log(np.maximum(_LIFTS, 0.02)) ** 2)
    start /= start.sum()
    return _posterior(noisy, std, expected[:, None] * _LIFTS, expected[:, None] * _WIDTHS, start, _PSEUDO)


def _posterior(
    noisy: Floats, std: float | Floats, centres: Floats, widths: Floats, start: Floats, pseudo: float
) -> tuple[Floats, Floats]:
    """Counts are drawn from normal laws (centres, widths) in unknown shares; `start` counts as `pseudo` of them."""
    prior_variance = widths**2
    total = prior_variance + std**2
    log_likelihood = -0.5 * ((noisy[:, None] - centres) ** 2 / total + np.log(total))
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    joint = _weigh(likelihood, start, pseudo)
    gain = prior_variance / total
    means = centres + gain * (noisy[:, None] - centres)
    mean = (joint * means).sum(axis=1)
    variance = (joint * (gain * std**2 + means**2)).sum(axis=1) - mean**2
    return mean, np.sqrt(np.maximum(variance, 1e-12))


def _weigh(likelihood: Floats, start: Floats, pseudo: float) -> Floats:
    """Share of every law in every number, the laws' own shares found by expectation maximisation."""
    law = start.copy()
    for _ in range(_ROUNDS):
        joint = likelihood * law
        joint /= joint.sum(axis=1, keepdims=True)
        law = (joint.sum(axis=0) + pseudo * start) / (len(likelihood) + pseudo)
    joint = likelihood * law
    return joint / joint.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]
