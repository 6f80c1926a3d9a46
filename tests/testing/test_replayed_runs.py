"""A small stage that is correct passes every check; each planted fault is caught by the check named beside it.

The stage is private training in miniature: noisy item counts, two models told apart by released centres, steps on
Poisson samples with a norm histogram, an adaptive bound, clipped sums, momentum and chains.
"""

import math

import numpy as np
import pytest
import torch

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import DpgmError
from dpgm.mechanisms import gateway as gateway_module
from dpgm.mechanisms.gaussian import add_noise
from dpgm.mechanisms.norm_bound import AdaptiveNormBound, norm_edges, norm_histogram, norm_query
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import SeededRandomness, SystemRandomness
from dpgm.mechanisms.sampling import poisson_sample
from dpgm.testing import (
    assert_bounded,
    assert_coin_off,
    assert_noise_law,
    assert_playback_invariant,
    assert_sampler_law,
    sensitivity_ratios,
)

ITEMS, STEPS, RATE = 6, 30, 0.3
WIDTH = 50
EDGES = norm_edges(bins=8, low=0.25, high=2.0)
GRID = 1 / 1024


def some_records(seed, rows=50):
    dense = np.random.default_rng(seed).random((rows, ITEMS)) < 0.4
    dense[dense.all(axis=1), 0] = False  # full records are special, see `gradients`
    return Records.from_dense(dense, Domain.of_items(ITEMS))


def one_record(*items):
    return Records.from_lists([items], Domain.of_items(ITEMS))


def run_with(fault=None):
    return lambda gateway: _run(gateway, fault)


def _run(gateway, fault):
    generator = gateway.randomness.draws()
    leak = {"rows": 1, "counts": torch.zeros(ITEMS, dtype=torch.int64), "norms": torch.zeros(8, dtype=torch.int64)}
    rows = _dense(gateway._records) if gateway._records is not None else torch.zeros(0, ITEMS)

    def item_counts(view):
        dense = _dense(view.records)
        lengths = torch.linalg.vector_norm(dense, dim=1, keepdim=True).clamp(min=1e-9)
        bound = 1.4 if fault == "features of norm 1.4" else 1.0
        leak["counts"] = torch.trunc(dense * (bound / lengths).clamp(max=1.0) / GRID).to(torch.int64).sum(0)
        return leak["counts"].clone()

    counts = gateway.release("counts", Query(item_counts, 1.0, (ITEMS,), grid=GRID), 5.0)
    centres = torch.randn(2, ITEMS, generator=generator, dtype=torch.float64)
    chains = torch.rand(3, ITEMS, generator=generator, dtype=torch.float64)
    if fault == "centres from rows" and len(rows) > 1:
        centres = rows[:2].clone()
    if fault == "chains from rows" and len(rows) > 2:
        chains = rows[:3].clone()

    def clusters(records):
        dense = _dense(records)
        if fault == "clusters that depend on other rows" and len(dense):
            return ((dense.sum(1) + dense.sum()) % 2).long()
        return (dense @ centres.T).argmax(1)

    gateway.keep("cluster", clusters)
    weights, momentum = torch.zeros(2, ITEMS, dtype=torch.float64), torch.zeros(2, ITEMS, dtype=torch.float64)
    limit = AdaptiveNormBound(EDGES, noise=4.0)

    def gradients(view):
        """Per record; a full record stands for one whose gradient overflows."""
        picked = view.sample
        dense = _dense(view.records)[picked]
        cluster = torch.as_tensor(view.kept["cluster"])[picked]
        each = dense - torch.sigmoid(weights)[cluster]
        return torch.where(
            dense.all(dim=1, keepdim=True) & (dense.sum(1, keepdim=True) > 0), math.nan, each
        ), cluster

    def norms(view):
        everybody = fault == "histogram over all rows"
        each, _ = gradients(
            type(view)(view.records, view.kept, np.arange(len(view.records))) if everybody else view
        )
        found = torch.linalg.vector_norm(each, dim=1)
        leak["norms"] = norm_histogram(found, EDGES)
        return found

    def clipped(view, bound):
        each, cluster = gradients(view)
        leak["rows"] = max(1, len(each))
        length = torch.linalg.vector_norm(each, dim=1)
        if fault == "norms in half precision":
            length = torch.linalg.vector_norm(each.half(), dim=1).double()
        weight = (bound / length.clamp(min=1e-9)).clamp(max=1.0)
        if fault == "no clipping":
            weight = torch.ones_like(weight)
        if fault == "averaged before clipping":
            weight = weight / leak["rows"] * 20
        if fault != "one bad gradient poisons the sum":
            each = torch.where(torch.isfinite(length)[:, None], each, 0.0)
            weight = torch.where(torch.isfinite(length), weight, 0.0)
        sums = torch.zeros(2, ITEMS, dtype=torch.float64).index_add_(0, cluster, each * weight[:, None])
        if fault == "record in two clusters":
            sums = sums + sums.flip(0)
        return sums

    for _ in range(STEPS):
        with gateway.poisson("step", RATE):
            histogram = gateway.release("norms", norm_query(norms, EDGES), 4.0)
            bound = limit.update(leak["norms"].double() if fault == "bound from the exact histogram" else histogram)
            query = Query(lambda view, bound=bound: clipped(view, bound), bound, (2, ITEMS))
            sums = gateway.release("gradients", query, 1.5)
        size = leak["rows"] if fault == "divided by the realised batch size" else RATE * 50
        momentum = 0.9 * momentum + sums / size
        weights = weights + 0.1 * momentum
        chains = 0.9 * chains + 0.1 * torch.sigmoid(weights[0]) + torch.rand(3, ITEMS, generator=generator)
    shown = leak["counts"].double() * GRID if fault == "true counts released" else counts
    return {
        "weights": weights,
        "momentum": momentum,
        "chains": chains,
        "counts": shown,
        "bound": limit.state(),
        "centres": centres,
    }


