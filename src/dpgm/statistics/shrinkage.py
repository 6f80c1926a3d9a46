"""How many noisy numbers are read together: shrunk toward what is expected of them, or brought to a known sum.

Empirical Bayes pulls each count toward its expectation as far as all of them together suggest. A count is its
expectation times a *lift*. The distribution of lifts is unknown; it is estimated from the noisy counts themselves (a
mixture on a grid, by expectation maximisation), apart for counts of different size, and gives every count a posterior
mean and standard deviation. Counts without an expectation have a distribution of their own, estimated alike: where most
items are rare, a small count is mostly noise. Post-processing: only released values enter.
"""

import numpy as np

from dpgm.statistics.rules import RULES, ShrinkRules
from dpgm.statistics.statistic import Floats

_RULES = RULES.read.shrink


def shrink(noisy: Floats, std: float, expected: Floats, rules: ShrinkRules = _RULES) -> tuple[Floats, Floats]:
    """Posterior mean and deviation of counts with noise of deviation `std` and positive expectations."""
    mean, deviation = np.empty_like(noisy), np.empty_like(noisy)
    lifts = np.concatenate([[0.0], np.geomspace(rules.least_lift, rules.most_lift, rules.lifts)])
    widths = rules.lift_width + rules.lift_width_share * lifts
    start = np.exp(-0.5 * np.log(np.maximum(lifts, rules.lift_floor)) ** 2)
    start /= start.sum()
    stratum = np.digitize(expected / max(std, 1e-12), rules.group_edges)
    for level in np.unique(stratum):
        chosen = stratum == level
        own = expected[chosen][:, None]
        mean[chosen], deviation[chosen] = _posterior(
            noisy[chosen], std, own * lifts, own * widths, start, rules.prior_counts, rules.rounds
        )
    return mean, deviation


def shrink_alone(noisy: Floats, std: float | Floats, rules: ShrinkRules = _RULES) -> tuple[Floats, Floats]:
    """The same given nothing but all the noisy values; `std` is that of all, or of each."""
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
    """The same for numbers that are normal around their expectation, of unknown size on a positive scale."""
    spreads = np.geomspace(rules.least_spread, rules.most_spread, rules.spreads)
    prior_variance = (scale[:, None] * spreads) ** 2
    total = prior_variance + std**2
    off = (noisy - expected)[:, None]
    joint = _weigh(off, total, np.full(len(spreads), 1 / len(spreads)), rules.prior_counts, rules.rounds)
    gain = prior_variance / total
    mean = (joint * gain * off).sum(axis=1)
    variance = (joint * (gain * std**2 + (gain * off) ** 2)).sum(axis=1) - mean**2
    return expected + mean, np.sqrt(np.maximum(variance, 1e-12))


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
    joint = _weigh(noisy[:, None] - centres, total, start, prior_counts, rounds)
    gain = prior_variance / total
    means = centres + gain * (noisy[:, None] - centres)
    mean = (joint * means).sum(axis=1)
    variance = (joint * (gain * std**2 + means**2)).sum(axis=1) - mean**2
    return mean, np.sqrt(np.maximum(variance, 1e-12))


def _weigh(off: Floats, variances: Floats, start: Floats, prior_counts: float, rounds: int) -> Floats:
    """Posterior of the component that every number comes from; their shares by expectation maximisation."""
    log_likelihood = -0.5 * (off**2 / variances + np.log(variances))
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    shares = start.copy()
    for _ in range(rounds):
        joint = likelihood * shares
        joint /= joint.sum(axis=1, keepdims=True)
        shares = (joint.sum(axis=0) + prior_counts * start) / (len(likelihood) + prior_counts)
    joint = likelihood * shares
    return joint / joint.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]


def onto_simplex(values: Floats, total: float, floor: float = 0.0) -> Floats:
    """The nearest numbers that are at least `floor` (at most total / len(values)) and sum to `total`.

    All that stay above the floor are moved by the same amount, so that the noise of many small counts, of which those
    below zero are raised, is not taken from the largest one alone.

    >>> onto_simplex(np.array([0.75, 0.5, -0.25]), 1.0)
    array([0.625, 0.375, 0.   ])
    """
    left, above = total - floor * len(values), values - floor
    falling = np.sort(above)[::-1]
    excess = (np.cumsum(falling) - left) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(falling - excess > 0)
    cut = float(excess[last[-1]] if len(last) else falling[0])  # none where the floors are the whole total
    result: Floats = np.maximum(above - cut, 0.0) + floor
    return result
