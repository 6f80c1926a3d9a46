"""Checks that a stage of the pipeline applies to itself; together they execute the privacy proof.

Each takes `run(gateway) -> state`: a function that runs the stage against a gateway and returns everything it
made, internal state included (nested dicts, lists, dataclasses, tensors, arrays, strings, numbers).

- `assert_playback_invariant`  PB: the state is a function of the noisy values alone.
- `assert_bounded`             CS: one more record moves every query by at most its declared sensitivity.
- `assert_coin_off`            CO: a record whose coin is 0 moves no query on the sample.
- `assert_noise_law`           P3: the noise has the declared law, everywhere, independently.
- `assert_sampler_law`         P4: the sample is a true Poisson sample at the public rate.

Failures raise AssertionError and say which call. The statistical checks fail a correct build with probability
below 1e-6; the deterministic ones never.

    from checks import assert_playback_invariant, assert_bounded
    assert_playback_invariant(run, [records, other_records])
    assert assert_bounded(run, records, one_record) >= 0.99
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy import stats
from scipy.special import log_ndtr, ndtr, ndtri

from dpgm.data.records import Records, concatenate
from dpgm.mechanisms.gateway import Call, Gateway, PlaybackGateway, TraceGateway
from dpgm.mechanisms.randomness import Randomness, SeededRandomness
from dpgm.mechanisms.threshold import ThresholdQuery
from dpgm.privacy.events import Mechanism

Run = Callable[[Gateway], Any]
FALSE_ALARM = 1e-6


# -- PB ---------------------------------------------------------------------------------------------------------


def assert_playback_invariant(
    run: Run,
    datasets: Sequence[Records],
    *,
    tapes: int = 3,
    seed: int = 0,
    allowance: Sequence[Mechanism] | None = None,
    with_empty: bool = True,
) -> None:
    """One tape, no data or any data: the same state, bit for bit.

    The tape is recorded on datasets[0]; the run is repeated without data, and, the tape still answering, on
    every other data set and (with_empty) on no rows at all. Pass data sets of different sizes.
    """
    others = [*datasets, datasets[0].rows(0, 0)] if with_empty else list(datasets)
    for number in range(seed, seed + tapes):
        traced = TraceGateway(datasets[0], randomness=SeededRandomness(number), allowance=allowance)
        wanted = run(traced)
        assert traced.calls, "the run released nothing, so there is nothing to check"
        played = PlaybackGateway(traced.tape, randomness=SeededRandomness(number), allowance=allowance)
        _assert_same(wanted, run(played), "without data")
        assert played.calls == traced.calls, "the list of calls differs without data"
        for index, records in enumerate(others):
            again = TraceGateway(
                records, randomness=SeededRandomness(number), tape=traced.tape, allowance=allowance
            )
            _assert_same(wanted, run(again), f"on data set {index}")
            assert again.calls == traced.calls, f"the list of calls differs on data set {index}"


def _assert_same(wanted: Any, got: Any, where: str) -> None:
    found = differences(wanted, got)
    assert not found, f"the state differs {where}, though the noisy values are the same: {', '.join(found[:8])}"


def differences(a: Any, b: Any, path: str = "state") -> list[str]:
    """Paths at which two states differ in any bit."""
    if type(a) is not type(b):
        return [f"{path} (type)"]
    if isinstance(a, torch.Tensor):
        a, b = a.detach().cpu(), b.detach().cpu()
        if a.dtype != b.dtype or a.shape != b.shape:
            return [f"{path} (shape or dtype)"]
        bits = [each.contiguous().reshape(-1).view(torch.uint8) for each in (a, b)]
        return [] if torch.equal(*bits) else [path]
    if isinstance(a, (np.ndarray, np.generic)):
        same = a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        return [] if same else [path]
    if isinstance(a, torch.Generator):
        return differences(a.get_state(), b.get_state(), path)
    if dataclasses.is_dataclass(a):
        names = [field.name for field in dataclasses.fields(a)]
        return [
            found for name in names for found in differences(getattr(a, name), getattr(b, name), f"{path}.{name}")
        ]
    if isinstance(a, Mapping):
        if list(a) != list(b):
            return [f"{path} (keys)"]
        return [found for key in a for found in differences(a[key], b[key], f"{path}[{key!r}]")]
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return [f"{path} (length)"]
        return [
            found for i, pair in enumerate(zip(a, b, strict=True)) for found in differences(*pair, f"{path}[{i}]")
        ]
    if isinstance(a, (str, bytes, bytearray, int, type(None))):
        return [] if a == b else [path]
    if isinstance(a, (float, complex)):
        return [] if repr(a) == repr(b) else [path]
    if hasattr(a, "__dict__"):
        return differences(vars(a), vars(b), path)
    raise TypeError(f"cannot compare {type(a).__name__} at {path}; return plain values")


# -- CS and CO ----------------------------------------------------------------------------------------------------


def sensitivity_ratios(
    run: Run,
    records: Records,
    record_to_add: Records,
    *,
    seed: int = 0,
    rounding: float = 0.0,
    allowance: Sequence[Mechanism] | None = None,
) -> dict[str, float]:
    """For every release by name, the largest ||exact(D) - exact(D + x)|| / sensitivity; x is always sampled.

    `rounding` x ||exact|| is taken off the distance: float32 sums of many rows differ in their last bits
    whatever the code does (2e-7 to 1e-6 is right for them; integers need none).
    """
    without, with_it = _neighbours(run, records, record_to_add, True, seed, allowance)
    ratios: dict[str, float] = defaultdict(float)
    for at, (call, a, b) in enumerate(zip(with_it.calls, without.exact, with_it.exact, strict=True)):
        if at in with_it.vocabularies:  # sums over a private vocabulary: a value that is not there has the sum 0
            a, b = _by_value(without.vocabularies[at], a), _by_value(with_it.vocabularies[at], b)
            values = sorted({*a, *b}, key=repr)
            a, b = (torch.tensor([sums.get(value, 0.0) for value in values]) for sums in (a, b))
        assert a.shape == b.shape, f"{call.name}: one more record changes the shape"
        a, b = a.double(), b.double()
        distance = torch.linalg.vector_norm(a - b).item() - rounding * torch.linalg.vector_norm(a).item()
        assert distance == distance, f"{call.name}: one more record makes the exact value not finite"
        ratios[call.name] = max(ratios[call.name], distance / call.sensitivity)
    return dict(ratios)


def _by_value(vocabulary: Sequence[Any], sums: torch.Tensor) -> dict[Any, float]:
    return dict(zip(vocabulary, sums.tolist(), strict=True))


def assert_bounded(
    run: Run,
    records: Records,
    record_to_add: Records,
    *,
    seed: int = 0,
    tolerance: float = 1e-6,
    rounding: float = 0.0,
    allowance: Sequence[Mechanism] | None = None,
) -> float:
    """Same tape, same coins, D and D + x: no query moves by more than its sensitivity. Returns the largest ratio."""
    ratios = sensitivity_ratios(run, records, record_to_add, seed=seed, rounding=rounding, allowance=allowance)
    for name, ratio in ratios.items():
        assert ratio <= 1 + tolerance, f"{name}: one record moves it by {ratio:.6f} x the declared sensitivity"
    return max(ratios.values())


def assert_coin_off(
    run: Run,
    records: Records,
    record_to_add: Records,
    *,
    seed: int = 0,
    allowance: Sequence[Mechanism] | None = None,
) -> None:
    """A record that is not in the sample moves no query on the sample by a single bit."""
    without, with_it = _neighbours(run, records, record_to_add, False, seed, allowance)
    sampled = 0
    for call, a, b in zip(with_it.calls, without.exact, with_it.exact, strict=True):
        if call.sample is not None and call.sampling_rate < 1:
            sampled += 1
            assert torch.equal(a, b), f"{call.name}: a record outside the sample moves it"
    assert sampled, "the run made no release on a Poisson sample"


def _neighbours(
    run: Run,
    records: Records,
    extra: Records,
    sampled: bool,
    seed: int,
    allowance: Sequence[Mechanism] | None,
) -> tuple[TraceGateway, TraceGateway]:
    """Traces of D and D + x under one tape and one set of coins; x is the last row."""
    assert len(extra) == 1, "exactly one record is added"
    rows = len(records)

    def coins(step: int, rate: float, total: int) -> np.ndarray:
        if rate >= 1:
            return np.arange(total)
        drawn = np.flatnonzero(np.random.default_rng([seed, step]).random(rows) < rate)
        return np.append(drawn, rows) if sampled and total > rows else drawn

    without = TraceGateway(
        records,
        randomness=SeededRandomness(seed),
        coins=lambda step, rate: coins(step, rate, rows),
        allowance=allowance,
    )
    run(without)
    with_it = TraceGateway(
        concatenate([records, extra]),
        randomness=SeededRandomness(seed),
        coins=lambda step, rate: coins(step, rate, rows + 1),
        tape=without.tape,
        allowance=allowance,
    )
    run(with_it)
    assert without.calls, "the run released nothing, so there is nothing to check"
    assert without.calls == with_it.calls, "one more record changes the list of calls: " + _first_difference(
        without.calls, with_it.calls
    )
    for name, column in without._kept.items():
        _assert_record_wise(name, column, with_it._kept[name], rows)
    return without, with_it


def _assert_record_wise(name: str, column: Any, longer: Any, rows: int) -> None:
    """A kept column has one entry a record, which no other record moves (floats: but for rounding)."""
    if not isinstance(column, (torch.Tensor, np.ndarray)) or (len(column), len(longer)) != (rows, rows + 1):
        return
    a, b = torch.as_tensor(column), torch.as_tensor(longer[:rows])
    same = torch.allclose(a, b, rtol=1e-4, atol=1e-5) if a.is_floating_point() else torch.equal(a, b)
    assert same, f"the kept column {name!r} is not record-wise: one more record changes the others' entries"


def _first_difference(a: Sequence[Call], b: Sequence[Call]) -> str:
    for one, other in zip(a, b, strict=False):
        if one != other:
            return f"{one} against {other}"
    return f"{len(a)} calls against {len(b)}"


# -- P3 -----------------------------------------------------------------------------------------------------------


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

    Variance, Kolmogorov-Smirnov, variance of every coordinate, correlation with the previous run of the same
    call, with the call before, between blocks of one call (`blocks` by name; by default the first axis, or
    halves) and between whole runs. At least `least` residuals are wanted in all: more find smaller faults.
    `randomness` makes the source of each run; by default seeded, a new seed each.
    """
    seeds = iter(range(seed, seed + runs))
    make = randomness if randomness is not None else (lambda: SeededRandomness(next(seeds)))
    points = np.random.default_rng(seed)
    scores = [_scores(run, records, make(), points, allowance) for _ in range(runs)]
    names = sorted({name for each in scores for name, _ in each})
    assert names, "the run released nothing, so there is nothing to check"
    total = sum(score.size for each in scores for _, score in each)
    assert total >= least, f"only {total} residuals; raise runs or releases to reach {least}"
    pvalues: list[tuple[str, float]] = []
    ratios = {}
    for name in names:
        mine = [score for each in scores for other, score in each if other == name]
        flat = np.concatenate([score.ravel() for score in mine])
        ratios[name] = float(np.sqrt(np.mean(flat**2)))
        pvalues.append((f"{name}: variance (std ratio {ratios[name]:.4f})", _chi_square(flat)))
        pvalues.append((f"{name}: normal law", _kolmogorov(flat)))
        by_shape: dict[tuple[int, ...], list[np.ndarray]] = defaultdict(list)
        for score in mine:
            by_shape[score.shape].append(score.ravel())
        for stacked in map(np.stack, by_shape.values()):
            pvalues.append((f"{name}: every coordinate", _worst_coordinate(stacked)))
        pvalues.append((f"{name}: independent of the previous run of it", _products(pairwise(mine))))
        cut = [_in_blocks(score, (blocks or {}).get(name)) for score in mine]
        pairs = [(a, b) for parts in cut for a, b in pairwise(parts)]
        pvalues.append((f"{name}: blocks are independent of each other", _products(pairs)))
    for each in scores:
        vectors = [score for _, score in each]
        pvalues.append(("every call is independent of the one before", _products(pairwise(vectors))))
    for one, other in pairwise(scores):
        pairs = [(a, b) for (_, a), (_, b) in zip(one, other, strict=False)]
        pvalues.append(("runs are independent of each other", _products(pairs)))
    _assert_all(pvalues)
    return ratios