def _dense(records):
    return torch.as_tensor(records.to_dense(np.float64))


ADDED = [(), (0,), (1, 2), (0, 1, 2, 3, 4), (1, 2, 3, 4, 5), (0, 1, 2, 3, 4, 5)]


def check_bounds(run):
    return max(
        assert_bounded(run, some_records(1), one_record(*items), seed=seed) for seed, items in enumerate(ADDED)
    )


def check_playback(run):
    assert_playback_invariant(run, [some_records(1), some_records(2, 23)], tapes=2)


def check_noise(run):
    return assert_noise_law(run, some_records(1), runs=4)


def noisy_run(gateway):
    """Nothing but noise, and more of it: a histogram and the sums of two models at every step."""
    for _ in range(STEPS):
        gateway.release("norms", Query(lambda view: torch.zeros(8, dtype=torch.int64), 1.0, (8,), grid=1.0), 4.0)
        gateway.release("gradients", Query(lambda view: torch.zeros(2, WIDTH), 0.7, (2, WIDTH)), 1.5)


# -- the correct stage ------------------------------------------------------------------------------------------------


def test_a_correct_stage_passes_every_check():
    run = run_with()
    check_playback(run)
    assert 0.99 <= check_bounds(run) <= 1 + 1e-6
    assert_coin_off(run, some_records(1), one_record(0, 1))
    ratios = check_noise(run)
    assert set(ratios) == {"counts", "norms", "gradients"}
    assert ratios["gradients"] == pytest.approx(1, abs=0.1)
    ratios = sensitivity_ratios(run, some_records(1), one_record(*range(ITEMS)))
    assert ratios["norms"] == ratios["gradients"] == 0  # a gradient that is not finite contributes nothing


# -- faults of queries and of what follows them ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        "features of norm 1.4",
        "record in two clusters",
        "no clipping",
        "averaged before clipping",
        "one bad gradient poisons the sum",
        "norms in half precision",
        "clusters that depend on other rows",
    ],
)
def test_coupled_sensitivity_catches(fault):
    with pytest.raises(AssertionError, match=r"moves it by|not finite|not record-wise"):
        check_bounds(run_with(fault))


@pytest.mark.parametrize(
    "fault",
    [
        "centres from rows",
        "chains from rows",
        "true counts released",
        "bound from the exact histogram",
        "divided by the realised batch size",
    ],
)
def test_playback_catches(fault):
    with pytest.raises(AssertionError, match="differs"):
        check_playback(run_with(fault))


def test_coin_off_catches_a_query_on_rows_outside_the_sample():
    with pytest.raises(AssertionError, match="norms: a record outside the sample moves it"):
        assert_coin_off(run_with("histogram over all rows"), some_records(1), one_record(0, 1))


def test_coin_off_needs_a_sample():
    def unsampled(gateway):
        gateway.release("rows", Query(lambda view: torch.tensor([len(view.rows)]), 1.0, (1,), grid=1.0), 1.0)

    with pytest.raises(AssertionError, match="no release on a Poisson sample"):
        assert_coin_off(unsampled, some_records(1), one_record(0))


@pytest.mark.parametrize("check", [check_playback, check_bounds, check_noise])
def test_a_run_that_releases_nothing_is_not_a_pass(check):
    with pytest.raises(AssertionError, match="released nothing"):
        check(lambda gateway: {})


