"""Empirical Bayes for many noisy numbers, and projection onto a known sum.

`shrink`: a count is its expectation times a *lift*. The distribution of lifts is unknown; it is estimated from the
noisy counts themselves (a mixture on a grid, by expectation maximisation), separately for counts of different size, and
gives every count a posterior mean and standard deviation. `shrink_alone` estimates the distribution of the counts,
where there are no expectations: if most items are rare, a small noisy count is mostly noise. `shrink_signed` is for
numbers of either sign. Post-processing: only released values enter.
"""

import numpy as np

from dpgm.arrays import Floats
from dpgm.statistics.rules import SHRINK_RULES, ShrinkRules


def shrink(noisy: Floats, std: float, expected: Floats, rules: ShrinkRules = SHRINK_RULES) -> tuple[Floats, Floats]:
    """Posterior mean and standard deviation of counts with noise of `std` and positive expectations."""
    mean, deviation = np.empty_like(noisy), np.empty_like(noisy)
    lifts = np.concatenate([[0.0], np.geomspace(rules.least_lift, rules.most_lift, rules.lifts)])
    widths = rules.lift_width + rules.lift_width_share * lifts
    prior = np.exp(-0.5 * np.log(np.maximum(lifts, rules.lift_floor)) ** 2)
    prior /= prior.sum()
    stratum = np.digitize(expected / max(std, 1e-12), rules.group_edges)
    for level in np.unique(stratum):
        chosen = stratum == level
        own = expected[chosen][:, None]
        mean[chosen], deviation[chosen] = _posterior(
            noisy[chosen], std, own * lifts, own * widths, prior, rules.prior_counts, rules.rounds
        )
    return mean, deviation


def shrink_alone(noisy: Floats, std: float | Floats, rules: ShrinkRules = SHRINK_RULES) -> tuple[Floats, Floats]:
    """Posterior mean and standard deviation of counts without expectations; `std` is common, or one per count."""
    std = np.maximum(std, 1e-12)
    least = float(np.min(std))
    largest = rules.largest_size * max(float(noisy.max()), 3 * least)
    centres = np.concatenate([[0.0], np.geomspace(rules.least_size * least, largest, rules.sizes)])
    widths = 0.5 * np.gradient(centres)
    prior, stds = np.full(len(centres), 1 / len(centres)), np.broadcast_to(std, noisy.shape)[:, None]
    return _posterior(noisy, stds, centres, widths, prior, rules.prior_counts_alone, rules.rounds)


def shrink_signed(
    noisy: Floats, std: float, expected: Floats, scale: Floats, rules: ShrinkRules = SHRINK_RULES
) -> tuple[Floats, Floats]:
    """The same for numbers of either sign, normal around their expectations with unknown multiples of `scale`."""
    spreads = np.geomspace(rules.least_spread, rules.most_spread, rules.spreads)
    prior_variance = (scale[:, None] * spreads) ** 2
    total = prior_variance + std**2
    deviations = (noisy - expected)[:, None]
    prior = np.full(len(spreads), 1 / len(spreads))
    chances = _responsibilities(deviations, total, prior, rules.prior_counts, rules.rounds)
    gain = prior_variance / total
    mean = (chances * gain * deviations).sum(axis=1)
    variance = (chances * (gain * std**2 + (gain * deviations) ** 2)).sum(axis=1) - mean**2
    return expected + mean, np.sqrt(np.maximum(variance, 1e-12))


def _posterior(
    noisy: Floats,
    std: float | Floats,
    centres: Floats,
    widths: Floats,
    prior: Floats,
    prior_counts: float,
    rounds: int,
) -> tuple[Floats, Floats]:
    """Posterior where true counts come from a mixture of normals (centres, widths) whose shares are estimated."""
    prior_variance = widths**2
    total = prior_variance + std**2
    chances = _responsibilities(noisy[:, None] - centres, total, prior, prior_counts, rounds)
    gain = prior_variance / total
    means = centres + gain * (noisy[:, None] - centres)
    mean = (chances * means).sum(axis=1)
    variance = (chances * (gain * std**2 + means**2)).sum(axis=1) - mean**2
    return mean, np.sqrt(np.maximum(variance, 1e-12))


def _responsibilities(
    deviations: Floats, variances: Floats, prior: Floats, prior_counts: float, rounds: int
) -> Floats:
    """Probability that each number comes from each component, whose shares expectation maximisation estimates.

    `prior` are the initial shares; they count as much as `prior_counts` further numbers.
    """
    log_likelihood = -0.5 * (deviations**2 / variances + np.log(variances))
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    shares = prior.copy()
    for _ in range(rounds):
        joint = likelihood * shares
        joint /= joint.sum(axis=1, keepdims=True)
        shares = (joint.sum(axis=0) + prior_counts * prior) / (len(likelihood) + prior_counts)
    joint = likelihood * shares
    return joint / joint.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]


def onto_simplex(values: Floats, total: float, floor: float = 0.0) -> Floats:
    """The nearest numbers (Euclidean) that are at least `floor` and sum to `total`; floors must not exceed the total.

    All numbers that stay above the floor change by the same amount. Clipping and scaling instead would take the noise
    of many small counts, which are raised from below zero, from the largest count alone.

    >>> onto_simplex(np.array([0.75, 0.5, -0.25]), 1.0)
    array([0.625, 0.375, 0.   ])
    """
    left, above = total - floor * len(values), values - floor
    falling = np.sort(above)[::-1]
    excess = (np.cumsum(falling) - left) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(falling - excess > 0)
    cut = float(excess[last[-1]] if len(last) else falling[0])  # no last one if the floors are the whole total
    result: Floats = np.maximum(above - cut, 0.0) + floor
    return result