def _scores(
    run: Run,
    records: Records,
    randomness: Randomness,
    points: np.random.Generator,
    allowance: Sequence[Mechanism] | None,
) -> list[tuple[str, np.ndarray]]:
    """Residuals of one run as standard normal scores."""
    gateway = TraceGateway(records, randomness=randomness, allowance=allowance)
    run(gateway)
    scores = []
    for call, query, exact, noisy in zip(gateway.calls, gateway.queries, gateway.exact, gateway.tape, strict=True):
        if isinstance(query, ThresholdQuery):
            continue  # what leaves is cut at the threshold; its noise is tested with the mechanism
        residual = (noisy.double() - exact.double()).cpu().numpy()
        std = call.noise * call.sensitivity
        if query.grid is not None:
            units = np.rint(residual / query.grid)
            assert np.allclose(units * query.grid, residual, rtol=0, atol=1e-6 * query.grid), (
                f"{call.name}: a released value is off its grid"
            )
            scores.append((call.name, _integer_scores(units, std / query.grid, points)))
        else:
            scores.append((call.name, residual / std))
    return scores


def _integer_scores(units: np.ndarray, std: float, points: np.random.Generator) -> np.ndarray:
    """Integers round(N(0, std²)) as exact normal scores: a uniform point of the probability of each integer."""
    point = points.random(units.shape)
    size = np.abs(units)
    low, high = ndtr(-(size + 0.5) / std), ndtr(-(size - 0.5) / std)  # of |units|, on the accurate side
    tail = np.maximum(low + point * (high - low), 1e-300)
    return -ndtri(tail) * np.where(units == 0, 1, np.sign(units))


