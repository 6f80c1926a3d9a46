"""Statistical checks that noise and Poisson samples have the distributions that the certificate states."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import log_ndtr, ndtr, ndtri

from dpgm.arrays import AnyArray
from dpgm.data.records import Records
from dpgm.mechanisms.gateway import TraceGateway
from dpgm.mechanisms.randomness import Randomness, SeededRandomness
from dpgm.mechanisms.threshold import ThresholdQuery
from dpgm.privacy.events import Mechanism
from dpgm.testing.replayed_runs import Run, require

FALSE_ALARM = 1e-6  # probability that a statistical check fails a correct build


def assert_noise_law(
    run: Run,
    records: Records,
    *,
    runs: int = 2,
    seed: int = 0,
    randomness: Callable[[], Randomness] | None = None,
    blocks: Mapping[str, int] | None = None,
    least: int = 1000,
    allowance: Sequence[Mechanism] | None = None,
) -> dict[str, float]:
    """Residuals (noisy - exact) are independent N(0, (noise x sensitivity)²); returns std ratios by name.

    It tests the variance, the distribution (Kolmogorov-Smirnov), the variance of every coordinate, and correlations
    with the previous run of the same call, with the previous call, between blocks of one call (their number by name in
    `blocks`; by default the first axis, or halves) and between whole runs. At least `least` residuals are required:
    more find smaller faults. `randomness` makes the source of each run; by default each has a new seed.

    Raises:
        AssertionError: the noise has another distribution than declared, somewhere.
    """
    seeds = iter(range(seed, seed + runs))
    make = randomness if randomness is not None else (lambda: SeededRandomness(next(seeds)))
    points = np.random.default_rng(seed)
    scores = [_scores(run, records, make(), points, allowance) for _ in range(runs)]
    names = sorted({name for each in scores for name, _ in each})
    require(bool(names), "the run released nothing, so there is nothing to check")
    total = sum(score.size for each in scores for _, score in each)
    require(total >= least, f"only {total} residuals; raise runs or releases to reach {least}")
    pvalues: list[tuple[str, float]] = []
    ratios = {}
    for name in names:
        mine = [score for each in scores for other, score in each if other == name]
        ratios[name] = float(np.sqrt(np.mean(np.concatenate([score.ravel() for score in mine]) ** 2)))
        pvalues += normal_pvalues(name, mine, (blocks or {}).get(name))
    for each in scores:
        vectors = [score for _, score in each]
        pvalues.append(("every call is independent of the one before", _products(pairwise(vectors))))
    for one, other in pairwise(scores):
        pairs = [(a, b) for (_, a), (_, b) in zip(one, other, strict=False)]
        pvalues.append(("runs are independent of each other", _products(pairs)))
    assert_all(pvalues)
    return ratios


def normal_pvalues(name: str, scores: Sequence[AnyArray], blocks: int | None = None) -> list[tuple[str, float]]:
    """Whether the scores of one mechanism, call by call, are independent standard normals: p-values with their names.

    `blocks` is the number of parts of a call that are compared; by default the first axis, or halves.
    """
    flat = np.concatenate([score.ravel() for score in scores])
    ratio = float(np.sqrt(np.mean(flat**2)))
    pvalues = [
        (f"{name}: variance (std ratio {ratio:.4f})", chi_square(flat)),
        (f"{name}: mean", float(2 * ndtr(-abs(flat.sum()) / np.sqrt(flat.size)))),
        (f"{name}: normal distribution", float(stats.kstest(flat, "norm").pvalue)),
    ]
    by_shape: dict[tuple[int, ...], list[AnyArray]] = defaultdict(list)
    for score in scores:
        by_shape[score.shape].append(score.ravel())
    for stacked in map(np.stack, by_shape.values()):
        pvalues.append((f"{name}: every coordinate", _worst_coordinate(stacked)))
    pvalues.append((f"{name}: independent of the previous run of it", _products(pairwise(scores))))
    cut = [_in_blocks(score, blocks) for score in scores]
    pairs = [(a, b) for parts in cut for a, b in pairwise(parts)]
    pvalues.append((f"{name}: blocks are independent of each other", _products(pairs)))
    return pvalues


def _scores(
    run: Run,
    records: Records,
    randomness: Randomness,
    points: np.random.Generator,
    allowance: Sequence[Mechanism] | None,
) -> list[tuple[str, AnyArray]]:
    """Residuals of one run as standard normal scores."""
    gateway = TraceGateway(records, randomness=randomness, allowance=allowance)
    run(gateway)
    scores = []
    for call, query, exact, noisy in zip(gateway.calls, gateway.queries, gateway.exact, gateway.tape, strict=True):
        if isinstance(query, ThresholdQuery):
            continue  # released sums are truncated at the threshold; their noise is tested with the mechanism
        residual = (noisy.double() - exact.double()).cpu().numpy()
        std = call.noise * call.sensitivity
        if query.grid is not None:
            units = np.rint(residual / query.grid)
            on_grid = np.allclose(units * query.grid, residual, rtol=0, atol=1e-6 * query.grid)
            require(on_grid, f"{call.name}: a released value is off its grid")
            scores.append((call.name, integer_scores(units, std / query.grid, points)))
        else:
            scores.append((call.name, residual / std))
    return scores


def integer_scores(units: AnyArray, std: float, points: np.random.Generator) -> AnyArray:
    """Exactly normal scores of integers round(N(0, std²)): quantiles of a uniform point in each one's interval."""
    point = points.random(units.shape)
    size = np.abs(units)
    low, high = ndtr(-(size + 0.5) / std), ndtr(-(size - 0.5) / std)  # in the lower tail, where ndtr is accurate
    tail = np.maximum(low + point * (high - low), 1e-300)
    return -ndtri(tail) * np.where(units == 0, 1, np.sign(units))