def test_a_list_of_calls_that_depends_on_the_rows_is_caught():
    def sometimes(gateway):
        gateway.release("rows", Query(lambda view: torch.tensor([len(view.rows)]), 1.0, (1,), grid=1.0), 1.0)
        if gateway._records is not None and len(gateway._records) > 50:
            gateway.release("rows", Query(lambda view: torch.tensor([0]), 1.0, (1,), grid=1.0), 1.0)

    with pytest.raises((AssertionError, DpgmError), match=r"list of calls|run out"):
        check_bounds(sometimes)
    with pytest.raises((AssertionError, DpgmError), match=r"list of calls|run out"):
        assert_playback_invariant(sometimes, [some_records(1, 60), some_records(2, 20)])


# -- faults of the noise ---------------------------------------------------------------------------------------------


def _scaled(factor, only=None):
    def mutant(exact, query, noise, randomness):
        hit = only is None or tuple(query.shape) == only
        return add_noise(exact, query, noise * factor if hit else noise, randomness)

    return mutant


def _without_a_quarter(exact, query, noise, randomness):
    before = exact.double().flatten() * (query.grid or 1.0)
    noisy = add_noise(exact, query, noise, randomness)
    spared = before.numel() // 4
    noisy.view(-1)[:spared] = before[:spared].to(noisy.dtype)
    return noisy


def _one_draw_for_both_models(exact, query, noise, randomness):
    if tuple(query.shape) != (2, WIDTH):
        return add_noise(exact, query, noise, randomness)
    drawn = add_noise(
        torch.zeros(WIDTH, dtype=exact.dtype), Query(None, query.sensitivity, (WIDTH,)), noise, randomness
    )
    return exact.add_(drawn)


def _drawn_once():
    kept = {}

    def mutant(exact, query, noise, randomness):
        if query.grid is not None:
            return add_noise(exact, query, noise, randomness)
        key = (id(randomness), tuple(query.shape))
        if key not in kept:
            kept[key] = add_noise(torch.zeros_like(exact), Query(None, 1.0, query.shape), noise, randomness)
        return exact.add_(kept[key] * query.sensitivity)

    return mutant


def _none_for_an_empty_model(exact, query, noise, randomness):
    before = exact.clone()
    noisy = add_noise(exact, query, noise, randomness)
    if tuple(query.shape) == (2, WIDTH):
        noisy[1] = torch.where((before[1] == 0).all(), before[1], noisy[1])
    return noisy


def _uniform(exact, query, noise, randomness):
    if query.grid is not None:
        return add_noise(exact, query, noise, randomness)
    words = torch.from_numpy(randomness.words(exact.numel()).astype(np.float64) * 2.0**-64 - 0.5)
    return exact.add_(words.reshape(exact.shape) * math.sqrt(12) * noise * query.sensitivity)


def _one_draw_for_a_whole_step(exact, query, noise, randomness):
    """The gradients' noise begins like the histogram's."""
    words = randomness.stream(9, 9, 9)

    class Repeating:
        private = False

        def fill(self, out):
            out[:] = words.words(len(out))

        def words(self, count):
            return words.words(count)

        def words_of_pieces(self, count):
            return [self] * count

    return add_noise(exact, query, noise, Repeating())


NOISE_FAULTS = {
    "all noise / sqrt 2": (_scaled(math.sqrt(0.5)), "variance"),
    "gradient noise / sqrt 2": (_scaled(math.sqrt(0.5), (2, WIDTH)), "gradients: variance"),
    "gradient noise 10 % low": (_scaled(0.9, (2, WIDTH)), "gradients: variance"),
    "noise twice, as per micro-batch": (_scaled(math.sqrt(2.0), (2, WIDTH)), "gradients: variance"),
    "histogram without noise": (_scaled(0.0, (8,)), "norms: variance"),
    "a quarter of the coordinates without noise": (_without_a_quarter, "every coordinate"),
    "one draw for both models": (_one_draw_for_both_models, "blocks are independent"),
    "no noise for an empty model": (_none_for_an_empty_model, "every coordinate"),
    "noise reused at every step": (_drawn_once(), "independent of the previous"),
    "uniform noise of the right variance": (_uniform, "normal distribution"),
    "one draw for a whole step": (_one_draw_for_a_whole_step, "independent of the one before"),
}


@pytest.mark.parametrize("fault", NOISE_FAULTS)
def test_the_noise_law_catches(fault, monkeypatch):
    mutant, symptom = NOISE_FAULTS[fault]
    monkeypatch.setattr(gateway_module, "add_noise", mutant)
    with pytest.raises(AssertionError, match=symptom):
        check_noise(noisy_run)


def test_a_quarter_without_noise_is_found_even_when_the_rest_makes_up_for_it(monkeypatch):
    def mutant(exact, query, noise, randomness):
        return _without_a_quarter(exact, query, noise * math.sqrt(4 / 3), randomness)

    monkeypatch.setattr(gateway_module, "add_noise", mutant)
    with pytest.raises(AssertionError, match=r"every coordinate"):
        check_noise(noisy_run)