def _chi_square(scores: np.ndarray) -> float:
    total = float(np.sum(scores**2))
    return 2 * min(stats.chi2.cdf(total, scores.size), stats.chi2.sf(total, scores.size))


def _kolmogorov(scores: np.ndarray) -> float:
    return float(stats.kstest(scores, "norm").pvalue)


def _worst_coordinate(stacked: np.ndarray) -> float:
    """Smallest p-value over coordinates, times their number; one row a call."""
    totals = np.sum(stacked**2, axis=0)
    tails = np.minimum(stats.chi2.cdf(totals, len(stacked)), stats.chi2.sf(totals, len(stacked)))
    return float(np.min(tails) * 2 * totals.size)


def _products(pairs: Iterable[tuple[np.ndarray, np.ndarray]]) -> float:
    """Given a, <a, b> / ||a|| is exactly N(0, 1) when b is independent of a; so their squares add to a chi-square."""
    products = []
    for a, b in pairs:
        size = min(a.size, b.size)
        a, b = a.ravel()[:size], b.ravel()[:size]
        if np.any(a):
            products.append(float(a @ b / np.linalg.norm(a)))
    return _chi_square(np.array(products)) if products else 1.0


def _in_blocks(score: np.ndarray, blocks: int | None) -> list[np.ndarray]:
    if blocks is None:
        blocks = score.shape[0] if score.ndim >= 2 else 2
    return [part for part in np.array_split(score.ravel(), blocks) if part.size]


