"""One estimator for everything that is compared: how far two figures differ, and whether chance explains it.

A share says how many rows of a group have a property: of the patients of one ward, those up to 18 years old. Its effect
is the difference of arcsine square roots, half of what is called Cohen's h: 0.1 is 55 % instead of 45 %, or 1 % instead
of 0 %, so a step of 0.1 is about as surprising near 0 % as near 50 %. The evidence is the square of a standard normal
deviate: of shares the deviance (twice the log likelihood ratio) of the two counts, of other figures their squared
difference in standard errors. An effect is clear if the evidence exceeds what hardly any of all comparisons would
have in two samples of one population.
"""

from statistics import NormalDist

import numpy as np
from scipy.special import xlogy

from dpgm.arrays import Codes, Floats

_STEP = 0.5  # rows by which counts are moved towards each other: whole numbers jump, normal deviates do not


def needed_evidence(comparisons: float, false_alarm: float) -> float:
    """The evidence that hardly any of so many comparisons of equal populations exceeds.

    >>> round(needed_evidence(1, 0.05), 2), round(needed_evidence(1000, 0.01), 1)
    (3.84, 19.5)
    """
    return NormalDist().inv_cdf(false_alarm / max(comparisons, 1) / 2) ** 2


def needed_each(among: Codes, times: float, false_alarm: float) -> Floats:
    """The evidence that each of some figures needs, given among how many comparisons it counts."""
    counts, places = np.unique(among, return_inverse=True)
    return np.array([needed_evidence(times * count, false_alarm) for count in counts.tolist()])[places]


def angles(counts: Floats, of: Floats) -> Floats:
    """The arcsine square root of shares: differences of angles are effects; 0 where there are no rows."""
    shares = np.divide(counts, of, out=np.zeros(np.broadcast(counts, of).shape), where=of > 0)
    result: Floats = np.arcsin(np.sqrt(np.clip(shares, 0.0, 1.0)))
    return result


def deviances(real: Floats, real_of: Floats, synthetic: Floats, synthetic_of: Floats) -> Floats:
    """Evidence that two shares, given as counts and rows, are of different populations.

    With counts moved by half a row, probabilities of the normal distribution agree with exact ones, however few or
    unequal the rows are.

    >>> few, many = np.array([2.0, 20.0]), np.array([100.0, 1000.0])
    >>> deviances(np.zeros(2), many, few, many).round(1).tolist()
    [0.5, 23.2]
    """
    total, rows = real + synthetic, real_of + synthetic_of
    excess = real - total * real_of / np.maximum(rows, 1)
    moved = np.clip(excess, -_STEP, _STEP)
    both = _entropy(total, rows)
    apart = _entropy(real - moved, real_of) + _entropy(synthetic + moved, synthetic_of)
    result: Floats = np.maximum(2 * (both - apart), 0.0)
    return result


def _entropy(counts: Floats, of: Floats) -> Floats:
    """Minus the log likelihood of counts under their own shares."""
    share = counts / np.maximum(of, 1)
    return np.asarray(-xlogy(counts, share) - xlogy(of - counts, 1 - share), dtype=np.float64)


def least_effect(rows: float, other_rows: float, needed: float) -> float:
    """The smallest effect on a share that so many rows on either side can tell from chance.

    >>> round(least_effect(2000, 2000, 20.0), 2), round(least_effect(50, 50, 20.0), 2)
    (0.07, 0.45)
    """
    return float(np.sqrt(needed / 4 * (1 / rows + 1 / other_rows)))


def clear(effects: Floats, evidence: Floats, needed: float | Floats) -> Floats:
    """The effects for which there is enough evidence, and 0 for the others."""
    return np.where(evidence > needed, effects, 0.0)


def surely(effects: Floats, evidence: Floats, needed: float | Floats) -> Floats:
    """The part of effects that chance does not explain: squared effects less what chance may contribute to them.

    >>> surely(np.array([0.2, 0.2]), np.array([20.0, 40.0]), 30.0).tolist()
    [0.0, 0.1]
    """
    explained = np.divide(needed, evidence, out=np.ones(evidence.shape), where=evidence > needed)
    result: Floats = effects * np.sqrt(1 - explained)
    return result