def chi_square(scores: AnyArray) -> float:
    """Two-sided p-value of the sum of squares of standard normal scores."""
    total = float(np.sum(scores**2))
    return 2 * min(stats.chi2.cdf(total, scores.size), stats.chi2.sf(total, scores.size))


def _worst_coordinate(stacked: AnyArray) -> float:
    """The smallest p-value over coordinates times their number (Bonferroni); `stacked` has one row per call."""
    totals = np.sum(stacked**2, axis=0)
    tails = np.minimum(stats.chi2.cdf(totals, len(stacked)), stats.chi2.sf(totals, len(stacked)))
    return float(np.min(tails) * 2 * totals.size)


def _products(pairs: Iterable[tuple[AnyArray, AnyArray]]) -> float:
    """The p-value of independence of pairs (a, b): given a, <a, b> / ||a|| is exactly N(0, 1)."""
    products = []
    for a, b in pairs:
        size = min(a.size, b.size)
        a, b = a.ravel()[:size], b.ravel()[:size]
        if np.any(a):
            products.append(float(a @ b / np.linalg.norm(a)))
    return chi_square(np.array(products)) if products else 1.0


def _in_blocks(score: AnyArray, blocks: int | None) -> list[AnyArray]:
    if blocks is None:
        blocks = score.shape[0] if score.ndim >= 2 else 2
    return [part for part in np.array_split(score.ravel(), blocks) if part.size]


def assert_all(pvalues: Sequence[tuple[str, float]]) -> None:
    """No p-value is below the false-alarm rate divided by their number."""
    failed = [f"{what}: p = {p:.1e}" for what, p in pvalues if not p >= FALSE_ALARM / len(pvalues)]
    require(not failed, "; ".join(failed))


def log_probability(units: AnyArray, std: float) -> AnyArray:
    """Log P(round(N(0, std²)) = units), accurate in the tails."""
    size = np.abs(units)
    high, low = log_ndtr(-(size - 0.5) / std), log_ndtr(-(size + 0.5) / std)
    return high + np.log1p(-np.exp(low - high))


def assert_sampler_law(
    draw: Callable[[int], AnyArray], rows: int, rate: float, *, steps: int = 200
) -> tuple[float, float]:
    """`draw(step)` returns sorted row numbers of a Poisson sample; returns the ratios of rate and size variance.

    It tests the rate, the variance of the sample size, the rate of every row, the rate of neighbouring rows together
    and of the same row in consecutive steps. Choose rows x rate x steps of at least 10,000.
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