def _assert_all(pvalues: Sequence[tuple[str, float]]) -> None:
    """No p-value below the false alarm rate shared among all of them."""
    failed = [f"{what}: p = {p:.1e}" for what, p in pvalues if not p >= FALSE_ALARM / len(pvalues)]
    assert not failed, "; ".join(failed)


# -- P4 -----------------------------------------------------------------------------------------------------------


def assert_sampler_law(
    draw: Callable[[int], np.ndarray], rows: int, rate: float, *, steps: int = 200
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
        assert np.all(np.diff(sample) > 0), "a sample must be sorted, without repetitions"
        assert sample.size == 0 or (sample[0] >= 0 and sample[-1] < rows), "a sampled row does not exist"
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
        pvalues.append((f"variance of the sample size (ratio {spread:.4f})", _chi_square(scores)))
    _assert_all(pvalues)
    return float(sizes.sum() / (rows * rate * steps)), spread


def _binomial(count: Any, trials: int, rate: float) -> Any:
    """Two-sided p-value of a binomial count."""
    tails = np.minimum(stats.binom.cdf(count, trials, rate), stats.binom.sf(np.asarray(count) - 1, trials, rate))
    return np.minimum(1.0, 2 * tails)


def log_probability(units: np.ndarray, std: float) -> np.ndarray:
    """log P(round(N(0, std²)) = units), accurate in the tails."""
    size = np.abs(units)
    high, low = log_ndtr(-(size - 0.5) / std), log_ndtr(-(size + 0.5) / std)
    return high + np.log1p(-np.exp(low - high))
