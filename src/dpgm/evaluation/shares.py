"""One estimator for everything that is compared among rows: how far two shares differ beyond chance.

A share says how many rows of a group have a property: of the patients of one ward, those up to 18 years old. Its effect
is the difference of arcsine square roots, half of what is called Cohen's h: 0.1 is 55 % instead of 45 %, or 1 % instead
of 0 %, so a step of 0.1 is about as surprising near 0 % as near 50 %. The evidence is the deviance of the two counts,
twice the log likelihood ratio. By Chernoff's bound, equal populations exceed a deviance of 2 log(2 m / a) in any of m
comparisons with a probability of about a at most, however small the counts are.
"""

import numpy as np
from scipy.special import xlogy

from dpgm.arrays import Floats


def needed_evidence(comparisons: int, false_alarm: float) -> float:
    """The deviance that hardly any of so many comparisons of equal populations exceeds.

    >>> round(needed_evidence(1000, 0.01), 1)
    24.4
    """
    return float(2 * np.log(2 * max(comparisons, 1) / false_alarm))


def angles(counts: Floats, of: Floats) -> Floats:
    """The arcsine square root of shares: differences of angles are effects; 0 where there are no rows."""
    shares = np.divide(counts, of, out=np.zeros(np.broadcast(counts, of).shape), where=of > 0)
    result: Floats = np.arcsin(np.sqrt(np.clip(shares, 0.0, 1.0)))
    return result


def deviances(real: Floats, real_of: Floats, synthetic: Floats, synthetic_of: Floats) -> Floats:
    """Evidence that two shares, given as counts and rows, are of different populations.

    >>> round(float(deviances(np.array(0.0), np.array(100.0), np.array(20.0), np.array(100.0))))
    30
    """
    total, rows = real + synthetic, real_of + synthetic_of
    both = xlogy(total, total / np.maximum(rows, 1)) + xlogy(rows - total, 1 - total / np.maximum(rows, 1))
    apart = np.zeros_like(both)
    for counts, of in ((real, real_of), (synthetic, synthetic_of)):
        share = counts / np.maximum(of, 1)
        apart = apart + xlogy(counts, share) + xlogy(of - counts, 1 - share)
    result: Floats = np.maximum(2 * (apart - both), 0.0)
    return result


def beyond(effects: Floats, deviance: Floats, needed: float) -> Floats:
    """The part of effects that chance does not explain: none unless the deviance exceeds what is needed.

    The squared effect is reduced by what chance may contribute to it, as the verdict does with its other figures.

    >>> beyond(np.array([0.2, 0.2]), np.array([20.0, 40.0]), 30.0).tolist()
    [0.0, 0.1]
    """
    explained = np.divide(needed, deviance, out=np.ones(deviance.shape), where=deviance > needed)
    result: Floats = effects * np.sqrt(1 - explained)
    return result