def test_a_fixed_seed_shows_between_runs():
    with pytest.raises(AssertionError, match="runs are independent"):
        assert_noise_law(noisy_run, some_records(1), runs=4, randomness=lambda: SeededRandomness(0))


def test_the_operating_systems_noise_passes():
    assert_noise_law(noisy_run, some_records(1), runs=3, randomness=SystemRandomness)


def test_too_few_residuals_are_not_a_pass():
    with pytest.raises(AssertionError, match=r"only .* residuals"):
        assert_noise_law(noisy_run, some_records(1), runs=1, least=10**6)


def test_values_off_their_grid_are_caught(monkeypatch):
    def mutant(exact, query, noise, randomness):
        noisy = add_noise(exact, query, noise, randomness)
        return noisy + (query.grid or 0) / 3

    monkeypatch.setattr(gateway_module, "add_noise", mutant)
    with pytest.raises(AssertionError, match="off its grid"):
        check_noise(noisy_run)


# -- faults of the sampler ---------------------------------------------------------------------------------------------

ROWS, Q = 2000, 0.02


def _fixed_size(step, coins):
    return np.sort(coins.choice(ROWS, int(ROWS * Q), replace=False))


def _shuffled_epochs(step, coins):
    batches = int(1 / Q)
    order = np.random.default_rng(step // batches).permutation(ROWS)
    return np.sort(np.array_split(order, batches)[step % batches])


SAMPLERS = {
    "fixed-size batches": (_fixed_size, "variance of the sample size"),
    "shuffled epochs": (_shuffled_epochs, "variance of the sample size"),
    "q 10 % high": (lambda step, coins: np.flatnonzero(coins.random(ROWS) < 1.1 * Q), "rate"),
    "q doubled": (lambda step, coins: np.flatnonzero(coins.random(ROWS) < 2 * Q), "rate"),
    "one sample for ever": (
        lambda step, coins: np.flatnonzero(np.random.default_rng(0).random(ROWS) < Q),
        "own rate",
    ),
    "each sample used twice": (
        lambda step, coins: np.flatnonzero(np.random.default_rng(step // 2).random(ROWS) < Q),
        "consecutive",
    ),
    "neighbours together": (
        lambda step, coins: np.flatnonzero(np.repeat(coins.random(ROWS // 2) < Q, 2)),
        "neighbouring",
    ),
    "a tenth of the rows never": (
        lambda step, coins: np.flatnonzero((coins.random(ROWS) < Q / 0.9) & (np.arange(ROWS) % 10 > 0)),
        "own rate",
    ),
    "unsorted": (lambda step, coins: np.array([3, 1]), "sorted"),
    "a row too many": (lambda step, coins: np.array([ROWS]), "does not exist"),
}


@pytest.mark.parametrize("fault", SAMPLERS)
def test_the_sampler_law_catches(fault):
    sampler, symptom = SAMPLERS[fault]
    coins = np.random.default_rng(5)
    with pytest.raises(AssertionError, match=symptom):
        assert_sampler_law(lambda step: sampler(step, coins), ROWS, Q, steps=1500)


def test_the_sampler_law_passes_true_coins_and_the_product():
    coins, source = np.random.default_rng(5), SeededRandomness(5)
    assert_sampler_law(lambda _: np.flatnonzero(coins.random(ROWS) < Q), ROWS, Q, steps=1000)
    assert_sampler_law(lambda t: poisson_sample(ROWS, Q, step=t, randomness=source), ROWS, Q, steps=1000)
    assert assert_sampler_law(lambda _: np.arange(50), 50, 1.0, steps=10) == (1.0, 1.0)


@pytest.mark.slow
def test_a_million_residuals_and_coins_of_the_operating_system():
    """One per cent of the deviation, and of the rate, would show."""

    def wide(gateway):
        for _ in range(10):
            gateway.release("floats", Query(lambda view: torch.full((4, 25_000), 3.0), 0.7, (4, 25_000)), 1.3)
            gateway.release("integers", Query(lambda view: torch.arange(10_000), 2.0, (10_000,), grid=0.25), 1.1)

    ratios = assert_noise_law(wide, some_records(1), runs=2, randomness=SystemRandomness)
    print("std ratios", ratios)
    assert ratios["floats"] == pytest.approx(1, abs=5.5 * math.sqrt(0.5 / 2e6))
    source = SystemRandomness()
    ratio, spread = assert_sampler_law(
        lambda t: poisson_sample(100_000, 0.01, step=t, randomness=source), 100_000, 0.01, steps=1000
    )
    print("rate and variance ratios", ratio, spread)
    assert ratio == pytest.approx(1, abs=0.006)
