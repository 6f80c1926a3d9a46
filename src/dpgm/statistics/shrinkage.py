"""Empirical Bayes for many noisy counts: pull each toward its expectation as far as all of them together suggest.

A count is its expectation times a *lift*. The distribution of lifts is unknown; it is estimated from the noisy counts
themselves (a mixture on a grid, by expectation maximisation), apart for counts of different size, and gives every
count a posterior mean and deviation. Counts without an expectation have a distribution of their own, estimated alike:
where most items are rare, a small count is mostly noise. Post-processing: only released values enter.
"""

import numpy as np

from dpgm.statistics.rules import RULES, ShrinkRules
from dpgm.statistics.statistic import Floats

_RULES = RULES.read.shrink


def shrink(noisy: Floats, std: float, expected: Floats, rules: ShrinkRules = _RULES) -> tuple[Floats, Floats]:
    """Posterior mean and standard deviation of every count, given its noisy value and its expectation.

    Args:
        noisy: measured counts.
        std: standard deviation of the noise.
        expected: positive expectations, e.g. under independence.
        rules: tuned numbers.
    """
    mean, deviation = np.empty_like(noisy), np.empty_like(noisy)
    stratum = np.digitize(expected / max(std, 1e-12), rules.group_edges)
    for level in np.unique(stratum):
        chosen = stratum == level
        mean[chosen], deviation[chosen] = _shrink_alike(noisy[chosen], std, expected[chosen], rules)
    return mean, deviation


def shrink_alone(noisy: Floats, std: float | Floats, rules: ShrinkRules = _RULES) -> tuple[Floats, Floats]:
    """Posterior mean and standard deviation of every count, given nothing but all the noisy values.

    Args:
        noisy: measured counts.
        std: standard deviation of the noise, of all or of each.
        rules: tuned numbers.
    """
    std = np.maximum(std, 1e-12)
    least = float(np.min(std))
    largest = rules.largest_size * max(float(noisy.max()), 3 * least)
    centres = np.concatenate([[0.0], np.geomspace(rules.least_size * least, largest, rules.sizes)])
    widths = 0.5 * np.gradient(centres)
    start = np.full(len(centres), 1 / len(centres))
    stds, prior = np.broadcast_to(std, noisy.shape)[:, None], rules.prior_counts_alone
    return _posterior(noisy, stds, centres[None, :], widths[None, :], start, prior, rules.rounds)


def shrink_signed(
    noisy: Floats, std: float, expected: Floats, scale: Floats, rules: ShrinkRules = _RULES
) -> tuple[Floats, Floats]:
    """Posterior mean and deviation of numbers that lie on both sides of what is expected of them.

    Args:
        noisy: measured numbers.
        std: standard deviation of the noise.
        expected: of every number.
        scale: positive; deviations from the expectation are normal, of unknown size on this scale.
        rules: tuned numbers.
    """
    spreads = np.geomspace(rules.least_spread, rules.most_spread, rules.spreads)
    prior_variance = (scale[:, None] * spreads) ** 2
    total = prior_variance + std**2
    off = (noisy - expected)[:, None]
    log_likelihood = -0.5 * (off**2 / total + np.log(total))
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    start = np.full(len(spreads), 1 / len(spreads))
    joint = _weigh(likelihood, start, rules.prior_counts, rules.rounds)
    gain = prior_variance / total
    mean = (joint * gain * off).sum(axis=1)
    variance = (joint * (gain * std**2 + (gain * off) ** 2)).sum(axis=1) - mean**2
    return expected + mean, np.sqrt(np.maximum(variance, 1e-12))


def _shrink_alike(noisy: Floats, std: float, expected: Floats, rules: ShrinkRules) -> tuple[Floats, Floats]:
    lifts = np.concatenate([[0.0], np.geomspace(rules.least_lift, rules.most_lift, rules.lifts)])
    widths = rules.lift_width + rules.lift_width_share * lifts
    start = np.exp(-0.5 * np.log(np.maximum(lifts, rules.lift_floor)) ** 2)
    start /= start.sum()
    expected, prior = expected[:, None], rules.prior_counts
    return _posterior(noisy, std, expected * lifts, expected * widths, start, prior, rules.rounds)


def _posterior(
    noisy: Floats,
    std: float | Floats,
    centres: Floats,
    widths: Floats,
    start: Floats,
    prior_counts: float,
    rounds: int,
) -> tuple[Floats, Floats]:
    """Counts come from normal distributions (centres, widths) in unknown shares, `start` by a first guess."""
    prior_variance = widths**2
    total = prior_variance + std**2
    log_likelihood = -0.5 * ((noisy[:, None] - centres) ** 2 / total + np.log(total))
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    joint = _weigh(likelihood, start, prior_counts, rounds)
    gain = prior_variance / total
    means = centres + gain * (noisy[:, None] - centres)
    mean = (joint * means).sum(axis=1)
    variance = (joint * (gain * std**2 + means**2)).sum(axis=1) - mean**2
    return mean, np.sqrt(np.maximum(variance, 1e-12))


def _weigh(likelihood: Floats, start: Floats, prior_counts: float, rounds: int) -> Floats:
    """Posterior of the component that every number comes from; their shares by expectation maximisation."""
    shares = start.copy()
    for _ in range(rounds):
        joint = likelihood * shares
        joint /= joint.sum(axis=1, keepdims=True)
        shares = (joint.sum(axis=0) + prior_counts * start) / (len(likelihood) + prior_counts)
    joint = likelihood * shares
    return joint / joint.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]
