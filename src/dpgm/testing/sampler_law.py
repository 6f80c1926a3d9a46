"""The law of the sample: a true Poisson sample at the public rate."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from dpgm.testing.noise_law import Array, assert_all, chi_square
from dpgm.testing.run import require


def assert_sampler_law(
    draw: Callable[[int], Array], rows: int, rate: float, *, steps: int = 200
) -> tuple[float, float]:
    """`draw(step)` gives sorted row numbers of a Poisson sample; returns the ratios of rate and size variance.

    Rate, variance of the sample size, every row's own rate, neighbouring rows together, the same row in
    consecutive steps. Choose rows x rate x steps of 10,000 and more.
    """
    sizes = np.zeros(steps, dtype=np.int64)
    per_row = np.zeros(rows, dtype=np.int64)
    neighbours = repeats = 0
    previous = np.empty(0, dtype=np.int64)
    for step in range(steps):
        sample = np.asarray(draw(step))
        require(bool(np.all(np.diff(sample) > 0)), "a sample must be sorted, without repetitions")
        inside = sample.size == 0 or bool(sample[0] >= 0 and sample[-1] < rows)
        require(inside, "a sampled row does not exist")
        sizes[step] = sample.size
        per_row[sample] += 1
        # Disjoint pairs, (0, 1), (2, 3) ..., and disjoint pairs of steps: independent, so exactly binomial.
        even = sample[sample % 2 == 0]
        neighbours += int(np.isin(even + 1, sample, assume_unique=True).sum())
        if step % 2:
            repeats += np.intersect1d(previous, sample, assume_unique=True).size
        previous = sample
    variance = rows * rate * (1 - rate)
    pvalues = [
        (f"rate (ratio {sizes.sum() / (rows * rate * steps):.4f})", _binomial(sizes.sum(), rows * steps, rate)),
        ("a row's own rate", float(np.min(_binomial(per_row, steps, rate)) * rows)),
        ("neighbouring rows together", _binomial(neighbours, rows // 2 * steps, rate**2)),
        ("a row in consecutive steps", _binomial(repeats, rows * (steps // 2), rate**2)),
    ]
    spread = 1.0
    if rate < 1:
        scores = (sizes - rows * rate) / np.sqrt(variance)
        spread = float(np.mean(scores**2))
        pvalues.append((f"variance of the sample size (ratio {spread:.4f})", chi_square(scores)))
    assert_all(pvalues)
    return float(sizes.sum() / (rows * rate * steps)), spread


def _binomial(count: Any, trials: int, rate: float) -> Any:
    """Two-sided p-value of a binomial count."""
    tails = np.minimum(stats.binom.cdf(count, trials, rate), stats.binom.sf(np.asarray(count) - 1, trials, rate))
    return np.minimum(1.0, 2 * tails)
