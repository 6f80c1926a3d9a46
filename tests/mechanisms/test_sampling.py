import contextlib
import os
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from dpgm.errors import UsageError
from dpgm.mechanisms import sampling
from dpgm.mechanisms.randomness import SeededRandomness, SystemRandomness
from dpgm.mechanisms.sampling import ROWS_PER_STREAM, Coins, poisson_sample
from dpgm.testing import assert_sampler_law


def draw(rows, rate, seed=0):
    source = SeededRandomness(seed)
    return lambda step: poisson_sample(rows, rate, step=step, randomness=source)


@pytest.mark.parametrize(
    ("rows", "rate", "steps"),
    [(5000, 0.02, 400), (200_000, 0.001, 200), (100, 0.5, 500), (300, 0.97, 200), (70_000, 0.3, 100)],
)
def test_the_sample_is_a_poisson_sample(rows, rate, steps):
    ratio, spread = assert_sampler_law(draw(rows, rate), rows, rate, steps=steps)
    assert ratio == pytest.approx(1, abs=0.05)
    assert spread == pytest.approx(1, abs=0.6)


def test_the_operating_systems_coins_are_fair():
    source = SystemRandomness()
    assert_sampler_law(lambda step: poisson_sample(5000, 0.02, step=step, randomness=source), 5000, 0.02)


def test_tiny_rates_are_exact():
    # Ten billion coins at 1e-7: a rate of 1.2e-7, as 24-bit uniforms would give, is 6 deviations away.
    sizes = [len(draw(10**9, 1e-7, seed)(0)) for seed in range(10)]
    assert stats.binomtest(sum(sizes), 10**10, 1e-7).pvalue > 1e-6


def test_the_first_row_of_a_gap_decides_like_a_coin_of_64_bits():
    for rate in (1e-7, 2.2e-5, 0.0017, 0.3):
        limit = int(rate * 2**64)
        words = np.array([0, limit - limit // 10**11, limit + limit // 10**11], dtype=np.uint64)
        assert (sampling._gaps(words, rate) == 0).tolist() == [True, True, False]
    assert sampling._gaps(np.array([2**64 - 1], dtype=np.uint64), 1e-9) == ROWS_PER_STREAM


@pytest.mark.parametrize("rate", [1e-4, 0.01, 0.7])
def test_the_sample_does_not_depend_on_the_ranks(rate):
    rows = 3 * ROWS_PER_STREAM + 1234
    whole = draw(rows, rate)(5)
    for cuts in (
        [0, rows],
        [0, 1, ROWS_PER_STREAM, rows],
        [0, 50_000, 50_000, 100_000, 2 * ROWS_PER_STREAM + 1, rows],
    ):
        parts = [
            poisson_sample(stop - first, rate, step=5, randomness=SeededRandomness(0), first_row=first) + first
            for first, stop in pairwise(cuts)
        ]
        assert np.array_equal(np.concatenate(parts), whole)


def test_a_later_round_continues_where_the_first_stopped(monkeypatch):
    rows, rate = 3 * ROWS_PER_STREAM, 0.01
    whole = draw(rows, rate)(1)
    # Pretend that six deviations are none: most blocks then need further rounds.
    monkeypatch.setattr(sampling.math, "sqrt", lambda _: -1.0)
    assert np.array_equal(draw(rows, rate)(1), whole)


def test_rate_one_is_everybody_and_no_rows_are_nobody():
    assert np.array_equal(draw(10, 1.0)(0), np.arange(10))
    assert draw(0, 1.0)(0).size == 0
    assert draw(0, 0.5)(0).size == 0


def test_steps_differ():
    sampler = draw(10_000, 0.1)
    assert not np.array_equal(sampler(0), sampler(1))


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, float("nan")])
def test_rates_outside_the_unit_interval_are_refused(rate):
    with pytest.raises(UsageError, match="rate"):
        draw(10, rate)(0)


@pytest.mark.parametrize(
    ("rows", "rate", "first"),
    [
        (5000, 0.02, 0),
        (3 * ROWS_PER_STREAM + 7, 1e-3, 0),
        (1000, 0.3, ROWS_PER_STREAM - 500),
        (0, 0.5, 0),
        (50, 1.0, 0),
        (70_000, 0.9, 3),
    ],
)
def test_coins_drawn_ahead_are_the_coins_of_the_step(rows, rate, first):
    coins, source = Coins(rows, SeededRandomness(2), first), SeededRandomness(2)
    # Steps in order, one step again, a jump, and another rate in between.
    for step, share in [*((t, rate) for t in range(40)), (3, rate), (1000, rate), (1001, rate / 2), (1002, rate)]:
        alone = poisson_sample(rows, share, step=step, randomness=source, first_row=first)
        assert np.array_equal(coins.sample(step, share), alone)


def test_a_later_round_of_many_steps_keeps_them_apart(monkeypatch):
    rows, rate = 2 * ROWS_PER_STREAM, 64 / ROWS_PER_STREAM
    alone = [draw(rows, rate)(step) for step in range(5)]
    monkeypatch.setattr(sampling.math, "sqrt", lambda _: -1.0)
    coins = Coins(rows, SeededRandomness(0))
    assert coins._steps_at_once(rate) > 5
    for step, sample in enumerate(alone):
        assert np.array_equal(coins.sample(step, rate), sample)


def test_a_forked_child_draws_its_own_coins(monkeypatch):
    coins = Coins(10_000, SystemRandomness())
    coins.sample(0, 0.01)
    waiting = coins._drawn[1, 0.01]
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    assert not np.array_equal(coins.sample(1, 0.01), waiting)


def test_a_forked_child_does_not_wait_for_its_parents_thread(monkeypatch):
    coins = Coins(2_000_000, SystemRandomness())
    given = [coins.sample(step, 0.5) for step in range(3)]  # one step at a time, the next by a thread
    assert coins._coming is not None
    waiting = coins._coming[2].result()[3, 0.5]
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    assert not np.array_equal(coins.sample(3, 0.5), waiting)
    assert coins._coming is None
    assert len({sample.tobytes() for sample in given}) == 3


def test_what_a_thread_draws_goes_wrong_where_it_is_asked_for(monkeypatch):
    coins = Coins(2_000_000, SeededRandomness(0))
    drawn = [coins.sample(step, 0.5) for step in range(2)]
    assert len(drawn) == 2
    monkeypatch.setattr(sampling, "poisson_samples", lambda *_, **__: 1 / 0)
    with contextlib.suppress(ZeroDivisionError):  # perhaps drawn before that
        coins.sample(2, 0.5)
    with pytest.raises(ZeroDivisionError):
        coins.sample(3, 0.5)
